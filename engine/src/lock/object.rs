//! The lock of one key: its holders and its queue.
//!
//! Invariants, whenever the shard's mutex is free:
//! - no two holders' parts exclude each other;
//! - an owner is a holder once at most, and waits once at most;
//! - every waiter has to wait, for a holder or for a waiter ahead in the queue;
//! - there is a holder. (The first in the queue can wait for nothing else.)
//!
//! # Overtaking
//! A thread that is granted a lock after a wait must wake up and acquire its slot in admission again. Until then the lock
//! would be idle: with many waiters each change of a row would cost a wake-up. So, as in FLIFO's admission, a running thread
//! that requests the lock exclusively takes it over (`overtake`), and the granted request goes back to the head of the queue.
//!
//! With two CPUs the overtaken thread would run a few changes later, acquire the lock, and make the other thread sleep: two
//! context switches for a handful of changes. So it sleeps for a turn, [`LockConfig::turn`](super::LockConfig), and lets
//! others pass. Where others came just after the last hand-off (`is_passed`), the next thread that wakes up waits for a
//! moment (`linger`): it lets them pass if they come, and otherwise continues.
//!
//! After its turn, or as soon as others come rarely, as with one of a hundred hot rows, it insists: its next grant is final.
//! An owner that holds other locks, or has written other rows, takes no turn, since others may wait for it: it is passed only
//! while it wakes up. So a waiter is overtaken for at most the time of a wake-up, a moment, and a turn.
//!
//! - `unaccepted` is the only holder, holds [`Parts::EXCLUSIVE`] and nothing else, and had nothing before.
//!
//! # Passing
//! A writer that passes a holder which lets others pass (`pass`) changes nothing here: its id in the row is its lock, and the
//! passed owner keeps the lock object. The passed owner reads the row again before it uses its lock, under the latch of the
//! row's leaf, as every owner does: a writer whose id is there comes first. To wait for that writer, its lock is made
//! explicit, and the passed owner, which cannot have used the lock, gives way (`give_way`): its request goes back to the head
//! of the queue; or, if its thread is running by now, it requests the lock again and insists.
//!
//! A passed owner reads the row before it waits for anything else. But the read may fail, or its transaction may end before;
//! then the next requests in the queue get the lock, readers together. So:
//!
//! - While a writer's id is in a row and its transaction is active, no other owner has used the record since the writer came,
//!   whatever it holds here. An owner that had used the record before would hold it still, and the writer would have been
//!   refused. An owner that got it later did so at the end of a wait, and has not read the row yet, or found the writer.
//!
//! So the record is taken from all other holders when a writer's lock is made explicit. They keep their gaps: gaps agree with
//! the record, and may have been used.

use std::time::{Duration, Instant};

use smallvec::{SmallVec, smallvec};

use super::TxnId;
use super::mode::Parts;
use super::node::{Sleeper, Verdict};
use super::queue::{Queue, Waiting};

/// An owner and the parts that it holds.
#[derive(Clone, Copy)]
pub(super) struct Holder {
    pub(super) owner: TxnId,
    pub(super) parts: Parts,
}

/// The holders of a lock, sorted by owner, so that a thousand readers of one row are searched in ten steps.
///
/// Invariant: `readers`, `writers` and `gaps` count the holders with that part; no holder holds nothing.
#[derive(Default)]
pub(super) struct Holders {
    list: SmallVec<[Holder; 2]>,
    readers: u32,
    writers: u32,
    gaps: u32,
}

impl Holders {
    /// What `owner` holds.
    pub(super) fn of(&self, owner: TxnId) -> Parts {
        self.find(owner).map_or(Parts::NONE, |index| self.list[index].parts)
    }

