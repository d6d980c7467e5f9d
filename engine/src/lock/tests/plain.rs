//! What ought to happen, in plain lists, one step at a time and without regard to cost. Waits-for edges are taken
//! pair by pair here, from the table of modes, and a lock is granted by starting over from the head of the queue.

use std::collections::{BTreeMap, BTreeSet};

use super::super::LockMode;

/// An owner's number.
pub(super) type Id = u64;
/// A key's number.
pub(super) type Key = usize;

/// A lock taken apart. `record`: 0 nothing, 1 shared, 2 exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Need {
    pub(super) record: u8,
    pub(super) gap: bool,
    pub(super) insert: bool,
}

impl Need {
    pub(super) fn of(mode: LockMode, supremum: bool) -> Need {
        let (record, gap, insert) = match mode {
            LockMode::Shared => (1, false, false),
            LockMode::Exclusive => (2, false, false),
            LockMode::Gap => (0, true, false),
            LockMode::NextKeyShared => (1, true, false),
            LockMode::NextKeyExclusive => (2, true, false),
            LockMode::InsertIntention => (0, false, true),
        };
        Need { record: if supremum && gap { 0 } else { record }, gap, insert }
    }

    fn without(self, held: Need) -> Need {
        Need {
            record: if self.record > held.record { self.record } else { 0 },
            gap: self.gap && !held.gap,
            insert: self.insert,
        }
    }

    pub(super) fn waits_for(self, other: Need) -> bool {
        let records = (self.record == 2 && other.record >= 1) || (self.record == 1 && other.record == 2);
        records || (self.insert && other.gap)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlainWait {
    pub(super) owner: Id,
    pub(super) need: Need,
    pub(super) first: bool,
    pub(super) since: u64,
    pub(super) weight: u64,
    pub(super) thread: Thread,
}

/// What the thread of one that waits does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thread {
    Runs,
    Sleeps,
    /// It was overtaken, and sleeps for a while.
    LetsPass,
    /// It sleeps, and is not overtaken.
    Insists,
}

#[derive(Debug, Default)]
pub(super) struct PlainLock {
    pub(super) held: BTreeMap<Id, Need>,
    pub(super) queue: Vec<PlainWait>,
    /// It was granted the lock, all of it and alone, and has not run since.
    pub(super) unaccepted: Option<PlainWait>,
}

impl PlainLock {
    /// Whom the request at `index` waits for.
    fn edges(&self, index: usize) -> BTreeSet<Id> {
        let wait = &self.queue[index];
        let holders =
            self.held.iter().filter(|(owner, held)| **owner != wait.owner && wait.need.waits_for(**held));
        let ahead = self.queue[..index].iter().filter(|other| wait.need.waits_for(other.need));
        holders.map(|(owner, _)| *owner).chain(ahead.map(|other| other.owner)).collect()
    }

    fn hold(&mut self, owner: Id, need: Need) {
        self.unaccepted = None;
        let held = self.held.entry(owner).or_default();
        held.record = held.record.max(need.record);
        held.gap |= need.gap;
        if *held == Need::default() {
            self.held.remove(&owner);
        }
    }

    /// It goes back to the head of the queue; who that is.
    fn overtake(&mut self, overtaken: PlainWait) -> Id {
        let owner = overtaken.owner;
        self.held.remove(&owner);
        let woke = overtaken.thread == Thread::Sleeps;
        let thread = if woke { Thread::Runs } else { Thread::LetsPass };
        self.queue.insert(0, PlainWait { thread, ..overtaken });
        owner
    }

