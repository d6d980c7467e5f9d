//! `flifo dbt2` and `flifo db-stress` on the embedded engine: figures, data that are used again, a killed run, bad input.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{fails, flifo, results, succeeds};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Options of a run that takes a second or two.
const SHORT: [&str; 10] =
    ["--warmup", "0.1", "--rounds", "1", "--buffer-pool", "32M", "--instances", "2", "--data-files", "2"];

fn dbt2(dir: &Path, warehouses: &str, more: &[&str]) -> Command {
    let mut command = flifo();
    command.args(["dbt2", "--population", "small", "--warehouses", warehouses]).args(SHORT);
    command.arg("--data").arg(dir).args(more);
    command
}

fn db_stress(dir: &Path, more: &[&str]) -> Command {
    let mut command = flifo();
    command.args(["db-stress", "--objects", "50", "--users", "1,16", "--time", "0.3"]).args(SHORT);
    command.arg("--data").arg(dir).args(more);
    command
}

fn rounds(json: &Value) -> impl Iterator<Item = &Value> {
    let cells = json["cells"].as_array().unwrap();
    cells.iter().flat_map(|cell| cell["rounds"].as_array().unwrap())
}

fn kinds(round: &Value) -> Vec<(&str, u64)> {
    let kinds = round["kinds"].as_array().unwrap();
    kinds.iter().map(|kind| (kind["kind"].as_str().unwrap(), kind["committed"].as_u64().unwrap())).collect()
}

#[test]
fn dbt2_counts_its_transactions_and_uses_its_data_again() {
    let temp = tempfile::tempdir().unwrap();
    let (json, html) = (temp.path().join("r.json"), temp.path().join("r.html"));
    let data = temp.path().join("data");
    let mut command = dbt2(&data, "2", &["--users", "1,16", "--time", "0.3", "--quirks"]);
    command.arg("--json").arg(&json).arg("--html").arg(&html);
    assert_eq!(succeeds(&mut command), "");
    let saved = results(&json);
    assert_eq!(saved["cells"].as_array().unwrap().len(), 4);
    assert_eq!(
        (&saved["settings"]["mix"], &saved["settings"]["quirks"]),
        (&"45,43,4,4,4".into(), &true.into())
    );
    // On a busy machine a cell may see few transactions.
    let mut new_orders = 0;
    for round in rounds(&saved) {
        let kinds = kinds(round);
        assert_eq!(
            kinds.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
            ["new-order", "payment", "order-status", "delivery", "stock-level"]
        );
        let per_minute = round["new_orders_per_minute"].as_f64().unwrap();
        let counted = kinds[0].1 as f64 * 60.0 / round["elapsed_s"].as_f64().unwrap();
        assert!((per_minute - counted).abs() <= 1e-6 * counted, "{per_minute} {counted}");
        new_orders += kinds[0].1;
        assert!(round["statements"].as_u64() >= round["transactions"].as_u64());
        assert_eq!(round["redo_hard_stops"], 0);
    }
    assert!(new_orders > 0);
    assert!(std::fs::read_to_string(&html).unwrap().contains("New orders (NOTPM)"));
    let output = flifo().arg("report").arg(&json).output().unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(report.contains("New orders committed per minute") && report.contains("stock-level"), "{report}");

    assert_eq!(
        succeeds(&mut dbt2(&data, "2", &["--users", "3", "--time", "0.1", "--mix", "0,0,50,0,50"])),
        "",
        "the same data"
    );
    let note = succeeds(&mut dbt2(&data, "1", &["--users", "3", "--time", "0.1"]));
    assert!(note.contains("warehouses = 2, not 1: loading again"), "{note}");
}

