//! The real binary measures policies beside peers: all cells are there, limits hold, Ctrl-C keeps what is
//! measured, and what is wrong is one line.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use common::golden::Cases;
use common::{fails, flifo, refused, results, succeeds};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const POLICIES: [&str; 4] = ["none", "fifo", "flifo", "quantum"];
const SPECIMENS: [&str; 5] = ["lifo", "broadcast", "sleep", "lease", "summon"];
const PEERS: [&str; 5] = ["tokio", "async-lock", "mutex-condvar", "futex", "none"];

fn bench(more: &[&str]) -> Command {
    let mut command = flifo();
    command.args(["bench", "admission"]).args(more);
    command
}

fn cells(json: &Value) -> &Vec<Value> {
    json["cells"].as_array().unwrap()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no text {key} in {value}"))
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no number {key} in {value}"))
}

#[test]
fn every_policy_and_peer_is_measured_and_keeps_its_limit() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("out.json");
    let mut command = bench(&["--load", "work-200", "--threads", "1,12", "--policy", "all"]);
    // Long statements: those without a limit meet inside, whatever the machine.
    succeeds(
        command
            .args(["--concurrency", "3", "--verify", "--time", "0.05", "--rounds", "2"])
            .arg("--json")
            .arg(&path),
    );
    let json = results(&path);
    assert_eq!(json["interrupted"], false);
    let variants = POLICIES.len() + SPECIMENS.len() + PEERS.len();
    assert_eq!(cells(&json).len(), 2 * variants);
    let mut met_without_a_limit = 0.0f64;
    for cell in cells(&json) {
        assert!(cell.get("workload").is_none() && text(cell, "load") == "work-200");
        let (target, name) = (text(cell, "target"), text(cell, "policy"));
        let is_peer = target == "peer";
        let known: &[&str] = match target {
            "admission" => &POLICIES,
            "specimen" => &SPECIMENS,
            "peer" => &PEERS,
            _ => panic!("{target}"),
        };
        assert!(known.contains(&name), "{target} {name}");
        let rounds = cell["rounds"].as_array().unwrap();
        assert_eq!(rounds.len(), 2);
        for round in rounds {
            assert!(number(round, "elapsed_s") > 0.0);
            let threads = number(cell, "threads");
            let running = number(round, "running_max");
            assert!(running >= 1.0 && running <= threads, "{name}: {running} of {threads}");
            match (name, number(cell, "concurrency") as u32) {
                ("none", limit) => {
                    assert_eq!(limit, 0);
                    met_without_a_limit = met_without_a_limit.max(running);
                }
                ("fifo" | "lifo" | "broadcast" | "sleep", 3) => assert!(running <= 3.0, "{name}: {running}"),
                (_, 3) if is_peer => assert!(running <= 3.0, "{name}: {running}"),
                // Newcomers may run beside threads that were woken and do not run yet.
                (_, 3) => assert!(running <= 6.0, "{name}: {running}"),
                (_, limit) => panic!("{name} has a limit of {limit}"),
            }
            assert_eq!(round["handed_off"].is_null(), target != "admission", "{round}");
            // On a machine busy with other things a short window may pass without an entry.
            if !round["enter_p50_us"].is_null() {
                let p = |key| number(round, key);
                assert!(p("enter_p50_us") <= p("enter_p95_us") && p("enter_p99_us") <= p("enter_p999_us"));
            }
            if number(round, "statements") > 0.0 {
                let (fewest, most) =
                    (number(round, "connection_fewest_share"), number(round, "connection_most_share"));
                assert!(fewest <= 1.0 && most >= 1.0, "{round}");
            }
        }
    }
    assert!(met_without_a_limit > 3.0, "{met_without_a_limit}: this test would see nothing");
}

