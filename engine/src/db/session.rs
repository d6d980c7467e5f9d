//! Sessions and statements: rows read and changed, under admission.

use std::cell::Cell;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flifo_admission::Class;

use super::Tree;
use super::database::Inner;
use crate::error::Result;
use crate::wait::Waiter;

/// One connection's work on a database. It belongs to one thread at a time (`Send`, not `Sync`).
pub struct Session {
    database: Arc<Inner>,
    waiter: Waiter,
    lane: usize,
    /// How many [`Entered`] of it there are: of a statement and its operations, and of those that they call the user in.
    depth: Cell<u32>,
    inside: Inside,
    /// How many of its transactions hold locks for which others may wait.
    holders: Cell<u32>,
}

/// Which thread has a session's place, for an operation or a statement; 0 while none has. That thread alone finds itself in
/// it, so nothing is ordered by it.
#[derive(Clone, Default)]
pub(super) struct Inside(Arc<AtomicUsize>);

impl Inside {
    /// Whether it is this thread.
    pub(super) fn is_this_thread(&self) -> bool {
        self.0.load(Ordering::Relaxed) == this_thread()
    }
}

/// What no other thread that runs has; not 0.
#[inline]
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

/// An entry. The session leaves with the last of those that it has: one operation may be within another's callback, and both
/// are in one place.
#[must_use = "the session may leave when this is dropped"]
pub(super) struct Entered<'a> {
    session: &'a Session,
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        let session = self.session;
        session.depth.set(session.depth.get() - 1);
        if session.depth.get() == 0 {
            session.inside.0.store(0, Ordering::Relaxed);
            session.admission().exit();
        }
    }
}

/// A statement: holds a place in admission until it is dropped, but for the time of its waits.
///
/// Every row read or changed takes one of the place's tickets; when they are used up, the statement queues again, and
/// may be refused there.
pub struct Statement<'a> {
    session: &'a Session,
    _entered: Entered<'a>,
}

impl Session {
    pub(super) fn new(database: Arc<Inner>, waiter: Waiter, lane: usize) -> Self {
        Session {
            database,
            waiter,
            lane,
            depth: Cell::default(),
            inside: Inside::default(),
            holders: Cell::default(),
        }
    }

    pub(super) fn shared_database(&self) -> &Arc<Inner> {
        &self.database
    }

    /// Which thread has the session's place.
    pub(super) fn inside(&self) -> Inside {
        self.inside.clone()
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

    /// Enters admission. Within a statement, or in the callback of another operation, it takes a ticket of the place that is
    /// there, which is not left before that one's end.
    pub(super) fn enter(&self) -> Result<Entered<'_>> {
        self.take_ticket()?;
        Ok(self.entered())
    }

    /// Enters as one whose locks others wait for, at once, whatever the limit says. Within a statement it stays on the
    /// statement's place, tickets or not, or takes it again if the statement has lost it.
    pub(super) fn enter_forced(&self) -> Entered<'_> {
        self.admission().set_class(Class::First);
        self.admission().enter_forced();
        self.entered()
    }

    #[inline]
    fn entered(&self) -> Entered<'_> {
        if self.depth.get() == 0 {
            self.inside.0.store(this_thread(), Ordering::Relaxed);
        }
        self.depth.set(self.depth.get() + 1);
        Entered { session: self }
    }

    /// Whether one of its transactions holds locks for which others may wait, which did if `held`.
    pub(super) fn note_locks(&self, held: bool, holds: bool) {
        match (held, holds) {
            (false, true) => self.holders.set(self.holders.get() + 1),
            (true, false) => self.holders.set(self.holders.get() - 1),
            _ => {}
        }
        self.settle_class();
    }

    /// While one of its transactions holds locks it is of the first class: it goes before others, and the others make room for
    /// it. Some say so themselves before they are counted.
    pub(super) fn settle_class(&self) {
        self.admission().set_class(if self.holders.get() > 0 { Class::First } else { Class::Normal });
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
    /// Within another, or in an operation's callback, it takes a ticket of the place that is there. The session leaves when the
    /// last of them has ended.
    ///
    /// It is refused ([`crate::Error::Refused`]) if the scheduler has a queue limit or a queue timeout, or when somebody
    /// cancels it.
    pub fn statement(&self) -> Result<Statement<'_>> {
        Ok(Statement { session: self, _entered: self.enter()? })
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
