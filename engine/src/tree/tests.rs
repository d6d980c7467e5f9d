mod large;
mod put;
mod truncate;

use super::*;
use crate::buffer::{FlushConfig, PoolConfig};
use crate::disk::{AlignedBuffer, MemoryDisk, Tablespace};
use crate::error::Error;
use crate::metrics::{WaitReason, Waits};
use crate::redo::log_on;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

/// A tree on a simulated disk, with cleaners that stop when it goes.
struct Fixture {
    tree: Tree,
    alloc: Arc<PageAllocator>,
    pool: Arc<BufferPool>,
    waiter: Waiter,
    disk: MemoryDisk,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.pool.stop_background();
    }
}

fn fixture(frames: u64, instances: u32) -> Fixture {
    let disk = MemoryDisk::default();
    let log = log_on(&disk, Tablespace::create(&disk, 2, 4096).unwrap());
    let config =
        PoolConfig { bytes: frames * 4096, instances, doublewrite: true, flush: FlushConfig::default() };
    let pool = BufferPool::new(&disk, log, config, Waits::new()).unwrap();
    pool.start_background().unwrap();
    let waiter = Waiter::background();
    let alloc = PageAllocator::create(&pool, &waiter).unwrap();
    let tree = Tree::create(&pool, &alloc, &waiter).unwrap();
    Fixture { tree, alloc, pool, waiter, disk }
}

impl Fixture {
    fn rows(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut rows = Vec::new();
        self.tree
            .scan(&self.waiter, from, to, |key, value| {
                rows.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            })
            .unwrap();
        rows
    }

    fn check_against(&self, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
        let stats = self.tree.check(&self.waiter).unwrap();
        assert_eq!(stats.rows, model.len() as u64);
        let rows = self.rows(Bound::Unbounded, Bound::Unbounded);
        assert!(rows.iter().map(|(key, value)| (key, value)).eq(model), "the scan differs from the model");
        // Nothing leaks: page 0, the bitmap, the pending page, and the tree.
        let used = self.alloc.used_pages(&self.waiter).unwrap();
        assert_eq!(used, 3 + stats.leaf_pages + stats.inner_pages + stats.overflow_pages);
    }
}

/// A damaged bitmap may call a page free that the one who takes it has latched: to wait for that would never end.
#[test]
fn a_page_that_is_held_and_marked_free_is_damage() {
    let is_damage =
        |result: Result<()>| assert!(matches!(result, Err(Error::CorruptPage { .. })), "{result:?}");
    let f = fixture(64, 1);
    f.alloc.free(f.tree.root(), &f.waiter).unwrap();
    is_damage(f.tree.create_tree(&f.waiter, |_| (b"key".to_vec(), b"value".to_vec())).map(drop));
    let f = fixture(64, 1);
    f.alloc.free(crate::page::pending::PENDING_PAGE, &f.waiter).unwrap();
    is_damage(f.tree.upsert(&f.waiter, b"key", &[7; 4000]).map(drop));
}

#[derive(Debug, Clone)]
enum Op {
    Insert(Vec<u8>, Vec<u8>),
    Update(Vec<u8>, Vec<u8>),
    Upsert(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, usize),
    DropFront(Vec<u8>),
    Get(Vec<u8>),
    Scan(Vec<u8>, Vec<u8>, bool),
    InsertRow(u16, usize),
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(Vec::new()),
        proptest::collection::vec(0..4_u8, 0..6),
        (0..3_usize, 0..300_u16).prop_map(|(prefix, n)| {
            let mut key = vec![b'p'; [0, 40, 700][prefix]];
            key.extend(n.to_be_bytes());
            key
        }),
        (0..840_usize).prop_map(|len| vec![b'q'; len]),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    (0..=60_usize, any::<u8>(), 0..10_u8)
        .prop_map(|(len, byte, big)| vec![byte; if big == 0 { len * 2 } else { len }])
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (key(), value()).prop_map(|(key, value)| Op::Insert(key, value)),
        3 => (key(), value()).prop_map(|(key, value)| Op::Update(key, value)),
        3 => (key(), value()).prop_map(|(key, value)| Op::Upsert(key, value)),
        4 => key().prop_map(Op::Delete),
        1 => (key(), 1..80_usize).prop_map(|(key, rows)| Op::DeleteRange(key, rows)),
        1 => key().prop_map(Op::DropFront),
        2 => key().prop_map(Op::Get),
        1 => (key(), key(), any::<bool>()).prop_map(|(from, to, excluded)| Op::Scan(from, to, excluded)),
        2 => (any::<u16>(), 1..60_usize).prop_map(|(first, rows)| Op::InsertRow(first, rows)),
    ]
}

