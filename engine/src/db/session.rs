//! Sessions and statements: rows read and changed, under admission.

use std::cell::Cell;
use std::ops::{Bound, ControlFlow};

use flifo_admission::Class;

use super::Tree;
use super::database::{Inner, SharedInner};
use crate::error::Result;
use crate::metrics::WaitReason;
use crate::slot::Entered;
use crate::wait::Waiter;

/// One connection's work on a database. A session belongs to one thread at a time (`Send`, not `Sync`).
pub struct Session {
    database: SharedInner,
    waiter: Waiter,
    lane: usize,
    /// How many of its transactions hold locks that others may wait for.
    holders: Cell<u32>,
}

/// A statement: holds a slot in admission until it is dropped, except during waits.
///
/// Every row read or changed takes one of the slot's tickets. When the tickets are used up, the statement queues again, and
/// may be refused there.
pub struct Statement<'a> {
    session: &'a Session,
    _entered: Option<Entered<'a>>,
}

impl Session {
    pub(super) fn new(database: SharedInner, waiter: Waiter, lane: usize) -> Self {
        Session { database, waiter, lane, holders: Cell::default() }
    }

    pub(super) fn shared_database(&self) -> &SharedInner {
        &self.database
    }

    /// A new waiter under the same admission.
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

    /// Enters admission. Within a statement, or in the callback of another operation, this takes a ticket of the slot held
    /// there, which is released when the outer one ends.
    pub(super) fn enter(&self) -> Result<Option<Entered<'_>>> {
        self.waiter.enter()
    }

    /// Enters by force, as a holder of locks that others wait for. Within a statement this keeps the statement's slot, also
    /// without a ticket, or acquires a slot if the statement has lost its own.
    pub(super) fn enter_forced(&self) -> Result<Option<Entered<'_>>> {
        self.database.check_process()?;
        self.admission().set_class(Class::First);
        Ok(self.waiter.enter_forced())
    }

    /// Notes that one of its transactions, which held locks if `held`, now `holds` locks that others may wait for, or none.
    pub(super) fn note_locks(&self, held: bool, holds: bool) {
        match (held, holds) {
            (false, true) => self.holders.set(self.holders.get() + 1),
            (true, false) => self.holders.set(self.holders.get() - 1),
            _ => {}
        }
        self.settle_class();
    }

    /// Sets the class in admission: the first class while one of its transactions holds locks. It then goes before others,
    /// and others make room for it. A forced entry sets the first class before the transaction is counted.
    pub(super) fn settle_class(&self) {
        self.admission().set_class(if self.holders.get() > 0 { Class::First } else { Class::Normal });
    }

    fn admission(&self) -> &flifo_admission::Session {
        self.waiter.admission().expect("a session is under admission")
    }

    /// Begins a statement: enters admission, queueing if it must.
    ///
    /// Within another statement, or in an operation's callback, this takes a ticket of the slot held there. The slot is
    /// released when the last of them has ended.
    ///
    /// Refused ([`crate::Error::Refused`]) if the scheduler has a queue limit or a queue timeout that is reached, or when the
    /// session is cancelled.
    pub fn statement(&self) -> Result<Statement<'_>> {
        Ok(Statement { session: self, _entered: self.enter()? })
    }

    /// Runs `wait`, which waits for something outside the engine, in a callback or within a statement. Releases the
    /// slot for that time, which counts as [`WaitReason::Embedder`].
    ///
    /// Use it where a callback waits for the work of another thread, such as room in a bounded channel: that thread may
    /// need the slot. `wait` must not use this session. If several sessions of the thread have a statement open, call
    /// it on the session that was used last, which has the slot.
    ///
    /// ```
    /// # use std::ops::{Bound, ControlFlow};
    /// # use std::sync::mpsc::SyncSender;
    /// # use flifo_engine::{Isolation, Result, Session, Table};
    /// /// Sends all keys to another thread.
    /// fn send_keys(session: &Session, table: &Table, to: &SyncSender<Vec<u8>>) -> Result<()> {
    ///     let mut txn = session.begin(Isolation::ReadCommitted);
    ///     txn.scan(table, Bound::Unbounded, Bound::Unbounded, |key, _value| {
    ///         match session.wait(|| to.send(key.to_vec())) {
    ///             Ok(()) => ControlFlow::Continue(()),
    ///             Err(_hung_up) => ControlFlow::Break(()),
    ///         }
    ///     })
    /// }
    /// ```
    pub fn wait<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.waiter.wait(WaitReason::Embedder, wait)
    }

    /// Runs `wait`, in which the thread waits for a lock of the embedder's that others hold across statements.
    ///
    /// As [`Session::wait`], but counted among the waits for row locks, whose number is bounded
    /// ([`lock_waiters_max`](flifo_admission::Config::lock_waiters_max)).
    pub fn wait_for_lock<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.waiter.wait(WaitReason::RowLock, wait)
    }
}

impl Statement<'_> {
    /// Puts the value of `key` into `value`; false (and `value` empty) if there is no such row.
    pub fn get(&self, tree: &Tree, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let tree = self.session.database.tree(tree)?;
        self.session.waiter.take_ticket()?;
        tree.get(&self.session.waiter, key, value)
    }

    /// Calls `each` with every row from `from` to `to`, ascending, until it returns [`ControlFlow::Break`]. No latch is
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
        let waiter = &self.session.waiter;
        tree.scan(waiter, from, to, |key, value| {
            let called = waiter.take_ticket().and_then(|()| waiter.call_back(|| each(key, value)));
            called.unwrap_or_else(|error| {
                refused = Some(error);
                ControlFlow::Break(())
            })
        })?;
        refused.map_or(Ok(()), Err)
    }

    /// Adds a row; false if a row with that key exists.
    pub fn insert(&self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<bool> {
        self.change(tree, |tree, waiter| tree.insert(waiter, key, value))
    }

    /// Replaces the value of a row; false if no row has that key.
    pub fn update(&self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<bool> {
        self.change(tree, |tree, waiter| tree.update(waiter, key, value))
    }

    /// Adds a row or replaces its value; true if it was added.
    pub fn upsert(&self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<bool> {
        self.change(tree, |tree, waiter| tree.upsert(waiter, key, value))
    }

    /// Removes a row; false if no row has that key.
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
        session.waiter.take_ticket()?;
        session.database.change(&session.waiter, || change(tree, &session.waiter))
    }
}
