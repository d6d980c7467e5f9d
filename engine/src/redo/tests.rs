use std::sync::Arc;

use super::*;
use crate::disk::{AlignedBuffer, Disk, DiskCall, Fault, MemoryDisk};

const CAPACITY: u64 = 1 << 20;
const PAYLOAD_MAX: usize = 1000;

/// A log for the tests of the modules above: new files, from the tablespace's checkpoint.
pub(crate) fn log_on(disk: &MemoryDisk, space: Tablespace) -> Arc<Log> {
    // An interpreter makes the ring word by word.
    let buffer_bytes = if cfg!(miri) { 64 << 10 } else { 1 << 20 };
    Log::create(disk, &Arc::new(space), 8 << 20, buffer_bytes).unwrap()
}

fn space(disk: &MemoryDisk, new: bool) -> Arc<Tablespace> {
    let space = match new {
        true => Tablespace::create(disk, 1, 4096).unwrap(),
        false => Tablespace::open(disk).unwrap(),
    };
    if new {
        space.grow(1).unwrap();
        space.set_checkpoint(Checkpoint { lsn: LSN_START.0, epoch: space.epoch() });
        space.mark_clean().unwrap();
    }
    Arc::new(space)
}

fn create(disk: &MemoryDisk) -> Arc<Log> {
    Log::create(disk, &space(disk, true), CAPACITY, 64 << 10).unwrap()
}

/// Opens what is left of a log, and reads it.
fn reopen(disk: &MemoryDisk) -> (Arc<Log>, Vec<Vec<u8>>) {
    let space = space(disk, false);
    let files = Arc::new(LogFiles::open(disk, space.database()).unwrap());
    let buffer = LogBuffer::open(disk, space.database()).unwrap();
    let mut frames = Vec::new();
    let mut reader = Reader::new(&files, space.checkpoint(), space.epoch(), PAYLOAD_MAX);
    let mut each = |_, payload: &[u8]| {
        frames.push(payload.to_vec());
        Ok(())
    };
    while reader.next(&mut each).unwrap() {}
    reader.take_over(&buffer).unwrap();
    while reader.next(&mut each).unwrap() {}
    assert!(reader.durable_behind().unwrap() <= reader.end(), "a crash passes for a rotten log");
    let end = reader.end();
    (Log::new(&space, files, buffer, end), frames)
}

fn append(log: &Log, payload: &[u8]) -> Result<Lsn> {
    Ok(log.promise(payload.len() + 100, &Waiter::background())?.append(payload))
}

/// Appends many; the end of the last.
fn append_all(log: &Log, numbers: std::ops::Range<u64>) -> Option<Lsn> {
    numbers.fold(None, |_, n| Some(append(log, &payload(n)).unwrap()))
}

fn payload(number: u64) -> Vec<u8> {
    let mut payload = number.to_le_bytes().to_vec();
    payload.resize(8 + (number * 37 % 600) as usize, number as u8);
    payload
}

#[test]
fn a_block_is_written_whole_when_it_is_begun_and_then_what_is_new() {
    let disk = MemoryDisk::default();
    let log = create(&disk);
    let (mut from, mut begun) = (log.next().0, 0);
    for n in 0..20 {
        let before = log.stats().written_bytes;
        let to = append(&log, &payload(n)).unwrap();
        log.write_out(&Waiter::background()).unwrap();
        let written = log.stats().written_bytes - before;
        let begins = from.div_ceil(BLOCK_BYTES) < to.0.div_ceil(BLOCK_BYTES);
        begun += u64::from(begins);
        let end = if begins { to.0.next_multiple_of(BLOCK_BYTES) } else { to.0 };
        assert_eq!(written, end - from, "from {from} to {to:?}");
        from = to.0;
    }
    assert!(begun >= 2, "{begun} blocks begun");
    let (block, mut bytes) = (from / BLOCK_BYTES * BLOCK_BYTES, vec![0xee; BLOCK_BYTES as usize]);
    disk.open_cached("redo0.flifo").unwrap().read_at(&mut bytes, BLOCK_BYTES + block).unwrap();
    assert!(bytes[(from - block) as usize..].iter().all(|&byte| byte == 0), "zeros behind the end");
    drop(log);
    assert_eq!(reopen(&disk).1.len(), 20);
}

