//! An admission scheduler's counters and times for the `metrics` facade.
//!
//! Counters go out as absolute values, what is now as gauges. Times go out as gauges of their percentiles,
//! over the time since the last publication, with the label `quantile`, as a Prometheus summary shows them.
//! The facade's own histograms take one value at a time, and exporters keep each until they are asked:
//! replaying a period's hand-offs to them would cost more than the hand-offs did.

use std::sync::Arc;

use metrics::{Key, Label, Level, Metadata, Recorder, Unit, with_recorder};

use flifo_admission::{Admission, Snapshot, Times, WaitKind};

type Read<T> = fn(&Snapshot) -> T;

type FurtherLabel = Option<(&'static str, &'static str)>;

/// Name, further label, meaning, value.
const COUNTERS: &[(&str, FurtherLabel, &str, Read<u64>)] = &[
    ("entries_total", Some(("how", "at_once")), ENTRIES, |s| s.admitted_at_once),
    ("entries_total", Some(("how", "by_barging")), ENTRIES, |s| s.admitted_by_barging),
    ("entries_total", Some(("how", "from_queue")), ENTRIES, |s| s.admitted_from_queue),
    ("entries_total", Some(("how", "by_force")), ENTRIES, |s| s.admitted_by_force),
    ("entries_total", Some(("how", "by_ticket")), ENTRIES, |s| s.admitted_by_ticket),
    ("handed_off_total", None, "Exits that handed their slot off to a queued thread", |s| s.handed_off),
    ("reserved_total", None, "Entries on a reserved slot", |s| s.reserved),
    ("refused_total", Some(("why", "timeout")), REFUSED, |s| s.refused_by_timeout),
    ("refused_total", Some(("why", "queue_full")), REFUSED, |s| s.refused_queue_full),
    ("refused_total", Some(("why", "cancelled")), REFUSED, |s| s.cancelled),
    ("stalls_broken_total", None, "Threads admitted above the limit because nothing moved", |s| {
        s.stalls_broken
    }),
    ("slots_reclaimed_total", None, "Slots reclaimed from sessions that ran for long", |s| s.slots_reclaimed),
    ("promoted_total", None, "Sessions that went before the first class because of their age", |s| {
        s.promoted
    }),
    ("queued_with_deficit_total", None, "Entries that queued with a deficit", |s| s.queued_with_deficit),
];
const ENTRIES: &str = "Entries, by how they were admitted";
const REFUSED: &str = "Entries that were refused";

/// Name, meaning, value.
const GAUGES: &[(&str, &str, Read<u32>)] = &[
    ("thread_concurrency", "The limit; 0: none", |s| s.thread_concurrency),
    ("running", "Running and pending threads", |s| s.running),
    ("pending", "Pending threads: handed a slot, not running yet", |s| s.pending),
    ("queued", "Threads in the queue", |s| s.queued),
    ("running_max", "The most slots in use at a time, cached slots included", |s| s.running_max),
    ("pending_max", "The most pending threads at a time", |s| s.pending_max),
    ("queued_max", "The most threads in the queue at a time", |s| s.queued_max),
    ("lock_waiters", "Sessions in row-lock waits without a slot", |s| s.lock_waiters),
    ("disk_waits", "Sessions in disk waits without a slot", |s| s.disk_waits),
];

/// Name, meaning, value.
const TIMES: &[(&str, &str, Read<Option<Times>>)] = &[
    ("queue_seconds", "Time from joining the queue to running", Snapshot::queue_wait),
    ("resumed_seconds", "The same, of those that resumed a time slice", Snapshot::resumed_wait),
    ("woken_to_running_seconds", "W: time from being handed a slot to running", Snapshot::woken_to_running),
    ("running_seconds", "S: time from entering to exiting, of one stay in 64", Snapshot::time_running),
];
const WAIT_SECONDS: (&str, &str) = ("wait_seconds", "Time of the outermost waits");
const WAITS: (&str, &str) = ("waits_total", "Outermost waits");

