use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::*;
use crate::error::Error;

fn begin(table: &TxnTable) -> TxnId {
    table.begin(|_| Ok(())).unwrap()
}

#[test]
fn a_snapshot_sees_what_had_committed() {
    let table = TxnTable::new(TxnId(10), &[]);
    let (a, b) = (begin(&table), begin(&table));
    table.end(a);
    let snapshot = table.snapshot(0);
    table.end(b);
    assert!(table.is_visible(a, snapshot.commit) && !table.is_visible(b, snapshot.commit));
    assert!(table.is_visible(b, table.snapshot(1).commit));
    assert!(table.is_visible(TxnId(9), snapshot.commit), "it ended before the opening");
    assert_eq!(table.settle().commit, snapshot.commit);
    assert_eq!(table.settled.load(Ordering::Relaxed), b.0);
    drop(snapshot);
    drop(table.settle());
    assert_eq!(table.settled.load(Ordering::Relaxed), b.0 + 1);
    assert!(table.held_snapshots().is_empty());
}

#[test]
fn the_unfinished_are_active_until_they_end() {
    let table = TxnTable::new(TxnId(10), &[TxnId(7), TxnId(4)]);
    assert_eq!(table.active(), 2);
    for (id, active) in [(3, false), (4, true), (5, false), (7, true), (9, false), (10, true)] {
        assert_eq!(table.is_active(TxnId(id)), active, "{id}");
    }
    table.end(TxnId(4));
    table.end(TxnId(7));
    assert_eq!((table.active(), table.is_active(TxnId(4))), (0, false));
    assert_eq!(begin(&table), TxnId(10));
    // However long ago it began.
    let table = TxnTable::new(TxnId(1 << 40), &[TxnId(4)]);
    assert!(table.is_active(TxnId(4)) && !table.is_active(TxnId(5)));
}

#[test]
fn ids_are_reserved_before_they_are_given() {
    let table = TxnTable::new(TxnId(1), &[]);
    let mut reserved = 0;
    for n in 0..3 * RESERVED_IDS {
        let id = table
            .begin(|to| {
                reserved = to;
                Ok(())
            })
            .unwrap();
        assert!(id.0 == n + 1 && id.0 < reserved);
        table.end(id);
    }
    let failed = TxnTable::new(TxnId(1), &[]).begin(|_| Err(Error::Closed));
    assert!(matches!(failed, Err(Error::Closed)));
}

#[test]
fn an_old_snapshot_and_an_open_transaction_stop_nobody() {
    const OTHERS: usize = if cfg!(miri) { 300 } else { 10_000 };
    let table = TxnTable::with_slots(64, TxnId(0), &[]);
    let seen = begin(&table);
    table.end(seen);
    let (old, open) = (table.snapshot(0), begin(&table));
    for _ in 0..OTHERS {
        let id = begin(&table);
        assert!(table.is_active(id) && table.is_active(open));
        table.end(id);
        assert!(table.is_visible(seen, old.commit) && !table.is_visible(id, old.commit));
        assert!(table.is_visible(id, table.snapshot(1).commit));
        drop(table.settle());
    }
    assert_eq!(table.settled.load(Ordering::Relaxed), open.0);
    table.end(open);
    assert!(!table.is_visible(open, old.commit) && table.is_visible(open, table.snapshot(1).commit));
    drop(table.settle());
    assert_eq!(table.settled.load(Ordering::Relaxed), open.0, "the old snapshot does not see it");
    drop(old);
    drop(table.settle());
    assert_eq!(table.settled.load(Ordering::Relaxed), table.ids.next.load(Ordering::Relaxed));
    assert_ne!(table.evicted_visible_from.load(Ordering::Relaxed), NO_SNAPSHOT.0);
}

#[derive(Debug, Clone)]
enum Step {
    Begin,
    /// One of the active.
    End(prop::sample::Index),
    Hold(usize),
    /// One of the snapshots.
    LetGo(prop::sample::Index),
    Settle,
    /// As one of several who purge.
    SettleAndHold,
    /// One of these.
    EndPurge(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Begin),
        8 => any::<prop::sample::Index>().prop_map(Step::End),
        2 => (0..SHARDS).prop_map(Step::Hold),
        2 => any::<prop::sample::Index>().prop_map(Step::LetGo),
        1 => Just(Step::Settle),
        1 => Just(Step::SettleAndHold),
        1 => any::<prop::sample::Index>().prop_map(Step::EndPurge),
    ]
}

