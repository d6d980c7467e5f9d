//! Row locks: which owner may read, change and insert which rows, in which order, and which one gives way in a deadlock.
//!
//! This module knows keys and owners' ids, but no pages, trees or transactions. A lock object exists only while an owner
//! holds it. A writer needs no lock object: its id in the row is its lock, an *implicit* one. Another owner that finds the
//! id makes the lock explicit ([`LockTable::make_explicit`]) before it requests the row.
//!
//! # Protocol
//! - [`LockTable::lock`] grants at once, or queues the request and waits through the caller's [`Waiter`], which releases
//!   the slot in admission. A release grants the lock to the next request in the queue and wakes its thread. Order: first
//!   come, first served, except that the first class (owners that hold locks) goes before newcomers that have not yet
//!   waited for [`LockConfig::promote_after`] (`queue`). Until the woken thread runs, running threads may overtake it
//!   (`object`).
//! - The table in `mode` says which requests wait for which holders. A part of a lock that its owner already holds is not
//!   requested again.
//! - A wait ends in a grant or in an error, [`LockError`]. After an error the request is neither queued nor granted, and
//!   the requests that waited for it have been checked again.
//! - A search for a deadlock runs when a wait begins. Long searches are left to the [`Detector`] (`deadlock`).
//!
//! # Order of mutexes
//! | order | what | rule |
//! |---|---|---|
//! | 1 | a shard's mutex | one at a time; only the end of a deadlock takes several, in the order of their numbers |
//! | 2 | an owner slot's mutex | a leaf |
//! | - | the list of deferred searches | a leaf, taken alone |
//!
//! They are held for as long as it takes to read one queue, and no thread waits for anything else while it holds one. So
//! every function except `lock` may be called with page latches held, and so may `lock` with a timeout of zero.

mod deadlock;
mod mode;
mod node;
mod object;
mod owners;
mod queue;
mod shard;
mod stats;
mod sync;

#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

pub use deadlock::Detector;
pub use mode::LockMode;
pub use stats::LockStats;

use flifo_base::CacheAligned;

use crate::metrics::WaitReason;
use crate::wait::{Waiter, poll};
use deadlock::Waits;
use node::{Verdict, WaitNode, Wakes};
use owners::{Owners, WaitRef};
use shard::{Answer, Asked, Explicit, Patience, Shard};
use sync::{Mutex, MutexGuard, lock};

/// A transaction's id. Younger transactions have higher ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxnId(pub u64);

/// The object of a lock: a row of a tree, or the end of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockKey<'a> {
    /// The tree's number.
    pub tree: u64,
    /// The row's key; `None` is the supremum, after the last row. It has a gap and no record: a next-key lock of it is
    /// its gap alone.
    pub key: Option<&'a [u8]>,
}

/// The order in which a request is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Class {
    /// Its owner holds locks or has written: others may wait for the owner, so it goes before newcomers.
    First,
    /// Its owner has nothing that others may wait for.
    #[default]
    Newcomer,
}

/// A request for a lock.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The owner. It requests one lock at a time.
    pub owner: TxnId,
    /// The key.
    pub key: LockKey<'a>,
    /// The parts of the lock.
    pub mode: LockMode,
    /// The order of service.
    pub class: Class,
    /// Maximum time of the wait: `None` without limit, zero no wait.
    pub timeout: Option<Duration>,
    /// The owner's loss as a deadlock's victim in addition to its locks, such as rows written. The victim is the owner
    /// with the least sum of both.
    pub weight: u64,
    /// The request waited once and is made again because a writer passed it: it goes before newcomers and is not passed again.
    pub insists: bool,
    /// Set by a canceller before it calls [`LockTable::cancel`]. Checked when the request begins to wait, and when it waits
    /// again because its grant was revoked, so that no cancel is lost.
    pub killed: Option<&'a AtomicBool>,
}

impl<'a> Request<'a> {
    /// A newcomer's request, without a timeout.
    pub fn new(owner: TxnId, key: LockKey<'a>, mode: LockMode) -> Self {
        let (class, timeout, killed) = (Class::Newcomer, None, None);
        Request { owner, key, mode, class, timeout, weight: 0, insists: false, killed }
    }
}

/// How a lock was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Granted {
    /// No other owner was in the way.
    AtOnce,
    /// Its owner had it already.
    AlreadyHeld,
    /// Others held it or had requested it before. The row may have changed since the caller read it.
    AfterWait,
}

