//! Checks by model: `make models` runs the loom and shuttle ones, `make test` the property test.
//!
//! - `interleavings` (loom): every order of the steps of two and three threads, with every value that a
//!   relaxed load may see.
//! - `schedules` (shuttle): random and adversarial orders of many threads and tasks.
//! - `property` (proptest): one thread takes random steps on the core and on `plain`, which says in plain
//!   lists what ought to happen.

#[cfg(loom)]
mod anticipation;
#[cfg(loom)]
mod interleavings;
#[cfg(loom)]
mod lending;
#[cfg(not(any(loom, shuttle)))]
mod plain;
#[cfg(not(any(loom, shuttle)))]
mod property;
#[cfg(shuttle)]
mod schedules;
