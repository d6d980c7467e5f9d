//! The real binary measures: all cells are there, data are reused or made anew, Ctrl-C keeps what is measured.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime};

use common::{fails, flifo, results, succeeds, tiny};
use flifo::support::clock::utc_now;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn cells(json: &Value) -> &Vec<Value> {
    json["cells"].as_array().unwrap()
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no number {key} in {value}"))
}

/// Every cell of {1,3} x {none,fifo,flifo} x {point-select,read-only}, each with sound rounds.
fn check_all_cells(json: &Value, front: &str) {
    let mut seen = Vec::new();
    let mut total = 0.0;
    for cell in cells(json) {
        assert_eq!((cell["target"].as_str(), cell["front"].as_str()), (Some("engine"), Some(front)));
        let rounds = cell["rounds"].as_array().unwrap();
        assert_eq!(rounds.len(), 2);
        for round in rounds {
            let (statements, transactions) = (number(round, "statements"), number(round, "transactions"));
            assert!(transactions <= statements, "{round}");
            assert!((number(round, "elapsed_s") - 0.2).abs() < 1e-6, "a window is exact");
            assert!((number(round, "throughput_per_s") - statements / 0.2).abs() < 1.0);
            if cell["workload"] == "point-select" {
                assert_eq!(statements, transactions);
            }
            total += transactions;
            // On a machine busy with other things a short window may pass without a reply.
            if transactions == 0.0 {
                continue;
            }
            let p = |key| number(round, key);
            assert!(p("p50_ms") <= p("p95_ms") && p("p95_ms") <= p("p99_ms") && p("p99_ms") <= p("max_ms"));
            assert!(number(round, "connection_statements_min") <= number(round, "connection_statements_max"));
        }
        seen.push(format!("{} {} {}", cell["workload"], cell["policy"], cell["threads"]).replace('"', ""));
    }
    let mut expected = Vec::new();
    for threads in [1, 3] {
        for workload in ["point-select", "read-only"] {
            for policy in ["none", "fifo", "flifo"] {
                expected.push(format!("{workload} {policy} {threads}"));
            }
        }
    }
    assert_eq!(seen, expected);
    assert!(total > 0.0);
}

fn measures(front: &str) {
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("out.json");
    let mut command = tiny(&temp.path().join("data"));
    command.args(["--front", front, "--workload", "point-select,read-only", "--concurrency", "2"]);
    succeeds(command.arg("--json").arg(&json));
    let json = results(&json);
    check_all_cells(&json, front);
    assert_eq!(json["interrupted"], false);
}

#[test]
fn the_socket_front_measures_all_cells() {
    measures("socket");
}

#[test]
fn the_direct_front_measures_all_cells() {
    measures("direct");
}

#[test]
fn page_and_picture_are_written_and_a_saved_run_is_shown_again() {
    let temp = tempfile::tempdir().unwrap();
    let file = |name: &str| temp.path().join(name);
    let mut command = tiny(&file("data"));
    command.arg("--json").arg(file("a.json")).arg("--html").arg(file("a.html"));
    succeeds(command.arg("--svg").arg(file("a.svg")));
    assert!(fs::read_to_string(file("a.html")).unwrap().contains("<html"));
    assert!(fs::read_to_string(file("a.svg")).unwrap().contains("<svg"));
    let shown = flifo().arg("report").arg(file("a.json")).output().unwrap();
    assert_eq!(shown.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&shown.stdout).contains("flifo"));
}

#[test]
fn a_disk_bound_sweep_measures_leaving_and_staying() {
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("out.json");
    let mut command = tiny(&temp.path().join("data"));
    // The last of an option given twice would be an error: a line of its own.
    command = {
        let mut own = flifo();
        own.args([
            "sweep",
            "--specimen",
            "none",
            "--table-size",
            "20000",
            "--threads",
            "4",
            "--time",
            "0.2",
            "--rounds",
            "1",
        ]);
        own.args([
            "--policy",
            "flifo",
            "--buffer-pool",
            "1M",
            "--instances",
            "1",
            "--leave-on-read",
            "yes,no",
        ]);
        own.arg("--data").arg(temp.path().join("data"));
        drop(command);
        own
    };
    succeeds(command.arg("--json").arg(&json));
    let json = results(&json);
    let leaves: Vec<&Value> = cells(&json).iter().map(|cell| &cell["leave_on_read"]).collect();
    assert_eq!(leaves, [true, false]);
    for cell in cells(&json) {
        assert!(number(&cell["rounds"][0], "disk_reads_per_s") > 0.0, "{cell}");
    }
}

fn changed_at(dir: &Path) -> Vec<SystemTime> {
    let files = fs::read_dir(dir.join("sbtest")).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().modified().unwrap()).collect()
}

