//! A storage engine under admission control.
#![warn(missing_docs)]

pub mod disk;
mod error;
pub mod metrics;
mod wait;

pub use error::{Error, Result};
pub use wait::Waiter;
