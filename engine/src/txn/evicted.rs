//! Transactions evicted from the table: their slots were reused while they were active or invisible to a snapshot.
//!
//! The table has slots for the latest transactions only. A snapshot that is held for longer than that, or a transaction
//! that stays open, does not block new ones: the oldest transactions move here. Their commit numbers are not needed any
//! more, only whether each snapshot held at that time sees them. That is a read view, as InnoDB has one for each
//! snapshot from its beginning: the ids that the snapshot does not see. These form few ranges: the transactions active
//! when the snapshot was taken, and all later ones.

use std::collections::BTreeMap;
use std::ops::Range;

use super::TxnId;
use super::table::CommitNo;

/// Later than every commit.
pub(super) const NO_SNAPSHOT: CommitNo = CommitNo(u64::MAX);

/// The transactions without a slot. A transaction that is not listed is visible to every snapshot.
#[derive(Default)]
pub(super) struct Evicted {
    /// Transactions that were active when they were moved, with the number of their commit if they have ended since.
    open: BTreeMap<TxnId, Option<CommitNo>>,
    /// By snapshot: the snapshots held at a move, if there are ids that they do not see.
    views: BTreeMap<CommitNo, ReadView>,
    /// The last commit of the transactions that had ended when they were moved.
    last: CommitNo,
}

/// Ids that a snapshot does not see: ranges in ascending order, apart from each other.
#[derive(Default)]
struct ReadView {
    unseen: Vec<Range<u64>>,
}

impl ReadView {
    /// Adds `ids`, which are not below any range added before.
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
    /// Adds a transaction from before the opening, which a crash interrupted.
    pub(super) fn add_unfinished(&mut self, txn: TxnId) {
        self.open.insert(txn, None);
    }

    /// Adds transactions from `from` on, with the numbers of their commits if they have ended. `held`: all held
    /// snapshots, ascending; later snapshots see all that have ended.
    pub(super) fn add(
        &mut self,
        from: TxnId,
        commits: impl Iterator<Item = Option<CommitNo>>,
        held: &[CommitNo],
    ) {
        // The first id of the open range of each of the first snapshots, which do not see the current transaction.
        let mut unseen_since: Vec<u64> = Vec::new();
        let mut end = from.0;
        for (id, commit) in (from.0..).zip(commits) {
            end = id + 1;
            let Some(commit) = commit else {
                // The views may say anything of it: a lookup finds it here first.
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

    /// Records the end of a transaction that was open.
    pub(super) fn end(&mut self, txn: TxnId, commit: CommitNo) {
        self.open.insert(txn, Some(commit));
    }

    /// Whether the snapshot, which is held or the newest, sees the transaction.
    pub(super) fn is_visible(&self, txn: TxnId, snapshot: CommitNo) -> bool {
        match self.open.get(&txn) {
            Some(commit) => commit.is_some_and(|commit| commit <= snapshot),
            None => self.views.get(&snapshot).is_none_or(|view| view.sees(txn)),
        }
    }

    /// Whether no transaction is listed.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.views.is_empty()
    }

    /// Snapshots from this one on see all transactions here; [`NO_SNAPSHOT`] while some are open.
    pub(super) fn visible_from(&self) -> CommitNo {
        if self.open.is_empty() { self.last } else { NO_SNAPSHOT }
    }

    /// Removes what no snapshot needs. `held`: all held snapshots, ascending; `oldest`: a lower bound on every present
    /// and future snapshot except those of purge.
    pub(super) fn forget(&mut self, held: &[CommitNo], oldest: CommitNo) {
        self.open.retain(|_, commit| commit.is_none_or(|commit| commit > oldest));
        self.views.retain(|snapshot, _| held.binary_search(snapshot).is_ok());
    }

    /// The first transaction that a snapshot does not see.
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
