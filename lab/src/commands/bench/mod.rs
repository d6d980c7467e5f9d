//! `flifo bench admission`: compares the scheduler's policies with common alternatives.
//!
//! No engine, no data: threads in a closed loop enter, do a small piece of work, and exit. So the bench measures what
//! admission costs and what it saves, load by load. The variants are interleaved within a round (A B C, then C B A), so
//! that figures of one round can be paired.
//!
//! | module | holds |
//! |---|---|
//! | `args` | the options |
//! | `plan` | what is measured, in which order |
//! | `cell`, `run` | one round of one cell; the bench from its first line to its last |
//! | `peers` | `flifo bench peers`: another program, which compares the engine with other embedded stores |

pub mod args;
mod cell;
mod peers;
pub mod plan;
mod run;

pub use peers::peers;
pub use run::admission;
