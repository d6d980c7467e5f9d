//! Which requests are granted, which ones queue, and in which order the queue is served.

use std::sync::atomic::{AtomicBool, Ordering};

use super::super::*;
use super::bench::{Bench, PROMOTE_AFTER, is, key, still};

#[test]
fn a_lock_is_handed_on_in_order() {
    let bench = Bench::new();
    bench.granted(1, b"a", LockMode::Exclusive);
    let readers = [2, 3].map(|owner| bench.waits(owner, b"a", LockMode::Shared));
    let writer = bench.waits(4, b"a", LockMode::Exclusive);
    let late = bench.waits(5, b"a", LockMode::Shared);
    bench.table.release_all(TxnId(1));
    assert!(readers.iter().all(|wait| is(wait, Verdict::Granted)));
    assert!(still(&writer) && still(&late), "a reader does not overtake the writer");
    bench.table.release_all(TxnId(2));
    assert!(still(&writer));
    bench.table.release_all(TxnId(3));
    assert!(is(&writer, Verdict::Granted) && still(&late));
    bench.drained(1..=5);
}

#[test]
fn a_newcomer_does_not_overtake_a_queue_it_agrees_with_the_holders_of() {
    let bench = Bench::new();
    bench.granted(1, b"a", LockMode::Shared);
    let writer = bench.waits(2, b"a", LockMode::Exclusive);
    let reader = bench.waits(3, b"a", LockMode::Shared);
    // The first class does.
    let request = Request { class: Class::First, ..Request::new(TxnId(4), key(b"a"), LockMode::Shared) };
    assert!(matches!(bench.ask(&request), Begun::Granted(Granted::AtOnce)));
    assert!(still(&writer) && still(&reader));
    bench.drained(1..=4);
}

#[test]
fn the_first_class_goes_before_newcomers_until_they_have_waited_long() {
    let bench = Bench::new();
    bench.granted(1, b"a", LockMode::Exclusive);
    let old = bench.waits(2, b"a", LockMode::Exclusive);
    bench.now.set(bench.now.get() + PROMOTE_AFTER);
    let young = bench.waits(3, b"a", LockMode::Exclusive);
    let first = bench.waits_as(4, b"a", LockMode::Exclusive, Class::First);
    let second = bench.waits_as(5, b"a", LockMode::Exclusive, Class::First);
    let mut waits = [(2, &old), (4, &first), (5, &second), (3, &young)].into_iter();
    let mut holder = 1;
    while let Some((next, wait)) = waits.next() {
        bench.table.release_all(TxnId(holder));
        assert!(is(wait, Verdict::Granted), "{next} is next");
        assert!(waits.clone().all(|(_, wait)| still(wait)));
        holder = next;
    }
    bench.drained(1..=5);
}

#[test]
fn who_has_a_lock_gets_it_again() {
    let bench = Bench::new();
    bench.granted(1, b"a", LockMode::NextKeyExclusive);
    for mode in LockMode::ALL {
        bench.granted(1, b"a", mode);
        let held = bench.table.holds(TxnId(1), key(b"a"), mode);
        assert_eq!(held, mode != LockMode::InsertIntention);
    }
    assert_eq!(bench.table.stats().locks, 1);
    assert_eq!(bench.table.release_all(TxnId(1)), 1);
    bench.drained([1]);
}

#[test]
fn an_upgrade_waits_for_readers_and_goes_before_writers() {
    let bench = Bench::new();
    bench.granted(1, b"a", LockMode::Shared);
    bench.granted(2, b"a", LockMode::Shared);
    let writer = bench.waits(3, b"a", LockMode::Exclusive);
    let upgrade = bench.waits(1, b"a", LockMode::Exclusive);
    bench.table.release_all(TxnId(2));
    assert!(is(&upgrade, Verdict::Granted) && still(&writer));
    assert!(bench.table.holds(TxnId(1), key(b"a"), LockMode::Exclusive));
    assert_eq!(bench.deadlocks(), 0);
    bench.drained(1..=3);
}

/// An owner that reads a row and then writes it holds the row exclusively, whatever waits there, beside its id in the row.
#[test]
fn an_upgrade_by_writing_is_held_exclusively() {
    let bench = Bench::new();
    bench.granted(1, b"a", LockMode::Shared);
    let writer = bench.waits(2, b"a", LockMode::Exclusive);
    let reader = bench.waits(3, b"a", LockMode::Shared);
    assert!(bench.table.claim(&Request::new(TxnId(1), key(b"a"), LockMode::Exclusive)));
    assert!(bench.table.cancel(TxnId(2)) && is(&writer, Verdict::Cancelled));
    assert!(still(&reader), "nobody reads beside a writer");
    bench.table.release_all(TxnId(1));
    assert!(is(&reader, Verdict::Granted));
    bench.drained(1..=3);
}

