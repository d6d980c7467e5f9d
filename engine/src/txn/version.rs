//! A version of a row in its tree.
//!
//! ```text
//! offset size
//!      0    8  the transaction that wrote it
//!      8    8  its undo record: segment (highest byte), number (the other seven)
//!     16    1  flags: bit 0 the row is deleted
//!     17       the value; empty if it is deleted
//! ```
//! The newest version is in the tree, the previous one in the undo record, and so on. While the transaction that wrote
//! the newest version is active, its id in the row is its lock.

use super::TxnId;
use crate::error::{Error, Result};

pub(super) const HEADER_BYTES: usize = 17;
const DELETED: u8 = 1;
const NUMBER_BITS: u32 = 56;

/// Where a version's undo record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UndoPtr(pub(super) u64);

impl UndoPtr {
    pub(super) fn new(segment: u8, number: u64) -> Self {
        debug_assert!(number < 1 << NUMBER_BITS);
        UndoPtr(u64::from(segment) << NUMBER_BITS | number)
    }

    pub(super) fn segment(self) -> usize {
        (self.0 >> NUMBER_BITS) as usize
    }

    pub(super) fn number(self) -> u64 {
        self.0 & ((1 << NUMBER_BITS) - 1)
    }
}

/// Detects a cycle in a chain of versions, which is corrupt and would never end. No valid chain has a record twice
/// (Brent's algorithm: the compared record advances at each power of two).
#[derive(Default)]
pub(super) struct Chain {
    seen: Option<UndoPtr>,
    steps: u64,
}

impl Chain {
    /// Follows the chain to the next older record; an error if the chain has a cycle.
    pub(super) fn step(&mut self, to: UndoPtr) -> Result<()> {
        if self.seen == Some(to) {
            let what = format!(
                "versions go round in a circle, by record {} of segment {}",
                to.number(),
                to.segment()
            );
            return Err(Error::CorruptUndo { what });
        }
        self.steps += 1;
        if self.steps.is_power_of_two() {
            self.seen = Some(to);
        }
        Ok(())
    }
}

/// The header of a version: its writer and flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) txn: TxnId,
    pub(super) undo: UndoPtr,
    pub(super) deleted: bool,
}

/// The value of a row's newest version; `None` if the row is deleted, or the bytes are no version.
pub(crate) fn live_value(version: &[u8]) -> Option<&[u8]> {
    let (header, value) = Header::decode(version).ok()?;
    (!header.deleted).then_some(value)
}

/// A version that does not begin as one does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BadVersion;

impl Header {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.txn.0.to_le_bytes());
        out.extend_from_slice(&self.undo.0.to_le_bytes());
        out.push(if self.deleted { DELETED } else { 0 });
    }

    /// The header of the present version, if there is one.
    pub(super) fn of(now: Option<&[u8]>) -> Option<Header> {
        Header::decode(now?).ok().map(|(header, _)| header)
    }

    /// Whether it is the version that the undo record at `undo` was written for.
    pub(super) fn is_of(&self, txn: TxnId, undo: UndoPtr) -> bool {
        (self.txn, self.undo) == (txn, undo)
    }

    /// Header and value.
    pub(super) fn decode(bytes: &[u8]) -> std::result::Result<(Header, &[u8]), BadVersion> {
        let (head, value) = bytes.split_at_checked(HEADER_BYTES).ok_or(BadVersion)?;
        let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        if head[16] > DELETED {
            return Err(BadVersion);
        }
        let header =
            Header { txn: TxnId(number(0)), undo: UndoPtr(number(8)), deleted: head[16] & DELETED != 0 };
        Ok((header, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_that_goes_round_is_noticed_and_no_other() {
        let mut long = Chain::default();
        (0..10_000).rev().for_each(|number| long.step(UndoPtr::new(1, number)).unwrap());
        for (before, round) in [(0, 1), (0, 7), (5, 3), (100, 1000)] {
            let mut chain = Chain::default();
            let mut steps = (0..before).chain((0..).map(|step| before + step % round));
            let noticed =
                steps.by_ref().take(10_000).any(|number| chain.step(UndoPtr::new(0, number)).is_err());
            assert!(noticed, "{before} and then {round}");
        }
    }

    #[test]
    fn what_is_encoded_is_decoded_and_damage_is_noticed() {
        let header = Header { txn: TxnId(77), undo: UndoPtr::new(127, 1 << 40), deleted: true };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        bytes.extend_from_slice(b"value");
        assert_eq!(bytes.len(), HEADER_BYTES + 5);
        assert_eq!(Header::decode(&bytes), Ok((header, &b"value"[..])));
        assert_eq!((header.undo.segment(), header.undo.number()), (127, 1 << 40));
        assert_eq!(Header::decode(&bytes[..16]), Err(BadVersion));
        bytes[16] = 2;
        assert_eq!(Header::decode(&bytes), Err(BadVersion));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_version_or_refused(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40)) {
            if let Ok((header, value)) = Header::decode(&bytes) {
                let mut again = Vec::new();
                header.encode(&mut again);
                again.extend_from_slice(value);
                proptest::prop_assert_eq!(again, bytes);
            }
        }
    }
}
