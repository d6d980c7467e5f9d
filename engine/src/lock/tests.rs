//! What one thread can see: queues, classes, deadlocks, who is looked at again.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::background::Wake;

const PROMOTE_AFTER: Duration = Duration::from_secs(1);

pub(super) fn key(name: &[u8]) -> LockKey<'_> {
    LockKey { tree: 1, key: Some(name) }
}

/// A table whose waits are nodes without threads.
pub(super) struct Bench {
    pub(super) table: Arc<LockTable>,
    now: std::cell::Cell<Instant>,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::with_steps(DEADLOCK_STEPS_MAX)
    }

    fn with_steps(deadlock_steps_max: usize) -> Self {
        let config = LockConfig { promote_after: PROMOTE_AFTER, deadlock_steps_max, ..LockConfig::default() };
        Bench { table: Arc::new(LockTable::new(config)), now: std::cell::Cell::new(Instant::now()) }
    }

    pub(super) fn ask(&self, request: &Request<'_>) -> Begun {
        let begun = self.table.begin(request, true, &|| self.now.get());
        if let Begun::Waits(wait) = &begun {
            self.table.look_for_deadlock(wait);
        }
        begun
    }

    pub(super) fn granted(&self, owner: u64, name: &[u8], mode: LockMode) {
        let begun = self.ask(&Request::new(TxnId(owner), key(name), mode));
        assert!(matches!(begun, Begun::Granted(_)), "{owner} does not get {mode:?}");
    }

    pub(super) fn waits(&self, owner: u64, name: &[u8], mode: LockMode) -> Wait {
        self.waits_as(owner, name, mode, Class::Newcomer)
    }

    pub(super) fn waits_as(&self, owner: u64, name: &[u8], mode: LockMode, class: Class) -> Wait {
        match self.ask(&Request { class, ..Request::new(TxnId(owner), key(name), mode) }) {
            Begun::Waits(wait) => wait,
            _ => panic!("{owner} does not wait for {mode:?}"),
        }
    }

    pub(super) fn deadlocks(&self) -> u64 {
        self.table.stats().deadlocks
    }

    /// The table is empty once these have released all they have.
    pub(super) fn drained(&self, owners: impl IntoIterator<Item = u64>) {
        for owner in owners {
            self.table.cancel(TxnId(owner));
            self.table.release_all(TxnId(owner));
        }
        let stats = self.table.stats();
        assert_eq!((stats.locks, stats.waiting), (0, 0));
        assert!(self.table.owners.is_empty());
    }
}

pub(super) fn is(wait: &Wait, verdict: Verdict) -> bool {
    wait.node.verdict() == Some(verdict)
}

pub(super) fn still(wait: &Wait) -> bool {
    wait.node.verdict().is_none()
}

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

/// Who reads a row and then writes it has it exclusively, whoever waits there, though its id in the row says so, too.
#[test]
fn an_upgrade_by_writing_is_written_down() {
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
