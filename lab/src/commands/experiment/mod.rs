//! `flifo experiment`: repeats a published study and compares its claims with this machine's figures.

pub mod args;
pub mod linux_io_2012;
