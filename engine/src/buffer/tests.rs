use super::adaptive::Plan;
use super::ages::Ages;
use super::batch::{BATCH_PAGES, Batch};
use super::*;
use crate::background::Wake;
use crate::disk::{AlignedBuffer, DiskCall, Fault, MemoryDisk};
use crate::page::Lsn;
use crate::page::edit::NodeMut;
use crate::page::node::Fences;
use crate::page::op::Op;
use crate::redo::{Durability, LogBuffer, LogFiles, Reader, log_on};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
/// More than the frames of most pools here.
const PAGES: u64 = if cfg!(miri) { 24 } else { 100 };

fn pool_on(disk: &MemoryDisk, frames: u64, instances: u32) -> Arc<BufferPool> {
    let space = Tablespace::create(disk, 1, PAGE).unwrap();
    space.grow(1024).unwrap();
    let config = PoolConfig {
        bytes: frames * PAGE as u64,
        instances,
        doublewrite: true,
        flush: FlushConfig::default(),
    };
    BufferPool::new(disk, log_on(disk, space), config, Waits::new()).unwrap()
}

fn make(pool: &BufferPool, page: u64, waiter: &Waiter) -> Result<()> {
    let no = PageNo(page);
    pool.change(waiter, &Need::nodes(PAGE).making(no), |mut mtr| {
        let mut guard = mtr.create(no)?;
        mtr.rewrite(&mut guard, |page| _ = NodeMut::format(page, no, no, 0, &Fences::all()));
        mtr.apply(&mut guard, &Op::Insert { slot: 0, key: &page.to_be_bytes(), value: b"v".into() });
        mtr.commit(&mut [&mut guard]);
        Ok(())
    })
}

fn first_key(pool: &BufferPool, page: u64, waiter: &Waiter) -> Result<Vec<u8>> {
    pool.retry(waiter, || {
        let guard = pool.optimistic(PageNo(page))?;
        guard.checked(guard.node().key(0))
    })
}

fn change(pool: &BufferPool, page: u64, value: &[u8], waiter: &Waiter) -> Result<()> {
    pool.change(waiter, &Need::records(100), |mut mtr| {
        let mut guard = pool.optimistic(PageNo(page))?.exclusive()?;
        mtr.apply(&mut guard, &Op::Replace { slot: 0, value: value.into() });
        mtr.commit(&mut [&mut guard]);
        Ok(())
    })
}

/// Makes pages 2.. and writes them, with a cleaner that the test steps.
fn filled(disk: &MemoryDisk, frames: u64, pages: u64) -> (Arc<BufferPool>, Waiter) {
    let (pool, waiter) = (pool_on(disk, frames, 1), Waiter::background());
    let mut cleaner = Cleaner::new(&pool, 0, 1);
    for page in 2..2 + pages {
        make(&pool, page, &waiter).unwrap();
        cleaner.step(Instant::now());
    }
    pool.flush_all(&waiter).unwrap();
    (pool, waiter)
}

#[test]
fn more_pages_than_frames_come_back_as_they_were() {
    let (pool, waiter) = filled(&MemoryDisk::default(), 16, 2 * PAGES);
    for page in (2..2 + 2 * PAGES).chain(2..2 + 2 * PAGES) {
        assert_eq!(first_key(&pool, page, &waiter).unwrap(), page.to_be_bytes());
    }
    let stats = pool.stats();
    assert_eq!(stats.dirty_pages, 0);
    assert!(stats.reads >= 2 * 2 * PAGES - 16 && stats.evictions >= stats.reads - 16);
    assert_eq!(latch::held(), 0);
}

#[test]
fn a_step_fills_the_stock_and_changes_survive_it() {
    let (pool, waiter) = filled(&MemoryDisk::default(), 32, PAGES);
    let mut cleaner = Cleaner::new(&pool, 0, 1);
    for page in 2..2 + PAGES {
        change(&pool, page, b"w", &waiter).unwrap();
        while cleaner.step(Instant::now()) == Wake::Now {}
        assert!(pool.stats().free_frames >= 2);
    }
    for page in 2..2 + PAGES {
        let value = pool.retry(&waiter, || {
            let (guard, mut out) = (pool.optimistic(PageNo(page))?, Vec::new());
            guard.checked(guard.node().append_value(0, &mut out))?;
            Ok(out)
        });
        assert_eq!(value.unwrap(), b"w");
    }
}

