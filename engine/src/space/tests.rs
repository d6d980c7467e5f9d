use super::*;
use crate::buffer::{FlushConfig, PoolConfig};
use crate::disk::{DiskCall, Fault, MemoryDisk, Tablespace};
use crate::metrics::Waits;
use crate::redo::log_on;
use std::collections::BTreeSet;

fn pool(disk: &MemoryDisk, new: bool) -> Arc<BufferPool> {
    pool_over(disk, if new { Tablespace::create(disk, 2, 4096) } else { Tablespace::open(disk) })
}

fn pool_over(disk: &MemoryDisk, space: Result<Tablespace>) -> Arc<BufferPool> {
    let config =
        PoolConfig { bytes: 64 * 4096, instances: 2, doublewrite: true, flush: FlushConfig::default() };
    BufferPool::new(disk, log_on(disk, space.unwrap()), config, Waits::new()).unwrap()
}

#[test]
fn pages_are_given_once_near_where_wanted_and_again_when_freed() {
    let (disk, waiter) = (MemoryDisk::default(), Waiter::background());
    let alloc = PageAllocator::create(&pool(&disk, true), &waiter).unwrap();
    let mut given = BTreeSet::from([0, 1, 2]);
    for _ in 0..100 {
        assert!(given.insert(alloc.allocate(None, &waiter).unwrap().0));
    }
    assert_eq!(given.last(), Some(&102));
    alloc.free(PageNo(50), &waiter).unwrap();
    assert_eq!(alloc.allocate(Some(PageNo(90)), &waiter).unwrap(), PageNo(103));
    assert_eq!(alloc.allocate(Some(PageNo(40)), &waiter).unwrap(), PageNo(50));
    let run = alloc.allocate_unlogged(None, 64, &waiter).unwrap();
    assert_eq!(run, Run { first: PageNo(104), pages: 64 });
    assert_eq!(alloc.used_pages(&waiter).unwrap(), 104 + 64);
}

#[test]
fn a_second_group_is_made_and_found_again() {
    let (disk, waiter) = (MemoryDisk::default(), Waiter::background());
    let pool_before = pool(&disk, true);
    let alloc = PageAllocator::create(&pool_before, &waiter).unwrap();
    let group = group_pages(4096);
    while alloc.allocate_unlogged(None, group, &waiter).unwrap().first.0 < group {}
    let used = alloc.used_pages(&waiter).unwrap();
    assert!(used > group + 1);
    pool_before.flush_all(&waiter).unwrap();
    pool_before.log().make_checkpoint(pool_before.log().next(), true).unwrap();
    pool_before.space().close();

    let alloc = PageAllocator::open(&pool(&disk, false));
    assert_eq!(alloc.used_pages(&waiter).unwrap(), used);
    let page = alloc.allocate(Some(PageNo(5)), &waiter).unwrap();
    assert!(page.0 > group + 1 || used == 2 * group);
}

/// A full disk, and all pages there is room for in use. Rows of three files' stripes are no whole number of extents.
#[test]
fn what_is_free_is_found_on_a_full_disk() {
    let (disk, waiter) = (MemoryDisk::default(), Waiter::background());
    let pool = pool_over(&disk, Tablespace::create(&disk, 3, 4096));
    let alloc = PageAllocator::create(&pool, &waiter).unwrap();
    disk.fail_from(Some(DiskCall::Allocate), 1, Fault::DiskFull);
    let room = pool.space().pages();
    assert_ne!(room % EXTENT_PAGES, 0);
    let highest = PageNo(room - 1);
    (3..room).for_each(|page| assert_eq!(alloc.allocate(None, &waiter).unwrap(), PageNo(page)));
    let full = |near| matches!(alloc.allocate(near, &waiter), Err(Error::DiskFull { .. }));
    assert!(full(None) && full(Some(highest)) && full(Some(PageNo(50))));
    assert_eq!(alloc.used_pages(&waiter).unwrap(), room);

    alloc.free(PageNo(50), &waiter).unwrap();
    assert_eq!(alloc.allocate(Some(highest), &waiter).unwrap(), PageNo(50));
    alloc.free_run(Run { first: PageNo(60), pages: 5 }, &waiter).unwrap();
    let run = alloc.allocate_unlogged(Some(highest), 64, &waiter).unwrap();
    assert_eq!(run, Run { first: PageNo(60), pages: 5 });
    // A run that would go on beyond the end.
    alloc.free_run(Run { first: PageNo(room - 3), pages: 3 }, &waiter).unwrap();
    let run = alloc.allocate_unlogged(None, 64, &waiter).unwrap();
    assert_eq!(run, Run { first: PageNo(room - 3), pages: 3 });
    alloc.free(PageNo(70), &waiter).unwrap();
    assert_eq!(alloc.choose(&waiter).unwrap(), PageNo(70));
    let mut slot = alloc.pending_slot(&waiter).unwrap();
    slot.reserve(64, &waiter).unwrap();
    assert_eq!((slot.chain().run, slot.chain().run_pages), (70, 1));
    drop(slot);

    assert!(full(Some(PageNo(90))));
    disk.heal();
    assert_eq!(alloc.allocate(Some(highest), &waiter).unwrap(), PageNo(room));
}

