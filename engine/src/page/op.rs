//! Changes of a page, as values: applied when they are made, and again, from the redo log, by recovery.
//!
//! One function changes the page in both cases ([`Op::apply`]), and it is deterministic: the same operation on the same
//! bytes has the same result. So a record describes the operation, not its result (physiological logging). The page's
//! LSN says whether a record is due.
//!
//! ```text
//! offset size
//!      0    8  page number
//!      8    1  kind: 1 insert, 2 replace, 3 remove, 4 write, 5 image, 6 cut, 7 unlogged
//!      9    1  0
//!     10    2  a: insert, replace, remove, cut: slot; write: offset; image: offset of the hole; unlogged: pages
//!     12    2  b: insert: length of the key; cut: of the fence; image: length of the hole
//!     14    2  c: length of the value (bit 15: it is large) or of the bytes; cut, image, unlogged: 0
//!     16       insert: key, value; replace: value; write: bytes; image: the page without the hole; cut: fence
//! ```
//! An image leaves out the unused middle of a node, or end of an overflow page (the hole), which is zero when the page
//! is restored.
//!
//! *Unlogged* is no change: it voids the earlier records of a run of pages, since a bulk load fills these without the
//! log. Recovery neither replays the records nor reads the pages for them. The pages may be torn as long as nothing
//! refers to them. (MariaDB's recovery also skips records before an INIT_PAGE or FREE_PAGE record.)

use super::edit::NodeMut;
use super::node::{CHILD_BYTES, LARGE_BYTES, Node, Stored, VALUE_IS_LARGE, VALUE_LENGTH};
use super::overflow;
use super::{
    AT_KIND, AT_LEVEL, AT_OWNER, AT_PAGE_NO, COMMON_HEADER_BYTES, KIND_NODE, KIND_OVERFLOW, PageNo,
    TRAILER_BYTES, read_u16, read_u64,
};

const RECORD_HEADER_BYTES: usize = 16;
const INSERT: u8 = 1;
const REPLACE: u8 = 2;
const REMOVE: u8 = 3;
const WRITE: u8 = 4;
const IMAGE: u8 = 5;
const CUT: u8 = 6;
const UNLOGGED: u8 = 7;

/// A change of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op<'b> {
    /// An entry more in a node, at that slot.
    Insert {
        /// Where.
        slot: usize,
        /// The whole key.
        key: &'b [u8],
        /// The value.
        value: Stored<'b>,
    },
    /// Another value for the entry at that slot of a node.
    Replace {
        /// Where.
        slot: usize,
        /// The value.
        value: Stored<'b>,
    },
    /// An entry less in a node.
    Remove {
        /// Where it was.
        slot: usize,
    },
    /// A node without its entries from a slot on: it ends at another fence.
    Cut {
        /// The first slot that goes.
        slot: usize,
        /// The upper fence from now on.
        upper: &'b [u8],
    },
    /// Some bytes of any page, from its owner on.
    Write {
        /// Their offset.
        at: usize,
        /// The present bytes.
        bytes: &'b [u8],
    },
    /// The whole page: what lies before and after the hole.
    Image {
        /// The bytes before the hole.
        head: &'b [u8],
        /// The bytes after it.
        tail: &'b [u8],
    },
    /// Voids the earlier records of this many pages, from this one on.
    Unlogged {
        /// How many.
        pages: u16,
    },
}

/// A record that is invalid, or invalid on this page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadRecord;

impl<'b> Op<'b> {
    /// An operation that turns any page into these bytes.
    pub fn image(page: &'b [u8]) -> Self {
        let (hole, end) = hole(page);
        Op::Image { head: &page[..hole], tail: &page[end..] }
    }

    /// Maximum bytes of the record of an image.
    pub fn image_bytes_max(page_bytes: usize) -> usize {
        RECORD_HEADER_BYTES + page_bytes
    }

    /// Bytes of the record.
    pub fn record_bytes(&self) -> usize {
        RECORD_HEADER_BYTES
            + match self {
                Op::Insert { key, value, .. } => key.len() + value.len(),
                Op::Replace { value, .. } => value.len(),
                Op::Remove { .. } => 0,
                Op::Cut { upper, .. } => upper.len(),
                Op::Write { bytes, .. } => bytes.len(),
                Op::Image { head, tail } => head.len() + tail.len(),
                Op::Unlogged { .. } => 0,
            }
    }

