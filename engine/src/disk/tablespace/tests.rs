use std::sync::mpsc::{Receiver, Sender, channel};

use super::super::block::Block;
use super::super::{Disk, DiskCall, Fault, FileDisk, MemoryDisk, SharedWords};
use super::*;

const PAGE: usize = 4096;

fn page_of(byte: u8) -> Box<Block> {
    let mut block = Block::zeroed();
    block.bytes_mut().fill(byte);
    block
}

fn created(disk: &MemoryDisk, files: u32) -> Tablespace {
    let space = Tablespace::create(disk, files, PAGE).unwrap();
    space.grow(1).unwrap();
    space.mark_clean().unwrap();
    space
}

fn read(space: &Tablespace, page: u64) -> u8 {
    let mut buf = page_of(0xee);
    space.read(page, buf.bytes_mut()).unwrap();
    let byte = buf.bytes()[0];
    assert_eq!(buf.bytes(), page_of(byte).bytes());
    byte
}

#[test]
fn pages_are_striped_in_units_of_64() {
    let disk = MemoryDisk::default();
    let space = created(&disk, 3);
    space.grow(400).unwrap();
    for (page, file, offset_pages) in
        [(0, 0, 0), (63, 0, 63), (64, 1, 0), (128, 2, 0), (191, 2, 63), (192, 0, 64), (399, 0, 64 * 2 + 15)]
    {
        assert_eq!(space.place(page).unwrap(), (file, HEADER_AREA_BYTES + offset_pages * PAGE as u64));
    }
}

#[test]
fn every_page_has_a_place_of_its_own() {
    let disk = MemoryDisk::default();
    let space = created(&disk, 4);
    space.grow(600).unwrap();
    for page in 0..600 {
        space.write(page, page_of((page % 251) as u8).bytes()).unwrap();
    }
    space.mark_clean().unwrap();
    space.close();
    let space = Tablespace::open(&disk).unwrap();
    for page in 0..600 {
        assert_eq!(read(&space, page), (page % 251) as u8);
    }
}

#[test]
fn the_first_write_marks_it_open_and_reads_do_not() {
    let disk = MemoryDisk::default();
    let space = created(&disk, 2);
    read(&space, 5);
    space.close();
    let space = Tablespace::open(&disk).unwrap();
    space.write(5, page_of(1).bytes()).unwrap();
    space.close();
    assert!(!Tablespace::open(&disk).unwrap().was_clean());
}

/// A slow creation may see the checkpointer at work.
#[test]
fn a_checkpoint_of_a_new_one_leaves_it_new() {
    let disk = MemoryDisk::default();
    let space = Tablespace::create(&disk, 2, PAGE).unwrap();
    space.grow(1).unwrap();
    space.mark_checkpoint(Checkpoint { lsn: 8192, epoch: 1 }).unwrap();
    assert!(matches!(Tablespace::open(&disk.kill()), Err(Error::HalfCreated { .. })));
    space.mark_clean().unwrap();
    assert!(Tablespace::open(&disk.kill()).unwrap().was_clean());
    space.write(0, page_of(1).bytes()).unwrap();
    space.mark_checkpoint(Checkpoint { lsn: 12288, epoch: 1 }).unwrap();
    assert!(!Tablespace::open(&disk.kill()).unwrap().was_clean());
}

#[test]
fn clean_pages_survive_every_power_cut() {
    for seed in 0..30 {
        let disk = MemoryDisk::with_power_cuts(seed);
        let space = created(&disk, 3);
        for page in 0..200 {
            space.grow(page + 1).unwrap();
            space.write(page, page_of(page as u8).bytes()).unwrap();
        }
        assert!(!Tablespace::open(&disk.power_cut()).unwrap().was_clean());
        space.mark_clean().unwrap();
        let after = Tablespace::open(&disk.power_cut()).unwrap();
        assert!((0..200).all(|page| read(&after, page) == page as u8));
    }
}