fn apply(f: &Fixture, model: &mut BTreeMap<Vec<u8>, Vec<u8>>, op: Op) {
    let (tree, waiter) = (&f.tree, &f.waiter);
    match op {
        Op::Insert(key, value) => {
            assert_eq!(tree.insert(waiter, &key, &value).unwrap(), !model.contains_key(&key));
            model.entry(key).or_insert(value);
        }
        Op::Update(key, value) => {
            assert_eq!(tree.update(waiter, &key, &value).unwrap(), model.contains_key(&key));
            model.entry(key).and_modify(|old| *old = value);
        }
        Op::Upsert(key, value) => {
            assert_eq!(tree.upsert(waiter, &key, &value).unwrap(), !model.contains_key(&key));
            model.insert(key, value);
        }
        Op::Delete(key) => {
            assert_eq!(tree.delete(waiter, &key).unwrap(), model.remove(&key).is_some());
        }
        Op::DeleteRange(from, rows) => {
            let keys: Vec<_> = model.range(from..).take(rows).map(|(key, _)| key.clone()).collect();
            for key in keys {
                assert!(tree.delete(waiter, &key).unwrap());
                model.remove(&key);
            }
        }
        Op::DropFront(end) => {
            let dropped = truncate::truncate_before(f, &end);
            let gone: Vec<_> = model.keys().take(dropped).cloned().collect();
            assert!(gone.iter().all(|key| *key < end));
            gone.iter().for_each(|key| drop(model.remove(key)));
            assert!(model.keys().all(|key| *key < end) <= model.is_empty(), "a leaf without any that stays");
        }
        Op::Get(key) => {
            let mut out = vec![1];
            assert_eq!(tree.get(waiter, &key, &mut out).unwrap(), model.contains_key(&key));
            assert_eq!(&out, model.get(&key).unwrap_or(&Vec::new()));
        }
        Op::Scan(a, b, excluded) => {
            let (from, to) = if a <= b { (a, b) } else { (b, a) };
            let expected = model.iter().filter(|(key, _)| match excluded {
                true => **key > from && **key < to,
                false => **key >= from && **key <= to,
            });
            let rows = match excluded {
                true => f.rows(Bound::Excluded(&from), Bound::Excluded(&to)),
                false => f.rows(Bound::Included(&from), Bound::Included(&to)),
            };
            assert!(rows.iter().map(|(key, value)| (key, value)).eq(expected));
        }
        Op::InsertRow(first, rows) => {
            for n in 0..rows {
                let key = (u32::from(first) + n as u32).to_be_bytes().to_vec();
                assert_eq!(tree.insert(waiter, &key, &[5; 100]).unwrap(), !model.contains_key(&key));
                model.entry(key).or_insert(vec![5; 100]);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn does_what_a_map_does(ops in proptest::collection::vec(op(), 1..250)) {
        let f = fixture(32, 2);
        let mut model = BTreeMap::new();
        for op in ops {
            apply(&f, &mut model, op);
        }
        f.check_against(&model);
        // Down to nothing, so that nodes of all kinds are merged.
        for key in model.keys() {
            assert!(f.tree.delete(&f.waiter, key).unwrap());
        }
        f.check_against(&BTreeMap::new());
    }

    #[test]
    fn a_bulk_load_does_what_inserts_do(
        rows in proptest::collection::btree_map(key(), value(), 0..600),
        fill in 0.5..1.0_f64,
    ) {
        let f = fixture(32, 2);
        let loaded = f.tree.bulk_load(&f.waiter, &rows, fill, |_| {}).unwrap();
        prop_assert_eq!(loaded, rows.len() as u64);
        f.check_against(&rows);
    }
}

#[test]
fn random_inserts_and_deletes_of_many_rows() {
    let f = fixture(48, 3);
    let mut model = BTreeMap::new();
    let mut x = 1_u32;
    for _ in 0..12_000 {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let key = (x >> 19).to_be_bytes().to_vec();
        let value = vec![x as u8; (x >> 8) as usize % 150];
        match x % 5 {
            0 | 1 => {
                f.tree.delete(&f.waiter, &key).unwrap();
                model.remove(&key);
            }
            _ => {
                f.tree.upsert(&f.waiter, &key, &value).unwrap();
                model.insert(key, value);
            }
        }
    }
    f.check_against(&model);
    assert!(f.pool.stats().evictions > 0, "the pool is meant to be too small");
    let keys: Vec<_> = model.keys().cloned().collect();
    for (index, key) in keys.iter().enumerate() {
        assert!(f.tree.delete(&f.waiter, key).unwrap());
        model.remove(key);
        if index % 1000 == 0 {
            f.check_against(&model);
        }
    }
    f.check_against(&model);
    assert_eq!(f.tree.check(&f.waiter).unwrap().height, 1);
}

#[test]
fn ascending_inserts_fill_their_pages() {
    let f = fixture(256, 2);
    for id in 0..5000_u32 {
        assert!(f.tree.insert(&f.waiter, &id.to_be_bytes(), &[1; 90]).unwrap());
    }
    let stats = f.tree.check(&f.waiter).unwrap();
    let fill = stats.leaf_bytes_used as f64 / (stats.leaf_pages * 4096) as f64;
    assert!(fill > 0.9, "{fill}");
}

/// Threads on a pool of a tenth of the data, each with keys of its own and some that all share.
#[test]
fn many_threads_on_a_small_pool() {
    const THREADS: u32 = 8;
    const KEYS: u32 = 600;
    let f = fixture(64, 2);
    let tree = &f.tree;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let waiter = Waiter::background();
                let mut out = Vec::new();
                for n in 0..KEYS {
                    // Neighbours of other threads' keys, so that they meet in leaves and splits.
                    let key = (n * THREADS + thread).to_be_bytes();
                    assert!(tree.insert(&waiter, &key, &[thread as u8; 300]).unwrap());
                    tree.upsert(&waiter, b"shared", &n.to_be_bytes()).unwrap();
                    assert!(tree.get(&waiter, &key, &mut out).unwrap());
                    assert_eq!(out, [thread as u8; 300]);
                    if n % 3 == 2 {
                        let key = ((n - 1) * THREADS + thread).to_be_bytes();
                        assert!(tree.delete(&waiter, &key).unwrap());
                    }
                    if n % 3 == 1 {
                        let key = ((n - 1) * THREADS + thread).to_be_bytes();
                        assert!(tree.update(&waiter, &key, &[thread as u8; 310]).unwrap());
                    }
                    if n % 100 == 0 {
                        let mut last = Vec::new();
                        tree.scan(&waiter, Bound::Unbounded, Bound::Unbounded, |key, _| {
                            assert!(*last < *key || last.is_empty(), "out of order");
                            last = key.to_vec();
                            ControlFlow::Continue(())
                        })
                        .unwrap();
                    }
                }
            });
        }
    });
    let mut model = BTreeMap::from([(b"shared".to_vec(), (KEYS - 1).to_be_bytes().to_vec())]);
    for (n, thread) in (0..KEYS).flat_map(|n| (0..THREADS).map(move |thread| (n, thread))) {
        match n % 3 {
            0 if n + 1 < KEYS => {
                drop(model.insert((n * THREADS + thread).to_be_bytes().to_vec(), vec![thread as u8; 310]))
            }
            0 | 2 => {
                drop(model.insert((n * THREADS + thread).to_be_bytes().to_vec(), vec![thread as u8; 300]))
            }
            _ => {}
        }
    }
    let last = f.rows(Bound::Included(b"shared"), Bound::Unbounded).pop().unwrap().1;
    model.insert(b"shared".to_vec(), last);
    f.check_against(&model);
    assert!(f.pool.stats().evictions > 0);
}

