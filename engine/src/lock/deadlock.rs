//! Deadlocks: cycles in the waits-for graph.
//!
//! # Edges
//! A request waits for the holders of its lock that exclude it, and for the requests ahead in the queue that do. An owner
//! waits for one lock at a time, so the requests ahead have edges into the same lock only: to its holders, and to requests
//! ahead of them. So a lock is searched as a whole. One pass over the queue collects what the requests ahead ask for, as a
//! union of parts ([`super::queue::Ahead`]), and ends as soon as the union has all parts. One pass over the holders finds
//! which of them the union waits for. On a row with one writer and a thousand waiters a newcomer takes two steps.
//!
//! # Why none is missed
//! The edges of a cycle stay once they exist: a waiting owner releases nothing. The order of a queue never changes, and a
//! granted request does not wait. So the last edge of a cycle comes with a request that begins to wait, and starts or ends at
//! that request: a search from there, after it is queued, sees the whole cycle. No owner waits for an owner without a lock
//! that joins a queue at its end, so such a newcomer need not search. (If another owner makes an implicit lock of it
//! explicit at that time, the other owner will wait, and search.)
//!
//! The waiters in the queue wait for a writer that passed a holder (`object`), but the edge is not visible until the writer's
//! lock is made explicit. All edges that appear then lead to the writer, so the search begins there. A passed owner reads the
//! row after its turn at the latest, before it waits for anything else, and finds the writer. If its read fails, the owners
//! that have the lock next find the writer: a cycle through the writer is detected when their waits end, not before.
//!
//! # Why none is invented
//! A search visits one shard after the other, while the others change. A cycle it finds is checked again with all shards of
//! the cycle locked, in the order of their numbers, and the victim is chosen and taken out of its queue there. So two searches
//! that find cycles with a transaction in common do not both choose a victim.
//!
//! A search that has visited [`super::LockConfig::deadlock_steps_max`] owners stops; the [`Detector`] repeats it to the end.

use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::HashSet;

use super::mode::Parts;
use super::node::{Verdict, Wakes};
use super::object::LockObject;
use super::owners::WaitRef;
use super::queue::Queue;
use super::shard::Shard;
use super::sync::{MutexGuard, lock};
use super::{LockTable, TxnId, Wait};
use crate::background::{Task, Wake};

/// How many times a search restarts, because its result was gone or was one cycle of several.
const ROUNDS_MAX: usize = 16;
/// How often the detector looks for searches that were left to it.
const ROUND: Duration = Duration::from_millis(100);

/// An owner and its request in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waits {
    pub(super) owner: TxnId,
    pub(super) at: WaitRef,
}

/// A member of a cycle, with the data for the choice of a victim.
struct Member {
    waits: Waits,
    weight: u64,
}

pub(super) enum Found {
    /// No owner in reach waits for the first one, or the first one no longer waits.
    Nothing,
    /// Each waits for the next, and the last for the first.
    Circle(Vec<Waits>),
    TooLong,
}

impl LockTable {
    /// Looks for deadlocks that this wait has completed, and ends them.
    pub(super) fn look_for_deadlock(&self, wait: &Wait) {
        if wait.may_be_waited_for {
            self.end_circles(Waits { owner: wait.owner, at: wait.at }, self.deadlock_steps_max);
        }
    }

    /// Ends all circles through `start`, or leaves that to the detector.
    pub(super) fn end_circles(&self, start: Waits, steps_max: usize) {
        for _ in 0..ROUNDS_MAX {
            match self.search(start, steps_max) {
                Found::Nothing => return,
                Found::Circle(circle) => self.end_circle(&circle),
                Found::TooLong => break,
            }
        }
        self.shard(start.at.lock.hash).stats.searches_deferred += 1;
        lock(&self.deferred).push((start.owner, start.at));
    }

