//! What holds for every variant of a run.

use std::time::Duration;

use serde::Serialize;

use crate::product::Launch;

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Settings {
    pub rows: u32,
    pub time_s: u32,
    /// Seconds at the beginning that do not count.
    pub skip_s: u32,
    /// With [`crate::plan::What::Slices`], instead of these: the counted time of a slice, and the time its load runs before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice_ms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle_ms: Option<u32>,
    /// sysbench's `--rand-type`.
    pub distribution: String,
    pub buffer_pool_bytes: u64,
    pub log_file_bytes: u64,
    /// Background connections with a report each that lasts as long as the cell.
    pub reports: u32,
    /// Rows that a report joins with as many before it begins again.
    pub report_rows: Option<u32>,
    /// Background connections with transactions that contend for ten rows.
    pub transactions: u32,
    /// Their pause after each statement, microseconds.
    pub pause_us: u32,
    /// Statements as text, instead of prepared ones.
    pub text: bool,
    /// Mean time between two transactions of a client, in microseconds.
    pub think_us: u32,
    /// Options of the product, before all others.
    #[serde(skip)]
    pub product_options: Vec<(String, String)>,
    /// Further options in the order given: names and values without dashes.
    pub server_options: Vec<(String, String)>,
}

impl Settings {
    /// Every option that is not the server's default.
    pub fn server(&self) -> Vec<(String, String)> {
        let own = [
            ("innodb-buffer-pool-size", self.buffer_pool_bytes.to_string()),
            ("innodb-flush-log-at-trx-commit", "2".into()),
            // The figures are not to depend on what the last run left in memory.
            ("innodb-buffer-pool-load-at-startup", "OFF".into()),
            ("innodb-buffer-pool-dump-at-shutdown", "OFF".into()),
            ("max-connections", "5000".into()),
            ("back-log", "5000".into()),
            ("table-open-cache", "4000".into()),
            ("max-prepared-stmt-count", "1000000".into()),
        ];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        self.product_options.iter().cloned().chain(own).chain(self.server_options.iter().cloned()).collect()
    }

    pub(crate) fn slice(&self) -> Duration {
        Duration::from_millis(self.slice_ms.unwrap_or(0).into())
    }

    pub(crate) fn settle(&self) -> Duration {
        Duration::from_millis(self.settle_ms.unwrap_or(0).into())
    }

    pub(crate) fn launch(&self) -> Launch {
        Launch { options: self.server(), ..Launch::default() }
    }
}