/// A tree whose end moves on takes what was freed behind it.
#[test]
fn the_space_does_not_grow_over_pages_that_are_free() {
    let (disk, waiter) = (MemoryDisk::default(), Waiter::background());
    let pool = pool(&disk, true);
    let alloc = PageAllocator::create(&pool, &waiter).unwrap();
    let mut queue: std::collections::VecDeque<PageNo> = [alloc.allocate(None, &waiter).unwrap()].into();
    let room = pool.space().pages();
    for _ in 0..4 * room {
        queue.push_back(alloc.allocate(queue.back().copied(), &waiter).unwrap());
        if queue.len() > 100 {
            alloc.free(queue.pop_front().unwrap(), &waiter).unwrap();
        }
    }
    assert_eq!(pool.space().pages(), room);
}

/// Freed in one group while another allocates in the next one.
#[test]
fn what_is_freed_meanwhile_is_not_passed_by() {
    let (disk, waiter) = (MemoryDisk::default(), Waiter::background());
    let alloc = PageAllocator::create(&pool(&disk, true), &waiter).unwrap();
    let group = group_pages(4096);
    while alloc.allocate_unlogged(None, group, &waiter).unwrap().first.0 < group {}
    let free = |_| {
        let free = || alloc.free(PageNo(50), &Waiter::background()).unwrap();
        std::thread::scope(|scope| scope.spawn(free).join().unwrap());
        Noted::Nothing
    };
    assert!(alloc.find_run(None, 1, &waiter, &free).unwrap().first.0 > group);
    assert_eq!(alloc.allocate(None, &waiter).unwrap(), PageNo(50));
}

/// Whatever others did beside each other, afterwards every page that is free is found.
#[test]
fn threads_beside_each_other_pass_no_page_by() {
    let (disk, waiter) = (MemoryDisk::default(), Waiter::background());
    let pool = pool(&disk, true);
    let alloc = PageAllocator::create(&pool, &waiter).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let alloc = &alloc;
            scope.spawn(move || {
                let (waiter, mut pages) = (Waiter::background(), Vec::new());
                for step in 0..300 {
                    let near = pages.last().copied().filter(|_| step % 3 == 0);
                    pages.push(alloc.allocate(near, &waiter).unwrap());
                    if pages.len() > 40 || step % 2 == 1 {
                        let page = pages.swap_remove((step * 7 + thread) % pages.len());
                        alloc.free(page, &waiter).unwrap();
                    }
                }
                pages.into_iter().for_each(|page| alloc.free(page, &waiter).unwrap());
            });
        }
    });
    disk.fail_from(Some(DiskCall::Allocate), 1, Fault::DiskFull);
    assert_eq!(alloc.used_pages(&waiter).unwrap(), 3);
    (3..pool.space().pages()).for_each(|_| _ = alloc.allocate(None, &waiter).unwrap());
}

/// The first page of a group is its bitmap's neighbour, and a page like others but in the first group.
#[test]
fn the_first_page_of_a_group_is_freed_with_what_it_belongs_to() {
    let (disk, waiter) = (MemoryDisk::default(), Waiter::background());
    let alloc = PageAllocator::create(&pool(&disk, true), &waiter).unwrap();
    let group = group_pages(4096);
    while alloc.choose(&waiter).unwrap().0 < group {
        alloc.allocate_unlogged(None, group, &waiter).unwrap();
    }
    let mut slot = alloc.pending_slot(&waiter).unwrap();
    slot.begin(alloc.next_stamp());
    slot.reserve(1, &waiter).unwrap();
    assert_eq!(slot.chain().run, group);
    let used = alloc.used_pages(&waiter).unwrap();
    slot.free_all(&waiter).unwrap();
    assert_eq!(alloc.used_pages(&waiter).unwrap(), used - 1, "of a run that is not used");
    slot.begin(alloc.next_stamp());
    for index in [1, 0] {
        slot.reserve(1, &waiter).unwrap();
        slot.push(PageNo(3), index, &[7; 100], &waiter).unwrap();
    }
    assert!(slot.chain().head > group && alloc.used_pages(&waiter).unwrap() == used + 1);
    slot.free_all(&waiter).unwrap();
    assert_eq!(alloc.used_pages(&waiter).unwrap(), used - 1, "of a chain");
}

/// What no writer has put there.
#[test]
fn a_damaged_slot_of_the_pending_page_is_no_panic() {
    let (disk, waiter) = (MemoryDisk::default(), Waiter::background());
    let pool = pool(&disk, true);
    let alloc = PageAllocator::create(&pool, &waiter).unwrap();
    for (run, run_pages) in [(0, 1 << 40), (100, 20), (16_000, 2048), (5, u64::MAX), (u64::MAX, 1)] {
        let slot = alloc.pending_slot(&waiter).unwrap();
        let damaged = pool.change(&waiter, &Need::records(64), |mut mtr| {
            let mut page = slot.latch()?;
            slot.put(&mut mtr, &mut page, &PendingChain { run, run_pages, ..PendingChain::default() });
            mtr.commit(&mut [&mut page]);
            Ok(())
        });
        damaged.unwrap();
    }
    (0..300).for_each(|_| drop(alloc.pending_slot(&waiter).unwrap()));
    assert_eq!(alloc.used_pages(&waiter).unwrap(), 3);
}
