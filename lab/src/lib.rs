//! The lab of flifo.
pub mod clock;
pub mod engine;
pub mod error;
pub mod front;
pub mod workload;
