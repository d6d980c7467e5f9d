//! Whatever is wrong: one line that says what and what to do, the documented exit code, nothing harmed.

mod common;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::golden::{Cases, golden, without_numbers, without_path};
use common::{TINY, fails, flifo, one_line, refused, succeeds, tiny};

#[test]
fn the_command_line() {
    let temp = tempfile::tempdir().unwrap();
    let wrong: &[&[&str]] = &[
        &["--policy", "fast"],
        &["--workload", "write"],
        &["--workload", "hot-rows-0"],
        &["--workload", "ycsb-g"],
        &["--table-size", "10", "--workload", "hot-rows-11"],
        &["--flush-log-at-trx-commit", "3"],
        &["--redo-capacity", "1M"],
        &["--rollback-segments", "129"],
        &["--doublewrite", "maybe"],
        &["--front", "pigeon"],
        &["--threads", "0"],
        &["--threads", "1,x"],
        &["--threads", "100000"],
        &["--concurrency", "0"],
        &["--concurrency", "40000"],
        &["--tickets", "0"],
        &["--quantum", "0"],
        &["--time", "0"],
        &["--time", "nan"],
        &["--rounds", "0"],
        &["--buffer-pool", "1K"],
        &["--buffer-pool", "lots"],
        &["--instances", "0"],
        &["--data-files", "65"],
        &["--table-size", "0"],
        &["--table-size", "10", "--range-size", "11"],
        &["--leave-on-read", "maybe"],
        &["--seed", "x"],
        &["--json", "/nowhere/at/all.json"],
        &["--svg", "/nowhere/"],
        &["--nonsense"],
    ];
    let mut cases = Cases::default();
    for arguments in wrong {
        let mut command = flifo();
        command.arg("sweep").args(*arguments).arg("--data").arg(temp.path().join("data"));
        cases.add(arguments.join(" "), refused(&mut command, 2));
    }
    cases.add("no command", refused(&mut flifo(), 2));
    cases.add("dance", refused(flifo().arg("dance"), 2));
    cases.check("errors-sweep");
    assert!(!temp.path().join("data").exists(), "a wrong line touches nothing");
}

#[test]
fn no_file_of_results_is_written_over_by_another() {
    let temp = tempfile::tempdir().unwrap();
    let (saved, page) = (temp.path().join("r.json"), temp.path().join("r.html"));
    fs::write(&saved, flifo::report::sweep::fixture::results().to_json()).unwrap();
    let before = fs::read(&saved).unwrap();
    fails(flifo().arg("report").arg(&saved).arg("--html").arg(&saved), 2, &["r.json", "twice"]);
    fails(flifo().arg("report").arg(&saved).arg("--html").arg(&page).arg("--svg").arg(&page), 2, &["twice"]);
    let dir = temp.path().join("data");
    fails(tiny(&dir).arg("--json").arg(&page).arg("--html").arg(&page), 2, &["twice"]);
    assert!(fs::read(&saved).unwrap() == before && !page.exists() && !dir.exists());
}

#[test]
fn a_file_that_may_not_grow_is_an_error_and_nothing_is_left() {
    let temp = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    // Half a MiB.
    command.args(["-c", "ulimit -f 1024; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_flifo"), "iobench"]);
    command.arg(temp.path()).args(["--size", "16M", "--workload", "random-read", "--time", "0.05"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(3) && text.contains("File too large"), "{output:?}");
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
}

#[test]
fn no_message_shows_a_password() {
    let wrong: &[&[&str]] = &[
        &["sweep", "--target", "mysq://app:secret@h/b"],
        &["sweep", "--target=app:secret"],
        &["sweep", "--target", "mysql://app:secret/2@h/b"],
        &["sweep", "--target", "mysql://app:my", "own", "secret@h/b"],
        &["sweep", "--target", "mysql://app@h/b?password=secret"],
        &["sweep", "--target", "unix:/s?pasword=secret"],
        &["sweep", "--target", "unix:/s", "--admin-target", "unix:/s?user=root&passwordsecret"],
        &["sweep", "--taget", "mysql://app:secret@h/b"],
        &["sweep", "--taget=mysql://app:secret@h/b"],
        &["sweep", "mysql://app:secret@h/b"],
        &["sweep", "--threads", "1,mysql://app:secret@h/b"],
        &["sweep", "--quick=mysql://app:secret@h/b"],
        &["mysql://app:secret@h/b"],
    ];
    for arguments in wrong {
        let output = flifo().args(*arguments).output().unwrap();
        let line = one_line(&output);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(!line.contains("secret") && !line.contains("own"), "{arguments:?}: {line}");
    }
}

#[test]
fn an_experiment_that_cannot_be() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().to_str().unwrap();
    let mut cases = Cases::default();
    let wrong: [(&[&str], i32); 14] = [
        (&[], 2),
        (&["--list", "all"], 2),
        (&["flifo-2009", "--quick", "--full"], 2),
        (&["flifo-2009", "--json", "/nowhere/at/all.json"], 2),
        (&["flifo-2009", "--quick", "--data", "/dev/null/data"], 3),
        (&["kernel-mutex-2011", "--threads", "0"], 2),
        (&["all", "--record=x.json"], 2),
        (&["all", "--html", "/dev/null/pages"], 3),
        (&["perpetual-motion"], 2),
        (&["linux-io-2012", dir, "--scale", "2"], 2),
        (&["linux-io-2012", dir, "--size", "lots"], 2),
        (&["linux-io-2012", dir, "--json", "/nowhere/at/all.json"], 2),
        (&["linux-io-2012", dir, "--device", dir], 2),
        (&["linux-io-2012", "/nowhere"], 3),
    ];
    for (arguments, code) in wrong {
        let line = refused(flifo().arg("experiment").args(arguments), code);
        let case = without_path(&arguments.join(" "), temp.path());
        cases.add(case, without_path(&line, temp.path()));
    }
    cases.check("errors-experiment");
    assert_eq!(fs::read_dir(dir).unwrap().count(), 0, "a wrong line touches nothing");
    // Nobody reads what it announces: the size is what is wrong.
    let output = flifo()
        .args(["experiment", "linux-io-2012", dir, "--size", "4000000T"])
        .stdout(fs::File::create("/dev/full").unwrap())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(3) && text.contains("4000000T"), "{output:?}");
}