#[test]
fn what_a_load_is_done_with_is_written_batch_by_batch_and_the_rest_left() {
    let (pool, waiter) = filled(&MemoryDisk::default(), 256, 100);
    let mut cleaner = Cleaner::new(&pool, 0, 1);
    (2..102).for_each(|page| change(&pool, page, b"w", &waiter).unwrap());
    let dirty = || pool.stats().dirty_pages;
    assert_eq!(dirty(), 100);
    pool.write_soon(loaded_since(0, 2..2));
    pool.write_soon(loaded_since(0, 10..50));
    // Some were never made.
    pool.write_soon(loaded_since(0, 100..120));
    let left: Vec<_> = (0..4).map(|_| (cleaner.step(Instant::now()) == Wake::Now, dirty())).collect();
    // One more in the first step: page 2, which became dirty where the flush before ended, and counts as its.
    assert_eq!(left, [(true, 67), (true, 59), (true, 57), (false, 57)]);
}

/// Publishes a plan, as the controller does.
fn plan(pool: &BufferPool, target: Lsn, quota: i64) {
    pool.flushing.publish(&Plan { target, quota, ..Plan::default() });
}

/// Those that nobody waits for are left alone.
#[test]
fn with_a_page_that_is_due_go_those_that_soon_will_be() {
    let (pool, waiter) = filled(&MemoryDisk::default(), 256, 100);
    let mut cleaner = Cleaner::new(&pool, 0, 1);
    // The first change after a flush of all counts as its.
    change(&pool, 91, b"w", &waiter).unwrap();
    let mut step = || {
        while cleaner.step(Instant::now()) == Wake::Now {}
        pool.stats().dirty_pages
    };
    assert_eq!(step(), 0);
    let begun = pool.log.next();
    (2..50).for_each(|page| change(&pool, page, b"w", &waiter).unwrap());
    plan(&pool, begun, 1000);
    assert_eq!(step(), 48, "none is due");
    plan(&pool, Lsn(begun.0 + 1), 0);
    assert_eq!(step(), 48, "nothing may be written");
    plan(&pool, Lsn(begun.0 + 1), 1);
    assert_eq!(step(), 48 - BATCH_PAGES as u64, "one batch, and the next page is not due");
    plan(&pool, pool.log.next(), 1);
    assert_eq!(step(), 0);
    let stats = pool.flush_stats();
    assert_eq!((stats.adaptive_pages, stats.background_pages, stats.sync_pages), (48, 0, 0));
}

/// The oldest pages of all instances, by a cleaner that begins elsewhere, and beside another batch.
#[cfg_attr(miri, ignore = "many pages")]
#[test]
fn the_globally_oldest_pages_are_written_first_whatever_their_instance() {
    let (disk, waiter) = (MemoryDisk::default(), Waiter::background());
    let pool = pool_on(&disk, 512, 2);
    let pages: Vec<u64> = (2..300).collect();
    let of = |page: u64| usize::from(!std::ptr::eq(pool.instance_of(PageNo(page)), &*pool.instances[0]));
    pages.iter().for_each(|&page| make(&pool, page, &waiter).unwrap());
    pool.flush_all(&waiter).unwrap();
    let mut cleaner = Cleaner::new(&pool, 1, 2);
    while cleaner.step(Instant::now()) == Wake::Now {}
    change(&pool, 290, b"w", &waiter).unwrap();
    while cleaner.step(Instant::now()) == Wake::Now {}
    // Those of the first instance become dirty first.
    let [first, second]: [Vec<u64>; 2] =
        [0, 1].map(|instance| pages.iter().copied().filter(|&page| of(page) == instance).take(60).collect());
    first.iter().chain(&second).for_each(|&page| change(&pool, page, b"w", &waiter).unwrap());
    let dirty =
        || pool.instances.iter().map(|instance| instance.flush_list.dirty_pages()).collect::<Vec<_>>();
    assert_eq!(dirty(), [60, 60]);
    plan(&pool, pool.log.next(), 1);
    // A batch of the first instance is in progress elsewhere, with its doublewrite area.
    let mut batch = Batch::new(PAGE);
    let area = pool.lock_doublewrite(&pool.instances[0], &waiter).unwrap();
    let writing = pool.begin_write(&pool.instances[0], first[..20].iter().copied().map(PageNo), &mut batch);
    cleaner.step(Instant::now());
    assert_eq!(dirty(), [60 - 20 - 32, 60]);
    writing.unwrap().write(&waiter, || batch.write_in_place(pool.space())).unwrap();
    drop(area);
    plan(&pool, pool.log.next(), 1);
    cleaner.step(Instant::now());
    assert_eq!(dirty(), [0, 60]);
    plan(&pool, pool.log.next(), 1);
    cleaner.step(Instant::now());
    assert_eq!(dirty(), [0, 60 - 32]);
}

