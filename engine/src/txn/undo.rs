//! Undo: previous versions, in segments, each a B+tree of records in the order of their writing.
//!
//! A transaction uses one segment. Before it changes a row it records the version that it is going to replace, then
//! changes the row if it is still the same. At its end it writes a record of its commit. So a crash leaves records
//! without a change, but never a change without its record. Recovery rolls back a transaction that has records and no
//! commit.
//!
//! ```text
//! key:    number, big-endian                   8
//! value:  kind                                 1   1 a row was added, 2 a version was replaced, 3 commit, 4 prepared
//!         transaction                          8
//!         tree: its root page                  8
//!         length of the key                    2
//!         flags: bit 0 the new version deletes 1
//!         key (kind 4: the XID)
//!         the version before (kind 2)
//! ```
//! The trees are logged like all others, so recovery restores their records before it reads them.

use std::ops::{Bound, ControlFlow, Deref, Range};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use flifo_base::{CacheAligned, lock, try_lock};

use super::TxnId;
use super::version::{self, UndoPtr};
use crate::error::{Error, Result};
use crate::page::PageNo;
use crate::page::node::LARGE_PREFIX_BYTES;
use crate::tree::{End, Tree};
use crate::wait::Waiter;

/// Bytes of a record besides the row's key and the version before.
pub(super) const OVERHEAD_BYTES: usize = HEADER_BYTES;
/// They lie in the leaf, even if the record is large.
const HEADER_BYTES: usize = 20;
const _: () = assert!(HEADER_BYTES <= LARGE_PREFIX_BYTES && version::HEADER_BYTES <= LARGE_PREFIX_BYTES);
const ADDED: u8 = 1;
const REPLACED: u8 = 2;
const COMMIT: u8 = 3;
const PREPARED: u8 = 4;

/// The content of a record; its bytes may be borrowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What<B = Vec<u8>> {
    /// The row was added: there was none.
    Added,
    /// The row's version before.
    Replaced(B),
    /// The transaction has committed.
    Commit,
    /// The transaction is prepared; the key is its XID.
    Prepared,
}

/// An undo record; its bytes may be borrowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record<B = Vec<u8>> {
    pub(super) txn: TxnId,
    pub(super) tree: PageNo,
    pub(super) key: B,
    /// The version that was written deletes the row.
    pub(super) deletes: bool,
    pub(super) what: What<B>,
}

/// The head of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordHead {
    pub(super) txn: TxnId,
    pub(super) tree: PageNo,
    key_len: usize,
    /// The version that was written deletes the row.
    pub(super) deletes: bool,
    kind: u8,
}

impl RecordHead {
    /// Decodes at least the record's first bytes; returns the rest, too.
    pub(super) fn decode(bytes: &[u8]) -> Result<(RecordHead, &[u8])> {
        let bad = || Error::CorruptUndo { what: format!("a record of {} bytes makes no sense", bytes.len()) };
        let (head, rest) = bytes.split_at_checked(HEADER_BYTES).ok_or_else(bad)?;
        let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        if !(ADDED..=PREPARED).contains(&head[0]) {
            return Err(bad());
        }
        let decoded = RecordHead {
            txn: TxnId(number(1)),
            tree: PageNo(number(9)),
            key_len: usize::from(u16::from_le_bytes([head[17], head[18]])),
            deletes: head[19] & 1 != 0,
            kind: head[0],
        };
        Ok((decoded, rest))
    }

    /// The transaction has committed.
    pub(super) fn is_commit(&self) -> bool {
        self.kind == COMMIT
    }

    /// The transaction is prepared.
    pub(super) fn is_prepared(&self) -> bool {
        self.kind == PREPARED
    }
}

impl<'b> Record<&'b [u8]> {
    pub(super) fn commit(txn: TxnId) -> Self {
        Record { txn, tree: PageNo(0), key: &[], deletes: false, what: What::Commit }
    }