/// Publishes a scheduler's counters and times through the `metrics` facade to whatever
/// recorder the program has installed. The program calls [`Publisher::publish`] once in its reporting
/// period, from a thread or a task of its own: the scheduler's thread sleeps while nobody waits.
///
/// ```
/// use flifo_admission::{Admission, Config};
/// use flifo_publish::Publisher;
///
/// let admission = Admission::new(Config::default())?;
/// let mut publisher = Publisher::new(&admission, "flifo_admission", &[("server", "orders")]);
/// // Every ten seconds, say:
/// publisher.publish();
/// # Ok::<(), flifo_admission::ConfigError>(())
/// ```
///
/// | name after the prefix | kind | further label |
/// |---|---|---|
/// | `entries_total` | counter | `how`: `at_once`, `by_barging`, `from_queue`, `by_force`, `by_ticket` |
/// | `handed_off_total`, `reserved_total`, `stalls_broken_total`, `slots_reclaimed_total`, `promoted_total`, `queued_with_deficit_total` | counter | |
/// | `refused_total` | counter | `why`: `timeout`, `queue_full`, `cancelled` |
/// | `waits_total` | counter | `kind`: as [`WaitKind::name`], with `_` for blanks |
/// | `thread_concurrency`, `running`, `pending`, `queued`, `lock_waiters`, `disk_waits` | gauge | |
/// | `running_max`, `pending_max`, `queued_max` | gauge | |
/// | `queue_seconds`, `resumed_seconds`, `woken_to_running_seconds`, `running_seconds` | gauge | `quantile`: `0.5`, `0.95`, `0.99`, `1` |
/// | `wait_seconds` | gauge | `kind`, `quantile` |
///
/// Percentiles are of the time since the last publication, and 0 if nothing happened in it. A wait's kind
/// appears once it has occurred.
pub struct Publisher {
    admission: Arc<Admission>,
    prefix: String,
    labels: Vec<Label>,
    last: Snapshot,
}

impl Publisher {
    /// Names are `prefix`, `_` and the name of the table above; `labels` go with each.
    pub fn new(admission: &Arc<Admission>, prefix: &str, labels: &[(&str, &str)]) -> Self {
        let owned = |&(key, value): &(&str, &str)| Label::new(key.to_owned(), value.to_owned());
        Publisher {
            admission: Arc::clone(admission),
            prefix: prefix.to_owned(),
            labels: labels.iter().map(owned).collect(),
            last: admission.snapshot(),
        }
    }

    /// Publishes what is now, to the recorder that is installed now; without one it does nothing.
    pub fn publish(&mut self) {
        let now = self.admission.snapshot();
        let period = now.since(&self.last);
        with_recorder(|recorder| {
            // Names are given anew each time: the recorder may be another one by now, and it is rare.
            let out = Out { recorder, publisher: self };
            for (name, label, meaning, read) in COUNTERS {
                out.counter(name, label.as_slice(), meaning, read(&now));
            }
            for (name, meaning, read) in GAUGES {
                out.gauge(name, &[], (Unit::Count, meaning), f64::from(read(&now)));
            }
            for (name, meaning, read) in TIMES {
                out.times(name, &[], meaning, read(&period));
            }
            for kind in WaitKind::ALL {
                if let Some(ever) = now.wait(kind) {
                    let name = kind.name().replace(' ', "_");
                    let labels = [("kind", name.as_str())];
                    out.counter(WAITS.0, &labels, WAITS.1, ever.count);
                    out.times(WAIT_SECONDS.0, &labels, WAIT_SECONDS.1, period.wait(kind));
                }
            }
        });
        self.last = now;
    }
}

struct Out<'a> {
    recorder: &'a dyn Recorder,
    publisher: &'a Publisher,
}

impl Out<'_> {
    fn key(&self, name: &str, labels: &[(&str, &str)]) -> Key {
        let further = labels.iter().map(|&(key, value)| Label::new(key.to_owned(), value.to_owned()));
        let labels: Vec<Label> = self.publisher.labels.iter().cloned().chain(further).collect();
        Key::from_parts(format!("{}_{name}", self.publisher.prefix), labels)
    }

    fn counter(&self, name: &str, labels: &[(&str, &str)], meaning: &'static str, value: u64) {
        let key = self.key(name, labels);
        self.recorder.describe_counter(key.name().to_owned().into(), Some(Unit::Count), meaning.into());
        self.recorder.register_counter(&key, &METADATA).absolute(value);
    }

    fn gauge(&self, name: &str, labels: &[(&str, &str)], (unit, meaning): (Unit, &'static str), value: f64) {
        let key = self.key(name, labels);
        self.recorder.describe_gauge(key.name().to_owned().into(), Some(unit), meaning.into());
        self.recorder.register_gauge(&key, &METADATA).set(value);
    }

    fn times(&self, name: &str, labels: &[(&str, &str)], meaning: &'static str, times: Option<Times>) {
        let ns = times.map_or([0; 4], |times| [times.p50_ns, times.p95_ns, times.p99_ns, times.max_ns]);
        for (quantile, ns) in ["0.5", "0.95", "0.99", "1"].into_iter().zip(ns) {
            let labels = [labels, &[("quantile", quantile)]].concat();
            self.gauge(name, &labels, (Unit::Seconds, meaning), ns as f64 / 1e9);
        }
    }
}

const METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some("flifo_publish"));

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use metrics::with_local_recorder;
    use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

    use super::*;
    use flifo_admission::{Config, Policy, WaitMask};

    /// What a recorder received last, by `name{label=value,..}`.
    fn told(snapshotter: &Snapshotter) -> BTreeMap<String, f64> {
        let told = snapshotter.snapshot().into_vec().into_iter().map(|(key, unit, meaning, value)| {
            assert!(unit.is_some() && meaning.is_some(), "{key:?} is not described");
            let labels: Vec<_> =
                key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            let value = match value {
                DebugValue::Counter(count) => count as f64,
                DebugValue::Gauge(value) => value.into_inner(),
                DebugValue::Histogram(_) => panic!("no histograms are published"),
            };
            (format!("{}{{{}}}", key.key().name(), labels.join(",")), value)
        });
        told.collect()
    }

    fn admission() -> Arc<Admission> {
        let config = Config {
            policy: Policy::Fifo,
            thread_concurrency: 3,
            concurrency_tickets: 2,
            wait_mask: WaitMask::ALL,
            watchdog: false,
            ..Config::default()
        };
        Admission::new(config).unwrap()
    }

    #[test]
    fn everything_is_published_with_its_labels_and_described() {
        let admission = admission();
        let session = admission.session();
        let mut publisher = Publisher::new(&admission, "db", &[("server", "a")]);
        (0..4).for_each(|_| session.enter().unwrap()); // Two stays of two tickets each.
        session.wait_begin(WaitKind::RowLock);
        let recorder = DebuggingRecorder::new();
        with_local_recorder(&recorder, || publisher.publish());
        let now = told(&recorder.snapshotter());
        assert_eq!(now["db_entries_total{server=a,how=at_once}"], 2.0);
        assert_eq!(now["db_entries_total{server=a,how=by_ticket}"], 2.0);
        assert_eq!(now["db_entries_total{server=a,how=by_force}"], 0.0);
        assert_eq!(now["db_thread_concurrency{server=a}"], 3.0);
        assert_eq!((now["db_running{server=a}"], now["db_running_max{server=a}"]), (0.0, 1.0));
        assert_eq!((now["db_lock_waiters{server=a}"], now["db_queued{server=a}"]), (1.0, 0.0));
        assert!(!now.keys().any(|name| name.contains("wait_seconds")), "no wait has ended yet");
        // Those of the tables, each of the times with four quantiles.
        assert_eq!(now.len(), COUNTERS.len() + GAUGES.len() + 4 * TIMES.len());

        session.wait_end(WaitKind::RowLock);
        with_local_recorder(&recorder, || publisher.publish());
        let now = told(&recorder.snapshotter());
        assert_eq!(now["db_waits_total{server=a,kind=row_lock}"], 1.0);
        assert!(now["db_wait_seconds{server=a,kind=row_lock,quantile=1}"] > 0.0);
        assert_eq!(now["db_entries_total{server=a,how=by_force}"], 1.0);
        assert_eq!(now["db_running{server=a}"], 1.0);
    }

    #[test]
    fn counters_are_absolute_and_times_are_of_the_period() {
        let admission = admission();
        let session = admission.session();
        let mut publisher = Publisher::new(&admission, "db", &[]);
        let mut publish = || {
            // A recorder of its own each time: the program's may change, too.
            let recorder = DebuggingRecorder::new();
            with_local_recorder(&recorder, || publisher.publish());
            told(&recorder.snapshotter())
        };
        let enter = || drop(session.slot().unwrap());
        (0..64).for_each(|_| enter());
        let now = publish();
        assert_eq!(now["db_entries_total{how=at_once}"], 64.0);
        assert!(now["db_running_seconds{quantile=0.5}"] > 0.0, "one stay in 64 is timed");
        (0..6).for_each(|_| enter());
        let now = publish();
        assert_eq!(now["db_entries_total{how=at_once}"], 70.0);
        assert_eq!(publish()["db_running_seconds{quantile=0.5}"], 0.0, "nothing happened since");
    }

    #[test]
    fn without_a_recorder_nothing_is_published() {
        Publisher::new(&admission(), "db", &[]).publish();
    }
}
