//! Checks by model: `make models` runs the loom and shuttle ones, `make test` the property test.
//!
//! - `interleavings` (loom): every order of the steps of two and three threads, with every value that a relaxed load may see; `taken`, the
//!   same for slots that another thread takes from a session: reclaimed and reserved ones.
//! - `schedules` (shuttle): random and adversarial orders of many threads and tasks.
//! - `helpers`: values that tests and models begin with.
//! - `property` (proptest): one thread takes random steps on the gate and on `plain`, which says in plain lists what ought to happen.

mod helpers;
#[cfg(loom)]
mod interleavings;
#[cfg(all(feature = "percpu", not(any(loom, shuttle))))]
mod plain;
#[cfg(all(feature = "percpu", not(any(loom, shuttle))))]
mod property;
#[cfg(all(feature = "reservation", shuttle))]
mod schedules;
#[cfg(loom)]
mod taken;