#[test]
fn every_load_runs_and_is_drawn_and_shown_again() {
    let temp = tempfile::tempdir().unwrap();
    let file = |name: &str| temp.path().join(name);
    let mut command = bench(&[
        "--load",
        "all",
        "--threads",
        "5",
        "--policy",
        "fifo,flifo",
        "--concurrency",
        "2",
        "--time",
        "0.05",
        "--rounds",
        "1",
    ]);
    command.arg("--json").arg(file("a.json")).arg("--html").arg(file("a.html"));
    succeeds(command.arg("--svg").arg(file("pictures")));
    let json = results(&file("a.json"));
    let total: f64 = cells(&json).iter().map(|cell| number(&cell["rounds"][0], "statements")).sum();
    assert!(cells(&json).len() == 9 * 7 && total > 0.0, "{total}");
    let fronts = cells(&json).iter().filter(|cell| text(cell, "front") == "socket").count();
    assert_eq!(fronts, 7, "the load socket alone");
    for load in [
        "empty",
        "work-2",
        "work-20",
        "work-200",
        "work-1000",
        "contended-mutex",
        "socket",
        "hot-row",
        "disk",
    ] {
        let picture = std::fs::read_to_string(file("pictures").join(format!("{load}.svg"))).unwrap();
        assert!(picture.contains("mutex-condvar"), "{load}");
    }
    assert!(std::fs::read_to_string(file("a.html")).unwrap().contains("work-1000, limit 2"));
    let shown = flifo().arg("report").arg(file("a.json")).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("hot-row, limit 2") && shown.contains("Against the best peer"), "{shown}");
}

#[test]
fn what_is_wrong_is_one_line_before_anything_runs() {
    let wrong: &[&[&str]] = &[
        &["--load", "work-3"],
        &["--policy", "fast"],
        &["--peer", "rayon"],
        &["--threads", "0"],
        &["--threads", "4097"],
        &["--threads", "1,x"],
        &["--concurrency", "0"],
        &["--concurrency", "some"],
        &["--concurrency", "auto", "--policy", "quantum,fifo"],
        &["--concurrency", "auto", "--peer", "none,tokio"],
        &["--time", "0"],
        &["--rounds", "0"],
        &["--seed", "x"],
        &["--quantum", "0"],
        &["--json", "/nowhere/at/all.json"],
        &["--nonsense"],
    ];
    let mut cases = Cases::default();
    for arguments in wrong {
        let line = refused(flifo().args(["bench", "admission"]).args(*arguments), 2);
        cases.add(arguments.join(" "), line);
    }
    cases.add("bench without more", refused(flifo().arg("bench"), 2));
    cases.check("errors-bench");
    fails(bench(&["--svg", "/proc/pictures"]).args(["--threads", "1"]), 1, &["/proc/pictures"]);
}

/// A bench under a shell's limits.
fn limited(limit: &str, more: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let script = format!("{limit} && exec \"$0\" \"$@\"");
    command.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_flifo")).args(["bench", "admission"]).args(more);
    command.stdin(Stdio::null());
    command
}

#[test]
fn the_system_s_limits_are_told() {
    let sockets = ["--load", "socket", "--threads", "1000"];
    fails(&mut limited("ulimit -n 200", &sockets), 4, &["ulimit -n 2", "--threads"]);
    let threads = ["--load", "empty", "--threads", "4000"];
    fails(&mut limited("ulimit -v 400000", &threads), 4, &["4000 threads", "ulimit -v", "fewer --threads"]);
}

#[test]
fn ctrl_c_prints_and_saves_what_was_measured() {
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("out.json");
    let mut command = bench(&[
        "--load",
        "work-20",
        "--threads",
        "2",
        "--policy",
        "fifo,flifo",
        "--time",
        "0.4",
        "--rounds",
        "1",
    ]);
    command.arg("--json").arg(&json).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("fifo")));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(rest.iter().any(|line| line.contains("The run was interrupted")), "{rest:?}");
    let saved = results(&json);
    assert_eq!(saved["interrupted"], true);
    let measured = cells(&saved).len();
    assert!((1..7).contains(&measured), "{measured} cells");
}

#[test]
fn a_hangup_ends_a_run_unless_it_is_ignored() {
    // As nohup does it.
    for (setup, code, hangups) in [("true", 130, 1), ("true", 130, 2), ("trap '' HUP", 0, 1)] {
        let temp = tempfile::tempdir().unwrap();
        let json = temp.path().join("out.json");
        // The tests may run with hang-ups ignored, and a shell cannot undo that.
        let mut command = Command::new("env");
        command
            .args(["--default-signal=HUP", "sh", "-c"])
            .arg(format!("{setup} && exec \"$0\" \"$@\""))
            .arg(env!("CARGO_BIN_EXE_flifo"));
        command.args(["bench", "admission", "--load", "work-20", "--threads", "2", "--policy", "fifo,flifo"]);
        command.args(["--peer", "none", "--time", "0.4", "--rounds", "1", "--json"]).arg(&json);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains("fifo")));
        // The shell passes it on to its jobs, and the kernel sends it once more when the shell is gone.
        for _ in 0..hangups {
            kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        lines.for_each(drop);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{setup}");
        assert_eq!(results(&json)["interrupted"], code == 130, "{setup}");
    }
}
