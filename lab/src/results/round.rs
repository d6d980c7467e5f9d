//! A round of a cell, and its figures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::changes::{ChangeFigures, EngineSecond, RefusalFigures};
use super::fairness::Fairness;
use super::kinds::KindFigures;
use super::series::Series;

/// One round of one cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Round {
    /// Number of the round, from 0. Rounds of the same number ran close to each other, so ratios pair them.
    pub round: u32,
    /// The measured window, seconds.
    pub elapsed_s: f64,
    /// Statements finished; in `read-write` BEGIN and COMMIT count, as in sysbench.
    pub statements: u64,
    /// Transactions finished; a workload of single statements has one per statement.
    pub transactions: u64,
    /// Statements per second.
    pub throughput_per_s: f64,
    /// Transactions per second.
    pub transactions_per_s: f64,
    /// Latency, median, milliseconds: from a client's first request to the last reply of its statement or
    /// transaction, queueing and retries included.
    pub p50_ms: Option<f64>,
    /// Latency, 95th percentile, milliseconds.
    pub p95_ms: Option<f64>,
    /// Latency, 99th percentile, milliseconds.
    pub p99_ms: Option<f64>,
    /// The longest latency, milliseconds, also of a request without a reply at the round's end.
    pub max_ms: Option<f64>,
    /// `context_switches_per_s` / `throughput_per_s`.
    pub context_switches_per_statement: Option<f64>,
    /// Transactions of the lowest second as a share of the mean over whole seconds; `null` with fewer than two.
    pub lowest_second_share: Option<f64>,
    #[serde(flatten)]
    pub host: HostFigures,
    #[serde(flatten)]
    pub entry: EntryFigures,
    #[serde(flatten)]
    pub admission: AdmissionFigures,
    #[serde(flatten)]
    pub fairness: Fairness,
    #[serde(flatten)]
    pub disk: DiskFigures,
    #[serde(flatten)]
    pub changes: ChangeFigures,
    #[serde(flatten)]
    pub server: ServerFigures,
    #[serde(flatten)]
    pub refusals: RefusalFigures,
    /// New orders committed per minute in `dbt2` (NOTPM).
    pub new_orders_per_minute: Option<f64>,
    /// Each kind of transaction of a workload that has several.
    pub kinds: Vec<KindFigures>,
    /// The round second by second.
    pub seconds: Vec<Second>,
    /// The database's counters over time; only of a cell's last round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
}

/// The machine's figures during a round. Percentages are of all CPUs together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostFigures {
    /// Context switches per second of the whole machine, as vmstat's `cs`.
    pub context_switches_per_s: Option<f64>,
    /// CPU time in programs, nice included, percent.
    pub cpu_user: Option<f64>,
    /// CPU time in the kernel, interrupts included, percent.
    pub cpu_system: Option<f64>,
    /// Idle time, percent.
    pub cpu_idle: Option<f64>,
    /// Idle time with a disk request outstanding, percent.
    pub cpu_iowait: Option<f64>,
    /// CPU time taken by the hypervisor, percent.
    pub cpu_steal: Option<f64>,
    /// CPU time of this process without its client threads, percent; for a server, of the server's process, `null`
    /// if it is not on this machine.
    pub cpu_server: Option<f64>,
    /// CPU time of the client threads, percent.
    pub cpu_client: Option<f64>,
    /// Mean number of runnable threads, as vmstat's `r`; includes the sampler.
    pub run_queue: Option<f64>,
    /// Highest sample of the number of runnable threads.
    pub run_queue_max: Option<u32>,
}

