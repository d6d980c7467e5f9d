//! A workload after db_STRESS: objects with a history, read by joins and changed row by row.
//!
//! The full description of db_STRESS is not public any more, hence "after". A read is two statements: an object with its
//! section and zone (SEL1), and its history with the names of states, in order (SEL2). A write is three autocommitted
//! statements on the history of a random object: DELETE a row, INSERT it again, UPDATE another one.
//!
//! [`Data::prepare`] finds or loads a data set, [`Users`] run transactions on it, and [`Data::check`] looks whether each
//! object has its history: no row was lost, and none came twice.
//!
//! | module | holds |
//! |---|---|
//! | `schema`, `population` | the tables, and their rows as loaded |
//! | `script` | a user's reads and writes |
//! | `transactions` | them on the embedded engine |
//! | `data` | the data set of the embedded engine, and its check |
//! | `users` | users of the engine |
//! | `server` | users, data set and check as SQL |

mod data;
mod population;
mod schema;
mod script;
pub(crate) mod server;
mod transactions;
mod users;

#[cfg(test)]
mod tests;

pub use data::{Data, DbStress};
pub use population::HISTORY_ROWS;
pub use script::KINDS;
pub use users::{Load, Users};
