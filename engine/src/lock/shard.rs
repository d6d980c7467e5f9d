//! A shard of the lock table: the locks of the keys that hash to it. It neither parks nor reads a clock.
//!
//! Each function here runs under the shard's mutex, and keeps the invariants of `object` and `owners`. Threads to be
//! woken are collected and returned to the caller, which wakes them after unlocking.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashTable;

use super::mode::Parts;
use super::node::{Verdict, WaitNode, Wakes};
use super::object::{LockObject, Overtaken, Passed};
use super::owners::{LockRef, Owners, WaitRef};
use super::queue::{Queue, Waiting};
use super::stats::LockStats;
use super::{Granted, TxnId};

/// A request, with its key hashed.
pub(super) struct Asked<'a> {
    pub(super) owner: TxnId,
    pub(super) hash: u64,
    pub(super) tree: u64,
    pub(super) key: Option<&'a [u8]>,
    pub(super) parts: Parts,
    pub(super) first: bool,
    pub(super) weight: u64,
}

impl Asked<'_> {
    /// Hashes may collide; keys decide.
    fn is_of(&self, object: &LockObject) -> bool {
        object.hash == self.hash && object.tree == self.tree && object.key.as_deref() == self.key
    }
}

/// What became of a request.
pub(super) enum Answer {
    Granted(Granted),
    /// It would have to wait, and may not.
    Refused,
    /// It is in the queue.
    Waits {
        node: Arc<WaitNode>,
        at: WaitRef,
        /// Others may wait for its owner: it holds locks, or it went ahead of others. Otherwise it cannot be in a
        /// deadlock.
        may_be_waited_for: bool,
        /// Others wait for the lock already.
        is_behind: bool,
    },
}

/// What became of an implicit lock.
#[derive(PartialEq, Eq)]
pub(super) enum Explicit {
    /// Its owner is not active.
    Ended,
    /// A lock object has it.
    Held,
    /// As `Held`, and taken from others that its owner, or an owner before it, had passed: requests that wait there now
    /// wait for its owner, and did not before.
    HeldInstead,
}

/// How a request may wait.
pub(super) struct Patience<'a> {
    pub(super) may_wait: bool,
    pub(super) promote_after: Duration,
    pub(super) now: &'a dyn Fn() -> Instant,
}

#[derive(Default)]
pub(super) struct Shard {
    objects: HashTable<LockObject>,
    /// For locks and waits, so that neither is taken for another.
    next_id: u64,
    pub(super) stats: LockStats,
}

impl Shard {
    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn get(&self, at: LockRef) -> Option<&LockObject> {
        self.objects.find(at.hash, |object| object.id == at.id)
    }

    fn get_mut(&mut self, at: LockRef) -> Option<&mut LockObject> {
        self.objects.find_mut(at.hash, |object| object.id == at.id)
    }

    /// How many wait for the lock.
    pub(super) fn waiting_for(&self, at: LockRef) -> usize {
        self.get(at).and_then(LockObject::queue).map_or(0, Queue::len)
    }

    fn drop_unused(&mut self, at: LockRef) {
        if let Ok(entry) = self.objects.find_entry(at.hash, |object| object.id == at.id)
            && entry.get().is_unused()
        {
            drop(entry.remove());
        }
    }

    /// What the owner holds of the key.
    pub(super) fn held(&self, asked: &Asked<'_>) -> Parts {
        let object = self.objects.find(asked.hash, |object| asked.is_of(object));
        object.map_or(Parts::NONE, |object| object.holders.of(asked.owner))
    }

    /// Whether [`Self::ask`] would grant.
    pub(super) fn would_grant(&self, asked: &Asked<'_>, patience: &Patience<'_>) -> bool {
        let Some(object) = self.objects.find(asked.hash, |object| asked.is_of(object)) else { return true };
        let held = object.holders.of(asked.owner);
        let missing = asked.parts.missing(held);
        // Overtaking first: the waiters do not matter for it.
        missing.is_none()
            || held.is_none() && object.may_overtake(missing)
            || object.may_have(asked.owner, missing, place(object, asked, missing, held, patience))
    }

