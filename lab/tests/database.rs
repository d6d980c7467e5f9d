//! `flifo check` and `flifo stat` as a DBA meets them: databases that are sound, damaged, in use, or none.

mod common;
#[path = "common/keys.rs"]
mod keys;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread;
use std::time::Duration;

use common::golden::{Cases, golden, without_numbers, without_path};
use common::{fails, flifo, refused};
use flifo_admission::{Admission, Config};
use flifo_engine::{Database, EngineConfig, Isolation};
use keys::{documented, keys};
use serde_json::Value;

const DOCUMENTATION: &str = include_str!("../../docs/check.md");
const PAGE: usize = 4096;
const FIRST_PAGE_AT: usize = 64 << 10;

fn config() -> EngineConfig {
    EngineConfig {
        buffer_pool_bytes: 1 << 20,
        buffer_pool_instances: 1,
        data_files: 2,
        page_size: PAGE as u32,
        redo_capacity_bytes: 4 << 20,
        rollback_segments: 3,
        ..EngineConfig::default()
    }
}

/// A database with a table of 500 rows, some changed and deleted, and a tree of 3000. At the end it is open, and somebody
/// still sees the rows as they were before, so that their undo is kept.
fn fill(dir: &Path, at_the_end: impl FnOnce(&Database)) {
    let db = Database::create(dir, config()).unwrap();
    let tree = db.create_tree("words").unwrap();
    let rows = (0..3000_u32).map(|row| (row.to_be_bytes(), [7; 60]));
    db.bulk_load(&tree, rows, |_| {}).unwrap();
    let table = db.create_table("accounts").unwrap();
    let session = db.session(&Admission::new(Config::default()).unwrap());
    let mut txn = session.begin(Isolation::RepeatableRead);
    (0..500_u32).for_each(|row| assert!(txn.insert(&table, &row.to_be_bytes(), &[1; 100]).unwrap()));
    txn.commit().unwrap();
    let mut reader = session.begin(Isolation::RepeatableRead);
    reader.get(&table, &1_u32.to_be_bytes(), &mut Vec::new()).unwrap();
    let other = db.session(&Admission::new(Config::default()).unwrap());
    let mut txn = other.begin(Isolation::RepeatableRead);
    (0..100_u32).for_each(|row| assert!(txn.update(&table, &row.to_be_bytes(), &[2; 90]).unwrap()));
    (100..110_u32).for_each(|row| assert!(txn.delete(&table, &row.to_be_bytes()).unwrap()));
    txn.commit().unwrap();
    at_the_end(&db);
}

fn sound() -> (tempfile::TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("db");
    fill(&dir, |db| db.close().unwrap());
    (temp, dir)
}

/// As a crash leaves it: what an open database has in its files.
fn crashed() -> (tempfile::TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let (open, dir) = (temp.path().join("open"), temp.path().join("db"));
    fill(&open, |_| copy(&open, &dir));
    (temp, dir)
}

/// The same, half-way through a bulk load.
fn crashed_in_a_load() -> (tempfile::TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let (open, dir) = (temp.path().join("open"), temp.path().join("db"));
    fill(&open, |db| {
        let tree = db.create_tree("loading").unwrap();
        let rows = (0..8000_u32).map(|row| {
            if row == 7000 {
                // The page cleaners come to rest.
                thread::sleep(Duration::from_millis(300));
                copy(&open, &dir);
            }
            (row.to_be_bytes(), [7; 200])
        });
        db.bulk_load(&tree, rows, |_| {}).unwrap();
    });
    (temp, dir)
}

/// Copies an open database: the data files before the redo log, which then knows of all that they have.
fn copy(open: &Path, dir: &Path) {
    fs::create_dir(dir).unwrap();
    for path in contents(open).keys() {
        fs::copy(path, dir.join(path.file_name().unwrap())).unwrap();
    }
}

