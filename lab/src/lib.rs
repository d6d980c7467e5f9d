//! The lab of flifo: measures, and shows what it measured.

pub mod published;
pub mod report;
pub mod results;
pub mod sampler;
pub mod statistics;