/// Why a lock was not granted. The request is neither queued nor granted; what its owner held before, it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LockError {
    /// Transactions waited for each other in a cycle, and this one had the least to lose.
    #[error(
        "deadlock: other transactions wait for this one's locks, and it for theirs; roll it back and try it again"
    )]
    Deadlock,
    /// The request's timeout has passed, or was zero.
    #[error(
        "the row is locked by another transaction, and the time to wait for it is over; try again, or wait longer"
    )]
    Timeout,
    /// Another thread cancelled the wait.
    #[error("the wait for a row lock was cancelled; roll the transaction back, or try again")]
    Cancelled,
}

/// The constants of a [`LockTable`].
#[derive(Debug, Clone, Copy)]
pub struct LockConfig {
    /// Number of shards that the keys are divided into; rounded up to a power of two, at most 65,536.
    pub shards: usize,
    /// Number of slots that the owners are kept in; rounded up to a power of two, at most 2^20. About four times the number
    /// of transactions that hold locks at once keeps them apart.
    pub owner_slots: usize,
    /// Time of waiting after which a newcomer is no longer overtaken.
    pub promote_after: Duration,
    /// Time for which an overtaken waiter lets others pass, if they come often, before it insists. Long compared with the
    /// time an idle CPU takes to wake up and to load its cache, up to a millisecond on a virtual machine. Short compared
    /// with a lock wait that a user notices.
    pub turn: Duration,
    /// Maximum of all turns of one lock's waiters together: with many waiters each turn is shorter. Short compared with the
    /// timeout of their waits, 50 s in InnoDB.
    pub turns_of_all: Duration,
    /// Number of owners after which a search for a deadlock is left to the [`Detector`].
    pub deadlock_steps_max: usize,
}

/// See [`LockConfig::deadlock_steps_max`]: a few microseconds.
pub const DEADLOCK_STEPS_MAX: usize = 200;

impl Default for LockConfig {
    fn default() -> Self {
        LockConfig {
            shards: 256,
            owner_slots: 4096,
            promote_after: Duration::from_millis(100),
            turn: Duration::from_millis(20),
            turns_of_all: Duration::from_secs(20),
            deadlock_steps_max: DEADLOCK_STEPS_MAX,
        }
    }
}

/// Number of times that [`LockTable::queue`] polls before it queues: some microseconds.
const GRANT_POLLS: u32 = if cfg!(shuttle) { 1 } else { 16 };

/// Time for which the first waiter of a lock counts for admission's bound on lock waiters. Long compared with a hand-off to
/// a thread that must wake up, which the bound keeps rare. Short compared with a holder that waits for its user.
const COUNTS: Duration = Duration::from_millis(10);

/// All row locks of a database.
///
/// ```
/// use flifo_engine::Waiter;
/// use flifo_engine::lock::{Granted, LockConfig, LockError, LockKey, LockMode, LockTable, Request, TxnId};
///
/// let table = LockTable::new(LockConfig::default());
/// let waiter = Waiter::background();
/// let row = LockKey { tree: 1, key: Some(b"alice") };
///
/// let mine = Request::new(TxnId(1), row, LockMode::Exclusive);
/// assert_eq!(table.lock(mine, &waiter), Ok(Granted::AtOnce));
///
/// let other = Request { timeout: Some(std::time::Duration::ZERO), ..Request::new(TxnId(2), row, LockMode::Shared) };
/// assert_eq!(table.lock(other, &waiter), Err(LockError::Timeout));
///
/// table.release_all(TxnId(1));
/// assert_eq!(table.lock(other, &waiter), Ok(Granted::AtOnce));
/// ```
pub struct LockTable {
    shards: Box<[CacheAligned<Mutex<Shard>>]>,
    owners: Owners,
    /// Seeded at random, so that no client can choose keys that all fall into one shard.
    hasher: foldhash::quality::RandomState,
    /// All bits, except in tests that need collisions.
    hash_mask: u64,
    promote_after: Duration,
    turn: Duration,
    turns_of_all: Duration,
    deadlock_steps_max: usize,
    /// Waits whose search was too long for the thread that began them.
    deferred: Mutex<Vec<(TxnId, WaitRef)>>,
}

/// A request in a queue.
struct Wait {
    owner: TxnId,
    at: WaitRef,
    node: Arc<WaitNode>,
    may_be_waited_for: bool,
    /// No other owner waits for this one, neither for its locks nor for rows that it has written.
    lets_pass: bool,
    is_behind: bool,
}

