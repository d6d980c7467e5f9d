//! Files that were put back from an older copy, beside others that were not.

use super::*;

/// Data files of yesterday with today's log, and the other way round: refused, or found to be whole.
#[test]
fn files_put_back_from_an_older_copy_are_noticed() {
    let (disk, mut worker) = crashed();
    let old = disk.kill();
    let db = open(&disk).unwrap();
    work(&db, &mut worker, 4000);
    db.checkpoint().unwrap();
    work(&db, &mut worker, 300);
    let look = |disk: &MemoryDisk| -> Result<()> {
        let db = open(disk)?;
        let tree = db.tree("t")?;
        db.check_tree(&tree)?;
        check(&db, &tree, SEED, &[worker.done], 0);
        Ok(())
    };
    for begin in ["redo", "data"] {
        let mixed = disk.kill();
        put_all_back(&old, begin, &mixed);
        match look(&mixed) {
            Err(Error::CorruptRedo { .. }) => {}
            // The log has all from the older checkpoint on, but a page may have been torn.
            Ok(()) | Err(Error::CorruptPage { .. }) if begin == "data" => {}
            other => panic!("{begin}: {other:?}"),
        }
    }
}

/// A database, a copy of it, closed or not, and the same one as a kill left it after changes in three more openings, with the
/// copy's data files. The log has the last changes in its buffer only.
fn with_older_data_files(copy_is_closed: bool, change: impl Fn(&Database)) -> (MemoryDisk, Worker) {
    let (disk, mut worker) = crashed();
    let db = open(&disk).unwrap();
    work(&db, &mut worker, 100);
    let copied_open = disk.kill();
    db.close().unwrap();
    let copied = if copy_is_closed { disk.kill() } else { copied_open };
    for _ in 0..2 {
        let db = open(&disk).unwrap();
        work(&db, &mut worker, 50);
        db.close().unwrap();
    }
    let written = EngineConfig { flush_log_at_trx_commit: FlushLog::Write, ..small() };
    let db = Database::open_on(on(&disk), written).unwrap();
    change(&db);
    work(&db, &mut worker, 50);
    let mixed = disk.kill();
    put_all_back(&copied, "data", &mixed);
    (mixed, worker)
}

/// The log is rolled forward, and later changes count, although the data files do not know the openings since.
#[test]
fn older_data_files_are_rolled_forward_and_what_follows_is_recovered() {
    for copy_is_closed in [true, false] {
        let (disk, mut worker) = with_older_data_files(copy_is_closed, |_| {});
        let db = open(&disk).unwrap();
        check_all(&db, &worker);
        work(&db, &mut worker, 50);
        check_all(&open(&disk.kill()).unwrap(), &worker);
    }
}

/// Another size of the log, or of its buffer, is asked for: they stay as they are until what they have is rolled forward.
#[test]
fn older_data_files_are_rolled_forward_from_a_log_of_any_size() {
    for copy_is_closed in [true, false] {
        let larger = EngineConfig { redo_capacity_bytes: 8 << 20, ..small() };
        let buffered = EngineConfig { log_buffer_bytes: 4 * small().log_buffer_bytes, ..small() };
        for config in [larger, buffered] {
            let (disk, mut worker) = with_older_data_files(copy_is_closed, |_| {});
            let lengths = || {
                names(&disk, "redo").iter().map(|name| disk.open(name).unwrap().bytes().unwrap()).sum::<u64>()
            };
            let before = lengths();
            let db = Database::open_on(on(&disk), config.clone()).unwrap();
            check_all(&db, &worker);
            assert_eq!(lengths(), before);
            work(&db, &mut worker, 50);
            check_all(&open(&disk.kill()).unwrap(), &worker);
            db.close().unwrap();
            let db = Database::open_on(on(&disk), config).unwrap();
            assert!(lengths() > before);
            check_all(&db, &worker);
        }
    }
}

/// The last changes are in the log's buffer, and that is gone. Of a closed database it is not needed, but here it is.
#[test]
fn older_data_files_are_not_rolled_forward_without_the_logs_buffer() {
    let (disk, _) = with_older_data_files(true, |_| {});
    disk.remove("redobuffer.flifo").unwrap();
    assert!(matches!(open(&disk), Err(Error::MissingRedo { .. })));
}

