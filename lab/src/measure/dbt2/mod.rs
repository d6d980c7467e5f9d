//! DBT-2: TPC-C's tables and transactions without its foreign keys, as the published experiments of 2012 ran it.
//!
//! [`Data::prepare`] finds or loads a data set, [`Users`] run transactions on it, and [`Data::check`] compares the tables
//! with TPC-C's consistency conditions and with the changes that users saw committed. Inputs, mix, checks and counters are
//! the same on the embedded engine and on a server; the transactions are operations here and statements there.
//!
//! | module | holds |
//! |---|---|
//! | `schema`, `scale`, `population` | tables; rows a warehouse and random numbers; the rows as loaded |
//! | `inputs` | inputs of the transactions, their mix, keying and think times |
//! | `tables`, `transactions` | handles of the engine's tables; the transactions as the engine's operations |
//! | `data` | the data set in a directory: reused, or loaded in parallel |
//! | `users` | users of the engine |
//! | `server`, `server_data` | users and transactions as SQL; the data set on a server |
//! | `check` | consistency conditions and acknowledged changes |
//!
//! The rules are those of TPC-C revision 5 with DBT-2's sizes. Two [`Quirks`] of DBT-2 are optional.

mod check;
mod data;
mod inputs;
mod population;
mod scale;
pub(crate) mod schema;
pub(crate) mod server;
pub(crate) mod server_data;
mod tables;
mod transactions;
mod users;

#[cfg(test)]
mod tests;

pub use check::Violation;
pub(crate) use data::sound;
pub use data::{Data, Dbt2};
pub use inputs::{Mix, Pace, Quirks, TransactionKind};
pub use scale::{DISTRICTS, Scale};
pub use tables::Tables;
pub use users::{Load, Users};
