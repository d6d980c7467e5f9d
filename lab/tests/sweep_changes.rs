//! The real binary measures workloads that write: their figures are consistent, the table matches the acknowledged
//! changes, and the next run accepts it.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{fails, flifo, results, succeeds, tiny};
use serde_json::Value;

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no number {key} in {value}"))
}

/// A run of one round on small data; few rows, so that transactions meet.
fn run(data: &Path, more: &[&str]) -> Command {
    let mut command = flifo();
    command.args(["sweep", "--table-size", "2000", "--range-size", "20", "--buffer-pool", "16M"]);
    command.args(["--instances", "1", "--data-files", "2", "--rounds", "1", "--statement-work", "0"]);
    command.args(["--redo-capacity", "16M"]).args(more).arg("--data").arg(data);
    command
}

fn measured(more: &[&str]) -> Vec<Value> {
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("out.json");
    let said = succeeds(run(&temp.path().join("data"), more).arg("--json").arg(&json));
    assert_eq!(said, "", "the run ends without a complaint: what is in the table was counted");
    results(&json)["cells"].as_array().unwrap().clone()
}

const ALL: &str = "point-select,read-only,read-write,update-index,update-non-index,insert,hot-rows-10,ycsb-a,ycsb-b,ycsb-c,ycsb-d,ycsb-e,ycsb-f";

fn all_workloads(front: &str) {
    let more = [
        "--workload",
        ALL,
        "--front",
        front,
        "--threads",
        "4",
        "--time",
        "0.3",
        "--flush-log-at-trx-commit",
        "2",
    ];
    let cells = measured(&[&more[..], &["--policy", "flifo", "--concurrency", "2"]].concat());
    assert_eq!(cells.len(), ALL.split(',').count());
    for (cell, name) in cells.iter().zip(ALL.split(',')) {
        assert_eq!(cell["workload"], name);
        let round = &cell["rounds"][0];
        let (statements, transactions) = (number(round, "statements"), number(round, "transactions"));
        assert!(transactions > 0.0, "{name}: {round}");
        let each = statements / transactions;
        let (least, most) = match name {
            "read-only" => (13.0, 16.0),
            // Those that are run again have statements, too.
            "read-write" => (19.0, 60.0),
            "ycsb-f" => (1.2, 1.8),
            _ => (1.0, 1.0),
        };
        assert!((least..=most).contains(&each), "{name}: {each} statements a transaction");
        let writes = !["point-select", "read-only", "ycsb-c"].contains(&name);
        assert_eq!(number(round, "commits_per_s") > 0.0, writes, "{name}: {round}");
        assert_eq!(number(round, "redo_bytes_per_s") > 0.0, writes, "{name}");
        assert_eq!(number(round, "redo_hard_stops"), 0.0, "{name}");
        let reasons = ["deadlocks", "lock_wait_timeouts", "write_conflicts"].map(|key| number(round, key));
        assert_eq!(number(round, "retries"), reasons.iter().sum::<f64>(), "{name}");
    }
}

#[test]
fn the_socket_front_measures_all_workloads() {
    all_workloads("socket");
}

#[test]
fn the_direct_front_measures_all_workloads() {
    all_workloads("direct");
}

/// Two rows that sixteen connections want to change, and transactions of twenty statements on twenty rows: waits and
/// conflicts, and not one update is lost or comes twice, or the run would fail.
#[test]
fn who_meets_waits_or_runs_again_and_nothing_is_lost() {
    let more =
        ["--workload", "hot-rows-2,read-write", "--threads", "16", "--time", "0.4", "--table-size", "40"];
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("out.json");
    let mut command = flifo();
    command.args(["sweep", "--range-size", "5", "--buffer-pool", "16M", "--instances", "1", "--rounds", "1"]);
    command.args([
        "--statement-work",
        "0",
        "--flush-log-at-trx-commit",
        "2",
        "--policy",
        "none,fifo,quantum",
    ]);
    succeeds(command.args(more).arg("--data").arg(temp.path().join("data")).arg("--json").arg(&json));
    let json = results(&json);
    let sum = |workload: &str, key: &str| -> f64 {
        let cells = json["cells"].as_array().unwrap().iter().filter(|cell| cell["workload"] == workload);
        cells.map(|cell| number(&cell["rounds"][0], key)).sum()
    };
    assert!(sum("hot-rows-2", "row_lock_waits") > 0.0);
    assert_eq!(sum("hot-rows-2", "write_conflicts"), 0.0, "a statement that waited goes on");
    assert!(sum("read-write", "retries") > 0.0);
    assert!(sum("read-write", "transactions") > 0.0);
}