#[test]
fn bulk_load_refuses_what_it_must_and_leaves_nothing() {
    let f = fixture(64, 2);
    let unsorted = (0..500_u32).chain([3]).map(|id| (id.to_be_bytes(), [0; 200]));
    let error = f.tree.bulk_load(&f.waiter, unsorted, 1.0, |_| {}).unwrap_err();
    assert!(matches!(error, Error::Unsorted { row: 500 }));
    f.check_against(&BTreeMap::new());
    let error = f.tree.bulk_load(&f.waiter, [(vec![1; 2000], [])], 1.0, |_| {}).unwrap_err();
    assert!(matches!(error, Error::KeyTooLarge { size: 2000, .. }), "{error}");
    f.tree.insert(&f.waiter, b"k", b"v").unwrap();
    let error = f.tree.bulk_load(&f.waiter, [(b"a", b"b")], 1.0, |_| {}).unwrap_err();
    assert!(matches!(error, Error::TreeNotEmpty));
    f.check_against(&BTreeMap::from([(b"k".to_vec(), b"v".to_vec())]));
}

/// A root that was just raised has no slots: all rows lie in its one child.
#[test]
fn bulk_load_does_not_take_a_raised_root_for_an_empty_one() {
    let f = fixture(64, 2);
    let mut rows = 0;
    let loaded = f.tree.bulk_load_from(
        &f.waiter,
        1.0,
        |_| {},
        |key, value| {
            rows += 1;
            if rows == 1 {
                key.push(b'a');
                value.push(b'b');
                return Ok(true);
            }
            assert!(f.tree.insert(&f.waiter, b"k", b"v")?);
            f.tree.split(&f.waiter, b"k", 0)?;
            Ok(false)
        },
    );
    assert!(matches!(loaded, Err(Error::TreeNotEmpty)), "{loaded:?}");
    f.check_against(&BTreeMap::from([(b"k".to_vec(), b"v".to_vec())]));
}

