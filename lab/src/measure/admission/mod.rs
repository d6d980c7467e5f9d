//! Admission alone, without the engine: threads in a closed loop enter, do a small piece of work, and exit.
//!
//! | module | holds |
//! |---|---|
//! | `limiter` | the variants behind one trait |
//! | `load` | what a thread does with its slot |
//! | `control` | what the threads of a cell share: start, phase, counters |
//! | `worker` | a thread's closed loop |

pub mod control;
pub(crate) mod limiter;
pub(crate) mod load;
pub(crate) mod worker;

pub use limiter::{Peer, Specimen, Variant};
pub use load::Load;