    pub(super) fn prepared(txn: TxnId, xid: &'b [u8]) -> Self {
        Record { txn, tree: PageNo(0), key: xid, deletes: false, what: What::Prepared }
    }
}

impl<B: AsRef<[u8]>> Record<B> {
    /// Replaces `out` by the record.
    pub(super) fn encode_into(&self, out: &mut Vec<u8>) {
        let (kind, before): (u8, &[u8]) = match &self.what {
            What::Added => (ADDED, &[]),
            What::Replaced(before) => (REPLACED, before.as_ref()),
            What::Commit => (COMMIT, &[]),
            What::Prepared => (PREPARED, &[]),
        };
        let key = self.key.as_ref();
        out.clear();
        out.reserve(HEADER_BYTES + key.len() + before.len());
        out.push(kind);
        out.extend_from_slice(&self.txn.0.to_le_bytes());
        out.extend_from_slice(&self.tree.0.to_le_bytes());
        out.extend_from_slice(&(key.len() as u16).to_le_bytes());
        out.push(self.deletes.into());
        out.extend_from_slice(key);
        out.extend_from_slice(before);
    }

    /// The encoded record.
    #[cfg(any(fuzzing, test))]
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode_into(&mut bytes);
        bytes
    }
}

impl Record {
    pub(super) fn decode(bytes: &[u8]) -> Result<Record> {
        let bad = || Error::CorruptUndo { what: format!("a record of {} bytes makes no sense", bytes.len()) };
        let (head, rest) = RecordHead::decode(bytes)?;
        let (key, before) = rest.split_at_checked(head.key_len).ok_or_else(bad)?;
        let what = match head.kind {
            ADDED => What::Added,
            REPLACED => What::Replaced(before.to_vec()),
            COMMIT => What::Commit,
            PREPARED => What::Prepared,
            _ => return Err(bad()),
        };
        Ok(Record { txn: head.txn, tree: head.tree, key: key.to_vec(), deletes: head.deletes, what })
    }
}

/// One rollback segment.
pub(super) struct Segment {
    index: u8,
    tree: Tree,
    numbers: Mutex<Numbers>,
    /// Records that are there: the history's length.
    records: AtomicU64,
    /// Purge lags from this number of records on.
    lag_from: AtomicU64,
    /// Whether purge lags; a hint.
    lags: AtomicBool,
    /// How many segments lag.
    lagging: Arc<Lagging>,
    /// Held while a thread purges the segment.
    purging: Mutex<()>,
}

/// The exclusive right to purge a segment. Its drop records whether purge keeps up.
pub(super) struct Purging<'s> {
    segment: &'s Segment,
    /// A batch was purged, and there may be more.
    pub(super) more: bool,
    _alone: MutexGuard<'s, ()>,
}

/// The number of segments where purge lags. On its own cache line, since every transaction reads it before its first
/// write.
#[derive(Default)]
pub(super) struct Lagging(CacheAligned<AtomicUsize>);

impl Lagging {
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.0.0.load(Ordering::Relaxed) != 0
    }
}

/// A segment with fewer records never counts as lagging: its records are still in memory.
const LAG_RECORDS: u64 = 4096;

/// The numbers of a segment's records.
struct Numbers {
    next: u64,
    /// The numbers of records that are being written.
    under_way: Vec<u64>,
    /// Purge is done with all records before this one; some of them may still exist.
    purged: u64,
    /// The position after the last record.
    end: Option<End>,
}

