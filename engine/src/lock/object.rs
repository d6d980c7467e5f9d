//! The lock of one key: who holds it, who waits for it.
//!
//! Invariants, whenever the shard's mutex is free:
//! - no two holders' parts exclude each other;
//! - an owner is a holder once at most, and waits once at most;
//! - whoever waits has to: for a holder, or for one ahead in the queue;
//! - there is a holder. (Who waits waits for a holder in the end: the first in the queue for nobody else.)
//!
//! # Overtaking
//! Who is granted a lock after a wait has to be woken, and to acquire its slot in admission again, and until it runs the lock
//! would serve nobody: with many waiters each change of a row would cost a wake-up. So, as FLIFO does at the door, whoever
//! runs and asks for the lock exclusively meanwhile takes it over (`overtake`), and the one that was granted it goes back
//! to the head of the queue.
//!
//! With two processors the one that was overtaken would run a few changes later, take the lock, and make the other one sleep:
//! two context switches for a handful of changes. So it lets others pass for a while, [`LockConfig::turn`](super::LockConfig),
//! asleep. And where others came in the moment after the lock was handed over before (`is_passed`), the next one that wakes
//! up waits for such a moment (`linger`), lets them pass if they come, and goes on at once if not. After its turn, or as soon
//! as they come seldom, as to one of a hundred hot rows, it insists: its next grant is for good. Who holds other locks, or has
//! written other rows, sleeps through no turn, since others may wait for it: it is passed at most while it wakes up. So a
//! waiter is overtaken for no longer than it takes to wake up, a moment, and a turn.
//!
//! - `unaccepted` is the only holder, holds [`Parts::EXCLUSIVE`] and nothing else, and had nothing before.
//!
//! # Passing
//! A writer that passes one who lets it (`pass`) changes nothing here: as always its id in the row is its lock, and the one
//! it passed goes on having the lock object. That one looks at the row again before it uses its lock, under the latch of the
//! row's leaf, and so does everybody: a writer whose id is there comes first. If it is to be waited for, its lock is made
//! explicit, and the one that was passed, which cannot have used the lock, gives way (`give_way`): it goes back
//! to the head of the queue; or, if its thread runs by now, it will ask again, and insist.
//!
//! Whoever was passed looks at the row before it waits for anything else. But its look may fail, or its transaction end before
//! it, and then the next in the queue have the lock, readers together. So:
//!
//! - While a writer's id is in a row and its transaction active, nobody else has used the record since it came, whatever is
//!   held of it here. Who had used the record before would hold it still, and the writer would have been refused; who came by
//!   it later did so at the end of a wait, and has not looked at the row yet, or found the writer there.
//!
//! So the record is taken from all others when a writer's lock is made explicit. Gaps stay with them: they agree with it, and
//! may have been used.

use std::time::{Duration, Instant};

use smallvec::{SmallVec, smallvec};

use super::TxnId;
use super::mode::Parts;
use super::node::{Sleeper, Verdict};
use super::queue::{Queue, Waiting};

/// An owner and what it holds.
#[derive(Clone, Copy)]
pub(super) struct Holder {
    pub(super) owner: TxnId,
    pub(super) parts: Parts,
}