    /// Appends the record to `out`. `page_bytes` is the size of its page.
    pub fn encode(&self, page: PageNo, page_bytes: usize, out: &mut Vec<u8>) {
        let (kind, a, b, c, parts): (u8, usize, usize, usize, [&[u8]; 2]) = match *self {
            Op::Insert { slot, key, value } => {
                (INSERT, slot, key.len(), value.length_field().into(), [key, value.bytes])
            }
            Op::Replace { slot, value } => {
                (REPLACE, slot, 0, value.length_field().into(), [value.bytes, &[]])
            }
            Op::Remove { slot } => (REMOVE, slot, 0, 0, [&[], &[]]),
            Op::Cut { slot, upper } => (CUT, slot, upper.len(), 0, [upper, &[]]),
            Op::Write { at, bytes } => (WRITE, at, 0, bytes.len(), [bytes, &[]]),
            Op::Image { head, tail } => {
                (IMAGE, head.len(), page_bytes - head.len() - tail.len(), 0, [head, tail])
            }
            Op::Unlogged { pages } => (UNLOGGED, pages.into(), 0, 0, [&[], &[]]),
        };
        out.extend_from_slice(&page.0.to_le_bytes());
        out.extend_from_slice(&[kind, 0]);
        [a, b, c].into_iter().for_each(|field| out.extend_from_slice(&(field as u16).to_le_bytes()));
        parts.into_iter().for_each(|part| out.extend_from_slice(part));
    }

    /// Decodes and removes the first record of `bytes`, for pages of `page_bytes`.
    pub fn decode(bytes: &mut &'b [u8], page_bytes: usize) -> Result<(PageNo, Op<'b>), BadRecord> {
        let all: &'b [u8] = bytes;
        let (head, rest) = all.split_at_checked(RECORD_HEADER_BYTES).ok_or(BadRecord)?;
        let field = |at| usize::from(read_u16(head, at));
        let (a, b, c) = (field(10), field(12), field(14));
        let (value_len, large) = (c & usize::from(VALUE_LENGTH), c & usize::from(VALUE_IS_LARGE) != 0);
        let (first, second) = match head[8] {
            INSERT => (b, value_len),
            REPLACE => (value_len, 0),
            WRITE => (c, 0),
            REMOVE | UNLOGGED => (0, 0),
            CUT => (b, 0),
            IMAGE => (a, page_bytes.checked_sub(a + b).ok_or(BadRecord)?),
            _ => return Err(BadRecord),
        };
        let (first, rest) = rest.split_at_checked(first).ok_or(BadRecord)?;
        let (second, rest) = rest.split_at_checked(second).ok_or(BadRecord)?;
        let op = match head[8] {
            INSERT => Op::Insert { slot: a, key: first, value: Stored { bytes: second, large } },
            REPLACE => Op::Replace { slot: a, value: Stored { bytes: first, large } },
            REMOVE => Op::Remove { slot: a },
            CUT => Op::Cut { slot: a, upper: first },
            UNLOGGED => Op::Unlogged { pages: a as u16 },
            WRITE => Op::Write { at: a, bytes: first },
            _ => Op::Image { head: first, tail: second },
        };
        *bytes = rest;
        Ok((PageNo(read_u64(head, 0)), op))
    }

    /// Whether the page's previous bytes do not matter.
    pub fn makes_page(&self) -> bool {
        matches!(self, Op::Image { .. })
    }

    /// Changes the page, whose bytes were verified or created here. A record that does not fit it, or describes no
    /// change, changes nothing.
    pub fn apply(&self, page: &mut [u8]) -> Result<(), BadRecord> {
        match *self {
            Op::Image { head, tail } => {
                let (hole, end) = (head.len(), page.len().checked_sub(tail.len()).ok_or(BadRecord)?);
                page.get_mut(hole..end).ok_or(BadRecord)?.fill(0);
                page[..hole].copy_from_slice(head);
                page[end..].copy_from_slice(tail);
                return Ok(());
            }
            Op::Write { at, bytes } => {
                let end = page.len() - TRAILER_BYTES;
                if at < AT_OWNER || at + bytes.len() > end {
                    return Err(BadRecord);
                }
                page[at..at + bytes.len()].copy_from_slice(bytes);
                return Ok(());
            }
            Op::Unlogged { .. } => return Err(BadRecord),
            _ if page[AT_KIND] != KIND_NODE => return Err(BadRecord),
            Op::Insert { value, .. } | Op::Replace { value, .. }
                if !is_value_of_level(value, page[AT_LEVEL]) =>
            {
                return Err(BadRecord);
            }
            Op::Insert { slot, key, value } => {
                let node = Node(&*page);
                let fits = slot <= slots(node) && node.fits(key.len(), value.len()) == Ok(true);
                (fits && NodeMut::new(page).insert(slot, key, value)).then_some(())
            }
            Op::Replace { slot, value } if NodeMut::new(page).replace_in_place(slot, value) => Some(()),
            Op::Replace { slot, value } => {
                let node = Node(&*page);
                let key = if slot < slots(node) { node.key(slot).ok() } else { None };
                key.filter(|key| node.fits_instead(slot, key.len(), value.len()) == Ok(true))
                    .and_then(|key| NodeMut::new(page).replace(slot, &key, value).ok())
            }
            Op::Remove { slot } => (slot < slots(Node(&*page))).then(|| NodeMut::new(page).remove(slot)),
            Op::Cut { slot, upper } => (NodeMut::new(page).cut(slot, upper) == Ok(true)).then_some(()),
        }
        .ok_or(BadRecord)
    }