/// What the ages say is what the flush lists have.
#[test]
fn dirty_pages_are_counted_by_age() {
    let (pool, waiter) = filled(&MemoryDisk::default(), 256, 100);
    let since = pool.log.next();
    (2..52).for_each(|page| change(&pool, page, b"w", &waiter).unwrap());
    (2..52).for_each(|page| change(&pool, page, b"x", &waiter).unwrap());
    let ages = |before| {
        let mut ages = Ages::since(since, pool.log.capacity_bytes());
        pool.instances.iter().for_each(|instance| ages.add(instance.flush_list.ages()));
        ages.pages_before(before)
    };
    assert_eq!((ages(since), ages(Lsn(u64::MAX))), (0, 50));
    pool.flush_all(&waiter).unwrap();
    assert_eq!((ages(Lsn(u64::MAX)), pool.stats().dirty_pages), (0, 0));
}

/// Pages that the instance's doublewrite area has in its two segments.
fn written_twice(disk: &MemoryDisk) -> [u32; 2] {
    let (file, mut block) = (disk.open("doublewrite0.flifo").unwrap(), AlignedBuffer::new(PAGE));
    [0, 1].map(|segment: u64| {
        file.read_at(block.bytes_mut(), segment * (PAGE as u64 * (1 + BATCH_PAGES as u64))).unwrap();
        u32::from_le_bytes(block.bytes()[12..16].try_into().unwrap())
    })
}

fn loaded_since(since: u64, pages: std::ops::Range<u64>) -> LoadedRun {
    LoadedRun { pages, since: Lsn(since) }
}

fn make_unlogged(pool: &BufferPool, pages: std::ops::Range<u64>, waiter: &Waiter) {
    for page in pages {
        let (no, lsn) = (PageNo(page), pool.log().next());
        let fill = |bytes: &mut [u8]| {
            NodeMut::format(bytes, no, no, 0, &Fences::all());
            let op = Op::Insert { slot: 0, key: &page.to_be_bytes(), value: b"v".into() };
            op.apply(bytes).unwrap();
        };
        pool.make_unlogged(no, lsn, waiter, fill).unwrap();
    }
}

#[test]
fn what_a_load_made_is_written_once_and_twice_if_it_was_changed_since() {
    let (disk, waiter) = (MemoryDisk::default(), Waiter::background());
    let pool = pool_on(&disk, 256, 1);
    let mut cleaner = Cleaner::new(&pool, 0, 1);
    let since = pool.log().next().0;
    make_unlogged(&pool, 2..60, &waiter);
    pool.write_soon(loaded_since(since, 2..40));
    change(&pool, 36, b"w", &waiter).unwrap();
    cleaner.step(Instant::now());
    assert_eq!((pool.stats().dirty_pages, written_twice(&disk)), (26, [0, 0]));
    cleaner.step(Instant::now());
    assert_eq!((pool.stats().dirty_pages, written_twice(&disk)), (20, [6, 0]));
    let sync = pool.space().next_sync();
    pool.flush_unlogged([2..40, 40..60].into_iter().map(|pages| loaded_since(since, pages)), &waiter)
        .unwrap();
    assert_eq!((pool.stats().dirty_pages, written_twice(&disk)), (0, [6, 0]));
    assert!(pool.space().is_synced(sync));
}

