//! The command on real servers, with times so small that the figures mean nothing.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

const TINY: &str = "--rows 1000 --connections 3 --buffer-pool 32M --log-file-size 16M";

fn bench(temp: &TempDir, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flifo-mariadb-bench"));
    command.args(TINY.split_whitespace().chain(arguments.split_whitespace())).env("TMPDIR", temp.path());
    if !arguments.starts_with("slices") {
        command.args(["--time", "1"]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Neither files nor processes.
fn assert_nothing_left(temp: &TempDir) {
    let left: Vec<_> = fs::read_dir(temp.path()).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(processes(temp.path()), Vec::<String>::new());
}

/// Command lines that name this folder.
fn processes(folder: &Path) -> Vec<String> {
    let command_line = |entry: fs::DirEntry| {
        let bytes = fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&bytes).replace('\0', " "))
    };
    let all = fs::read_dir("/proc").unwrap().flatten().filter_map(command_line);
    all.filter(|line| line.contains(&*folder.to_string_lossy())).collect()
}

#[test]
fn three_variants_are_measured_and_shown() {
    let temp = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    let (json, markdown) = (files.path().join("o.json"), files.path().join("o.md"));
    let arguments = format!(
        "--workload hot-rows-100,read-only --rounds 1 --variant plugin=plugin:flifo_thread_concurrency=2 \
         --json {} --markdown {}",
        json.display(),
        markdown.display()
    );
    let output = bench(&temp, &arguments).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_nothing_left(&temp);

    let results: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    let cells = results["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 6, "{}", said(&output));
    for cell in cells {
        let round = &cell["rounds"][0];
        for figure in
            ["throughput_per_s", "server_cpu_us_per_statement", "switches_per_statement", "sysbench_per_s"]
        {
            assert!(round[figure].as_f64().unwrap() > 0.0, "{figure} of {cell}");
        }
        let limit = &round["plugin"]["flifo_thread_concurrency"];
        assert_eq!(limit.as_u64(), (cell["variant"] == "plugin").then_some(2), "{cell}");
    }
    let history = |cell: &Value| cell["rounds"][0]["history_per_statement"].as_f64().unwrap();
    assert!(
        cells.iter().any(|cell| history(cell) != 0.0),
        "updates leave something to purge, or it catches up"
    );
    let text = fs::read_to_string(markdown).unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains(&text), "what is written is what is shown");
    for target in
        ["update, 100 hot rows", "| plugin / stock", "| pool ", "flifo_thread_concurrency=2", "10 of"]
    {
        assert!(target == "10 of" || text.contains(target), "{target} is missing in\n{text}");
    }
    assert!(!text.contains("please report"), "{text}");
}

/// The plugin comes and goes, with each variant's settings and no others.
#[test]
fn one_server_is_each_variant_in_alternation() {
    let temp = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    let json = files.path().join("o.json");
    let arguments = format!(
        "overhead --workload point-select,hot-rows-100 --rounds 1 --one-server --json {} \
         --variant three=plugin:flifo_thread_concurrency=3,flifo_io_depth=8 \
         --variant off=plugin:flifo_thread_concurrency=0",
        json.display(),
    );
    let output = bench(&temp, &arguments).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_nothing_left(&temp);
    let results: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    let cells = results["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 8, "{}", said(&output));
    for cell in cells {
        let limit = cell["rounds"][0]["plugin"]["flifo_thread_concurrency"].as_u64();
        match cell["variant"].as_str().unwrap() {
            "stock" => assert_eq!(limit, None, "{cell}"),
            "off" => assert_eq!(limit, Some(0), "{cell}"),
            "three" => assert_eq!(limit, Some(3), "{cell}"),
            // The default again: adaptive, and a few connections need no limit.
            _ => assert_eq!(limit, Some(0), "{cell}"),
        }
    }
    assert!(!said(&output).contains("please report"), "{}", said(&output));
}

#[test]
fn reports_and_transactions_run_beside_the_load_until_its_end() {
    let temp = tempfile::tempdir().unwrap();
    let output = bench(
        &temp,
        "--workload point-select --rounds 1 --only stock,plugin --reports 5 --transactions 20 --pause 500 --text \
         --variant plugin=plugin:flifo_thread_concurrency=2",
    )
    .output()
    .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_nothing_left(&temp);
    for told in [
        "statements as text, 5 reports beside the load, 20 connections beside the load with transactions",
        " transactions/s",
    ] {
        assert!(said(&output).contains(told), "{}", said(&output));
    }
    // Each is there to its end, and the plugin has let the load pass them.
    for wrong in ["Unknown thread id", "not quiet", "please report", "failed"] {
        assert!(!said(&output).contains(wrong), "{}", said(&output));
    }
}

#[test]
fn variants_alternate_in_short_slices() {
    let temp = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    let json = files.path().join("o.json");
    let arguments = format!(
        "slices --workload point-select,hot-rows-100 --rounds 3 --slice 100 --settle 20 --json {} \
         --variant two=plugin:flifo_thread_concurrency=2",
        json.display(),
    );
    let output = bench(&temp, &arguments).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_nothing_left(&temp);
    let results: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    let cells = results["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2, "{}", said(&output));
    for cell in cells {
        for slices in cell["slices"].as_array().unwrap() {
            let of = |figure: &str| {
                slices
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|slice| slice[figure].as_f64().unwrap())
                    .collect::<Vec<_>>()
            };
            assert_eq!(of("throughput_per_s").len(), 3, "{cell}");
            assert!(of("throughput_per_s").iter().all(|per_s| *per_s > 0.0), "{cell}");
            assert!(of("server_cpus").iter().sum::<f64>() > 0.0, "{cell}");
        }
    }
    assert_eq!(results["notes"], Value::Array(Vec::new()), "{}", said(&output));
    assert_eq!(results["interrupted"], false);
    for target in
        ["| two |", "- two: ", "flifo_thread_concurrency=2", "/ stock", "point select, 3 connections"]
    {
        assert!(said(&output).contains(target), "{target} is missing in\n{}", said(&output));
    }
}

/// Interrupts a run as soon as it has said `then`, which is to show what it has by then.
fn ctrl_c_after(then: &str, arguments: &str, shown: &str) {
    let temp = tempfile::tempdir().unwrap();
    let mut command = bench(&temp, arguments);
    let mut child = Ended(command.spawn().unwrap());
    let mut errors = BufReader::new(child.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    let lines: Vec<String> = errors.by_ref().take_while(|line| !line.contains(then)).collect();
    let pid = Pid::from_raw(child.0.id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let rest: Vec<String> = errors.collect();
    let text = std::io::read_to_string(child.0.stdout.take().unwrap()).unwrap();
    let status = child.0.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{lines:?} {rest:?} {text}");
    assert!(text.contains("Interrupted") && text.contains(shown), "{text}");
    assert_nothing_left(&temp);
}

#[test]
fn ctrl_c_keeps_what_was_measured_and_ends_everything() {
    // From the first cell's line on, the second cell is under way.
    ctrl_c_after(
        "round 1/1000",
        "--workload point-select --rounds 1000 --only stock,pool",
        "selects per second",
    );
    // It tells after ten seconds.
    ctrl_c_after(
        " left",
        "slices --workload point-select --rounds 1000 --slice 50 --settle 0",
        "selects a second",
    );
}

#[test]
fn what_cannot_be_is_one_line() {
    let temp = tempfile::tempdir().unwrap();
    for (arguments, code, told) in [
        ("--only fast", 2, "no variant \"fast\""),
        ("--json /nowhere/at/all.json", 2, "/nowhere/at/all.json"),
        (
            "--only x --rounds 1 --variant x=plugin:flifo_policy=fast",
            1,
            "variant x: the server runs without the plugin: ",
        ),
    ] {
        let output = bench(&temp, arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(told), "{arguments}: {text}");
        assert_eq!(output.status.code(), Some(code), "{arguments}: {text}");
    }
    assert_nothing_left(&temp);
}

/// Killed if the test fails.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