#[test]
fn bulk_load_tells_its_progress_and_felling_frees_all_but_the_root() {
    let f = fixture(64, 2);
    let (mut told, rows) = (Vec::new(), (0..5000_u32).map(|id| (id.to_be_bytes(), [7; 100])));
    assert_eq!(f.tree.bulk_load(&f.waiter, rows, 0.9, |rows| told.push(rows)).unwrap(), 5000);
    assert!(told.len() > 5 && told.is_sorted() && told.last() == Some(&5000));
    assert_eq!(f.tree.check(&f.waiter).unwrap().rows, 5000);
    f.tree.free_nodes(&f.waiter).unwrap();
    assert_eq!(f.alloc.used_pages(&f.waiter).unwrap(), 4);
    f.check_against(&BTreeMap::new());
    // It is an ordinary tree, and one whose rows refer to others.
    let row = |root: PageNo| (root.0.to_be_bytes().to_vec(), b"root".to_vec());
    let other = f.tree.create_tree(&f.waiter, row).unwrap().unwrap();
    other.insert(&f.waiter, b"k", b"v").unwrap();
    assert!(f.tree.create_tree(&f.waiter, |_| row(other.root())).unwrap().is_none());
    assert_eq!(f.alloc.used_pages(&f.waiter).unwrap(), 5);
    other.free_nodes(&f.waiter).unwrap();
    f.tree.drop_tree(&f.waiter, &row(other.root()).0, other.root()).unwrap();
    assert_eq!(f.alloc.used_pages(&f.waiter).unwrap(), 4);
    f.check_against(&BTreeMap::new());
}