    /// Whether a writer that holds the row's latch may write. Its id in the row is its lock. But a lock object, if
    /// there is one, gets the writer as a holder: waiters could be granted locks that are compatible with the other
    /// holders before they read the row. An owner that lets others pass reads it first.
    pub(super) fn claim(&mut self, asked: &Asked<'_>, patience: &Patience<'_>, owners: &Owners) -> bool {
        let Some(object) = self.objects.find_mut(asked.hash, |object| asked.is_of(object)) else {
            return true;
        };
        if object.holders.of(asked.owner).is_none() && object.pass(asked.parts) {
            self.stats.overtakes += 1;
            return true;
        }
        matches!(self.ask(asked, patience, owners), Answer::Granted(_))
    }

    /// Grants the request, or refuses it, or lets it join the queue.
    pub(super) fn ask(&mut self, asked: &Asked<'_>, patience: &Patience<'_>, owners: &Owners) -> Answer {
        let fresh_id = self.new_id();
        let Some(object) = self.objects.find_mut(asked.hash, |object| asked.is_of(object)) else {
            self.hold_new(fresh_id, asked, owners);
            self.stats.granted_at_once += 1;
            return Answer::Granted(Granted::AtOnce);
        };
        let held = object.holders.of(asked.owner);
        let missing = asked.parts.missing(held);
        if missing.is_none() {
            self.stats.granted_at_once += 1;
            return Answer::Granted(Granted::AlreadyHeld);
        }
        let lock = LockRef { hash: object.hash, id: object.id };
        if held.is_none()
            && object.may_overtake(missing)
            && let Some(overtaken) = object.overtake()
        {
            object.hold(asked.owner, missing);
            owners.add(asked.owner, lock);
            owners.wait_again(overtaken.owner, WaitRef { lock, wait_id: overtaken.wait_id });
            self.stats.waiting += 1;
            self.stats.overtakes += 1;
            self.stats.granted_at_once += 1;
            return Answer::Granted(Granted::AtOnce);
        }
        let index = place(object, asked, missing, held, patience);
        if object.may_have(asked.owner, missing, index) {
            if object.hold(asked.owner, missing) {
                owners.add(asked.owner, lock);
                self.stats.locks += 1;
            }
            self.stats.granted_at_once += 1;
            return Answer::Granted(Granted::AtOnce);
        }
        if !patience.may_wait {
            self.stats.refused += 1;
            return Answer::Refused;
        }
        object.note_arrival((patience.now)());
        let is_behind = object.queue().is_some();
        let goes_before_others = object.queue().is_some_and(|queue| index < queue.len());
        let node = WaitNode::new();
        object.join(
            index,
            Waiting {
                owner: asked.owner,
                parts: missing,
                first: asked.first || !held.is_none(),
                since: (patience.now)(),
                wait_id: fresh_id,
                weight: asked.weight,
                node: Arc::clone(&node),
            },
        );
        self.stats.waits += 1;
        self.stats.waiting += 1;
        let at = WaitRef { lock, wait_id: fresh_id };
        let locks = owners.begin_wait(asked.owner, at);
        Answer::Waits { node, at, may_be_waited_for: locks > 0 || goes_before_others, is_behind }
    }

    /// The first lock of a key.
    fn hold_new(&mut self, id: u64, asked: &Asked<'_>, owners: &Owners) {
        if asked.parts.held().is_none() {
            return;
        }
        self.insert(id, asked);
        owners.add(asked.owner, LockRef { hash: asked.hash, id });
    }

    fn insert(&mut self, id: u64, asked: &Asked<'_>) {
        let mut object = LockObject::new(id, asked.hash, asked.tree, asked.key);
        object.hold(asked.owner, asked.parts);
        self.objects.insert_unique(asked.hash, object, |object| object.hash);
        self.stats.locks += 1;
    }

