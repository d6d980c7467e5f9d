//! Invalid directories and files: each error names the file and says what to do, and no damaged file is accepted.

mod common;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use common::{config, key, rows, session, verify, verify_some};
use flifo_engine::disk::{DiskCall, Fault, MemoryDisk};
use flifo_engine::{Database, EngineConfig, Error, Isolation};

const ROWS: u64 = 3000;

/// A closed database of a tree `t` with [`ROWS`] rows, over three files.
fn database() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    dir
}

fn fill(dir: &Path) {
    let db = Database::create(dir, config()).unwrap();
    let tree = db.create_tree("t").unwrap();
    db.bulk_load(&tree, rows(ROWS), |_| {}).unwrap();
    db.close().unwrap();
}

fn file(dir: &tempfile::TempDir, index: u32) -> PathBuf {
    dir.path().join(format!("data{index}.flifo"))
}

fn open_error(dir: &Path) -> Error {
    let error = Database::open(dir, config()).err().expect("it was opened");
    assert!(!error.to_string().contains('\n'));
    error
}

/// The error names the file or directory, and nothing was changed by looking at it.
fn assert_names(error: &Error, path: &Path) {
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
}

fn overwrite(path: &Path, offset: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, offset).unwrap();
}

fn flip_bit(path: &Path, offset: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 1], offset).unwrap();
}

#[test]
fn a_whole_database_opens() {
    let dir = database();
    for direct_io in [true, false] {
        let db = Database::open(dir.path(), EngineConfig { direct_io, ..config() }).unwrap();
        verify(&db, &db.tree("t").unwrap(), ROWS).unwrap();
        assert!(direct_io || !db.stats().direct_io);
        db.close().unwrap();
    }
}

#[test]
fn open_or_create_does_either() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/new/one");
    let db = Database::open_or_create(&path, config()).unwrap();
    db.create_tree("t").unwrap();
    db.close().unwrap();
    let db = Database::open_or_create(&path, config()).unwrap();
    assert_eq!(db.tree_names().unwrap(), ["t"]);
}

#[test]
fn there_is_nothing_to_open() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().to_path_buf(), dir.path().join("missing")] {
        let error = open_error(&path);
        assert!(matches!(error, Error::NoDatabase { .. }), "{error}");
        assert_names(&error, &path);
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_directory_of_other_files_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("letter.txt"), "Dear Sir").unwrap();
    for outcome in [Database::create(dir.path(), config()), Database::open_or_create(dir.path(), config())] {
        let error = outcome.err().unwrap();
        assert!(matches!(error, Error::NotADatabase { .. }), "{error}");
        assert!(error.to_string().contains("letter.txt"), "{error}");
    }
    assert!(matches!(open_error(dir.path()), Error::NoDatabase { .. }));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_file_is_no_directory() {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(matches!(open_error(file.path()), Error::NotADatabase { .. }));
    let created = Database::create(file.path(), config()).err().unwrap();
    assert!(matches!(created, Error::NotADatabase { .. }), "{created}");
}

#[test]
fn a_database_is_not_created_over_another() {
    let dir = database();
    let error = Database::create(dir.path(), config()).err().unwrap();
    assert!(matches!(error, Error::DatabaseExists { .. }), "{error}");
    verify_whole(&dir);
}

fn verify_whole(dir: &tempfile::TempDir) {
    let db = Database::open(dir.path(), config()).unwrap();
    verify(&db, &db.tree("t").unwrap(), ROWS).unwrap();
}

#[test]
fn each_missing_file_is_named() {
    for index in 0..3 {
        let dir = database();
        let moved = dir.path().join("elsewhere");
        fs::rename(file(&dir, index), &moved).unwrap();
        let error = open_error(dir.path());
        assert!(matches!(error, Error::MissingDataFile { files: 3, .. }), "{error}");
        assert_names(&error, &file(&dir, index));
        fs::rename(&moved, file(&dir, index)).unwrap();
        verify_whole(&dir);
    }
}

