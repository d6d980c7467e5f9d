//! Trees with large values, beside a map; readers beside a writer; what is left when something fails.

use super::*;
use crate::disk::Disk;
use crate::page::node::entry_bytes_max;
use crate::page::pending::SLOTS;

/// A value that tells its seed everywhere, so that a mix of two is noticed.
fn large(seed: u32, bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|at| (seed.wrapping_mul(2_654_435_761) ^ at.wrapping_mul(40_503)) as u8).collect()
}

fn assert_whole(value: &[u8]) {
    let (seed, bytes) = value.split_first_chunk().unwrap();
    assert!(*bytes == large(u32::from_le_bytes(*seed), bytes.len()), "a mix of values");
}

fn with_seed(seed: u32, bytes: usize) -> Vec<u8> {
    [&seed.to_le_bytes()[..], &large(seed, bytes)].concat()
}

fn size() -> impl Strategy<Value = usize> {
    let page = 4096 - 64;
    prop_oneof![
        3 => 0..900_usize,
        3 => 900..1100_usize,
        3 => 0..5 * page,
        // Whole pages, and one byte beside.
        2 => (0..4_usize, 0..3_usize).prop_map(move |(pages, beside)| 32 + pages * page + beside - usize::from(pages > 0)),
    ]
}

#[derive(Debug, Clone)]
enum Op {
    Insert(u8, u32, usize),
    Update(u8, u32, usize),
    Upsert(u8, u32, usize),
    Delete(u8),
    Get(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let row = || (0..40_u8, any::<u32>(), size());
    prop_oneof![
        3 => row().prop_map(|(key, seed, size)| Op::Insert(key, seed, size)),
        2 => row().prop_map(|(key, seed, size)| Op::Update(key, seed, size)),
        4 => row().prop_map(|(key, seed, size)| Op::Upsert(key, seed, size)),
        3 => (0..40_u8).prop_map(Op::Delete),
        1 => (0..40_u8).prop_map(Op::Get),
    ]
}

/// Some keys are as long as they may be beside a large value.
fn key_of(key: u8) -> Vec<u8> {
    vec![key; [1, 30, 400, entry_bytes_max(4096) - 56][usize::from(key) % 4]]
}

fn apply(f: &Fixture, model: &mut BTreeMap<Vec<u8>, Vec<u8>>, op: &Op) {
    let (tree, waiter) = (&f.tree, &f.waiter);
    match *op {
        Op::Insert(key, seed, size) => {
            let (key, value) = (key_of(key), large(seed, size));
            assert_eq!(tree.insert(waiter, &key, &value).unwrap(), !model.contains_key(&key));
            model.entry(key).or_insert(value);
        }
        Op::Update(key, seed, size) => {
            let (key, value) = (key_of(key), large(seed, size));
            assert_eq!(tree.update(waiter, &key, &value).unwrap(), model.contains_key(&key));
            model.entry(key).and_modify(|old| *old = value);
        }
        Op::Upsert(key, seed, size) => {
            let (key, value) = (key_of(key), large(seed, size));
            assert_eq!(tree.upsert(waiter, &key, &value).unwrap(), !model.contains_key(&key));
            model.insert(key, value);
        }
        Op::Delete(key) => {
            let key = key_of(key);
            assert_eq!(tree.delete(waiter, &key).unwrap(), model.remove(&key).is_some());
        }
        Op::Get(key) => {
            let (key, mut out) = (key_of(key), vec![1]);
            assert_eq!(tree.get(waiter, &key, &mut out).unwrap(), model.contains_key(&key));
            assert_eq!(&out, model.get(&key).unwrap_or(&Vec::new()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, max_shrink_iters: 500, ..ProptestConfig::default() })]

    #[test]
    fn does_what_a_map_does(ops in proptest::collection::vec(op(), 1..120)) {
        let f = fixture(48, 2);
        let mut model = BTreeMap::new();
        for op in &ops {
            apply(&f, &mut model, op);
        }
        f.check_against(&model);
        for key in model.keys() {
            assert!(f.tree.delete(&f.waiter, key).unwrap());
        }
        f.check_against(&BTreeMap::new());
    }

    #[test]
    fn a_bulk_load_takes_them(
        rows in proptest::collection::btree_map(0..40_u8, (any::<u32>(), size()), 0..40),
        fill in 0.5..1.0_f64,
    ) {
        let f = fixture(48, 2);
        let rows: BTreeMap<_, _> =
            rows.into_iter().map(|(key, (seed, size))| (key_of(key), large(seed, size))).collect();
        f.tree.bulk_load(&f.waiter, &rows, fill, |_| {}).unwrap();
        f.check_against(&rows);
        f.tree.free_nodes(&f.waiter).unwrap();
        f.check_against(&BTreeMap::new());
    }
}

#[test]
fn values_of_some_mib_come_and_go_in_a_small_pool() {
    let f = fixture(64, 2);
    let mut model = BTreeMap::new();
    for round in 0..3 {
        for (key, bytes) in [(b"a", 3 << 20), (b"b", 1000 << round), (b"c", 5 << 20)] {
            let value = large(round, bytes);
            f.tree.upsert(&f.waiter, key, &value).unwrap();
            model.insert(key.to_vec(), value);
        }
        f.check_against(&model);
    }
    assert!(f.pool.stats().evictions > 0);
    // What was replaced was used again: not much more than two of the largest at a time.
    assert!(f.pool.space().pages() < 4500, "{}", f.pool.space().pages());
    f.tree.free_nodes(&f.waiter).unwrap();
    f.check_against(&BTreeMap::new());
}

#[test]
fn what_is_too_large_changes_nothing() {
    let f = fixture(64, 1);
    let (max, value) = (entry_bytes_max(4096), vec![1; 5000]);
    assert!(f.tree.insert(&f.waiter, &vec![2; max - 56], &value).unwrap());
    let refused = f.tree.insert(&f.waiter, &vec![3; max - 55], &value);
    assert!(matches!(refused, Err(Error::KeyTooLarge { .. })));
    let used = f.alloc.used_pages(&f.waiter).unwrap();
    // Memory that is never touched costs nothing.
    let refused = f.tree.upsert(&f.waiter, &vec![2; max - 56], &vec![0; VALUE_BYTES_MAX + 1]);
    assert!(matches!(refused, Err(Error::ValueTooLarge { max: VALUE_BYTES_MAX, .. })));
    assert_eq!(f.alloc.used_pages(&f.waiter).unwrap(), used);
    f.check_against(&BTreeMap::from([(vec![2; max - 56], value)]));
}

/// A condition under the latch sees a large value's first bytes; a refused write leaves nothing behind.
#[test]
fn conditions_see_the_first_bytes() {
    let f = fixture(64, 1);
    let (old, new) = (large(1, 9000), large(2, 30_000));
    let saw = |expected: &[u8]| {
        let expected = expected[..32].to_vec();
        move |now: Option<&[u8]>| now == Some(&expected[..])
    };
    assert!(f.tree.put_if(&f.waiter, b"k", &old, |now| now.is_none()).unwrap());
    assert!(!f.tree.put_if(&f.waiter, b"k", &new, saw(&new)).unwrap());
    assert!(!f.tree.remove_if(&f.waiter, b"k", saw(&new)).unwrap());
    // It agrees when it is asked first, with nothing latched, and refuses when the pages are written.
    let asked = std::cell::Cell::new(0);
    let twice = |_: Option<&[u8]>| asked.replace(asked.get() + 1) == 0;
    assert!(!f.tree.put_if(&f.waiter, b"k", &new, twice).unwrap());
    f.check_against(&BTreeMap::from([(b"k".to_vec(), old.clone())]));
    assert!(f.tree.put_if(&f.waiter, b"k", &new, saw(&old)).unwrap());
    f.check_against(&BTreeMap::from([(b"k".to_vec(), new.clone())]));
    assert!(f.tree.remove_if(&f.waiter, b"k", saw(&new)).unwrap());
    f.check_against(&BTreeMap::new());
}

/// Readers get one complete value, whatever writers do.
#[test]
fn readers_see_whole_values_while_they_are_replaced() {
    const KEYS: u32 = 4;
    let f = fixture(160, 2);
    let tree = &f.tree;
    for key in 0..KEYS {
        tree.insert(&f.waiter, &key.to_be_bytes(), &with_seed(key, 9000)).unwrap();
    }
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                scope.spawn(move || {
                    let waiter = Waiter::background();
                    for round in 0..400_u32 {
                        let key = (round * 7 + writer) % KEYS;
                        let size = [20_000, 300, 9000, 70_000][round as usize % 4];
                        tree.upsert(&waiter, &key.to_be_bytes(), &with_seed(round, size)).unwrap();
                        if round % 5 == 0 {
                            tree.delete(&waiter, &(key + 100).to_be_bytes()).unwrap();
                            tree.insert(&waiter, &(key + 100).to_be_bytes(), &with_seed(round, 5000))
                                .unwrap();
                        }
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                let (waiter, mut out) = (Waiter::background(), Vec::new());
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    for key in 0..KEYS {
                        assert!(tree.get(&waiter, &key.to_be_bytes(), &mut out).unwrap());
                        assert_whole(&out);
                    }
                    let mut seen = 0;
                    let each = |_: &[u8], value: &[u8]| {
                        assert_whole(value);
                        seen += 1;
                        ControlFlow::Continue(())
                    };
                    tree.scan(&waiter, Bound::Unbounded, Bound::Unbounded, each).unwrap();
                    assert!(seen >= KEYS);
                }
            });
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let stats = tree.check(&f.waiter).unwrap();
    let used = f.alloc.used_pages(&f.waiter).unwrap();
    assert_eq!(used, 3 + stats.leaf_pages + stats.inner_pages + stats.overflow_pages);
}

/// More writers than slots of the pending page.
#[test]
fn writers_wait_for_a_slot() {
    let f = fixture(256, 2);
    let slots: Vec<_> = (0..SLOTS - 1).map(|_| f.alloc.pending_slot(&f.waiter).unwrap()).collect();
    std::thread::scope(|scope| {
        for writer in 0..8_u32 {
            let tree = &f.tree;
            scope.spawn(move || {
                let waiter = Waiter::background();
                for round in 0..10 {
                    tree.upsert(&waiter, &writer.to_be_bytes(), &with_seed(round, 20_000)).unwrap();
                }
            });
        }
    });
    drop(slots);
    let model = (0..8_u32).map(|writer| (writer.to_be_bytes().to_vec(), with_seed(9, 20_000))).collect();
    f.check_against(&model);
}

/// With one slot in admission, the other thread could never enter if a thread that waits for a pending slot kept it.
#[test]
fn a_wait_for_a_slot_lets_another_in() {
    let f = fixture(256, 2);
    let slots: Vec<_> = (0..SLOTS).map(|_| f.alloc.pending_slot(&f.waiter).unwrap()).collect();
    let admission = flifo_admission::Admission::new(flifo_admission::Config {
        thread_concurrency: 1,
        // So that it is refused, and does not get in past the limit.
        stall_limit: None,
        queue_timeout: Some(std::time::Duration::from_secs(20)),
        ..flifo_admission::Config::default()
    });
    let (admission, waits) = (admission.unwrap(), Waits::new());
    let waiter = Waiter::session(admission.session()).recording(&waits);
    let inside = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        let (tree, inside) = (&f.tree, &inside);
        scope.spawn(move || {
            let _slot = waiter.admission().unwrap().slot().unwrap();
            inside.wait();
            tree.upsert(&waiter, b"k", &with_seed(1, 20_000)).unwrap();
        });
        inside.wait();
        let other = admission.session();
        let entered = other.slot().map(drop);
        drop(slots);
        entered.unwrap();
    });
    assert_eq!(waits.snapshot().count(WaitReason::PendingSlot), 1);
    f.check_against(&BTreeMap::from([(b"k".to_vec(), with_seed(1, 20_000))]));
}

