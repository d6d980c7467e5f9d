//! `flifo_engine::fuzz::catalog` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| flifo_engine::fuzz::catalog(data));
