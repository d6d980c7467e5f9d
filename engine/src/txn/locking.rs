//! Locking reads and gap locks.
//!
//! # Locks and latches
//! A writer's lock is its id in the row. A thread creates another transaction's lock object only under a latch of the
//! row's leaf, after it has seen that the row has no active writer, or at the end of a wait in the row's queue; a
//! writer checks the queue under the latch before it writes. A thread creates a writer's own lock object only under the
//! latch under which it sees the writer's id in the row, since the writer may undo its version and continue. So two
//! transactions never hold incompatible locks of a row. A thread that has to wait drops the latch, queues
//! ([`LockTable::queue`](crate::lock::LockTable::queue)), and reads the row again.
//!
//! A writer may have barged past a holder of the lock object (`lock`). Then the id in the row counts, and the other
//! transaction gives way. So after a wait for a lock, the row is read again before the lock is relied on.
//!
//! A missing key is locked like an existing one. A large value is read after its row is locked and the latch dropped:
//! it does not change any more.
//!
//! # Gaps
//! Under serializable, a scan takes next-key locks of the rows it reads, deleted ones included, and a gap lock of the
//! row after them (or of the supremum). It takes each lock while all leaves from the previous row to this one are
//! latched, so no row is inserted in between. A transaction that adds a row requests, under its leaf's latch, an insert
//! intention on the next row, if any transaction holds gap locks ([`Gaps`]).
//!
//! The row that carries a gap lock must not disappear, or the gap would change. There are two ways it could. *Purge*
//! keeps a deleted row that has a gap lock, and retries later. *A rollback* removes the rows that its transaction
//! added; first it takes its own gap lock on the following row ([`Txn::keep_locks`]). No other transaction has the only
//! gap lock there: a scan waits for a row that another active transaction has written. If a rollback takes a gap lock
//! on such a row, it also takes those of the rows behind it, up to one that cannot disappear.

use std::cell::RefCell;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU64, Ordering};

use flifo_admission::Class;

use super::read::bad_version;
use super::table::CommitNo;
use super::undo::{Record, What};
use super::version::{HEADER_BYTES, Header, UndoPtr};
use super::write::lock_key;
use super::{Isolation, Txn, TxnId};
use crate::error::{Error, Result};
use crate::lock::{LockMode, LockTable, Request};
use crate::page::node::Stored;
use crate::tree::Tree;
use crate::wait::Waiter;

/// The number of transactions that hold gap locks.
///
/// # Invariant
/// A transaction counts itself before it latches a leaf to take its first gap lock, and uncounts itself only after it
/// has released its last one. A thread that adds or removes a row reads the count under the leaf's latch. So one of the
/// two comes later in that latch's order, and sees the other's change.
#[derive(Default)]
pub(super) struct Gaps(AtomicU64);

impl Gaps {
    /// Whether there are gap locks to check. Valid under the leaf's latch.
    pub(super) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    fn enter(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Whether any transaction has a gap lock of the row, which then may not be removed. The caller holds its leaf's
    /// latch.
    pub(super) fn hold(&self, locks: &LockTable, tree: &Tree, key: &[u8]) -> bool {
        // No transaction has this id, so every lock is another owner's.
        let nobody = TxnId(u64::MAX);
        self.any()
            && !locks.would_grant(&Request::new(nobody, lock_key(tree, Some(key)), LockMode::InsertIntention))
    }
}

/// What has come of writing a version.
pub(super) enum Put {
    Done,
    /// The row is another by now.
    Outdated,
    /// Others have the gap before this row (`None`: the tree's end) locked, or the new row.
    Refused(Option<Vec<u8>>),
}

/// The result of an attempt to lock a row.
enum LockAttempt<T> {
    Locked(T),
    /// It was written by this transaction, which is active.
    WrittenBy(TxnId),
    /// Others hold conflicting locks, or requested them before.
    MustQueue,
    /// See [`Error::WriteConflict`].
    Conflict,
    /// It is no version of a row.
    Bad,
}

impl<'s> Txn<'s> {
    /// Locks a row, and replaces `out` by its newest value; returns false, and empties `out`, if there is none. The
    /// lock is held to the end of the transaction, whether the row exists or not.
    pub(crate) fn get_locked(
        &mut self,
        tree: &Tree,
        key: &[u8],
        mode: LockMode,
        out: &mut Vec<u8>,
        waiter: &Waiter,
    ) -> Result<bool> {
        self.check_active()?;
        out.clear();
        self.ended_by_deadlock(waiter, |txn| {
            let (live, large) = txn.read_locked_version(tree, key, mode, waiter, |version| {
                let Some(version) = version.filter(is_live) else { return (false, false) };
                if !version.large {
                    out.extend_from_slice(&version.bytes[HEADER_BYTES..]);
                }
                (true, version.large)
            })?;
            if large {
                read_locked(tree, key, out, waiter)?;
            }
            Ok(live)
        })
    }

