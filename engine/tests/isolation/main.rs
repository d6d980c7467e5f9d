//! Isolation, checked by histories: threads append to a few lists and read them, in transactions that go on at the same
//! time; what they saw tells in which orders the transactions can have happened, and what each level forbids must not be
//! found. What a level allows must be found now and then, or the check sees nothing.
//!
//! `FLIFO_SEEDS` says how many histories of each kind.

#[path = "../common/mod.rs"]
mod common;

mod checker;
mod crash;
mod history;
mod run;

use std::sync::Arc;

use checker::{Anomaly, Found, check};
use flifo_engine::disk::MemoryDisk;
use flifo_engine::{Database, Isolation};
use history::History;
use run::{Appends, Load, append_and_read};

/// What a level promises.
pub(crate) struct Level {
    pub(crate) isolation: Isolation,
    pub(crate) appends: Appends,
    /// Never found.
    pub(crate) forbidden: &'static [Anomaly],
    /// Found in some history.
    pub(crate) expected: &'static [Anomaly],
}

use Anomaly::*;

/// Every level that there is, and what is forbidden at it.
pub(crate) const LEVELS: &[Level] = &[
    Level {
        isolation: Isolation::ReadCommitted,
        appends: Appends::Plain,
        forbidden: &[Garbage, Internal, G0, G1a, G1b, G1c, StaleRead],
        expected: &[LostUpdate],
    },
    Level {
        isolation: Isolation::ReadCommitted,
        appends: Appends::ForUpdate,
        forbidden: &[Garbage, Internal, G0, G1a, G1b, G1c, StaleRead, LostUpdate],
        expected: &[NonRepeatable, GSingle],
    },
    Level {
        isolation: Isolation::RepeatableRead,
        appends: Appends::Plain,
        forbidden: SNAPSHOT,
        expected: &[G2Item],
    },
    Level {
        isolation: Isolation::RepeatableRead,
        appends: Appends::ForUpdate,
        forbidden: SNAPSHOT,
        expected: &[G2Item],
    },
    Level { isolation: Isolation::Serializable, appends: Appends::Plain, forbidden: ALL, expected: &[] },
    Level { isolation: Isolation::Serializable, appends: Appends::ForUpdate, forbidden: ALL, expected: &[] },
];

/// Serializable: none.
const ALL: &[Anomaly] = &[
    Garbage,
    Internal,
    G0,
    G1a,
    G1b,
    G1c,
    StaleRead,
    LostUpdate,
    NonRepeatable,
    GSingle,
    GNonadjacent,
    G2Item,
];

/// Snapshot isolation: all but write skew.
const SNAPSHOT: &[Anomaly] =
    &[Garbage, Internal, G0, G1a, G1b, G1c, StaleRead, LostUpdate, NonRepeatable, GSingle, GNonadjacent];

fn seeds(default: u64) -> u64 {
    std::env::var("FLIFO_SEEDS").map_or(default, |seeds| seeds.parse().expect("a number"))
}

impl Level {
    fn name(&self) -> String {
        format!("{:?}, appends {:?}", self.isolation, self.appends)
    }

    /// Fails if a history has what the level forbids.
    pub(crate) fn assert_allowed(&self, found: &Found, seed: u64) {
        for anomaly in self.forbidden {
            let example = found.get(anomaly);
            assert!(example.is_none(), "{}, seed {seed}: {anomaly:?}: {}", self.name(), example.unwrap());
        }
    }
}

#[test]
fn histories_have_what_their_level_allows_and_nothing_else() {
    for level in LEVELS {
        let (mut met, mut seed, least) = (Found::new(), 0, seeds(6));
        let (mut committed, mut aborted) = (0, 0);
        while seed < least || level.expected.iter().any(|anomaly| !met.contains_key(anomaly)) {
            assert!(seed < least + 100, "{}: of {:?} only {met:?}", level.name(), level.expected);
            let db = Database::create_on(Arc::new(MemoryDisk::default()), run::config(seed)).unwrap();
            let table = db.create_table("lists").unwrap();
            let load = Load::new(seed, level, History::default());
            append_and_read(&db, &table, &load);
            let history = load.end(&db, &table);
            let of_outcome = |wanted| history.txns.iter().filter(|txn| txn.committed == wanted).count();
            (committed, aborted) = (committed + of_outcome(true), aborted + of_outcome(false));
            let found = check(&history);
            level.assert_allowed(&found, seed);
            met.extend(found);
            seed += 1;
        }
        println!(
            "{}: {seed} histories, {committed} commits, {aborted} rollbacks, {:?}",
            level.name(),
            met.keys()
        );
        assert!(committed > aborted / 10, "{}: hardly anything was committed", level.name());
    }
}