/// A check rolls them forward as an opening does: with doublewrite, and the database is closed afterwards.
#[test]
fn older_data_files_are_rolled_forward_by_a_check_and_closed() {
    const CLEAN: u64 = 3;
    for copy_is_closed in [true, false] {
        let (disk, worker) = with_older_data_files(copy_is_closed, |_| {});
        names(&disk, "doublewrite").iter().for_each(|name| disk.remove(name).unwrap());
        let report = Database::check_on(on(&disk), small(), &mut |_| {}).unwrap();
        assert!(report.is_sound());
        assert_eq!(of_state(&disk, 16), CLEAN);
        assert!(!names(&disk, "doublewrite").is_empty());
        names(&disk, "redo").iter().for_each(|name| disk.remove(name).unwrap());
        check_all(&open(&disk).unwrap(), &worker);
    }
}

/// A load's pages are in no log: what lies in their places may be rows of long ago.
#[test]
fn older_data_files_are_refused_if_rows_were_loaded_in_bulk_since() {
    for copy_is_closed in [true, false] {
        let (disk, _) = with_older_data_files(copy_is_closed, |db| {
            let tree = db.create_tree("loaded").unwrap();
            db.bulk_load(&tree, rows(1000), |_| {}).unwrap();
        });
        let error = open(&disk).err().unwrap();
        assert!(matches!(error, Error::CorruptRedo { .. }), "{error}");
        assert!(error.to_string().contains("loaded in bulk"), "{error}");
    }
}

/// A closed database was put back from an older copy, with its log, and the doublewrite areas were not. What they have of the
/// time after the copy is of other changes than those that come now.
#[test]
fn copies_of_another_time_are_never_taken_for_pages() {
    let (disk, first) = closed();
    let copied = disk.kill();
    let db = open(&disk).unwrap();
    work(&db, &mut Worker::after(SEED, 0, first.done), 100);
    db.checkpoint().unwrap();
    let mixed = disk.kill();
    ["data", "redo"].into_iter().for_each(|begin| put_all_back(&copied, begin, &mixed));
    let start = checkpoint(&mixed);
    assert!(copies(&mixed).iter().any(|&(_, lsn)| lsn > start));
    // So that the areas stay as they are.
    let once = EngineConfig { doublewrite: false, ..small() };
    let (db, mut second) = (Database::open_on(on(&mixed), once).unwrap(), Worker::new(SEED, 1));
    work(&db, &mut second, 300);
    let db = open(&mixed.kill()).unwrap();
    check(&db, &db.tree("t").unwrap(), SEED, &[first.done, second.done], 0);
}

/// The data files of a closed database were restored, and the log has continued since in one opening, so far that none
/// of the frames right after the close are left. The database is as it was; and new changes count, although the log had
/// frames of the same epoch everywhere.
#[test]
fn a_closed_copy_beside_a_log_that_has_gone_round_is_as_it_was_and_what_follows_is_recovered() {
    const CAPACITY: u64 = 4 << 20;
    for share in [8, 4, 2] {
        let (disk, first) = closed();
        let (copied, start) = (disk.kill(), checkpoint(&disk));
        let db = open(&disk).unwrap();
        let mut later = Worker::after(SEED, 0, first.done);
        while db.stats().redo.next_lsn < start + CAPACITY + CAPACITY / share {
            work(&db, &mut later, 100);
        }
        let mixed = disk.kill();
        put_all_back(&copied, "data", &mixed);
        let mut second = Worker::new(SEED, 1);
        let db = open(&mixed).unwrap();
        for _ in 0..3 {
            work(&db, &mut second, 100);
            let db = open(&mixed.kill()).unwrap();
            check(&db, &db.tree("t").unwrap(), SEED, &[first.done, second.done], 0);
        }
    }
}

/// The same for a database that was not closed, and had nothing behind its checkpoint: refused, whatever its pages are.
/// It opens once the areas are restored, too.
#[test]
fn copies_of_another_time_are_refused_though_there_is_nothing_to_recover() {
    let (disk, mut worker) = closed();
    let db = open(&disk).unwrap();
    work(&db, &mut worker, 100);
    db.checkpoint().unwrap();
    let copied = disk.kill();
    work(&db, &mut Worker::after(SEED, 0, worker.done), 300);
    db.checkpoint().unwrap();
    let mixed = disk.kill();
    ["data", "redo"].into_iter().for_each(|begin| put_all_back(&copied, begin, &mixed));
    let start = checkpoint(&mixed);
    assert!(copies(&mixed).iter().any(|&(_, lsn)| lsn > start));
    let error = open(&mixed.kill()).err().unwrap();
    assert!(
        matches!(error, Error::CorruptRedo { .. }) && error.to_string().contains("a copy of page"),
        "{error}"
    );
    put_all_back(&copied, "doublewrite", &mixed);
    check_all(&open(&mixed).unwrap(), &worker);
}