/// Pages that can be reached from the root.
fn reachable(f: &Fixture) -> u64 {
    let (mut to_do, mut pages) = (vec![f.tree.root()], 0);
    while let Some(page) = to_do.pop() {
        pages += 1;
        let children = f.pool.retry(&f.waiter, || {
            let guard = f.pool.optimistic(page)?.shared()?;
            let (node, inner) = (guard.node(), guard.node().level().unwrap() > 0);
            let children = (0..=node.slots().unwrap()).filter(|_| inner).map(|at| node.child(at).unwrap());
            Ok(children.collect::<Vec<_>>())
        });
        to_do.extend(children.unwrap());
    }
    pages
}

/// After every step, the pages in use are the reachable ones, and the rest can be freed.
#[test]
fn every_step_of_felling_leaves_a_tree_that_can_be_felled() {
    let f = fixture(64, 2);
    // Long keys, so that there are more levels.
    let rows = (0..600_u32).map(|id| ([&[b'k'; 400][..], &id.to_be_bytes()].concat(), [7; 200]));
    f.tree.bulk_load(&f.waiter, rows, 0.9, |_| {}).unwrap();
    let stats = f.tree.check(&f.waiter).unwrap();
    assert!(stats.height > 2, "{stats:?}");
    let mut steps = 0;
    while f.tree.free_step(&f.waiter).unwrap() {
        steps += 1;
        assert_eq!(f.alloc.used_pages(&f.waiter).unwrap(), 3 + reachable(&f));
    }
    assert!((2..stats.pages()).contains(&steps), "{steps}");
    f.check_against(&BTreeMap::new());
    // Once more does nothing.
    f.tree.free_nodes(&f.waiter).unwrap();
    assert_eq!(f.alloc.used_pages(&f.waiter).unwrap(), 4);
}

#[test]
fn a_root_is_freed_with_the_row_that_tells_of_it() {
    let f = fixture(64, 1);
    let row = |root: PageNo| (b"to be dropped".to_vec(), root.0.to_be_bytes().to_vec());
    let other = f.tree.create_tree(&f.waiter, row).unwrap().unwrap();
    let free = |key: &[u8], root| f.tree.drop_tree(&f.waiter, key, root);
    free(b"another", other.root()).unwrap();
    assert_eq!(f.alloc.used_pages(&f.waiter).unwrap(), 5);
    free(b"to be dropped", other.root()).unwrap();
    free(b"to be dropped", other.root()).unwrap();
    f.check_against(&BTreeMap::new());
    // Neither a page that is free can be freed, nor one that no tree has.
    f.tree.insert(&f.waiter, b"rotten", b"").unwrap();
    for page in [other.root(), PageNo(0), PageNo(1), PageNo(2)] {
        assert!(matches!(free(b"rotten", page), Err(Error::CorruptPage { .. })), "{page:?}");
    }
}

#[test]
fn entries_of_the_largest_size_split_well() {
    let f = fixture(64, 1);
    let max = crate::page::node::entry_bytes_max(4096);
    let mut model = BTreeMap::new();
    for n in 0..60_u8 {
        let (mut key, value) =
            (vec![n.wrapping_mul(37); max - usize::from(n % 3)], vec![n; usize::from(n % 3)]);
        key[max - 5] = n;
        assert!(f.tree.insert(&f.waiter, &key, &value).unwrap());
        model.insert(key, value);
    }
    f.check_against(&model);
    assert!(matches!(f.tree.insert(&f.waiter, &vec![0; max + 1], b""), Err(Error::KeyTooLarge { .. })));
    for key in model.keys() {
        assert!(f.tree.delete(&f.waiter, key).unwrap());
    }
    f.check_against(&BTreeMap::new());
}

