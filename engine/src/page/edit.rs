//! Tree nodes, changed in place. The caller has exclusive access to the page. Its bytes passed [`super::verify`] when
//! they were read, or were created here, so offsets are trusted: a wrong one is a bug and panics.

use super::node::{
    AT_ASCENDING, AT_DEAD, AT_FIRST_CHILD, AT_HEAP_BEGIN, AT_LAST_INSERT, AT_LOWER, AT_PREFIX, AT_SLOTS,
    AT_UPPER, FLAG_NO_UPPER, Fences, HEAD_BYTES, NODE_HEADER_BYTES, Node, SLOT_BYTES, Stored, VALUE_LENGTH,
    head_of, heap_bytes,
};
use super::{
    AT_FLAGS, AT_LEVEL, AT_OWNER, AT_PAGE_NO, KIND_NODE, PageNo, TRAILER_BYTES, Torn, format, read_u16,
    read_u64, write_u16, write_u64,
};

/// Bytes of a node for its fences, header and trailer: the rest is for entries.
pub(crate) fn fixed_bytes(fences: &Fences) -> usize {
    NODE_HEADER_BYTES + TRAILER_BYTES + fences.bytes()
}

/// Bytes of an entry in a node whose prefix has `prefix_len` bytes, including its slot.
pub(crate) fn entry_bytes(prefix_len: usize, key_len: usize, value_len: usize) -> usize {
    SLOT_BYTES + heap_bytes(key_len - prefix_len, value_len)
}

/// A tree node, for changes.
pub struct NodeMut<'p>(&'p mut [u8]);

impl<'p> NodeMut<'p> {
    /// Wraps the node in `page`.
    pub fn new(page: &'p mut [u8]) -> Self {
        NodeMut(page)
    }

    /// Formats `page` as an empty node. The fences fit (see [`super::node::entry_bytes_max`]).
    pub fn format(page: &'p mut [u8], no: PageNo, owner: PageNo, level: u8, fences: &Fences) -> Self {
        format(page, no, KIND_NODE, owner);
        page[AT_LEVEL] = level;
        let heap_end = page.len() - TRAILER_BYTES;
        write_u16(page, AT_HEAP_BEGIN, heap_end as u16);
        let mut node = NodeMut(page);
        node.push_fence(AT_LOWER, &fences.lower);
        match &fences.upper {
            Some(upper) => node.push_fence(AT_UPPER, upper),
            None => {
                node.push_fence(AT_UPPER, &[]);
                write_u16(node.0, AT_FLAGS, FLAG_NO_UPPER);
            }
        }
        write_u16(node.0, AT_PREFIX, fences.prefix_len() as u16);
        node
    }

