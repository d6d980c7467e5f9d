//! The queue of one lock: the waiting requests, in the order in which they are served.
//!
//! A request's position is chosen once, when it joins, and the order among waiters never changes after that. So every new
//! edge of the waits-for graph starts or ends at a request that has just joined, and a search at that moment misses none
//! (`deadlock`). Promotion by age is part of choosing the position: the first class goes before newcomers, except those
//! that have waited for `promote_after`.
//!
//! # Cost
//! Joining as a newcomer is O(1). Everything else is at most one pass over an array, without following a pointer.
//! Operations on pairs of waiters use unions of their parts instead ([`Parts`]), of which there are four.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::{SmallVec, smallvec};

use super::TxnId;
use super::mode::Parts;
use super::node::WaitNode;

/// A request that waits.
pub(super) struct Waiting {
    pub(super) owner: TxnId,
    /// The parts it lacks; parts that its owner already holds are in the lock's holders.
    pub(super) parts: Parts,
    /// First class: goes before newcomers.
    pub(super) first: bool,
    pub(super) since: Instant,
    /// Distinguishes it from every other request that ever waited in this shard.
    pub(super) wait_id: u64,
    /// The owner's loss as a deadlock's victim, in addition to its locks.
    pub(super) weight: u64,
    pub(super) node: Arc<WaitNode>,
}

/// Invariant: `counts[i]` of `waiting` ask for `Parts::EACH[i]`.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    counts: [u32; Parts::EACH.len()],
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn get(&self, index: usize) -> Option<&Waiting> {
        self.waiting.get(index)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.iter()
    }

    /// The union of the parts that all waiters request.
    pub(super) fn union(&self) -> Parts {
        let mut union = Parts::NONE;
        for (part, count) in Parts::EACH.into_iter().zip(self.counts) {
            if count > 0 {
                union |= part;
            }
        }
        union
    }

    /// The union of the parts that the waiters before `index` request.
    pub(super) fn union_before(&self, index: usize) -> Parts {
        if index == self.len() {
            return self.union();
        }
        self.iter().take(index).fold(Parts::NONE, |mut union, waiting| {
            union |= waiting.parts;
            union
        })
    }

    /// Returns the index for a request of the first class for `parts`, whose owner holds `held` of this lock. Newcomers join
    /// at the end.
    ///
    /// It goes after the last request of its class and after every request that has waited for `promote_after`, but before
    /// all that wait for `held` and that it would have to wait for, too: queueing behind them would deadlock. They lose
    /// nothing, since they wait for its owner anyway. An upgrade from shared to exclusive is the common case.
    pub(super) fn index_of_first(
        &self,
        parts: Parts,
        held: Parts,
        now: Instant,
        promote_after: Duration,
    ) -> usize {
        let stays_before = |waiting: &Waiting| {
            waiting.first || now.saturating_duration_since(waiting.since) >= promote_after
        };
        let in_order = self.waiting.iter().rposition(stays_before).map_or(0, |last| last + 1);
        if held.is_none() {
            return in_order;
        }
        let waits_for_it = |waiting: &Waiting| waiting.parts.wait_for(held) && parts.wait_for(waiting.parts);
        self.iter().position(waits_for_it).map_or(in_order, |index| index.min(in_order))
    }

    pub(super) fn insert(&mut self, index: usize, waiting: Waiting) {
        self.count(waiting.parts, 1);
        self.waiting.insert(index, waiting);
    }

    pub(super) fn remove(&mut self, index: usize) -> Option<Waiting> {
        let removed = self.waiting.remove(index)?;
        self.count(removed.parts, u32::MAX);
        Some(removed)
    }

    fn count(&mut self, parts: Parts, change: u32) {
        for (part, count) in Parts::EACH.into_iter().zip(&mut self.counts) {
            if parts.has(part) {
                *count = count.wrapping_add(change);
            }
        }
    }

    pub(super) fn position(&self, wait_id: u64) -> Option<usize> {
        // From the end: a request that is looked up has mostly just joined.
        self.waiting.iter().rposition(|waiting| waiting.wait_id == wait_id)
    }

    /// Returns true only if no request behind those for `ahead` can be granted. May return false although none can.
    pub(super) fn all_wait_behind(&self, ahead: Parts) -> bool {
        let inserts = self.counts[Parts::EACH.len() - 1];
        // Only requests with a part of the record, and insert intentions, ever wait.
        ahead.has(Parts::EXCLUSIVE) && (inserts == 0 || ahead.has(Parts::GAP))
    }

    /// Iterates over the waiters ahead of `index` that it waits for, directly or through one another, nearest first.
    pub(super) fn ahead_of(&self, index: usize) -> Ahead<'_> {
        let parts = self.waiting[index].parts;
        Ahead { queue: self, next: index, union: parts, reached: smallvec![(parts, index)] }
    }
}

/// See [`Queue::ahead_of`].
pub(super) struct Ahead<'a> {
    queue: &'a Queue,
    next: usize,
    union: Parts,
    /// For each part in `union`, the first waiter that requested it: its parts and index. At most four, so checking one more
    /// waiter does not scan all waiters found before.
    reached: SmallVec<[(Parts, usize); 4]>,
}

impl<'a> Iterator for Ahead<'a> {
    /// The waiter, its index, and the index of a waiter found before that waits for it.
    type Item = (&'a Waiting, usize, usize);

    fn next(&mut self) -> Option<Self::Item> {
        while self.next > 0 {
            self.next -= 1;
            let waiting = &self.queue.waiting[self.next];
            if !self.union.wait_for(waiting.parts) {
                continue;
            }
            let waits_for_it = |&&(parts, _): &&(Parts, usize)| parts.wait_for(waiting.parts);
            let (_, by) = *self.reached.iter().find(waits_for_it).expect("the union is of their parts");
            if !self.union.has(waiting.parts) {
                self.union |= waiting.parts;
                self.reached.push((waiting.parts, self.next));
            }
            return Some((waiting, self.next, by));
        }
        None
    }
}