    /// Whether an image is of page `no`.
    pub fn is_of(&self, no: PageNo) -> bool {
        match self {
            Op::Image { head, .. } => head.len() >= COMMON_HEADER_BYTES && read_u64(head, AT_PAGE_NO) == no.0,
            _ => true,
        }
    }
}

/// Whether a node of that level can have such a value: an inner node's is a child.
fn is_value_of_level(value: Stored<'_>, level: u8) -> bool {
    match level {
        0 => !value.large || value.len() == LARGE_BYTES,
        _ => !value.large && value.len() == CHILD_BYTES,
    }
}

fn slots(node: Node<&[u8]>) -> usize {
    node.slots().unwrap_or(0)
}

/// The unused middle of a node or end of an overflow page; empty for other pages, and for invalid ones.
fn hole(page: &[u8]) -> (usize, usize) {
    if page[AT_KIND] == KIND_OVERFLOW {
        let length = overflow::length(page).unwrap_or(overflow::bytes_per_page(page.len()));
        return (overflow::AT_BYTES + length, page.len() - TRAILER_BYTES);
    }
    match Node(page).hole() {
        Ok((begin, end)) if page[AT_KIND] == KIND_NODE && begin < end => (begin, end),
        _ => (page.len(), page.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::Fences;
    use super::*;

    fn node() -> Vec<u8> {
        let mut page = vec![0; 4096];
        NodeMut::format(&mut page, PageNo(7), PageNo(7), 0, &Fences::all());
        page
    }

    fn round_trip(op: &Op<'_>) {
        let mut bytes = Vec::new();
        op.encode(PageNo(7), 4096, &mut bytes);
        assert_eq!(bytes.len(), op.record_bytes());
        assert_eq!(Op::decode(&mut &bytes[..], 4096), Ok((PageNo(7), *op)));
        for cut in 0..bytes.len() {
            assert_eq!(Op::decode(&mut &bytes[..cut], 4096), Err(BadRecord));
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let page = node();
        let ops = [
            Op::Insert { slot: 3, key: b"key", value: b"value".into() },
            Op::Replace { slot: 1, value: b"other".into() },
            Op::Insert { slot: 3, key: b"key", value: Stored { bytes: &[7; LARGE_BYTES], large: true } },
            Op::Replace { slot: 1, value: Stored { bytes: &[7; LARGE_BYTES], large: true } },
            Op::Remove { slot: 2 },
            Op::Cut { slot: 1, upper: b"m" },
            Op::Write { at: 64, bytes: &[1, 2, 3] },
            Op::Unlogged { pages: 1024 },
            Op::image(&page),
        ];
        ops.iter().for_each(round_trip);
        assert!(Op::image(&page).record_bytes() < 200);
    }

    #[test]
    fn an_image_makes_the_page_again() {
        let mut page = node();
        Op::Insert { slot: 0, key: b"b", value: b"2".into() }.apply(&mut page).unwrap();
        Op::Insert { slot: 0, key: b"a", value: b"1".into() }.apply(&mut page).unwrap();
        Op::Remove { slot: 1 }.apply(&mut page).unwrap();
        let image = Op::image(&page);
        let mut other = vec![0xee; 4096];
        image.apply(&mut other).unwrap();
        // The hole may keep its old bytes; all used bytes are the same, and stay so.
        for op in [
            Op::Insert { slot: 1, key: b"c", value: b"3".into() },
            Op::Replace { slot: 0, value: b"longer".into() },
        ] {
            op.apply(&mut page).unwrap();
            op.apply(&mut other).unwrap();
        }
        assert_eq!(Node(&page[..]).key(1), Node(&other[..]).key(1));
        assert_eq!(Op::image(&page), Op::image(&other));
    }

    #[test]
    fn a_cut_keeps_what_lies_before_it() {
        let mut page = node();
        let keys = [&b"share-a"[..], b"share-b", b"share-c", b"tail"];
        for (slot, key) in keys.into_iter().enumerate() {
            Op::Insert { slot, key, value: (&[slot as u8; 30]).into() }.apply(&mut page).unwrap();
        }
        Op::Cut { slot: 4, upper: b"u" }.apply(&mut page).unwrap();
        Op::Cut { slot: 2, upper: b"share-c" }.apply(&mut page).unwrap();
        let kept = Node(&page[..]);
        assert_eq!(kept.fences().unwrap(), Fences { lower: Vec::new(), upper: Some(b"share-c".to_vec()) });
        assert_eq!([kept.key(0), kept.key(1)], [Ok(b"share-a".to_vec()), Ok(b"share-b".to_vec())]);
        assert_eq!((kept.slots(), kept.stored(1).unwrap().bytes), (Ok(2), &[1; 30][..]));
        assert!(super::super::verify_content(&page).is_ok());
        // A key that stays lies beyond the fence; the fence lies beyond the one before.
        for upper in [&b"share-b"[..], b"share-d"] {
            assert_eq!(Op::Cut { slot: 2, upper }.apply(&mut page), Err(BadRecord));
        }
    }

    #[test]
    fn records_that_do_not_fit_change_nothing() {
        let before = node();
        let large = [0; 5000];
        let ops = [
            Op::Insert { slot: 1, key: b"key", value: b"value".into() },
            Op::Insert { slot: 0, key: b"key", value: (&large).into() },
            Op::Replace { slot: 0, value: b"x".into() },
            Op::Insert { slot: 0, key: b"key", value: Stored { bytes: &[7; LARGE_BYTES - 1], large: true } },
            Op::Remove { slot: 0 },
            Op::Cut { slot: 1, upper: b"m" },
            Op::Cut { slot: 0, upper: b"" },
            Op::Cut { slot: 0, upper: &large },
            Op::Write { at: 8, bytes: &[1] },
            Op::Write { at: 4088, bytes: &[1] },
            Op::Image { head: &large, tail: &[] },
            Op::Unlogged { pages: 1 },
        ];
        for op in ops {
            let mut page = before.clone();
            assert_eq!(op.apply(&mut page), Err(BadRecord), "{op:?}");
            assert_eq!(page, before);
        }
    }

    /// Found by a fuzzer.
    #[test]
    fn an_inner_nodes_values_are_children() {
        let mut before = vec![0; 4096];
        let mut inner = NodeMut::format(&mut before, PageNo(7), PageNo(7), 1, &Fences::all());
        inner.set_first_child(PageNo(8));
        assert!(inner.push(b"m", &9_u64.to_le_bytes()[..]));
        for value in [&b""[..], &[0; CHILD_BYTES - 1], &[0; CHILD_BYTES + 1]] {
            for op in [
                Op::Insert { slot: 0, key: b"c", value: value.into() },
                Op::Replace { slot: 0, value: value.into() },
            ] {
                let mut page = before.clone();
                assert_eq!(op.apply(&mut page), Err(BadRecord), "{op:?}");
                assert_eq!(page, before);
            }
        }
        assert_eq!(
            Op::Insert { slot: 0, key: b"c", value: (&[1; CHILD_BYTES]).into() }.apply(&mut before),
            Ok(())
        );
    }

    proptest::proptest! {
        /// Records that are nearly right, on a page that is right: it stays so, or the record is refused. (Records that
        /// bring in bytes are looked at afterwards, where they are replayed.)
        #[test]
        fn mutated_records_leave_a_sound_page_sound(
            changes in proptest::collection::vec((0_usize..60, proptest::prelude::any::<u8>()), 1..4),
            which in 0_usize..4,
        ) {
            let mut page = node();
            for (slot, key) in [b"alpha", b"gamma", b"omega"].into_iter().enumerate() {
                Op::Insert { slot, key, value: b"a value"[..].into() }.apply(&mut page).unwrap();
            }
            let ops = [
                Op::Insert { slot: 1, key: b"beta", value: b"another"[..].into() },
                Op::Replace { slot: 2, value: b"longer than before"[..].into() },
                Op::Remove { slot: 0 },
                Op::Cut { slot: 2, upper: b"gz" },
            ];
            let mut bytes = Vec::new();
            ops[which].encode(PageNo(7), 4096, &mut bytes);
            for (at, byte) in changes {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            if let Ok((_, op)) = Op::decode(&mut &bytes[..], 4096) {
                let brings_bytes = matches!(op, Op::Write { .. } | Op::Image { .. });
                let before = page.clone();
                match op.apply(&mut page) {
                    Ok(()) => {
                        proptest::prop_assert!(brings_bytes || super::super::verify_content(&page).is_ok(), "{:?}", op);
                    }
                    Err(BadRecord) => proptest::prop_assert_eq!(page, before),
                }
            }
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(0u8..8, 0..200)) {
            let mut rest = &bytes[..];
            while let Ok((_, op)) = Op::decode(&mut rest, 4096) {
                let mut page = node();
                let _ = op.apply(&mut page);
            }
        }
    }
}
