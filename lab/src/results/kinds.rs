//! Results of a workload with several kinds of transactions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One kind of transaction in a round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KindFigures {
    /// Name of the kind: in `dbt2` `new-order`, `payment`, `order-status`, `delivery` and `stock-level`, in `db-stress`
    /// `read` and `write`.
    pub kind: String,
    /// Transactions committed.
    pub committed: u64,
    /// Transactions rolled back because of their input: in `dbt2` a hundredth of the new orders.
    pub rolled_back: u64,
    /// Times that a transaction that ended in the round had run again.
    pub retries: u64,
    /// Transactions per second, those rolled back included.
    pub transactions_per_s: f64,
    /// Share of all transactions of the round; `null` without any.
    pub share: Option<f64>,
    /// Response time, median, milliseconds, retries included.
    pub p50_ms: Option<f64>,
    /// Response time, 95th percentile, milliseconds.
    pub p95_ms: Option<f64>,
    /// Response time, 99th percentile, milliseconds.
    pub p99_ms: Option<f64>,
    /// The longest response time, milliseconds.
    pub max_ms: Option<f64>,
}
