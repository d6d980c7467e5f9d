//! What the gate ought to do, said with plain lists and numbers: no word, no lock, no other thread.

use std::collections::VecDeque;

use crate::config::Policy;
use crate::gate::Leaver;
use crate::gate::queue::Request;
use crate::gate::waiters::{End, PASSED_OVER_MAX};
use crate::gate::word::Caller;
use crate::quantum::fairness::{Averages, Charge};

/// A client's number.
pub(super) type Id = usize;

/// The verdict of a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It has a slot.
    Granted,
    /// It may try again.
    Retry,
    /// Its deadline has passed.
    TimedOut,
}

/// The waiters that are woken, in order.
pub(super) type Woken = Vec<(Id, Verdict)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joined {
    Entered,
    Queued,
    Full,
    Cancelled,
}

#[derive(Debug, Clone, Copy)]
struct Waiter {
    id: Id,
    request: Request,
}

#[derive(Debug)]
pub(super) struct Plain {
    pub(super) policy: Policy,
    /// L.
    pub(super) limit: u32,
    /// T.
    pub(super) slots: u32,
    /// P.
    pub(super) pending: u32,
    pub(super) congested: bool,
    pub(super) lock_waiters: u32,
    pub(super) promoted: u64,
    pub(super) promote_after_ns: u64,
    pub(super) lock_waiters_max: u32,
    pub(super) averages: Averages,
    cpus: u32,
    /// Free slots that CPUs keep; T counts them.
    kept: Vec<bool>,
    first: VecDeque<Waiter>,
    normal: VecDeque<Waiter>,
    first_in_a_row: u32,
}

impl Plain {
    pub(super) fn new(policy: Policy, limit: u32, cpus: u32) -> Self {
        Plain {
            policy,
            limit,
            slots: 0,
            pending: 0,
            congested: false,
            lock_waiters: 0,
            promoted: 0,
            promote_after_ns: u64::MAX,
            lock_waiters_max: 0,
            averages: Averages::new(),
            cpus,
            kept: vec![false; cpus as usize],
            first: VecDeque::new(),
            normal: VecDeque::new(),
            first_in_a_row: 0,
        }
    }

    /// Q.
    pub(super) fn queued(&self) -> u32 {
        (self.first.len() + self.normal.len()) as u32
    }

    pub(super) fn has_first(&self) -> bool {
        !self.first.is_empty()
    }

    fn is_unlimited(&self) -> bool {
        self.policy == Policy::None || self.limit == 0
    }

    /// Slots that a session of this class may find out when it comes.
    fn limit_for(&self, first: bool) -> u32 {
        if self.congested && !first { self.limit.min((self.cpus / 2).max(1)) } else { self.limit }
    }

    /// Running threads that suffice while a session is away within its slice.
    fn enough(&self) -> u32 {
        if self.limit > self.cpus { self.cpus } else { self.limit.saturating_sub(1).max(1) }
    }