#[test]
fn what_is_durable_is_read_again_after_a_power_cut() {
    for seed in 0..50 {
        let disk = MemoryDisk::with_power_cuts(seed);
        let log = create(&disk);
        let durable = append_all(&log, 0..seed * 3);
        if let Some(lsn) = durable {
            log.make_durable(lsn, Durability::Synced, &Waiter::background()).unwrap();
        }
        for n in seed * 3..seed * 3 + 20 {
            let lsn = append(&log, &payload(n)).unwrap();
            log.make_durable(lsn, Durability::Written, &Waiter::background()).unwrap();
        }
        let (_, frames) = reopen(&disk.power_cut());
        assert!(frames.len() as u64 >= seed * 3, "{} of {}", frames.len(), seed * 3);
        assert!(frames.iter().enumerate().all(|(n, frame)| *frame == payload(n as u64)));
    }
}

/// Nothing is written to the files but what makes room, and all is there when the process is gone.
#[test]
fn what_is_complete_survives_the_process() {
    for count in [1, 20, 150, 1000] {
        let disk = MemoryDisk::default();
        let log = create(&disk);
        let end = append_all(&log, 0..count).unwrap();
        log.make_durable(end, Durability::Written, &Waiter::background()).unwrap();
        assert_eq!((log.stats().writes > 0, log.stats().syncs), (count > 100, 0));
        let killed = disk.kill();
        // The second time they are in the files, and nothing is in the buffer.
        for _ in 0..2 {
            let (log, frames) = reopen(&killed);
            assert_eq!((frames.len() as u64, log.next()), (count, end));
            assert!(frames.iter().zip(0..).all(|(frame, n)| *frame == payload(n)));
        }
        let (log, _) = reopen(&killed);
        append_all(&log, count..count + 50).unwrap();
        assert_eq!(reopen(&killed.kill()).1.len() as u64, count + 50);
    }
}

/// Data files of an older copy: the log's files have all from their checkpoint on, and what follows in the buffer, which was
/// acknowledged, is more than there is room for behind that.
#[test]
fn what_the_buffer_has_beyond_the_room_of_an_older_checkpoint_is_refused() {
    let disk = MemoryDisk::default();
    let log = create(&disk);
    let (older, room_end) = (log.space().checkpoint(), LSN_START.0 + CAPACITY);
    let mut frames = 0;
    while log.next().0 + 1000 < room_end {
        let end = append(&log, &payload(frames)).unwrap();
        log.write_out(&Waiter::background()).unwrap();
        if frames % 500 == 0 {
            log.make_checkpoint(end, false).unwrap();
        }
        frames += 1;
    }
    let (in_files, newer) = (log.next(), log.space().checkpoint());
    assert!(newer.lsn > older.lsn);
    while log.next().0 <= room_end {
        frames += 1;
        let end = append(&log, &payload(frames)).unwrap();
        log.make_durable(end, Durability::Written, &Waiter::background()).unwrap();
    }
    let end = log.next();
    let killed = disk.kill();
    let (database, epoch) = (log.space().database(), log.space().epoch());
    let (files, buffer) =
        (LogFiles::open(&killed, database).unwrap(), LogBuffer::open(&killed, database).unwrap());
    let read_from = |start| {
        let mut reader = Reader::new(&files, start, epoch, PAYLOAD_MAX);
        while reader.next(|_, _| Ok(())).unwrap() {}
        assert_eq!(reader.end(), in_files);
        reader.take_over(&buffer).map(|()| {
            while reader.next(|_, _| Ok(())).unwrap() {}
            reader.end()
        })
    };
    let refused = read_from(older);
    assert!(matches!(refused, Err(Error::CorruptRedo { .. })), "{refused:?}");
    assert_eq!(read_from(newer).unwrap(), end);
}

/// A seal ends waits for a checkpoint, since there will be none any more.
#[test]
fn nobody_waits_for_room_in_a_log_that_is_sealed() {
    let disk = MemoryDisk::default();
    let log = create(&disk);
    let (tell_refused, refused) = std::sync::mpsc::channel();
    let of_thread = Arc::clone(&log);
    std::thread::spawn(move || {
        let error = (0..).find_map(|n| append(&of_thread, &payload(n)).err());
        tell_refused.send(error).unwrap();
    });
    while log.stats().hard_stops == 0 {
        std::thread::yield_now();
    }
    log.seal(&Waiter::background());
    let error = refused.recv_timeout(Duration::from_secs(60));
    assert!(matches!(error, Ok(Some(Error::Closed))), "{error:?}");
}