enum Begun {
    Granted(Granted),
    Refused,
    Waits(Wait),
}

impl LockTable {
    /// An empty table.
    pub fn new(config: LockConfig) -> Self {
        let shards = config.shards.clamp(1, 1 << 16).next_power_of_two();
        LockTable {
            shards: (0..shards).map(|_| CacheAligned(Mutex::new(Shard::default()))).collect(),
            owners: Owners::new(config.owner_slots),
            hasher: foldhash::quality::RandomState::default(),
            hash_mask: u64::MAX,
            promote_after: config.promote_after,
            turn: config.turn,
            turns_of_all: config.turns_of_all,
            deadlock_steps_max: config.deadlock_steps_max,
            deferred: Mutex::default(),
        }
    }

    /// Acquires a lock, waiting while others hold it. Unless the timeout is zero, the caller holds no latch.
    ///
    /// A granted [`LockMode::InsertIntention`] is not held: after [`Granted::AfterWait`] the caller requests it again under
    /// its page latch, with a timeout of zero.
    ///
    /// # Errors
    /// [`LockError`]: this owner is a deadlock's victim, the timeout has passed, or the wait was cancelled.
    pub fn lock(&self, request: Request<'_>, waiter: &Waiter) -> Result<Granted, LockError> {
        self.lock_or_queue(request, true, waiter)
    }

    /// Acquires a lock if that needs no wait; returns whether it did.
    pub fn try_lock(&self, request: Request<'_>) -> bool {
        let request = Request { timeout: Some(Duration::ZERO), ..request };
        matches!(self.begin(&request, true, &Instant::now), Begun::Granted(_))
    }

    /// Waits as [`LockTable::lock`] does, but acquires nothing if no other owner is in the way ([`Granted::AtOnce`]).
    ///
    /// For a caller without a latch on the row: a writer without a lock object may have come since the caller read the row.
    /// The caller reads the row again and acquires the lock under the latch. After a wait the lock is held, and the caller
    /// reads the row again all the same, since a writer may have passed (`object`). If that writer is active, the caller
    /// waits for it and [`insists`](Request::insists). It reads the row before it requests another lock: until then the
    /// waiters there have no edge to the writer.
    pub fn queue(&self, request: Request<'_>, waiter: &Waiter) -> Result<Granted, LockError> {
        match self.would_grant_soon(&request) {
            true => Ok(Granted::AtOnce),
            false => self.lock_or_queue(request, false, waiter),
        }
    }

    fn lock_or_queue(&self, request: Request<'_>, take: bool, waiter: &Waiter) -> Result<Granted, LockError> {
        let wait = match self.begin(&request, take, &Instant::now) {
            Begun::Granted(granted) => return Ok(granted),
            Begun::Refused => return Err(LockError::Timeout),
            Begun::Waits(wait) => wait,
        };
        let deadline = request.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.look_for_cancel(&request, &wait);
        self.look_for_deadlock(&wait);
        let mut overtaken = request.insists;
        loop {
            let soon = Instant::now() + COUNTS;
            let soon = deadline.map_or(soon, |deadline| deadline.min(soon));
            let polite = |verdict| self.let_pass(&wait, verdict, deadline, overtaken);
            let briefly = || match wait.is_behind {
                true => None,
                false => self.sleep_until(&request, &wait, Some(soon), overtaken).map(polite),
            };
            let at_length = || polite(self.sleep(&request, &wait, deadline, overtaken));
            let verdict = waiter.wait_in_two(WaitReason::RowLock, briefly, at_length);
            match verdict {
                // Only once it has its slot again: until then others go first.
                Verdict::Granted if wait.node.accept() => return Ok(Granted::AfterWait),
                Verdict::Granted => overtaken = true,
                Verdict::Deadlock => return Err(LockError::Deadlock),
                Verdict::Cancelled => return Err(LockError::Cancelled),
                Verdict::TimedOut => return Err(LockError::Timeout),
            }
            // The thread that holds the lock now is running, and is soon done.
            wait.node.poll();
        }
    }

    /// Returns whether a writer may write that holds the row's page latch and found no other owner's implicit lock.
    ///
    /// Without a lock object the writer needs none: its id in the row is its lock. If there is one, the writer's lock is
    /// added to it, unless the writer passes a holder that lets others pass.
    pub fn claim(&self, request: &Request<'_>) -> bool {
        let asked = self.asked(request);
        let patience = Patience { may_wait: false, ..self.patience(request, &Instant::now) };
        self.shard(asked.hash).claim(&asked, &patience, &self.owners)
    }