proptest! {
    /// Compares with a table that keeps the number of each commit forever.
    #[test]
    fn any_snapshot_sees_what_had_committed(
        unfinished in prop::collection::btree_set(0..20_u64, 0..4),
        steps in prop::collection::vec(step(), 1..300),
    ) {
        const FIRST: u64 = 20;
        let unfinished: Vec<_> = unfinished.into_iter().map(TxnId).collect();
        let table = TxnTable::with_slots(32, TxnId(FIRST), &unfinished);
        // By id, the number of its commit; those before the opening have the same as the first snapshot.
        let mut commits: Vec<Option<u64>> =
            (0..FIRST).map(|id| (!unfinished.contains(&TxnId(id))).then_some(FIRST_COMMIT)).collect();
        let (mut active, mut held, mut of_purge, mut now) = (unfinished, Vec::new(), Vec::new(), FIRST_COMMIT);
        for step in steps {
            match step {
                Step::Begin => {
                    active.push(begin(&table));
                    commits.push(None);
                }
                Step::End(which) if !active.is_empty() => {
                    let txn = active.swap_remove(which.index(active.len()));
                    table.end(txn);
                    now += 1;
                    commits[txn.0 as usize] = Some(now);
                }
                Step::Hold(lane) => held.push(table.snapshot(lane)),
                Step::LetGo(which) if !held.is_empty() => drop(held.swap_remove(which.index(held.len()))),
                Step::Settle => {
                    let oldest = held.iter().map(|snapshot| snapshot.commit.0).min().unwrap_or(now);
                    prop_assert_eq!(table.settle().commit, CommitNo(oldest));
                }
                Step::SettleAndHold => of_purge.push(table.settle()),
                Step::EndPurge(which) if !of_purge.is_empty() => drop(of_purge.swap_remove(which.index(of_purge.len()))),
                Step::End(_) | Step::LetGo(_) | Step::EndPurge(_) => continue,
            }
            prop_assert_eq!(table.active(), active.len() as u64);
            let latest = table.snapshot(0);
            for (id, commit) in (0..).map(TxnId).zip(&commits) {
                prop_assert_eq!(table.is_active(id), commit.is_none());
                for snapshot in held.iter().chain([&latest]).map(|snapshot| snapshot.commit) {
                    let sees = commit.is_some_and(|commit| commit <= snapshot.0);
                    prop_assert_eq!(table.is_visible(id, snapshot), sees, "{:?} {:?}", id, snapshot);
                    // Else purge would take from it what it does not see the newer version of.
                    let purges = of_purge.iter().any(|purge: &Snapshot<'_>| table.is_visible(id, purge.commit));
                    prop_assert!(sees || !purges, "{:?} {:?}", id, snapshot);
                }
            }
        }
    }
}

#[test]
fn snapshots_of_many_threads_stay_as_they_were() {
    const ROUNDS: usize = if cfg!(miri) { 60 } else { 20_000 };
    let table = TxnTable::with_slots(64, TxnId(1), &[]);
    let (table, done) = (&table, &AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|lane| {
                scope.spawn(move || {
                    // Each with one that it sees the last of, and one that it does not.
                    let mut kept: Vec<(Snapshot<'_>, TxnId, TxnId)> = Vec::new();
                    let mut last = begin(table);
                    table.end(last);
                    for round in 0..ROUNDS {
                        let before = table.snapshot(lane);
                        let id = begin(table);
                        assert!(table.is_active(id) && !table.is_visible(id, before.commit));
                        table.end(id);
                        assert!(!table.is_active(id) && !table.is_visible(id, before.commit));
                        assert!(table.is_visible(id, table.snapshot(lane).commit));
                        if round % (7 + lane) == 0 {
                            kept.push((before, last, id));
                        }
                        if kept.len() > 20 + 10 * lane {
                            kept.swap_remove(round % kept.len());
                        }
                        let (snapshot, seen, unseen) = &kept[round % kept.len()];
                        assert!(table.is_visible(*seen, snapshot.commit));
                        assert!(!table.is_visible(*unseen, snapshot.commit));
                        last = id;
                    }
                })
            })
            .collect();
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                drop(table.settle());
                std::thread::yield_now();
            }
        });
        // Whatever fails in one of them, the one that settles must end.
        let joined: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        joined.into_iter().for_each(|joined| joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    });
    drop(table.settle());
    assert_eq!(table.settled.load(Ordering::Relaxed), table.ids.next.load(Ordering::Relaxed));
}

/// Else those who purge beside each other, each beginning before the one before has ended, would never come any further.
#[test]
fn who_settles_goes_beyond_another_who_has_not_ended() {
    let table = TxnTable::new(TxnId(1), &[]);
    let first = table.settle();
    table.end(begin(&table));
    let second = table.settle();
    assert!(second.commit > first.commit);
    let user = table.snapshot(0);
    table.end(begin(&table));
    assert_eq!(table.settle().commit, user.commit);
}
