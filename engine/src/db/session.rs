//! Sessions and statements: rows read and changed, under admission.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flifo_admission::{Class, Place};

use super::Tree;
use super::database::Inner;
use crate::error::Result;
use crate::wait::Waiter;

/// One connection's work on a database. It belongs to one thread at a time (`Send`, not `Sync`).
pub struct Session {
    database: Arc<Inner>,
    waiter: Waiter,
    lane: usize,
    /// A [`Statement`] holds a place: operations of transactions take its tickets.
    ///
    /// Others than the session's thread only look at it, and act on what it was.
    in_statement: Arc<AtomicBool>,
}

/// A statement: holds a place in admission until it is dropped, but for the time of its waits.
///
/// Every row read or changed takes one of the place's tickets; when they are used up, the statement queues again, and
/// may be refused there.
pub struct Statement<'a> {
    session: &'a Session,
    _place: Place<'a>,
}

impl Drop for Statement<'_> {
    fn drop(&mut self) {
        self.session.in_statement.store(false, Ordering::Relaxed);
    }
}

impl Session {
    pub(super) fn new(database: Arc<Inner>, waiter: Waiter, lane: usize) -> Self {
        Session { database, waiter, lane, in_statement: Arc::default() }
    }

    pub(super) fn shared_database(&self) -> &Arc<Inner> {
        &self.database
    }

    /// Whether a statement has the session's place now.
    pub(super) fn statement_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.in_statement)
    }

    /// A waiter of its own, under the same admission.
    pub(super) fn another_waiter(&self) -> Waiter {
        self.database.session_waiter(self.admission().admission())
    }

    pub(super) fn database(&self) -> &Inner {
        &self.database
    }

    pub(super) fn waiter(&self) -> &Waiter {
        &self.waiter
    }

    pub(super) fn lane(&self) -> usize {
        self.lane
    }

    /// Enters admission, as one of the first class if others may wait for what its transaction holds. Within a
    /// statement it takes a ticket of the statement's place, which is not left before the statement's end.
    pub(super) fn enter(&self, holds_locks: bool) -> Result<Option<Place<'_>>> {
        self.note_locks(holds_locks);
        if self.in_statement.load(Ordering::Relaxed) {
            self.take_ticket()?;
            return Ok(None);
        }
        Ok(Some(self.admission().place()?))
    }

    /// Enters to end a transaction, or to undo a part of it. One that holds locks does not queue for that, nor is it refused:
    /// others wait for it, or are about to, and there is not much left for it to do.
    pub(super) fn enter_to_end(&self, holds_locks: bool) -> Result<Option<Place<'_>>> {
        match holds_locks {
            true => Ok(self.enter_past_limit()),
            false => self.enter(false),
        }
    }

    /// Enters as one whose locks others wait for, at once, whatever the limit says. Within a statement it stays on the
    /// statement's place, tickets or not, or takes it again if the statement has lost it.
    pub(super) fn enter_past_limit(&self) -> Option<Place<'_>> {
        self.note_locks(true);
        if self.in_statement.load(Ordering::Relaxed) {
            self.admission().enter_past_limit();
            return None;
        }
        Some(self.admission().place_past_limit())
    }

    /// As [`Session::statement`], of a transaction of this session.
    pub(super) fn statement_of(&self, holds_locks: bool) -> Result<Statement<'_>> {
        self.note_locks(holds_locks);
        self.statement()
    }

    /// Says whether others may wait for what its transaction holds: of the first class it goes before others, and the others
    /// make room for it.
    pub(super) fn note_locks(&self, holds_locks: bool) {
        self.admission().set_class(if holds_locks { Class::First } else { Class::Normal });
    }

    /// Takes a ticket; out of tickets it asks again.
    fn take_ticket(&self) -> Result<()> {
        Ok(self.admission().enter()?)
    }

    fn admission(&self) -> &flifo_admission::Session {
        self.waiter.admission().expect("a session is under admission")
    }

    /// Begins a statement: enters admission, queueing if it must.
    ///
    /// One at a time: it leaves at its drop even if another of this session is still there.
    ///
    /// It is refused ([`crate::Error::Refused`]) if the scheduler has a queue limit or a queue timeout, or when somebody
    /// cancels it.
    pub fn statement(&self) -> Result<Statement<'_>> {
        let place = self.admission().place()?;
        self.in_statement.store(true, Ordering::Relaxed);
        Ok(Statement { session: self, _place: place })
    }
}

impl Statement<'_> {
    /// Puts the value of `key` into `value`; false (and `value` empty) if there is no such row.
    pub fn get(&self, tree: &Tree, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let tree = self.session.database.tree(tree)?;
        self.session.take_ticket()?;
        tree.get(&self.session.waiter, key, value)
    }

    /// Calls `each` with every row from `from` to `to`, ascending, until it says [`ControlFlow::Break`]. No latch is
    /// held during `each`, which may use this statement for other rows.
    ///
    /// ```
    /// # use std::ops::{Bound, ControlFlow};
    /// # use flifo_engine::{Result, Statement, Tree};
    /// /// The first ten keys that begin with `prefix`.
    /// fn first_ten(statement: &Statement, tree: &Tree, prefix: &[u8]) -> Result<Vec<Vec<u8>>> {
    ///     let mut keys = Vec::new();
    ///     statement.scan(tree, Bound::Included(prefix), Bound::Unbounded, |key, _value| {
    ///         if keys.len() == 10 || !key.starts_with(prefix) {
    ///             return ControlFlow::Break(());
    ///         }
    ///         keys.push(key.to_vec());
    ///         ControlFlow::Continue(())
    ///     })?;
    ///     Ok(keys)
    /// }
    /// ```
    pub fn scan(
        &self,
        tree: &Tree,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let tree = self.session.database.tree(tree)?;
        let mut refused = None;
        tree.scan(&self.session.waiter, from, to, |key, value| match self.session.take_ticket() {
            Ok(()) => each(key, value),
            Err(error) => {
                refused = Some(error);
                ControlFlow::Break(())
            }
        })?;
        refused.map_or(Ok(()), Err)
    }

    /// Adds a row; false if there is one with that key.
    pub fn insert(&self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<bool> {
        self.change(tree, |tree, waiter| tree.insert(waiter, key, value))
    }

    /// Gives a row another value; false if there is no row with that key.
    pub fn update(&self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<bool> {
        self.change(tree, |tree, waiter| tree.update(waiter, key, value))
    }

    /// Adds a row or gives it another value; true if it was added.
    pub fn upsert(&self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<bool> {
        self.change(tree, |tree, waiter| tree.upsert(waiter, key, value))
    }

    /// Removes a row; false if there is none with that key.
    pub fn delete(&self, tree: &Tree, key: &[u8]) -> Result<bool> {
        self.change(tree, |tree, waiter| tree.delete(waiter, key))
    }

    fn change(
        &self,
        tree: &Tree,
        change: impl FnOnce(&crate::tree::Tree, &Waiter) -> Result<bool>,
    ) -> Result<bool> {
        let session = self.session;
        let tree = session.database.tree(tree)?;
        session.take_ticket()?;
        session.database.change(&session.waiter, || change(tree, &session.waiter))
    }
}
