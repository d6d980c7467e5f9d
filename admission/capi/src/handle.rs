//! Handles: numbers that C holds instead of addresses.
//!
//! ```text
//!  63    60 59                        20 19              0
//! +--------+----------------------------+-----------------+
//! |  kind  |         generation         |      index      |
//! | 4 bits |          40 bits           |     20 bits     |
//! +--------+----------------------------+-----------------+
//! ```
//!
//! A freed index is reused under the next generation, so an old handle never becomes valid again. An index whose
//! generations are used up (2^40 of them) is retired. A handle of one kind is never valid as another kind. 0 is no
//! handle.

use std::sync::Mutex;

use flifo_base::lock;

use crate::status::{FLIFO_DEAD_HANDLE, FLIFO_TOO_MANY, Failure, fail, invalid};

/// A handle of a scheduler, shared by all sessions that compete for the same CPUs. All zero = none.
///
/// An opaque number, not an address: the handle of a freed scheduler is never valid again. See `flifo_admission_new`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct flifo_admission_t {
    /// 0 = none.
    pub id: u64,
}

/// A handle of a session, which serves one connection. All zero = none. See `flifo_session_new`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct flifo_session_t {
    /// 0 = none.
    pub id: u64,
}

/// A handle of a canceller, which ends one session's queueing from another thread. All zero = none. See
/// `flifo_canceller_new`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct flifo_canceller_t {
    /// 0 = none.
    pub id: u64,
}

/// The kind of a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Admission = 1,
    Session = 2,
    Canceller = 3,
}

pub(crate) const INDEX_BITS: u32 = 20;
const KIND_SHIFT: u32 = 60;
pub(crate) const GENERATIONS: u64 = 1 << (KIND_SHIFT - INDEX_BITS);

pub(crate) const fn id(kind: Kind, generation: u64, index: usize) -> u64 {
    (kind as u64) << KIND_SHIFT | generation << INDEX_BITS | index as u64
}

pub(crate) const fn generation_of(id: u64) -> u64 {
    id >> INDEX_BITS & (GENERATIONS - 1)
}

pub(crate) const fn index_of(id: u64) -> usize {
    (id & ((1 << INDEX_BITS) - 1)) as usize
}

/// Returns the failure for a handle that is not valid.
#[cold]
pub(crate) fn dead(id: u64, what: &str) -> Failure {
    if id == 0 {
        invalid(format!("{what} is a handle of all zeros: make one first"))
    } else {
        FLIFO_DEAD_HANDLE
    }
}

/// Hands out indices with their generations.
pub(crate) struct Numbers {
    unused: usize,
    free: Vec<(usize, u64)>,
}

impl Numbers {
    pub(crate) const fn new() -> Self {
        Numbers { unused: 0, free: Vec::new() }
    }

    /// Returns a free index and its generation. `what` names the values in the message.
    pub(crate) fn take(&mut self, what: &str) -> Result<(usize, u64), Failure> {
        if let Some(free) = self.free.pop() {
            return Ok(free);
        }
        if self.unused == 1 << INDEX_BITS {
            let max = 1 << INDEX_BITS;
            return Err(fail(
                FLIFO_TOO_MANY,
                &format!("a process can have {max} {what} at a time: free some"),
            ));
        }
        self.unused += 1;
        Ok((self.unused - 1, 1))
    }

    /// Takes back an index that was used under this generation.
    pub(crate) fn give(&mut self, index: usize, generation: u64) {
        if generation + 1 < GENERATIONS {
            self.free.push((index, generation + 1));
        }
    }
}

/// Values behind handles, for functions off the hot path.
pub(crate) struct Table<T> {
    inner: Mutex<Inner<T>>,
    kind: Kind,
    /// Singular and plural of the values, for messages.
    names: (&'static str, &'static str),
}

struct Inner<T> {
    numbers: Numbers,
    /// By index: the handle and its value.
    values: Vec<(u64, Option<T>)>,
}

impl<T: Clone> Table<T> {
    /// Makes an empty table. `one` and `many` name its values.
    pub(crate) const fn new(kind: Kind, one: &'static str, many: &'static str) -> Self {
        let inner = Inner { numbers: Numbers::new(), values: Vec::new() };
        Table { inner: Mutex::new(inner), kind, names: (one, many) }
    }

    pub(crate) fn insert(&self, value: T) -> Result<u64, Failure> {
        let mut inner = lock(&self.inner);
        let (index, generation) = inner.numbers.take(self.names.1)?;
        let id = id(self.kind, generation, index);
        if index == inner.values.len() {
            inner.values.push((id, Some(value)));
        } else {
            inner.values[index] = (id, Some(value));
        }
        Ok(id)
    }

    pub(crate) fn get(&self, id: u64) -> Result<T, Failure> {
        let inner = lock(&self.inner);
        let found = inner.values.get(index_of(id)).filter(|(used, _)| *used == id);
        found.and_then(|(_, value)| value.clone()).ok_or_else(|| dead(id, self.names.0))
    }

    /// Takes a value out; its handle is dead now. The caller drops the value, after the lock is released.
    pub(crate) fn remove(&self, id: u64) -> Result<T, Failure> {
        let mut inner = lock(&self.inner);
        let found = inner.values.get_mut(index_of(id)).filter(|(used, _)| *used == id);
        let value = found.and_then(|(_, value)| value.take()).ok_or_else(|| dead(id, self.names.0))?;
        inner.numbers.give(index_of(id), generation_of(id));
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::FLIFO_INVALID;

    #[test]
    fn the_fields_of_a_handle_do_not_overlap() {
        let last = (1 << INDEX_BITS) - 1;
        let id = id(Kind::Canceller, GENERATIONS - 1, last);
        assert_eq!((id >> KIND_SHIFT, generation_of(id), index_of(id)), (3, GENERATIONS - 1, last));
    }

    #[test]
    fn an_old_handle_is_never_valid_again() {
        let table = Table::new(Kind::Canceller, "value", "values");
        let first = table.insert('a').unwrap();
        assert_eq!((table.get(first), table.remove(first)), (Ok('a'), Ok('a')));
        let second = table.insert('b').unwrap();
        assert_eq!(index_of(first), index_of(second), "the index is reused");
        assert_eq!((table.get(first), table.remove(first)), (Err(FLIFO_DEAD_HANDLE), Err(FLIFO_DEAD_HANDLE)));
        assert_eq!(table.get(second), Ok('b'));
        let wrong_kind = id(Kind::Session, generation_of(second), index_of(second));
        assert_eq!(table.get(wrong_kind), Err(FLIFO_DEAD_HANDLE));
        assert_eq!(table.get(u64::MAX), Err(FLIFO_DEAD_HANDLE));
        assert_eq!(table.get(0), Err(FLIFO_INVALID));
    }

    #[test]
    fn numbers_run_out_and_used_up_indices_are_retired() {
        let mut numbers = Numbers::new();
        let taken: Vec<_> = (0..1 << INDEX_BITS).map(|_| numbers.take("things").unwrap()).collect();
        assert_eq!(numbers.take("things"), Err(FLIFO_TOO_MANY));
        numbers.give(taken[5].0, GENERATIONS - 1);
        assert_eq!(numbers.take("things"), Err(FLIFO_TOO_MANY));
        numbers.give(taken[5].0, taken[5].1);
        assert_eq!(numbers.take("things"), Ok((5, 2)));
    }
}