impl Segment {
    /// Opens the segment whose records are in `tree`; passes the head of each record to `each`.
    pub(super) fn open(
        index: u8,
        tree: Tree,
        lagging: Arc<Lagging>,
        waiter: &Waiter,
        mut each: impl FnMut(u64, RecordHead),
    ) -> Result<Segment> {
        let (mut next, mut records) = (1, 0);
        scan(&tree, waiter, 0..u64::MAX, |number, record| {
            (next, records) = (number + 1, records + 1);
            each(number, record);
            ControlFlow::Continue(())
        })?;
        let numbers = Numbers { next, under_way: Vec::new(), purged: 0, end: None };
        let segment = Segment {
            index,
            tree,
            numbers: Mutex::new(numbers),
            records: AtomicU64::new(records),
            lag_from: AtomicU64::new(LAG_RECORDS),
            lags: AtomicBool::new(false),
            lagging,
            purging: Mutex::default(),
        };
        segment.set_lags(records >= LAG_RECORDS);
        Ok(segment)
    }

    pub(super) fn index(&self) -> u8 {
        self.index
    }

    /// Appends a record; `buffer` is scratch memory.
    pub(super) fn append<B: AsRef<[u8]>>(
        &self,
        record: &Record<B>,
        buffer: &mut Vec<u8>,
        waiter: &Waiter,
    ) -> Result<UndoPtr> {
        record.encode_into(buffer);
        let (number, end) = {
            let mut numbers = self.numbers();
            let number = numbers.next;
            numbers.next += 1;
            numbers.under_way.push(number);
            // In one with the number, which so is greater than that of whichever record has left this end.
            (number, numbers.end)
        };
        // Before it can be removed.
        let before = self.records.fetch_add(1, Ordering::Relaxed);
        if before >= self.lag_from.load(Ordering::Relaxed) && !self.lags() {
            self.set_lags(true);
        }
        let written = self.tree.insert_last(waiter, &number.to_be_bytes(), buffer, end);
        let mut numbers = self.numbers();
        numbers.under_way.retain(|&other| other != number);
        let (_, end) = written.inspect_err(|_| _ = self.records.fetch_sub(1, Ordering::Relaxed))?;
        numbers.end = end;
        Ok(UndoPtr::new(self.index, number))
    }

