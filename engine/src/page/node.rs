//! Tree nodes, read only: slots, search, fences.
//!
//! ```text
//! offset size
//!      6    2  flags: bit 0 no upper fence (the node reaches to the end of all keys)
//!     32    2  slots
//!     34    2  heap begin: offset of the lowest heap byte
//!     36    2  dead bytes in the heap
//!     38    2  prefix length: what lower and upper fence have in common, and so every key between them
//!     40  2+2  lower fence: offset, length
//!     44  2+2  upper fence: offset, length
//!     48    8  first child (inner nodes): the keys before the first slot
//!     56    2  slot of the last insert
//!     58    2  inserts in a row that each came right after the one before
//!     60    4  0
//!     64  8*n  slots, in key order: head (4, big-endian), entry offset (2), suffix length (2)
//!    ...       free
//!    ...       heap, which grows downwards from S-8: entries and fences
//!
//! entry: value length (2: bits 0-14 length, bit 15 the value is large)
//!        rest of the suffix (what follows its first 4 bytes), value
//!        of a large value: its first bytes, and where the others are (overflow.rs)
//! ```
//!
//! A key is prefix + suffix; the suffix's first four bytes, padded with zeros, are the slot's head, the others
//! are in the entry. Two suffixes with equal heads of which one has at most four bytes are ordered by length. So
//! a search over short keys, or keys that differ early, reads slots only.
//!
//! A leaf's slots hold keys in `[lower, upper)`. In an inner node slot i's value is the page (8 bytes) of the
//! keys in `[key i, key i+1)`, the last up to the upper fence; `first child` has those from the lower
//! fence. The lower fence of the leftmost nodes is the empty key, the least of all.

use std::cmp::Ordering;

use super::{AT_FLAGS, AT_KIND, Bytes, KIND_NODE, PAGE_BYTES_MAX, PageNo, TRAILER_BYTES, Torn};

pub(crate) const FLAG_NO_UPPER: u16 = 1;
pub(crate) const AT_SLOTS: usize = 32;
pub(crate) const AT_HEAP_BEGIN: usize = 34;
pub(crate) const AT_DEAD: usize = 36;
pub(crate) const AT_PREFIX: usize = 38;
pub(crate) const AT_LOWER: usize = 40;
pub(crate) const AT_UPPER: usize = 44;
pub(crate) const AT_FIRST_CHILD: usize = 48;
pub(crate) const AT_LAST_INSERT: usize = 56;
pub(crate) const AT_ASCENDING: usize = 58;
pub(crate) const NODE_HEADER_BYTES: usize = 64;
pub(crate) const SLOT_BYTES: usize = 8;
pub(crate) const HEAD_BYTES: usize = 4;
pub(crate) const CHILD_BYTES: usize = 8;
pub(crate) const VALUE_LENGTH: u16 = 0x7fff;
pub(crate) const VALUE_IS_LARGE: u16 = 0x8000;

/// Leading bytes of a large value that are in its leaf, readable under the leaf's latch.
pub const LARGE_PREFIX_BYTES: usize = 32;
/// Bytes that a leaf has of a large value: the first ones, and where the others are.
pub(crate) const LARGE_BYTES: usize = LARGE_PREFIX_BYTES + 24;

/// The value part of an entry in a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored<'b> {
    /// The value; for a large value, its first bytes and the pointer to the rest.
    pub bytes: &'b [u8],
    /// Most of the value is in overflow pages.
    pub large: bool,
}

impl Stored<'_> {
    /// Bytes in the node.
    #[allow(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The length as an entry and a record have it.
    pub(crate) fn length_field(&self) -> u16 {
        self.bytes.len() as u16 | if self.large { VALUE_IS_LARGE } else { 0 }
    }

    /// The value's first bytes: all, or those in the leaf.
    pub(crate) fn prefix(&self) -> &[u8] {
        if self.large { &self.bytes[..LARGE_PREFIX_BYTES.min(self.bytes.len())] } else { self.bytes }
    }
}

impl<'b, T: AsRef<[u8]> + ?Sized> From<&'b T> for Stored<'b> {
    /// A value that lies in its leaf.
    fn from(bytes: &'b T) -> Self {
        Stored { bytes: bytes.as_ref(), large: false }
    }
}