#[test]
fn pages_written_before_a_checkpoint_survive_every_power_cut() {
    for seed in 0..10 {
        let disk = MemoryDisk::with_power_cuts(seed);
        let space = created(&disk, 3);
        for round in 1..4 {
            (0..200).for_each(|page| {
                space.grow(page + 1).unwrap();
                space.write(page, page_of(round).bytes()).unwrap();
            });
            let checkpoint = Checkpoint { lsn: 4096 * u64::from(round), epoch: 1 };
            space.mark_checkpoint(checkpoint).unwrap();
            let after = Tablespace::open(&disk.power_cut()).unwrap();
            assert_eq!((after.checkpoint(), after.was_clean()), (checkpoint, false));
            assert!((0..200).all(|page| read(&after, page) == round));
        }
    }
}

/// What a killed process has written can be read by the next one, which must not take it for durable.
#[test]
fn a_checkpoint_syncs_what_was_written_before_a_kill() {
    for seed in 0..10 {
        let disk = MemoryDisk::with_power_cuts(seed);
        let space = created(&disk, 3);
        (0..150).for_each(|page| {
            space.grow(page + 1).unwrap();
            space.write(page, page_of(7).bytes()).unwrap();
        });
        let killed = disk.kill();
        let space = Tablespace::open(&killed).unwrap();
        assert!((0..150).all(|page| read(&space, page) == 7));
        space.mark_checkpoint(Checkpoint { lsn: 8192, epoch: 1 }).unwrap();
        let after = Tablespace::open(&killed.power_cut()).unwrap();
        assert!((0..150).all(|page| read(&after, page) == 7));
    }
}

#[test]
fn a_failed_sync_stops_it_for_good() {
    let disk = MemoryDisk::default();
    let space = created(&disk, 2);
    space.write(70, page_of(1).bytes()).unwrap();
    disk.fail_nth(Some(DiskCall::Sync), 1, Fault::Io);
    assert!(matches!(space.mark_clean(), Err(Error::Io { .. })));
    assert!(matches!(space.mark_clean(), Err(Error::Stopped { .. })));
    assert!(matches!(space.write(70, page_of(1).bytes()), Err(Error::Stopped { .. })));
    assert!(matches!(space.read(70, page_of(1).bytes_mut()), Err(Error::Stopped { .. })));
    space.close();
    assert!(!Tablespace::open(&disk).unwrap().was_clean());
}

/// A file whose syncs report that they have begun, and then wait for the test's signal.
struct SlowSync {
    file: Box<dyn DiskFile>,
    begun: Sender<()>,
    go_on: Mutex<Receiver<()>>,
}

impl DiskFile for SlowSync {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.begun.send(()).unwrap();
        lock(&self.go_on).recv().unwrap();
        self.file.sync()
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.file.allocate(bytes)
    }

    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }

    fn map(&self, offset: u64, words: usize) -> io::Result<SharedWords> {
        self.file.map(offset, words)
    }
}

/// Returns when this thread of the process sleeps.
fn wait_until_asleep(thread: &AtomicU64) {
    let is_asleep = || {
        let id = thread.load(Ordering::Acquire);
        let stat = std::fs::read_to_string(format!("/proc/self/task/{id}/stat")).unwrap_or_default();
        // Behind the name, which is in parentheses.
        stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('S'))
    };
    while !is_asleep() {
        std::thread::yield_now();
    }
}

