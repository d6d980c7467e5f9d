//! `flifo stat --live` beside a process that has the database open.

mod common;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::golden::{Cases, without_numbers, without_path};
use common::{flifo, refused, succeeds};
use flifo_admission::{Admission, Config};
use flifo_engine::{Database, EngineConfig, Isolation, LiveStats};
use serde_json::Value;

fn config(publish_stats: bool) -> EngineConfig {
    EngineConfig {
        buffer_pool_bytes: 1 << 20,
        buffer_pool_instances: 1,
        data_files: 1,
        redo_capacity_bytes: 4 << 20,
        rollback_segments: 2,
        publish_stats,
        ..EngineConfig::default()
    }
}

/// Waits for the first counters.
fn published(dir: &Path) {
    let begun = Instant::now();
    while LiveStats::read(dir).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is published in {}", dir.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn an_open_database_is_watched_until_it_is_closed() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("db");
    let db = Database::create(&dir, config(true)).unwrap();
    let table = db.create_table("t").unwrap();
    published(&dir);
    let is_over = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let session = db.session(&Admission::new(Config::default()).unwrap());
            let mut row = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                let mut txn = session.begin(Isolation::ReadCommitted);
                assert!(txn.insert(&table, &row.to_be_bytes(), &[1; 50]).unwrap());
                txn.commit().unwrap();
                row += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let json = flifo().args(["stat", "--live", "--json", "--count", "2"]).arg(&dir).output().unwrap();
        let text =
            flifo().args(["stat", "--live", "--count", "1", "--interval", "2"]).arg(&dir).output().unwrap();
        is_over.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        [json, text]
    });
    let [json, text] = output.map(|output| {
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    });
    let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    for line in &lines {
        assert!(line["elapsed_s"].as_f64().unwrap() > 0.4, "{line}");
        assert!(line["trx_rw_commits"].as_u64().unwrap() > 0, "{line}");
        assert!(line["wait_ms"]["log_sync"].as_f64().unwrap() > 0.0, "{line}");
        assert_eq!(line["redo_capacity_bytes"], 4 << 20, "{line}");
    }
    assert!(lines[1]["at_s"].as_f64() > lines[0]["at_s"].as_f64());
    assert_eq!(text.lines().count(), 3, "two lines of heading, one of figures: {text}");
    assert!(text.lines().nth(1).unwrap().contains("commit/s"), "{text}");

    // It ends with the database.
    let mut watching = flifo()
        .args(["stat", "--live", "--json"])
        .arg(&dir)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    drop(table);
    db.close().unwrap();
    assert!(watching.wait().unwrap().success());
}

#[test]
fn what_cannot_be_watched_is_one_line_with_advice() {
    let temp = tempfile::tempdir().unwrap();
    let path = |name: &str| temp.path().join(name);
    let (open, quiet) = (Database::create(path("open"), config(true)).unwrap(), path("lab/sbtest"));
    published(&path("open"));
    copy(&path("open"), &path("killed"));
    Database::create(&quiet, config(false)).unwrap().close().unwrap();
    fs::create_dir(path("empty")).unwrap();
    copy(&quiet, &path("strange"));
    fs::write(path("strange/stats.flifo"), "notes").unwrap();
    // The counters that a killed process left are old enough after some seconds.
    let left = LiveStats::read(path("killed")).unwrap();
    while !left.is_stale(std::time::SystemTime::now()) {
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut cases = Cases::default();
    for name in ["killed", "lab/sbtest", "lab", "empty", "missing", "strange"] {
        let line = refused(flifo().args(["stat", "--live"]).arg(path(name)), 2);
        cases.add(name, without_numbers(&without_path(&line, temp.path())));
    }
    for wrong in [&["--live", "--recover"][..], &["--live", "--interval", "0"], &["--count", "1"]] {
        cases.add(wrong.join(" "), refused(flifo().args(["stat", "."]).args(wrong), 2));
    }
    cases.check("errors-stat-live");
    open.close().unwrap();
}

/// A sweep publishes while it runs, and its JSON has a series per cell.
#[test]
fn a_sweep_has_a_series_of_each_cell_s_last_round() {
    let temp = tempfile::tempdir().unwrap();
    let (data, json) = (temp.path().join("data"), temp.path().join("r.json"));
    let mut command = common::tiny(&data);
    succeeds(command.args(["--workload", "update-index", "--policy", "none"]).arg("--json").arg(&json));
    let results = common::results(&json);
    let cells = results["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2);
    for cell in cells {
        let rounds = cell["rounds"].as_array().unwrap();
        assert!(rounds[0].get("series").is_none() && rounds.len() == 2);
        let series = &rounds[1]["series"];
        assert_eq!(series["interval_s"], 0.02);
        let points = series["points"].as_array().unwrap();
        assert_eq!(points.len(), 10);
        let sum = |key: &str| points.iter().map(|point| point[key].as_u64().unwrap()).sum::<u64>();
        assert_eq!(sum("transactions"), rounds[1]["transactions"].as_u64().unwrap());
        // A busy machine may leave so short a window without a commit.
        assert!(sum("trx_rw_commits") <= sum("transactions") + 8, "{series}");
        assert!(sum("log_max_modified_age_async") > 0 && sum("buffer_pool_pages_dirty") > 0, "{series}");
    }
}