/// Maximum bytes of key and value of one entry together. Two such entries and fences of that length fit a node, so
/// every split succeeds.
pub const fn entry_bytes_max(page_bytes: usize) -> usize {
    page_bytes / 4 - 64
}

/// Heap bytes of an entry.
pub(crate) fn heap_bytes(suffix_len: usize, value_len: usize) -> usize {
    2 + suffix_len.saturating_sub(HEAD_BYTES) + value_len
}

/// First four bytes of a suffix as a number that orders like them.
#[inline]
pub(crate) fn head_of(suffix: &[u8]) -> u32 {
    match suffix.first_chunk::<HEAD_BYTES>() {
        Some(head) => u32::from_be_bytes(*head),
        None => {
            suffix.iter().zip([24, 16, 8]).fold(0, |head, (&byte, shift)| head | u32::from(byte) << shift)
        }
    }
}

/// Length of what two keys begin with in common.
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The shortest key that is greater than `left` and not greater than `right`; `left < right`.
pub(crate) fn separator<'k>(left: &[u8], right: &'k [u8]) -> &'k [u8] {
    &right[..common_prefix(left, right) + 1]
}

/// Where an entry lies.
#[derive(Clone, Copy)]
struct Slot {
    head: u32,
    at: usize,
    suffix_len: usize,
}

impl Slot {
    fn rest_len(self) -> usize {
        self.suffix_len.saturating_sub(HEAD_BYTES)
    }
}

/// A tree node, for reading untrusted bytes.
#[derive(Clone, Copy)]
pub struct Node<B>(pub B);

impl<B: Bytes> Node<B> {
    /// The number of slots; never more than fit the page.
    #[inline]
    pub fn slots(&self) -> Result<usize, Torn> {
        let slots = usize::from(self.0.u16(AT_SLOTS)?);
        match slots <= (self.0.bytes() - NODE_HEADER_BYTES - TRAILER_BYTES) / SLOT_BYTES {
            true => Ok(slots),
            false => Err(Torn),
        }
    }

    /// The level, 0 for a leaf. Every node on the descent is checked: a page of another kind is an error.
    #[inline]
    pub fn level(&self) -> Result<u8, Torn> {
        match self.0.array(AT_KIND)? {
            [KIND_NODE, level] => Ok(level),
            _ => Err(Torn),
        }
    }

    #[inline]
    fn slot(&self, index: usize) -> Result<Slot, Torn> {
        let [h0, h1, h2, h3, at0, at1, len0, len1] = self.0.array(NODE_HEADER_BYTES + index * SLOT_BYTES)?;
        Ok(Slot {
            head: u32::from_be_bytes([h0, h1, h2, h3]),
            at: usize::from(u16::from_le_bytes([at0, at1])),
            suffix_len: usize::from(u16::from_le_bytes([len0, len1])),
        })
    }

    /// Length of the prefix that all keys of the node share.
    #[inline]
    pub fn prefix_len(&self) -> Result<usize, Torn> {
        self.0.u16(AT_PREFIX).map(usize::from)
    }

    /// Whether `key` exists, and the slot where it is or belongs. `key` is between the fences.
    #[inline]
    pub fn search(&self, key: &[u8]) -> Result<(usize, bool), Torn> {
        let suffix = key.get(self.prefix_len()?..).ok_or(Torn)?;
        let head = head_of(suffix);
        let (mut low, mut high) = (0, self.slots()?);
        while low < high {
            let middle = (low + high) / 2;
            let slot = self.slot(middle)?;
            let order = match slot.head.cmp(&head) {
                Ordering::Equal => self.compare_rest(slot, suffix)?,
                order => order,
            };
            match order {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok((middle, true)),
            }
        }
        Ok((low, false))
    }

    /// Compares a slot's key with a key that has the same head.
    #[inline]
    fn compare_rest(&self, slot: Slot, suffix: &[u8]) -> Result<Ordering, Torn> {
        if slot.suffix_len <= HEAD_BYTES || suffix.len() <= HEAD_BYTES {
            return Ok(slot.suffix_len.cmp(&suffix.len()));
        }
        self.0.compare(slot.at + 2, slot.rest_len(), &suffix[HEAD_BYTES..])
    }

