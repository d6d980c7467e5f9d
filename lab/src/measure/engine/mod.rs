//! The embedded engine under a load: its data, and what it counts.
//!
//! | module | holds |
//! |---|---|
//! | `prepare` | the data directory, opened or loaded |
//! | `changes` | the engine's counters of a round with changes |
//! | `table_audit` | compares the table with the changes that clients saw acknowledged |

pub(crate) mod changes;
pub mod prepare;
pub(crate) mod table_audit;
