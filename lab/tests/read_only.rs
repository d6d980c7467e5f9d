//! `flifo check` and `flifo stat` on databases that can be read and not be written: on a read-only file system, and as a user
//! without permission to write. The first needs root and a mount namespace; the second needs root.

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{fails, flifo};
use flifo_engine::{Database, EngineConfig, Error};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use serde_json::Value;

/// The user `nobody`.
const NOBODY: u32 = 65534;
const COMMANDS: [&str; 2] = ["check", "stat"];

fn config() -> EngineConfig {
    EngineConfig {
        buffer_pool_bytes: 1 << 20,
        buffer_pool_instances: 1,
        data_files: 2,
        page_size: 4096,
        redo_capacity_bytes: 4 << 20,
        rollback_segments: 3,
        ..EngineConfig::default()
    }
}

/// A directory with a database in `db` that was closed, and one in `crashed` that was not. Everybody may read them.
fn databases() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    fs::set_permissions(temp.path(), Permissions::from_mode(0o755)).unwrap();
    let [closed, crashed] = ["db", "crashed"].map(|name| temp.path().join(name));
    let db = Database::create(&closed, config()).unwrap();
    let tree = db.create_tree("words").unwrap();
    db.bulk_load(&tree, (0..3000_u32).map(|row| (row.to_be_bytes(), [7; 60])), |_| {}).unwrap();
    copy(&closed, &crashed);
    db.close().unwrap();
    for dir in [&closed, &crashed] {
        fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
        for name in names(dir) {
            fs::set_permissions(dir.join(name), Permissions::from_mode(0o644)).unwrap();
        }
    }
    (temp, closed, crashed)
}

