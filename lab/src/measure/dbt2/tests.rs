//! Data sets of small warehouses: loaded, used, checked, broken.

use std::path::Path;
use std::time::Duration;

use flifo_admission::{Admission, Config, Policy};
use flifo_engine::{EngineConfig, FlushLog, Isolation};

use super::schema::{district, orders, warehouse};
use super::*;
use crate::measure::closed_loop::{Account, Counts, KindCounts};
use crate::measure::workload::without_limit;
use crate::support::progress::Progress;

fn config() -> EngineConfig {
    EngineConfig {
        buffer_pool_bytes: 32 << 20,
        buffer_pool_instances: 2,
        data_files: 1,
        rollback_segments: 4,
        flush_log_at_trx_commit: FlushLog::Write,
        ..EngineConfig::default()
    }
}

fn data(dir: &Path, warehouses: u32) -> Data {
    let requested = Dbt2 { dir, scale: Scale::small(warehouses), seed: 1, config: config() };
    Data::prepare(&requested, &Progress::new()).unwrap()
}

fn load(pace: Pace) -> Load {
    Load { mix: Mix::default(), pace, quirks: Quirks::default(), seed: 7, round: 0 }
}

/// A short run of `users` under a limit of 4.
fn run(data: &Data, users: u32, load: &Load) -> Counts {
    let config = Config { policy: Policy::Flifo, thread_concurrency: 4, ..Config::default() };
    let admission = Admission::new(config).unwrap();
    let mut users = Users::open(users, data).unwrap();
    users.begin(&admission, load, (Duration::ZERO, Duration::from_millis(600)));
    users.finish().unwrap()
}

#[test]
fn a_run_of_16_users_ends_consistent_and_so_does_a_recovery() {
    let temp = tempfile::tempdir().unwrap();
    let mut data = data(temp.path(), 2);
    let before = data.account().unwrap();
    let mut acknowledged = Account::default();
    for quirks in [Quirks::default(), Quirks::DBT2] {
        let counts = run(&data, 16, &Load { quirks, ..load(Pace::Unthrottled) });
        assert!(counts.kinds[TransactionKind::NewOrder as usize].committed > 0);
        assert!(counts.all.statements > 10 * counts.all.transactions, "statements, not transactions");
        let ended: u64 = counts.kinds.iter().map(KindCounts::ended).sum();
        assert_eq!(ended, counts.all.transactions);
        acknowledged = acknowledged.plus(counts.account);
        assert_eq!(data.check((before, acknowledged), &Progress::new()).unwrap(), []);
    }
    // Dropped, not closed: the next open replays the log.
    drop(data);
    data = self::data(temp.path(), 2);
    assert_eq!(data.check((before, acknowledged), &Progress::new()).unwrap(), [], "after recovery");
    let other = Account { orders: acknowledged.orders + 1, ..acknowledged };
    assert_eq!(data.check((before, other), &Progress::new()).unwrap().len(), 1, "a lost commit");
}

#[test]
fn a_broken_row_is_found() {
    let temp = tempfile::tempdir().unwrap();
    let data = data(temp.path(), 1);
    let now = data.account().unwrap();
    let conditions = || -> Vec<u8> {
        let violations = data.check((now, Account::default()), &Progress::new()).unwrap();
        violations.iter().map(|violation| violation.condition).collect()
    };
    assert_eq!(conditions(), [0_u8; 0]);
    let session = data.database.session(&without_limit());
    let change = |change: &dyn Fn(&Tables, &mut flifo_engine::Transaction<'_>) -> bool| {
        let mut txn = session.begin(Isolation::ReadCommitted);
        assert!(change(&data.tables, &mut txn));
        txn.commit().unwrap();
    };
    change(&|tables, txn| tables.order_line.delete(txn, (1, 3, 7, 1)).unwrap());
    assert_eq!(conditions(), [4]);
    change(&|tables, txn| tables.new_order.delete(txn, (1, 3, 50)).unwrap());
    assert_eq!(conditions(), [3, 4]);
    change(&|tables, txn| {
        tables.orders.update_with(txn, (1, 3, 60), |row| Ok(row.set(orders::O_OL_CNT, 1)?)).unwrap()
    });
    assert_eq!(conditions(), [3, 4]);
    change(&|tables, txn| {
        tables.district.update_with(txn, (1, 3), |row| Ok(row.set(district::D_NEXT_O_ID, 70)?)).unwrap()
    });
    assert_eq!(conditions(), [2, 3, 4, 0]);
    change(&|tables, txn| {
        tables.warehouse.update_with(txn, 1, |row| Ok(row.set(warehouse::W_YTD, 5)?)).unwrap()
    });
    assert_eq!(conditions(), [1, 2, 3, 4, 0]);
}

#[test]
fn complete_data_are_used_again_and_others_loaded_again() {
    let temp = tempfile::tempdir().unwrap();
    let first = data(temp.path(), 1);
    let created = first.account().unwrap();
    let counts = run(&first, 2, &load(Pace::Unthrottled));
    first.close().unwrap();
    drop(first);
    let again = data(temp.path(), 1);
    assert_eq!(again.account().unwrap(), created.plus(counts.account), "the same data, changed");
    again.database.set_property("complete", "no").unwrap();
    again.close().unwrap();
    drop(again);
    let incomplete = data(temp.path(), 1);
    assert_eq!(incomplete.account().unwrap(), created);
    incomplete.close().unwrap();
    drop(incomplete);
    assert_eq!(data(temp.path(), 2).account().unwrap().orders, 2 * created.orders);
}

#[test]
fn users_with_think_times_do_little() {
    let temp = tempfile::tempdir().unwrap();
    let data = data(temp.path(), 1);
    let counts = run(&data, 8, &load(Pace::ThinkTimes(1.0)));
    assert_eq!(counts.all.transactions, 0, "the shortest keying time is longer than the run");
    assert_eq!(data.check((data.account().unwrap(), Account::default()), &Progress::new()).unwrap(), []);
}

#[test]
fn the_mix_of_a_run_is_that_of_the_option() {
    let temp = tempfile::tempdir().unwrap();
    let data = data(temp.path(), 2);
    let mix: Mix = "10,20,30,20,20".parse().unwrap();
    let counts = run(&data, 1, &Load { mix, ..load(Pace::Unthrottled) });
    let all = counts.all.transactions as f64;
    // One user plays whole decks of a hundred, and a part of one.
    let slack = 1.0 + 100.0 * 30.0 / all;
    for kind in TransactionKind::ALL {
        let share = 100.0 * counts.kinds[kind as usize].ended() as f64 / all;
        assert!((share - f64::from(mix.percent(kind))).abs() < slack, "{} {share}", kind.name());
    }
}