#[test]
fn settings_are_noted_and_seconds_are_counted() {
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("out.json");
    let (data, html) = (temp.path().join("data"), temp.path().join("out.html"));
    let mut command = run(&data, &["--workload", "update-index", "--threads", "2", "--time", "2"]);
    command.args(["--policy", "none", "--rollback-segments", "3", "--doublewrite", "off"]);
    command.args(["--flush-log-at-trx-commit", "0"]).arg("--html").arg(&html);
    succeeds(command.arg("--json").arg(&json));
    let json = results(&json);
    let settings = &json["settings"];
    assert_eq!(number(settings, "flush_log_at_trx_commit"), 0.0);
    assert_eq!(number(settings, "redo_capacity_bytes"), f64::from(16 << 20));
    assert_eq!((number(settings, "rollback_segments"), &settings["doublewrite"]), (3.0, &Value::Bool(false)));
    let scheduler = flifo_admission::Config::default();
    assert_eq!(number(settings, "lock_waiters_max"), f64::from(scheduler.lock_waiters_max));
    let round = &json["cells"][0]["rounds"][0];
    let seconds: Vec<f64> =
        round["seconds"].as_array().unwrap()[..2].iter().map(|s| number(s, "transactions_per_s")).collect();
    let of_engine = |second: usize, key: &str| number(&round["seconds"][second]["engine"], key);
    for second in 0..2 {
        assert!(of_engine(second, "redo_bytes_per_s") > 0.0, "{round}");
        assert!(of_engine(second, "dirty_pages") > 0.0, "{round}");
    }
    let mean = (seconds[0] + seconds[1]) / 2.0;
    let lowest = seconds[0].min(seconds[1]) / mean;
    assert!((number(round, "lowest_second_share") - lowest).abs() < 1e-9, "{round}");
    assert!(std::fs::read_to_string(html).unwrap().contains("hard stops"));
    // Other rollback segments are other data.
    let mut other = run(&data, &["--threads", "1", "--time", "0.05", "--policy", "none"]);
    let said = succeeds(other.args(["--rollback-segments", "4"]));
    assert!(said.contains("rollback_segments = 3, not 4: loading again"), "{said}");
}

#[test]
fn data_that_were_changed_are_used_again() {
    let temp = tempfile::tempdir().unwrap();
    let more =
        ["--workload", "insert,read-write,ycsb-e", "--threads", "3", "--time", "0.2", "--policy", "fifo"];
    for _ in 0..2 {
        assert_eq!(succeeds(&mut run(temp.path(), &more)), "");
    }
    let read = ["--workload", "read-only", "--threads", "1", "--time", "0.05", "--policy", "none"];
    assert_eq!(succeeds(&mut run(temp.path(), &read)), "");
}

/// A disk that is full at the end: the failed output is reported, and neither the other outputs nor the table's audit
/// are lost.
#[test]
fn what_cannot_be_written_takes_nothing_with_it() {
    let temp = tempfile::tempdir().unwrap();
    let (data, html) = (temp.path().join("data"), temp.path().join("out.html"));
    let more = ["--workload", "insert", "--threads", "1", "--time", "0.1", "--policy", "none"];
    fails(
        run(&data, &more).arg("--json").arg("/dev/full").arg("--html").arg(&html),
        1,
        &["cannot write /dev/full"],
    );
    assert!(std::fs::read_to_string(&html).unwrap().contains("insert"));
    assert_eq!(succeeds(&mut run(&data, &more)), "", "the table was counted");
    let full = std::fs::File::create("/dev/full").unwrap();
    std::fs::remove_file(&html).unwrap();
    fails(run(&data, &more).stdout(full).arg("--html").arg(&html), 1, &["cannot print"]);
    assert!(html.exists());
    assert_eq!(succeeds(&mut run(&data, &more)), "", "the table was counted");
}

#[test]
fn a_killed_run_is_counted_anew() {
    let temp = tempfile::tempdir().unwrap();
    let load = ["--threads", "1", "--time", "0.05", "--policy", "none"];
    succeeds(&mut run(temp.path(), &load));
    let long = ["--workload", "insert,read-write", "--threads", "8", "--time", "60", "--policy", "none"];
    let mut child = run(temp.path(), &long).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // Long enough to be in the midst of it, and if not, the test is as good with less.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(1500) && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let said = succeeds(&mut run(temp.path(), &load));
    assert!(said.contains("was cut off: counting them"), "{said}");
    assert_eq!(succeeds(&mut run(temp.path(), &load)), "");
}

#[test]
fn data_of_an_older_layout_are_made_anew() {
    use flifo_engine::{Database, EngineConfig};
    let temp = tempfile::tempdir().unwrap();
    succeeds(&mut tiny(temp.path()));
    let config =
        EngineConfig { buffer_pool_bytes: 16 << 20, buffer_pool_instances: 1, ..EngineConfig::default() };
    let database = Database::open(temp.path().join("sbtest"), config).unwrap();
    database.set_property("row_format", "1").unwrap();
    database.close().unwrap();
    let said = succeeds(&mut tiny(temp.path()));
    assert!(said.contains("row_format = 1, not 2: loading again") && said.lines().count() == 1, "{said}");
}

#[test]
fn a_table_that_lost_a_row_is_found_out() {
    use flifo_engine::{Database, EngineConfig};
    let temp = tempfile::tempdir().unwrap();
    succeeds(&mut tiny(temp.path()));
    let config =
        EngineConfig { buffer_pool_bytes: 16 << 20, buffer_pool_instances: 1, ..EngineConfig::default() };
    let database = Database::open(temp.path().join("sbtest"), config).unwrap();
    // As if a sweep had recorded other changes than the table has.
    database.set_property("sum_k", "12345").unwrap();
    database.close().unwrap();
    let mut command = tiny(temp.path());
    fails(
        command.args(["--workload", "update-index", "--policy", "none"]),
        3,
        &["changes were lost or applied twice"],
    );
}
