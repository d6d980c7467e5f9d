//! Users in a closed loop, for workloads whose transactions are units: `dbt2`, `db-stress`.
//!
//! A user draws an input, runs the transaction until it has committed, or rolled back as its input demands, and begins
//! again. After a deadlock, a timeout or a write conflict the same input runs again, and its response time continues. Each
//! user is a thread. The first error of any user closes the window for all.

mod counts;
mod users;

pub use counts::{Account, Counts, KindCounts};
pub(crate) use users::{Attempt, Group, User, Work, run};

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Committed,
    /// As its input demanded.
    RolledBack,
}
