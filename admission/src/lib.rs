//! An admission scheduler: it keeps a server at its peak throughput, however many threads pile up.
//!
//! At most `thread_concurrency` threads are *inside* at a time. A thread that enters gets a *place* and
//! *tickets*: the engine entries it may make before it must ask again. A thread that leaves (its statement
//! ends, it waits for a lock or a disk, it sends a reply) makes room for the next in the queue.
//!
//! FIFO alone wastes the time that the woken thread needs until it really runs. The policies here let others
//! run meanwhile: [`Policy::Flifo`] as it was published in 2009 for InnoDB, [`Policy::Quantum`], the default,
//! with fewer switches still.
//!
//! # Threads
//!
//! One [`Admission`] for all that compete for the same processors; one [`Session`] per connection.
//!
//! ```
//! use flifo_admission::{Admission, Config, WaitKind};
//!
//! let admission = Admission::new(Config { thread_concurrency: 4, ..Config::default() })?;
//!
//! // It may move between threads, but serves one at a time.
//! let session = admission.session();
//! {
//!     let _place = session.place()?;        // queues if four threads are inside
//!     for _row in 0..1000 {
//!         session.enter()?;                 // a ticket: no atomic, about a nanosecond
//!     }
//!     session.wait_begin(WaitKind::Disk);   // the place goes to the next in the queue ...
//!     session.wait_end(WaitKind::Disk);     // ... and this thread is back at once, with one ticket
//! }                                         // leaves: before the reply is sent
//!
//! assert_eq!(admission.snapshot().inside, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Async tasks
//!
//! [`Session::place_async`] queues without blocking the thread, under any runtime. Tasks and threads share
//! one queue. A future that is dropped, in the queue or inside, gives back what it had, so timeouts and
//! `select!` are safe.
//!
//! ```
//! use std::time::Duration;
//! use flifo_admission::{Admission, Config, Refused, Session, WaitKind};
//!
//! async fn statement(session: &mut Session) -> Result<(), Refused> {
//!     let mut place = session.place_async().await?;
//!     for _row in 0..1000 {
//!         place.enter_async().await?;       // a ticket
//!     }
//!     // Gives up the place while it waits.
//!     place.wait_for(WaitKind::Network, tokio::time::sleep(Duration::from_millis(1))).await;
//!     Ok(())                                // the guard is dropped: it leaves
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
//!     assert_eq!(admission.snapshot().inside, 0);
//!     Ok(())
//! }
//! ```
//!
//! # Waits
//!
//! A thread that waits must not keep others out. Say so with [`Session::wait_begin`] and
//! [`Session::wait_end`]: they nest, and give up the place for the kinds in [`Config::wait_mask`].
//! `wait_end` never blocks, since its caller may hold latches; it comes back past the limit, and exits repay
//! that. Where nothing is held, [`Session::wait_end_may_queue`] keeps to the limit. [`Config::io_depth`]
//! bounds how many give up their places for a disk. A wait that nobody declares is broken after
//! [`Config::stall_after`]: one more is let in.
//!
//! Who watches the threads of the process from outside may lend the place of one that sleeps without a word
//! ([`Canceller::lend_place`]), and take it back when it runs again.
//!
//! # Who goes first
//!
//! A session that holds locks others may wait for is of [`Class::First`] ([`Session::set_class`]) and goes
//! before the others, which are promoted by age. [`Config::lock_waiters_max`] bounds the pile-up on hot rows, but for
//! waits of which the session says that they are long ([`Session::wait_is_long`]).
//! [`Admission::tenant`] gives groups of sessions shares by weight.
//!
//! # Timeouts, bounds, cancellation
//!
//! By default nobody is refused. With [`Config::queue_timeout`], [`Config::queue_limit`],
//! [`Session::enter_until`] or a [`Canceller`], entering returns [`Refused`], which says why. A session that
//! is refused holds no place; its statement ends with that error.
//!
//! # Choosing a policy and a limit
//!
//! - [`Policy::Quantum`] unless you know better; [`Config::quantum`] trades throughput for the longest wait.
//!   [`Policy::Fifo`] where each statement must go in order and its work is long against a wake-up.
//!   [`Policy::Flifo`] is as published: where newcomers never block, woken threads can starve under it. The
//!   others are there to compare with. `docs/policies.md` in the repository has the comparison.
//! - A limit of about twice the processors to begin with, which is the default. Higher, if those inside wait
//!   for what is not declared; lower, if they dispute few locks. 0: no limit.
//! - Let the limit find itself between two bounds with [`Config::auto`].
//! - With clients on the same machine and a long queue [`Config::anticipate`] does more work by fewer threads.
//! - Where most places have a wait for a disk, [`Config::disk_bound_percent`] lifts the limit for as long.
//! - Everything can be changed while the server runs: [`Admission::reconfigure`],
//!   [`Admission::set_thread_concurrency`].
//!
//! # What to watch
//!
//! [`Admission::snapshot`] prints itself as a block of text; [`Snapshot::line`] is for a log, and
//! [`Snapshot::since`] gives rates. The `metrics` feature adds a `Publisher` for the facade of that name.
//!
//! | what | says |
//! |---|---|
//! | [`Snapshot::queued`] | more want in than may: the limit is at work. 0 for long: the limit does nothing |
//! | [`Snapshot::queue_wait`] | what queueing costs a statement |
//! | [`Snapshot::stalls_broken`] | grows: a wait inside is not declared |
//! | [`Snapshot::entered_by_force`], [`Snapshot::inside_max`] | far past the limit: waits end in bursts |
//! | [`Snapshot::gain_over_fifo_max`] | 1 + W/S: what letting others run during a wake-up can gain |
//! | [`Snapshot::refused`] | work that was turned away |
//!
//! # From C
//!
//! The crate `flifo-admission-c`, in `capi/`, is the same scheduler as a library with a C header.
//!
//! # Limits
//!
//! - Linux: threads park on futexes. As the queue grows, the watchdog asks the kernel (6.17 and later) for more buckets in
//!   the process's hash of futexes, up to 65,536 of 64 bytes, unless the process has chosen the hash that all share.
//! - At most 130,815 sessions of one scheduler at a time, a limit of at most 1,023, 64 tenants.
//! - Within one process; a scheduler does not see what other processes do to the machine.
//! - Tasks: [`Config::queue_timeout`] is observed to a few milliseconds. A future that was leaked keeps its
//!   place in the queue until its session is dropped or queues again.
//! - Under [`Policy::Sleep`] threads poll, so the queue counters tell less there.
//!
//! # Rooms
//!
//! | module | holds |
//! |---|---|
//! | `state` | the 64-bit word and its transitions, as pure functions |
//! | `rule` | the policies: what each does at the gate and at an exit |
//! | `queue`, `waiting` | the intrusive list of waiting nodes; classes and tenants: who is next |
//! | `core` | the word and the queue together; free of parking and of time: it says whom to wake |
//! | `parker` | a futex word, or a task's waker, per node |
//! | `admission` | the scheduler as it is shared; its settings, which change at run time |
//! | `session` | a connection's handle: tickets and places on the fast path |
//! | `asking` | a session that finds no place: it queues, polls, is refused |
//! | `task` | the face for async tasks |
//! | `waits` | waits inside: they give up the place, nest, and come back |
//! | `anticipation` | a place that waits for its session between two entries of a turn |
//! | `cancel`, `refusal` | ending a wait in the queue, and why one was not let in |
//! | `config` | what a scheduler is told, and what it may be told |
//! | [`auto`], `finder` | the limit finds itself: a controller free of I/O and of clocks; who tells it of the work |
//! | `turn` | a session's turn under [`Policy::Quantum`] |
//! | `delay` | the adaptive delay of [`Policy::Sleep`] |
//! | `watchdog` | what depends on time alone |
//! | `futex_hash` | the kernel's buckets for who sleeps: as many as queue |
//! | `metrics` | counters, histograms of time, snapshots, their text and publication |
//! | `sync` | atomics and locks, or the model checker's |

#![warn(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]

mod admission;
mod anticipation;
mod asking;
pub mod auto;
mod cancel;
mod config;
mod core;
mod cpu_time;
mod debts;
mod deficit;
mod delay;
mod disk_bound;
mod finder;
mod futex_hash;
mod idle;
mod in_turn;
mod kept;
mod lending;
mod metrics;
mod overtaking;
mod parker;
mod queue;
mod refusal;
mod rule;
mod session;
mod state;
mod sync;
mod task;
mod turn;
mod waiting;
mod waits;
mod watchdog;

pub use crate::admission::{Admission, Tenant};
pub use crate::cancel::Canceller;
pub use crate::config::{AutoLimit, Config, ConfigError, Policy, WaitKind, WaitMask};
#[cfg(feature = "metrics")]
pub use crate::metrics::Publisher;
pub use crate::metrics::{Snapshot, Times};
pub use crate::refusal::Refused;
pub use crate::session::{Class, Place, Session};
pub use crate::task::{Enter, TaskPlace};
/// The histograms of a [`Snapshot`].
pub use histogram;

#[cfg(test)]
mod models;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
