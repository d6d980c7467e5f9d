//! Histories with a power cut in the middle: what was acknowledged before is there afterwards, what was not is there
//! wholly or not at all, and with it all that it has seen.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use flifo_engine::Database;
use flifo_engine::disk::MemoryDisk;

use super::checker::{Anomaly, check};
use super::history::{Element, History, Key, Op, Txn};
use super::run::{Load, all_lists, append_and_read, config};
use super::{LEVELS, seeds};

/// What is known of the moment of the cut.
struct Cut {
    /// A transaction that had ended by then was acknowledged before the crash.
    acknowledged: u64,
    /// A transaction that began later came after the crash.
    over: u64,
}

#[test]
fn what_a_crash_leaves_is_a_history_cut_short() {
    let (mut kept, mut cut_off) = (0, 0);
    for seed in 0..seeds(4) {
        // Where updates may be lost, what is there at one moment need not be there later, and may come back.
        for level in LEVELS.iter().filter(|level| level.forbidden.contains(&Anomaly::LostUpdate)) {
            let mut disk = MemoryDisk::with_power_cuts(seed);
            let mut db = Database::create_on(Arc::new(disk.clone()), config(seed)).unwrap();
            let mut table = db.create_table("lists").unwrap();
            let mut before = History::default();
            for round in 0..3 {
                let load = Load::new(seed * 3 + round, level, before);
                let cut_at = 1 + (seed * 31 + round * 57) % 300;
                let mut cut = None;
                std::thread::scope(|scope| {
                    let all = scope.spawn(|| append_and_read(&db, &table, &load));
                    while load.begun.load(Ordering::SeqCst) < cut_at && !all.is_finished() {
                        std::thread::yield_now();
                    }
                    let acknowledged = load.clock.load(Ordering::SeqCst);
                    let found = disk.power_cut();
                    let over = load.clock.load(Ordering::SeqCst);
                    load.stop.store(true, Ordering::SeqCst);
                    cut = Some((found, Cut { acknowledged, over }));
                });
                let (found, cut) = cut.unwrap();
                let history = load.end(&db, &table);
                level.assert_allowed(&check(&history), seed);
                drop((table, db));
                disk = found;
                db = Database::open_on(Arc::new(disk.clone()), config(seed)).unwrap();
                table = db.table("lists").unwrap();
                let lists: BTreeMap<Key, Vec<Element>> = all_lists(&db, &table).into_iter().collect();
                let counts = check_cut(&history, &lists, &cut, seed);
                (kept, cut_off) = (kept + counts.0, cut_off + counts.1);
                before = History { initial: lists, txns: Vec::new() };
            }
            let report = db.check(&mut |_| {}).unwrap();
            assert!(report.is_sound(), "seed {seed}: {:?}", report.findings);
        }
    }
    println!("{kept} transactions were there after a cut, {cut_off} were not");
    assert!(kept > 0 && cut_off > 0, "the cuts were at one end only");
}

/// Checks what was found after the cut; how many transactions that had appended were there, and were not.
fn check_cut(history: &History, lists: &BTreeMap<Key, Vec<Element>>, cut: &Cut, seed: u64) -> (u64, u64) {
    let found: HashSet<(Key, Element)> =
        lists.iter().flat_map(|(key, list)| list.iter().map(|element| (*key, *element))).collect();
    let is_there = |key: Key, element| found.contains(&(key, element));
    let (mut kept, mut cut_off) = (0, 0);
    for txn in &history.txns {
        txn.discarded().for_each(|(key, element)| {
            assert!(!is_there(key, element), "seed {seed}: {element} was rolled back, and is there: {txn:?}");
        });
        let appended: Vec<bool> = appended(txn).map(|(key, element)| is_there(key, element)).collect();
        if !txn.committed || appended.is_empty() {
            continue;
        }
        let there = appended[0];
        assert!(appended.iter().all(|&each| each == there), "seed {seed}: a part is there of {txn:?}");
        assert!(
            there || txn.ended >= cut.acknowledged,
            "seed {seed}: it was acknowledged, and is gone: {txn:?}"
        );
        assert!(!there || txn.begun <= cut.over, "seed {seed}: it came later, and is there: {txn:?}");
        if there {
            kept += 1;
            seen(txn).for_each(|(key, element)| {
                assert!(is_there(key, element), "seed {seed}: it has seen {element}, which is gone: {txn:?}");
            });
        } else {
            cut_off += 1;
        }
    }
    (kept, cut_off)
}

fn appended(txn: &Txn) -> impl Iterator<Item = (Key, Element)> {
    txn.ops.iter().filter_map(|op| match op {
        Op::Append(key, _, element) => Some((*key, *element)),
        Op::Read(..) | Op::Undone(..) => None,
    })
}

/// What it has read of others.
fn seen(txn: &Txn) -> impl Iterator<Item = (Key, Element)> {
    let own: HashSet<(Key, Element)> = appended(txn).collect();
    txn.ops
        .iter()
        .flat_map(|op| {
            let (Op::Read(key, list) | Op::Append(key, list, _) | Op::Undone(key, list, _)) = op;
            list.iter().map(|element| (*key, *element)).collect::<Vec<_>>()
        })
        .filter(move |of| !own.contains(of))
}
