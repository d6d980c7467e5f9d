//! Writes: locks, the undo record, the new version.

use super::locking::{Put, header_of};
use super::read::bad_version;
use super::table::CommitNo;
use super::undo::{OVERHEAD_BYTES, Record, What};
use super::version::{HEADER_BYTES, Header};
use super::{Isolation, Txn, TxnId};
use crate::error::{Error, Result};
use crate::lock::{Class, Granted, LockError, LockKey, LockMode, Request};
use crate::tree::{Place, Tree, VALUE_BYTES_MAX};
use crate::wait::Waiter;

/// A transaction keeps its buffer for the next row up to this size.
const KEPT_BYTES: usize = 64 << 10;

/// What to do with a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change<'v> {
    /// Add it, if it is not there.
    Insert(&'v [u8]),
    /// Replace its value, if it is there.
    Update(&'v [u8]),
    /// Either.
    Upsert(&'v [u8]),
    /// Remove it, if it is there.
    Delete,
}

/// The newest version of a row, which only this transaction may write.
pub(super) struct Newest {
    bytes: Option<Vec<u8>>,
    pub(super) header: Option<Header>,
    place: Place,
}

/// The version that was replaced, if the row was there.
#[derive(Default)]
pub(super) struct Before(Option<Vec<u8>>);

impl Before {
    /// The row's value; `None` if it was not there.
    pub(super) fn value(&self) -> Option<&[u8]> {
        self.0.as_deref().map(|version| &version[HEADER_BYTES..])
    }
}

impl Newest {
    fn is_live(&self) -> bool {
        self.header.is_some_and(|header| !header.deleted)
    }

    /// The row's value; `None` if it is not there.
    pub(super) fn value(&self) -> Option<&[u8]> {
        self.bytes.as_deref().filter(|_| self.is_live()).map(|version| &version[HEADER_BYTES..])
    }
}

impl<'s> Txn<'s> {
    /// Changes a row; whether it was there before. If that is not what the change is for, nothing is changed.
    pub(crate) fn change(
        &mut self,
        tree: &Tree,
        key: &[u8],
        change: Change<'_>,
        waiter: &Waiter,
    ) -> Result<bool> {
        self.check_active()?;
        let value = match change {
            Change::Insert(value) | Change::Update(value) | Change::Upsert(value) => value,
            Change::Delete => &[],
        };
        check_size(tree, key, value)?;
        self.ended_by_deadlock(waiter, |txn| txn.try_change(tree, key, value, change, waiter))
    }

    fn try_change(
        &mut self,
        tree: &Tree,
        key: &[u8],
        value: &[u8],
        change: Change<'_>,
        waiter: &Waiter,
    ) -> Result<bool> {
        let deleted = change == Change::Delete;
        loop {
            let newest = self.newest(tree, key, waiter)?;
            let live = newest.is_live();
            if live && matches!(change, Change::Insert(_))
                || !live && matches!(change, Change::Update(_) | Change::Delete)
            {
                if self.confirm(tree, key, newest.header, waiter)? {
                    return Ok(live);
                }
                continue;
            }
            if self.replace(tree, key, newest, value, deleted, waiter)?.is_some() {
                return Ok(live);
            }
        }
    }

    /// Replaces the newest version by a new one, if it is still the newest; returns the replaced version, or `None`.
    pub(super) fn replace(
        &mut self,
        tree: &Tree,
        key: &[u8],
        newest: Newest,
        value: &[u8],
        deleted: bool,
        waiter: &Waiter,
    ) -> Result<Option<Before>> {
        let (before, live, adds) = (newest.header, newest.is_live(), newest.bytes.is_none());
        let what = newest.bytes.as_deref().map_or(What::Added, What::Replaced);
        let system = self.system;
        let writing = self.writing()?;
        let id = writing.id;
        let record = Record { txn: id, tree: tree.root(), key, deletes: deleted, what };
        let undo = writing.append(system, &record, waiter)?;
        writing.undo.push(undo);
        let mut buffer = std::mem::take(&mut writing.buffer);
        let version = &mut buffer;
        version.clear();
        Header { txn: id, undo, deleted }.encode(version);
        version.extend_from_slice(value);
        let put = match adds && self.system.gaps.any() {
            true => self.add_in_gap(tree, key, version, id, waiter)?,
            false => {
                let request = self.request(id, tree, key, LockMode::Exclusive);
                let is_own = before.is_some_and(|before| before.txn == id);
                let put = tree.put_at(waiter, (key, version), Some(newest.place), |now| {
                    Header::of(now) == before
                        && !(adds && self.system.gaps.any())
                        && (is_own || self.system.locks.claim(&request))
                })?;
                if put { Put::Done } else { Put::Outdated }
            }
        };
        if buffer.capacity() <= KEPT_BYTES {
            self.writing()?.buffer = buffer;
        }
        if !matches!(put, Put::Done) {
            // Purge would stop at this record, which has no change behind it, for as long as this transaction waits for
            // the row or its gap: a thousand that wait are seconds.
            self.writing()?.take_back(waiter)?;
            if let Put::Refused(next) = put {
                self.wait_for_gap(id, tree, next.as_deref(), waiter)?;
            }
            return Ok(None);
        }
        Ok(Some(Before(newest.bytes.filter(|_| live))))
    }

    /// Waits until the row's newest version is this transaction's own or of an ended transaction, and until no other
    /// transaction has an incompatible lock of the row. A caller that does not [`replace`](Txn::replace) it must
    /// [`confirm`](Txn::confirm) it.
    pub(super) fn newest(&mut self, tree: &Tree, key: &[u8], waiter: &Waiter) -> Result<Newest> {
        let mut bytes = Vec::new();
        let snapshot = self.write_snapshot();
        let id = self.writing()?.id;
        let mut request = self.request(id, tree, key, LockMode::Exclusive);
        loop {
            let (found, place) = tree.get_to_put(waiter, key, &mut bytes)?;
            #[cfg(test)]
            tests::copied();
            let header = match found {
                true => Some(Header::decode(&bytes).map_err(|_| bad_version(tree))?.0),
                false => None,
            };
            if let Some(header) = header {
                if let Some(writer) = self.active_writer(id, &header) {
                    self.wait_for(writer, tree, &mut request, waiter)?;
                    continue;
                }
                if self.is_conflict(id, &header, snapshot) {
                    match self.confirm(tree, key, Some(header), waiter)? {
                        true => return Err(Error::WriteConflict),
                        false => continue,
                    }
                }
            }
            // Its id in the row is its lock, even if others wait for the row or were passed.
            let is_own = header.is_some_and(|header| header.txn == id);
            if !is_own && !self.system.locks.would_grant(&request) {
                self.queue(&mut request, waiter)?;
                continue;
            }
            return Ok(Newest { bytes: found.then_some(bytes), header, place });
        }
    }

    /// Under repeatable read, a change since the snapshot is not overwritten.
    pub(super) fn write_snapshot(&mut self) -> Option<CommitNo> {
        (self.isolation == Isolation::RepeatableRead).then(|| self.view().commit)
    }

    /// The other transaction that has written this version, if it is still active.
    pub(super) fn active_writer(&self, id: TxnId, header: &Header) -> Option<TxnId> {
        (header.txn != id && self.system.table.is_active(header.txn)).then_some(header.txn)
    }

    pub(super) fn is_conflict(&self, id: TxnId, header: &Header, snapshot: Option<CommitNo>) -> bool {
        snapshot
            .is_some_and(|snapshot| header.txn != id && !self.system.table.is_visible(header.txn, snapshot))
    }

    /// Waits for the writer whose id was seen in the row, if it is still there and active. The caller reads the row
    /// again.
    ///
    /// An id that has left the row is no lock: a transaction continues after it has undone its version, and another may
    /// have locked the row since. So an implicit lock is checked once more, and converted to a lock object under the
    /// latch, which an undo holds exclusively.
    pub(super) fn wait_for(
        &self,
        writer: TxnId,
        tree: &Tree,
        request: &mut Request<'_>,
        waiter: &Waiter,
    ) -> Result<()> {
        #[cfg(test)]
        tests::seen();
        let (locks, table) = (&self.system.locks, &self.system.table);
        // The end of a tree has no writer.
        let Some(key) = request.key.key else { return Ok(()) };
        if table.poll_end(writer) {
            return Ok(());
        }
        let has_it = locks.holds(writer, request.key, LockMode::Exclusive)
            || tree.read_latched(waiter, key, |now| {
                header_of(now).is_some_and(|now| now.txn == writer)
                    && locks.make_explicit(writer, request.key, || table.is_active(writer))
            })?;
        if has_it { self.queue(request, waiter) } else { Ok(()) }
    }

    /// Waits for conflicting transactions, if there are any. The caller reads the row again. If it has to request the
    /// lock again after a wait, the request has priority.
    pub(super) fn queue(&self, request: &mut Request<'_>, waiter: &Waiter) -> Result<()> {
        let granted = self.system.locks.queue(*request, waiter).map_err(|error| self.lock_error(error))?;
        request.insists |= granted == Granted::AfterWait;
        Ok(())
    }

    /// Takes a lock that exists only as a lock object.
    pub(super) fn lock(&self, request: Request<'_>, waiter: &Waiter) -> Result<()> {
        self.system.locks.lock(request, waiter).map(drop).map_err(|error| self.lock_error(error))
    }

    fn lock_error(&self, error: LockError) -> Error {
        match error {
            LockError::Deadlock => Error::Deadlock,
            // In a stopped database no lock is released any more, so a retry after the timeout would repeat forever.
            LockError::Timeout => self.system.check_open().err().unwrap_or(Error::LockWaitTimeout),
            LockError::Cancelled => Error::LockWaitCancelled,
        }
    }

    pub(super) fn request<'k>(&self, id: TxnId, tree: &Tree, key: &'k [u8], mode: LockMode) -> Request<'k> {
        self.request_of(id, lock_key(tree, Some(key)), mode)
    }

    /// The same, of the tree's end as well.
    pub(super) fn request_of<'k>(&self, id: TxnId, key: LockKey<'k>, mode: LockMode) -> Request<'k> {
        let written = self.writing.as_ref().map_or(0, |writing| writing.undo.len());
        Request {
            class: if written > 0 { Class::First } else { Class::Newcomer },
            timeout: Some(self.system.lock_wait_timeout),
            weight: written as u64,
            ..Request::new(id, key, mode)
        }
    }

    /// A deadlock's victim is rolled back at once: others wait for what it holds.
    pub(super) fn ended_by_deadlock<T>(
        &mut self,
        waiter: &Waiter,
        f: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let result = f(self);
        if matches!(result, Err(Error::Deadlock)) && self.rollback(waiter).is_err() {
            self.leave();
        }
        result
    }
}