#[test]
fn an_insert_waits_for_gaps_of_others_and_leaves_nothing() {
    let bench = Bench::new();
    bench.granted(1, b"k", LockMode::InsertIntention);
    assert_eq!(bench.table.stats().locks, 0);
    bench.granted(1, b"k", LockMode::Gap);
    bench.granted(2, b"k", LockMode::NextKeyShared);
    bench.granted(1, b"k", LockMode::Shared);
    let insert = bench.waits(1, b"k", LockMode::InsertIntention);
    assert!(bench.table.release(TxnId(2), key(b"k")));
    assert!(is(&insert, Verdict::Granted));
    assert!(!bench.table.release(TxnId(2), key(b"k")));
    bench.drained([1, 2]);
}

#[test]
fn the_supremum_is_a_gap_and_a_tree_of_its_own() {
    let bench = Bench::new();
    let end = |tree| LockKey { tree, key: None };
    let ask = |owner, key, mode| bench.ask(&Request::new(TxnId(owner), key, mode));
    for owner in [1, 2] {
        assert!(matches!(ask(owner, end(7), LockMode::NextKeyExclusive), Begun::Granted(_)));
    }
    assert!(matches!(ask(3, end(8), LockMode::InsertIntention), Begun::Granted(_)));
    assert!(matches!(ask(3, LockKey { tree: 7, key: Some(b"") }, LockMode::Exclusive), Begun::Granted(_)));
    assert!(matches!(ask(3, end(7), LockMode::InsertIntention), Begun::Waits(_)));
    bench.drained(1..=3);
}

#[test]
fn a_cancelled_waiter_in_the_middle_lets_those_behind_it_go() {
    let bench = Bench::new();
    bench.granted(1, b"a", LockMode::Shared);
    let writer = bench.waits(2, b"a", LockMode::Exclusive);
    let reader = bench.waits(3, b"a", LockMode::Shared);
    assert!(bench.table.cancel(TxnId(2)));
    assert!(is(&writer, Verdict::Cancelled) && is(&reader, Verdict::Granted));
    assert!(!bench.table.cancel(TxnId(2)) && !bench.table.cancel(TxnId(3)));
    assert_eq!(bench.table.stats().cancels, 1);
    bench.drained(1..=3);
}

#[test]
fn no_time_is_no_wait() {
    let bench = Bench::new();
    bench.granted(1, b"a", LockMode::Exclusive);
    let request =
        Request { timeout: Some(Duration::ZERO), ..Request::new(TxnId(2), key(b"a"), LockMode::Shared) };
    assert!(!bench.table.would_grant(&request));
    let waiter = Waiter::background();
    assert_eq!(bench.table.lock(request, &waiter), Err(LockError::Timeout));
    let request = Request { timeout: Some(Duration::from_millis(5)), ..request };
    assert_eq!(bench.table.lock(request, &waiter), Err(LockError::Timeout));
    let stats = bench.table.stats();
    assert_eq!((stats.refused, stats.timeouts, stats.waits, stats.locks), (1, 1, 1, 1));
    bench.drained([1, 2]);
}

#[test]
fn a_kill_before_the_wait_is_not_lost() {
    let bench = Bench::new();
    bench.granted(1, b"a", LockMode::Exclusive);
    let killed = AtomicBool::new(false);
    let request = Request { killed: Some(&killed), ..Request::new(TxnId(2), key(b"a"), LockMode::Shared) };
    killed.store(true, Ordering::Relaxed);
    assert!(!bench.table.cancel(TxnId(2)));
    assert_eq!(bench.table.lock(request, &Waiter::background()), Err(LockError::Cancelled));
    bench.drained([1, 2]);
}

#[test]
fn an_implicit_lock_is_made_explicit_while_its_writer_is_active() {
    let bench = Bench::new();
    assert!(bench.table.make_explicit(TxnId(1), key(b"a"), || true));
    assert!(bench.table.make_explicit(TxnId(1), key(b"a"), || unreachable!("it has it")));
    assert!(!bench.table.make_explicit(TxnId(2), key(b"b"), || false));
    let wait = bench.waits(3, b"a", LockMode::Shared);
    assert_eq!(bench.table.stats().locks, 1);
    assert_eq!(bench.table.release_all(TxnId(1)), 1);
    assert!(is(&wait, Verdict::Granted));
    assert_eq!(bench.table.release_all(TxnId(2)), 0);
    bench.drained(1..=3);
}

/// `n` owners, each with a lock that the one before waits for.
#[test]
fn one_shard_will_do() {
    let config = LockConfig { shards: 1, owner_slots: 0, ..LockConfig::default() };
    let table = LockTable::new(config);
    let waiter = Waiter::background();
    for name in 0..100u64 {
        let name = name.to_be_bytes();
        let request = Request::new(TxnId(1), key(&name), LockMode::Exclusive);
        assert_eq!(table.lock(request, &waiter), Ok(Granted::AtOnce));
    }
    assert_eq!(table.release_all(TxnId(1)), 100);
    assert_eq!(table.stats().locks, 0);
}