#[test]
fn each_truncated_file_is_named() {
    for index in 0..3 {
        for keep in [0, 100, 4096, 40_000, 64 << 10, 100_000] {
            let dir = database();
            OpenOptions::new().write(true).open(file(&dir, index)).unwrap().set_len(keep).unwrap();
            let error = open_error(dir.path());
            assert!(matches!(error, Error::TruncatedDataFile { bytes, .. } if bytes == keep), "{error}");
            assert_names(&error, &file(&dir, index));
        }
    }
}

#[test]
fn swapped_files_are_named() {
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        let dir = database();
        let aside = dir.path().join("aside");
        fs::rename(file(&dir, a), &aside).unwrap();
        fs::rename(file(&dir, b), file(&dir, a)).unwrap();
        fs::rename(&aside, file(&dir, b)).unwrap();
        let error = open_error(dir.path());
        assert!(matches!(error, Error::MisplacedDataFile { .. }), "{error}");
        assert_names(&error, &file(&dir, a));
        assert!(error.to_string().contains(&format!("number {b}")), "{error}");
    }
}

#[test]
fn each_foreign_file_is_named() {
    for index in 0..3 {
        let (dir, other) = (database(), database());
        fs::copy(file(&other, index), file(&dir, index)).unwrap();
        let error = open_error(dir.path());
        assert!(matches!(error, Error::MisplacedDataFile { .. }), "{error}");
        assert_names(&error, &file(&dir, index));
        assert!(error.to_string().contains("another database"), "{error}");
    }
    let dir = database();
    fs::copy(file(&dir, 2), file(&dir, 3)).unwrap();
    assert_names(&open_error(dir.path()), &file(&dir, 3));
}

#[test]
fn bad_headers_are_named() {
    for index in 0..3 {
        let dir = database();
        let good = fs::read(file(&dir, index)).unwrap()[..4096].to_vec();

        overwrite(&file(&dir, index), 0, b"MZ");
        let error = open_error(dir.path());
        assert!(matches!(error, Error::NotADatabase { .. }), "{error}");
        assert_names(&error, &file(&dir, index));

        let mut newer = good.clone();
        newer[8..12].copy_from_slice(&7u32.to_le_bytes());
        let checksum = crc32c::crc32c(&newer[..4092]);
        newer[4092..].copy_from_slice(&checksum.to_le_bytes());
        overwrite(&file(&dir, index), 0, &newer);
        let error = open_error(dir.path());
        assert!(matches!(error, Error::FormatVersion { found: 7, supported: 6, .. }), "{error}");
        assert_names(&error, &file(&dir, index));

        for damaged in [vec![0; 4096], [&good[..512], &[0; 3584]].concat()] {
            overwrite(&file(&dir, index), 0, &damaged);
            let error = open_error(dir.path());
            assert!(matches!(error, Error::CorruptHeader { .. }), "{error}");
            assert_names(&error, &file(&dir, index));
        }

        overwrite(&file(&dir, index), 0, &good);
        verify_whole(&dir);
    }
}

#[test]
fn one_state_block_may_rot_and_both_may_not() {
    let dir = database();
    flip_bit(&file(&dir, 0), (16 << 10) + 8);
    verify_whole(&dir);
    flip_bit(&file(&dir, 0), (32 << 10) + 30);
    assert!(matches!(open_error(dir.path()), Error::CorruptHeader { .. }));
}

/// A bit is flipped in every third page in turn: reading everything finds it, or it was in a page not in use.
#[test]
fn a_corrupt_page_is_an_error_and_never_wrong_rows() {
    let dir = database();
    let mut found = 0;
    for index in 0..3 {
        let bytes = fs::metadata(file(&dir, index)).unwrap().len();
        for page_at in ((64 << 10)..bytes).step_by(3 * 4096) {
            let at = page_at + page_at / 4096 * 97 % 4096;
            flip_bit(&file(&dir, index), at);
            // The catalog is read at the opening of the tree.
            let outcome = Database::open(dir.path(), config())
                .and_then(|db| db.tree("t").and_then(|tree| verify_some(&db, &tree, ROWS, 50)));
            match outcome {
                Ok(()) => {}
                Err(Error::CorruptPage { .. }) => found += 1,
                Err(error) => panic!("{error}"),
            }
            flip_bit(&file(&dir, index), at);
        }
    }
    // 3000 rows of some 150 bytes fill more than a hundred pages of 4096, and every third is tried.
    assert!(found > 30, "{found} pages");
    verify_whole(&dir);
}

