//! What a round of a cell came to. Names carry their units; the file of `--json` has them as they stand here.

use std::collections::BTreeMap;

use serde::Serialize;

use super::procfs::Usage;
use super::reading::Reading;
use crate::sysbench::Report;
use crate::workload::Workload;

/// One contestant's round of one workload and number of connections, over the steady window.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Figures {
    pub round: u32,
    pub window_s: f64,
    /// How far the window's ends may be off, as a share of it.
    pub window_uncertainty: f64,
    /// Updates, selects or transactions, from the server's counter.
    pub throughput_per_s: f64,
    /// Every statement the server was asked, from its own counter.
    pub statements_per_s: f64,
    /// Processor time of the server.
    pub server_cpu_us_per_statement: f64,
    /// Context switches of the server's threads.
    pub switches_per_statement: f64,
    /// Percent of all processors.
    pub server_cpu: f64,
    pub sysbench_cpu: f64,
    /// As sysbench counts, over the window and what it takes to end.
    pub sysbench_per_s: f64,
    pub errors: u64,
    pub mean_ms: f64,
    pub p95_ms: f64,
    pub max_ms: f64,
    /// Standard deviation of the events per connection, divided by their mean.
    pub connection_variation: Option<f64>,
    /// The plugin's numbers: counters as they grew in the window, gauges as they were at its end.
    pub plugin: BTreeMap<String, u64>,
}

/// The plugin's variables that do not only grow.
const GAUGES: [&str; 6] = [
    "flifo_thread_concurrency",
    "flifo_inside",
    "flifo_pending",
    "flifo_queued",
    "flifo_lock_waiters",
    "flifo_disk_waits",
];

/// One end of the window.
pub(crate) struct Edge {
    pub(crate) reading: Reading,
    pub(crate) server: Usage,
    pub(crate) sysbench: Usage,
}

impl Figures {
    pub(crate) fn between(
        (round, workload): (u32, Workload),
        first: &Edge,
        last: &Edge,
        report: &Report,
    ) -> Figures {
        let window_s = last.reading.seconds_since(&first.reading).max(1e-3);
        let per_s = |counter| last.reading.counted_since(&first.reading, counter) as f64 / window_s;
        let statements_per_s = per_s("QUESTIONS");
        let server = last.server.processors_since(&first.server);
        let sysbench = last.sysbench.processors_since(&first.sysbench);
        let processors = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
        Figures {
            round,
            window_s,
            window_uncertainty: last.reading.uncertainty_since(&first.reading),
            throughput_per_s: per_s(workload.counter()),
            statements_per_s,
            server_cpu_us_per_statement: server * 1e6 / statements_per_s.max(1e-3),
            switches_per_statement: last.server.switches_per_s_since(&first.server)
                / statements_per_s.max(1e-3),
            server_cpu: 100.0 * server / processors,
            sysbench_cpu: 100.0 * sysbench / processors,
            sysbench_per_s: report.events_per_s,
            errors: report.errors,
            mean_ms: report.mean_ms,
            p95_ms: report.p95_ms,
            max_ms: report.max_ms,
            connection_variation: report.variation(),
            plugin: plugin(&first.reading, &last.reading),
        }
    }

    /// The longest wait, in mean ones.
    pub fn longest_in_means(&self) -> Option<f64> {
        (self.mean_ms > 0.0).then(|| self.max_ms / self.mean_ms)
    }
}

fn plugin(first: &Reading, last: &Reading) -> BTreeMap<String, u64> {
    let figure = |name: String| {
        let lower = name.to_lowercase();
        let is_highest = lower.ends_with("_max") || lower.ends_with("_us");
        let value = if is_highest || GAUGES.contains(&lower.as_str()) {
            last.get(&name)?
        } else {
            last.counted_since(first, &name)
        };
        Some((lower, value))
    };
    last.names("FLIFO_").filter_map(figure).collect()
}