    fn find(&self, owner: TxnId) -> Result<usize, usize> {
        self.list.binary_search_by_key(&owner, |holder| holder.owner)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Holder> {
        self.list.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether a request of `owner` has to wait for a holder.
    pub(super) fn exclude(&self, owner: TxnId, asked: Parts) -> bool {
        let all = [(self.readers, Parts::SHARED), (self.writers, Parts::EXCLUSIVE), (self.gaps, Parts::GAP)];
        if !all.iter().any(|&(count, part)| count > 0 && asked.wait_for(part)) {
            return false;
        }
        let own = self.of(owner);
        all.iter().any(|&(count, part)| count > u32::from(own.has(part)) && asked.wait_for(part))
    }

    /// `owner` holds `parts` from here on; whether it held nothing before and holds something now.
    pub(super) fn add(&mut self, owner: TxnId, parts: Parts) -> bool {
        let parts = parts.held();
        if parts.is_none() {
            return false;
        }
        debug_assert!(!self.exclude(owner, parts), "two holders exclude each other");
        match self.find(owner) {
            Ok(index) => {
                let before = self.list[index].parts;
                self.list[index].parts |= parts;
                let after = self.list[index].parts;
                self.count(before, u32::MAX);
                self.count(after, 1);
                false
            }
            Err(index) => {
                self.list.insert(index, Holder { owner, parts });
                self.count(parts, 1);
                true
            }
        }
    }

    /// Takes the record from all holders except `writer`; returns these, and whether each still has a gap.
    fn take_record(&mut self, writer: TxnId) -> SmallVec<[Passed; 1]> {
        let mut passed = SmallVec::new();
        // Usually there is none.
        if !self.exclude(writer, Parts::EXCLUSIVE) {
            return passed;
        }
        let mut list = std::mem::take(&mut self.list);
        list.retain(|holder| {
            let left = holder.parts.without_record();
            if holder.owner == writer || holder.parts == left {
                return true;
            }
            self.count(holder.parts, u32::MAX);
            self.count(left, 1);
            holder.parts = left;
            passed.push(Passed::Runs { owner: holder.owner, has_gap: !left.is_none() });
            !left.is_none()
        });
        self.list = list;
        passed
    }

    /// `owner` holds nothing any more; whether it did.
    pub(super) fn remove(&mut self, owner: TxnId) -> bool {
        let Ok(index) = self.find(owner) else { return false };
        let removed = self.list.remove(index);
        self.count(removed.parts, u32::MAX);
        true
    }

    fn count(&mut self, parts: Parts, change: u32) {
        for (part, count) in [
            (Parts::SHARED, &mut self.readers),
            (Parts::EXCLUSIVE, &mut self.writers),
            (Parts::GAP, &mut self.gaps),
        ] {
            if parts.has(part) {
                *count = count.wrapping_add(change);
            }
        }
    }
}

/// A request that comes so soon after a hand-off to a sleeping thread would have overtaken it, if that had waited a moment.
const SOON: Duration = Duration::from_micros(50);

/// An overtaken request: it waits again.
pub(super) struct Overtaken {
    pub(super) owner: TxnId,
    pub(super) wait_id: u64,
}

/// An owner that was passed, or came after a passed one, and no longer has the record.
pub(super) enum Passed {
    /// Its thread sleeps, and its request is at the head of the queue.
    Waits(Overtaken),
    /// Its wait is over: it finds the writer when it reads the row.
    Runs {
        owner: TxnId,
        /// Whether it is still a holder.
        has_gap: bool,
    },
}

/// The lock of one key. It exists while it has a holder.
pub(super) struct LockObject {
    /// Distinguishes it from every other lock that ever was in this shard, also of the same key.
    pub(super) id: u64,
    pub(super) hash: u64,
    pub(super) tree: u64,
    /// `None`: the supremum.
    pub(super) key: Option<Box<[u8]>>,
    pub(super) holders: Holders,
    /// The holder's request, if its thread was asleep when it was granted the lock and does not insist.
    unaccepted: Option<Box<Waiting>>,
    /// When it was handed off to a sleeping thread.
    handed_at: Option<Instant>,
    /// Others come soon after a hand-off.
    is_passed: bool,
    /// Others passed the holder.
    was_passed: bool,
    /// Most locks are never waited for. Invariant: not an empty queue.
    queue: Option<Box<Queue>>,
}

impl LockObject {
    pub(super) fn new(id: u64, hash: u64, tree: u64, key: Option<&[u8]>) -> Self {
        LockObject {
            id,
            hash,
            tree,
            key: key.map(Into::into),
            holders: Holders::default(),
            unaccepted: None,
            handed_at: None,
            is_passed: false,
            was_passed: false,
            queue: None,
        }
    }

    pub(super) fn queue(&self) -> Option<&Queue> {
        self.queue.as_deref()
    }

    pub(super) fn is_unused(&self) -> bool {
        self.holders.is_empty() && self.queue.is_none()
    }

    /// `owner` holds `parts` from here on; whether it held nothing before and holds something now.
    pub(super) fn hold(&mut self, owner: TxnId, parts: Parts) -> bool {
        self.unaccepted = None;
        self.holders.add(owner, parts)
    }

    /// `owner` holds nothing any more; whether it did.
    pub(super) fn let_go(&mut self, owner: TxnId) -> bool {
        let ran_undisturbed = self.unaccepted.take().is_some() && !self.was_passed;
        self.is_passed &= !ran_undisturbed;
        self.holders.remove(owner)
    }

    /// Whether a request for `parts`, whose owner holds nothing, may take the lock over.
    pub(super) fn may_overtake(&self, parts: Parts) -> bool {
        let has_not_run = |waiting: &Waiting| waiting.node.verdict() == Some(Verdict::Granted);
        parts.has(Parts::EXCLUSIVE) && self.unaccepted.as_deref().is_some_and(has_not_run)
    }

    /// Lets a writer that requests `parts`, and holds nothing, pass the holder; false if the holder does not let it.
    pub(super) fn pass(&mut self, parts: Parts) -> bool {
        let passes = parts.has(Parts::EXCLUSIVE)
            && self.unaccepted.as_deref().is_some_and(|waiting| waiting.node.lets_others_pass());
        self.is_passed |= passes;
        self.was_passed |= passes;
        passes
    }

    /// Takes the record from all others, for `writer`, whose id is in the row and which does not have it here; returns
    /// them. The caller gives the record to the writer.
    pub(super) fn give_way(&mut self, writer: TxnId) -> SmallVec<[Passed; 1]> {
        // It is the only holder.
        if let Some(overtaken) = self.overtake() {
            return smallvec![Passed::Waits(overtaken)];
        }
        self.holders.take_record(writer)
    }

    /// Notes a request that has to wait.
    pub(super) fn note_arrival(&mut self, now: Instant) {
        self.is_passed |= self.handed_at.take().is_some_and(|at| now.saturating_duration_since(at) < SOON);
    }

    /// Takes the lock from its holder, which has not run since the grant, and queues its request at the head again; `None` if
    /// the holder's thread is running by now. The caller gives the lock to the overtaking owner.
    pub(super) fn overtake(&mut self) -> Option<Overtaken> {
        let waiting = self.unaccepted.take()?;
        if !waiting.node.revoke() {
            return None;
        }
        self.is_passed = true;
        self.was_passed = true;
        let overtaken = Overtaken { owner: waiting.owner, wait_id: waiting.wait_id };
        self.holders.remove(waiting.owner);
        self.join(0, *waiting);
        Some(overtaken)
    }

    /// Makes the grant of a wait final that ended without this object's knowledge.
    pub(super) fn confirm(&mut self, wait_id: u64) {
        if self.unaccepted.as_ref().is_some_and(|waiting| waiting.wait_id == wait_id) {
            self.unaccepted = None;
        }
    }

    /// Returns whether a request at `index` of the queue may be granted now.
    pub(super) fn may_have(&self, owner: TxnId, asked: Parts, index: usize) -> bool {
        !self.holders.exclude(owner, asked)
            && self.queue().is_none_or(|queue| !asked.wait_for(queue.union_before(index)))
    }

    pub(super) fn join(&mut self, index: usize, waiting: Waiting) {
        self.queue.get_or_insert_default().insert(index, waiting);
    }

    /// Takes a request out of the queue. The caller checks the requests behind it again ([`Self::grant`]).
    pub(super) fn leave(&mut self, wait_id: u64) -> Option<Waiting> {
        let queue = self.queue.as_mut()?;
        let index = queue.position(wait_id)?;
        let left = queue.remove(index);
        self.drop_empty_queue();
        left
    }

    /// Grants every request that need not wait any more, in queue order: one pass, which ends as soon as no request behind can
    /// be granted.
    ///
    /// `granted` receives the request, whether its owner held nothing before, and whether others are likely to overtake it;
    /// it returns what the request's thread does.
    pub(super) fn grant(&mut self, mut granted: impl FnMut(&Waiting, bool, bool) -> Sleeper) {
        let Some(queue) = &mut self.queue else { return };
        let mut ahead = Parts::NONE;
        let mut index = 0;
        while !queue.all_wait_behind(ahead)
            && let Some(next) = queue.get(index)
        {
            if next.parts.wait_for(ahead) || self.holders.exclude(next.owner, next.parts) {
                ahead |= next.parts;
                index += 1;
                continue;
            }
            let next = queue.remove(index).expect("it was just looked at");
            let alone = self.holders.is_empty() && next.parts == Parts::EXCLUSIVE;
            let new = self.holders.add(next.owner, next.parts);
            let sleeper = granted(&next, new, alone && self.is_passed);
            self.handed_at = (alone && sleeper.wake).then(Instant::now);
            // An owner that keeps sleeping lets others pass: it was the holder before them.
            self.was_passed &= sleeper.may_be_overtaken && !sleeper.wake;
            self.unaccepted = (alone && sleeper.may_be_overtaken).then(|| Box::new(next));
        }
        self.drop_empty_queue();
    }

    fn drop_empty_queue(&mut self) {
        if self.queue().is_some_and(Queue::is_empty) {
            self.queue = None;
        }
    }
}