/// It may be the page of a row still, if the log loses the end with what freed it, and what allocated it anew.
#[test]
fn what_an_earlier_life_left_is_written_twice() {
    let disk = MemoryDisk::default();
    let (pool, waiter) = filled(&disk, 256, 20);
    let mut cleaner = Cleaner::new(&pool, 0, 1);
    // So that it is the load that has page 10 written: what is changed first after a flush of all counts as its.
    change(&pool, 5, b"w", &waiter).unwrap();
    cleaner.step(Instant::now());
    change(&pool, 10, b"w", &waiter).unwrap();
    pool.log().make_durable(pool.log().next(), Durability::Synced, &waiter).unwrap();
    // In the place of the allocation.
    change(&pool, 3, b"w", &waiter).unwrap();
    let since = pool.log().next().0;
    make_unlogged(&pool, 11..13, &waiter);
    let before = written_twice(&disk);
    pool.write_soon(loaded_since(since, 10..13));
    cleaner.step(Instant::now());
    assert_eq!(pool.stats().dirty_pages, 1);
    let after = written_twice(&disk);
    assert!(before != after && after.contains(&3), "{before:?} {after:?}");
}

/// With cleaners beside it that write the same pages.
#[test]
fn a_load_ends_when_all_its_pages_are_on_disk() {
    for _ in 0..if cfg!(miri) { 1 } else { 20 } {
        let (disk, waiter) = (MemoryDisk::default(), Waiter::background());
        disk.set_latency(Duration::ZERO, Duration::from_micros(200));
        let pool = pool_on(&disk, 512, 2);
        pool.start_background().unwrap();
        make_unlogged(&pool, 2..300, &waiter);
        let stripe = |at: u64| (64 * at).max(2)..(64 * at + 64).min(300);
        (0..5).for_each(|at| pool.write_soon(loaded_since(0, stripe(at))));
        let runs = [2..100, 100..300].into_iter().map(|pages| loaded_since(0, pages));
        pool.flush_unlogged(runs, &waiter).unwrap();
        let mut buffer = AlignedBuffer::new(PAGE);
        for page in 2..300 {
            pool.space().read(page, buffer.bytes_mut()).unwrap();
            verify(buffer.bytes(), PageNo(page)).unwrap();
        }
        pool.stop_background();
    }
}

#[test]
fn a_flush_of_all_has_the_cleaners_help() {
    let (pool, waiter) = filled(&MemoryDisk::default(), 256, 100);
    let mut cleaner = Cleaner::new(&pool, 0, 1);
    (2..4).for_each(|page| change(&pool, page, b"w", &waiter).unwrap());
    while cleaner.step(Instant::now()) == Wake::Now {}
    assert_eq!(pool.stats().dirty_pages, 1, "page 3 changed after the last flush of all");
    pool.flushing.request(pool.log.next());
    assert!(cleaner.step(Instant::now()) == Wake::Now && pool.stats().dirty_pages == 0);
}

/// A cleaner has asked whether the pool has failed, and comes to a page after a panic has left half a change there.
#[test]
fn half_a_change_is_never_written() {
    let (pool, waiter) = filled(&MemoryDisk::default(), 64, 10);
    let changed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        pool.change(&waiter, &Need::records(100), |mut mtr| -> std::result::Result<(), Stop> {
            let mut guard = pool.optimistic(PageNo(5))?.exclusive()?;
            mtr.apply(&mut guard, &Op::Replace { slot: 0, value: b"w".into() });
            panic!("half-way");
        })
    }));
    assert!(changed.is_err());
    let mut batch = Batch::new(PAGE);
    let begun = pool.begin_write(&pool.instances[0], [PageNo(5)].into_iter(), &mut batch);
    assert!(matches!(begun.err(), Some(Error::Stopped { .. })));
    assert_eq!(pool.stats().dirty_pages, 1);
}

