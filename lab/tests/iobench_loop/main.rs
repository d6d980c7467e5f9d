//! `flifo iobench` on file systems and devices that a test may break: ext4 and XFS on loop devices, and the devices
//! themselves. For root; skipped, with a reason, where loop devices and mounts are not allowed.

#[path = "../common/mod.rs"]
mod common;
mod loop_device;

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{fails, flifo, results};
use loop_device::{Loop, Mount, is_allowed, program, run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// Two at a time on 8 MiB.
fn measure(path: &Path, seconds: &str, rounds: &str) -> Command {
    let mut command = flifo();
    command.arg("iobench").arg(path);
    command.args(["--size", "8M", "--time", seconds, "--warmup", "0.05", "--rounds", rounds]);
    command.args(["--block", "4K", "--concurrency", "2"]);
    command
}

/// The same, one short round.
fn small(path: &Path) -> Command {
    measure(path, "0.05", "1")
}

/// Runs one that must end well.
fn succeeds(command: &mut Command) {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

fn cells(results: &Value) -> &Vec<Value> {
    results["cells"].as_array().unwrap()
}

/// Starts a run that is measuring when this returns.
fn start(command: &mut Command, dir: &Path) -> Child {
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (begun, list) = (Instant::now(), dir.join("flifo-iobench/flifo-iobench"));
    while !fs::read_to_string(&list).is_ok_and(|text| text.contains("complete")) {
        assert!(begun.elapsed() < Duration::from_secs(60), "no files come");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

/// Every workload in every mode by every carrier, and what the storage is.
fn every_mode(kind: &str, image_bytes: u64) {
    if !is_allowed() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let device = Loop::new(&temp.path().join("image"), image_bytes);
    let mount = match Mount::make(kind, &[], &device, &temp.path().join("mount")) {
        Ok(mount) => mount,
        Err(why) => return eprintln!("not tested: {why}"),
    };
    let json = temp.path().join("io.json");
    let every = |carriers: &str| {
        let mut command = small(mount.path());
        command.args(["--workload", "random-read,random-write,random-mixed,log,doublewrite", "--files", "2"]);
        command.args(["--mode", "direct,fsync,fdatasync,dsync,buffered", "--batch", "8", "--as", carriers]);
        command.arg("--json").arg(&json).output().unwrap()
    };
    let mut output = every("threads,processes,io-uring");
    let mut carriers = 3;
    if said(&output).contains("gives no io_uring") {
        eprintln!("not tested: {}", said(&output));
        (output, carriers) = (every("threads,processes"), 2);
    }
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(!mount.path().join("flifo-iobench").exists(), "files are left");

    let results = results(&json);
    let storage = &results["storage"];
    assert_eq!((&storage["filesystem"], &storage["device"]), (&Value::from(kind), &device.name().into()));
    assert!(storage["device_model"].as_str().unwrap().ends_with("/image"), "{storage}");
    assert_eq!(number(storage, "device_bytes"), image_bytes as f64);
    // Reads in two modes, the others in four; a ring does no doublewrite.
    assert_eq!(cells(&results).len(), (2 + 4 + 4 + 4) * carriers + 4 * 2);
    for cell in cells(&results) {
        let round = &cell["rounds"][0];
        // A sync of a loop device on a busy disk may take longer than the window, in which nothing ends then.
        let ended = cells(&results).iter().any(|other| {
            (&other["mode"], &other["carrier"]) == (&cell["mode"], &cell["carrier"])
                && number(&other["rounds"][0], "iops") > 0.0
        });
        assert!(cell["failures"].as_array().unwrap().is_empty() && ended, "{cell}");
        // When these counters are read is up to the scheduler, so nothing more can be said for sure.
        let is_synced = cell["mode"] != "direct" && cell["mode"] != "buffered";
        let is_seen = number(&round["block_layer"], "written_bytes") > 0.0;
        assert!(is_seen || !is_synced || number(round, "writes") < 50.0, "{cell}");
    }
    mount.unmount().unwrap();
}

#[test]
fn every_mode_on_ext4() {
    every_mode("ext4", 64 * MIB);
}

#[test]
fn every_mode_on_xfs() {
    // The least that mkfs.xfs takes, and some.
    every_mode("xfs", 320 * MIB);
}

#[test]
fn a_raw_device_is_read_and_written_only_if_it_is_named_twice() {
    if !is_allowed() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let (image, json) = (temp.path().join("image"), temp.path().join("io.json"));
    let device = Loop::new(&image, 64 * MIB);
    let named = device.path().to_str().unwrap();
    let is_empty = || fs::read(&image).unwrap().iter().all(|byte| *byte == 0);

    // Long enough for one read of a disk that others keep busy.
    succeeds(
        measure(device.path(), "0.5", "1")
            .args(["--mode", "direct,buffered", "--as", "threads,processes", "--json"])
            .arg(&json),
    );
    let read = results(&json);
    assert_eq!(cells(&read).len(), 4);
    for cell in cells(&read) {
        assert_eq!((&cell["access"], &cell["workload"]), (&"device".into(), &"random-read".into()));
        assert!(number(cell, "iops_median") > 0.0, "{cell}");
    }
    let storage = &read["storage"];
    assert_eq!((&storage["filesystem"], &storage["device"]), (&"".into(), &device.name().into()));
    fails(small(device.path()).args(["--workload", "random-write"]), 2, &["--write-to-device", named]);
    let other = Loop::new(&temp.path().join("other"), MIB);
    fails(small(device.path()).arg("--write-to-device").arg(other.path()), 2, &["is not", named]);
    let mut large = flifo();
    large.arg("iobench").arg(device.path()).args(["--workload", "random-read", "--size", "128M"]);
    fails(&mut large, 3, &["has 64M", "--size"]);
    assert!(is_empty(), "it was written");

    // Each cell has to end a write: on a busy disk a sync can take more than the other tests' 50 ms.
    let mut write = measure(device.path(), "0.5", "1");
    write.args(["--write-to-device", named, "--workload", "random-write,random-mixed,log,doublewrite"]);
    succeeds(write.args(["--mode", "direct,fdatasync,dsync", "--batch", "8", "--json"]).arg(&json));
    let written = results(&json);
    assert_eq!(cells(&written).len(), 4 * 3);
    assert!(cells(&written).iter().all(|cell| number(&cell["rounds"][0], "writes") > 0.0), "{written}");
    assert!(!is_empty(), "nothing was written");
}

#[test]
fn a_device_that_somebody_uses_is_not_written() {
    if !is_allowed() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let write = |device: &Path| {
        let mut command = small(device);
        command.arg("--write-to-device").arg(device);
        command
    };
    let device = Loop::new(&temp.path().join("image"), 64 * MIB);
    let mount = Mount::make("ext4", &[], &device, &temp.path().join("mount")).unwrap();
    let thesis = mount.path().join("thesis.tex");
    fs::write(&thesis, "all my work").unwrap();
    fails(&mut write(device.path()), 3, &["it is mounted at", "mount", "an unused device"]);
    // Reading harms nobody.
    succeeds(&mut small(device.path()));
    // Mounted where this process does not see it.
    let away = "umount \"$1\"; exec \"$2\" iobench \"$3\" --write-to-device \"$3\"";
    let mut elsewhere = program("unshare");
    elsewhere.args(["--mount", "sh", "-ec", away, "sh"]).arg(mount.path());
    fails(
        elsewhere.arg(env!("CARGO_BIN_EXE_flifo")).arg(device.path()),
        3,
        &["it is in use", "an unused device"],
    );
    assert_eq!(fs::read_to_string(&thesis).unwrap(), "all my work");
    mount.unmount().unwrap();

    let parts = Loop::with_partitions(&temp.path().join("parts"), 64 * MIB);
    let script =
        format!("printf 'size=32M\\n,\\n' | {} -q {}", name(&program("sfdisk")), parts.path().display());
    run(Command::new("sh").args(["-c", &script])).unwrap();
    let first = PathBuf::from(format!("{}p1", parts.path().display()));
    if !Path::new("/sys/class/block").join(first.file_name().unwrap()).exists() {
        return eprintln!("not tested: the kernel finds no partitions on a loop device");
    }
    fails(&mut write(parts.path()), 3, &["it has partitions", "p1", "an unused device"]);
}

fn name(command: &Command) -> String {
    command.get_program().to_str().unwrap().to_owned()
}

#[test]
fn a_device_without_permission() {
    if !is_allowed() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let device = Loop::new(&temp.path().join("image"), 8 * MIB);
    // Nobody may look where this one was built.
    let binary = temp.path().join("flifo");
    run(Command::new("cp").arg(env!("CARGO_BIN_EXE_flifo")).arg(&binary)).unwrap();
    fs::set_permissions(temp.path(), Permissions::from_mode(0o755)).unwrap();
    let nobody = |options: &[&str]| {
        let mut command = program("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary).current_dir("/");
        command.arg("iobench").arg(device.path()).args(options).stdin(Stdio::null());
        command
    };
    let path = device.path().to_str().unwrap();
    fails(&mut nobody(&["--workload", "random-read"]), 3, &["Permission denied", path, "run as root"]);
    fails(&mut nobody(&["--write-to-device", path]), 3, &["Permission denied", path, "run as root"]);
}

#[test]
fn a_full_and_a_read_only_file_system() {
    if !is_allowed() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let device = Loop::new(&temp.path().join("image"), 64 * MIB);
    let mount = Mount::make("ext4", &[], &device, &temp.path().join("mount")).unwrap();
    let free = rustix::fs::statvfs(mount.path()).unwrap();
    let free = free.f_bavail * free.f_frsize;
    let mut large = flifo();
    let size = (free / 4096 + 1) * 4096;
    large.arg("iobench").arg(mount.path()).args(["--block", "4K", "--size", &size.to_string()]);
    fails(&mut large, 3, &["no room for", "are free", "smaller --size"]);
    assert!(!mount.path().join("flifo-iobench").exists());
    let after = rustix::fs::statvfs(mount.path()).unwrap();
    assert!(after.f_bavail * after.f_frsize + MIB > free, "it was written before it was refused");

    run(program("mount").args(["-o", "remount,ro"]).arg(mount.path())).unwrap();
    fails(&mut small(mount.path()), 3, &["Read-only file system", "read-write"]);
}

#[test]
fn memory_has_no_direct_access() {
    if !is_allowed() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let mount = Mount::memory("32M", temp.path());
    let output = small(mount.path()).args(["--mode", "direct"]).output().unwrap();
    let said = said(&output);
    assert_eq!((output.status.code(), said.lines().count()), (Some(3), 1), "{said}");
    assert!(said.contains("no O_DIRECT, which --mode direct needs"), "{said}");
    assert!(!mount.path().join("flifo-iobench").exists());
}

/// Uses up what a file system has left.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    while file.write(&[7; 4096]).is_ok_and(|written| written > 0) {}
}

#[test]
fn a_device_that_runs_full() {
    if !is_allowed() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("io.json");
    let memory = Mount::memory("4M", &temp.path().join("memory"));
    let device = Loop::new(&memory.path().join("image"), 64 * MIB);
    fill(&memory.path().join("filler"));
    let mut command = small(device.path());
    command.args(["--workload", "random-read,random-write", "--mode", "direct", "--as", "threads,processes"]);
    command.arg("--write-to-device").arg(device.path()).arg("--json").arg(&json);
    let output = command.output().unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("flifo: 2 of 4 cells failed, first random-write"), "{said}");
    for cell in cells(&results(&json)) {
        let is_read = cell["workload"] == "random-read";
        assert_eq!(cell["failures"].as_array().unwrap().is_empty(), is_read, "{cell}");
        assert_eq!(cell["iops_median"].is_null(), !is_read, "{cell}");
        let what = format!("of {}: ", device.path().display());
        // Older kernels call it an I/O error.
        let reason = cell["failures"][0]["reason"].as_str().unwrap_or_default();
        let is_told = reason.starts_with("writing 4096 bytes at ") && reason.contains(&what);
        assert!(is_read || is_told, "{reason}");
    }
}

#[test]
fn a_disk_that_fails_in_the_middle() {
    if !is_allowed() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let (image, json) = (temp.path().join("image"), temp.path().join("io.json"));
    let device = Loop::new(&image, 64 * MIB);
    // Without a journal, so that the file system itself stays up; and it must not write by itself during the test.
    let options = ["-b", "4096", "-O", "^has_journal", "-E", "lazy_itable_init=0"];
    let mount = Mount::make("ext4", &options, &device, &temp.path().join("mount")).unwrap();
    let mut command = measure(mount.path(), "1", "2");
    command.args(["--workload", "random-read,random-write", "--mode", "direct", "--files", "1"]);
    let child = start(command.args(["--as", "threads,processes", "--json"]).arg(&json), mount.path());
    // While it writes, when all reads have had their first round, the disk ends in the middle of its file.
    let (begun, before) = (Instant::now(), device.written_bytes());
    while device.written_bytes() < before + 2 * MIB {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is written");
        std::thread::sleep(Duration::from_millis(5));
    }
    let extents = extents(&mount.path().join("flifo-iobench/data-1-of-1"));
    let (offset, bytes) = *extents.iter().max_by_key(|(_, bytes)| bytes).unwrap();
    // No writes until the device is cut: a write behind the new end, while the device does not know of it, would make
    // the image longer again, in the end by the whole cut-off part.
    run(program("fsfreeze").arg("--freeze").arg(mount.path())).unwrap();
    let cut = OpenOptions::new().write(true).open(&image).and_then(|file| file.set_len(offset + bytes / 2));
    let told = run(program("losetup").arg("--set-capacity").arg(device.path()));
    run(program("fsfreeze").arg("--unfreeze").arg(mount.path())).unwrap();
    assert!(cut.is_ok() && told.is_ok(), "{cut:?}, {told:?}");

    let output = child.wait_with_output().unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("flifo: 4 of 4 cells failed, first random-"), "{said}");
    let results = results(&json);
    assert_eq!((cells(&results).len(), &results["interrupted"]), (4, &false.into()));
    for cell in cells(&results) {
        let failures = cell["failures"].as_array().unwrap();
        let (doing, rounds) = if cell["workload"] == "random-read" { ("reading", 1) } else { ("writing", 0) };
        assert_eq!(
            (cell["rounds"].as_array().unwrap().len(), failures.len()),
            (rounds, 2 - rounds),
            "{cell}"
        );
        assert_eq!(cell["iops_median"].is_null(), rounds == 0, "{cell}");
        for reason in failures.iter().map(|failure| failure["reason"].as_str().unwrap()) {
            let is_told = reason.starts_with(doing) && reason.contains("data-1-of-1: Input/output error");
            assert!(is_told, "{reason}");
        }
    }
    assert!(!mount.path().join("flifo-iobench").exists(), "files are left");
    mount.unmount().unwrap();
}

/// Where a file lies on its device, bytes.
fn extents(file: &Path) -> Vec<(u64, u64)> {
    // `   0:        0..    2047:      16384..     18431:   2048:             last,eof`
    let listed = run(program("filefrag").args(["-v", "-b4096"]).arg(file)).unwrap();
    let fields = listed.lines().map(|line| line.split([':', '.', ' ']).filter(|word| !word.is_empty()));
    fields
        .filter_map(|words| {
            let numbers: Option<Vec<u64>> = words.take(6).map(|word| word.parse().ok()).collect();
            numbers.filter(|numbers| numbers.len() == 6).map(|numbers| (numbers[3] * 4096, numbers[5] * 4096))
        })
        .collect()
}

#[test]
fn ctrl_c_lets_go_of_everything() {
    if !is_allowed() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let device = Loop::new(&temp.path().join("image"), 64 * MIB);
    for carrier in ["threads", "processes"] {
        let mount = Mount::make("ext4", &["-F"], &device, &temp.path().join("mount")).unwrap();
        let json = temp.path().join("io.json");
        let mut command = measure(mount.path(), "0.1", "100");
        command.args(["--workload", "random-write", "--files", "1", "--as", carrier, "--json"]).arg(&json);
        let child = start(&mut command, mount.path());
        std::thread::sleep(Duration::from_millis(700));
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", said(&output));
        assert_eq!(results(&json)["interrupted"], true);
        assert!(!mount.path().join("flifo-iobench").exists(), "files are left");
        // No worker is left that has a file open.
        mount.unmount().unwrap();
    }
}
