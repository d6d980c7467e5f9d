//! Trees that are queues: rows come at the end, and go at the beginning.

use super::*;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many went.
pub(super) fn truncate_before(f: &Fixture, end: &[u8]) -> usize {
    let mut dropped = 0;
    f.tree.truncate_before(&f.waiter, end, |rows| dropped += rows as usize).unwrap();
    dropped
}

#[test]
fn a_queue_keeps_the_pages_of_what_is_in_it() {
    let f = fixture(256, 2);
    let mut dropped = 0;
    let mut model = BTreeMap::new();
    for id in 0..30_000_u32 {
        assert!(f.tree.insert(&f.waiter, &id.to_be_bytes(), &[1; 90]).unwrap());
        model.insert(id.to_be_bytes().to_vec(), vec![1; 90]);
        if id % 300 == 299 {
            dropped += truncate_before(&f, &(id - 200).to_be_bytes());
            assert!((id as usize - 240..=id as usize - 200).contains(&dropped), "{dropped} of {id}");
            let left = model.split_off(&(dropped as u32).to_be_bytes()[..]);
            model = left;
        }
        if id % 6000 == 5999 {
            f.check_against(&model);
            assert!(reachable(&f) < 20, "{} pages", reachable(&f));
        }
    }
    truncate_before(&f, &u32::MAX.to_be_bytes());
    f.check_against(&BTreeMap::new());
    assert_eq!(reachable(&f), 1);
}

/// A tree of three levels, whose leftmost inner node loses all its children but one, again and again.
#[test]
fn all_levels_go() {
    let f = fixture(64, 2);
    let mut model = BTreeMap::new();
    for id in 0..4000_u32 {
        let key = [&id.to_be_bytes()[..], &[7; 500]].concat();
        assert!(f.tree.insert(&f.waiter, &key, &[2; 200]).unwrap());
        model.insert(key, vec![2; 200]);
    }
    assert!(f.tree.check(&f.waiter).unwrap().height >= 3);
    for end in (0..=4000_u32).step_by(100) {
        let dropped = truncate_before(&f, &end.to_be_bytes());
        (0..dropped).for_each(|_| drop(model.pop_first()));
        assert!(model.keys().filter(|key| key[..4] < end.to_be_bytes()[..]).count() <= 8);
        f.check_against(&model);
    }
    assert_eq!(reachable(&f), 1);
}

/// As a merge leaves it that found no room, or failed.
#[test]
fn an_empty_leaf_behind_the_first_stops_nothing() {
    let f = fixture(64, 2);
    for id in 0..200_u32 {
        assert!(f.tree.insert(&f.waiter, &id.to_be_bytes(), &[1; 100]).unwrap());
    }
    let fence = |key: &[u8]| {
        let mut upper = Vec::new();
        let look = || {
            let leaf = f.tree.leaf(key)?;
            leaf.checked(leaf.node().upper_into(&mut upper))
        };
        assert!(f.pool.retry(&f.waiter, look).unwrap(), "there are more leaves");
        upper
    };
    let (second, third) = (fence(&[]), fence(&fence(&[])));
    fence(&third);
    for (key, _) in f.rows(Bound::Included(&second), Bound::Excluded(&third)) {
        let removed = f.tree.remove(&f.waiter, &key, &|_| true, &mut None).unwrap();
        assert!(matches!(removed, Removed::Done { .. }));
    }
    truncate_before(&f, &u32::MAX.to_be_bytes());
    f.check_against(&BTreeMap::new());
    assert_eq!(reachable(&f), 1);
}

#[test]
fn large_values_take_their_pages_along() {
    let f = fixture(64, 2);
    for id in 0..200_u32 {
        let value = vec![3; if id % 7 == 0 { 10_000 } else { 100 }];
        assert!(f.tree.insert(&f.waiter, &id.to_be_bytes(), &value).unwrap());
    }
    assert_eq!(truncate_before(&f, &u32::MAX.to_be_bytes()), 200);
    f.check_against(&BTreeMap::new());
}

/// One drops what others have done with, while they append and remove some of their own.
#[test]
fn appends_go_on_meanwhile() {
    const THREADS: u32 = 4;
    const ROWS: u32 = 3000;
    let f = fixture(64, 2);
    let (tree, next) = (&f.tree, AtomicU32::new(0));
    // The least row that a thread may still be writing, or remove.
    let held: [AtomicU32; THREADS as usize] = Default::default();
    let (mut dropped, mut removed) = (0, 0);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (next, held) = (&next, &held[thread as usize]);
                scope.spawn(move || {
                    let waiter = Waiter::background();
                    let mut removed = 0;
                    for n in 0..ROWS {
                        held.store(next.load(Ordering::SeqCst), Ordering::SeqCst);
                        let id = next.fetch_add(1, Ordering::SeqCst);
                        assert!(tree.insert(&waiter, &id.to_be_bytes(), &[4; 120]).unwrap());
                        if n % 5 == 0 {
                            assert!(tree.delete(&waiter, &id.to_be_bytes()).unwrap());
                            removed += 1;
                        }
                    }
                    held.store(u32::MAX, Ordering::SeqCst);
                    removed
                })
            })
            .collect();
        while held.iter().any(|held| held.load(Ordering::SeqCst) != u32::MAX) {
            let end = held.iter().map(|held| held.load(Ordering::SeqCst)).min().unwrap();
            dropped += truncate_before(&f, &end.to_be_bytes());
        }
        removed = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
    });
    dropped += truncate_before(&f, &u32::MAX.to_be_bytes());
    assert_eq!(dropped + removed, (THREADS * ROWS) as usize);
    f.check_against(&BTreeMap::new());
}
