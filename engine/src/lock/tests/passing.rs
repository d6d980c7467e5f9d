//! Overtaking and passing: which owner has the lock, which one waits again, and that no deadlock stays hidden.

use std::sync::atomic::{AtomicBool, Ordering};

use super::super::*;
use super::bench::{Bench, is, key, still};

#[test]
fn who_runs_overtakes_one_that_has_not_woken_up() {
    let bench = Bench::new();
    bench.granted(1, b"a", LockMode::Exclusive);
    let (sleeper, next) =
        (bench.waits(2, b"a", LockMode::Exclusive), bench.waits(3, b"a", LockMode::Exclusive));
    sleeper.node.begin_sleep(false);
    bench.table.release_all(TxnId(1));
    assert!(is(&sleeper, Verdict::Granted));
    let reader =
        Request { timeout: Some(Duration::ZERO), ..Request::new(TxnId(5), key(b"a"), LockMode::Shared) };
    assert!(!bench.table.would_grant(&reader), "only who asks for all of it does");
    assert!(bench.table.claim(&Request::new(TxnId(4), key(b"a"), LockMode::Exclusive)));
    assert!(still(&sleeper) && !sleeper.node.accept());
    assert!(bench.table.holds(TxnId(4), key(b"a"), LockMode::Exclusive));
    // Its thread is awake by now: it is the next, and for good.
    bench.table.release_all(TxnId(4));
    assert!(is(&sleeper, Verdict::Granted) && still(&next));
    assert!(!bench.table.claim(&Request::new(TxnId(4), key(b"a"), LockMode::Exclusive)));
    assert!(sleeper.node.accept());
    bench.table.release_all(TxnId(2));
    assert!(is(&next, Verdict::Granted));
    assert_eq!(bench.table.stats().overtakes, 1);
    bench.drained(1..=5);
}

#[test]
fn who_was_overtaken_lets_others_pass_and_then_insists() {
    let bench = Bench::new();
    bench.granted(1, b"a", LockMode::Exclusive);
    let sleeper = bench.waits(2, b"a", LockMode::Exclusive);
    let runs = |owner| bench.table.claim(&Request::new(TxnId(owner), key(b"a"), LockMode::Exclusive));
    sleeper.node.begin_sleep(false);
    bench.table.release_all(TxnId(1));
    assert!(runs(3) && !sleeper.node.accept());
    sleeper.node.begin_to_let_pass();
    bench.table.release_all(TxnId(3));
    for owner in 4..8 {
        assert!(is(&sleeper, Verdict::Granted) && runs(owner), "it lets {owner} pass");
        assert_eq!(bench.table.release_all(TxnId(owner)), 0, "its id in the row is all it has");
    }
    sleeper.node.end_to_let_pass();
    assert!(sleeper.node.accept() && !runs(8), "it is not passed again");
    assert_eq!(bench.table.stats().overtakes, 5);
    bench.drained(1..=8);
}

/// 2 lets others pass on `a`, and 3 does.
fn passed() -> (Bench, Wait) {
    let bench = Bench::new();
    bench.granted(1, b"a", LockMode::Exclusive);
    let sleeper = bench.waits(2, b"a", LockMode::Exclusive);
    sleeper.node.begin_to_let_pass();
    bench.table.release_all(TxnId(1));
    assert!(is(&sleeper, Verdict::Granted));
    assert!(bench.table.claim(&Request::new(TxnId(3), key(b"a"), LockMode::Exclusive)));
    assert!(!bench.table.holds(TxnId(3), key(b"a"), LockMode::Exclusive));
    (bench, sleeper)
}

#[test]
fn who_is_passed_waits_again_once_others_wait_for_the_writer() {
    let (bench, sleeper) = passed();
    assert!(bench.table.make_explicit(TxnId(3), key(b"a"), || true));
    assert!(bench.table.holds(TxnId(3), key(b"a"), LockMode::Exclusive) && sleeper.node.lets_pass());
    let late = bench.waits(4, b"a", LockMode::Exclusive);
    bench.table.release_all(TxnId(3));
    assert!(is(&sleeper, Verdict::Granted) && still(&late), "it is the first still");
    bench.drained(1..=4);
}

#[test]
fn who_was_passed_and_runs_gives_way_and_insists() {
    let (bench, sleeper) = passed();
    assert!(sleeper.node.accept());
    let newcomer = bench.waits(4, b"a", LockMode::Exclusive);
    assert!(!bench.table.make_explicit(TxnId(3), key(b"a"), || false), "it has ended");
    assert!(bench.table.holds(TxnId(2), key(b"a"), LockMode::Exclusive));
    assert!(bench.table.make_explicit(TxnId(3), key(b"a"), || true));
    assert!(bench.table.holds(TxnId(3), key(b"a"), LockMode::Exclusive));
    assert!(!bench.table.holds(TxnId(2), key(b"a"), LockMode::Exclusive));
    let request = Request { insists: true, ..Request::new(TxnId(2), key(b"a"), LockMode::Exclusive) };
    let Begun::Waits(again) = bench.ask(&request) else { panic!("it has to wait") };
    again.node.begin_sleep(true);
    bench.table.release_all(TxnId(3));
    assert!(is(&again, Verdict::Granted) && still(&newcomer), "it goes before newcomers");
    assert!(!bench.table.claim(&Request::new(TxnId(5), key(b"a"), LockMode::Exclusive)));
    bench.drained(1..=5);
}

