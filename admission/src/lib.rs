//! Admission scheduling: at most `thread_concurrency` threads *inside* at a time.
#![warn(missing_docs)]

mod config;
mod facade;

pub use config::{Config, ConfigError, Policy, WaitKind, WaitMask};
pub use facade::{Admission, Place, Session};