    /// Breadth first, so that the circle found is the shortest.
    pub(super) fn search(&self, start: Waits, steps_max: usize) -> Found {
        let mut reached = vec![(start, 0)];
        let mut seen = HashSet::from_iter([start.owner]);
        let mut ahead = Vec::new();
        let mut next = 0;
        while let Some(&(from, _)) = reached.get(next) {
            ahead.clear();
            let steps_left = steps_max.saturating_sub(seen.len());
            let shard = self.shard(from.at.lock.hash);
            let to_start = shard.get(from.at.lock).is_some_and(|object| {
                object.leads_to(from.at, start, |owner| {
                    if seen.insert(owner) {
                        ahead.push(owner);
                    }
                    if ahead.len() > steps_left { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })
            });
            drop(shard);
            if to_start {
                return Found::Circle(way_to(&reached, next));
            }
            if ahead.len() > steps_left {
                return Found::TooLong;
            }
            let waiting = |&owner: &TxnId| Some(Waits { owner, at: self.owners.waiting(owner)? });
            reached.extend(ahead.iter().filter_map(waiting).map(|waits| (waits, next)));
            next += 1;
        }
        Found::Nothing
    }

    /// If the cycle still exists, removes the owner that loses the least from its queue.
    pub(super) fn end_circle(&self, circle: &[Waits]) {
        let mut numbers: Vec<usize> =
            circle.iter().map(|waits| self.shard_number(waits.at.lock.hash)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut shards: Vec<MutexGuard<'_, Shard>> =
            numbers.iter().map(|&number| lock(&self.shards[number].0)).collect();
        let index_of = |waits: &Waits| {
            let number = self.shard_number(waits.at.lock.hash);
            numbers.binary_search(&number).expect("its shard is among them")
        };

        let mut members = Vec::new();
        let nexts = circle.iter().cycle().skip(1);
        for (waits, next) in circle.iter().zip(nexts) {
            let object = shards[index_of(waits)].get(waits.at.lock);
            let Some(part) = object.and_then(|object| object.way(waits.at, *next)) else { return };
            members.extend(part);
        }
        let loses =
            |member: &Member| member.weight.saturating_add(self.owners.locks(member.waits.owner) as u64);
        let victim = members.iter().min_by_key(|member| (loses(member), Reverse(member.waits.owner)));
        let Some(victim) = victim.map(|member| member.waits) else { return };

        let mut wakes = Wakes::default();
        shards[index_of(&victim)].end_wait(victim.at, Verdict::Deadlock, &self.owners, &mut wakes);
        drop(shards);
        wakes.wake();
    }
}

/// The path from the first one to the one at `last`.
fn way_to(reached: &[(Waits, usize)], last: usize) -> Vec<Waits> {
    let mut way = vec![reached[last].0];
    let mut at = last;
    while at != 0 {
        at = reached[at].1;
        way.push(reached[at].0);
    }
    way.reverse();
    way
}

impl LockObject {
    /// Calls `reached` for the holders that the request at `from` waits for, directly or through the requests ahead of
    /// it, until it breaks. Returns true, at once, if `goal` is one of these, as a holder or in the queue.
    fn leads_to(
        &self,
        from: WaitRef,
        goal: Waits,
        mut reached: impl FnMut(TxnId) -> ControlFlow<()>,
    ) -> bool {
        let Some((queue, index)) = self.find(from) else { return false };
        let owner = queue.get(index).expect("it was just found").owner;
        let Some(asked) = self.asked_before(queue, index, goal) else { return true };
        for holder in self.holders.iter() {
            if holder.owner == goal.owner {
                // The goal may wait for itself; only requests ahead of it that wait for it make a cycle.
                let by = if owner == goal.owner { asked.by_others } else { asked.by_all };
                if by.wait_for(holder.parts) {
                    return true;
                }
            } else if holder.owner != owner
                && asked.by_all.wait_for(holder.parts)
                && reached(holder.owner).is_break()
            {
                return false;
            }
        }
        false
    }

    fn find(&self, wait: WaitRef) -> Option<(&Queue, usize)> {
        let queue = self.queue()?;
        Some((queue, queue.position(wait.wait_id)?))
    }

    /// What the request at `index`, and those ahead that it waits for, request; `None` if `goal` is among those ahead.
    fn asked_before(&self, queue: &Queue, index: usize, goal: Waits) -> Option<AskedBefore> {
        let own = queue.get(index)?;
        let mut asked = AskedBefore { by_all: own.parts, by_others: Parts::NONE };
        let all = queue.union();
        // The goal is found only by a search of all, and what others request matters only if it holds something.
        let every_one = match own.owner == goal.owner {
            true => !self.holders.of(goal.owner).is_none(),
            false => goal.at.lock.hash == self.hash && goal.at.lock.id == self.id,
        };
        if !every_one && asked.by_all.has(all) {
            return Some(asked);
        }
        for (waiting, _, _) in queue.ahead_of(index) {
            if waiting.wait_id == goal.at.wait_id && waiting.owner == goal.owner {
                return None;
            }
            asked.by_all |= waiting.parts;
            asked.by_others |= waiting.parts;
            if !every_one && asked.by_all.has(all) {
                break;
            }
        }
        Some(asked)
    }

    /// The path by which the request at `from` waits for `to`: itself, and the requests ahead of it in between; `None`
    /// if it does not.
    fn way(&self, from: WaitRef, to: Waits) -> Option<Vec<Member>> {
        let (queue, index) = self.find(from)?;
        let held = self.holders.of(to.owner);
        let waits_for_holder = |index: usize| {
            queue.get(index).is_some_and(|waiting| waiting.owner != to.owner && waiting.parts.wait_for(held))
        };
        // Each request that was found, and the one that waits for it.
        let mut found = vec![(index, index)];
        let mut last = waits_for_holder(index).then_some(index);
        let mut ahead = queue.ahead_of(index);
        while last.is_none() {
            let (waiting, at, by) = ahead.next()?;
            found.push((at, by));
            if waiting.wait_id == to.at.wait_id && waiting.owner == to.owner {
                last = Some(by);
            } else if waits_for_holder(at) {
                last = Some(at);
            }
        }
        let mut way = Vec::new();
        let mut at = last?;
        loop {
            let waiting = queue.get(at)?;
            let at_lock = WaitRef { lock: from.lock, wait_id: waiting.wait_id };
            way.push(Member { waits: Waits { owner: waiting.owner, at: at_lock }, weight: waiting.weight });
            if at == index {
                return Some(way);
            }
            at = found.iter().find(|(found, _)| *found == at)?.1;
        }
    }
}

/// See [`LockObject::asked_before`].
struct AskedBefore {
    by_all: Parts,
    by_others: Parts,
}

impl Task for Detector {
    fn step(&mut self, now: Instant) -> Wake {
        Detector::step(self, now)
    }
}

/// Runs the searches that were too long for the threads that began them. One per [`LockTable`] is enough.
pub struct Detector {
    table: Arc<LockTable>,
}

impl Detector {
    /// Creates a detector for `table`.
    pub fn new(table: &Arc<LockTable>) -> Self {
        Detector { table: Arc::clone(table) }
    }

    /// Runs all searches deferred so far, each to its end.
    pub fn step(&mut self, now: Instant) -> Wake {
        let deferred = std::mem::take(&mut *lock(&self.table.deferred));
        for (owner, at) in deferred {
            self.table.end_circles(Waits { owner, at }, usize::MAX);
        }
        match lock(&self.table.deferred).is_empty() {
            true => Wake::At(now + ROUND),
            false => Wake::Now,
        }
    }
}
