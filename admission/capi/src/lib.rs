//! The C interface of the admission scheduler: `libflifo`, whose header `include/flifo.h` is generated from
//! these files by `make header`. [docs/c-api.md](../../../docs/c-api.md) is the page for its users.
//!
//! | module | holds |
//! |---|---|
//! | `status` | return codes, texts of errors, the wall that no panic passes |
//! | `names` | policies, kinds of wait, classes; versions |
//! | `config` | the plain struct of settings, and how it may grow |
//! | `handle` | 64-bit handles; a table of values behind a lock |
//! | `scheduler` | schedulers and tenants |
//! | `session` | the functions of a connection's hot path |
//! | `table` | where sessions live: slots that are found without a lock |
//! | `access` | who may use a session now |
//! | `owner` | where a thread that owns sessions marks its call |
//! | `fence` | a store and a load in order at the cost of one side only |
//! | `canceller` | ending a session's queueing from another thread |
//! | `snapshot` | counters and times as a plain struct, and as text |
//!
//! # What is safe against what
//!
//! - A handle is an index, a generation and a kind, never an address: any 64 bits are sound to pass.
//! - Sessions are used through `access`: two threads in one session at a time is an error, not a race.
//! - Everything that could panic runs under `catch_unwind`.
//! - What cannot be told: a pointer that is neither null nor valid, and text without its NUL.

// C's names.
#![allow(non_camel_case_types)]
#![warn(missing_docs)]

mod access;
mod fence;
mod owner;

// The model checker looks at these alone.
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