#[test]
fn a_deadlock_with_a_writer_that_has_passed_is_found_when_it_is_written_down() {
    let (bench, sleeper) = passed();
    bench.granted(5, b"b", LockMode::Exclusive);
    let writer = bench.waits_as(3, b"b", LockMode::Exclusive, Class::First);
    let other = bench.waits(5, b"a", LockMode::Shared);
    assert!(still(&writer) && still(&other), "nobody knows of the writer yet");
    assert!(sleeper.node.accept());
    assert!(bench.table.make_explicit(TxnId(3), key(b"a"), || true));
    assert_eq!(bench.deadlocks(), 1);
    assert!(is(&writer, Verdict::Deadlock) || is(&other, Verdict::Deadlock));
    bench.drained(1..=5);
}

#[test]
fn who_lets_others_pass_takes_a_lock_that_is_left_to_it() {
    let bench = Bench::new();
    bench.granted(1, b"a", LockMode::Exclusive);
    let sleeper = bench.waits(2, b"a", LockMode::Exclusive);
    sleeper.node.begin_sleep(false);
    bench.table.release_all(TxnId(1));
    assert!(bench.table.claim(&Request::new(TxnId(3), key(b"a"), LockMode::Exclusive)));
    sleeper.node.begin_to_let_pass();
    bench.table.release_all(TxnId(3));
    sleeper.node.end_to_let_pass();
    assert!(is(&sleeper, Verdict::Granted) && sleeper.node.accept());
    bench.drained(1..=3);
}

#[test]
fn where_others_come_soon_the_next_lets_them_pass_at_once() {
    let bench = Bench::new();
    let exclusive = |owner| Request::new(TxnId(owner), key(b"a"), LockMode::Exclusive);
    bench.granted(1, b"a", LockMode::Exclusive);
    let sleepers: Vec<_> = (2..=4).map(|owner| bench.waits(owner, b"a", LockMode::Exclusive)).collect();
    sleepers.iter().for_each(|sleeper| sleeper.node.begin_sleep(false));
    bench.table.release_all(TxnId(1));
    assert!(
        bench.table.claim(&exclusive(5)) && !sleepers[0].node.lets_pass(),
        "nothing was known of the lock"
    );
    bench.table.release_all(TxnId(5));
    assert!(sleepers[0].node.accept());
    bench.table.release_all(TxnId(2));
    assert!(bench.table.claim(&exclusive(6)), "the others wait for it");
    assert_eq!(bench.table.release_all(TxnId(6)), 0);
    assert!(sleepers[1].node.accept());
    bench.table.release_all(TxnId(3));
    // Nobody comes now.
    assert!(is(&sleepers[2], Verdict::Granted) && sleepers[2].node.accept());
    let last = bench.waits(8, b"a", LockMode::Exclusive);
    last.node.begin_sleep(false);
    bench.table.release_all(TxnId(4));
    assert!(bench.table.claim(&exclusive(7)) && bench.table.release_all(TxnId(7)) == 1, "it was taken over");
    bench.drained(1..=8);
}

#[test]
fn nobody_is_overtaken_after_it_has_accepted() {
    let bench = Bench::new();
    bench.granted(1, b"a", LockMode::Exclusive);
    let sleeper = bench.waits(2, b"a", LockMode::Exclusive);
    sleeper.node.begin_sleep(false);
    bench.table.release_all(TxnId(1));
    assert!(sleeper.node.accept());
    assert!(!bench.table.claim(&Request::new(TxnId(3), key(b"a"), LockMode::Exclusive)));
    bench.drained(1..=3);
}

/// A granted request does not wait, so a cancel finds no wait; but the grant may be revoked.
#[test]
fn a_kill_before_a_grant_is_taken_back_is_not_lost() {
    let bench = Bench::new();
    bench.granted(1, b"a", LockMode::Exclusive);
    let killed = AtomicBool::new(false);
    let request = Request { killed: Some(&killed), ..Request::new(TxnId(2), key(b"a"), LockMode::Exclusive) };
    let Begun::Waits(wait) = bench.ask(&request) else { panic!("1 holds it") };
    wait.node.begin_sleep(false);
    bench.table.release_all(TxnId(1));
    killed.store(true, Ordering::Relaxed);
    assert!(!bench.table.cancel(TxnId(2)));
    assert!(bench.table.claim(&Request::new(TxnId(3), key(b"a"), LockMode::Exclusive)));
    assert!(still(&wait) && !wait.node.accept());
    assert_eq!(bench.table.sleep(&request, &wait, Some(Instant::now()), true), Verdict::Cancelled);
    bench.drained(1..=3);
}