/// As on a file system that has no shared mappings.
#[test]
fn without_a_mapping_a_commit_is_written() {
    let disk = MemoryDisk::default();
    disk.fail_nth(Some(DiskCall::Map), 1, Fault::Unsupported);
    let log = create(&disk);
    let end = append_all(&log, 0..20).unwrap();
    assert_eq!(log.stats().writes, 0);
    log.make_durable(end, Durability::Written, &Waiter::background()).unwrap();
    assert_eq!((log.stats().writes, log.stats().syncs), (1, 0));
    let (disk, mapped) = (disk.kill(), disk.kill());
    assert_eq!(reopen(&disk).1.len(), 20);
    // What a process left in a mapped buffer is found where it cannot be mapped.
    let (log, _) = reopen(&mapped);
    append_all(&log, 20..30).unwrap();
    let moved = mapped.kill();
    moved.fail_nth(Some(DiskCall::Map), 1, Fault::Unsupported);
    assert_eq!(reopen(&moved).1.len(), 30);
}

/// The process is killed while threads append, commit, and empty the buffer.
#[test]
fn what_was_acknowledged_survives_a_kill_at_any_moment() {
    for round in 0..20 {
        let disk = MemoryDisk::default();
        let log = create(&disk);
        let (acknowledged, stopped) = (AtomicU64::new(0), AtomicBool::new(false));
        let (killed, least) = std::thread::scope(|scope| {
            let (log, acknowledged, stopped) = (&log, &acknowledged, &stopped);
            for thread in 0..3 {
                scope.spawn(move || {
                    let mut n = thread;
                    while !stopped.load(Ordering::Relaxed) && log.checkpoint_age_share() < 0.9 {
                        let lsn = append(log, &payload(n)).unwrap();
                        log.make_durable(lsn, Durability::Written, &Waiter::background()).unwrap();
                        acknowledged.fetch_max(lsn.0, Ordering::SeqCst);
                        n += 3;
                    }
                });
            }
            while log.next().0 < LSN_START.0 + round * 40_000 {
                std::thread::yield_now();
            }
            let least = acknowledged.load(Ordering::SeqCst);
            let killed = disk.kill();
            stopped.store(true, Ordering::Relaxed);
            (killed, least)
        });
        let (found, frames) = reopen(&killed);
        assert!(found.next().0 >= least, "{:?} of {least} in round {round}", found.next());
        let mut next = [0, 1, 2];
        for frame in frames {
            let n = u64::from_le_bytes(frame[..8].try_into().unwrap());
            assert_eq!((n, &frame), (next[(n % 3) as usize], &payload(n)));
            next[(n % 3) as usize] += 3;
        }
    }
}

/// Crash after crash, each with writes that were not synced: what was synced is always a prefix of what is found, and
/// nothing that a crash threw away comes back.
#[test]
fn what_one_crash_threw_away_never_comes_back() {
    for seed in 0..30 {
        let mut disk = MemoryDisk::with_power_cuts(seed);
        drop(create(&disk));
        let mut expected: Vec<Vec<u8>> = Vec::new();
        for round in 0..6_u64 {
            let (log, frames) = reopen(&disk);
            assert!(frames.len() >= expected.len());
            assert_eq!(frames[..expected.len()], expected);
            let more = &frames[expected.len()..];
            assert!(more.iter().all(|frame| u64::from(frame[0]) + 1 == round), "seed {seed}, round {round}");
            expected = frames;
            // Frames of one size, so that new ones end where old ones begin; every other time a sector each, which a
            // power cut leaves or takes by itself.
            for n in 0..40 {
                let mut frame = [round as u8, n as u8, 7].repeat(50);
                frame.resize(if seed % 2 == 0 { 512 - 16 } else { 150 }, 7);
                let lsn = append(&log, &frame).unwrap();
                let durability = if n < 10 { Durability::Synced } else { Durability::Written };
                log.make_durable(lsn, durability, &Waiter::background()).unwrap();
                if n < 10 {
                    expected.push(frame);
                }
            }
            let cut = disk.power_cut();
            drop(log);
            disk = cut;
        }
    }
}

#[test]
fn the_files_are_used_round_and_round() {
    let disk = MemoryDisk::default();
    let log = create(&disk);
    for n in 0..20_000 {
        let lsn = append(&log, &payload(n)).unwrap();
        if n % 100 == 0 {
            log.make_checkpoint(lsn, false).unwrap();
        }
    }
    assert!(log.next().0 > 5 * CAPACITY);
    log.make_durable(log.next(), Durability::Synced, &Waiter::background()).unwrap();
    drop(log);
    let (log, frames) = reopen(&disk);
    let first = 20_000 - frames.len() as u64;
    assert_eq!(first, 19_901);
    assert!((first..20_000).zip(&frames).all(|(n, frame)| *frame == payload(n)));
    append(&log, b"more").unwrap();
    log.make_durable(log.next(), Durability::Synced, &Waiter::background()).unwrap();
    drop(log);
    assert_eq!(reopen(&disk).1.len(), frames.len() + 1);
}

