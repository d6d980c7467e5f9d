//! `flifo_engine::fuzz::live` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| flifo_engine::fuzz::live(data));
