//! List-append histories: what transactions did, and what came of them.

use std::collections::BTreeMap;

/// A row whose value is a list.
pub(crate) type Key = u32;
/// What is appended: no two appends of a history have the same.
pub(crate) type Element = u32;
/// A version of a row.
pub(crate) type List = Vec<Element>;

/// One operation that returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    /// The list that was found.
    Read(Key, List),
    /// The list that was found, and the element that was written behind it.
    Append(Key, List, Element),
    /// As an append, and then rolled back to a savepoint before it.
    Undone(Key, List, Element),
}

/// A transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Txn {
    /// One clock counts for all threads: it began after all that have a lower `ended`.
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    /// Its commit returned; otherwise it was rolled back.
    pub(crate) committed: bool,
    pub(crate) ops: Vec<Op>,
}

/// All transactions on rows whose lists were known before.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    pub(crate) initial: BTreeMap<Key, List>,
    pub(crate) txns: Vec<Txn>,
}

impl Txn {
    /// The lists that it wrote, in order: key, list before, list after.
    pub(crate) fn written(&self) -> impl Iterator<Item = (Key, &List, List)> {
        self.ops.iter().filter_map(|op| match op {
            Op::Append(key, base, element) => Some((*key, base, [&base[..], &[*element]].concat())),
            Op::Read(..) | Op::Undone(..) => None,
        })
    }

    /// Elements of others that it must not leave anywhere: all if it was rolled back, else those it took back.
    pub(crate) fn discarded(&self) -> impl Iterator<Item = (Key, Element)> {
        self.ops.iter().filter_map(|op| match op {
            Op::Undone(key, _, element) => Some((*key, *element)),
            Op::Append(key, _, element) if !self.committed => Some((*key, *element)),
            _ => None,
        })
    }
}

impl History {
    pub(crate) fn initial(&self, key: Key) -> List {
        self.initial.get(&key).cloned().unwrap_or_default()
    }
}