#[test]
fn a_full_log_waits_for_a_checkpoint() {
    let disk = MemoryDisk::default();
    let log = create(&disk);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| append_all(&log, 0..10_000).unwrap());
        while !writer.is_finished() {
            let durable = log.durable();
            log.make_durable(log.next(), Durability::Synced, &Waiter::background()).unwrap();
            if log.stats().hard_stops > 0 {
                log.make_checkpoint(durable.max(log.checkpoint()), false).unwrap();
            }
        }
        assert!(writer.join().unwrap().0 > 2 * CAPACITY);
    });
    assert!(log.stats().hard_stops > 0);
}

#[test]
fn many_commit_together() {
    let disk = MemoryDisk::default();
    let log = create(&disk);
    disk.set_latency(std::time::Duration::ZERO, std::time::Duration::from_millis(1));
    let commits = 16 * 20;
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let log = &log;
            scope.spawn(move || {
                for n in 0..20 {
                    let lsn = append(log, &payload(thread * 1000 + n)).unwrap();
                    log.make_durable(lsn, Durability::Synced, &Waiter::background()).unwrap();
                    assert!(log.durable() >= lsn);
                }
            });
        }
    });
    let stats = log.stats();
    assert!(stats.syncs < commits / 2, "{} syncs for {commits} commits", stats.syncs);
    drop(log);
    assert_eq!(reopen(&disk).1.len() as u64, commits);
}

#[test]
fn a_failed_write_or_sync_is_final() {
    for call in [DiskCall::Write, DiskCall::Sync] {
        let disk = MemoryDisk::default();
        let log = create(&disk);
        let lsn = append(&log, b"first").unwrap();
        disk.fail_nth(Some(call), 1, Fault::Io);
        assert!(log.make_durable(lsn, Durability::Synced, &Waiter::background()).is_err());
        assert!(matches!(
            log.make_durable(lsn, Durability::Synced, &Waiter::background()),
            Err(Error::Stopped { .. })
        ));
        assert!(matches!(append(&log, b"second"), Err(Error::Stopped { .. })));
        assert!(matches!(log.make_checkpoint(lsn, true), Err(Error::Stopped { .. })));
    }
}

#[test]
fn files_that_are_not_as_they_should_be_are_named() {
    let disk = MemoryDisk::default();
    let log = create(&disk);
    let database = log.space().database();
    drop(log);
    let error = |disk: &MemoryDisk| LogFiles::open(disk, database).err().expect("it was opened");
    assert!(LogFiles::open(&disk, database).is_ok());
    for (offset, expected) in [(0, "does not begin"), (8, "format version"), (40, "checksum of its header")] {
        disk.flip_bit("redo2.flifo", offset, 1);
        let found = error(&disk).to_string();
        assert!(found.contains(expected) && found.contains("redo2.flifo"), "{found}");
        disk.flip_bit("redo2.flifo", offset, 1);
    }
    let other = LogFiles::open(&disk, uuid::Uuid::from_u128(5)).err().unwrap();
    assert!(other.to_string().contains("another database"), "{other}");
    disk.remove("redo1.flifo").unwrap();
    assert!(matches!(error(&disk), Error::MissingRedo { .. }));
}

/// The last block is written whole: it must not lie over what recovery begins with.
#[test]
fn a_full_log_is_read_from_its_checkpoint() {
    for checkpoint_at in [1, 5, 30] {
        let disk = MemoryDisk::default();
        let log = create(&disk);
        let lsn = append_all(&log, 0..checkpoint_at).unwrap();
        assert_ne!(lsn.0 % BLOCK_BYTES, 0);
        log.make_checkpoint(lsn, false).unwrap();
        let mut frames = 0;
        while log.ring.try_promise(frame_bytes(100), log.file_end()).is_ok() {
            log.ring.append(&[7; 100], frame_bytes(100), log.durable());
            log.make_durable(log.next(), Durability::Synced, &Waiter::background()).unwrap();
            frames += 1;
        }
        assert!(log.checkpoint_age_share() > 0.99);
        drop(log);
        assert_eq!(reopen(&disk).1.len(), frames);
    }
}