    /// The index of the child of an inner node for `key`: 0 is the first child, i + 1 that of slot i.
    #[inline]
    pub fn child_index(&self, key: &[u8]) -> Result<usize, Torn> {
        self.search(key).map(|(slot, found)| slot + usize::from(found))
    }

    /// The child at that index.
    #[inline]
    pub fn child(&self, index: usize) -> Result<PageNo, Torn> {
        let at = match index.checked_sub(1) {
            None => AT_FIRST_CHILD,
            Some(slot) => {
                let slot = self.slot(slot)?;
                slot.at + 2 + slot.rest_len()
            }
        };
        self.0.u64(at).map(PageNo)
    }

    /// Offset and length of a slot's value.
    #[inline]
    pub fn value(&self, index: usize) -> Result<(usize, usize), Torn> {
        let slot = self.slot(index)?;
        let len = usize::from(self.0.u16(slot.at)? & VALUE_LENGTH);
        Ok((slot.at + 2 + slot.rest_len(), len))
    }

    /// Whether most of a slot's value is in overflow pages.
    #[inline]
    pub fn is_large(&self, index: usize) -> Result<bool, Torn> {
        Ok(self.0.u16(self.slot(index)?.at)? & VALUE_IS_LARGE != 0)
    }

    /// Appends a slot's value to `out`, or for a large value its part in the leaf; returns whether it is large.
    #[inline]
    pub fn append_value(&self, index: usize, out: &mut Vec<u8>) -> Result<bool, Torn> {
        let slot = self.slot(index)?;
        let length = self.0.u16(slot.at)?;
        self.0.append_to(slot.at + 2 + slot.rest_len(), usize::from(length & VALUE_LENGTH), out)?;
        Ok(length & VALUE_IS_LARGE != 0)
    }

    /// Appends a slot's key without the prefix to `out`.
    #[inline]
    pub fn append_suffix(&self, index: usize, out: &mut Vec<u8>) -> Result<(), Torn> {
        let slot = self.slot(index)?;
        let end = out.len() + slot.suffix_len.min(HEAD_BYTES);
        // All four bytes and a cut: a copy of fixed length is a store, one of variable length a call.
        out.extend_from_slice(&slot.head.to_be_bytes());
        out.truncate(end);
        match slot.rest_len() {
            0 => Ok(()),
            rest_len => self.0.append_to(slot.at + 2, rest_len, out),
        }
    }

    /// Appends the prefix of all keys to `out`.
    pub fn append_prefix(&self, out: &mut Vec<u8>) -> Result<(), Torn> {
        let (at, _) = self.lower_place()?;
        self.0.append_to(at, self.prefix_len()?, out)
    }

    /// Replaces `out` by a slot's key.
    pub fn key_into(&self, index: usize, out: &mut Vec<u8>) -> Result<(), Torn> {
        out.clear();
        self.append_prefix(out)?;
        self.append_suffix(index, out)
    }

    /// A slot's key, copied.
    pub fn key(&self, index: usize) -> Result<Vec<u8>, Torn> {
        let mut key = Vec::new();
        self.key_into(index, &mut key)?;
        Ok(key)
    }

    fn lower_place(&self) -> Result<(usize, usize), Torn> {
        Ok((usize::from(self.0.u16(AT_LOWER)?), usize::from(self.0.u16(AT_LOWER + 2)?)))
    }

    /// Replaces `out` by the lower fence.
    pub fn lower_into(&self, out: &mut Vec<u8>) -> Result<(), Torn> {
        out.clear();
        let (at, len) = self.lower_place()?;
        self.0.append_to(at, len, out)
    }

    /// Whether the node reaches to the end of all keys.
    pub fn is_last(&self) -> Result<bool, Torn> {
        Ok(self.0.u16(AT_FLAGS)? & FLAG_NO_UPPER != 0)
    }

    fn upper_place(&self) -> Result<(usize, usize), Torn> {
        Ok((usize::from(self.0.u16(AT_UPPER)?), usize::from(self.0.u16(AT_UPPER + 2)?)))
    }