fn run(command: &str, dir: &Path, options: &[&str]) -> (Option<i32>, String) {
    let output: Output = flifo().arg(command).arg(dir).args(options).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

fn json(command: &str, dir: &Path, code: i32) -> Value {
    let (ended, text) = run(command, dir, &["--json"]);
    assert_eq!(ended, Some(code), "{text}");
    serde_json::from_str(&text).unwrap()
}

/// Every file's bytes.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Flips a bit in the last page that `which` says yes to; its number, its file and where it begins there.
fn damage(dir: &Path, which: impl Fn(&[u8]) -> bool) -> (u64, String, usize) {
    let mut found = None;
    for name in ["data0.flifo", "data1.flifo"] {
        let mut bytes = fs::read(dir.join(name)).unwrap();
        let pages = (FIRST_PAGE_AT..bytes.len()).step_by(PAGE);
        if let Some(at) = pages.rev().find(|&at| which(&bytes[at..at + PAGE])) {
            let page = u64::from_le_bytes(bytes[at + 8..at + 16].try_into().unwrap());
            bytes[at + PAGE / 2] ^= 4;
            found = Some((page, name.to_owned(), at, bytes));
        }
    }
    let (page, name, at, bytes) = found.expect("such a page");
    fs::write(dir.join(&name), bytes).unwrap();
    (page, name, at)
}

fn owner(page: &[u8]) -> u64 {
    u64::from_le_bytes(page[24..32].try_into().unwrap())
}

fn is_leaf_of(page: &[u8], root: u64) -> bool {
    (page[4], page[5]) == (1, 0) && owner(page) == root
}

fn root_of(dir: &Path, name: &str) -> u64 {
    let report = json("check", dir, 0);
    let trees = report["trees"].as_array().unwrap();
    trees.iter().find(|tree| tree["name"] == name).unwrap()["root"].as_u64().unwrap()
}

/// A text that is the same on every machine and in every run.
fn normalised(text: &str, dir: &Path) -> String {
    let is_id = |line: &&str| line.trim_start().starts_with("id ");
    let lines: Vec<&str> = text.lines().filter(|line| !is_id(line)).collect();
    without_numbers(&without_path(&lines.join("\n"), dir))
}

#[test]
fn a_sound_database_is_said_to_be_and_left_as_it_was() {
    let (_temp, dir) = sound();
    let before = contents(&dir);
    let (code, text) = run("check", &dir, &[]);
    assert_eq!(code, Some(0), "{text}");
    let mut cases = Cases::default();
    cases.add("check", normalised(&text, &dir));
    let (code, text) = run("stat", &dir, &[]);
    assert_eq!(code, Some(0), "{text}");
    for figure in ["4 KiB", "4 MiB in 4 files", "3,000"] {
        assert!(text.contains(figure), "no '{figure}' in: {text}");
    }
    cases.add("stat", normalised(&text, &dir));
    cases.add("stat --brief", normalised(&run("stat", &dir, &["--brief"]).1, &dir));
    cases.check("database-sound");
    let report = json("check", &dir, 0);
    assert_eq!((&report["sound"], report["findings"].as_array().unwrap().len()), (&Value::Bool(true), 0));
    assert_eq!(report["space"]["leaked_pages"], 0, "{report}");
    assert_eq!(report["space"]["used_pages"], report["space"]["reached_pages"]);
    assert!(contents(&dir) == before, "looking has changed something");
}

#[test]
fn every_key_is_documented_and_every_documented_key_is_written() {
    let (_temp, dir) = sound();
    let mut written = BTreeSet::new();
    keys(&json("stat", &dir, 0), &mut written);
    damage(&dir, |page| (page[4], page[5]) == (1, 0));
    keys(&json("check", &dir, 1), &mut written);
    let (_, layout) = DOCUMENTATION.split_once("## The JSON").unwrap();
    assert_eq!(written, documented(layout));
}

#[test]
fn a_database_that_was_not_closed_is_recovered_by_check_and_not_by_stat() {
    let (_temp, dir) = crashed();
    let before = contents(&dir);
    let (code, text) = run("stat", &dir, &[]);
    assert_eq!(code, Some(0), "{text}");
    golden("database-not-closed", &normalised(&text, &dir));
    assert!(contents(&dir) == before, "looking has changed something");
    let (code, text) = run("check", &dir, &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.ends_with(": sound\n"), "{text}");
    assert!(run("stat", &dir, &[]).1.contains("clean"));
    let (_temp, dir) = crashed();
    let (code, text) = run("stat", &dir, &["--recover"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("clean") && text.contains("accounts"), "{text}");
    let db = Database::open(&dir, config()).unwrap();
    assert_eq!(db.check_tree(&db.tree("words").unwrap()).unwrap().rows, 3000);
}

/// Data files restored from an older copy, with a log that continues from them, and with a log that has wrapped around
/// since.
#[test]
fn stat_changes_nothing_of_data_files_that_are_older_than_their_log() {
    for (changes, told, next_open) in
        [(1, "of an older copy than its redo log", "recovers"), (60, "makes them anew", "makes anew")]
    {
        let (_temp, dir) = sound();
        let older = contents(&dir);
        change(&dir, changes);
        for (path, bytes) in older.iter().filter(|(path, _)| is_data(path)) {
            fs::write(path, bytes).unwrap();
        }
        let before = contents(&dir);
        let (code, text) = run("stat", &dir, &[]);
        assert_eq!(code, Some(0), "{text}");
        // Tables are shown unless they need the log.
        let recovers = next_open == "recovers";
        assert!(text.contains(told), "{text}");
        assert_eq!((text.contains("--recover"), text.contains("accounts")), (recovers, !recovers), "{text}");
        assert_eq!(json("stat", &dir, 0)["next_open"], next_open);
        assert!(contents(&dir) == before, "looking has changed something");
        let (_, text) = run("stat", &dir, &["--recover"]);
        assert!(text.contains("accounts"), "{text}");
        assert_eq!(json("stat", &dir, 0)["next_open"], "as it is");
    }
}

fn is_data(path: &Path) -> bool {
    path.file_name().unwrap().to_string_lossy().starts_with("data")
}

/// Opens the database, changes all rows of its table `times` times, and closes it.
fn change(dir: &Path, times: u32) {
    let db = Database::open(dir, config()).unwrap();
    let table = db.table("accounts").unwrap();
    let session = db.session(&Admission::new(Config::default()).unwrap());
    for time in 0..times {
        let mut txn = session.begin(Isolation::ReadCommitted);
        (110..500_u32).for_each(|row| {
            assert!(txn.update(&table, &row.to_be_bytes(), &[time as u8; 100]).unwrap());
        });
        txn.commit().unwrap();
    }
    db.close().unwrap();
}

#[test]
fn pages_of_a_load_that_was_cut_off_are_told_and_freed_on_demand() {
    let (_temp, dir) = crashed_in_a_load();
    let (code, text) = run("check", &dir, &[]);
    assert_eq!(code, Some(0), "{text}");
    let mut cases = Cases::default();
    cases.add("check", normalised(&text, &dir));
    let space = &json("check", &dir, 0)["space"];
    let [leaked, used] = ["leaked_pages", "used_pages"].map(|key| space[key].as_u64().unwrap());
    assert!(leaked > 300, "{leaked} pages of 4 KiB, of a load of 1.4 MB");
    // Damage keeps them.
    let damaged = dir.with_file_name("damaged");
    copy(&dir, &damaged);
    let words = root_of(&damaged, "words");
    damage(&damaged, |page| is_leaf_of(page, words));
    let (code, text) = run("check", &damaged, &["--reclaim"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.ends_with("nothing was freed: what lies below a damaged page was not reached\n"), "{text}");
    let (code, text) = run("check", &dir, &["--reclaim"]);
    assert_eq!(code, Some(0), "{text}");
    cases.add("check --reclaim", normalised(&text, &dir));
    cases.check("database-leaked-pages");
    let report = json("check", &dir, 0);
    assert_eq!((&report["space"]["leaked_pages"], &report["space"]["freed_pages"]), (&0.into(), &0.into()));
    assert_eq!(report["space"]["used_pages"], report["space"]["reached_pages"]);
    let db = Database::open(&dir, config()).unwrap();
    assert_eq!(db.check_tree(&db.tree("words").unwrap()).unwrap().rows, 3000);
    // They are used again.
    let tree = db.tree("loading").unwrap();
    db.bulk_load(&tree, (0..7000_u32).map(|row| (row.to_be_bytes(), [7; 200])), |_| {}).unwrap();
    db.close().unwrap();
    let now = json("check", &dir, 0)["space"]["used_pages"].as_u64().unwrap();
    assert!(now <= used, "{now} pages in use, {used} with the leaked ones");
}

#[test]
fn a_flipped_bit_in_a_leaf_is_named_and_the_rest_is_checked() {
    let (_temp, dir) = sound();
    let root = root_of(&dir, "words");
    let (page, file, at) = damage(&dir, |page| is_leaf_of(page, root));
    let (code, text) = run("check", &dir, &[]);
    assert_eq!(code, Some(1), "{text}");
    let file = dir.join(file).display().to_string();
    let told = format!("tree 'words': page {page} ({file}, offset {at}): its checksum is");
    assert!(text.contains(&told) && text.contains("damage found: 1 finding"), "no '{told}' in: {text}");
    assert!(text.contains("accounts"), "{text}");
    let (code, text) = run("stat", &dir, &[]);
    assert!(code == Some(1) && text.contains("flifo check"), "{text}");
}

#[test]
fn a_flipped_bit_in_the_catalog() {
    let (_temp, dir) = sound();
    // The root of the catalog is the first page that was allocated for a tree, behind the pending page.
    let (page, ..) = damage(&dir, |page| page[4] == 1 && owner(page) == 3);
    let (code, text) = run("check", &dir, &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains(&format!("catalog: page {page} (")), "{text}");
    assert!(text.contains("that could be read"), "what the catalog named is not reached: {text}");
}

#[test]
fn a_flipped_bit_in_a_bitmap_and_one_in_undo() {
    let (_temp, dir) = sound();
    let (page, ..) = damage(&dir, |page| page[4] == 2);
    let report = json("check", &dir, 1);
    let finding = &report["findings"][0];
    assert_eq!(
        (finding["of"].as_str(), finding["page"].as_u64()),
        (Some("free space"), Some(page)),
        "{report}"
    );
    assert_eq!(report["findings_total"], 1);
    let (_temp, dir) = sound();
    let report = json("check", &dir, 0);
    let is_full = |tree: &&Value| tree["kind"] == "rollback segment" && tree["rows"].as_u64() > Some(0);
    let segment = report["trees"].as_array().unwrap().iter().find(is_full).expect("undo that is kept");
    let (page, ..) = damage(&dir, |page| is_leaf_of(page, segment["root"].as_u64().unwrap()));
    let report = json("check", &dir, 1);
    assert_eq!(report["findings"][0]["page"], page, "{report}");
}

#[test]
fn files_that_are_damaged_so_that_nothing_can_be_opened() {
    let truncated = |file: &Path| {
        let bytes = fs::metadata(file).unwrap().len();
        fs::File::options().write(true).open(file).unwrap().set_len(bytes - 4096).unwrap();
    };
    let (_temp, dir) = sound();
    truncated(&dir.join("data1.flifo"));
    let (code, text) = run("check", &dir, &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("data1.flifo is truncated") && text.contains("damage found"), "{text}");
    fails(flifo().arg("stat").arg(&dir), 1, &["data1.flifo is truncated"]);
    assert_eq!(json("check", &dir, 1)["findings_total"], 1);
    for (file, told) in [("data1.flifo", "is missing"), ("data0.flifo", "corrupt")] {
        let (_temp, dir) = sound();
        match file {
            "data1.flifo" => fs::remove_file(dir.join(file)).unwrap(),
            _ => fs::write(dir.join(file), vec![0; 1 << 20]).unwrap(),
        }
        let (code, text) = run("check", &dir, &[]);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(told) && text.contains(file), "{text}");
    }
}

#[test]
fn where_there_is_nothing_to_look_at() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("letter.txt");
    fs::write(&file, "dear").unwrap();
    let mut cases = Cases::default();
    for command in ["check", "stat"] {
        for (case, dir) in [
            ("nothing", &temp.path().join("nowhere")),
            ("no database", &temp.path().into()),
            ("a file", &file),
        ] {
            let line = refused(flifo().arg(command).arg(dir), 2);
            cases.add(format!("{command}: {case}"), without_path(&line, temp.path()));
        }
        cases.add(command, refused(flifo().arg(command), 2));
        let nonsense = refused(flifo().arg(command).arg(temp.path()).arg("--nonsense"), 2);
        cases.add(format!("{command} --nonsense"), nonsense);
    }
    cases.check("errors-database");
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1, "looking has left something");
    let open = temp.path().join("open");
    fill(&open, |_| {
        for command in ["check", "stat"] {
            fails(flifo().arg(command).arg(&open), 2, &["in use"]);
        }
    });
}