#[test]
fn a_database_in_use_is_not_opened_twice() {
    let dir = database();
    let db = Database::open(dir.path(), config()).unwrap();
    let error = open_error(dir.path());
    assert!(matches!(error, Error::InUse { .. }), "{error}");
    assert!(error.to_string().contains("in use by another process"), "{error}");
    db.close().unwrap();
    verify_whole(&dir);
}

#[test]
fn refused_files_are_named_whatever_refuses() {
    for (fault, expected) in
        [(Fault::NotPermitted, "Permission denied"), (Fault::OutOfFileDescriptors, "ulimit -n")]
    {
        let disk = MemoryDisk::default();
        Database::create_on(Arc::new(disk.clone()), config()).unwrap().close().unwrap();
        for nth in 1..=3 {
            disk.fail_nth(Some(DiskCall::Open), nth, fault);
            let error = Database::open_on(Arc::new(disk.clone()), config()).err().unwrap();
            assert!(error.to_string().contains(expected), "{error}");
            assert!(error.to_string().contains(&format!("data{}.flifo", nth - 1)), "{error}");
        }
        Database::open_on(Arc::new(disk.clone()), config()).unwrap();
    }
}

#[test]
fn a_full_disk_harms_nothing_that_is_there() {
    let disk = MemoryDisk::default();
    let db = Database::create_on(Arc::new(disk.clone()), config()).unwrap();
    let tree = db.create_tree("t").unwrap();
    db.bulk_load(&tree, rows(ROWS), |_| {}).unwrap();
    disk.fail_from(Some(DiskCall::Allocate), 1, Fault::DiskFull);
    let session = session(&db);
    let mut inserted = ROWS;
    let error = loop {
        let row = inserted;
        match session.statement().unwrap().insert(&tree, &key(row), &common::value(row)) {
            Ok(_) => inserted += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::DiskFull { bytes_needed, .. } if bytes_needed > 0), "{error}");
    verify(&db, &tree, inserted).unwrap();
    db.check_tree(&tree).unwrap();
    // Others can still be deleted and changed, and all of it lasts.
    assert!(session.statement().unwrap().delete(&tree, &key(inserted - 1)).unwrap());
    db.close().unwrap();
    let db = Database::open_on(Arc::new(disk), config()).unwrap();
    verify(&db, &db.tree("t").unwrap(), inserted - 1).unwrap();
}

/// On a full disk what is deleted at one end of a tree makes room at its other end.
#[test]
fn on_a_full_disk_a_delete_makes_room() {
    let disk = MemoryDisk::default();
    let db = Database::create_on(Arc::new(disk.clone()), config()).unwrap();
    let tree = db.create_tree("t").unwrap();
    db.bulk_load(&tree, rows(ROWS), |_| {}).unwrap();
    disk.fail_from(Some(DiskCall::Allocate), 1, Fault::DiskFull);
    let session = session(&db);
    let insert = |row| session.statement().unwrap().insert(&tree, &key(row), &common::value(row));
    let full = (ROWS..).find(|&row| insert(row).is_err()).unwrap();
    assert!(matches!(insert(full), Err(Error::DiskFull { .. })));
    (0..ROWS / 2).for_each(|row| assert!(session.statement().unwrap().delete(&tree, &key(row)).unwrap()));
    (full..full + ROWS / 4).for_each(|row| assert!(insert(row).unwrap()));
    assert_eq!(db.check_tree(&tree).unwrap().rows, full + ROWS / 4 - ROWS / 2);
    assert_eq!(db.lost_pages().unwrap(), 0);
}