    /// Empties the node and replaces its fences; its identity stays.
    pub fn reformat(self, level: u8, fences: &Fences) -> NodeMut<'p> {
        let (no, owner) = (PageNo(read_u64(self.0, AT_PAGE_NO)), PageNo(read_u64(self.0, AT_OWNER)));
        let lsn = super::lsn(self.0);
        let node = NodeMut::format(self.0, no, owner, level, fences);
        super::set_lsn(node.0, lsn);
        node
    }

    fn push_fence(&mut self, at: usize, fence: &[u8]) {
        let place = self.take_heap(fence.len());
        self.0[place..place + fence.len()].copy_from_slice(fence);
        write_u16(self.0, at, place as u16);
        write_u16(self.0, at + 2, fence.len() as u16);
    }

    fn take_heap(&mut self, bytes: usize) -> usize {
        let place = usize::from(read_u16(self.0, AT_HEAP_BEGIN)) - bytes;
        write_u16(self.0, AT_HEAP_BEGIN, place as u16);
        place
    }

    /// The node, for reading.
    pub fn node(&self) -> Node<&[u8]> {
        Node(self.0)
    }

    fn slots(&self) -> usize {
        usize::from(read_u16(self.0, AT_SLOTS))
    }

    fn prefix_len(&self) -> usize {
        usize::from(read_u16(self.0, AT_PREFIX))
    }

    /// Sets the child before the first slot.
    pub fn set_first_child(&mut self, child: PageNo) {
        write_u64(self.0, AT_FIRST_CHILD, child.0);
    }

    /// Appends an entry after the last; false if it does not fit.
    pub fn push<'v>(&mut self, key: &[u8], value: impl Into<Stored<'v>>) -> bool {
        let slots = self.slots();
        self.place(slots, key, value.into())
    }

    /// Inserts an entry as slot `index`, compacting the node if necessary; false if it does not fit.
    pub fn insert<'v>(&mut self, index: usize, key: &[u8], value: impl Into<Stored<'v>>) -> bool {
        let value = value.into();
        let needed = entry_bytes(self.prefix_len(), key.len(), value.len());
        if self.contiguous() < needed {
            if self.contiguous() + usize::from(read_u16(self.0, AT_DEAD)) < needed {
                return false;
            }
            self.compact();
        }
        let placed = self.place(index, key, value);
        self.note_insert(index);
        placed
    }

    fn contiguous(&self) -> usize {
        usize::from(read_u16(self.0, AT_HEAP_BEGIN)) - NODE_HEADER_BYTES - self.slots() * SLOT_BYTES
    }

    /// Ascending inserts are recognised by this when the node is split.
    fn note_insert(&mut self, index: usize) {
        let run = match index == usize::from(read_u16(self.0, AT_LAST_INSERT)) + 1 {
            true => read_u16(self.0, AT_ASCENDING).saturating_add(1),
            false => 0,
        };
        write_u16(self.0, AT_ASCENDING, run);
        write_u16(self.0, AT_LAST_INSERT, index as u16);
    }

    fn place(&mut self, index: usize, key: &[u8], value: Stored<'_>) -> bool {
        let suffix = &key[self.prefix_len()..];
        let bytes = heap_bytes(suffix.len(), value.len());
        if self.contiguous() < SLOT_BYTES + bytes {
            return false;
        }
        let slots = self.slots();
        let at = self.take_heap(bytes);
        write_u16(self.0, at, value.length_field());
        let rest = suffix.get(HEAD_BYTES..).unwrap_or(&[]);
        self.0[at + 2..at + 2 + rest.len()].copy_from_slice(rest);
        self.0[at + 2 + rest.len()..at + bytes].copy_from_slice(value.bytes);
        let slot = NODE_HEADER_BYTES + index * SLOT_BYTES;
        let slots_end = NODE_HEADER_BYTES + slots * SLOT_BYTES;
        self.0.copy_within(slot..slots_end, slot + SLOT_BYTES);
        self.0[slot..slot + HEAD_BYTES].copy_from_slice(&head_of(suffix).to_be_bytes());
        write_u16(self.0, slot + 4, at as u16);
        write_u16(self.0, slot + 6, suffix.len() as u16);
        write_u16(self.0, AT_SLOTS, slots as u16 + 1);
        true
    }

    /// Removes slot `index`.
    pub fn remove(&mut self, index: usize) {
        let slots = self.slots();
        let slot = NODE_HEADER_BYTES + index * SLOT_BYTES;
        let at = usize::from(read_u16(self.0, slot + 4));
        let rest = usize::from(read_u16(self.0, slot + 6)).saturating_sub(HEAD_BYTES);
        let bytes = (2 + rest + usize::from(read_u16(self.0, at) & VALUE_LENGTH)) as u16;
        if at == usize::from(read_u16(self.0, AT_HEAP_BEGIN)) {
            write_u16(self.0, AT_HEAP_BEGIN, at as u16 + bytes);
        } else {
            let dead = read_u16(self.0, AT_DEAD) + bytes;
            write_u16(self.0, AT_DEAD, dead);
        }
        let slots_end = NODE_HEADER_BYTES + slots * SLOT_BYTES;
        self.0.copy_within(slot + SLOT_BYTES..slots_end, slot);
        write_u16(self.0, AT_SLOTS, slots as u16 - 1);
        write_u16(self.0, AT_ASCENDING, 0);
    }

    /// Replaces the value of slot `index`, whose key is `key`. [`Node::fits_instead`] has confirmed that it fits.
    pub fn replace<'v>(
        &mut self,
        index: usize,
        key: &[u8],
        value: impl Into<Stored<'v>>,
    ) -> Result<(), Torn> {
        let value = value.into();
        if self.replace_in_place(index, value) {
            return Ok(());
        }
        self.remove(index);
        match self.insert(index, key, value) {
            true => Ok(()),
            false => Err(Torn),
        }
    }

    /// Overwrites the value of slot `index`; returns false, and changes nothing, if the old value has another length or
    /// kind, or if there is no such slot.
    pub(crate) fn replace_in_place(&mut self, index: usize, value: Stored<'_>) -> bool {
        if index >= self.slots() {
            return false;
        }
        match self.node().stored(index) {
            Ok(old) if old.length_field() == value.length_field() => {
                let (at, len) = self.node().value(index).expect("its value was just read");
                self.0[at..at + len].copy_from_slice(value.bytes);
                true
            }
            _ => false,
        }
    }

    /// Keeps the entries before slot `slot`, and makes `upper` the upper fence. Returns false, and changes nothing, if
    /// it is not within the node, or does not fit because it is longer than the old fence.
    pub fn cut(&mut self, slot: usize, upper: &[u8]) -> Result<bool, Torn> {
        let page_bytes = self.0.len();
        let mut copy = [0; super::PAGE_BYTES_MAX];
        let copy = &mut copy[..page_bytes];
        copy.copy_from_slice(self.0);
        let (old, mut key) = (Node(&*copy), Vec::new());
        let before = old.fences()?;
        let fences = Fences { lower: before.lower, upper: Some(upper.to_vec()) };
        let shorter = before.upper.is_none_or(|before| *upper <= *before);
        if slot > old.slots()? || *fences.lower >= *upper || !shorter {
            return Ok(false);
        }
        let mut bytes = fixed_bytes(&fences);
        for index in 0..slot {
            old.key_into(index, &mut key)?;
            if !fences.contain(&key) {
                return Ok(false);
            }
            bytes += entry_bytes(fences.prefix_len(), key.len(), old.stored(index)?.len());
        }
        if bytes > page_bytes {
            return Ok(false);
        }
        let mut node = NodeMut::new(self.0).reformat(old.level()?, &fences);
        node.set_first_child(PageNo(read_u64(copy, AT_FIRST_CHILD)));
        for index in 0..slot {
            old.key_into(index, &mut key)?;
            node.push(&key, old.stored(index)?);
        }
        Ok(true)
    }

    /// Moves the live entries together, so that all free bytes lie between slots and heap.
    fn compact(&mut self) {
        let page_bytes = self.0.len();
        let mut copy = [0; super::PAGE_BYTES_MAX];
        let copy = &mut copy[..page_bytes];
        copy.copy_from_slice(self.0);
        write_u16(self.0, AT_HEAP_BEGIN, (page_bytes - TRAILER_BYTES) as u16);
        write_u16(self.0, AT_DEAD, 0);
        for at in [AT_LOWER, AT_UPPER] {
            let (from, len) = (usize::from(read_u16(copy, at)), usize::from(read_u16(copy, at + 2)));
            self.push_fence(at, &copy[from..from + len]);
        }
        for index in 0..self.slots() {
            let slot = NODE_HEADER_BYTES + index * SLOT_BYTES;
            let from = usize::from(read_u16(copy, slot + 4));
            let rest = usize::from(read_u16(copy, slot + 6)).saturating_sub(HEAD_BYTES);
            let bytes = 2 + rest + usize::from(read_u16(copy, from) & VALUE_LENGTH);
            let at = self.take_heap(bytes);
            self.0[at..at + bytes].copy_from_slice(&copy[from..from + bytes]);
            write_u16(self.0, slot + 4, at as u16);
        }
    }

    /// Replaces the node's content by `from`, another node's bytes, except the page number.
    pub fn take_over(self, from: &[u8]) -> NodeMut<'p> {
        let no = read_u64(self.0, AT_PAGE_NO);
        self.0.copy_from_slice(from);
        write_u64(self.0, AT_PAGE_NO, no);
        self
    }
}
