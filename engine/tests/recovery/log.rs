//! A log that has rotted, is cut short, missing, foreign, or gets another size.

use super::*;

/// A bit of the log rots anywhere between the checkpoint and the end: all is there, or it is refused, unless it was in
/// the very last records, of which nothing else tells.
#[test]
fn a_rotten_log_is_refused_and_never_cut_short_in_silence() {
    let (disk, worker) = crashed();
    let start = checkpoint(&disk);
    let mut told = 0;
    let db = open(&disk.kill()).unwrap();
    let end = db.stats().redo.next_lsn;
    check_all(&db, &worker);
    drop(db);
    for step in 0..16 {
        let at = start + (end - start) * step / 16;
        let rotten = disk.kill();
        let (name, offset) = place_of_lsn(&rotten, at);
        rotten.flip_bit(&name, offset, 3);
        match open(&rotten) {
            Err(Error::CorruptRedo { .. }) => told += 1,
            Err(error) => panic!("{error}"),
            // Zeros between two frames.
            Ok(db) => check_all(&db, &worker),
        }
    }
    assert!(told > 12, "{told}");
}

/// A bit of the log rots after the end was looked for, and before it is replayed.
#[test]
fn a_log_that_rots_before_it_is_replayed_is_refused() {
    let (disk, _) = crashed();
    let start = checkpoint(&disk);
    let opened = Database::open_on_with_progress(on(&disk), small(), &mut |progress| {
        // Not all of them can lie between two frames.
        for bytes in [0, 50, 100].iter().filter(|_| progress.replayed_bytes == 0) {
            let (name, offset) = place_of_lsn(&disk, start + progress.total_bytes / 2 + bytes);
            disk.flip_bit(&name, offset, 3);
        }
    });
    match opened {
        Err(Error::CorruptRedo { .. }) => {}
        other => panic!("{:?}", other.map(drop)),
    }
}

/// The block with the last records is lost. That is what a crash may leave of records that were not synced; so they are
/// missed only up to what the last checkpoint knew to be durable, and by pages that have them.
#[test]
fn a_log_that_ends_before_the_pages_or_the_checkpoint_is_refused() {
    let (disk, mut worker) = crashed();
    let db = open(&disk).unwrap();
    db.checkpoint().unwrap();
    work(&db, &mut worker, 30);
    let end = db.stats().redo.next_lsn;
    let start = checkpoint(&disk);
    for (from, what) in [(start, "all of it"), (start - 8192, "more than that")] {
        let cut = disk.kill();
        for block in from / 4096..=end / 4096 {
            let (name, offset) = place_of_lsn(&cut, block * 4096);
            write(&cut, &name, offset, &[0; 4096]);
        }
        // Written pages are newer than that, or nothing was written and the records are gone.
        match open(&cut).and_then(|db| db.check_tree(&db.tree("t")?).map(|_| db)) {
            Err(Error::CorruptRedo { .. }) => {}
            Err(error) => panic!("{what}: {error}"),
            Ok(db) => drop(check(&db, &db.tree("t").unwrap(), SEED, &[worker.done - 30], 30)),
        }
    }
}

/// All is lost from the checkpoint on, and the state blocks have noted that it was durable.
#[test]
fn a_log_that_ends_before_what_the_checkpoint_noted_is_refused() {
    let (disk, mut worker) = (MemoryDisk::default(), Worker::new(SEED, 0));
    let db = create(&disk);
    let found = std::thread::scope(|scope| {
        let (stop, db) = (std::sync::atomic::AtomicBool::new(false), &db);
        let stop = Arc::new(stop);
        let stopped = Arc::clone(&stop);
        scope.spawn(move || {
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                work(db, &mut worker, 10);
            }
        });
        // A checkpoint that has durable records behind it.
        let found = loop {
            db.checkpoint().unwrap();
            let found = disk.kill();
            if of_state(&found, 72) > checkpoint(&found) {
                break found;
            }
        };
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        found
    });
    for index in 0..4 {
        let name = format!("redo{index}.flifo");
        write(&found, &name, 4096, &vec![0; (1 << 20) - 4096]);
    }
    let error = open(&found).err().unwrap();
    assert!(error.to_string().contains("was once durable"), "{error}");
}

#[test]
fn without_its_log_a_crashed_database_is_refused_and_a_closed_one_opened() {
    for name in names(&crashed().0, "redo") {
        let (disk, _) = crashed();
        disk.remove(&name).unwrap();
        match open(&disk).err().unwrap() {
            Error::MissingRedo { path } => assert!(path.ends_with(&name)),
            error => panic!("{error}"),
        }
        let (disk, mut worker) = closed();
        disk.remove(&name).unwrap();
        let db = open(&disk).unwrap();
        check_all(&db, &worker);
        work(&db, &mut worker, 100);
        check_all(&open(&disk.power_cut()).unwrap(), &worker);
    }
}

#[test]
fn a_log_of_another_database_or_version_is_refused() {
    for make in [crashed, closed] {
        let (other, _) = make();
        let (disk, _) = make();
        put_back(&other, "redo1.flifo", &disk);
        assert!(matches!(open(&disk), Err(Error::MisplacedDataFile { .. })));
        for name in names(&other, "redo") {
            put_back(&other, &name, &disk);
        }
        assert!(matches!(open(&disk), Err(Error::MisplacedDataFile { .. })));
        for name in ["redo3.flifo", "redobuffer.flifo"] {
            let (disk, _) = make();
            disk.flip_bit(name, 8, 5);
            assert!(matches!(open(&disk), Err(Error::FormatVersion { .. })));
            let (disk, _) = make();
            put_back(&other, name, &disk);
            assert!(matches!(open(&disk), Err(Error::MisplacedDataFile { .. })));
        }
        let (disk, _) = make();
        put_back(&disk.kill(), "redo0.flifo", &disk);
        let first = read(&disk, "redo0.flifo", 0, 4096);
        write(&disk, "redo2.flifo", 0, &first);
        assert!(matches!(open(&disk), Err(Error::MisplacedDataFile { .. })));
    }
}