#[test]
fn a_killed_run_leaves_data_that_the_next_one_finds_consistent() {
    let temp = tempfile::tempdir().unwrap();
    for flush_mode in ["adaptive", "sequential"] {
        // A small log: pages are written because they are old, too.
        let engine = ["--flush-mode", flush_mode, "--redo-capacity", "8M", "--flush-log-at-trx-commit", "2"];
        let load = ["--users", "16", "--policy", "flifo", "--time", "60"];
        let mut running = dbt2(temp.path(), "2", &[engine.as_slice(), &load].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The heading comes when the data are loaded, just before the first transaction.
        let mut heading = String::new();
        BufReader::new(running.stdout.take().unwrap()).read_line(&mut heading).unwrap();
        assert!(heading.contains("statements/s"), "{heading}");
        std::thread::sleep(Duration::from_millis(1_000));
        running.kill().unwrap();
        running.wait().unwrap();
        // It recovers, and checks the conditions at its end.
        let load = ["--users", "2", "--policy", "none", "--time", "0.1"];
        let next = &mut dbt2(temp.path(), "2", &[engine.as_slice(), &load].concat());
        assert_eq!(succeeds(next), "", "{flush_mode}");
    }
}

/// Ctrl-C ends the cell; what was measured before it is printed, and the data can be used again.
#[test]
fn ctrl_c_keeps_what_was_measured() {
    let temp = tempfile::tempdir().unwrap();
    let options = ["--users", "4", "--policy", "none", "--time", "0.2"];
    let mut command = flifo();
    command.args([
        "dbt2",
        "--population",
        "small",
        "--warehouses",
        "1",
        "--rounds",
        "1000",
        "--warmup",
        "0.05",
    ]);
    command.args(["--buffer-pool", "32M", "--instances", "2", "--data-files", "2"]).args(options);
    command.arg("--data").arg(temp.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().unwrap();
    let mut output = BufReader::new(running.stdout.take().unwrap());
    let mut text = String::new();
    output.read_line(&mut text).unwrap();
    std::thread::sleep(Duration::from_millis(1_500));
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    output.read_to_string(&mut text).unwrap();
    let mut errors = String::new();
    running.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(130), "{errors}");
    assert!(text.contains("New orders committed per minute"), "{text}");
    assert!(!errors.contains("before the first cell"), "{errors}");
    assert_eq!(
        succeeds(&mut dbt2(temp.path(), "1", &["--users", "2", "--policy", "none", "--time", "0.1"])),
        ""
    );
}

#[test]
fn db_stress_reads_and_writes() {
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("r.json");
    let data = temp.path().join("data");
    for (rw, has_writes) in [("1", true), ("0", false)] {
        assert_eq!(succeeds(db_stress(&data, &["--rw", rw]).arg("--json").arg(&json)), "");
        let (mut reads, mut writes) = (0, 0);
        for round in rounds(&results(&json)) {
            let kinds = kinds(round);
            assert_eq!((kinds[0].0, kinds[1].0), ("read", "write"));
            (reads, writes) = (reads + kinds[0].1, writes + kinds[1].1);
        }
        assert!(reads > 0 && (writes > 0) == has_writes, "{reads} {writes}");
    }
}

#[test]
fn bad_input_is_refused_before_anything_is_made() {
    let temp = tempfile::tempdir().unwrap();
    let data = temp.path().join("data");
    let cases: [(&[&str], &[&str]); 7] = [
        (&["--mix", "50,50"], &["five percentages that add up to 100"]),
        (&["--think-time", "11"], &["0 to 10"]),
        (&["--users", "0"], &["connections must be a number"]),
        (&["--concurrency", "auto"], &["needs a server (--target)"]),
        (&["--protocol", "text"], &["--protocol is for a server"]),
        (&["--redo-capacity", "1M"], &["outside 4M to"]),
        (&["--json", "/nowhere/r.json"], &["/nowhere/r.json"]),
    ];
    for (options, words) in cases {
        fails(&mut dbt2(&data, "1", options), 2, words);
        assert!(!data.exists(), "{options:?}");
    }
    fails(&mut dbt2(&data, "0", &[]), 2, &["warehouses must be a number from 1 to"]);
    let mut none = flifo();
    none.args(["db-stress", "--objects", "0"]);
    fails(&mut none, 2, &["objects must be a number from 1 to"]);
    let stat = rustix::fs::statvfs(temp.path()).unwrap();
    if stat.f_bavail * stat.f_frsize < 1 << 40 {
        let mut large = flifo();
        large.args(["dbt2", "--warehouses", "10000"]).arg("--data").arg(&data);
        fails(&mut large, 3, &["disk full", "free some space"]);
        assert!(!data.join("dbt2").exists());
    }
    fails(&mut dbt2(&data, "1", &["--io-capacity", "900000"]), 2, &["io_capacity_max"]);
}