#[test]
fn every_step_of_felling_frees_something() {
    let f = fixture(64, 2);
    let rows = (0..200_u32).map(|id| (id.to_be_bytes(), large(id, if id % 3 == 0 { 12_000 } else { 300 })));
    f.tree.bulk_load(&f.waiter, rows, 0.9, |_| {}).unwrap();
    let mut before = f.alloc.used_pages(&f.waiter).unwrap();
    let mut steps = 0;
    while f.tree.free_step(&f.waiter).unwrap() {
        let used = f.alloc.used_pages(&f.waiter).unwrap();
        assert!(used < before, "step {steps}: {before} pages, then {used}");
        (before, steps) = (used, steps + 1);
    }
    assert!(steps > 1, "{steps}");
    f.check_against(&BTreeMap::new());
}

/// The first overflow page of a value.
fn first_page(f: &Fixture, key: &[u8]) -> PageNo {
    let first = f.pool.retry(&f.waiter, || {
        let (leaf, slot, found) = f.tree.find(key)?;
        assert!(found);
        Ok(Pointer::of_entry(leaf.shared()?.node().stored(slot).unwrap().bytes).unwrap().first)
    });
    first.unwrap()
}

/// Pages of values, not in memory, and what they have; reads of them fail from now on.
fn make_unreadable(f: &Fixture, keys: &[[u8; 4]]) -> Vec<(String, u64, Vec<u8>)> {
    f.pool.flush_all(&f.waiter).unwrap();
    let pages: Vec<_> = keys.iter().map(|key| first_page(f, key)).collect();
    let is_in_memory = |page: &PageNo| f.pool.optimistic(*page).is_ok();
    let mut others = 1 << 20..;
    while pages.iter().any(is_in_memory) {
        let other: u32 = others.next().unwrap();
        f.tree.insert(&f.waiter, &other.to_be_bytes(), &with_seed(other, 80_000)).unwrap();
    }
    let fail = |page: PageNo| {
        let (path, offset) = f.pool.space().place_of(page.0).unwrap();
        let (name, mut bytes) = (path.strip_prefix("memory:").unwrap().to_owned(), vec![0; 4096]);
        f.disk.open_cached(&name).unwrap().read_at(&mut bytes, offset).unwrap();
        f.disk.make_unreadable(&name, offset);
        (name, offset, bytes)
    };
    pages.into_iter().map(fail).collect()
}