/// Who holds a lock, sorted by owner, so that a thousand readers of one row do not look through each other.
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

    /// Nobody but `writer` holds any part of the record any more; who did, and whether that one has a gap still.
    fn take_record(&mut self, writer: TxnId) -> SmallVec<[Passed; 1]> {
        let mut passed = SmallVec::new();
        // Mostly there is nobody.
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

/// Who comes so soon after the lock was handed to one that slept would have overtaken it if it had waited a moment.
const SOON: Duration = Duration::from_micros(50);

/// Who was overtaken: it waits again.
pub(super) struct Overtaken {
    pub(super) owner: TxnId,
    pub(super) wait_id: u64,
}

/// Who was passed, or came after one that was, and has the record no longer.
pub(super) enum Passed {
    /// It sleeps, and is at the head of the queue.
    Waits(Overtaken),
    /// Its wait is over: it finds out when it looks at the row.
    Runs {
        owner: TxnId,
        /// So it still is a holder.
        has_gap: bool,
    },
}

/// The lock of one key. It exists while somebody holds it.
pub(super) struct LockObject {
    /// Tells it from every other lock that ever was in this shard, one of the same key included.
    pub(super) id: u64,
    pub(super) hash: u64,
    pub(super) tree: u64,
    /// `None`: the supremum.
    pub(super) key: Option<Box<[u8]>>,
    pub(super) holders: Holders,
    /// The holder, as it waited, if its thread was asleep when it was granted the lock, and does not insist.
    unaccepted: Option<Box<Waiting>>,
    /// When it was handed to one that slept.
    handed_at: Option<Instant>,
    /// Others come soon after that.
    is_passed: bool,
    /// Others went before the one that has it, since it let them pass.
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

    /// Whether a request that asks for `parts`, and whose owner holds nothing, may take the lock over.
    pub(super) fn may_overtake(&self, parts: Parts) -> bool {
        let has_not_run = |waiting: &Waiting| waiting.node.verdict() == Some(Verdict::Granted);
        parts.has(Parts::EXCLUSIVE) && self.unaccepted.as_deref().is_some_and(has_not_run)
    }

    /// Lets a writer that asks for `parts`, and that has nothing, go before the holder; false if that one does not let it.
    pub(super) fn pass(&mut self, parts: Parts) -> bool {
        let passes = parts.has(Parts::EXCLUSIVE)
            && self.unaccepted.as_deref().is_some_and(|waiting| waiting.node.lets_others_pass());
        self.is_passed |= passes;
        self.was_passed |= passes;
        passes
    }

    /// Takes the record away from all others, for `writer`, whose id is in the row and who does not have it here; who they
    /// were. The caller gives it to the writer.
    pub(super) fn give_way(&mut self, writer: TxnId) -> SmallVec<[Passed; 1]> {
        // It is the only holder.
        if let Some(overtaken) = self.overtake() {
            return smallvec![Passed::Waits(overtaken)];
        }
        self.holders.take_record(writer)
    }

    /// Somebody has to wait.
    pub(super) fn note_arrival(&mut self, now: Instant) {
        self.is_passed |= self.handed_at.take().is_some_and(|at| now.saturating_duration_since(at) < SOON);
    }

    /// Takes the lock away from its holder, which has not run since it was granted it, and queues that one at the head
    /// again. The caller gives the lock to the one who overtakes. `None` if its thread runs by now.
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

    /// A wait that has ended without that this one knew: if it was granted the lock, that is for good.
    pub(super) fn confirm(&mut self, wait_id: u64) {
        if self.unaccepted.as_ref().is_some_and(|waiting| waiting.wait_id == wait_id) {
            self.unaccepted = None;
        }
    }

    /// Whether a request at `index` of the queue may be granted now.
    pub(super) fn may_have(&self, owner: TxnId, asked: Parts, index: usize) -> bool {
        !self.holders.exclude(owner, asked)
            && self.queue().is_none_or(|queue| !asked.wait_for(queue.union_before(index)))
    }

    pub(super) fn join(&mut self, index: usize, waiting: Waiting) {
        self.queue.get_or_insert_default().insert(index, waiting);
    }

    /// Takes a request out of the queue; those behind it must be looked at again ([`Self::grant`]).
    pub(super) fn leave(&mut self, wait_id: u64) -> Option<Waiting> {
        let queue = self.queue.as_mut()?;
        let index = queue.position(wait_id)?;
        let left = queue.remove(index);
        self.drop_empty_queue();
        left
    }

    /// Grants all that need not wait any more, in the order of the queue: one pass, which ends as soon as nobody
    /// behind can be granted anything. `granted` is told the request, and whether its owner held nothing before, and
    /// whether others are likely to overtake it; it says what its thread does.
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
            // One that sleeps on lets others pass: it is the one that had it before them.
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