    /// Returns whether [`LockTable::lock`] would grant the request without a wait. Changes nothing.
    pub fn would_grant(&self, request: &Request<'_>) -> bool {
        let asked = self.asked(request);
        self.shard(asked.hash).would_grant(&asked, &self.patience(request, &Instant::now))
    }

    /// As [`LockTable::would_grant`], with a short poll: a conflicting thread often runs, and is about to release its
    /// locks.
    fn would_grant_soon(&self, request: &Request<'_>) -> bool {
        poll(GRANT_POLLS, || self.would_grant(request))
    }

    /// Makes an implicit lock explicit: gives `owner`, whose id is in the row, an exclusive lock of the record, so that
    /// others can wait for it. The caller holds the row's latch: an id read before is no lock, since its owner may have
    /// undone its write, and another may have locked the row since. Returns whether `owner` holds the lock; if not, it
    /// has ended. Owners that it had passed, or that got the record since, give way (`object`).
    ///
    /// `is_active` returns whether the owner is still active. It is called under mutexes of this module, so it only
    /// reads an atomic. An owner that ends first becomes inactive, and then calls [`LockTable::release_all`], so every
    /// explicit lock is released.
    pub fn make_explicit(&self, owner: TxnId, key: LockKey<'_>, is_active: impl FnOnce() -> bool) -> bool {
        let explicit = self.write_down(owner, key, is_active);
        if explicit == Explicit::HeldInstead
            && let Some(at) = self.owners.waiting(owner)
        {
            self.end_circles(Waits { owner, at }, self.deadlock_steps_max);
        }
        explicit != Explicit::Ended
    }

    /// All of [`Self::make_explicit`] but the search for deadlocks.
    fn write_down(&self, owner: TxnId, key: LockKey<'_>, is_active: impl FnOnce() -> bool) -> Explicit {
        let asked = self.asked(&Request::new(owner, key, LockMode::Exclusive));
        self.shard(asked.hash).make_explicit(&asked, &self.owners, is_active)
    }

    /// Releases all that `owner` holds of one key; returns whether it held anything. For rows that were locked, read,
    /// and found not to match; an owner's latest locks are found the fastest.
    pub fn release(&self, owner: TxnId, key: LockKey<'_>) -> bool {
        let asked = self.asked(&Request::new(owner, key, LockMode::Exclusive));
        let mut wakes = Wakes::default();
        let released = self.shard(asked.hash).release_key(&asked, &self.owners, &mut wakes);
        wakes.wake();
        released
    }

    /// Releases all locks of `owner`, whose transaction ends; returns their number. Reads nothing else, and takes no
    /// mutex if there are none.
    pub fn release_all(&self, owner: TxnId) -> usize {
        let locks = self.owners.take(owner);
        for &at in &locks {
            let mut wakes = Wakes::default();
            self.shard(at.hash).release(owner, at, &self.owners, &mut wakes);
            wakes.wake();
        }
        locks.len()
    }

    /// Ends the wait of `owner` with [`LockError::Cancelled`]; returns whether it waited. See [`Request::killed`].
    pub fn cancel(&self, owner: TxnId) -> bool {
        self.owners.waiting(owner).is_some_and(|at| self.end_wait(at, Verdict::Cancelled))
    }

    /// Whether `owner` holds an explicit lock of the key that includes `mode`. Never true for an insert intention.
    pub fn holds(&self, owner: TxnId, key: LockKey<'_>, mode: LockMode) -> bool {
        let asked = self.asked(&Request::new(owner, key, mode));
        asked.parts.missing(self.shard(asked.hash).held(&asked)).is_none()
    }

    /// The counters so far.
    pub fn stats(&self) -> LockStats {
        let mut stats = LockStats::default();
        for shard in &self.shards {
            stats.add(&lock(&shard.0).stats);
        }
        stats
    }

    fn hash(&self, key: LockKey<'_>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u64(key.tree);
        match key.key {
            None => hasher.write_u8(0),
            Some(bytes) => {
                hasher.write_u8(1);
                hasher.write(bytes);
            }
        }
        hasher.finish() & self.hash_mask
    }

