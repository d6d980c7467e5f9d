//! An admission scheduler: it keeps a server at its peak throughput, however many threads pile up.
//!
//! At most `thread_concurrency` threads are *inside* at a time. A thread that enters gets a *place* and
//! *tickets*: the engine entries it may make before it must ask again. A thread that leaves (its statement
//! ends, it waits for a lock or a disk, it sends a reply) hands its place to the head of a FIFO queue.
//!
//! FIFO alone wastes the time that the woken thread needs until it really runs. [`Policy::Flifo`] lets a
//! newcomer run at once, LIFO, while woken threads are still pending (published in 2009 for InnoDB).
//!
//! ```
//! use flifo_admission::{Admission, Config, Policy, WaitKind};
//!
//! let admission = Admission::new(Config {
//!     policy: Policy::Flifo,
//!     thread_concurrency: 4,
//!     ..Config::default()
//! })?;
//!
//! // One session per connection; it may move between threads, but serves one at a time.
//! let session = admission.session();
//! {
//!     let _place = session.place()?;        // queues if four threads are inside
//!     for _row in 0..1000 {
//!         session.enter()?;                 // a ticket: no atomic, about a nanosecond
//!     }
//!     session.wait_begin(WaitKind::Disk);   // the place goes to the head of the queue ...
//!     session.wait_end(WaitKind::Disk);     // ... and this thread is back at once, with one ticket
//! }                                         // leaves
//!
//! assert_eq!(admission.snapshot().inside, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Rooms
//!
//! | module | holds |
//! |---|---|
//! | `state` | the 64-bit word and its transitions, as pure functions |
//! | `queue` | the intrusive list of waiting nodes |
//! | `core` | the word and the queue together; free of parking and of time: it says whom to wake |
//! | `parker` | a futex word per node |
//! | `session` | the face for threads: tickets, parking, time |
//! | `delay` | the adaptive delay of [`Policy::Sleep`] |
//! | `metrics` | counters and histograms of time |
//! | `sync` | atomics and locks, or the model checker's |

#![warn(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]

mod admission;
mod asking;
mod cancel;
mod config;
mod core;
mod delay;
mod metrics;
mod parker;
mod quantum;
mod queue;
mod refusal;
mod rule;
mod session;
mod state;
mod sync;
mod task;
mod waiting;
mod waits;
mod watchdog;

pub use crate::admission::{Admission, Tenant};
pub use crate::cancel::Canceller;
pub use crate::config::{AutoLimit, Config, ConfigError, Policy, WaitKind, WaitMask};
pub use crate::metrics::Snapshot;
pub use crate::refusal::Refused;
pub use crate::session::{Class, Place, Session};
pub use crate::task::Enter;
/// The histograms of a [`Snapshot`].
pub use histogram;

#[cfg(test)]
mod models;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
