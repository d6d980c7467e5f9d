//! `flifo experiment`: a published study run again, its claims beside what is measured here.

pub mod args;
pub mod linux_io_2012;
