//! Helpers of all layers: errors, output files, progress, limits of the system, formatting. Imports no layer.

pub mod clock;
pub mod error;
pub mod format;
pub mod interrupt;
pub mod limits;
pub(crate) mod mounts;
pub mod output;
pub mod progress;
pub mod size;
pub mod statistics;