/// What a merge reads may have rotted; the row is gone all the same.
#[test]
fn a_row_is_removed_though_its_leaf_cannot_be_merged() {
    let f = fixture(16, 1);
    for id in 0..2000_u32 {
        assert!(f.tree.insert(&f.waiter, &id.to_be_bytes(), &[1; 100]).unwrap());
    }
    let first_leaf = || {
        let look = || {
            let (leaf, mut next) = (f.tree.leaf(&[])?, Vec::new());
            leaf.checked(leaf.node().upper_into(&mut next))?;
            Ok((leaf.checked(leaf.node().used_bytes())?, next))
        };
        f.pool.retry(&f.waiter, look).unwrap()
    };
    let (full, next) = first_leaf();
    let mut ids = 0_u32..;
    let mut delete = || {
        let key = ids.next().unwrap().to_be_bytes();
        let deleted = f.tree.delete(&f.waiter, &key);
        (key, deleted)
    };
    assert!(delete().1.unwrap());
    let row_bytes = full - first_leaf().0;
    while first_leaf().0 - row_bytes >= 4096 / 4 {
        assert!(delete().1.unwrap());
    }
    let page = f.pool.retry(&f.waiter, || Ok(f.tree.leaf(&next)?.page())).unwrap();
    f.pool.flush_all(&f.waiter).unwrap();
    let mut image = AlignedBuffer::new(4096);
    f.pool.space().read(page.0, image.bytes_mut()).unwrap();
    image.bytes_mut()[2000] ^= 1;
    f.pool.space().write(page.0, image.bytes()).unwrap();
    // The others drive it out of the pool.
    let from = 1000_u32.to_be_bytes();
    (0..3).for_each(|_| assert_eq!(f.rows(Bound::Included(&from), Bound::Unbounded).len(), 1000));
    let found = f.tree.get(&f.waiter, &next, &mut Vec::new());
    assert!(matches!(found, Err(Error::CorruptPage { page: found, .. }) if found == page.0), "{found:?}");

    let (key, deleted) = delete();
    assert!(matches!(deleted, Ok(true)), "{deleted:?}");
    assert!(first_leaf().0 < 4096 / 4, "it was meant to be merged");
    assert!(!f.tree.get(&f.waiter, &key, &mut Vec::new()).unwrap());
}

/// A scan's callback may use the tree, even scan.
#[test]
fn a_scan_holds_nothing_while_it_gives_rows() {
    let f = fixture(64, 1);
    for id in 0..300_u32 {
        f.tree.insert(&f.waiter, &id.to_be_bytes(), &[1; 50]).unwrap();
    }
    let mut seen = 0;
    f.tree
        .scan(&f.waiter, Bound::Unbounded, Bound::Unbounded, |key, _| {
            assert_eq!(crate::buffer::latch::held(), 0);
            assert!(f.tree.update(&f.waiter, key, &[2; 60]).unwrap());
            assert_eq!(f.rows(Bound::Included(key), Bound::Included(key)).len(), 1);
            seen += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(seen, 300);
}

/// The leaf that a scan has found ahead is split, merged or emptied before the scan comes to it.
#[test]
fn a_scan_sees_what_became_of_the_rows_ahead() {
    let f = fixture(64, 2);
    for id in 0..2000_u32 {
        f.tree.insert(&f.waiter, &(2 * id).to_be_bytes(), &[1; 100]).unwrap();
    }
    let (mut seen, mut changed) = (Vec::new(), Vec::new());
    f.tree
        .scan(&f.waiter, Bound::Unbounded, Bound::Unbounded, |key, _| {
            let id = u32::from_be_bytes(key.try_into().unwrap());
            seen.push(id);
            // Far enough not to be in this leaf, of some 37 rows.
            if id % 200 == 0 && id < 3600 {
                changed.push(id + 100..id + 200);
                for id in id + 100..id + 200 {
                    match id % 2 {
                        0 => drop(f.tree.delete(&f.waiter, &id.to_be_bytes()).unwrap()),
                        _ => drop(f.tree.insert(&f.waiter, &id.to_be_bytes(), &[2; 150]).unwrap()),
                    }
                }
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(changed.len() > 10);
    let is_there = |id: &u32| changed.iter().any(|range| range.contains(id)) == (id % 2 == 1);
    assert!((0..4000).filter(is_there).eq(seen));
    f.check_against(&f.rows(Bound::Unbounded, Bound::Unbounded).into_iter().collect());
}
