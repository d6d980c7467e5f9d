//! The C interface of the admission scheduler: `libflifo`.
//!
//! `make header` generates `include/flifo.h` from these files. [docs/c-api.md](../../../docs/c-api.md) is the page for its
//! users.
//!
//! | module | holds |
//! |---|---|
//! | `status` | status codes, error texts, the catching of panics |
//! | `names` | policies, kinds of wait, classes; versions |
//! | `config` | the plain struct of settings, and how it may grow |
//! | `handle` | 64-bit handles; a table of values behind a lock |
//! | `scheduler` | schedulers |
//! | `session` | the functions of a connection's hot path |
//! | `table` | where sessions live: cells that are found without a lock |
//! | `access` | exclusive access to a session |
//! | `owner` | where a thread that owns sessions marks its call |
//! | `fence` | an asymmetric fence: only the rare side pays |
//! | `canceller` | ending a session's queueing from another thread |
//! | `snapshot` | counters and times as a plain struct and as text |
//!
//! # Safety
//!
//! - A handle is an index, a generation and a kind, never an address. A function accepts any 64 bits and returns an error.
//! - Sessions are used through `access`: two threads in one session at a time is an error, not a race.
//! - Code that could panic runs under `catch_unwind`.
//! - Not detected: a pointer that is neither null nor valid, and text without its NUL.
//!
//! # Lock order
//!
//! A session's `access` comes before the mutex of `owner`. No mutex of this crate is held while another is acquired or
//! while a function of the Rust crate runs.

// C's names.
#![allow(non_camel_case_types)]
#![warn(missing_docs)]

mod access;
mod fence;
mod owner;

// The model checker compiles only the modules above.
#[cfg(not(loom))]
mod canceller;
#[cfg(not(loom))]
mod config;
#[cfg(not(loom))]
mod handle;
#[cfg(not(loom))]
mod names;
#[cfg(not(loom))]
mod scheduler;
#[cfg(not(loom))]
mod session;
#[cfg(not(loom))]
mod snapshot;
#[cfg(not(loom))]
mod status;
#[cfg(not(loom))]
mod table;

#[cfg(not(loom))]
pub use self::{
    canceller::*, config::*, handle::*, names::*, scheduler::*, session::*, snapshot::*, status::*,
};