    /// Nothing is waited for while it is locked.
    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        lock(&self.numbers)
    }

    /// The record; `None` if it was purged, or its transaction rolled back.
    pub(super) fn get(&self, number: u64, waiter: &Waiter) -> Result<Option<Record>> {
        let mut bytes = Vec::new();
        match self.tree.get(waiter, &number.to_be_bytes(), &mut bytes)? {
            true => Record::decode(&bytes).map(Some),
            false => Ok(None),
        }
    }

    pub(super) fn remove(&self, number: u64, waiter: &Waiter) -> Result<()> {
        if self.tree.delete(waiter, &number.to_be_bytes())? {
            self.records.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether the segment is empty, by reading its tree.
    pub(super) fn is_empty(&self, waiter: &Waiter) -> Result<bool> {
        let mut empty = true;
        scan(&self.tree, waiter, 0..u64::MAX, |_, _| {
            empty = false;
            ControlFlow::Break(())
        })?;
        Ok(empty)
    }

    /// Whether there is a record of one of these trees, including records that purge is done with.
    pub(super) fn has_any_of(&self, trees: &[PageNo], waiter: &Waiter) -> Result<bool> {
        let mut any = false;
        scan(&self.tree, waiter, 0..u64::MAX, |_, record| {
            any = trees.contains(&record.tree);
            if any { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(any)
    }

    /// Passes the heads of the records that purge is not done with to `each`, in their order, until it breaks. A record
    /// that is being written may precede existing ones; these are left out.
    pub(super) fn read(
        &self,
        waiter: &Waiter,
        each: impl FnMut(u64, RecordHead) -> ControlFlow<()>,
    ) -> Result<()> {
        let (purged, end) = {
            let numbers = self.numbers();
            (numbers.purged, numbers.under_way.iter().copied().min().unwrap_or(numbers.next))
        };
        scan(&self.tree, waiter, purged..end, each)
    }

    /// Purge is done with all records before this one.
    pub(super) fn purged(&self) -> u64 {
        self.numbers().purged
    }

    /// Marks all records before `end` as purged. Removes those whose page holds no other, and reports their number to
    /// `removed`.
    pub(super) fn purge_to(&self, end: u64, waiter: &Waiter, mut removed: impl FnMut(u64)) -> Result<()> {
        self.tree.truncate_before(waiter, &end.to_be_bytes(), |records| {
            self.records.fetch_sub(records, Ordering::Relaxed);
            removed(records);
        })?;
        // Not earlier: records left by an error are read again.
        self.numbers().purged = end;
        Ok(())
    }

    /// The right to purge the segment; `None` if another thread has it.
    pub(super) fn try_purge(&self) -> Option<Purging<'_>> {
        let alone = try_lock(&self.purging)?;
        Some(Purging { segment: self, more: false, _alone: alone })
    }

    /// Whether purge lags behind the writers.
    pub(super) fn lags(&self) -> bool {
        self.lags.load(Ordering::Relaxed)
    }

    fn set_lags(&self, lags: bool) {
        if self.lags.swap(lags, Ordering::Relaxed) == lags {
            return;
        }
        let Lagging(CacheAligned(count)) = &*self.lagging;
        match lags {
            true => count.fetch_add(1, Ordering::Relaxed),
            false => count.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// Records that a batch was purged, and whether there may be more. Records that must stay, because a transaction
    /// needs them or they cannot be read, are no lag; the threshold rises by their number.
    fn note_lag(&self, more: bool) {
        let records = self.records();
        self.lag_from.store(if more { LAG_RECORDS } else { records + LAG_RECORDS }, Ordering::Relaxed);
        self.set_lags(more && records >= LAG_RECORDS);
    }

    pub(super) fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }
}

impl Deref for Purging<'_> {
    type Target = Segment;

    fn deref(&self) -> &Segment {
        self.segment
    }
}

impl Drop for Purging<'_> {
    fn drop(&mut self) {
        self.segment.note_lag(self.more);
    }
}

/// Passes the heads of the records with these numbers to `each`, until it breaks.
fn scan(
    tree: &Tree,
    waiter: &Waiter,
    numbers: Range<u64>,
    mut each: impl FnMut(u64, RecordHead) -> ControlFlow<()>,
) -> Result<()> {
    let mut failed = None;
    let (from, to) = (numbers.start.to_be_bytes(), numbers.end.to_be_bytes());
    tree.scan_prefixes(waiter, Bound::Included(&from), Bound::Excluded(&to), |key, value| {
        let number = key.try_into().map(u64::from_be_bytes);
        let number = number.map_err(|_| Error::CorruptUndo { what: "a key has not 8 bytes".to_owned() });
        match number.and_then(|number| RecordHead::decode(value).map(|(head, _)| (number, head))) {
            Ok((number, record)) => each(number, record),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    failed.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written() {
        for what in [What::Added, What::Replaced(b"version".to_vec()), What::Commit, What::Prepared] {
            let record = Record { txn: TxnId(3), tree: PageNo(9), key: b"key".to_vec(), deletes: true, what };
            let bytes = record.encode();
            assert!(bytes.len() <= OVERHEAD_BYTES + 3 + 7);
            assert_eq!(Record::decode(&bytes).unwrap(), record);
            assert!(matches!(Record::decode(&bytes[..HEADER_BYTES + 2]), Err(Error::CorruptUndo { .. })));
        }
        assert!(matches!(Record::decode(&[9; 40]), Err(Error::CorruptUndo { .. })));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_record_or_refused(kind in 0_u8..6, rest in proptest::collection::vec(0_u8..30, 0..60)) {
            let bytes = [&[kind][..], &rest].concat();
            if let Ok(record) = Record::decode(&bytes) {
                // Fields that a record lacks are not encoded; all others survive.
                proptest::prop_assert_eq!(Record::decode(&record.encode()).unwrap(), record);
            }
        }
    }
}
