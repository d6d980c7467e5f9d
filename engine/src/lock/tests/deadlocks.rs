//! Which transaction ends a deadlock, and how much a search looks at.

use super::super::*;
use super::bench::{Bench, is, key, still};
use crate::background::Wake;

fn circle(bench: &Bench, n: u64) -> Vec<Wait> {
    let name = |owner: u64| (owner % n).to_be_bytes();
    (0..n).for_each(|owner| bench.granted(owner, &name(owner), LockMode::Exclusive));
    (0..n).map(|owner| bench.waits(owner, &name(owner + 1), LockMode::Shared)).collect()
}

#[test]
fn circles_of_any_length_end_with_the_youngest() {
    for n in [2, 3, 100] {
        let bench = Bench::new();
        let waits = circle(&bench, n);
        assert_eq!(bench.deadlocks(), 1);
        let youngest = waits.len() - 1;
        assert!(is(&waits[youngest], Verdict::Deadlock), "all else is equal");
        assert!(waits[..youngest].iter().all(still));
        bench.table.release_all(TxnId(n - 1));
        assert!(is(&waits[youngest - 1], Verdict::Granted));
        bench.drained(0..n);
    }
}

#[test]
fn the_victim_is_the_one_that_loses_the_least() {
    let bench = Bench::new();
    bench.granted(1, b"a", LockMode::Exclusive);
    bench.granted(2, b"b", LockMode::Exclusive);
    bench.granted(2, b"c", LockMode::Exclusive);
    let waiting = bench.waits(1, b"b", LockMode::Exclusive);
    let last = bench.waits(2, b"a", LockMode::Exclusive);
    assert!(is(&waiting, Verdict::Deadlock) && still(&last));
    bench.table.release_all(TxnId(1));
    assert!(is(&last, Verdict::Granted));
    bench.drained([1, 2]);
}

#[test]
fn weight_counts_beside_locks() {
    let bench = Bench::new();
    bench.granted(1, b"a", LockMode::Exclusive);
    bench.granted(2, b"b", LockMode::Exclusive);
    bench.granted(2, b"c", LockMode::Exclusive);
    let request = Request { weight: 2, ..Request::new(TxnId(1), key(b"b"), LockMode::Exclusive) };
    let Begun::Waits(heavy) = bench.ask(&request) else { panic!("2 holds it") };
    let last = bench.waits(2, b"a", LockMode::Exclusive);
    assert!(still(&heavy) && is(&last, Verdict::Deadlock));
    bench.drained([1, 2]);
}

#[test]
fn two_readers_that_both_upgrade_are_a_deadlock() {
    let bench = Bench::new();
    bench.granted(1, b"a", LockMode::Shared);
    bench.granted(2, b"a", LockMode::Shared);
    let older = bench.waits(1, b"a", LockMode::Exclusive);
    let younger = bench.waits(2, b"a", LockMode::Exclusive);
    assert!(still(&older) && is(&younger, Verdict::Deadlock));
    bench.table.release_all(TxnId(2));
    assert!(is(&older, Verdict::Granted));
    bench.drained([1, 2]);
}

#[test]
fn two_that_insert_into_a_gap_both_have_are_a_deadlock() {
    let bench = Bench::new();
    bench.granted(1, b"k", LockMode::Gap);
    bench.granted(2, b"k", LockMode::Gap);
    let older = bench.waits(1, b"k", LockMode::InsertIntention);
    let younger = bench.waits(2, b"k", LockMode::InsertIntention);
    assert!(still(&older) && is(&younger, Verdict::Deadlock));
    bench.drained([1, 2]);
}

/// 3 waits for 1 only since 2, a writer, is ahead of it in the queue of a row that 1 reads.
#[test]
fn a_deadlock_through_one_ahead_in_the_queue_is_found() {
    let bench = Bench::new();
    bench.granted(1, b"a", LockMode::Shared);
    bench.granted(3, b"b", LockMode::Exclusive);
    let writer = bench.waits(2, b"a", LockMode::Exclusive);
    let reader = bench.waits(3, b"a", LockMode::Shared);
    let closing = bench.waits(1, b"b", LockMode::Exclusive);
    // The one in between loses nothing: it holds nothing.
    assert!(is(&writer, Verdict::Deadlock));
    assert!(is(&reader, Verdict::Granted) && still(&closing));
    bench.drained(1..=3);
}

/// One request may close several circles.
#[test]
fn every_circle_is_ended() {
    let bench = Bench::new();
    bench.granted(1, b"a", LockMode::Exclusive);
    bench.granted(1, b"b", LockMode::Exclusive);
    bench.granted(1, b"c", LockMode::Exclusive);
    bench.granted(2, b"s", LockMode::Shared);
    bench.granted(3, b"s", LockMode::Shared);
    let waits = [bench.waits(2, b"a", LockMode::Shared), bench.waits(3, b"b", LockMode::Shared)];
    let closing = bench.waits(1, b"s", LockMode::Exclusive);
    assert!(waits.iter().all(|wait| is(wait, Verdict::Deadlock)));
    assert!(still(&closing));
    bench.drained(1..=3);
}

#[test]
fn a_long_search_is_left_to_the_detector() {
    let bench = Bench::with_steps(10);
    let waits = circle(&bench, 50);
    assert_eq!(bench.deadlocks(), 0);
    assert_eq!(bench.table.stats().searches_deferred, 1);
    let mut detector = Detector::new(&bench.table);
    let now = Instant::now();
    assert!(matches!(detector.step(now), Wake::At(then) if then > now));
    assert!(is(&waits[49], Verdict::Deadlock));
    assert_eq!(bench.deadlocks(), 1);
    bench.drained(0..50);
}

#[test]
fn who_waits_for_one_that_runs_is_in_no_deadlock() {
    let bench = Bench::new();
    // A chain over two rows, a crowd at each, and readers of the same row in both.
    bench.granted(0, b"end", LockMode::Exclusive);
    bench.granted(1, b"hot", LockMode::Exclusive);
    let chain = bench.waits(1, b"end", LockMode::Exclusive);
    let crowd: Vec<Wait> = (2..300)
        .map(|owner| {
            bench.granted(owner, b"read", LockMode::Shared);
            bench.waits_as(
                owner,
                b"hot",
                [LockMode::Exclusive, LockMode::Shared][owner as usize % 2],
                Class::First,
            )
        })
        .collect();
    let writer = bench.waits(1000, b"read", LockMode::Exclusive);
    assert_eq!(bench.deadlocks(), 0);
    assert!(still(&chain) && still(&writer) && crowd.iter().all(still));
    bench.drained((0..300).chain([1000]));
}

/// A search from the end of a long queue takes as many steps as there are holders.
#[test]
fn a_hot_row_costs_a_search_two_steps() {
    let bench = Bench::with_steps(2);
    bench.granted(0, b"hot", LockMode::Exclusive);
    for owner in 1..=1000u64 {
        bench.granted(owner, &owner.to_be_bytes(), LockMode::Exclusive);
        drop(bench.waits(owner, b"hot", LockMode::Exclusive));
    }
    assert_eq!(bench.table.stats().searches_deferred, 0);
    bench.drained(0..=1000);
}
