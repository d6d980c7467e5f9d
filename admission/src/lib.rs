//! An admission scheduler: keeps a server at its peak throughput, however many threads pile up.
//!
//! At most `thread_concurrency` threads run at once. A thread that enters acquires a *slot* and *tickets*: the engine entries it may make
//! before it must acquire a slot anew. A thread that exits (its statement ends, it waits for a lock or a disk, it sends a reply) hands its
//! slot off to the head of a FIFO queue.
//!
//! FIFO alone wastes the time that a woken thread needs until it really runs. The policies here let others run meanwhile:
//! [`Policy::Flifo`] as published in 2009 for InnoDB, and [`Policy::Quantum`], the default, with fewer context switches still.
//!
//! # Threads
//!
//! One [`Admission`] for all that compete for the same CPUs; one [`Session`] per connection.
//!
//! ```
//! use flifo_admission::{Admission, Config, WaitKind};
//!
//! let admission = Admission::new(Config { thread_concurrency: 4, ..Config::default() })?;
//!
//! // A session may move between threads, but serves one at a time.
//! let session = admission.session();
//! {
//!     let _slot = session.slot()?;          // queues if four threads are running
//!     for _row in 0..1000 {
//!         session.enter()?;                 // a ticket: no atomic, about a nanosecond
//!     }
//!     session.wait_begin(WaitKind::Disk);   // the slot goes to the next in the queue ...
//!     session.wait_end(WaitKind::Disk);     // ... and this thread is back at once, with one ticket
//! }                                         // exits: before the reply is sent
//!
//! assert_eq!(admission.snapshot().running, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Async tasks
//!
//! [`Session::slot_async`] queues without blocking the thread, under any runtime. Tasks and threads share one queue. A future that is
//! dropped, in the queue or while it runs, releases what it had, so timeouts and `select!` are safe.
//!
//! ```
//! use std::time::Duration;
//! use flifo_admission::{Admission, Config, Refused, Session, WaitKind};
//!
//! async fn statement(session: &mut Session) -> Result<(), Refused> {
//!     let mut slot = session.slot_async().await?;
//!     for _row in 0..1000 {
//!         slot.enter_async().await?;        // a ticket
//!     }
//!     // Releases the slot while it waits.
//!     slot.wait_for(WaitKind::Network, tokio::time::sleep(Duration::from_millis(1))).await;
//!     Ok(())                                // the guard is dropped: it exits
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let admission = Admission::new(Config { thread_concurrency: 4, ..Config::default() })?;
//!     let tasks: Vec<_> = (0..100)
//!         .map(|_| {
//!             let mut session = admission.session();
//!             tokio::spawn(async move {
//!                 tokio::time::timeout(Duration::from_secs(10), statement(&mut session)).await
//!             })
//!         })
//!         .collect();
//!     for task in tasks {
//!         task.await???;
//!     }
//!     assert_eq!(admission.snapshot().running, 0);
//!     Ok(())
//! }
//! ```
//!
//! # Waits
//!
//! A thread that waits must not keep others out. Declare its waits with [`Session::wait_begin`] and [`Session::wait_end`]: they nest, and
//! release the slot for the kinds in [`Config::wait_mask`]. `wait_end` never blocks, since its caller may hold latches: it enters by
//! force, and exits repay that. Where nothing is held, [`Session::wait_end_may_queue`] keeps to the limit. [`Config::io_depth`] bounds how
//! many sessions are in disk waits without a slot.
//!
//! A session that has run for [`Config::stall_limit`] while others queue, because its statement is long or it waits without saying so, loses
//! its slot to the next and goes on without one.
//!
//! # Who goes first
//!
//! A session that holds locks others may wait for is of [`Class::First`] ([`Session::set_class`]). It goes before the others, which are
//! promoted by age. [`Config::lock_waiters_max`] bounds the pile-up on hot rows.
//!
//! # Timeouts, bounds, cancellation
//!
//! By default nobody is refused. With [`Config::queue_timeout`], [`Config::queue_limit`], [`Session::enter_until`] or a [`Canceller`],
//! entering returns [`Refused`], which says why. A session that is refused holds no slot; its statement ends with that error.
//!
//! # Choosing a policy and a limit
//!
//! - [`Policy::Quantum`] unless you know better; [`Config::quantum`] trades throughput for the longest wait. [`Policy::Fifo`] where
//!   statements must go in order and are long against a wake-up. [`Policy::Flifo`] is as published: where newcomers never block, woken
//!   threads can starve under it. `docs/policies.md` in the repository has the comparison.
//! - A limit of about twice the CPUs to begin with, which is the default. Higher, if running threads wait for what is not declared; lower,
//!   if they dispute few locks. 0: no limit.
//! - [`Config::auto`] adapts the limit between two bounds.
//! - Everything can be changed while the server runs: [`Admission::reconfigure`], [`Admission::set_thread_concurrency`].
//!
//! # What to watch
//!
//! [`Admission::snapshot`] prints itself as a block of text; [`Snapshot::line`] is for a log, and [`Snapshot::since`] gives rates. The
//! `metrics` feature adds a `Publisher` for the facade of that name.
//!
//! | what | says |
//! |---|---|
//! | [`Snapshot::queued`] | more threads want to run than may: the limit is at work. 0 for long: the limit does nothing |
//! | [`Snapshot::queue_wait`] | what queueing costs a statement |
//! | [`Snapshot::slots_reclaimed`], [`Snapshot::stalls_broken`] | grow: long statements, or waits that are not declared |
//! | [`Snapshot::admitted_by_force`], [`Snapshot::running_max`] | far above the limit: waits end in bursts |
//! | [`Snapshot::gain_over_fifo_max`] | 1 + W/S: what letting others run during a wake-up can gain |
//! | [`Snapshot::refused`] | work that was turned away |
//!
//! # From C
//!
//! The crate `flifo-admission-c`, in `capi/`, is the same scheduler as a library with a C header.
//!
//! # Features
//!
//! | feature | default | what |
//! |---|---|---|
//! | `percpu` | yes | a slot that is released while nobody queues stays with its CPU, so that CPUs do not write one shared word |
//! | `reservation` | yes | [`Config::reserve_slots`] |
//! | `futex-hash` | yes | asks the kernel (Linux 6.17 and later) for more buckets in the process's futex hash as the queue grows |
//! | `metrics` | no | `Publisher` |
//!
//! # Limits
//!
//! - Linux: threads park on futexes.
//! - At most 130,815 sessions of one scheduler at a time, and a limit of at most 1,023.
//! - Within one process; a scheduler does not see what other processes do to the machine.
//! - Tasks: [`Config::queue_timeout`] is observed to a few milliseconds. A future that was leaked keeps its place in the queue until its
//!   session is dropped or queues again.

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

pub use crate::config::{AutoLimit, Config, ConfigError, Policy, WaitKind, WaitMask};
#[cfg(feature = "metrics")]
pub use crate::metrics::Publisher;
pub use crate::metrics::{Snapshot, Times};
pub use crate::refused::Refused;
pub use crate::session::cancel::Canceller;
pub use crate::session::task::{Enter, TaskSlot};
pub use crate::session::{Class, Session, Slot};
pub use crate::shared::Admission;
/// The histograms of a [`Snapshot`].
pub use histogram;

#[cfg(test)]
mod models;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