/// Copies an open database: the data files before the redo log, which then knows of all that they have.
fn copy(open: &Path, dir: &Path) {
    fs::create_dir(dir).unwrap();
    for name in names(open) {
        fs::copy(open.join(&name), dir.join(&name)).unwrap();
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

/// What `how` makes of a command must end well; what it printed.
fn reads(command: &str, dir: &Path, how: impl Fn(&mut Command)) -> String {
    let mut process = flifo();
    how(&mut process);
    let output = process.arg(command).arg(dir).output().unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{command}: {text}");
    text
}

/// Both commands read a closed database, and show its tree.
fn are_read(dir: &Path, how: impl Fn(&mut Command)) {
    for command in COMMANDS {
        let text = reads(command, dir, &how);
        assert!(text.contains("words") && text.contains("3,000"), "{text}");
    }
}

/// Why there is nothing to test here; a failure where everything should be allowed.
fn skip(why: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    assert!(std::env::var_os("CI").is_none() || !is_root, "not tested, in CI and as root: {why}");
    eprintln!("not tested: {why}");
    false
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root() || skip("only root starts processes of other users")
}

fn mount(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("mount").args(arguments).output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("mount {arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Takes a mount namespace for this thread and what it starts.
fn has_namespace() -> bool {
    if !rustix::process::geteuid().is_root() {
        return skip("only root mounts");
    }
    // SAFETY: of the thread nothing but its mounts and its working directory becomes its own; no descriptor does.
    let unshared = unsafe { unshare_unsafe(UnshareFlags::NEWNS) };
    match unshared.map_err(|errno| errno.to_string()).and_then(|()| mount(&["--make-rprivate", "/"])) {
        Ok(()) => true,
        Err(why) => skip(&format!("no mount namespace: {why}")),
    }
}

/// Makes the file system of a directory read-only, for this thread and what it starts.
fn make_read_only(dir: &Path) {
    let dir = dir.to_str().unwrap();
    mount(&["--bind", dir, dir]).unwrap();
    mount(&["-o", "remount,bind,ro", dir]).unwrap();
    assert!(fs::write(Path::new(dir).join("new"), "").is_err());
}

#[test]
fn a_closed_database_is_read_on_a_read_only_file_system() {
    if !has_namespace() {
        return;
    }
    let (_temp, dir, _) = databases();
    make_read_only(&dir);
    are_read(&dir, |_| {});
    // Nothing is to be freed.
    assert!(flifo().arg("check").arg("--reclaim").arg(&dir).output().unwrap().status.success());
    assert!(flifo().args(["stat", "--recover"]).arg(&dir).output().unwrap().status.success());
}

/// What a copy of the data files alone lacks is not needed of a database that was closed.
#[test]
fn a_copy_without_lock_file_and_redo_log_is_read_on_a_read_only_file_system() {
    if !has_namespace() {
        return;
    }
    let (_temp, dir, _) = databases();
    names(&dir).iter().filter(|name| !name.starts_with("data")).for_each(|name| {
        fs::remove_file(dir.join(name)).unwrap();
    });
    let before = names(&dir);
    are_read(&dir, |_| {});
    assert_eq!(names(&dir), before, "looking has left something");
    make_read_only(&dir);
    are_read(&dir, |_| {});
    let refused = &["redo log", "the file system is read-only"];
    fails(flifo().args(["stat", "--recover"]).arg(&dir), 2, &refused[1..]);
}

#[test]
fn a_closed_database_is_read_in_a_lower_directory_of_an_overlay() {
    if !has_namespace() {
        return;
    }
    let (temp, dir, _) = databases();
    let [empty, merged] = ["empty", "merged"].map(|name| temp.path().join(name));
    [&empty, &merged].iter().for_each(|dir| fs::create_dir(dir).unwrap());
    let layers = format!("lowerdir={}:{}", dir.display(), empty.display());
    match mount(&["-t", "overlay", "overlay", "-o", &layers, merged.to_str().unwrap()]) {
        Ok(()) => are_read(&merged, |_| {}),
        // Not in every kernel, nor over every file system.
        Err(why) => eprintln!("not tested: {why}"),
    }
}

#[test]
fn a_database_that_needs_recovery_is_described_and_not_checked_on_a_read_only_file_system() {
    if !has_namespace() {
        return;
    }
    let (_temp, _, dir) = databases();
    make_read_only(&dir);
    let text = reads("stat", &dir, |_| {});
    assert!(text.contains("was not closed") && !text.contains("words"), "{text}");
    let why =
        &["needs recovery", dir.to_str().unwrap(), "the file system is read-only", "mount it read-write"];
    fails(flifo().arg("check").arg(&dir), 2, why);
    fails(flifo().args(["check", "--reclaim"]).arg(&dir), 2, why);
    fails(flifo().args(["stat", "--recover"]).arg(&dir), 2, why);
}

#[test]
fn an_open_for_writing_names_a_read_only_file_system() {
    if !has_namespace() {
        return;
    }
    let (_temp, closed, crashed) = databases();
    for dir in [closed, crashed] {
        make_read_only(&dir);
        let error = Database::open(&dir, config()).err().expect("it was opened");
        assert!(matches!(error, Error::ReadOnlyFileSystem { .. }), "{error}");
        let told = format!("cannot write to {}: the file system is read-only; ", dir.display());
        assert!(error.to_string().starts_with(&told) && !error.to_string().contains('\n'), "{error}");
        let new = Database::create(dir.join("new"), config()).err().expect("it was created");
        assert!(matches!(new, Error::ReadOnlyFileSystem { .. }), "{new}");
    }
}

#[test]
fn who_has_a_database_open_is_seen_through_a_read_only_mount() {
    if !has_namespace() {
        return;
    }
    let (temp, dir, _) = databases();
    let mounted = temp.path().join("mounted");
    fs::create_dir(&mounted).unwrap();
    mount(&["--bind", dir.to_str().unwrap(), mounted.to_str().unwrap()]).unwrap();
    mount(&["-o", "remount,bind,ro", mounted.to_str().unwrap()]).unwrap();
    let db = Database::open(&dir, config()).unwrap();
    for command in COMMANDS {
        fails(flifo().arg(command).arg(&mounted), 2, &["in use"]);
    }
    db.close().unwrap();
    are_read(&mounted, |_| {});
}

/// As another user, who can run a copy of the command.
fn as_nobody(temp: &Path) -> impl Fn(&mut Command) {
    let copy = temp.join("flifo");
    if !copy.exists() {
        fs::copy(env!("CARGO_BIN_EXE_flifo"), &copy).unwrap();
        fs::set_permissions(&copy, Permissions::from_mode(0o755)).unwrap();
    }
    move |command| {
        *command = Command::new(&copy);
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
    }
}

#[test]
fn who_may_only_read_a_closed_database_reads_it() {
    if !is_root() {
        return;
    }
    let (temp, dir, crashed) = databases();
    let nobody = as_nobody(temp.path());
    let as_user = |arguments: &[&str], dir: &Path| {
        let mut command = flifo();
        nobody(&mut command);
        command.args(arguments).arg(dir);
        command
    };
    are_read(&dir, &nobody);
    assert!(reads("stat", &crashed, &nobody).contains("was not closed"));
    fails(
        &mut as_user(&["check"], &crashed),
        2,
        &["needs recovery", "Permission denied", "the owner's account"],
    );

    // A writer's locks, those of the data files alone: the lock file may not be read.
    let db = Database::open(&dir, config()).unwrap();
    COMMANDS.iter().for_each(|command| fails(&mut as_user(&[command], &dir), 2, &["in use"]));
    fs::set_permissions(dir.join("flifo.lock"), Permissions::from_mode(0o600)).unwrap();
    fails(&mut as_user(&["stat"], &dir), 2, &["in use"]);
    db.close().unwrap();
    are_read(&dir, &nobody);
}

#[test]
fn who_may_not_even_read_is_told_of_which_file() {
    if !is_root() {
        return;
    }
    let (temp, dir, _) = databases();
    let nobody = as_nobody(temp.path());
    let refused = |command: &str, words: &[&str]| {
        let mut process = flifo();
        nobody(&mut process);
        fails(process.arg(command).arg(&dir), 2, words);
    };
    for (path, mode) in [(dir.join("data1.flifo"), 0o600), (dir.clone(), 0o700)] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        for command in COMMANDS {
            refused(command, &["Permission denied", path.to_str().unwrap(), "permission"]);
        }
        fs::set_permissions(&path, Permissions::from_mode(mode | 0o55)).unwrap();
    }
}

#[test]
fn readers_share_a_database_and_keep_a_writer_out() {
    let (_temp, dir, _) = databases();
    let file = fs::File::open(dir.join("flifo.lock")).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockShared).unwrap();
    let output = flifo().args(["stat", "--json"]).arg(&dir).output().unwrap();
    let stat: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&stat["clean"], &stat["next_open"]), (&Value::Bool(true), &"as it is".into()));
    assert!(matches!(Database::open(&dir, config()), Err(Error::InUse { .. })));
    // Not by closing it: processes that other tests start have it open for a moment.
    rustix::fs::flock(&file, rustix::fs::FlockOperation::Unlock).unwrap();
    Database::open(&dir, config()).unwrap().close().unwrap();
}