/// One sample: the second that ends at `at_s`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Second {
    /// End of the element, seconds since the round's start.
    pub at_s: f64,
    /// Statements per second; `null` in the rest of the round.
    pub throughput_per_s: Option<f64>,
    /// Transactions per second; `null` in the rest of the round.
    pub transactions_per_s: Option<f64>,
    /// Context switches per second of the whole machine.
    pub context_switches_per_s: Option<f64>,
    /// CPU time in programs, percent.
    pub cpu_user: Option<f64>,
    /// CPU time in the kernel, percent.
    pub cpu_system: Option<f64>,
    /// Idle time, percent.
    pub cpu_idle: Option<f64>,
    /// Idle time with a disk request outstanding, percent.
    pub cpu_iowait: Option<f64>,
    /// CPU time taken by the hypervisor, percent.
    pub cpu_steal: Option<f64>,
    /// CPU time of the server, percent.
    pub cpu_server: Option<f64>,
    /// CPU time of the client threads, percent.
    pub cpu_client: Option<f64>,
    /// Runnable threads at the element's end.
    pub run_queue: Option<u32>,
    /// Counters of the embedded engine; `null` in the rest of the round and for a server.
    pub engine: Option<EngineSecond>,
}

/// The samples of a cell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    /// One row a second, and one for the rest at the end.
    pub seconds: Vec<Second>,
    /// From start to finish.
    pub totals: HostFigures,
}

/// The counters of one second of a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PerSecond {
    /// Statements whose reply came in that second.
    pub statements: u64,
    /// Transactions whose last reply came in that second.
    pub transactions: u64,
}

/// Time from requesting a slot to running, measured from outside, so for any limiter.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EntryFigures {
    /// From requesting a slot to running, median, microseconds.
    pub enter_p50_us: Option<f64>,
    /// The same, 95th percentile.
    pub enter_p95_us: Option<f64>,
    /// The same, 99th percentile.
    pub enter_p99_us: Option<f64>,
    /// The same, 99.9th percentile.
    pub enter_p999_us: Option<f64>,
    /// The longest, microseconds, also of a thread that still waits at the window's end.
    pub enter_max_us: Option<f64>,
    /// The longest in rotations of the queue; `null` for peers and specimens.
    pub enter_max_rotations: Option<f64>,
    /// Limit at the round's end, in a bench and for a server with the plugin; with `auto` 0 if none was in force.
    pub limit: Option<u32>,
    /// Most threads running at once since the cell's start; with `--verify` only.
    pub running_max: Option<u32>,
}

/// Admission's counters during a round, and highest values since the cell's start, including its warm-up; unknown for a
/// peer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AdmissionFigures {
    /// Slots acquired, in any way.
    pub admitted: Option<u64>,
    /// Entries that found a free slot.
    pub admitted_at_once: Option<u64>,
    /// Entries on a ticket of a slot already held; they acquire no slot.
    pub admitted_by_ticket: Option<u64>,
    /// Entries above the limit, ahead of the queue, while woken threads were pending.
    pub admitted_by_barging: Option<u64>,
    /// Entries after queueing.
    pub admitted_from_queue: Option<u64>,
    /// Forced entries: ends of waits, and holders of locks.
    pub admitted_by_force: Option<u64>,
    /// Slots handed off to a queued thread.
    pub handed_off: Option<u64>,
    /// Slots reclaimed from sessions that ran for the stall limit while others queued.
    pub slots_reclaimed: Option<u64>,
    /// Highest number of slots in use (T).
    pub slots_max: Option<u32>,
    /// Highest number of pending threads (P): woken and not running yet.
    pub pending_max: Option<u32>,
    /// Longest queue (Q), threads.
    pub queued_max: Option<u32>,
    /// W: from the wake-up to running, median, microseconds; `null` if no thread was woken.
    pub woken_to_running_p50_us: Option<f64>,
    /// W, 95th percentile.
    pub woken_to_running_p95_us: Option<f64>,
    /// W, 99th percentile.
    pub woken_to_running_p99_us: Option<f64>,
    /// S: work per slot, median, microseconds (sampled).
    pub running_p50_us: Option<f64>,
    /// S, 95th percentile.
    pub running_p95_us: Option<f64>,
    /// S, 99th percentile.
    pub running_p99_us: Option<f64>,
    /// Time in the queue, median, microseconds; `null` if no thread queued.
    pub queued_p50_us: Option<f64>,
    /// Time in the queue, 95th percentile.
    pub queued_p95_us: Option<f64>,
    /// Time in the queue, 99th percentile.
    pub queued_p99_us: Option<f64>,
    /// Longest time in the queue, microseconds.
    pub queued_max_us: Option<f64>,
}