#[test]
fn a_full_disk_behind_standard_output_is_told_and_is_no_damage() {
    let (_temp, dir) = sound();
    for command in ["check", "stat"] {
        for options in [&[][..], &["--json"]] {
            let full = fs::File::options().write(true).open("/dev/full").unwrap();
            let mut printing = flifo();
            fails(printing.arg(command).arg(&dir).args(options).stdout(full), 3, &["cannot print", "space"]);
        }
        // The reader that closed the pipe has read enough.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = flifo().arg(command).arg(&dir).stdout(writer).output().unwrap();
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
    }
}

#[test]
fn a_redo_log_that_was_made_anew_is_described_as_it_is_now() {
    let (_temp, dir) = sound();
    let is_redo = |path: &&PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("redo");
    fs::remove_file(contents(&dir).keys().find(is_redo).expect("a file of the redo log")).unwrap();
    let before = json("stat", &dir, 0);
    assert!(before["redo_problem"].is_string() && before["redo_capacity_bytes"].is_null(), "{before}");
    let (code, text) = run("stat", &dir, &["--recover", "--json"]);
    assert_eq!(code, Some(0), "{text}");
    let now: Value = serde_json::from_str(&text).unwrap();
    assert!(now["redo_problem"].is_null() && now["redo_capacity_bytes"].is_u64(), "{text}");
}
