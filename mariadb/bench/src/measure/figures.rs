//! What a round of a cell came to. Names carry their units; the file of `--json` has them as they stand here.

use std::collections::BTreeMap;

use flifo_base::cpu_count;
use serde::Serialize;

use super::reading::Reading;
use super::usage::Usage;
use crate::sysbench::Report;
use crate::workload::Workload;

/// One variant's round of one workload and number of connections, over the steady window.
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
    /// CPU time of the server.
    pub server_cpu_us_per_statement: f64,
    /// Context switches of the server's threads.
    pub switches_per_statement: f64,
    /// Growth of the history list: the work left to purge, which a server with busy CPUs puts off. Below zero where purge caught
    /// up with earlier work.
    pub history_per_statement: Option<f64>,
    /// Percent of all CPUs.
    pub server_cpu: f64,
    pub sysbench_cpu: f64,
    /// As sysbench counts, over the window and what it takes to end.
    pub sysbench_per_s: f64,
    pub errors: u64,
    pub mean_ms: f64,
    pub p95_ms: f64,
    pub max_ms: f64,
    /// The rotation of the plugin's queue: the mean time of the statements that queued.
    pub queue_cycle_ms: Option<f64>,
    /// Standard deviation of the events per connection, divided by their mean.
    pub connection_variation: Option<f64>,
    /// The plugin's numbers: counters as they grew in the window, gauges as they were at its end.
    pub plugin: BTreeMap<String, u64>,
}

/// The plugin's variables that do not only grow.
const GAUGES: [&str; 6] = [
    "flifo_thread_concurrency",
    "flifo_running",
    "flifo_pending",
    "flifo_queued",
    "flifo_lock_waiters",
    "flifo_disk_waits",
];

/// The server has its variables' names in upper case.
const QUEUED: &str = "FLIFO_ADMITTED_FROM_QUEUE";
const QUEUE_TIME: &str = "FLIFO_QUEUE_TIME_US";

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
        let server = last.server.cpus_since(&first.server);
        let sysbench = last.sysbench.cpus_since(&first.sysbench);
        let cpus = cpu_count() as f64;
        Figures {
            round,
            window_s,
            window_uncertainty: last.reading.uncertainty_since(&first.reading),
            throughput_per_s: per_s(workload.counter()),
            statements_per_s,
            server_cpu_us_per_statement: server * 1e6 / statements_per_s.max(1e-3),
            switches_per_statement: last.server.switches_per_s_since(&first.server)
                / statements_per_s.max(1e-3),
            history_per_statement: last
                .reading
                .history_since(&first.reading)
                .map(|grown| grown as f64 / (statements_per_s * window_s).max(1.0)),
            server_cpu: 100.0 * server / cpus,
            sysbench_cpu: 100.0 * sysbench / cpus,
            sysbench_per_s: report.events_per_s,
            errors: report.errors,
            mean_ms: report.mean_ms,
            p95_ms: report.p95_ms,
            max_ms: report.max_ms,
            queue_cycle_ms: queue_cycle_ms(&first.reading, &last.reading),
            connection_variation: report.variation(),
            plugin: plugin(&first.reading, &last.reading),
        }
    }

    /// The longest wait, in mean ones.
    pub fn longest_in_means(&self) -> Option<f64> {
        (self.mean_ms > 0.0).then(|| self.max_ms / self.mean_ms)
    }

    /// The longest wait, in cycles of the queue: a statement that is served once in every cycle waits for one of
    /// them. A transaction of many statements queues more than once; its measure is the mean one.
    pub fn longest_in_cycles(&self) -> Option<f64> {
        self.queue_cycle_ms.map(|cycle_ms| self.max_ms / cycle_ms.max(self.mean_ms))
    }
}

/// `None` without the plugin, and if fewer than a hundred statements queued.
fn queue_cycle_ms(first: &Reading, last: &Reading) -> Option<f64> {
    const FEW: u64 = 100;
    last.get(QUEUE_TIME)?;
    let (queued, time_us) = (last.counted_since(first, QUEUED), last.counted_since(first, QUEUE_TIME));
    (queued >= FEW).then(|| time_us as f64 / queued as f64 / 1e3)
}

fn plugin(first: &Reading, last: &Reading) -> BTreeMap<String, u64> {
    let figure = |name: String| {
        let lower = name.to_lowercase();
        let is_highest = lower.ends_with("_max") || lower.starts_with("flifo_queue_wait_");
        let value = if is_highest || GAUGES.contains(&lower.as_str()) {
            last.get(&name)?
        } else {
            last.counted_since(first, &name)
        };
        Some((lower, value))
    };
    last.names("FLIFO_").filter_map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_s_cycle_is_the_mean_wait() {
        let reading = |count: u64, total_us: u64| {
            Reading::of(vec![(QUEUED.into(), count.to_string()), (QUEUE_TIME.into(), total_us.to_string())])
        };
        let none = Reading::default();
        assert_eq!(queue_cycle_ms(&none, &none), None);
        // 1,000 queued for 2 ms each, then 1,000 for 4 ms.
        let (first, last) = (reading(1_000, 2_000_000), reading(2_000, 6_000_000));
        assert_eq!(queue_cycle_ms(&first, &last), Some(4.0));
        assert_eq!(queue_cycle_ms(&none, &first), Some(2.0));
        assert_eq!(queue_cycle_ms(&first, &reading(1_050, 3_000_000)), None, "too few queued");
    }
}
