//! Tests of the lock table. Threads that wait are nodes here, so that one thread sees every step.
//!
//! `queues`, `deadlocks` and `passing` name a step and its result; `property` compares random steps with the model in
//! `plain`; `storms` runs many threads; `schedules` runs few under shuttle.

#[cfg(not(shuttle))]
mod bench;
#[cfg(not(shuttle))]
mod deadlocks;
#[cfg(not(shuttle))]
mod passing;
#[cfg(not(shuttle))]
mod plain;
#[cfg(not(shuttle))]
mod property;
#[cfg(not(shuttle))]
mod queues;
#[cfg(shuttle)]
mod schedules;
#[cfg(not(shuttle))]
mod storms;
