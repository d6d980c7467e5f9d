//! The embedded engine under a load: its data, and what it counts.
//!
//! | module | holds |
//! |---|---|
//! | `prepare` | the data directory, opened or loaded |
//! | `data_set` | typed tables in a data directory, reused or loaded in parallel |
//! | `changes` | the engine's counters of a round with changes |
//! | `table_audit` | compares the table with the changes that clients saw acknowledged |

pub(crate) mod changes;
pub(crate) mod data_set;
pub mod prepare;
pub(crate) mod table_audit;