    /// What is wrong when no client is in the middle of a step.
    pub(super) fn wrong_at_rest(&self) -> Option<&'static str> {
        let limit = self.limit_for(self.has_first());
        let enough = if self.policy == Policy::Quantum { limit.min(self.enough()) } else { limit };
        if self.queued() > 0 && self.slots < enough {
            Some("a slot is idle while somebody queues")
        } else if self.queued() > 0 && self.kept() > 0 {
            Some("a CPU keeps a slot while somebody queues")
        } else if self.queued() > 0 && self.is_unlimited() {
            Some("somebody queues without a limit")
        } else {
            None
        }
    }

    fn admits(&self, caller: Caller) -> bool {
        if self.is_unlimited() {
            return true;
        }
        let (ignores_pending, passes) = match self.policy {
            Policy::None | Policy::Flifo => (true, true),
            Policy::Fifo => (false, false),
            Policy::Quantum => (true, caller.may_barge),
        };
        let running = self.slots - if ignores_pending { self.pending } else { 0 };
        (self.queued() == 0 || passes) && running < self.limit_for(caller.first)
    }

    /// Enters on a free slot.
    pub(super) fn enter(&mut self, caller: Caller) -> bool {
        let admits = self.admits(caller);
        self.slots += u32::from(admits);
        admits
    }

    /// Slots that CPUs keep.
    pub(super) fn kept(&self) -> u32 {
        self.kept.iter().filter(|kept| **kept).count() as u32
    }

    /// Enters on the slot that this CPU keeps.
    pub(super) fn take_kept(&mut self, cpu: usize, caller: Caller) -> bool {
        if !self.kept[cpu] {
            return false;
        }
        self.slots -= 1;
        let admits = self.admits(caller);
        self.slots += 1;
        self.kept[cpu] = !admits;
        admits
    }

    /// Enters on a slot that any CPU keeps.
    pub(super) fn take_any_kept(&mut self, caller: Caller) -> bool {
        let kept = self.kept();
        self.slots -= kept;
        let admits = kept > 0 && self.admits(caller);
        self.slots += kept;
        if admits {
            *self.kept.iter_mut().find(|kept| **kept).expect("there is one") = false;
        }
        admits
    }

    /// Exits, and the CPU keeps the slot, if nobody misses it.
    pub(super) fn keep(&mut self, cpu: usize) -> bool {
        let missed = self.is_unlimited() || self.congested || self.queued() > 0 || self.slots > self.limit;
        let keeps = !missed && !self.kept[cpu];
        self.kept[cpu] |= keeps;
        keeps
    }

    /// A session has joined the queue: kept slots are given back, and offered.
    pub(super) fn give_back_kept(&mut self, now_ns: u64) -> Woken {
        self.slots -= self.kept();
        self.kept.fill(false);
        self.grant_free_slots(now_ns)
    }

    pub(super) fn join(
        &mut self,
        id: Id,
        request: Request,
        (caller, end): (Caller, End),
        queue_limit: u32,
        cancelled: bool,
    ) -> (Joined, Woken) {
        if cancelled {
            return (Joined::Cancelled, self.grant_free_slots(request.queued_at_ns));
        }
        if self.enter(caller) {
            return (Joined::Entered, vec![]);
        }
        if queue_limit != 0 && self.queued() >= queue_limit {
            return (Joined::Full, self.grant_free_slots(request.queued_at_ns));
        }
        let mut noted = request;
        if self.policy != Policy::Quantum {
            noted.charge = Charge::default();
        }
        if !request.first {
            self.averages.note(&mut noted.charge, request.queued_at_ns, request.deadline_ns);
        }
        let mut waiter = Waiter { id, request: noted };
        let list = if request.first { &mut self.first } else { &mut self.normal };
        match end {
            End::Back => list.push_back(waiter),
            End::Front => {
                let head = list.front().filter(|_| !request.first);
                let head_ns = head.map_or(u64::MAX, |head| head.request.queued_at_ns);
                waiter.request.queued_at_ns = waiter.request.queued_at_ns.min(head_ns);
                list.push_front(waiter);
            }
        }
        (Joined::Queued, self.grant_free_slots(request.queued_at_ns))
    }

    pub(super) fn exit(&mut self, leaver: Leaver, now_ns: u64) -> Woken {
        let slots = self.slots;
        let goes_on = self.policy == Policy::Quantum
            && leaver.in_slice
            && slots > self.enough()
            && (leaver.holds_locks || !self.has_first());
        let serves = self.has_first() || slots <= self.limit_for(false);
        self.slots -= 1;
        if self.queued() == 0 || slots > self.limit || goes_on || !serves {
            return vec![];
        }
        self.grant_free_slots(now_ns)
    }

    fn grant_free_slots(&mut self, now_ns: u64) -> Woken {
        let mut woken = vec![];
        while self.queued() > 0 && self.slots < self.limit_for(self.has_first()) {
            woken.push(self.grant(now_ns));
        }
        woken
    }

    fn grant(&mut self, now_ns: u64) -> (Id, Verdict) {
        self.slots += 1;
        self.pending += 1;
        (self.next(now_ns, true), Verdict::Granted)
    }

    fn disperse(&mut self) -> Woken {
        (0..self.queued()).map(|_| (self.next(0, false), Verdict::Retry)).collect()
    }

    /// Takes the next out of the queue. `passes`: those with a deficit are passed over.
    fn next(&mut self, now_ns: u64, mut passes: bool) -> Id {
        if self.has_first() {
            let head_ns = self.normal.front().map(|waiter| waiter.request.queued_at_ns);
            let old = head_ns.is_some_and(|at_ns| now_ns.saturating_sub(at_ns) > self.promote_after_ns);
            if self.first_in_a_row < 3 || !old {
                self.first_in_a_row += 1;
                return self.first.pop_front().unwrap().id;
            }
            self.promoted += 1;
            passes = false;
        }
        self.first_in_a_row = 0;
        let debtors =
            self.normal.iter().take_while(|waiter| waiter.request.charge.is_passed_over(now_ns)).count();
        // If all have a deficit, the first is served nevertheless.
        if !passes || debtors >= PASSED_OVER_MAX.min(self.normal.len()) {
            return self.normal.pop_front().unwrap().id;
        }
        let mut passed: VecDeque<_> = self.normal.drain(..debtors).collect();
        for waiter in &mut passed {
            waiter.request.charge.deficit_ns = self.averages.pay_round(waiter.request.charge.deficit_ns);
        }
        let next = self.normal.pop_front();
        self.normal.append(&mut passed);
        next.unwrap().id
    }

    pub(super) fn start(&mut self) {
        self.pending -= 1;
    }

    pub(super) fn force(&mut self) {
        self.slots += 1;
    }

    pub(super) fn may_stay(&self) -> bool {
        self.queued() == 0 && self.slots <= self.limit
    }

    fn lists(&mut self) -> [&mut VecDeque<Waiter>; 2] {
        [&mut self.first, &mut self.normal]
    }

    pub(super) fn withdraw(&mut self, id: Id) -> bool {
        let before = self.queued();
        self.lists().into_iter().for_each(|list| list.retain(|waiter| waiter.id != id));
        self.queued() < before
    }

    pub(super) fn withdraw_overdue(&mut self, now_ns: u64) -> Woken {
        let mut woken = vec![];
        for list in self.lists() {
            let overdue = |waiter: &Waiter| waiter.request.deadline_ns <= now_ns;
            woken.extend(list.iter().filter(|waiter| overdue(waiter)).map(|w| (w.id, Verdict::TimedOut)));
            list.retain(|waiter| !overdue(waiter));
        }
        woken
    }

    pub(super) fn set_rule(&mut self, policy: Policy, limit: u32, now_ns: u64) -> Woken {
        let changes = self.policy != policy;
        (self.policy, self.limit) = (policy, limit);
        if changes || self.is_unlimited() { self.disperse() } else { self.grant_free_slots(now_ns) }
    }

    pub(super) fn count_lock_wait(&mut self, begins: bool, now_ns: u64) -> Woken {
        if begins {
            self.lock_waiters += 1;
        } else {
            self.lock_waiters -= 1;
        }
        self.update_congestion(now_ns)
    }

    pub(super) fn update_congestion(&mut self, now_ns: u64) -> Woken {
        let before = self.congested;
        self.congested = self.lock_waiters_max != 0 && self.lock_waiters >= self.lock_waiters_max;
        if self.congested == before { vec![] } else { self.grant_free_slots(now_ns) }
    }

    pub(super) fn break_stall(&mut self, now_ns: u64) -> Woken {
        if self.queued() == 0 { vec![] } else { vec![self.grant(now_ns)] }
    }
}
