//! Transactions that have lost their slots in the table, though somebody does not see them yet or they have not ended.
//!
//! The table has slots for the last transactions only. A snapshot that is held for longer than these take, or a
//! transaction that stays open, stops nobody: the oldest transactions are moved here, to make room. The numbers of their
//! commits need not be kept. What may still be asked is whether one of the snapshots that were held then sees them, and
//! that is a read view, as InnoDB has one for each snapshot from its beginning: the ids that it does not see. As ranges
//! these are few: what was active when the snapshot was taken, and all that came after it.

use std::collections::BTreeMap;
use std::ops::Range;

use super::TxnId;
use super::table::CommitNo;

/// Later than each that there will ever be.
pub(super) const NO_SNAPSHOT: CommitNo = CommitNo(u64::MAX);

/// What is known of all transactions that have no slot. Of those that it does not mention, each is visible to all.
#[derive(Default)]
pub(super) struct Evicted {
    /// Those that had not ended when they were moved, with the number of their commit if they have since.
    open: BTreeMap<TxnId, Option<CommitNo>>,
    /// By the snapshots that were held while others were moved, if there is something that they do not see.
    views: BTreeMap<CommitNo, ReadView>,
    /// The last commit of those that had ended when they were moved.
    last: CommitNo,
}

/// Ids that a snapshot does not see: ranges in ascending order, apart from each other.
#[derive(Default)]
struct ReadView {
    unseen: Vec<Range<u64>>,
}

impl ReadView {
    /// None of `ids` is below one that was added before.
    fn add(&mut self, ids: Range<u64>) {
        match self.unseen.last_mut() {
            Some(last) if last.end == ids.start => last.end = ids.end,
            _ => self.unseen.push(ids),
        }
    }

    fn sees(&self, txn: TxnId) -> bool {
        let behind = self.unseen.partition_point(|range| range.end <= txn.0);
        self.unseen.get(behind).is_none_or(|range| txn.0 < range.start)
    }
}

impl Evicted {
    /// One of before the opening that a crash cut off.
    pub(super) fn add_unfinished(&mut self, txn: TxnId) {
        self.open.insert(txn, None);
    }

    /// Transactions from `from` on, with the numbers of their commits if they have ended. `held`: all snapshots that are
    /// held, ascending; who comes later sees all that have ended.
    pub(super) fn add(
        &mut self,
        from: TxnId,
        commits: impl Iterator<Item = Option<CommitNo>>,
        held: &[CommitNo],
    ) {
        // For each of the first snapshots, which do not see the transaction at hand: since which one.
        let mut unseen_since: Vec<u64> = Vec::new();
        let mut end = from.0;
        for (id, commit) in (from.0..).zip(commits) {
            end = id + 1;
            let Some(commit) = commit else {
                // What the views say of it does not matter: whoever looks finds it here first.
                self.open.insert(TxnId(id), None);
                continue;
            };
            self.last = self.last.max(commit);
            let blind = held.partition_point(|&snapshot| snapshot < commit);
            for (snapshot, since) in held.iter().zip(&unseen_since).skip(blind) {
                self.views.entry(*snapshot).or_default().add(*since..id);
            }
            unseen_since.resize(blind, id);
        }
        for (snapshot, since) in held.iter().zip(unseen_since) {
            self.views.entry(*snapshot).or_default().add(since..end);
        }
    }

    /// The transaction, which was open, has ended.
    pub(super) fn end(&mut self, txn: TxnId, commit: CommitNo) {
        self.open.insert(txn, Some(commit));
    }

    /// Whether the snapshot, which is held or is the newest, sees the transaction.
    pub(super) fn is_visible(&self, txn: TxnId, snapshot: CommitNo) -> bool {
        match self.open.get(&txn) {
            Some(commit) => commit.is_some_and(|commit| commit <= snapshot),
            None => self.views.get(&snapshot).is_none_or(|view| view.sees(txn)),
        }
    }

    /// Whether it mentions none.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.views.is_empty()
    }

    /// Snapshots from this one on see all that are here; [`NO_SNAPSHOT`] while some are open.
    pub(super) fn visible_from(&self) -> CommitNo {
        if self.open.is_empty() { self.last } else { NO_SNAPSHOT }
    }

    /// Forgets what nobody can ask for any more. `held`: all snapshots that are held, ascending; `oldest`: none that is, or
    /// will be, comes before it, but for those of who purges.
    pub(super) fn forget(&mut self, held: &[CommitNo], oldest: CommitNo) {
        self.open.retain(|_, commit| commit.is_none_or(|commit| commit > oldest));
        self.views.retain(|snapshot, _| held.binary_search(snapshot).is_ok());
    }

    /// The first transaction that somebody does not see.
    pub(super) fn first(&self) -> Option<TxnId> {
        let of_views =
            self.views.values().filter_map(|view| view.unseen.first()).map(|range| TxnId(range.start));
        of_views.chain(self.open.keys().next().copied()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_a_few_ranges() {
        let mut evicted = Evicted::default();
        let held = [CommitNo(3), CommitNo(5), CommitNo(100)];
        // 12 is open; 14 was active when snapshot 5 was taken, and ended after 15.
        let commits = [Some(2), Some(4), None, Some(3), Some(7), Some(5), Some(8)];
        evicted.add(TxnId(10), commits.into_iter().map(|commit| commit.map(CommitNo)), &held);
        evicted.add(TxnId(17), [Some(9), Some(10)].into_iter().map(|commit| commit.map(CommitNo)), &held);
        let seen_by = |evicted: &Evicted, snapshot| -> Vec<u64> {
            (10..19).filter(|&id| evicted.is_visible(TxnId(id), CommitNo(snapshot))).collect()
        };
        assert_eq!(seen_by(&evicted, 3), [10, 13]);
        assert_eq!(seen_by(&evicted, 5), [10, 11, 13, 15]);
        assert_eq!(seen_by(&evicted, 100), [10, 11, 13, 14, 15, 16, 17, 18]);
        assert_eq!(evicted.views.len(), 2);
        assert_eq!(evicted.views[&CommitNo(5)].unseen, [14..15, 16..19]);
        assert_eq!((evicted.first(), evicted.visible_from()), (Some(TxnId(11)), NO_SNAPSHOT));

        evicted.end(TxnId(12), CommitNo(101));
        evicted.forget(&held[1..], held[1]);
        assert_eq!(evicted.first(), Some(TxnId(12)));
        assert!(
            !evicted.is_visible(TxnId(12), CommitNo(100)) && evicted.is_visible(TxnId(12), CommitNo(101))
        );
        assert_eq!(seen_by(&evicted, 100), [10, 11, 13, 14, 15, 16, 17, 18]);
        evicted.forget(&[], CommitNo(101));
        assert_eq!((evicted.first(), evicted.visible_from()), (None, CommitNo(10)));
    }
}