#[test]
fn a_directory_that_is_not_ours_is_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    let thesis = temp.path().join("thesis.tex");
    fs::write(&thesis, "all my work").unwrap();
    fails(&mut tiny(temp.path()), 3, &["not flifo's", "--data"]);
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(&thesis).unwrap(), "all my work");
    fails(&mut tiny(&thesis), 3, &["thesis.tex"]);
}

#[test]
fn a_directory_that_cannot_be_made() {
    fails(&mut tiny(Path::new("/proc/flifo-data")), 3, &["/proc/flifo-data", "may write to"]);
}

#[test]
fn data_of_another_version() {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("flifo-lab"), "flifo lab data, layout 99\n").unwrap();
    fails(&mut tiny(temp.path()), 3, &["another version"]);
}

/// A sound database, and the data files in it, largest first.
fn sound() -> (tempfile::TempDir, Vec<PathBuf>) {
    let temp = tempfile::tempdir().unwrap();
    succeeds(&mut tiny(temp.path()));
    let entries = fs::read_dir(temp.path().join("sbtest")).unwrap();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("data"))
        .collect();
    files.sort_by_key(|path| std::cmp::Reverse(path.metadata().unwrap().len()));
    assert_eq!(files.len(), 2, "{files:?}");
    (temp, files)
}

#[test]
fn a_missing_stripe() {
    let (temp, files) = sound();
    fs::remove_file(&files[1]).unwrap();
    let line = refused(&mut tiny(temp.path()), 3);
    golden("errors-missing-stripe", &without_path(&line, temp.path()));
    assert!(files[0].exists(), "damaged data are the user's to remove");
}

#[test]
fn a_truncated_stripe() {
    let (temp, files) = sound();
    let file = OpenOptions::new().write(true).open(&files[0]).unwrap();
    file.set_len(4096).unwrap();
    let line = refused(&mut tiny(temp.path()), 3);
    golden("errors-truncated-stripe", &without_numbers(&without_path(&line, temp.path())));
}

#[test]
fn corrupt_pages() {
    let (temp, files) = sound();
    for path in &files {
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        // Beyond the file's header: the middle of every page after it.
        let bytes = file.metadata().unwrap().len();
        for offset in (3 * 8192..bytes).step_by(16384) {
            file.write_all_at(&[0x5a; 64], offset).unwrap();
        }
    }
    fails(&mut tiny(temp.path()), 3, &["corrupt"]);
}

#[test]
fn a_disk_that_is_too_small() {
    let temp = tempfile::tempdir().unwrap();
    let stat = rustix::fs::statvfs(temp.path()).unwrap();
    let rows = 4_000_000_000u64;
    if stat.f_bavail * stat.f_frsize >= rows * 230 {
        eprintln!("not tested: the largest table fits this disk");
        return;
    }
    let mut command = flifo();
    command.args(["sweep", "--table-size", "4000000000"]).arg("--data").arg(temp.path().join("data"));
    fails(&mut command, 3, &["disk full", "free some space"]);
    assert!(!temp.path().join("data/sbtest").exists());
}

/// A sweep of many connections under a shell's limits.
fn limited(limit: &str, more: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let script = format!("{limit} && exec \"$0\" \"$@\"");
    command.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_flifo")).arg("sweep").args(more);
    command.stdin(Stdio::null());
    command
}

#[test]
fn too_few_descriptors() {
    let temp = tempfile::tempdir().unwrap();
    let mut command = limited("ulimit -n 200", &["--threads", "1000"]);
    fails(command.arg("--data").arg(temp.path()), 4, &["ulimit -n 2", "--threads"]);
    // The direct front needs none of them, and a low soft limit is raised.
    let mut soft = limited("ulimit -S -n 20", TINY);
    succeeds(soft.arg("--data").arg(temp.path()));
}

#[test]
fn threads_that_cannot_be_started() {
    let temp = tempfile::tempdir().unwrap();
    // Address space for some stacks, not for all.
    let more = [
        "--threads",
        "4000",
        "--front",
        "direct",
        "--table-size",
        "2000",
        "--buffer-pool",
        "16M",
        "--instances",
        "1",
        "--time",
        "0.1",
        "--rounds",
        "1",
    ];
    let mut command = limited("ulimit -v 1500000", &more);
    fails(command.arg("--data").arg(temp.path()), 4, &["4000 threads", "ulimit -v", "fewer --threads"]);
}

#[test]
fn a_buffer_pool_beyond_memory() {
    let temp = tempfile::tempdir().unwrap();
    let mut command = flifo();
    command.args(["sweep", "--buffer-pool", "4T"]).arg("--data").arg(temp.path().join("data"));
    fails(&mut command, 4, &["4T", "--buffer-pool"]);
}

#[test]
fn a_file_that_is_no_result() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("x.json");
    let mut cases = Cases::default();
    cases.add("no file", without_path(&refused(flifo().arg("report").arg(&file), 1), temp.path()));
    fs::write(&file, "{}").unwrap();
    cases.add("no results", refused(flifo().arg("report").arg(&file), 1));
    cases.add("no end", refused(flifo().args(["report", "/dev/zero"]), 1));
    cases.check("errors-report");
}
