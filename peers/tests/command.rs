//! The real program: every peer under every workload, the files it writes, Ctrl-C, bad input.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn peers(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flifo-peers"));
    command.stdin(Stdio::null()).arg("--dir").arg(dir).args(["--rows", "2000", "--time", "0.05"]);
    command
}

fn errors(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines()
        .filter(|line| !line.contains("without optimisation"))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// What is left in a directory.
fn entries(dir: &Path) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

#[test]
fn every_peer_is_measured_or_left_out_with_a_reason() {
    let temp = tempfile::tempdir().unwrap();
    let data = temp.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let (json, markdown) = (temp.path().join("p.json"), temp.path().join("p.md"));
    let mut command = peers(&data);
    let output = command
        .args(["--threads", "1,4", "--rounds", "1"])
        .arg("--json")
        .arg(&json)
        .arg("--markdown")
        .arg(&markdown)
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(entries(&data), 0);

    let json: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(json["interrupted"], false);
    assert!(json["failures"].as_array().unwrap().is_empty());
    let names: Vec<&str> =
        json["peers"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!((names[0], names.len() >= 6), ("flifo", true));
    let has = |peer: &str, workload: &str, threads: u32| {
        let is_it = |cell: &&Value| {
            cell["peer"] == peer && cell["workload"] == workload && cell["threads"] == threads
        };
        json["cells"].as_array().unwrap().iter().find(is_it).is_some_and(|cell| {
            let round = &cell["rounds"][0];
            let writes =
                ["update", "read-write", "hot-rows-1", "ycsb-a", "ycsb-b", "ycsb-f"].contains(&workload);
            round["operations_per_s"].as_f64().unwrap() >= 0.0 && round["updates_checked"].is_null() != writes
        })
    };
    let out = |peer: &str, workload: &str| {
        let is_it = |left: &&Value| left["peer"] == peer && left["workloads"].to_string().contains(workload);
        json["left_out"].as_array().unwrap().iter().any(|left| is_it(&left) && left["why"] != "")
    };
    for name in &names {
        assert!(has(name, "load", 1) && has(name, "point-get", 4) && has(name, "ycsb-c", 1), "{name}");
        for workload in ["update", "read-write", "hot-rows-1", "ycsb-a", "ycsb-b", "ycsb-f"] {
            assert!(has(name, workload, 4) != out(name, workload), "{name} {workload}");
        }
    }
    assert!(has("flifo", "update", 4) && out("redb", "update") && out("sled", "update"));

    let markdown = std::fs::read_to_string(&markdown).unwrap();
    for words in ["### update", "| flifo ", "left out", "no such setting", "fjall"] {
        assert!(markdown.contains(words), "{words}");
    }
    assert!(String::from_utf8_lossy(&output.stdout).contains("hot-rows-100"));
}

#[test]
fn ctrl_c_keeps_what_was_measured_and_removes_the_data() {
    let temp = tempfile::tempdir().unwrap();
    let mut command = peers(temp.path());
    command.args([
        "--peers",
        "flifo,lmdb",
        "--workloads",
        "point-get,update",
        "--threads",
        "2",
        "--rounds",
        "900",
    ]);
    let json = tempfile::NamedTempFile::new().unwrap();
    let mut child =
        command.arg("--json").arg(json.path()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // The directory is there as soon as it has begun, and cells are measured soon after.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let opening = lines.next().unwrap().unwrap();
    assert!(opening.contains(" CPUs, "), "{opening}");
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(entries(temp.path()), 0);
    let json: Value = serde_json::from_slice(&std::fs::read(json.path()).unwrap()).unwrap();
    assert_eq!(json["interrupted"], true);
    assert!(
        rest.iter().any(|line| line.contains("point-get")) || json["cells"].as_array().unwrap().is_empty()
    );
}

#[test]
fn what_is_wrong_is_said_before_anything_is_loaded() {
    let temp = tempfile::tempdir().unwrap();
    let fails = |more: &[&str], code: i32, words: &str| {
        let output = peers(temp.path()).args(more).output().unwrap();
        let text = errors(&output);
        assert_eq!(output.status.code(), Some(code), "{more:?}: {text}");
        assert!(text.contains(words), "{more:?}: {text}");
        assert_eq!(entries(temp.path()), 0);
    };
    fails(&["--peers", "leveldb"], 2, "fjall");
    fails(&["--workloads", "fast"], 2, "read-write");
    fails(&["--threads", "0"], 2, "1..=4096");
    fails(&["--durability", "some"], 2, "synced");
    fails(&["--cache", "1M"], 2, "at least 64M");
    fails(&["--json", "/no/such/directory/p.json"], 2, "cannot write");
    let rows = ["--cache", "900000G"];
    fails(&rows, 4, "smaller --cache");
    let output = Command::new(env!("CARGO_BIN_EXE_flifo-peers")).args(["--rows", "100"]).output().unwrap();
    assert!(errors(&output).contains("at least 2000"));
    let output = Command::new(env!("CARGO_BIN_EXE_flifo-peers"))
        .args(["--dir", "/no/such/directory"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
}