#[test]
fn a_failed_read_is_an_error_and_the_next_one_may_succeed() {
    let disk = MemoryDisk::default();
    let (pool, waiter) = filled(&disk, 16, PAGES);
    disk.fail_nth(Some(DiskCall::Read), 1, Fault::Io);
    let page =
        (2..2 + PAGES).find(|&page| pool.table.get(PageNo(page)).unwrap().evictable().is_none()).unwrap();
    assert!(first_key(&pool, page, &waiter).is_err());
    let free = pool.stats().free_frames;
    assert_eq!(first_key(&pool, page, &waiter).unwrap(), page.to_be_bytes());
    assert!(pool.stats().free_frames <= free, "the failed read gave its frame back");
}

/// Opens what is left of the pages and replays the log.
fn replayed(disk: &MemoryDisk) -> Result<Arc<BufferPool>> {
    let space = Arc::new(Tablespace::open(disk)?);
    let (start, files) = (space.checkpoint(), Arc::new(LogFiles::open(disk, space.database())?));
    let reader = || Reader::new(&files, start, space.epoch(), redo_bytes_max(PAGE));
    let mut survey = reader();
    while survey.next(|_, _| Ok(()))? {}
    let buffer = LogBuffer::open(disk, space.database())?;
    let log = Log::new(&space, Arc::clone(&files), buffer, survey.end());
    let config = PoolConfig {
        bytes: 64 * PAGE as u64,
        instances: 1,
        doublewrite: true,
        flush: FlushConfig::default(),
    };
    let pool = BufferPool::new(disk, log, config, Waits::new())?;
    pool.begin_replay(Lsn(start.lsn));
    Replay::new(&pool, survey.end(), space.pages(), VoidRanges::default()).run(2, |each| {
        let mut reader = reader();
        while reader.next(&mut *each)? {}
        Ok(())
    })?;
    Ok(pool)
}

/// A page whose first record behind the checkpoint makes it whole need not be read. (A copy would have been put in its place
/// before.)
#[test]
fn a_page_that_the_log_makes_anew_may_be_unreadable() {
    let disk = MemoryDisk::default();
    let (pool, waiter) = filled(&disk, 64, 10);
    pool.log().make_checkpoint(pool.log().next(), true).unwrap();
    make(&pool, 20, &waiter).unwrap();
    [5, 20].into_iter().for_each(|page| change(&pool, page, b"w", &waiter).unwrap());
    pool.flush_all(&waiter).unwrap();
    let at = |page| pool.space().place_of(page).unwrap().1;
    let (whole, made, changed) = (disk.kill(), disk.kill(), disk.kill());
    made.make_unreadable("data0.flifo", at(20));
    for disk in [whole, made] {
        let pool = replayed(&disk).unwrap();
        for page in [5, 20] {
            assert_eq!(first_key(&pool, page, &waiter).unwrap(), u64::to_be_bytes(page));
        }
    }
    changed.make_unreadable("data0.flifo", at(5));
    assert!(matches!(replayed(&changed), Err(Error::Io { .. })));
}

#[test]
fn corrupt_and_never_written_pages_are_refused() {
    let disk = MemoryDisk::default();
    let (pool, waiter) = filled(&disk, 16, PAGES);
    let page =
        (2..2 + PAGES).find(|&page| pool.table.get(PageNo(page)).unwrap().evictable().is_none()).unwrap();
    let space = pool.space();
    let mut buffer = AlignedBuffer::new(PAGE);
    space.read(page, buffer.bytes_mut()).unwrap();
    buffer.bytes_mut()[100] ^= 4;
    space.write(page, buffer.bytes()).unwrap();
    assert!(
        matches!(first_key(&pool, page, &waiter), Err(Error::CorruptPage { page: found, .. }) if found == page)
    );
    buffer.bytes_mut()[100] ^= 4;
    space.write(page, buffer.bytes()).unwrap();
    assert_eq!(first_key(&pool, page, &waiter).unwrap(), page.to_be_bytes());
    let error = first_key(&pool, 500, &waiter).unwrap_err().to_string();
    assert!(error.contains("never written"), "{error}");
    assert!(matches!(first_key(&pool, u64::MAX, &waiter), Err(Error::CorruptPage { .. })));
}

