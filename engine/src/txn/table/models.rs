//! Every interleaving of a few transactions that reuse each other's slots, and of threads that read their state.

use loom::sync::Arc;
use loom::thread;

use super::*;

/// Two slots: each third transaction takes one from another.
fn table() -> Arc<TxnTable> {
    Arc::new(TxnTable::with_slots(2, TxnId(0), &[]))
}

fn begin(table: &TxnTable) -> TxnId {
    table.begin(|_| Ok(())).unwrap()
}

/// Two transactions; the second reuses the slot of the table's first.
fn two_others(table: &TxnTable) {
    (0..2).for_each(|_| table.end(begin(table)));
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut checker = loom::model::Builder::new();
    checker.preemption_bound = Some(5);
    checker.check(model);
}

#[test]
fn a_snapshot_never_sees_what_ended_later_whoever_has_its_slot() {
    check(|| {
        let table = table();
        let first = begin(&table);
        let before = table.snapshot(0);
        let of_writer = Arc::clone(&table);
        let writer = thread::spawn(move || {
            of_writer.end(first);
            two_others(&of_writer);
        });
        for _ in 0..2 {
            assert!(!table.is_visible(first, before.commit));
        }
        let ended = !table.is_active(first);
        let after = table.snapshot(1);
        assert!(!ended || table.is_visible(first, after.commit));
        writer.join().unwrap();
        assert!(!table.is_active(first) && !table.is_visible(first, before.commit));
        assert!(table.is_visible(first, table.snapshot(1).commit));
    });
}

#[test]
fn what_is_settled_while_slots_are_taken_is_what_all_see() {
    check(|| {
        let table = table();
        let first = begin(&table);
        let before = table.snapshot(0);
        table.end(first);
        let of_writer = Arc::clone(&table);
        let writer = thread::spawn(move || two_others(&of_writer));
        let oldest = table.settle();
        assert!(oldest.commit == before.commit && !table.is_visible(first, before.commit));
        drop((oldest, before));
        let oldest = table.settle();
        assert!(table.is_visible(first, oldest.commit) && !table.is_active(first));
        writer.join().unwrap();
        drop(oldest);
        drop(table.settle());
        assert_eq!(table.settled.load(Ordering::Relaxed), 3);
    });
}

#[test]
fn one_that_stays_open_while_its_slot_is_taken_is_active_to_its_end() {
    check(|| {
        let table = table();
        let open = begin(&table);
        let of_writer = Arc::clone(&table);
        let writer = thread::spawn(move || two_others(&of_writer));
        let before = table.snapshot(0);
        assert!(table.is_active(open));
        table.end(open);
        assert!(!table.is_active(open) && !table.is_visible(open, before.commit));
        assert!(table.is_visible(open, table.snapshot(0).commit));
        writer.join().unwrap();
        assert!(!table.is_active(open) && !table.is_visible(open, before.commit));
    });
}

/// Else read committed would see what a transaction has changed again before it ended.
#[test]
fn the_version_of_one_that_had_ended_before_it_was_read_is_its_last() {
    check(|| {
        let table = table();
        let first = begin(&table);
        let version = Arc::new(AtomicU64::new(1));
        let (of_writer, changed) = (Arc::clone(&table), Arc::clone(&version));
        let writer = thread::spawn(move || {
            changed.store(2, Ordering::Relaxed);
            of_writer.end(first);
            drop(of_writer.settle());
            two_others(&of_writer);
        });
        let before = table.ended();
        let read = version.load(Ordering::Relaxed);
        assert!(!table.had_ended(first, before) || read == 2);
        writer.join().unwrap();
        assert!(table.had_ended(first, table.ended()));
    });
}