/// The buffer pool's disk requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DiskFigures {
    /// Pages read per second.
    pub disk_reads_per_s: Option<f64>,
    /// Pages written per second.
    pub disk_writes_per_s: Option<f64>,
    /// Time of a read, median, microseconds.
    pub disk_read_p50_us: Option<f64>,
    /// Time of a read, 99th percentile, microseconds.
    pub disk_read_p99_us: Option<f64>,
    /// Waits for a free frame of the buffer pool, per second.
    pub free_frame_waits_per_s: Option<f64>,
}

/// A live server's own counters between the two ends of a round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ServerFigures {
    /// Time between the two readings, seconds.
    pub server_elapsed_s: Option<f64>,
    /// `Questions` per second, without the measurement's own.
    pub server_statements_per_s: Option<f64>,
    /// `Com_select` per second.
    pub server_selects_per_s: Option<f64>,
    /// `Com_update` per second.
    pub server_updates_per_s: Option<f64>,
    /// `Com_insert` per second.
    pub server_inserts_per_s: Option<f64>,
    /// `Com_delete` per second.
    pub server_deletes_per_s: Option<f64>,
    /// `Com_commit` per second.
    pub server_commits_per_s: Option<f64>,
    /// `Innodb_row_lock_waits` per second.
    pub server_row_lock_waits_per_s: Option<f64>,
    /// User and system time of the server's process, microseconds per statement.
    pub server_cpu_us_per_statement: Option<f64>,
    /// Context switches of the server's threads, voluntary and involuntary.
    pub server_context_switches_per_statement: Option<f64>,
    /// User and system time of the threads that play the clients, microseconds per statement.
    pub client_cpu_us_per_statement: Option<f64>,
}

impl Round {
    /// Computes the figures that follow from counts, time and samples; the caller sets latencies, admission, fairness
    /// and disk afterwards.
    pub fn new(round: u32, elapsed_s: f64, statements: u64, transactions: u64, samples: Samples) -> Self {
        let per_s = |count: u64| if elapsed_s > 0.0 { count as f64 / elapsed_s } else { 0.0 };
        let throughput_per_s = per_s(statements);
        let context_switches_per_statement = samples
            .totals
            .context_switches_per_s
            .filter(|_| throughput_per_s > 0.0)
            .map(|switches_per_s| switches_per_s / throughput_per_s);
        Round {
            round,
            elapsed_s,
            statements,
            transactions,
            throughput_per_s,
            transactions_per_s: per_s(transactions),
            context_switches_per_statement,
            host: samples.totals,
            seconds: samples.seconds,
            ..Round::default()
        }
    }

    /// Adds the clients' counters second by second. The rest of the window after its whole seconds is left out.
    pub fn with_seconds(mut self, counted: &[PerSecond]) -> Self {
        let whole = (self.elapsed_s + 1e-6) as usize;
        // A second in which nothing ended may be missing at the end.
        let counted: Vec<PerSecond> =
            (0..whole).map(|second| counted.get(second).copied().unwrap_or_default()).collect();
        for (row, counted) in self.seconds.iter_mut().zip(&counted) {
            row.throughput_per_s = Some(counted.statements as f64);
            row.transactions_per_s = Some(counted.transactions as f64);
        }
        let sum: u64 = counted.iter().map(|second| second.transactions).sum();
        let lowest = counted.iter().map(|second| second.transactions).min().filter(|_| whole >= 2 && sum > 0);
        self.lowest_second_share = lowest.map(|lowest| lowest as f64 * whole as f64 / sum as f64);
        self
    }
}