#[test]
fn a_write_error_is_kept() {
    let disk = MemoryDisk::default();
    let (pool, waiter) = filled(&disk, 16, 100);
    assert!(first_key(&pool, 2, &waiter).is_ok());
    change(&pool, 2, b"x", &waiter).unwrap();
    disk.fail_nth(Some(DiskCall::Write), 1, Fault::Io);
    assert!(pool.flush_all(&waiter).is_err());
    assert!(pool.flush_all(&waiter).is_err(), "never again, though the disk is well");
    assert_eq!(pool.stats().dirty_pages, 1);
    // Reads still work, and a thread that finds all pages dirty gets the error instead of waiting forever.
    for page in 3..50 {
        assert!(first_key(&pool, page, &waiter).is_ok());
    }
    let error = (3..102).find_map(|page| {
        let read = first_key(&pool, page, &waiter).and_then(|_| change(&pool, page, b"x", &waiter));
        read.err()
    });
    assert!(error.is_some());
}

/// Slow reads and writes, a pool a tenth of the pages, cleaners at work: `wait_while` and `Waiter::wait` assert that
/// no latch is held, and here all kinds of waits happen.
#[test]
fn nobody_waits_with_a_latch_held() {
    let disk = MemoryDisk::default();
    let pool = pool_on(&disk, 32, 2);
    pool.start_background().unwrap();
    let waiter = Waiter::background();
    (2..302).for_each(|page| make(&pool, page, &waiter).unwrap());
    disk.set_latency(Duration::from_micros(200), Duration::from_micros(200));
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let (pool, waits) = (&pool, &pool.waits);
            scope.spawn(move || {
                let waiter = Waiter::background().recording(waits);
                for n in 0..150 {
                    let page = 2 + (n * 7 + thread % 4) % 300;
                    assert_eq!(first_key(pool, page, &waiter).unwrap(), page.to_be_bytes());
                    change(pool, page, b"y", &waiter).unwrap();
                    assert_eq!(latch::held(), 0);
                }
            });
        }
    });
    pool.flush_all(&waiter).unwrap();
    let waits = pool.waits.snapshot();
    for reason in [WaitReason::DiskRead, WaitReason::PageLoad, WaitReason::DiskWrite] {
        assert!(waits.count(reason) > 0, "{}", reason.name());
    }
    pool.stop_background();
    assert_eq!(pool.stats().dirty_pages, 0);
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "latch")]
fn waiting_with_a_latch_held_is_caught() {
    let (pool, waiter) = filled(&MemoryDisk::default(), 16, 4);
    let _held = pool.optimistic(PageNo(2)).ok().unwrap().shared().ok().unwrap();
    pool.entry(PageNo(3)).unwrap().wait_while(&waiter, WaitReason::PageLatch, |_| false);
}

#[test]
fn latches_exclude_each_other() {
    let (pool, _) = filled(&MemoryDisk::default(), 16, 4);
    let guard = || pool.optimistic(PageNo(2));
    let shared = guard().ok().unwrap().shared().ok().unwrap();
    let again = guard().ok().unwrap().shared().ok().unwrap();
    assert!(matches!(guard().ok().unwrap().exclusive(), Err(Stop::Latched(PageNo(2)))));
    drop((shared, again));
    let before = guard().ok().unwrap();
    let mut exclusive = before.exclusive().ok().unwrap();
    assert!(matches!(guard(), Err(Stop::Latched(PageNo(2)))));
    exclusive.bytes_mut()[200] = 1;
    exclusive.commit(Lsn(1));
    drop(exclusive);
    assert!(matches!(before.validate(), Err(Stop::Changed)));
    assert!(matches!(before.shared(), Err(Stop::Changed)));
    assert!(guard().ok().unwrap().validate().is_ok());
}

#[test]
fn who_waits_for_a_latch_is_woken() {
    let (pool, _) = filled(&MemoryDisk::default(), 16, 4);
    let held = pool.optimistic(PageNo(2)).ok().unwrap().exclusive().ok().unwrap();
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| change(&pool, 2, b"z", &Waiter::background().recording(&pool.waits))))
            .collect();
        let entry = pool.entry(PageNo(2)).unwrap();
        while entry.state.load(Ordering::Relaxed) & latch::WAITERS == 0 {
            std::thread::yield_now();
        }
        drop(held);
        waiters.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    });
    assert!(pool.waits.snapshot().count(WaitReason::PageLatch) > 0);
}