    /// Grants `asked.owner`, which has written the row, its request, if it `is_active`.
    pub(super) fn make_explicit(
        &mut self,
        asked: &Asked<'_>,
        owners: &Owners,
        is_active: impl FnOnce() -> bool,
    ) -> Explicit {
        let fresh_id = self.new_id();
        let Some(object) = self.objects.find_mut(asked.hash, |object| asked.is_of(object)) else {
            let made = owners.add_if(asked.owner, LockRef { hash: asked.hash, id: fresh_id }, is_active);
            if made {
                self.insert(fresh_id, asked);
                self.stats.made_explicit += 1;
                return Explicit::Held;
            }
            return Explicit::Ended;
        };
        let held = object.holders.of(asked.owner);
        if asked.parts.missing(held).is_none() {
            return Explicit::Held;
        }
        // It goes before all waiters: it held the row before them, as an implicit lock.
        let at = LockRef { hash: object.hash, id: object.id };
        let made = match held.is_none() {
            true => owners.add_if(asked.owner, at, is_active),
            false => is_active(),
        };
        if !made {
            return Explicit::Ended;
        }
        let passed = object.give_way(asked.owner);
        for passed in &passed {
            match *passed {
                Passed::Waits(Overtaken { owner, wait_id }) => {
                    owners.wait_again(owner, WaitRef { lock: at, wait_id });
                    self.stats.waiting += 1;
                    self.stats.locks -= 1;
                }
                Passed::Runs { owner, has_gap: false } => {
                    owners.remove(owner, at);
                    self.stats.locks -= 1;
                }
                Passed::Runs { has_gap: true, .. } => {}
            }
        }
        self.stats.locks += u64::from(object.hold(asked.owner, asked.parts));
        self.stats.made_explicit += 1;
        if passed.is_empty() { Explicit::Held } else { Explicit::HeldInstead }
    }

    /// Releases all parts that the owner holds of this lock. The caller has removed the lock from the owner's list (`owners`).
    pub(super) fn release(&mut self, owner: TxnId, at: LockRef, owners: &Owners, wakes: &mut Wakes) {
        let Some(object) = self.get_mut(at) else { return };
        if object.let_go(owner) {
            self.stats.locks -= 1;
            self.grant(at, owners, wakes);
        }
    }

    /// Releases one lock by its key; returns whether the owner held any part of it.
    pub(super) fn release_key(&mut self, asked: &Asked<'_>, owners: &Owners, wakes: &mut Wakes) -> bool {
        let Some(object) = self.objects.find(asked.hash, |object| asked.is_of(object)) else { return false };
        if object.holders.of(asked.owner).is_none() {
            return false;
        }
        let at = LockRef { hash: object.hash, id: object.id };
        owners.remove(asked.owner, at);
        self.release(asked.owner, at, owners, wakes);
        true
    }

    /// Ends a wait without a grant, unless it has ended already; returns whether this call ended it. Requests that
    /// waited for it are checked again.
    pub(super) fn end_wait(
        &mut self,
        at: WaitRef,
        verdict: Verdict,
        owners: &Owners,
        wakes: &mut Wakes,
    ) -> bool {
        let Some(object) = self.get_mut(at.lock) else { return false };
        let Some(left) = object.leave(at.wait_id) else {
            object.confirm(at.wait_id);
            return false;
        };
        owners.end_wait(left.owner, None);
        self.stats.waiting -= 1;
        match verdict {
            Verdict::Deadlock => self.stats.deadlocks += 1,
            Verdict::Cancelled => self.stats.cancels += 1,
            Verdict::TimedOut => self.stats.timeouts += 1,
            Verdict::Granted => unreachable!("a grant goes through `grant`"),
        }
        wakes.end(&left.node, verdict);
        self.grant(at.lock, owners, wakes);
        true
    }

    /// Grants the grantable requests of one lock, which is removed if it is no longer used.
    fn grant(&mut self, at: LockRef, owners: &Owners, wakes: &mut Wakes) {
        let Some(object) = self.objects.find_mut(at.hash, |object| object.id == at.id) else { return };
        let stats = &mut self.stats;
        object.grant(|waiting, new, polite| {
            stats.waiting -= 1;
            stats.locks += u64::from(new);
            // Before the verdict: its thread may release all it has as soon as it sees that.
            owners.end_wait(waiting.owner, new.then_some(at));
            wakes.grant(&waiting.node, polite)
        });
        self.drop_unused(at);
    }

    #[cfg(test)]
    pub(super) fn objects(&self) -> impl Iterator<Item = &LockObject> {
        self.objects.iter()
    }
}

/// Where in the queue the request belongs.
fn place(
    object: &LockObject,
    asked: &Asked<'_>,
    missing: Parts,
    held: Parts,
    patience: &Patience<'_>,
) -> usize {
    let Some(queue) = object.queue() else { return 0 };
    // An owner that holds this lock in part is of the first class here.
    let first = asked.first || !held.is_none();
    match first {
        true => queue.index_of_first(missing, held, (patience.now)(), patience.promote_after),
        false => queue.len(),
    }
}
