#![doc = include_str!("../README.md")]
#![warn(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]

mod alarm;
mod config;
mod control;
mod extra;
mod gate;
mod hooks;
mod metrics;
mod quantum;
mod refused;
mod session;
mod shared;
mod stall;
mod sync;
mod tuner;
mod watchdog;

pub use flifo_auto::State as AutoState;

pub use crate::config::{Config, ConfigError, Policy, WaitKind, WaitMask};
pub use crate::metrics::{Snapshot, Times};
pub use crate::refused::Refused;
pub use crate::session::cancel::Canceller;
pub use crate::session::share::SharedSlot;
pub use crate::session::task::{Enter, TaskSlot};
pub use crate::session::{Class, Session, Slot};
pub use crate::shared::Admission;
/// The histograms of a [`Snapshot`].
pub use histogram;

#[cfg(test)]
mod models;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