    /// Replaces `out` by the upper fence; false if the node has none.
    pub fn upper_into(&self, out: &mut Vec<u8>) -> Result<bool, Torn> {
        out.clear();
        if self.is_last()? {
            return Ok(false);
        }
        let (at, len) = self.upper_place()?;
        self.0.append_to(at, len, out)?;
        Ok(true)
    }

    /// Whether all keys in the range of the node come before `key`.
    pub fn ends_before(&self, key: &[u8]) -> Result<bool, Torn> {
        let (at, len) = self.upper_place()?;
        Ok(!self.is_last()? && self.0.compare(at, len, key)? != Ordering::Greater)
    }

    /// Replaces `key`, which is in the node, by the upper fence, where the next node begins; false if there is none. A
    /// fence that is not beyond the key is [`Torn`], so a walk along the fences always ends.
    pub fn advance_key(&self, key: &mut Vec<u8>) -> Result<bool, Torn> {
        if self.ends_before(key)? { Err(Torn) } else { self.upper_into(key) }
    }

    /// Both fences, copied.
    pub fn fences(&self) -> Result<Fences, Torn> {
        let (mut lower, mut upper) = (Vec::new(), Vec::new());
        self.lower_into(&mut lower)?;
        let bounded = self.upper_into(&mut upper)?;
        Ok(Fences { lower, upper: bounded.then_some(upper) })
    }

    /// Bytes of slots and live entries.
    pub fn used_bytes(&self) -> Result<usize, Torn> {
        let heap_begin = usize::from(self.0.u16(AT_HEAP_BEGIN)?);
        let heap = (self.0.bytes() - TRAILER_BYTES).checked_sub(heap_begin).ok_or(Torn)?;
        let fences = self.lower_place()?.1 + usize::from(self.0.u16(AT_UPPER + 2)?);
        let dead = usize::from(self.0.u16(AT_DEAD)?);
        Ok(heap.checked_sub(fences + dead).ok_or(Torn)? + self.slots()? * SLOT_BYTES)
    }

    /// Where the unused middle between slots and heap begins and ends.
    pub(crate) fn hole(&self) -> Result<(usize, usize), Torn> {
        let begin = NODE_HEADER_BYTES + self.slots()? * SLOT_BYTES;
        let end = usize::from(self.0.u16(AT_HEAP_BEGIN)?);
        if begin <= end && end <= self.0.bytes() { Ok((begin, end)) } else { Err(Torn) }
    }

    /// Bytes that one more entry may have, including its slot; some of them only after compaction.
    pub fn free_bytes(&self) -> Result<usize, Torn> {
        let heap_begin = usize::from(self.0.u16(AT_HEAP_BEGIN)?);
        let slots_end = NODE_HEADER_BYTES + self.slots()? * SLOT_BYTES;
        Ok(heap_begin.checked_sub(slots_end).ok_or(Torn)? + usize::from(self.0.u16(AT_DEAD)?))
    }

    /// Whether one more entry with such a key fits. The key is between the fences.
    pub fn fits(&self, key_len: usize, value_len: usize) -> Result<bool, Torn> {
        let suffix_len = key_len.checked_sub(self.prefix_len()?).ok_or(Torn)?;
        Ok(SLOT_BYTES + heap_bytes(suffix_len, value_len) <= self.free_bytes()?)
    }

    /// Whether a value of `value_len` bytes fits in slot `index`, whose key has `key_len` bytes.
    pub fn fits_instead(&self, index: usize, key_len: usize, value_len: usize) -> Result<bool, Torn> {
        let (_, old_len) = self.value(index)?;
        let suffix_len = key_len.checked_sub(self.prefix_len()?).ok_or(Torn)?;
        let freed = SLOT_BYTES + heap_bytes(suffix_len, old_len);
        Ok(SLOT_BYTES + heap_bytes(suffix_len, value_len) <= self.free_bytes()? + freed)
    }

    /// Slot of the last insert, and the number of consecutive inserts that each came right after the previous one.
    pub fn insert_pattern(&self) -> Result<(usize, usize), Torn> {
        Ok((usize::from(self.0.u16(AT_LAST_INSERT)?), usize::from(self.0.u16(AT_ASCENDING)?)))
    }
}

