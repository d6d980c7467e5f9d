//! How evenly the connections of a round were served.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How evenly the connections were served.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Fairness {
    /// Statements of the connection with the fewest.
    pub connection_statements_min: Option<u64>,
    /// Statements of the connection with the most.
    pub connection_statements_max: Option<u64>,
    /// The fewest as a share of the mean.
    pub connection_fewest_share: Option<f64>,
    /// The most as a share of the mean.
    pub connection_most_share: Option<f64>,
    /// Standard deviation of the statements per connection, divided by their mean.
    pub connection_variation: Option<f64>,
}

impl Fairness {
    /// From the statements of each connection.
    pub fn of(statements: &[u64]) -> Self {
        if statements.is_empty() {
            return Fairness::default();
        }
        let count = statements.len() as f64;
        let mean = statements.iter().map(|&n| n as f64).sum::<f64>() / count;
        let variance = statements.iter().map(|&n| (n as f64 - mean).powi(2)).sum::<f64>() / count;
        let (fewest, most) = (statements.iter().min().copied(), statements.iter().max().copied());
        let share = |n: Option<u64>| n.filter(|_| mean > 0.0).map(|n| n as f64 / mean);
        Fairness {
            connection_statements_min: fewest,
            connection_statements_max: most,
            connection_fewest_share: share(fewest),
            connection_most_share: share(most),
            connection_variation: (mean > 0.0).then(|| variance.sqrt() / mean),
        }
    }
}
