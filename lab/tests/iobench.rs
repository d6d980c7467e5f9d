//! `flifo iobench` with the real binary, on small files: counts that must agree, what it leaves behind, bad input.

mod common;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::golden::{Cases, without_path};
use common::{fails, flifo, refused, results};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Short rounds on 8 MiB.
fn small(dir: &Path) -> Command {
    let mut command = flifo();
    command.arg("iobench").arg(dir);
    command.args(["--size", "8M", "--time", "0.1", "--warmup", "0.05", "--rounds", "1", "--block", "4K"]);
    command
}

/// One cell in two rounds of that many seconds.
fn one_cell(dir: &Path, seconds: &str) -> Command {
    let mut command = flifo();
    command.arg("iobench").arg(dir).args(["--size", "8M", "--rounds", "2", "--time", seconds]);
    command.args(["--block", "4K", "--concurrency", "2", "--files", "1", "--workload", "random-read"]);
    command
}

fn test_files(dir: &Path) -> PathBuf {
    dir.join("flifo-iobench")
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What is measured when the files stand.
fn wait_for_files(dir: &Path) {
    let begun = Instant::now();
    while !fs::read_to_string(test_files(dir).join("flifo-iobench"))
        .is_ok_and(|text| text.contains("complete"))
    {
        assert!(begun.elapsed() < Duration::from_secs(30), "no files come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

#[test]
fn every_workload_in_every_mode_by_every_carrier() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("data");
    fs::create_dir(&dir).unwrap();
    let json = temp.path().join("io.json");
    let mut command = small(&dir);
    command.args(["--workload", "random-read,random-write,random-mixed,log,doublewrite"]);
    command.args(["--mode", "direct,fsync,fdatasync,dsync,buffered", "--as", "threads,processes,io-uring"]);
    command.args(["--concurrency", "2", "--files", "2", "--batch", "8", "--json"]).arg(&json);
    let output = command.output().unwrap();
    if text(&output).contains("no O_DIRECT") || text(&output).contains("gives no io_uring") {
        eprintln!("not tested: {}", text(&output));
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(is_empty(&dir), "files are left");

    let results = results(&json);
    assert_eq!((results["kind"].as_str(), results["interrupted"].as_bool()), (Some("iobench"), Some(false)));
    let cells = results["cells"].as_array().unwrap();
    // Reads in two modes, the others in four; doublewrites not on a ring.
    assert_eq!(cells.len(), 2 * 3 + 4 * 3 + 4 * 3 + 4 * 3 + 4 * 2);
    for cell in cells {
        check_cell(cell);
    }
}

/// What holds of any storage, however fast.
fn check_cell(cell: &Value) {
    let key = |name: &str| cell[name].as_str().unwrap();
    let (workload, mode) = (key("workload"), key("mode"));
    assert!(cell["failures"].as_array().unwrap().is_empty(), "{cell}");
    let round = &cell["rounds"][0];
    let (reads, writes, syncs) = (number(round, "reads"), number(round, "writes"), number(round, "syncs"));
    assert!(reads + writes > 0.0, "{cell}");
    assert_eq!(reads > 0.0, matches!(workload, "random-read" | "random-mixed"), "{cell}");
    let is_synced = match workload {
        "random-read" => false,
        "random-write" | "random-mixed" => matches!(mode, "fsync" | "fdatasync"),
        _ => mode != "dsync",
    };
    match workload {
        // Each batch of 8: its area, and one or two files.
        "doublewrite" if is_synced => {
            let batches = writes / 8.0;
            assert!(writes % 8.0 == 0.0 && syncs >= 2.0 * batches && syncs <= 3.0 * batches, "{cell}");
        }
        _ => assert_eq!(syncs, if is_synced { writes } else { 0.0 }, "{cell}"),
    }
    assert!((number(round, "elapsed_s") - 0.1).abs() < 1e-9);
    assert!((number(round, "iops") - (reads + writes) / 0.1).abs() < 1e-3, "{cell}");
    assert!((number(round, "mb_per_s") - number(round, "iops") * 4096.0 / 1e6).abs() < 1e-6);
    assert_eq!(number(cell, "iops_median"), number(round, "iops"));
    for (latency, count) in [("read_latency", reads), ("write_latency", writes)] {
        let latency = &round[latency];
        assert!(!latency.is_null() || count == 0.0, "{cell}");
        if count > 0.0 {
            let quantiles =
                ["p50_us", "p95_us", "p99_us", "p99_9_us", "max_us"].map(|key| number(latency, key));
            assert!(quantiles.is_sorted() && quantiles[0] > 0.0, "{cell}");
        }
    }
}

#[test]
fn ctrl_c_keeps_what_was_measured_and_leaves_no_files() {
    for carrier in ["threads", "processes"] {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("data");
        fs::create_dir(&dir).unwrap();
        let json = temp.path().join("io.json");
        let mut command = flifo();
        command
            .arg("iobench")
            .arg(&dir)
            .args(["--size", "8M", "--rounds", "100", "--time", "0.1", "--as", carrier]);
        command.args(["--workload", "random-read", "--mode", "buffered", "--json"]).arg(&json);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for_files(&dir);
        std::thread::sleep(Duration::from_millis(700));
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", text(&output));
        let results = results(&json);
        assert_eq!(results["interrupted"], true);
        assert!(!results["cells"].as_array().unwrap().is_empty());
        assert!(is_empty(&dir), "files are left");
    }
}

#[test]
fn kept_files_stay_and_are_used_again() {
    let temp = tempfile::tempdir().unwrap();
    let run = || {
        let output = one_cell(temp.path(), "0.1").args(["--keep", "--mode", "buffered"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        fs::metadata(test_files(temp.path()).join("data-1-of-1")).unwrap()
    };
    let (first, second) = (run(), run());
    assert_eq!(first.len(), 8 << 20);
    assert_eq!(first.modified().unwrap(), second.modified().unwrap(), "written again");
}

#[test]
fn what_a_killed_run_left_is_removed_by_the_next() {
    let temp = tempfile::tempdir().unwrap();
    let mut child = one_cell(temp.path(), "60")
        .args(["--mode", "buffered"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for_files(temp.path());
    // Only one run at a time.
    fails(one_cell(temp.path(), "0.1").args(["--mode", "buffered"]), 3, &["another flifo iobench"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(test_files(temp.path()).join("data-1-of-1").exists());
    let output = one_cell(temp.path(), "0.1").args(["--mode", "buffered"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output).contains("left by an earlier run"), "{}", text(&output));
    assert!(is_empty(temp.path()));
}

#[test]
fn a_file_that_fails_ends_its_cells_and_no_more() {
    let temp = tempfile::tempdir().unwrap();
    let stat = rustix::fs::statvfs(temp.path()).unwrap();
    if stat.f_bavail < stat.f_blocks / 9 {
        eprintln!(
            "not tested: on a disk that is nearly full the sets of files are not there at the same time"
        );
        return;
    }
    let dir = temp.path().join("data");
    fs::create_dir(&dir).unwrap();
    let json = temp.path().join("io.json");
    let mut command = one_cell(&dir, "0.5");
    command.args(["--mode", "buffered", "--files", "1,2", "--as", "threads,processes", "--json"]).arg(&json);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_files(&dir);
    // Both sets are written before anything is measured.
    while !test_files(&dir).join("data-2-of-2").exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    let file = OpenOptions::new().write(true).open(test_files(&dir).join("data-1-of-1")).unwrap();
    file.set_len(4096).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.lines().last().unwrap().contains("2 of 4 cells failed"), "{said}");
    let results = results(&json);
    for cell in results["cells"].as_array().unwrap() {
        let failures = cell["failures"].as_array().unwrap();
        assert_eq!(failures.is_empty(), cell["files"] == 2, "{cell}");
        for failure in failures {
            let reason = failure["reason"].as_str().unwrap();
            assert!(reason.contains("reading 4096 bytes at") && reason.contains("data-1-of-1"), "{reason}");
        }
    }
    assert!(is_empty(&dir));
}

/// The run itself has the files of all sets open besides its workers.
#[test]
fn a_low_soft_limit_of_descriptors_is_raised_for_all_files() {
    let temp = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -S -n 400 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_flifo"), "iobench"]);
    command.arg(temp.path()).args(["--size", "8M", "--time", "0.1", "--rounds", "1", "--block", "4K"]);
    command.args(["--files", "64,128", "--concurrency", "2", "--workload", "random-read"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn bad_input_is_told_in_one_line() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("thesis.tex");
    fs::write(&file, "all my work").unwrap();
    let mut cases = Cases::default();
    let missing = temp.path().join("no");
    for path in [file.as_path(), &missing, Path::new("/dev/null"), Path::new("/proc")] {
        let line = refused(&mut small(path), 3);
        let case = without_path(&path.display().to_string(), temp.path());
        cases.add(case, without_path(&line, temp.path()));
    }
    let wrong: &[&[&str]] = &[
        &["--size", "10000"],
        &["--size", "4K"],
        &["--size", "lots"],
        &["--block", "5000"],
        &["--workload", "sequential"],
        &["--mode", "sync"],
        &["--as", "fibers"],
        &["--workload", "random-read", "--mode", "fsync"],
        &["--workload", "doublewrite", "--as", "io-uring"],
        &["--concurrency", "0"],
        &["--files", "0"],
        &["--read-share", "100"],
        &["--write-to-device", "/dev/null"],
        &["--json", "/nowhere/at/all.json"],
    ];
    for arguments in wrong {
        let line = refused(flifo().arg("iobench").arg(temp.path()).args(*arguments), 2);
        cases.add(arguments.join(" "), without_path(&line, temp.path()));
    }
    cases.add("iobench without more", refused(flifo().arg("iobench"), 2));
    cases.check("errors-iobench");
    let mut huge = flifo();
    fails(huge.arg("iobench").arg(temp.path()).args(["--size", "1000T"]), 3, &["no room for 1000T"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "all my work");
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1, "a wrong line leaves nothing");
}

#[test]
fn files_of_others_are_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    let theirs = test_files(temp.path());
    fs::create_dir(&theirs).unwrap();
    fs::write(theirs.join("data-1-of-1"), "all my work").unwrap();
    fails(&mut small(temp.path()), 3, &["not flifo's"]);
    assert_eq!(fs::read_to_string(theirs.join("data-1-of-1")).unwrap(), "all my work");
    assert_eq!(fs::read_dir(&theirs).unwrap().count(), 1);
}

/// Runs a shell's lines as root with mounts of its own; `None`, with a reason, where that is not allowed.
fn with_own_mounts(script: &str) -> Option<Output> {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", script]).env("FLIFO", env!("CARGO_BIN_EXE_flifo"));
    match command.stdin(Stdio::null()).output() {
        Ok(output) if !text(&output).contains("unshare") && !text(&output).contains("mount:") => Some(output),
        Ok(output) => {
            eprintln!("not tested: {}", text(&output));
            None
        }
        Err(error) => {
            eprintln!("not tested: unshare: {error}");
            None
        }
    }
}

#[test]
fn file_systems_that_cannot() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().display();
    // Without O_DIRECT: refused if it was asked for, else done without.
    let run = "--size 1M --time 0.05 --rounds 1 --concurrency 1 --files 1 --block 4K";
    let ramfs = |options: &str| {
        with_own_mounts(&format!("mount -t ramfs ramfs {dir}; exec \"$FLIFO\" iobench {dir} {run} {options}"))
    };
    let Some(refused) = ramfs("--mode direct") else { return };
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused));
    assert!(text(&refused).contains("no O_DIRECT, which --mode direct needs"), "{}", text(&refused));
    let instead = ramfs("").unwrap();
    assert_eq!(instead.status.code(), Some(0), "{}", text(&instead));
    assert!(text(&instead).contains("no O_DIRECT; reads are buffered"), "{}", text(&instead));

    let read_only = format!("mount -t tmpfs -o ro tmpfs {dir}; exec \"$FLIFO\" iobench {dir} {run}");
    let read_only = with_own_mounts(&read_only).unwrap();
    assert_eq!(read_only.status.code(), Some(3));
    assert!(text(&read_only).contains("Read-only file system"), "{}", text(&read_only));
    assert_eq!(text(&read_only).lines().count(), 1);

    let cached = format!("{run} --mode fsync,buffered");
    let full = format!("mount -t tmpfs -o size=512k tmpfs {dir}; exec \"$FLIFO\" iobench {dir} {cached}");
    let full = with_own_mounts(&full).unwrap();
    assert_eq!(full.status.code(), Some(3));
    assert!(text(&full).contains("no room for 1M"), "{}", text(&full));
    assert_eq!(text(&full).lines().count(), 1);
}

/// A loop device over a file; `None`, with a reason, where there is none.
struct Loop(PathBuf);

impl Loop {
    fn over(file: &Path) -> Option<Self> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output();
        match output {
            Ok(output) if output.status.success() => {
                Some(Loop(String::from_utf8_lossy(&output.stdout).trim().into()))
            }
            other => {
                eprintln!("not tested: no loop device ({other:?})");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

#[test]
fn a_device_is_written_only_if_it_is_named_twice() {
    let temp = tempfile::tempdir().unwrap();
    let backing = temp.path().join("backing");
    File::create(&backing).unwrap().set_len(8 << 20).unwrap();
    let Some(device) = Loop::over(&backing) else { return };
    let json = temp.path().join("io.json");
    let run = |options: &[&str]| {
        let mut command = flifo();
        command.arg("iobench").arg(&device.0).args(["--time", "0.1", "--rounds", "1", "--concurrency", "1"]);
        command.args(["--block", "4K", "--json"]).arg(&json).args(options);
        command
    };
    let output = run(&[]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("only read"), "{}", text(&output));
    assert!(fs::read(&backing).unwrap().iter().all(|&byte| byte == 0), "it was written");
    assert_eq!(results(&json)["cells"].as_array().unwrap().len(), 1);

    fails(&mut run(&["--workload", "random-write"]), 2, &["would destroy", "--write-to-device"]);
    fails(&mut run(&["--write-to-device", "/dev/null"]), 2, &["is not /dev/"]);
    let name = device.0.to_str().unwrap();
    // Somebody has it.
    let exclusive = rustix::fs::OFlags::EXCL.bits().cast_signed();
    let holder = OpenOptions::new().read(true).custom_flags(exclusive).open(&device.0).unwrap();
    fails(&mut run(&["--write-to-device", name]), 3, &["it is in use"]);
    drop(holder);
    assert!(fs::read(&backing).unwrap().iter().all(|&byte| byte == 0), "it was written");

    let output = run(&["--write-to-device", name, "--workload", "random-write,log"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let results = results(&json);
    let written = |cell: &Value| number(&cell["rounds"][0], "writes") > 0.0 && cell["access"] == "device";
    assert!(results["cells"].as_array().unwrap().iter().all(written), "{results}");
    assert!(fs::read(&backing).unwrap().iter().any(|&byte| byte != 0), "nothing was written");
}