/// A late caller cannot make the database unclean after its last clean state.
#[test]
fn what_comes_after_a_close_leaves_it_clean() {
    let disk = MemoryDisk::default();
    let log = create(&disk);
    let end = append_all(&log, 0..10).unwrap();
    log.seal(&Waiter::background());
    log.make_checkpoint(end, true).unwrap();
    assert!(matches!(append(&log, &payload(10)), Err(Error::Closed)));
    assert!(!log.ring.has_promises());
    // A load's pages are written without a promise.
    let page = AlignedBuffer::new(4096);
    assert!(matches!(log.space().write(0, page.bytes()), Err(Error::Closed)));
    assert!(matches!(log.space().mark_checkpoint(Checkpoint { lsn: end.0, epoch: 1 }), Err(Error::Closed)));
    // Closing again does nothing.
    log.make_checkpoint(end, true).unwrap();
    assert!(space(&disk.kill(), false).was_clean());
}

/// Two make checkpoints at the same time, and the one that began first comes last.
#[test]
fn a_checkpoint_never_goes_back() {
    let disk = MemoryDisk::default();
    let log = create(&disk);
    let first = append_all(&log, 0..10).unwrap();
    let second = append_all(&log, 10..30).unwrap();
    log.make_checkpoint(second, false).unwrap();
    log.make_checkpoint(first, false).unwrap();
    assert_eq!(log.checkpoint(), second);
    assert_eq!(log.space().checkpoint().lsn, second.0);
    log.make_checkpoint(second, true).unwrap();
    log.make_checkpoint(first, false).unwrap();
    drop(log);
    let space = space(&disk, false);
    assert_eq!((space.checkpoint().lsn, space.was_clean()), (second.0, true));
}

#[test]
fn a_rotten_block_in_the_middle_is_told_from_the_end() {
    let disk = MemoryDisk::default();
    let log = create(&disk);
    for n in 0..400 {
        let lsn = append(&log, &payload(n)).unwrap();
        if n % 7 == 0 {
            log.make_durable(lsn, Durability::Synced, &Waiter::background()).unwrap();
        }
    }
    let durable = log.durable();
    drop(log);
    let space = space(&disk, false);
    for at in (0..durable.0 - 20_000).step_by(9_000) {
        disk.flip_bit("redo0.flifo", 4096 + LSN_START.0 + at, 1);
        let files = LogFiles::open(&disk, space.database()).unwrap();
        let mut reader = Reader::new(&files, space.checkpoint(), space.epoch(), PAYLOAD_MAX);
        while reader.next(|_, _| Ok(())).unwrap() {}
        // The bit may lie between two frames.
        assert!(reader.end() >= durable || reader.durable_behind().unwrap() > reader.end(), "{at}");
        disk.flip_bit("redo0.flifo", 4096 + LSN_START.0 + at, 1);
    }
}

/// Behind the end of a closed log: what is of the round before, or lies behind a hole that a crash left, does not count. What is of
/// the last epoch or a later one does.
#[test]
fn only_what_could_pass_for_a_later_frame_follows_a_closed_log() {
    let disk = MemoryDisk::default();
    let files = LogFiles::create(&disk, uuid::Uuid::from_u128(42), CAPACITY).unwrap();
    let (end, epoch) = (3 * CAPACITY + 8 * 77, 5);
    let is_followed = || {
        let start = Checkpoint { lsn: end, epoch };
        Reader::new(&files, start, epoch + 1, PAYLOAD_MAX).is_followed().unwrap()
    };
    let put = |lsn: u64, epoch: u32| {
        let mut bytes = frame::header(lsn, epoch, lsn, &[7; 104]).map(u64::to_le_bytes).concat();
        bytes.extend([7; 104]);
        files.write(Lsn(lsn), &bytes).unwrap();
    };
    assert!(!is_followed());
    put(end - CAPACITY + 8000, epoch);
    put(end + 16_000, epoch - 1);
    assert!(!is_followed());
    for (lsn, epoch) in [(end + 8, epoch), (end + CAPACITY / 16, epoch + 7), (end + CAPACITY - 160, epoch)] {
        put(lsn, epoch);
        assert!(is_followed(), "{lsn}");
        files.write(Lsn(lsn), &[0; 120]).unwrap();
        assert!(!is_followed(), "{lsn}");
    }
    // Nobody reads gigabytes.
    put(end + CAPACITY / 2, epoch + 7);
    assert!(!is_followed());
    // All of it looks as if a frame began there: it is not looked at to the end.
    files.write(Lsn(end), &(PAYLOAD_MAX as u32).to_le_bytes().repeat(CAPACITY as usize / 4)).unwrap();
    assert!(is_followed());
}
