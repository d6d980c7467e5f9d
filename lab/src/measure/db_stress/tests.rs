//! A small data set: loaded, used, checked, broken.

use std::path::Path;
use std::time::Duration;

use flifo_admission::{Admission, Config, Policy};
use flifo_engine::{EngineConfig, FlushLog, Isolation};

use super::*;
use crate::measure::workload::without_limit;
use crate::support::progress::Progress;

fn data(dir: &Path, objects: u32) -> Data {
    let config = EngineConfig {
        buffer_pool_bytes: 16 << 20,
        buffer_pool_instances: 1,
        data_files: 1,
        rollback_segments: 4,
        flush_log_at_trx_commit: FlushLog::Write,
        ..EngineConfig::default()
    };
    Data::prepare(&DbStress { dir, objects, seed: 1, config }, &Progress::new()).unwrap()
}

#[test]
fn no_history_loses_a_row_though_users_move_the_same_ones() {
    let temp = tempfile::tempdir().unwrap();
    let mut data = data(temp.path(), 3);
    data.check(&Progress::new()).unwrap();
    let config = Config { policy: Policy::Flifo, thread_concurrency: 4, ..Config::default() };
    let admission = Admission::new(config).unwrap();
    let mut users = Users::open(16, &data).unwrap();
    for reads_per_write in [1, 0] {
        let load = Load { reads_per_write, seed: 1, round: 0 };
        users.begin(&admission, &load, (Duration::ZERO, Duration::from_millis(400)));
        let counts = users.finish().unwrap();
        let [reads, writes] = [0, 1].map(|kind| counts.kinds[kind].ended());
        assert!(reads > 0 && (writes > 0) == (reads_per_write > 0), "{reads} {writes}");
        data.check(&Progress::new()).unwrap();
    }
    drop(users);
    // Dropped, not closed: the next open replays the log.
    drop(data);
    data = self::data(temp.path(), 3);
    data.check(&Progress::new()).unwrap();
}

#[test]
fn a_missing_row_and_a_double_one_are_found() {
    let temp = tempfile::tempdir().unwrap();
    let data = data(temp.path(), 5);
    let session = data.database.session(&without_limit());
    let change = |change: &dyn Fn(&mut flifo_engine::Transaction<'_>)| {
        let mut txn = session.begin(Isolation::ReadCommitted);
        change(&mut txn);
        txn.commit().unwrap();
    };
    let history = &data.tables.history;
    let row = history.get(&mut session.begin(Isolation::ReadCommitted), 27_u64).unwrap().unwrap();
    change(&|txn| assert!(history.delete(txn, 27_u64).unwrap()));
    let refused = data.check(&Progress::new()).unwrap_err().to_string();
    assert!(refused.contains("row 7 of the history of object 2 is missing"), "{refused}");
    change(&|txn| assert!(history.upsert(txn, row.values().unwrap()).unwrap()));
    data.check(&Progress::new()).unwrap();
    let mut again = row.values().unwrap();
    again[0] = flifo_engine::row::Value::Null;
    change(&|txn| assert!(history.insert(txn, &again).unwrap().is_some()));
    assert!(data.check(&Progress::new()).is_err());
}