/// Checks that a row of this size fits: its version must fit the tree, and an undo record.
pub(super) fn check_size(tree: &Tree, key: &[u8], value: &[u8]) -> Result<()> {
    let max = VALUE_BYTES_MAX - HEADER_BYTES - OVERHEAD_BYTES - key.len().min(VALUE_BYTES_MAX / 2);
    if value.len() > max {
        return Err(Error::ValueTooLarge { size: value.len(), max });
    }
    tree.check_size(key.len(), HEADER_BYTES + value.len())
}

pub(super) fn lock_key<'k>(tree: &Tree, key: Option<&'k [u8]>) -> LockKey<'k> {
    LockKey { tree: tree.root().0, key }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::{Arc, Barrier};
    use std::time::Duration;

    use super::*;
    use crate::row::{Column, ColumnType, Index, Schema};
    use crate::{Database, EngineConfig, Savepoint, Session, Transaction};

    type Hook = RefCell<Option<Box<dyn FnOnce()>>>;

    thread_local! {
        static COPIED: Hook = const { RefCell::new(None) };
        static SEEN: Hook = const { RefCell::new(None) };
    }

    /// A row was copied, and nothing is known yet of the one that wrote it.
    pub(super) fn copied() {
        if let Some(then) = COPIED.take() {
            then();
        }
    }

    /// A row was seen to be another active transaction's, and is not latched any more.
    pub(super) fn seen() {
        if let Some(then) = SEEN.take() {
            then();
        }
    }

    fn session(db: &Database) -> Session {
        db.session(&flifo_admission::Admission::new(flifo_admission::Config::default()).unwrap())
    }

    /// What `then` does while another rolls back, in between `then`'s first look at a row and the next.
    fn meanwhile<T: Send>(
        db: &Database,
        isolation: Isolation,
        change: impl FnOnce(&mut Transaction<'_>),
        then: impl FnOnce(&mut Transaction<'_>) -> T + Send,
    ) -> T {
        let (other, barrier) = (session(db), Arc::new(Barrier::new(2)));
        let mut changes = other.begin(Isolation::ReadCommitted);
        change(&mut changes);
        std::thread::scope(|scope| {
            let in_copy = Arc::clone(&barrier);
            let thread = scope.spawn(|| {
                COPIED.set(Some(Box::new(move || {
                    in_copy.wait();
                    in_copy.wait();
                })));
                then(&mut session(db).begin(isolation))
            });
            barrier.wait();
            changes.rollback().unwrap();
            barrier.wait();
            thread.join().unwrap()
        })
    }

    #[test]
    fn nobody_is_told_of_what_nobody_committed() {
        let db = Database::create_on(Arc::new(crate::disk::MemoryDisk::default()), EngineConfig::default());
        let db = db.unwrap();
        let table = db.create_table("t").unwrap();
        let fill = session(&db);
        let mut txn = fill.begin(Isolation::ReadCommitted);
        txn.insert(&table, b"there", b"0").unwrap();
        txn.commit().unwrap();
        let add = |txn: &mut Transaction<'_>| assert!(txn.insert(&table, b"k", b"1").unwrap());
        let delete = |txn: &mut Transaction<'_>| assert!(txn.delete(&table, b"there").unwrap());
        for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
            let added = meanwhile(&db, isolation, add, |txn| txn.insert(&table, b"k", b"2"));
            assert!(matches!(added, Ok(true)), "{isolation:?}: {added:?}");
            let updated = meanwhile(&db, isolation, delete, |txn| txn.update(&table, b"there", b"2"));
            assert!(matches!(updated, Ok(true)), "{isolation:?}: {updated:?}");
            let deleted = meanwhile(&db, isolation, delete, |txn| txn.delete(&table, b"there"));
            assert!(matches!(deleted, Ok(true)), "{isolation:?}: {deleted:?}");
        }
    }

    #[test]
    fn nor_is_a_statement_that_chooses() {
        let db = Database::create_on(Arc::new(crate::disk::MemoryDisk::default()), EngineConfig::default());
        let (db, schema) = (db.unwrap(), Schema::builder().column(Column::new("id", ColumnType::U64)));
        let schema = schema.column(Column::new("n", ColumnType::U64)).primary_key(["id"]).build().unwrap();
        let table = db.create_typed_table("t", schema).unwrap();
        let fill = session(&db);
        let mut txn = fill.begin(Isolation::ReadCommitted);
        table.insert(&mut txn, (1, 1)).unwrap();
        txn.commit().unwrap();
        let add = |txn: &mut Transaction<'_>| assert!(table.insert(txn, (2, 2)).unwrap().is_none());
        let delete = |txn: &mut Transaction<'_>| assert!(table.delete(txn, 1).unwrap());
        let set = |txn: &mut Transaction<'_>| assert!(table.update(txn, (1, u64::MAX)).unwrap());
        for isolation in [Isolation::ReadCommitted, Isolation::Serializable] {
            let added = meanwhile(&db, isolation, add, |txn| table.insert(txn, (2, 3)));
            assert!(matches!(added, Ok(None)), "{isolation:?}: {added:?}");
            let deleted = meanwhile(&db, isolation, delete, |txn| table.delete(txn, 1));
            assert!(matches!(deleted, Ok(true)), "{isolation:?}: {deleted:?}");
            let changed = meanwhile(&db, isolation, set, |txn| {
                table.update_with(txn, 1, |row| match row.get("n")?.as_u64() {
                    Some(u64::MAX) => Err(Error::WriteConflict),
                    _ => Ok(row.set("n", 5)?),
                })
            });
            assert!(matches!(changed, Ok(true)), "{isolation:?}: {changed:?}");
        }
    }

    /// While `stops` has seen that a row is `writes`'s and is about to wait, `writes` rolls back to `before` and continues, and
    /// `locks` locks the row. The lock is its own then, also when `writes` has ended: `stops` waits for that.
    fn locked_after_an_undo<T: Send>(
        db: &Database,
        (mut writes, before): (Transaction<'_>, Savepoint),
        locks: impl FnOnce(),
        stops: impl FnOnce() -> T + Send,
    ) -> T {
        let barrier = Arc::new(Barrier::new(2));
        std::thread::scope(|scope| {
            let in_look = Arc::clone(&barrier);
            let thread = scope.spawn(move || {
                SEEN.set(Some(Box::new(move || {
                    in_look.wait();
                    in_look.wait();
                })));
                stops()
            });
            barrier.wait();
            writes.rollback_to(before).unwrap();
            locks();
            barrier.wait();
            while db.stats().locks.waiting == 0 && !thread.is_finished() {
                std::thread::yield_now();
            }
            writes.commit().unwrap();
            thread.join().unwrap()
        })
    }

    fn impatient() -> EngineConfig {
        EngineConfig { lock_wait_timeout: Duration::from_millis(100), ..EngineConfig::default() }
    }

    #[test]
    fn a_lock_is_not_taken_away_for_a_version_that_was_undone() {
        let db = Database::create_on(Arc::new(crate::disk::MemoryDisk::default()), impatient()).unwrap();
        let table = db.create_table("t").unwrap();
        let (one, two) = (session(&db), session(&db));
        let mut fills = one.begin(Isolation::ReadCommitted);
        fills.insert(&table, b"r", b"0").unwrap();
        fills.commit().unwrap();
        let mut value = Vec::new();
        for (shared, updates) in [(false, true), (true, true), (false, false), (true, false)] {
            let mut writes = one.begin(Isolation::ReadCommitted);
            let before = writes.savepoint();
            assert!(writes.update(&table, b"r", b"1").unwrap());
            let mut locks = two.begin(Isolation::ReadCommitted);
            let lock = || {
                let found = match shared {
                    true => locks.get_for_share(&table, b"r", &mut value),
                    false => locks.get_for_update(&table, b"r", &mut value),
                };
                assert!(found.unwrap() && value == b"0");
            };
            let stopped = locked_after_an_undo(&db, (writes, before), lock, || {
                let session = session(&db);
                let mut txn = session.begin(Isolation::ReadCommitted);
                match updates {
                    true => txn.update(&table, b"r", b"2"),
                    false => txn.get_for_update(&table, b"r", &mut Vec::new()),
                }
            });
            assert!(matches!(stopped, Err(Error::LockWaitTimeout)), "{shared} {updates}: {stopped:?}");
            assert!(locks.update(&table, b"r", b"0").unwrap());
            locks.commit().unwrap();
        }
    }

    /// Of an entry in an index.
    #[test]
    fn nor_for_an_entry_whose_deletion_was() {
        let db = Database::create_on(Arc::new(crate::disk::MemoryDisk::default()), impatient()).unwrap();
        let schema = Schema::builder().column(Column::new("id", ColumnType::U64));
        let schema = schema.column(Column::new("n", ColumnType::U64)).primary_key(["id"]);
        let schema = schema.index(Index::unique("by_n", ["n"])).build().unwrap();
        let table = db.create_typed_table("t", schema).unwrap();
        let (one, two) = (session(&db), session(&db));
        let mut fills = one.begin(Isolation::ReadCommitted);
        table.insert(&mut fills, (1, 1)).unwrap();
        fills.commit().unwrap();
        let mut writes = one.begin(Isolation::ReadCommitted);
        let before = writes.savepoint();
        assert!(table.delete(&mut writes, 1).unwrap());
        let mut locks = two.begin(Isolation::Serializable);
        let lock = || assert_eq!(table.iter_index(&mut locks, "by_n", ..).unwrap().count(), 1);
        let inserted = locked_after_an_undo(&db, (writes, before), lock, || {
            let session = session(&db);
            table.insert(&mut session.begin(Isolation::ReadCommitted), (2, 1))
        });
        assert!(matches!(inserted, Err(Error::DuplicateKey { .. })), "{inserted:?}");
    }

    /// A transaction that waits for an entry reads it before it requests the part: others in the entry's queue may wait
    /// for a later writer, which only the entry shows.
    #[test]
    fn who_wants_a_unique_part_looks_at_the_entry_first() {
        let config = EngineConfig { lock_wait_timeout: Duration::from_secs(20), ..EngineConfig::default() };
        let db = Database::create_on(Arc::new(crate::disk::MemoryDisk::default()), config).unwrap();
        let schema = Schema::builder().column(Column::new("id", ColumnType::U64));
        let schema = schema.column(Column::new("n", ColumnType::U64)).primary_key(["id"]);
        let schema = schema.index(Index::unique("by_n", ["n"])).build().unwrap();
        let table = db.create_typed_table("t", schema).unwrap();
        let (one, two, three) = (session(&db), session(&db), session(&db));
        let mut fills = one.begin(Isolation::ReadCommitted);
        table.insert(&mut fills, (1, 1)).unwrap();
        fills.commit().unwrap();
        let mut first = one.begin(Isolation::ReadCommitted);
        assert!(table.delete(&mut first, 1).unwrap());
        let (mut has_part, mut writer) =
            (two.begin(Isolation::ReadCommitted), three.begin(Isolation::ReadCommitted));
        let (counted, barrier) = (|| db.stats().locks, Arc::new(Barrier::new(2)));
        std::thread::scope(|scope| {
            let (in_look, db, table) = (Arc::clone(&barrier), &db, &table);
            let thread = scope.spawn(move || {
                SEEN.set(Some(Box::new(move || {
                    in_look.wait();
                    in_look.wait();
                })));
                table.insert(&mut session(db).begin(Isolation::ReadCommitted), (2, 1))
            });
            barrier.wait();
            first.rollback().unwrap();
            let refused = table.insert(&mut has_part, (3, 1));
            assert!(matches!(refused, Err(Error::DuplicateKey { .. })), "{refused:?}");
            assert!(table.delete(&mut writer, 1).unwrap());
            let before = counted().made_explicit;
            barrier.wait();
            while counted().waiting == 0 {
                std::thread::yield_now();
            }
            assert_eq!(counted().made_explicit, before + 1, "it waits for the entry's present owner");
            writer.commit().unwrap();
            has_part.rollback().unwrap();
            let inserted = thread.join().unwrap();
            assert!(matches!(inserted, Ok(None)), "{inserted:?}");
        });
    }
}
