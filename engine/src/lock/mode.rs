//! Lock modes, and which of them wait for which.
//!
//! A row lock has up to two parts: the record, and the gap before it, which is the open interval between the record
//! and the one that precedes it in the tree. An insert into a gap requests an insert intention on the record behind the
//! gap. `-`: the request waits; `+`: it does not.
//!
//! | requested \ held by another | shared | exclusive | gap | next-key shared | next-key exclusive | insert intention |
//! |---|---|---|---|---|---|---|
//! | shared | + | - | + | + | - | + |
//! | exclusive | - | - | + | - | - | + |
//! | gap | + | + | + | + | + | + |
//! | next-key shared | + | - | + | + | - | + |
//! | next-key exclusive | - | - | + | - | - | + |
//! | insert intention | + | + | - | - | - | + |
//!
//! Gap locks only keep inserts away, so they agree with each other. No request waits for an insert intention, so the table
//! never keeps a granted one.

use std::ops::BitOrAssign;

/// The mode of a lock. The module's head has the table of conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LockMode {
    /// The record, for reading: others may read it too.
    Shared,
    /// The record, for changing it.
    Exclusive,
    /// The gap before the record: others may not insert there.
    Gap,
    /// [`LockMode::Shared`] and [`LockMode::Gap`] in one.
    NextKeyShared,
    /// [`LockMode::Exclusive`] and [`LockMode::Gap`] in one.
    NextKeyExclusive,
    /// Leave to insert into the gap before the record. It is a question, not a possession: once granted, it is not
    /// held, and it holds for as long as the caller's page latch keeps others from locking the gap.
    InsertIntention,
}

impl LockMode {
    /// All modes, in the order of the table.
    pub const ALL: [LockMode; 6] = [
        LockMode::Shared,
        LockMode::Exclusive,
        LockMode::Gap,
        LockMode::NextKeyShared,
        LockMode::NextKeyExclusive,
        LockMode::InsertIntention,
    ];

    /// Whether a request for `self` waits while another transaction holds `held`.
    pub fn waits_for(self, held: LockMode) -> bool {
        self.parts().wait_for(held.parts())
    }

    pub(super) fn parts(self) -> Parts {
        match self {
            LockMode::Shared => Parts::SHARED,
            LockMode::Exclusive => Parts::EXCLUSIVE,
            LockMode::Gap => Parts::GAP,
            LockMode::NextKeyShared => Parts(Parts::SHARED.0 | Parts::GAP.0),
            LockMode::NextKeyExclusive => Parts(Parts::EXCLUSIVE.0 | Parts::GAP.0),
            LockMode::InsertIntention => Parts::INSERT,
        }
    }
}

const READ: u8 = 1;
const WRITE: u8 = 2;
const GAP: u8 = 4;
const INSERT: u8 = 8;

/// A set of parts of a lock, held or requested. Sets may be united, and a union waits (and is waited for) exactly
/// where one of its members does; that is what lets a whole queue be judged by one union.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Parts(u8);

impl Parts {
    pub(super) const NONE: Parts = Parts(0);
    pub(super) const SHARED: Parts = Parts(READ);
    /// Includes the right to read, so that it covers `SHARED`.
    pub(super) const EXCLUSIVE: Parts = Parts(READ | WRITE);
    pub(super) const GAP: Parts = Parts(GAP);
    pub(super) const INSERT: Parts = Parts(INSERT);
    /// The bits one by one, as counters are kept of them.
    pub(super) const EACH: [Parts; 4] = [Parts(READ), Parts(WRITE), Parts(GAP), Parts(INSERT)];

    pub(super) fn is_none(self) -> bool {
        self.0 == 0
    }

    pub(super) fn has(self, part: Parts) -> bool {
        self.0 & part.0 == part.0
    }

    /// What a lock keeps of a request that was granted.
    pub(super) fn held(self) -> Parts {
        Parts(self.0 & !INSERT)
    }

    /// The parts without the record.
    pub(super) fn without_record(self) -> Parts {
        Parts(self.0 & !(READ | WRITE))
    }

    /// The parts to request at the end of a tree, where there is a gap and no record.
    pub(super) fn at_supremum(self) -> Parts {
        match self.has(Parts::GAP) {
            true => self.without_record(),
            false => self,
        }
    }

    /// The parts that an owner of `held` still needs. An upgrade requests the whole record again, so that it waits for
    /// readers, and conflicts like any exclusive request.
    pub(super) fn missing(self, held: Parts) -> Parts {
        let missing = self.0 & !held.0;
        match missing & WRITE != 0 {
            true => Parts(missing | READ),
            false => Parts(missing),
        }
    }

    /// Whether a request for `self` waits for another's `held`: the table above as a function.
    pub(super) fn wait_for(self, held: Parts) -> bool {
        let both = |asked: u8, held_part: u8| self.0 & asked != 0 && held.0 & held_part != 0;
        both(WRITE, READ) || both(READ, WRITE) || both(INSERT, GAP)
    }
}

impl BitOrAssign for Parts {
    fn bitor_assign(&mut self, other: Parts) {
        self.0 |= other.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_of_the_table() {
        let rows = ["+-++-+", "--+--+", "++++++", "+-++-+", "--+--+", "++---+"];
        for (asked, row) in LockMode::ALL.into_iter().zip(rows) {
            for (held, cell) in LockMode::ALL.into_iter().zip(row.chars()) {
                assert_eq!(asked.waits_for(held), cell == '-', "{asked:?} asked for, {held:?} held");
            }
        }
    }

    #[test]
    fn a_union_waits_where_a_member_does() {
        for [a, b, held] in all_triples() {
            let mut union = a.parts();
            union |= b.parts();
            assert_eq!(union.wait_for(held.parts()), a.waits_for(held) || b.waits_for(held));
            assert_eq!(held.parts().wait_for(union), held.waits_for(a) || held.waits_for(b));
        }
    }

    #[test]
    fn a_holder_asks_only_for_what_is_missing() {
        let missing = |asked: LockMode, held: LockMode| asked.parts().missing(held.parts());
        assert!(missing(LockMode::Shared, LockMode::Exclusive).is_none());
        assert!(missing(LockMode::Gap, LockMode::NextKeyShared).is_none());
        assert_eq!(missing(LockMode::NextKeyExclusive, LockMode::Exclusive), Parts::GAP);
        assert_eq!(missing(LockMode::NextKeyExclusive, LockMode::NextKeyShared), Parts::EXCLUSIVE);
        assert_eq!(missing(LockMode::InsertIntention, LockMode::NextKeyExclusive), Parts::INSERT);
    }

    #[test]
    fn the_supremum_has_a_gap_and_no_record() {
        assert_eq!(LockMode::NextKeyExclusive.parts().at_supremum(), Parts::GAP);
        assert_eq!(LockMode::InsertIntention.parts().at_supremum(), Parts::INSERT);
    }

    fn all_triples() -> impl Iterator<Item = [LockMode; 3]> {
        let all = LockMode::ALL;
        all.into_iter().flat_map(move |a| {
            all.into_iter().flat_map(move |b| all.into_iter().map(move |held| [a, b, held]))
        })
    }
}
