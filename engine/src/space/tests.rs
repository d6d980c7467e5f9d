use super::*;
use crate::buffer::PoolConfig;
use crate::disk::{MemoryDisk, Tablespace};
use crate::metrics::Waits;
use crate::redo::log_on;
use std::collections::BTreeSet;

fn pool(disk: &MemoryDisk, new: bool) -> Arc<BufferPool> {
    let space = if new { Tablespace::create(disk, 2, 4096) } else { Tablespace::open(disk) };
    let config = PoolConfig { bytes: 64 * 4096, instances: 2, doublewrite: true };
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