/// The range of keys of a node: from `lower`, up to before `upper`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fences {
    /// The first key of the range; empty for the leftmost nodes.
    pub lower: Vec<u8>,
    /// The first key beyond the range; `None` for the rightmost nodes.
    pub upper: Option<Vec<u8>>,
}

impl<'b> Node<&'b [u8]> {
    /// A slot's value.
    pub fn stored(&self, index: usize) -> Result<Stored<'b>, Torn> {
        let (at, len) = self.value(index)?;
        Ok(Stored { bytes: self.0.get(at..at + len).ok_or(Torn)?, large: self.is_large(index)? })
    }
}

impl Fences {
    /// Fences around all keys.
    pub fn all() -> Self {
        Fences { lower: Vec::new(), upper: None }
    }

    /// Whether `key` is within.
    pub fn contain(&self, key: &[u8]) -> bool {
        *self.lower <= *key && self.upper.as_ref().is_none_or(|upper| *key < **upper)
    }

    /// What every key within begins with.
    pub(crate) fn prefix_len(&self) -> usize {
        self.upper.as_ref().map_or(0, |upper| common_prefix(&self.lower, upper))
    }

    /// Bytes of both.
    pub(crate) fn bytes(&self) -> usize {
        self.lower.len() + self.upper.as_ref().map_or(0, Vec::len)
    }
}

/// Checks what [`super::edit::NodeMut`] relies on: all that lies in the heap lies within it, apart, and adds up.
pub(super) fn verify(page: &[u8]) -> Result<(), &'static str> {
    match verify_bounds(page) {
        Ok(true) => Ok(()),
        Ok(false) => Err("its entries do not add up"),
        Err(Torn) => Err("its entries lie outside of it"),
    }
}

/// The bytes of a page that something lies in. Where two things share some, the removal of one takes a part of the other along.
struct Taken([u64; PAGE_BYTES_MAX / 64]);

impl Taken {
    /// Takes `len` bytes from `at` on, all of the page; whether they were free.
    fn take(&mut self, at: usize, len: usize) -> bool {
        let (mut from, end) = (at, at + len);
        while from < end {
            let (word, bit) = (&mut self.0[from / 64], from % 64);
            let bits = (64 - bit).min(end - from);
            let mask = u64::MAX >> (64 - bits) << bit;
            if *word & mask != 0 {
                return false;
            }
            *word |= mask;
            from += bits;
        }
        true
    }
}

fn verify_bounds(page: &[u8]) -> Result<bool, Torn> {
    let node = Node(page);
    let heap_begin = usize::from(page.u16(AT_HEAP_BEGIN)?);
    let heap_end = page.len() - TRAILER_BYTES;
    let slots = node.slots()?;
    if heap_begin < NODE_HEADER_BYTES + slots * SLOT_BYTES || heap_begin > heap_end {
        return Err(Torn);
    }
    let mut taken = Taken([0; PAGE_BYTES_MAX / 64]);
    // An empty entry has no position: the heap may begin behind it after other entries were removed.
    let mut take = |at: usize, len: usize| {
        let lies_apart = (len == 0 || at >= heap_begin) && at + len <= heap_end && taken.take(at, len);
        if lies_apart { Ok(len) } else { Err(Torn) }
    };
    let (lower_at, lower_len) = node.lower_place()?;
    let (upper_at, upper_len) = (usize::from(page.u16(AT_UPPER)?), usize::from(page.u16(AT_UPPER + 2)?));
    let mut bytes = take(lower_at, lower_len)? + take(upper_at, upper_len)?;
    for index in 0..slots {
        let slot = node.slot(index)?;
        let (value_at, value_len) = node.value(index)?;
        let large = node.is_large(index)?;
        if node.level()? > 0 && (value_len != CHILD_BYTES || large) || large && value_len != LARGE_BYTES {
            return Err(Torn);
        }
        bytes += take(slot.at, value_at + value_len - slot.at)?;
    }
    let fences = node.fences()?;
    let adds_up = bytes + usize::from(page.u16(AT_DEAD)?) == heap_end - heap_begin;
    Ok(adds_up && node.prefix_len()? == fences.prefix_len())
}
