//! Checks undo records and versions, and that the chain of every version is complete.
//!
//! Purge removes a segment's records in their order, several at a time, the commit's last. So if any record of a
//! transaction remains, only records before the segment's first one may be missing; if none remains, all may be. (A
//! segment's numbers restart if it was empty at an open, so a record of another transaction may have the number of a
//! purged one.)

use std::collections::HashSet;

use super::TxnId;
use super::undo::{Record, RecordHead, What};
use super::version::{Chain, Header};
use crate::error::{Error, Result};
use crate::page::node::Node;
use crate::page::{PageNo, Torn};
use crate::tree::Tree;
use crate::wait::Waiter;

/// The rollback segments, as a check finds them: first all their leaves are shown to it, then versions may be asked about.
pub(crate) struct History {
    segments: Vec<SegmentFound>,
    /// Transactions with records.
    txns: HashSet<TxnId>,
    /// The transactions among them that have committed.
    committed: HashSet<TxnId>,
    /// No transaction had this id yet, or a later one.
    next: TxnId,
    /// Roots of the trees whose rows are versions.
    versioned: HashSet<PageNo>,
}

struct SegmentFound {
    tree: Tree,
    first: Option<u64>,
}

fn bad(what: impl Into<String>) -> Error {
    Error::CorruptUndo { what: what.into() }
}

impl History {
    /// Creates the history of these segments, still unread. `versioned`: the roots of all trees whose rows are
    /// versions.
    pub(crate) fn new(segments: Vec<Tree>, next: TxnId, versioned: HashSet<PageNo>) -> Self {
        let segments = segments.into_iter().map(|tree| SegmentFound { tree, first: None }).collect();
        History { segments, txns: HashSet::new(), committed: HashSet::new(), next, versioned }
    }

    /// Reads the records of a leaf of segment `index`; reports each defect.
    pub(crate) fn read_leaf(
        &mut self,
        index: usize,
        leaf: Node<&[u8]>,
        mut wrong: impl FnMut(Error),
    ) -> std::result::Result<(), Torn> {
        for slot in 0..leaf.slots()? {
            let value = leaf.stored(slot)?;
            if let Err(error) = self.read_record(index, &leaf.key(slot)?, value.bytes, value.large) {
                wrong(error);
            }
        }
        Ok(())
    }

    /// Only the head of a large record is here; the walk checks its pages.
    fn read_record(&mut self, index: usize, key: &[u8], value: &[u8], large: bool) -> Result<()> {
        let number = key.try_into().map(u64::from_be_bytes).map_err(|_| bad("a key has not 8 bytes"))?;
        let record = RecordHead::decode(value)?.0;
        let first = &mut self.segments[index].first;
        *first = Some(first.map_or(number, |first| first.min(number)));
        self.txns.insert(record.txn);
        if record.is_commit() {
            self.committed.insert(record.txn);
        }
        self.check_begun(record.txn)?;
        let of_row = !record.is_commit() && !record.is_prepared();
        if of_row && !self.versioned.contains(&record.tree) {
            return Err(bad(format!(
                "record {number} is of page {}, which is no table's root",
                record.tree.0
            )));
        }
        if !large && let What::Replaced(before) = &Record::decode(value)?.what {
            Header::decode(before)
                .map_err(|_| bad(format!("record {number} has no version as the one before")))?;
        }
        Ok(())
    }

    /// Whether every transaction has committed, so that the newest versions are what everybody sees.
    pub(crate) fn is_settled(&self) -> bool {
        self.txns == self.committed
    }

    fn check_begun(&self, txn: TxnId) -> Result<()> {
        match txn < self.next {
            true => Ok(()),
            false => {
                Err(bad(format!("transaction {} was never begun, the next one is {}", txn.0, self.next.0)))
            }
        }
    }

    /// Checks a row of a table: that it starts with a version header, and that all older versions that a reader may
    /// need exist.
    pub(crate) fn check_version(
        &self,
        table: PageNo,
        key: &[u8],
        newest: &[u8],
        waiter: &Waiter,
    ) -> Result<()> {
        let (mut version, mut chain) = (newest.to_vec(), Chain::default());
        loop {
            let (header, _) =
                Header::decode(&version).map_err(|_| bad("it does not begin as a version does"))?;
            self.check_begun(header.txn)?;
            let (index, number) = (header.undo.segment(), header.undo.number());
            let segment =
                self.segments.get(index).ok_or_else(|| bad(format!("there is no segment {index}")))?;
            if !self.txns.contains(&header.txn) || segment.first.is_none_or(|first| number < first) {
                return Ok(());
            }
            chain.step(header.undo)?;
            let mut bytes = Vec::new();
            if !segment.tree.get(waiter, &number.to_be_bytes(), &mut bytes)? {
                return Err(bad(format!("its record {number} of segment {index} is missing")));
            }
            let record = Record::decode(&bytes)?;
            let is_its = record.txn == header.txn && record.key == key && record.tree == table;
            if !is_its || record.deletes != header.deleted {
                return Err(bad(format!("record {number} of segment {index} is another version's")));
            }
            match record.what {
                What::Added => return Ok(()),
                What::Replaced(before) => version = before,
                What::Commit | What::Prepared => {
                    return Err(bad("a version has a record that is no row's"));
                }
            }
        }
    }
}