#[test]
fn data_are_reused_when_they_fit_and_made_anew_when_they_do_not() {
    let temp = tempfile::tempdir().unwrap();
    let quick = |more: &[&str]| {
        let mut command = flifo();
        command.args([
            "sweep",
            "--specimen",
            "none",
            "--threads",
            "1",
            "--time",
            "0.05",
            "--rounds",
            "1",
            "--policy",
            "none",
        ]);
        command.args(["--buffer-pool", "16M", "--instances", "1"]).args(more);
        succeeds(command.arg("--data").arg(temp.path()))
    };
    assert_eq!(quick(&["--table-size", "2000"]), "");
    let before = changed_at(temp.path());
    assert_eq!(quick(&["--table-size", "2000"]), "");
    assert_eq!(changed_at(temp.path()), before, "reading writes nothing");
    let said = quick(&["--table-size", "2001"]);
    assert!(said.contains("rows = 2000, not 2001: loading again") && said.lines().count() == 1, "{said}");
    let said = quick(&["--table-size", "2001", "--seed", "9"]);
    assert!(said.contains("seed = 1, not 9"), "{said}");
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < patience, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_killed_load_is_made_anew() {
    let temp = tempfile::tempdir().unwrap();
    let data = temp.path().join("data");
    let mut load = flifo();
    load.args(["sweep", "--specimen", "none", "--table-size", "5000000"]).arg("--data").arg(&data);
    let mut child = load.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the load begins", || data.join("sbtest").exists());
    signal(&child, Signal::KILL);
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    let said = succeeds(&mut tiny(&data));
    assert!(said.contains("was not completed: loading again"), "{said}");
    assert_eq!(succeeds(&mut tiny(&data)), "");
}

#[test]
fn a_run_starts_before_its_load() {
    let temp = tempfile::tempdir().unwrap();
    let (data, json) = (temp.path().join("data"), temp.path().join("out.json"));
    let mut load = flifo();
    load.args([
        "sweep",
        "--specimen",
        "none",
        "--table-size",
        "100000",
        "--threads",
        "1",
        "--time",
        "0.05",
        "--rounds",
        "1",
    ]);
    load.args(["--policy", "none", "--workload", "point-select"]).arg("--data").arg(&data);
    let child = load.arg("--json").arg(&json).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the load begins", || data.join("sbtest").exists());
    // The load goes on in another second than it began in.
    signal(&child, Signal::STOP);
    let loading = utc_now();
    wait_until("the next second", || utc_now() > loading);
    signal(&child, Signal::CONT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let started_at = results(&json)["started_at"].as_str().unwrap().to_owned();
    assert!(started_at <= loading, "started at {started_at}, and loading at {loading}");
}

#[test]
fn an_interrupted_load_leaves_nothing_behind() {
    let temp = tempfile::tempdir().unwrap();
    let data = temp.path().join("data");
    let mut load = flifo();
    load.args(["sweep", "--specimen", "none", "--table-size", "5000000"]).arg("--data").arg(&data);
    let child = load.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the load begins", || data.join("sbtest").exists());
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(!data.join("sbtest").exists());
    assert_eq!(succeeds(&mut tiny(&data)), "");
}

#[test]
fn ctrl_c_saves_what_was_measured_and_leaves_the_data_sound() {
    let temp = tempfile::tempdir().unwrap();
    let (data, json) = (temp.path().join("data"), temp.path().join("out.json"));
    let mut command = flifo();
    command.args([
        "sweep",
        "--specimen",
        "none",
        "--table-size",
        "2000",
        "--threads",
        "2,4",
        "--time",
        "0.4",
        "--rounds",
        "1",
    ]);
    command.args(["--policy", "fifo,flifo", "--buffer-pool", "16M", "--data-files", "2", "--instances", "1"]);
    command.arg("--data").arg(&data).arg("--json").arg(&json);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The first finished row: whatever it looks like, it names its policy.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.by_ref().map(Result::unwrap).find(|line| line.contains("fifo"));
    assert!(first.is_some());
    signal(&child, Signal::INT);
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let saved = results(&json);
    assert_eq!(saved["interrupted"], true);
    let measured = cells(&saved).len();
    assert!((1..4).contains(&measured), "{measured} cells");
    assert!(cells(&saved).iter().all(|cell| cell["rounds"].as_array().unwrap().len() == 1));
    assert_eq!(succeeds(&mut tiny(&data)), "", "the data were reused");
}

/// The specimen's queues decide who goes first, and the table is what its clients saw.
#[test]
fn specimens_measure_changes_within_and_without_transactions() {
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("out.json");
    let mut command = tiny(&temp.path().join("data"));
    command.args(["--workload", "hot-transaction-5,hot-rows-2,read-write", "--policy", "none,fifo"]);
    command.args(["--specimen", "kernel-mutex:0,kernel-futex", "--concurrency", "2"]);
    succeeds(command.arg("--json").arg(&json));
    let json = results(&json);
    let with = |specimen: &str| {
        let of = |cell: &&Value| cell["specimen"].as_str().unwrap_or_default() == specimen;
        let statements = |cell: &Value| {
            cell["rounds"].as_array().unwrap().iter().map(|r| number(r, "statements")).sum::<f64>()
        };
        let cells: Vec<&Value> = cells(&json).iter().filter(of).collect();
        (cells.len(), cells.into_iter().map(statements).sum::<f64>() > 0.0)
    };
    // Three workloads, two policies, two numbers of connections.
    for specimen in ["", "kernel-mutex-0", "kernel-futex"] {
        assert_eq!(with(specimen), (3 * 2 * 2, true), "{specimen}");
    }
}

#[test]
fn two_sweeps_do_not_share_a_directory() {
    let temp = tempfile::tempdir().unwrap();
    let data = temp.path().join("data");
    succeeds(&mut tiny(&data));
    let mut long = flifo();
    long.args([
        "sweep",
        "--specimen",
        "none",
        "--table-size",
        "2000",
        "--threads",
        "1",
        "--time",
        "30",
        "--rounds",
        "1",
    ]);
    long.args(["--buffer-pool", "16M", "--data-files", "2", "--instances", "1"]).arg("--data").arg(&data);
    let mut child = long.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // Its heading comes once it has the data.
    let mut heading = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut heading).unwrap();
    fails(&mut tiny(&data), 3, &["in use by another flifo"]);
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
