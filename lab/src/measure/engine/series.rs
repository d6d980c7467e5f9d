//! Readings of the embedded engine's counters for a time series, and a thread that takes them.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use flifo_engine::{Database, EngineStats};

use crate::results::Series;
use crate::results::series::{Reading, SeriesBuilder};
use crate::support::clock;

/// The engine's counters at the moment of `stats`.
pub fn reading(stats: &EngineStats) -> Reading {
    stats.counters().into_iter().collect()
}

/// Takes the readings of one window in a thread of its own, for a load that does not come back while it runs.
///
/// Failure: without a thread, because the system refuses one, the whole window is one straight line.
pub struct SeriesRecorder {
    database: Database,
    stop: mpsc::Sender<()>,
    thread: Option<JoinHandle<SeriesBuilder>>,
    first: (u64, u64, Reading),
}

impl SeriesRecorder {
    /// Begins a window of about `time` now.
    pub fn start(database: &Database, time: Duration) -> Self {
        Self::from(database, clock::now_ns(), time)
    }

    /// Begins a window of about `time` at `start_ns` of the clock, which is now or shortly before.
    pub fn from(database: &Database, start_ns: u64, time: Duration) -> Self {
        let time_ns = clock::ns(time);
        let (stop, stopped) = mpsc::channel::<()>();
        let first = (start_ns, time_ns, reading(&database.stats()));
        let mut builder = SeriesBuilder::new(start_ns, time_ns, first.2.clone());
        let read = database.clone();
        let thread =
            std::thread::Builder::new().name("series".into()).stack_size(256 << 10).spawn(move || {
                loop {
                    let left_ns = builder.next_ns().saturating_sub(clock::now_ns());
                    match stopped.recv_timeout(Duration::from_nanos(left_ns)) {
                        Err(RecvTimeoutError::Timeout) => {
                            let stats = read.stats();
                            builder.add(clock::now_ns(), reading(&stats));
                        }
                        _ => return builder,
                    }
                }
            });
        SeriesRecorder { database: database.clone(), stop, thread: thread.ok(), first }
    }

    /// Ends the window at `end_ns`, now or shortly before, with a last reading.
    pub fn finish(self, end_ns: u64) -> Series {
        let _ = self.stop.send(());
        let builder = self.thread.and_then(|thread| thread.join().ok()).unwrap_or_else(|| {
            let (start_ns, time_ns, reading) = self.first;
            SeriesBuilder::new(start_ns, time_ns, reading)
        });
        let last = reading(&self.database.stats());
        builder.finish(clock::now_ns().min(end_ns), end_ns, last)
    }
}

#[cfg(test)]
mod tests {
    use flifo_admission::{Admission, Config};
    use flifo_engine::{EngineConfig, Isolation};

    use super::*;
    use crate::results::Point;

    fn database(dir: &std::path::Path) -> Database {
        let config = EngineConfig {
            buffer_pool_bytes: 4 << 20,
            buffer_pool_instances: 1,
            data_files: 1,
            rollback_segments: 2,
            ..EngineConfig::default()
        };
        Database::create(dir.join("db"), config).unwrap()
    }

    #[test]
    fn the_engine_has_every_counter_of_a_point() {
        let temp = tempfile::tempdir().unwrap();
        let database = database(temp.path());
        let now = reading(&database.stats());
        let point = serde_json::to_value(now.since(&now)).unwrap();
        let missing: Vec<_> = point
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, value)| value.is_null())
            .map(|(key, _)| key)
            .collect();
        assert_eq!(missing, ["transactions"], "counted by clients alone");
        database.close().unwrap();
    }

    #[test]
    fn commits_between_two_moments_are_in_the_series() {
        let temp = tempfile::tempdir().unwrap();
        let database = database(temp.path());
        let table = database.create_table("t").unwrap();
        let session = database.session(&Admission::new(Config::default()).unwrap());
        let recorder = SeriesRecorder::start(&database, Duration::from_millis(100));
        let start_ns = clock::now_ns();
        let mut commits = 0;
        while clock::now_ns() < start_ns + 120_000_000 || commits < 5 {
            let mut txn = session.begin(Isolation::ReadCommitted);
            assert!(txn.insert(&table, &u64::to_be_bytes(commits), b"row").unwrap());
            txn.commit().unwrap();
            commits += 1;
        }
        let series = recorder.finish(clock::now_ns());
        let sum = series.sum(|point: &Point| point.trx_rw_commits).unwrap();
        assert!(series.points.len() >= 10 && (1..=commits).contains(&sum), "{sum} of {commits}: {series:?}");
        database.close().unwrap();
    }
}