    fn asked<'a>(&self, request: &Request<'a>) -> Asked<'a> {
        let LockKey { tree, key } = request.key;
        let parts = request.mode.parts();
        Asked {
            owner: request.owner,
            hash: self.hash(request.key),
            tree,
            key,
            parts: if key.is_none() { parts.at_supremum() } else { parts },
            first: request.insists || request.class == Class::First,
            weight: request.weight,
        }
    }

    fn patience<'a>(&self, request: &Request<'_>, now: &'a dyn Fn() -> Instant) -> Patience<'a> {
        let may_wait = request.timeout != Some(Duration::ZERO);
        Patience { may_wait, promote_after: self.promote_after, now }
    }

    /// The shard of a hash: by its upper bits, since the map within goes by the lower ones.
    fn shard_number(&self, hash: u64) -> usize {
        // Two steps, as one shard would be a shift by all bits.
        (hash >> 1 >> (u64::BITS - 1 - self.shards.len().trailing_zeros())) as usize
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        lock(&self.shards[self.shard_number(hash)].0)
    }

    /// All of [`Self::lock`] but the wait itself and the search for deadlocks.
    fn begin(&self, request: &Request<'_>, take: bool, now: &dyn Fn() -> Instant) -> Begun {
        let asked = self.asked(request);
        let (patience, mut shard) = (self.patience(request, now), self.shard(asked.hash));
        if !take && shard.would_grant(&asked, &patience) {
            return Begun::Granted(Granted::AtOnce);
        }
        let answer = shard.ask(&asked, &patience, &self.owners);
        match answer {
            Answer::Granted(granted) => Begun::Granted(granted),
            Answer::Refused => Begun::Refused,
            Answer::Waits { node, at, may_be_waited_for, is_behind } => {
                // What its owner has written has no lock object, but makes it of the first class, and a loss.
                let lets_pass = !may_be_waited_for && !asked.first && asked.weight == 0;
                Begun::Waits(Wait { owner: request.owner, at, node, may_be_waited_for, lets_pass, is_behind })
            }
        }
    }

    /// Sleeps until the wait has ended, or ends it at the deadline. A grant must still be accepted, and may have been
    /// revoked.
    fn sleep(
        &self,
        request: &Request<'_>,
        wait: &Wait,
        deadline: Option<Instant>,
        overtaken: bool,
    ) -> Verdict {
        self.sleep_until(request, wait, deadline, overtaken).unwrap_or_else(|| {
            self.end_wait(wait.at, Verdict::TimedOut);
            // The wait has ended now, by this thread or by a faster one.
            wait.node.verdict().expect("a request that leaves the queue has a verdict")
        })
    }

    /// As `sleep`, but the wait continues after `until`.
    fn sleep_until(
        &self,
        request: &Request<'_>,
        wait: &Wait,
        until: Option<Instant>,
        overtaken: bool,
    ) -> Option<Verdict> {
        wait.node.sleep(until, overtaken, || self.look_for_cancel(request, wait))
    }

    /// Ends the wait if it was cancelled while it was not in the queue: before it began, or between a grant and the grant's
    /// revocation.
    fn look_for_cancel(&self, request: &Request<'_>, wait: &Wait) {
        let Some(killed) = request.killed else { return };
        // A grant is revoked under this mutex, and the request is back in the queue before the unlock: a later canceller finds
        // the request, and an earlier one has set the flag.
        drop(self.shard(wait.at.lock.hash));
        if killed.load(std::sync::atomic::Ordering::Relaxed) {
            self.end_wait(wait.at, Verdict::Cancelled);
        }
    }

    /// Lets others pass for a turn, if they come: for an owner that was granted the lock and that no other owner waits for.
    fn let_pass(&self, wait: &Wait, verdict: Verdict, deadline: Option<Instant>, overtaken: bool) -> Verdict {
        if verdict == Verdict::Granted && !overtaken && wait.lets_pass {
            let end = Instant::now() + self.turn_of(wait);
            wait.node.let_pass(deadline.map_or(end, |deadline| deadline.min(end)));
        }
        verdict
    }

    /// For how long it lets others pass.
    fn turn_of(&self, wait: &Wait) -> Duration {
        let behind = self.shard(wait.at.lock.hash).waiting_for(wait.at.lock);
        self.turn.min(self.turns_of_all / u32::try_from(behind + 1).unwrap_or(u32::MAX))
    }

    /// Ends a wait without a grant, if it has not ended; whether this ended it.
    fn end_wait(&self, at: WaitRef, verdict: Verdict) -> bool {
        let mut wakes = Wakes::default();
        let ended = self.shard(at.lock.hash).end_wait(at, verdict, &self.owners, &mut wakes);
        wakes.wake();
        ended
    }
}