    /// Where a request belongs, in the words of the rule.
    fn place(&self, need: Need, held: Need, first: bool, now: u64, promote_after: u64) -> usize {
        if !first && held == Need::default() {
            return self.queue.len();
        }
        let stays = |wait: &PlainWait| wait.first || now - wait.since >= promote_after;
        let in_order =
            (0..self.queue.len()).filter(|&i| stays(&self.queue[i])).max().map_or(0, |last| last + 1);
        let waits_for_me = |wait: &PlainWait| wait.need.waits_for(held) && need.waits_for(wait.need);
        let mine = (0..self.queue.len()).find(|&i| waits_for_me(&self.queue[i])).unwrap_or(usize::MAX);
        in_order.min(mine)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Told {
    AtOnce,
    AlreadyHeld,
    Refused,
    Waits,
}

pub(super) struct Ask {
    pub(super) owner: Id,
    pub(super) key: Key,
    pub(super) need: Need,
    pub(super) first: bool,
    pub(super) may_wait: bool,
    pub(super) weight: u64,
}

#[derive(Default)]
pub(super) struct Plain {
    pub(super) locks: BTreeMap<Key, PlainLock>,
    pub(super) promote_after: u64,
    /// In the order of the grants; emptied by whoever looks.
    pub(super) granted: Vec<Id>,
    /// In the order of their overtaking; emptied by whoever looks.
    pub(super) overtaken: Vec<Id>,
}

const EXCLUSIVE: Need = Need { record: 2, gap: false, insert: false };

impl Plain {
    pub(super) fn ask(&mut self, ask: &Ask, now: u64) -> Told {
        let lock = self.locks.entry(ask.key).or_default();
        let held = lock.held.get(&ask.owner).copied().unwrap_or_default();
        let need = ask.need.without(held);
        if need == Need::default() {
            return Told::AlreadyHeld;
        }
        let index = lock.place(need, held, ask.first, now, self.promote_after);
        let first = ask.first || held != Need::default();
        let wait =
            PlainWait { owner: ask.owner, need, first, since: now, weight: ask.weight, thread: Thread::Runs };
        lock.queue.insert(index, wait);
        if lock.edges(index).is_empty() {
            lock.queue.remove(index);
            lock.hold(ask.owner, need);
            self.tidy();
            return Told::AtOnce;
        }
        if held == Need::default()
            && need.record == 2
            && let Some(overtaken) = lock.unaccepted.take()
        {
            lock.queue.remove(index);
            self.overtaken.push(lock.overtake(overtaken));
            lock.hold(ask.owner, need);
            return Told::AtOnce;
        }
        if !ask.may_wait {
            lock.queue.remove(index);
            return Told::Refused;
        }
        Told::Waits
    }

    /// Whether others had the record, and gave way.
    pub(super) fn make_explicit(&mut self, owner: Id, key: Key) -> bool {
        let lock = self.locks.entry(key).or_default();
        if lock.held.get(&owner).is_some_and(|held| held.record == 2) {
            return false;
        }
        let have_it = lock.held.iter().any(|(other, held)| *other != owner && held.record > 0);
        // A passed owner gives way: to the head of the queue, or for good. So do owners that came after it, except for the gap.
        if let Some(overtaken) = lock.unaccepted.take() {
            self.overtaken.push(lock.overtake(overtaken));
        }
        lock.held.retain(|other, held| {
            held.record = if *other == owner { held.record } else { 0 };
            *held != Need::default()
        });
        lock.hold(owner, EXCLUSIVE);
        have_it
    }

    /// Whether `owner` may have an implicit lock: nobody else holds any part of the record.
    pub(super) fn may_have_implicit(&self, owner: Id, key: Key) -> bool {
        let held = self.locks.get(&key).map(|lock| &lock.held);
        held.is_none_or(|held| held.iter().all(|(other, need)| *other == owner || need.record == 0))
    }

    pub(super) fn release(&mut self, owner: Id, key: Key) -> bool {
        let released = self.locks.get_mut(&key).is_some_and(|lock| {
            let released = lock.held.remove(&owner).is_some();
            if released {
                lock.unaccepted = None;
            }
            released
        });
        self.grant();
        released
    }

    pub(super) fn end_wait(&mut self, owner: Id) -> bool {
        let mut ended = false;
        for lock in self.locks.values_mut() {
            let before = lock.queue.len();
            lock.queue.retain(|wait| wait.owner != owner);
            ended |= lock.queue.len() < before;
        }
        self.grant();
        ended
    }

    /// The thread of `owner`, which waits, does `then` if it does `now`.
    pub(super) fn thread(&mut self, owner: Id, now: Thread, then: Thread) {
        let queues = self.locks.values_mut().flat_map(|lock| &mut lock.queue);
        let does = |wait: &&mut PlainWait| wait.owner == owner && wait.thread == now;
        queues.filter(does).for_each(|wait| wait.thread = then);
    }

    /// What `owner` was granted is for good; whether that was in doubt.
    pub(super) fn accept(&mut self, owner: Id) {
        for lock in self.locks.values_mut() {
            lock.unaccepted.take_if(|wait| wait.owner == owner);
        }
    }

    pub(super) fn keys_of(&self, owner: Id) -> Vec<Key> {
        self.locks.iter().filter(|(_, lock)| lock.held.contains_key(&owner)).map(|(key, _)| *key).collect()
    }

    pub(super) fn wait_of(&self, owner: Id) -> Option<&PlainWait> {
        self.locks.values().flat_map(|lock| &lock.queue).find(|wait| wait.owner == owner)
    }

    /// Whom each waits for.
    pub(super) fn graph(&self) -> BTreeMap<Id, BTreeSet<Id>> {
        let of_lock = |lock: &PlainLock| -> Vec<_> {
            (0..lock.queue.len()).map(|index| (lock.queue[index].owner, lock.edges(index))).collect()
        };
        self.locks.values().flat_map(of_lock).collect()
    }

    /// Whether `owner` waits, directly or not, for itself.
    pub(super) fn in_a_circle(&self, owner: Id) -> bool {
        let graph = self.graph();
        let mut reached = BTreeSet::new();
        let mut ahead: Vec<Id> = vec![owner];
        while let Some(from) = ahead.pop() {
            for &to in graph.get(&from).into_iter().flatten() {
                if to == owner {
                    return true;
                }
                if reached.insert(to) {
                    ahead.push(to);
                }
            }
        }
        false
    }

    /// Grants what can be granted, the foremost first.
    fn grant(&mut self) {
        for lock in self.locks.values_mut() {
            while let Some(index) = (0..lock.queue.len()).find(|&index| lock.edges(index).is_empty()) {
                let wait = lock.queue.remove(index);
                let alone = lock.held.is_empty() && wait.need == EXCLUSIVE;
                lock.hold(wait.owner, wait.need);
                self.granted.push(wait.owner);
                let may_be_overtaken = matches!(wait.thread, Thread::Sleeps | Thread::LetsPass);
                lock.unaccepted = (alone && may_be_overtaken).then_some(wait);
            }
        }
        self.tidy();
    }

    fn tidy(&mut self) {
        self.locks.retain(|_, lock| !lock.held.is_empty() || !lock.queue.is_empty());
    }
}