/// The row is gone; its pages wait in a slot, which nobody else fails with.
#[test]
fn a_page_that_cannot_be_read_fails_nobody_else() {
    let f = fixture(64, 1);
    let bad = 0_u32.to_be_bytes();
    f.tree.insert(&f.waiter, &bad, &with_seed(0, 20_000)).unwrap();
    make_unreadable(&f, &[bad]);
    let used = f.alloc.used_pages(&f.waiter).unwrap();
    assert!(matches!(f.tree.get(&f.waiter, &bad, &mut Vec::new()), Err(Error::Io { .. })));
    assert!(f.tree.delete(&f.waiter, &bad).unwrap());
    for round in 0..300 {
        f.tree.upsert(&f.waiter, b"other", &with_seed(round, 5000)).unwrap();
    }
    f.tree.delete(&f.waiter, b"other").unwrap();
    f.tree.check(&f.waiter).unwrap();
    assert_eq!(f.alloc.used_pages(&f.waiter).unwrap(), used);
}

/// Then there is an error, and no wait for what will never come; until one of them can be read again.
#[test]
fn all_slots_may_have_pages_that_cannot_be_read() {
    let f = fixture(64, 1);
    let bad: Vec<_> = (0..SLOTS as u32).map(u32::to_be_bytes).collect();
    for key in &bad {
        f.tree.insert(&f.waiter, key, &with_seed(0, 5000)).unwrap();
    }
    let pages = make_unreadable(&f, &bad);
    bad.iter().for_each(|key| assert!(f.tree.delete(&f.waiter, key).unwrap()));
    std::thread::scope(|scope| {
        for writer in 0..4_u32 {
            let tree = &f.tree;
            scope.spawn(move || {
                for round in 0..3 {
                    let (waiter, value) = (Waiter::background(), with_seed(round, 5000));
                    let failed = tree.upsert(&waiter, &writer.to_be_bytes(), &value);
                    assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
                }
            });
        }
    });
    let (name, offset, bytes) = &pages[SLOTS / 2];
    f.disk.open_cached(name).unwrap().write_at(bytes, *offset).unwrap();
    for round in 0..300 {
        f.tree.upsert(&f.waiter, b"other", &with_seed(round, 5000)).unwrap();
    }
}

