//! Medians, spreads and paired ratios: those of `flifo-record`, which every bench uses.

pub use flifo_record::statistics::*;