    /// Confirms an answer that relies on a version of a row (`None`: there is no row), whose transaction was seen to
    /// have ended: whether it is still the newest version, so not a rolled back one. It stays the newest until the end
    /// if reads lock.
    pub(super) fn confirm(
        &mut self,
        tree: &Tree,
        key: &[u8],
        was: Option<Header>,
        waiter: &Waiter,
    ) -> Result<bool> {
        match self.reads_lock() {
            true => {
                self.read_locked_version(tree, key, LockMode::Shared, waiter, |now| header_of(now) == was)
            }
            false => self.is_still(tree, key, was, waiter),
        }
    }

    /// As `confirm`, without locks. A version is copied first, and its transaction is checked afterwards, so it may
    /// have been rolled back in between. A version that is still there after its transaction has ended was committed.
    pub(super) fn is_still(
        &self,
        tree: &Tree,
        key: &[u8],
        was: Option<Header>,
        waiter: &Waiter,
    ) -> Result<bool> {
        Ok(was.is_none() || tree.read_latched(waiter, key, |now| header_of(now) == was)?)
    }

    /// Locks a row, and passes the leaf's part of it to `then`.
    fn read_locked_version<T>(
        &mut self,
        tree: &Tree,
        key: &[u8],
        mode: LockMode,
        waiter: &Waiter,
        then: impl FnOnce(Option<Stored<'_>>) -> T,
    ) -> Result<T> {
        let (id, snapshot) = (self.writing()?.id, self.write_snapshot());
        let mut request = self.request(id, tree, key, mode);
        let mut then = Some(then);
        loop {
            let looked =
                tree.read_latched(waiter, key, |version| match self.try_lock(request, version, snapshot) {
                    LockAttempt::Locked(()) => {
                        LockAttempt::Locked(then.take().expect("it is locked once")(version))
                    }
                    other => other.without(),
                })?;
            if let Some(locked) = self.locked_or_wait(looked, &mut request, tree, waiter)? {
                return Ok(locked);
            }
        }
    }

    /// Takes the lock of a row that is held still, if that needs no wait.
    fn try_lock(
        &self,
        request: Request<'_>,
        version: Option<Stored<'_>>,
        snapshot: Option<CommitNo>,
    ) -> LockAttempt<()> {
        let mut is_own = false;
        if let Some(version) = version {
            let Ok((header, _)) = Header::decode(version.prefix()) else { return LockAttempt::Bad };
            is_own = header.txn == request.owner;
            if let Some(writer) = self.active_writer(request.owner, &header) {
                return LockAttempt::WrittenBy(writer);
            }
            if self.is_conflict(request.owner, &header, snapshot) {
                return LockAttempt::Conflict;
            }
        }
        let locks = &self.system.locks;
        if is_own {
            // A lock object with only a part of the writer's rights would admit requests that are compatible with that
            // part. Conflicting requests were passed.
            locks.make_explicit(request.owner, request.key, || true);
        }
        match locks.try_lock(request) {
            true => LockAttempt::Locked(()),
            false => LockAttempt::MustQueue,
        }
    }

    /// Returns the result if the row is locked; otherwise waits for the conflicting transactions.
    fn locked_or_wait<T>(
        &self,
        looked: LockAttempt<T>,
        request: &mut Request<'_>,
        tree: &Tree,
        waiter: &Waiter,
    ) -> Result<Option<T>> {
        match looked {
            LockAttempt::Locked(found) => Ok(Some(found)),
            LockAttempt::WrittenBy(writer) => self.wait_for(writer, tree, request, waiter).map(|()| None),
            LockAttempt::MustQueue => self.queue(request, waiter).map(|()| None),
            LockAttempt::Conflict => Err(Error::WriteConflict),
            LockAttempt::Bad => Err(bad_version(tree)),
        }
    }

    /// As [`Txn::scan`], of the newest versions, with locks that keep the range unchanged until the end of the
    /// transaction.
    pub(super) fn scan_locked(
        &mut self,
        tree: &Tree,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        waiter: &Waiter,
        mut each: impl FnMut(&mut Self, &[u8], &[u8]) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let id = self.writing()?.id;
        self.count_gaps();
        let (mut last, mut row): (Option<Vec<u8>>, _) = (None, Row::default());
        loop {
            let from = last.as_deref().map_or(from, Bound::Excluded);
            let found =
                self.ended_by_deadlock(waiter, |txn| txn.lock_next(id, tree, from, to, &mut row, waiter))?;
            if let Some(session) = waiter.admission().filter(|_| found) {
                // A ticket a row, with nothing latched, and as one that holds locks by now.
                session.set_class(Class::First);
                waiter.take_ticket()?;
            }
            if found && row.large && !row.deleted {
                read_locked(tree, &row.key, &mut row.value, waiter)?;
            }
            let mut call = || waiter.call_back(|| each(self, &row.key, &row.value))?;
            if !found || !row.deleted && call()?.is_break() {
                return Ok(());
            }
            last.get_or_insert_default().clone_from(&row.key);
        }
    }

    /// Locks the next row of a range and the gap before it, and stores it in `row`; false if there is none, and the gap
    /// behind the range is locked.
    fn lock_next(
        &mut self,
        id: TxnId,
        tree: &Tree,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        row: &mut Row,
        waiter: &Waiter,
    ) -> Result<bool> {
        loop {
            let mut waits_at = None;
            let looked = tree.read_latched_first(waiter, from, |next| {
                let key = next.map(|(key, _)| key);
                let found = key.is_some_and(|key| !is_beyond(key, to));
                let mode = if found { LockMode::NextKeyShared } else { LockMode::Gap };
                let request = self.request_of(id, lock_key(tree, key), mode);
                match self.try_lock(request, next.map(|(_, version)| version), None) {
                    LockAttempt::Locked(()) => {
                        if let Some((key, version)) = next.filter(|_| found) {
                            row.set(key, version);
                        }
                        LockAttempt::Locked(found)
                    }
                    other => {
                        waits_at = key.map(<[u8]>::to_vec);
                        other.without()
                    }
                }
            })?;
            // As a reader, whatever it is for: the writer's end decides whether the row is there to carry a gap lock.
            let mut request =
                self.request_of(id, lock_key(tree, waits_at.as_deref()), LockMode::NextKeyShared);
            if let Some(found) = self.locked_or_wait(looked, &mut request, tree, waiter)? {
                return Ok(found);
            }
        }
    }

    /// Adds the first version of a row while other transactions may hold gap locks. Does not wait.
    pub(super) fn add_in_gap(
        &mut self,
        tree: &Tree,
        key: &[u8],
        version: &[u8],
        id: TxnId,
        waiter: &Waiter,
    ) -> Result<Put> {
        let locks = &self.system.locks;
        let row = self.request(id, tree, key, LockMode::Exclusive);
        let refused_at = RefCell::new(None);
        let added = tree.insert_before(waiter, key, version, |next| {
            let into_gap = self.request_of(id, lock_key(tree, next), LockMode::InsertIntention);
            let may = locks.would_grant(&into_gap) && locks.claim(&row);
            if may && self.locks_gaps {
                // The new row may divide a gap of this transaction, which keeps both parts. No request waits for it.
                locks.try_lock(self.request(id, tree, key, LockMode::Gap));
            }
            *refused_at.borrow_mut() = (!may).then(|| next.map(<[u8]>::to_vec));
            may
        })?;
        Ok(match (added, refused_at.into_inner()) {
            (true, _) => Put::Done,
            (false, Some(next)) => Put::Refused(next),
            (false, None) => Put::Outdated,
        })
    }

    /// Waits until no other transaction blocks inserts into the gap before `next` (`None`: the tree's end).
    pub(super) fn wait_for_gap(
        &self,
        id: TxnId,
        tree: &Tree,
        next: Option<&[u8]>,
        waiter: &Waiter,
    ) -> Result<()> {
        self.queue(&mut self.request_of(id, lock_key(tree, next), LockMode::InsertIntention), waiter)
    }

    /// Called before a change is undone: converts the transaction's implicit lock of the row to a lock object. If the
    /// row is removed, the transaction's gap locks there move to the following row.
    pub(super) fn keep_locks(&self, ptr: UndoPtr, record: &Record, waiter: &Waiter) -> Result<()> {
        let (locks, tree) = (&self.system.locks, self.system.tree(record.tree));
        // This transaction has the row, even if it passed others, and gap locks are compatible with all locks of
        // others: both are granted.
        let is_own = tree.read_latched(waiter, &record.key, |now| {
            let is_own = header_of(now).is_some_and(|now| now.is_of(record.txn, ptr));
            is_own && locks.make_explicit(record.txn, lock_key(&tree, Some(&record.key)), || true)
        })?;
        if !is_own || record.what != What::Added || !self.locks_gaps {
            return Ok(());
        }
        while !self.keep_gap(record.txn, &tree, &record.key, waiter)? {}
        Ok(())
    }

    /// Takes gap locks of the rows after `key`, up to the first one that cannot disappear, because no other active
    /// transaction has written it. Returns false if the caller must retry: before a row is locked it may disappear, and
    /// another row may be inserted before the locked ones, into its former gap. Once all are locked, no row can be
    /// inserted.
    fn keep_gap(&self, id: TxnId, tree: &Tree, key: &[u8], waiter: &Waiter) -> Result<bool> {
        let locks = &self.system.locks;
        let (mut key, mut passed, mut added) = (key.to_vec(), false, false);
        loop {
            let may_vanish = tree.read_latched_first(waiter, Bound::Excluded(&key), |next| {
                let gap = self.request_of(id, lock_key(tree, next.map(|(key, _)| key)), LockMode::Gap);
                added |= !locks.holds(id, gap.key, LockMode::Gap);
                locks.try_lock(gap);
                let (key, version) = next?;
                self.active_writer(id, &header_of(Some(version))?).map(|_| key.to_vec())
            })?;
            match may_vanish {
                Some(next) => (key, passed) = (next, true),
                None => return Ok(!(passed && added)),
            }
        }
    }

    fn count_gaps(&mut self) {
        if !self.locks_gaps {
            self.locks_gaps = true;
            self.system.gaps.enter();
        }
    }

    /// Whether its reads take locks.
    pub(crate) fn reads_lock(&self) -> bool {
        self.isolation == Isolation::Serializable
    }
}

impl<T> LockAttempt<T> {
    /// The same, which has not come to a lock.
    fn without<U>(self) -> LockAttempt<U> {
        match self {
            LockAttempt::Locked(_) => unreachable!("the lock was taken"),
            LockAttempt::WrittenBy(writer) => LockAttempt::WrittenBy(writer),
            LockAttempt::MustQueue => LockAttempt::MustQueue,
            LockAttempt::Conflict => LockAttempt::Conflict,
            LockAttempt::Bad => LockAttempt::Bad,
        }
    }
}

/// A row that a scan has locked.
#[derive(Default)]
struct Row {
    key: Vec<u8>,
    /// Still to be read if it is large.
    value: Vec<u8>,
    large: bool,
    deleted: bool,
}

impl Row {
    /// Of a version that was seen to have a header.
    fn set(&mut self, key: &[u8], version: Stored<'_>) {
        key.clone_into(&mut self.key);
        version.prefix()[HEADER_BYTES..].clone_into(&mut self.value);
        (self.large, self.deleted) = (version.large, !is_live(&version));
    }
}

pub(super) fn header_of(version: Option<Stored<'_>>) -> Option<Header> {
    Header::of(version.as_ref().map(Stored::prefix))
}

fn is_live(version: &Stored<'_>) -> bool {
    Header::of(Some(version.prefix())).is_some_and(|header| !header.deleted)
}

/// Reads the value of a locked row, which does not change; no latch is held.
fn read_locked(tree: &Tree, key: &[u8], value: &mut Vec<u8>, waiter: &Waiter) -> Result<()> {
    if !tree.get(waiter, key, value)? || value.len() < HEADER_BYTES {
        return Err(bad_version(tree));
    }
    value.drain(..HEADER_BYTES);
    Ok(())
}

fn is_beyond(key: &[u8], to: Bound<&[u8]>) -> bool {
    match to {
        Bound::Unbounded => false,
        Bound::Included(to) => key > to,
        Bound::Excluded(to) => key >= to,
    }
}