/// A page of a value that has rotted, or been replaced by another's: an error, and no other row is the worse for it.
#[test]
fn a_foreign_page_is_noticed() {
    let f = fixture(64, 1);
    f.tree.insert(&f.waiter, b"a", &large(1, 9000)).unwrap();
    f.tree.insert(&f.waiter, b"b", &large(2, 9000)).unwrap();
    let first = first_page(&f, b"a");
    f.pool
        .change(&f.waiter, &Need::records(64), |mut mtr| {
            let mut page = f.pool.optimistic(first)?.exclusive()?;
            mtr.apply(&mut page, &crate::page::op::Op::Write { at: 32, bytes: &[7; 8] });
            mtr.commit(&mut [&mut page]);
            Ok(())
        })
        .unwrap();
    let mut out = Vec::new();
    assert!(
        matches!(f.tree.get(&f.waiter, b"a", &mut out), Err(Error::CorruptPage { page, .. }) if page == first.0)
    );
    assert!(matches!(f.tree.check(&f.waiter), Err(Error::CorruptPage { .. })));
    let scan = f.tree.scan(&f.waiter, Bound::Unbounded, Bound::Unbounded, |_, _| ControlFlow::Continue(()));
    assert!(matches!(scan, Err(Error::CorruptPage { .. })));
    assert!(f.tree.get(&f.waiter, b"b", &mut out).unwrap());
    // The row can be replaced; the foreign page is not freed.
    let used = f.alloc.used_pages(&f.waiter).unwrap();
    assert!(!f.tree.upsert(&f.waiter, b"a", b"mended").unwrap());
    assert_eq!(f.alloc.used_pages(&f.waiter).unwrap(), used);
    assert!(f.tree.get(&f.waiter, b"a", &mut out).unwrap());
    f.tree.check(&f.waiter).unwrap();
}
