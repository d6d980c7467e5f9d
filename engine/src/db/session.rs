//! Sessions and statements: rows read and changed, under admission.

use std::ops::{Bound, ControlFlow};

use flifo_admission::Place;

use super::{Database, Tree};
use crate::error::Result;
use crate::wait::Waiter;

/// One connection's work on a database. It belongs to one thread at a time (`Send`, not `Sync`).
pub struct Session {
    _database: Database,
    waiter: Waiter,
}

/// A statement: holds a place in admission until it is dropped.
pub struct Statement<'a> {
    _session: &'a Session,
    _place: Place<'a>,
}

impl Session {
    /// Begins a statement: enters admission, queueing if it must.
    pub fn statement(&self) -> Statement<'_> {
        let admission = self.waiter.admission().expect("a session is under admission");
        Statement { _session: self, _place: admission.place() }
    }
}

impl Statement<'_> {
    /// Puts the value of `key` into `value`; false (and `value` empty) if there is no such row.
    pub fn get(&self, tree: &Tree, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let _ = (tree, key, value);
        unimplemented!()
    }

    /// Calls `each` with every row from `from` to `to`, ascending, until it says [`ControlFlow::Break`]. A row takes
    /// a ticket. No latch is held during `each`, which may use this session for other rows.
    pub fn scan(
        &self,
        tree: &Tree,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let _ = (tree, from, to, each);
        unimplemented!()
    }

    /// Adds a row; false if there is one with that key.
    pub fn insert(&self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<bool> {
        let _ = (tree, key, value);
        unimplemented!()
    }

    /// Gives a row another value; false if there is no row with that key.
    pub fn update(&self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<bool> {
        let _ = (tree, key, value);
        unimplemented!()
    }

    /// Adds a row or gives it another value; true if it was added.
    pub fn upsert(&self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<bool> {
        let _ = (tree, key, value);
        unimplemented!()
    }

    /// Removes a row; false if there is none with that key.
    pub fn delete(&self, tree: &Tree, key: &[u8]) -> Result<bool> {
        let _ = (tree, key);
        unimplemented!()
    }
}