/// A thread that waits behind a sync that then fails does not take that sync's data for durable.
#[test]
fn who_waited_behind_a_failed_sync_is_stopped_too() {
    let (before, after) = (Checkpoint { lsn: 8192, epoch: 1 }, Checkpoint { lsn: 12288, epoch: 1 });
    let calls: [fn(&Tablespace, Checkpoint) -> Result<()>; 4] = [
        |space, _| space.sync(),
        |space, checkpoint| space.mark_checkpoint(checkpoint),
        |space, _| space.mark_clean(),
        |space, _| space.end_writing(),
    ];
    for call in calls {
        let disk = MemoryDisk::with_power_cuts(1);
        let space = created(&disk, 2);
        space.mark_checkpoint(before).unwrap();
        space.write(70, page_of(1).bytes()).unwrap();
        let ((tell_begun, begun), (go_on, told)) = (channel(), channel());
        {
            let mut files = space.files.write().unwrap();
            let data = &mut files.as_mut().unwrap().data[1];
            let nothing = disk.open("data0.flifo").unwrap();
            let file = std::mem::replace(&mut data.file, nothing);
            data.file = Box::new(SlowSync { file, begun: tell_begun, go_on: Mutex::new(told) });
        }
        disk.fail_nth(Some(DiskCall::Sync), 1, Fault::Io);
        let thread = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| space.sync());
            begun.recv().unwrap();
            let second = scope.spawn(|| {
                thread.store(rustix::thread::gettid().as_raw_nonzero().get() as u64, Ordering::Release);
                call(&space, after)
            });
            wait_until_asleep(&thread);
            go_on.send(()).unwrap();
            assert!(matches!(first.join().unwrap(), Err(Error::Io { .. })));
            assert!(matches!(second.join().unwrap(), Err(Error::Stopped { .. })));
        });
        let next_sync = space.next_sync();
        assert!(!space.is_synced(next_sync - 1));
        let found = Tablespace::open(&disk.power_cut()).unwrap();
        assert_eq!((found.checkpoint(), found.was_clean()), (before, false));
    }
}

#[test]
fn a_failed_write_can_be_tried_again() {
    let disk = MemoryDisk::default();
    let space = created(&disk, 2);
    // The first write is the state's, the third the page's.
    for nth in 1..=3 {
        disk.fail_nth(Some(DiskCall::Write), nth, Fault::Io);
        let _ = space.write(70, page_of(1).bytes());
    }
    disk.heal();
    space.write(70, page_of(9).bytes()).unwrap();
    space.mark_clean().unwrap();
    space.close();
    assert_eq!(read(&Tablespace::open(&disk).unwrap(), 70), 9);
}

/// The first write fails when one of the two blocks says *open* already.
#[test]
fn a_first_write_that_failed_half_way_leaves_it_clean_once_it_is_marked_so() {
    let calls: [fn(&Tablespace) -> Result<()>; 2] = [|space| space.mark_clean(), |space| space.end_writing()];
    for call in calls {
        for nth in [1, 2] {
            let disk = MemoryDisk::default();
            created(&disk, 2).close();
            let space = Tablespace::open(&disk).unwrap();
            disk.fail_nth(Some(DiskCall::Write), nth, Fault::Io);
            space.write(70, page_of(1).bytes()).unwrap_err();
            assert_eq!(Tablespace::open(&disk.kill()).unwrap().was_clean(), nth == 1);
            call(&space).unwrap();
            space.close();
            assert!(Tablespace::open(&disk).unwrap().was_clean(), "write {nth}");
        }
    }
}

#[test]
fn a_full_disk_says_how_much_is_needed_and_harms_nothing() {
    let disk = MemoryDisk::default();
    let space = created(&disk, 2);
    space.write(3, page_of(3).bytes()).unwrap();
    disk.fail_from(Some(DiskCall::Allocate), 2, Fault::DiskFull);
    let pages = space.pages();
    match space.grow(pages + 1) {
        Err(Error::DiskFull { bytes_needed, .. }) => assert_eq!(bytes_needed, 128 * PAGE as u64),
        other => panic!("{other:?}"),
    }
    assert_eq!(space.pages(), pages);
    space.mark_clean().unwrap();
    space.close();
    assert_eq!(read(&Tablespace::open(&disk).unwrap(), 3), 3);
}

#[test]
fn a_page_beyond_the_end_is_an_error() {
    let disk = MemoryDisk::default();
    let space = created(&disk, 2);
    for page in [space.pages(), u64::MAX] {
        let error = space.read(page, page_of(0).bytes_mut()).unwrap_err();
        assert!(matches!(error, Error::CorruptPage { .. }), "{error}");
    }
}