/// The same for a table: deletes need undo, and deleted rows are removed when no snapshot sees them.
#[test]
fn on_a_full_disk_a_transaction_makes_room() {
    let disk = MemoryDisk::default();
    let db = Database::create_on(Arc::new(disk.clone()), config()).unwrap();
    let table = db.create_table("t").unwrap();
    let session = session(&db);
    let of_ten = |first: u64, insert: bool| {
        let mut txn = session.begin(Isolation::RepeatableRead);
        for row in first..first + 10 {
            match insert {
                true => drop(txn.insert(&table, &key(row), &common::value(row))?),
                false => assert!(txn.delete(&table, &key(row))?),
            }
        }
        txn.commit()
    };
    let purge = || {
        while db.stats().txns.history > 0 {
            std::thread::yield_now();
        }
    };
    (0..ROWS).step_by(10).for_each(|row| of_ten(row, true).unwrap());
    disk.fail_from(Some(DiskCall::Allocate), 1, Fault::DiskFull);
    let full = (ROWS..).step_by(10).find(|&row| of_ten(row, true).is_err()).unwrap();
    for row in (0..ROWS / 2).step_by(10) {
        purge();
        of_ten(row, false).unwrap();
    }
    purge();
    for row in (full..full + ROWS / 4).step_by(10) {
        of_ten(row, true).unwrap();
        purge();
    }
    let mut txn = session.begin(Isolation::RepeatableRead);
    assert_eq!(common::all(&mut txn, &table).len() as u64, full + ROWS / 4 - ROWS / 2);
}

/// Runs the test `name` of this file in a process of its own, which receives `dir`.
fn child(name: &str, dir: &Path) -> std::process::Output {
    Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--ignored", "--nocapture"])
        .env("FLIFO_TEST_DIR", dir)
        .output()
        .unwrap()
}

#[test]
fn a_process_without_file_descriptors_is_told_so() {
    let dir = database();
    let output = child("opens_with_few_descriptors", dir.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    verify_whole(&dir);
}

/// A child that was forked while it was open, and has not become another program yet, has its files open, too.
#[test]
fn a_database_that_was_closed_opens_whoever_was_forked_meanwhile() {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::CommandExt as _;

    let dir = database();
    let db = Database::open(dir.path(), config()).unwrap();
    let (mut here, mut there) = UnixStream::pair().unwrap();
    let child = std::thread::spawn(move || {
        let stops = move || {
            there.write_all(&[1])?;
            there.read_exact(&mut [0])
        };
        let mut command = Command::new("true");
        // SAFETY: between the fork and the new program there are two calls of the system, and no memory is asked for.
        unsafe { command.pre_exec(stops) };
        command.status().unwrap()
    });
    here.read_exact(&mut [0]).unwrap();
    db.close().unwrap();
    let again = Database::open(dir.path(), config());
    here.write_all(&[1]).unwrap();
    assert!(child.join().unwrap().success());
    let again = again.unwrap();
    verify_some(&again, &again.tree("t").unwrap(), ROWS, 7).unwrap();
}

#[test]
#[ignore = "run by a_process_without_file_descriptors_is_told_so, since the limit is the whole process's"]
fn opens_with_few_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let dir = PathBuf::from(std::env::var_os("FLIFO_TEST_DIR").unwrap());
    let before = getrlimit(Resource::Nofile);
    // The limit is on the numbers; 0, 1 and 2 are taken, and the lock, three data files, four of redo and two of doublewrite need one each.
    for allowed in 3..=24 {
        setrlimit(Resource::Nofile, Rlimit { current: Some(allowed), ..before }).unwrap();
        match Database::open(&dir, config()) {
            Ok(db) => {
                assert!(allowed >= 13, "{allowed}");
                verify(&db, &db.tree("t").unwrap(), ROWS).unwrap();
            }
            Err(Error::OutOfFileDescriptors { .. }) => assert!(allowed < 24),
            Err(error) => panic!("{error}"),
        }
    }
}