#[test]
fn who_lets_others_pass_does_not_wait_out_its_turn_for_nobody() {
    let (bench, sleeper) = passed();
    let end = Instant::now() + Duration::from_secs(3600);
    sleeper.node.let_pass(end);
    assert!(Instant::now() < end && sleeper.node.accept());
    bench.drained(1..=3);
}

/// What one has written are locks, too, though there is no object of them.
#[test]
fn who_has_something_that_others_may_wait_for_lets_nobody_pass() {
    let bench = Bench::new();
    bench.granted(1, b"a", LockMode::Exclusive);
    assert!(bench.waits(2, b"a", LockMode::Exclusive).lets_pass);
    bench.granted(3, b"b", LockMode::Exclusive);
    assert!(!bench.waits(3, b"a", LockMode::Exclusive).lets_pass);
    assert!(!bench.waits_as(4, b"a", LockMode::Exclusive, Class::First).lets_pass);
    let request = Request { weight: 1, ..Request::new(TxnId(5), key(b"a"), LockMode::Exclusive) };
    let Begun::Waits(heavy) = bench.ask(&request) else { panic!("1 holds it") };
    assert!(!heavy.lets_pass);
    bench.drained(1..=5);
}

#[test]
fn turns_are_shorter_where_many_wait() {
    let bench = Bench::new();
    let LockConfig { turn, turns_of_all, .. } = LockConfig::default();
    bench.granted(1, b"a", LockMode::Exclusive);
    let waits: Vec<Wait> = (2..4002).map(|owner| bench.waits(owner, b"a", LockMode::Exclusive)).collect();
    assert_eq!(bench.table.turn_of(&waits[0]), turns_of_all / 4001);
    waits[10..].iter().for_each(|wait| assert!(bench.table.cancel(wait.owner)));
    assert_eq!(bench.table.turn_of(&waits[0]), turn);
    bench.drained(1..4002);
}

/// 2 was passed by 3 on `a`, and ends without a look at the row. These wait behind it, and have the lock then; 3 has the row.
fn passed_and_left(others: &[(u64, LockMode)]) -> (Bench, Vec<Wait>) {
    let (bench, sleeper) = passed();
    let waits: Vec<_> = others.iter().map(|&(owner, mode)| bench.waits(owner, b"a", mode)).collect();
    assert!(sleeper.node.accept());
    bench.table.release_all(TxnId(2));
    (bench, waits)
}

#[test]
fn whoever_comes_after_one_that_was_passed_gives_way_as_it_would_have() {
    let (bench, waits) = passed_and_left(&[(4, LockMode::Shared), (5, LockMode::NextKeyShared)]);
    let writer = bench.waits(6, b"a", LockMode::Exclusive);
    let insert = bench.waits(7, b"a", LockMode::InsertIntention);
    assert!(waits.iter().all(|wait| is(wait, Verdict::Granted)));
    assert!(bench.table.make_explicit(TxnId(3), key(b"a"), || true));
    assert!(bench.table.holds(TxnId(3), key(b"a"), LockMode::Exclusive));
    assert!((4..=5).all(|owner| !bench.table.holds(TxnId(owner), key(b"a"), LockMode::Shared)));
    assert!(
        bench.table.holds(TxnId(5), key(b"a"), LockMode::Gap) && still(&insert),
        "it may have used the gap"
    );
    assert_eq!(bench.table.owners.locks(TxnId(4)), 0);
    let again = [4, 5].map(|owner| {
        let request = Request::new(TxnId(owner), key(b"a"), LockMode::Shared);
        match bench.ask(&Request { insists: true, ..request }) {
            Begun::Waits(wait) => wait,
            _ => panic!("3 has it"),
        }
    });
    bench.table.release_all(TxnId(3));
    assert!(again.iter().all(|wait| is(wait, Verdict::Granted)) && still(&writer));
    bench.drained(1..=7);
}

#[test]
fn a_deadlock_behind_one_that_was_passed_is_found_when_the_next_looks() {
    let (bench, reader) = passed_and_left(&[(4, LockMode::Shared)]);
    bench.granted(5, b"b", LockMode::Exclusive);
    let other = bench.waits(5, b"a", LockMode::Exclusive);
    let writer = bench.waits_as(3, b"b", LockMode::Exclusive, Class::First);
    assert!(
        is(&reader[0], Verdict::Granted) && still(&other) && still(&writer),
        "nobody knows of the writer yet"
    );
    assert!(bench.table.make_explicit(TxnId(3), key(b"a"), || true));
    assert_eq!(bench.deadlocks(), 1);
    assert!(is(&writer, Verdict::Deadlock) || is(&other, Verdict::Deadlock));
    bench.drained(1..=5);
}