#[test]
fn creation_that_fails_leaves_nothing_behind() {
    for nth in 1.. {
        let disk = MemoryDisk::default();
        disk.fail_nth(None, nth, Fault::DiskFull);
        let failed = Tablespace::create(&disk, 3, PAGE).is_err();
        disk.heal();
        if !failed {
            break;
        }
        assert!(!Tablespace::exists(&disk).unwrap(), "call {nth}");
        Tablespace::create(&disk, 3, PAGE).unwrap();
    }
}

#[test]
fn creation_cut_short_by_power_is_never_a_database() {
    for seed in 0..10 {
        for nth in 1..30 {
            let disk = MemoryDisk::with_power_cuts(seed);
            disk.fail_from(None, nth, Fault::Io);
            // Its removals fail too.
            let _ = Tablespace::create(&disk, 3, PAGE);
            match Tablespace::open(&disk.power_cut()) {
                Err(Error::HalfCreated { .. } | Error::NoDatabase { .. }) => {}
                other => panic!("seed {seed}, call {nth}: {:?}", other.err()),
            }
        }
    }
}

#[test]
fn one_handle_at_a_time() {
    let disk = MemoryDisk::default();
    let space = created(&disk, 2);
    assert!(matches!(Tablespace::open(&disk), Err(Error::InUse { .. })));
    space.close();
    assert!(matches!(space.sync(), Err(Error::Closed)));
    Tablespace::open(&disk).unwrap();
}

/// The kernel has writes of a process that is gone: its lock is free, and they keep a data file open. Here another handle does.
#[test]
fn who_opens_it_waits_for_the_last_writes_of_a_process_that_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let disk = FileDisk::open(directory.path(), false).unwrap();
    let space = Tablespace::create(&disk, 2, PAGE).unwrap();
    let data1 = || disk.open("data1.flifo").unwrap();
    assert_eq!(data1().lock().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    space.grow(1).unwrap();
    space.mark_clean().unwrap();
    space.close();
    let writing = data1();
    writing.lock().unwrap();
    match Tablespace::open(&disk) {
        Err(Error::InUse { path }) => assert!(path.ends_with("data1.flifo"), "{path}"),
        other => panic!("{:?}", other.err()),
    }
    let (tell_begun, begun) = channel();
    std::thread::scope(|scope| {
        let opening = scope.spawn(|| {
            tell_begun.send(()).unwrap();
            Tablespace::open(&disk)
        });
        begun.recv().unwrap();
        drop(writing);
        let space = opening.join().unwrap().unwrap();
        assert_eq!(data1().lock().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(space);
    });
    data1().lock().unwrap();
}

/// What an opening writes can be read by the next one: the number of the last one that could is as far as it goes.
#[test]
fn no_opening_writes_a_greater_epoch_than_can_be_read() {
    let disk = MemoryDisk::default();
    let space = created(&disk, 1);
    let database = space.database();
    drop(space);
    let file = disk.open("data0.flifo").unwrap();
    let (mut blocks, state) = StateBlocks::open(&*file, database).unwrap().unwrap();
    blocks.write(&*file, &State { epoch: EPOCH_MAX - 1, ..state }).unwrap();
    let space = Tablespace::open(&disk).unwrap();
    assert!(!space.follow_epoch(EPOCH_MAX));
    drop(space);
    let space = Tablespace::open(&disk).unwrap();
    space.write(0, page_of(1).bytes()).unwrap();
    drop(space);
    let (_, state) = StateBlocks::open(&*file, database).unwrap().unwrap();
    assert_eq!((state.condition, state.epoch), (Condition::Open, EPOCH_MAX));
    let refused = Tablespace::open(&disk).err().unwrap();
    assert!(
        matches!(&refused, Error::CorruptHeader { .. }) && refused.to_string().contains("greatest"),
        "{refused}"
    );
}

#[test]
fn names_of_other_programs_are_not_taken() {
    let disk = MemoryDisk::default();
    disk.create("data007.flifo").unwrap();
    assert!(matches!(Tablespace::create(&disk, 2, PAGE), Err(Error::NotADatabase { .. })));
    assert!(matches!(Tablespace::open(&disk), Err(Error::NoDatabase { .. })));
}