#[test]
fn the_log_gets_another_size_after_a_clean_close_only() {
    let larger = EngineConfig { redo_capacity_bytes: 8 << 20, ..small() };
    let (disk, mut worker) = crashed();
    let db = Database::open_on(on(&disk), larger.clone()).unwrap();
    assert_eq!(db.stats().redo.capacity_bytes, 4 << 20);
    check_all(&db, &worker);
    db.close().unwrap();
    for (config, bytes) in [(larger, 8 << 20), (small(), 4 << 20)] {
        let db = Database::open_on(on(&disk), config).unwrap();
        assert_eq!(db.stats().redo.capacity_bytes, bytes);
        work(&db, &mut worker, 300);
        check_all(&open(&disk.power_cut()).unwrap(), &worker);
        db.close().unwrap();
    }
}

/// Frames of earlier rounds, and of an earlier opening behind a hole, are no reason to make the log of a closed database anew.
#[test]
fn the_log_of_a_closed_database_stays_as_it_is_however_often_it_has_gone_round() {
    let (disk, mut worker) = crashed();
    let db = open(&disk).unwrap();
    while db.stats().redo.next_lsn < 10 << 20 {
        work(&db, &mut worker, 100);
    }
    let disk = disk.power_cut();
    open(&disk).unwrap().close().unwrap();
    let (name, offset) = place_of_lsn(&disk, checkpoint(&disk) + (2 << 20));
    let before = read(&disk, &name, offset / PAGE * PAGE, PAGE as usize);
    let db = open(&disk).unwrap();
    assert!(before == read(&disk, &name, offset / PAGE * PAGE, PAGE as usize), "it was made anew");
    check_all(&db, &worker);
}

/// Nothing of it is needed, so a block that cannot be read is no reason to refuse.
#[test]
fn the_log_of_a_closed_database_may_be_unreadable_behind_its_end() {
    let (disk, mut worker) = closed();
    let (name, offset) = place_of_lsn(&disk, checkpoint(&disk) + (2 << 20));
    disk.make_unreadable(&name, offset / PAGE * PAGE);
    let db = open(&disk).unwrap();
    check_all(&db, &worker);
    work(&db, &mut worker, 100);
    check_all(&open(&disk.power_cut()).unwrap(), &worker);
}

/// A block of the log's buffer cannot be read, whatever of it is needed: an error after a crash, and after a close it is made anew.
#[test]
fn a_logs_buffer_that_cannot_be_read_is_an_error_and_made_anew_after_a_close() {
    const BUFFER: &str = "redobuffer.flifo";
    for at in [0, PAGE, small().log_buffer_bytes] {
        let (disk, _) = crashed();
        disk.make_unreadable(BUFFER, at);
        let error = open(&disk).err().unwrap();
        assert!(matches!(&error, Error::Io { path, .. } if path.ends_with(BUFFER)), "{error}");
        let (disk, mut worker) = closed();
        disk.make_unreadable(BUFFER, at);
        assert!(Database::check_on(on(&disk.kill()), small(), &mut |_| {}).unwrap().is_sound());
        let db = open(&disk).unwrap();
        read(&disk, BUFFER, at, PAGE as usize);
        check_all(&db, &worker);
        work(&db, &mut worker, 100);
        check_all(&open(&disk.kill()).unwrap(), &worker);
    }
}

/// Each call fails while a log of another size is made, and the power fails then.
#[test]
fn a_change_of_the_logs_size_can_be_cut_off() {
    let larger = EngineConfig { redo_capacity_bytes: 8 << 20, ..small() };
    let (disk, worker) = closed();
    for nth in 1.. {
        let disk = disk.kill();
        disk.fail_from(None, nth, Fault::Io);
        let done = Database::open_on(on(&disk), larger.clone()).is_ok();
        if done || nth % 5 == 0 {
            check_all(&open(&disk.power_cut()).unwrap(), &worker);
        }
        if done {
            assert!(nth > 10);
            break;
        }
    }
}

/// The last syncs of a close fail; what can be read says that the log is not needed, and the log gets another size.
#[test]
fn a_log_is_replaced_only_when_the_clean_state_is_durable() {
    let larger = EngineConfig { redo_capacity_bytes: 8 << 20, ..small() };
    let mut clean = 0;
    for seed in 0..3 {
        for nth in 4..9 {
            let (disk, mut worker) = (MemoryDisk::with_power_cuts(seed), Worker::new(SEED, 0));
            let db = create(&disk);
            work(&db, &mut worker, 20);
            disk.fail_nth(Some(DiskCall::Sync), nth, Fault::Io);
            let closed = db.close();
            disk.heal();
            drop(db);
            let db = Database::open_on(on(&disk), larger.clone()).unwrap();
            clean += u64::from(closed.is_err() && db.stats().redo.capacity_bytes == 8 << 20);
            check_all(&open(&disk.power_cut()).unwrap(), &worker);
        }
    }
    assert!(clean > 0, "no close failed so late");
}
