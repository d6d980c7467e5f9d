//! What the scheduler ought to do, said with plain lists and numbers: no word, no lock, nobody else.

use std::collections::VecDeque;

use crate::Policy;
use crate::config::half;
use crate::debts::{Debts, PASSED_OVER_MAX};
use crate::queue::Request;
use crate::rule::End;
use crate::rule::Leaver;
use crate::state::Caller;

/// A client's number.
pub(super) type Id = usize;

/// What somebody in the queue is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// It has a place.
    Granted,
    /// It may take a place if one is free when it runs; nobody else is told of that place.
    Summoned,
    /// It may try again.
    Retry,
    /// Its deadline has passed.
    TimedOut,
}

/// Who is told what, in order.
pub(super) type Tellings = Vec<(Id, Told)>;

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
struct Tenant {
    waiters: VecDeque<Waiter>,
    weight: f64,
    pass: f64,
}

#[derive(Debug)]
pub(super) struct Plain {
    pub(super) policy: Policy,
    /// L.
    pub(super) limit: u32,
    /// T.
    pub(super) places: u32,
    /// P.
    pub(super) pending: u32,
    pub(super) closed: bool,
    pub(super) congested: bool,
    pub(super) lock_waiters: u32,
    pub(super) promoted: u64,
    pub(super) promote_after_ns: u64,
    pub(super) tau_ns: u64,
    pub(super) lock_waiters_max: u32,
    processors: u32,
    /// Places that processors keep; T counts them.
    kept: Vec<bool>,
    first: VecDeque<Waiter>,
    tenants: Vec<Tenant>,
    pass: f64,
    first_in_a_row: u32,
    pub(super) debts: Debts,
}

impl Plain {
    pub(super) fn new(policy: Policy, limit: u32, processors: u32) -> Self {
        Plain {
            policy,
            limit,
            places: 0,
            pending: 0,
            closed: false,
            congested: false,
            lock_waiters: 0,
            promoted: 0,
            promote_after_ns: u64::MAX,
            tau_ns: u64::MAX,
            lock_waiters_max: 0,
            processors,
            kept: vec![false; processors as usize],
            first: VecDeque::new(),
            tenants: vec![Tenant { waiters: VecDeque::new(), weight: 1.0, pass: 0.0 }],
            pass: 0.0,
            first_in_a_row: 0,
            debts: Debts::new(),
        }
    }

    /// Q.
    pub(super) fn queued(&self) -> u32 {
        (self.first.len() + self.tenants.iter().map(|tenant| tenant.waiters.len()).sum::<usize>()) as u32
    }

    pub(super) fn has_first(&self) -> bool {
        !self.first.is_empty()
    }

    pub(super) fn unlimited(&self) -> bool {
        self.policy == Policy::None || self.limit == 0
    }

    /// Places that one of this class may find out when it comes.
    fn limit_for(&self, first: bool) -> u32 {
        if self.congested && !first { self.limit.min(half(self.processors)) } else { self.limit }
    }

    /// What must hold when nobody is between two steps; else the word that says what is wrong.
    pub(super) fn wrong_at_rest(&self) -> Option<&'static str> {
        let enough = match self.policy {
            Policy::Lease | Policy::Quantum => self.limit_for(self.has_first()).min(self.enough()),
            _ => self.limit_for(self.has_first()),
        };
        if self.queued() > 0 && self.places - self.kept() < enough {
            Some("a place is idle while somebody waits")
        } else if self.queued() > 0 && self.unlimited() {
            Some("somebody waits without a limit")
        } else {
            None
        }
    }

    /// So many inside suffice while those who keep their places are away.
    fn enough(&self) -> u32 {
        if self.limit > self.processors { self.processors } else { self.limit.saturating_sub(1).max(1) }
    }

    pub(super) fn admits(&self, caller: Caller) -> bool {
        if self.unlimited() {
            return true;
        }
        let overtakes = match self.policy {
            Policy::Fifo => false,
            Policy::Quantum => caller.fresh && !self.closed,
            _ => !self.closed,
        };
        let running = match self.policy {
            Policy::Flifo | Policy::Lease | Policy::Quantum => self.places.saturating_sub(self.pending),
            _ => self.places,
        };
        (self.queued() == 0 || overtakes) && running < self.limit_for(caller.first)
    }

    /// Enters on a free place, or on one that any processor keeps.
    pub(super) fn enter(&mut self, caller: Caller) -> bool {
        self.enter_free(caller) || self.take_any_kept(caller)
    }

    fn enter_free(&mut self, caller: Caller) -> bool {
        let admits = self.admits(caller);
        self.places += u32::from(admits);
        admits
    }

    /// Places that processors keep.
    pub(super) fn kept(&self) -> u32 {
        self.kept.iter().filter(|kept| **kept).count() as u32
    }

    /// Enters on the place that this processor keeps.
    pub(super) fn take_kept(&mut self, processor: usize, caller: Caller) -> bool {
        if !self.kept[processor] {
            return false;
        }
        self.places -= 1;
        let admits = self.admits(caller);
        self.places += 1;
        self.kept[processor] = !admits;
        admits
    }

    fn take_any_kept(&mut self, caller: Caller) -> bool {
        let kept = self.kept();
        self.places -= kept;
        let admits = kept > 0 && self.admits(caller);
        self.places += kept;
        if admits {
            *self.kept.iter_mut().find(|kept| **kept).expect("there is one") = false;
        }
        admits
    }

    /// Leaves its place with this processor, if nobody misses it.
    pub(super) fn keep(&mut self, processor: usize, leaver: Leaver) -> bool {
        let missed = match self.policy {
            _ if self.unlimited() || self.closed || self.congested => true,
            _ if self.queued() == 0 => self.places > self.limit,
            Policy::Flifo => self.pending == 0 || self.places <= self.limit,
            Policy::Quantum => {
                !leaver.in_quantum || self.places > self.limit || !self.leaves_enough_running(leaver)
            }
            _ => true,
        };
        let keeps = !missed && !self.kept[processor];
        self.kept[processor] |= keeps;
        keeps
    }

    /// Whether enough run without the leaver for its place to wait for it, and no holder of locks waits for one that is none.
    fn leaves_enough_running(&self, leaver: Leaver) -> bool {
        self.places - self.kept() > self.enough() && !self.closed && (leaver.holds_locks || !self.has_first())
    }

    fn give_back_kept(&mut self) {
        self.places -= self.kept();
        self.kept.fill(false);
    }

    /// One that was woken runs; was it the last?
    pub(super) fn has_started(&mut self, now_ns: u64) -> Tellings {
        if self.pending == 0 { self.offer_kept(now_ns) } else { vec![] }
    }

    /// Kept places go to those who wait, if anybody does. Under `quantum` they are for those who left within their turns, as long
    /// as enough run.
    pub(super) fn offer_kept(&mut self, now_ns: u64) -> Tellings {
        let missed = match self.policy {
            Policy::Quantum => self.places - self.kept() < self.enough(),
            _ => self.kept() > 0,
        };
        if self.queued() > 0 && missed { self.offer_free_places(now_ns) } else { vec![] }
    }

    pub(super) fn join(
        &mut self,
        id: Id,
        request: Request,
        (caller, end): (Caller, End),
        queue_limit: u32,
        cancelled: bool,
    ) -> (Joined, Tellings) {
        if cancelled {
            return (Joined::Cancelled, self.offer_free_places(request.queued_at_ns));
        }
        if self.enter_free(caller) {
            return (Joined::Entered, vec![]);
        }
        if queue_limit != 0 && self.queued() >= queue_limit {
            return (Joined::Full, self.offer_free_places(request.queued_at_ns));
        }
        let mut owing = request;
        if self.policy != Policy::Quantum {
            owing.owed_ns = 0;
        } else if !request.first {
            self.debts.note(&mut owing, self.tau_ns);
        }
        let (mut waiter, pass) = (Waiter { id, request: owing }, self.pass);
        let list = if request.first {
            &mut self.first
        } else {
            let tenant = &mut self.tenants[request.tenant as usize];
            if tenant.waiters.is_empty() {
                tenant.pass = tenant.pass.max(pass);
            }
            &mut tenant.waiters
        };
        match end {
            End::Back => list.push_back(waiter),
            End::Front => {
                let head = list.front().filter(|_| !request.first);
                let head_ns = head.map_or(u64::MAX, |head| head.request.queued_at_ns);
                waiter.request.queued_at_ns = waiter.request.queued_at_ns.min(head_ns);
                list.push_front(waiter);
            }
        }
        (Joined::Queued, self.offer_free_places(request.queued_at_ns))
    }

    pub(super) fn exit(&mut self, leaver: Leaver, lease_over: bool, now_ns: u64) -> Tellings {
        let only_kept_lie_above = self.places - self.kept() <= self.limit && self.limit < self.places;
        if self.policy == Policy::Quantum && self.queued() > 0 && only_kept_lie_above {
            self.give_back_kept();
        }
        if self.queued() == 0 || self.places > self.limit {
            self.places -= 1;
            return vec![];
        }
        // Those policies keep the place for threads that come back.
        let keeps = match self.policy {
            Policy::Lease => !lease_over && self.leaves_enough_running(leaver),
            Policy::Quantum => leaver.in_quantum && self.leaves_enough_running(leaver),
            Policy::Summon => self.pending >= self.limit,
            _ => false,
        };
        if keeps {
            self.places -= 1;
            return vec![];
        }
        self.give_back_kept();
        let places = self.places;
        self.places -= 1;
        let tellings = if self.congested && !self.has_first() && places > self.limit_for(false) {
            vec![]
        } else {
            match self.policy {
                Policy::Broadcast => self.disperse(),
                Policy::Summon => vec![self.summon(now_ns)],
                _ => self.grant_free_places(now_ns),
            }
        };
        self.look_at_gate(now_ns, false);
        tellings
    }

    fn offer_free_places(&mut self, now_ns: u64) -> Tellings {
        self.give_back_kept();
        let mut tellings = vec![];
        match self.policy {
            Policy::Broadcast if self.queued() > 0 && self.places < self.limit_for(self.has_first()) => {
                tellings = self.disperse();
                self.look_at_gate(now_ns, false);
            }
            Policy::Broadcast | Policy::None => {}
            Policy::Summon => {
                while self.queued() > 0
                    && self.places < self.limit_for(self.has_first())
                    && self.pending < self.limit
                {
                    tellings.push(self.summon(now_ns));
                }
            }
            _ => tellings = self.grant_free_places(now_ns),
        }
        tellings
    }

    fn grant_free_places(&mut self, now_ns: u64) -> Tellings {
        let mut tellings = vec![];
        while self.queued() > 0 && self.places < self.limit_for(self.has_first()) {
            tellings.push(self.grant(now_ns));
        }
        tellings
    }

    fn grant(&mut self, now_ns: u64) -> (Id, Told) {
        self.places += 1;
        self.pending += 1;
        (self.next(now_ns), Told::Granted)
    }

    fn summon(&mut self, now_ns: u64) -> (Id, Told) {
        self.pending += 1;
        (self.next(now_ns), Told::Summoned)
    }

    fn disperse(&mut self) -> Tellings {
        (0..self.queued()).map(|_| (self.next_of(End::Front, 0, false), Told::Retry)).collect()
    }

    /// Takes the next out of the queue.
    fn next(&mut self, now_ns: u64) -> Id {
        self.next_of(if self.policy == Policy::Lifo { End::Back } else { End::Front }, now_ns, true)
    }

    fn next_of(&mut self, mut end: End, now_ns: u64, mut passes: bool) -> Id {
        if self.has_first() {
            let fronts = self.tenants.iter().filter_map(|tenant| tenant.waiters.front());
            let oldest_ns = fronts.map(|waiter| waiter.request.queued_at_ns).min();
            let old = oldest_ns.is_some_and(|at_ns| now_ns.saturating_sub(at_ns) > self.promote_after_ns);
            if self.first_in_a_row < 3 || !old {
                self.first_in_a_row += 1;
                return self.first.pop_front().unwrap().id;
            }
            self.promoted += 1;
            (end, passes) = (End::Front, false);
        }
        self.first_in_a_row = 0;
        let waiting = self.tenants.iter_mut().filter(|tenant| !tenant.waiters.is_empty());
        let tenant = waiting.min_by(|a, b| a.pass.total_cmp(&b.pass)).unwrap();
        self.pass = tenant.pass;
        tenant.pass += 1.0 / tenant.weight;
        match end {
            End::Front if !passes => tenant.waiters.pop_front().unwrap().id,
            End::Front => {
                // Those that stand before one who owes nothing go behind the others, and owe less; if all
                // owe, the first is served nevertheless.
                let owes =
                    |waiter: &Waiter| waiter.request.owed_ns != 0 && now_ns < waiter.request.passed_until_ns;
                let debtors = tenant.waiters.iter().take_while(|waiter| owes(waiter)).count();
                if debtors >= PASSED_OVER_MAX.min(tenant.waiters.len()) {
                    return tenant.waiters.pop_front().unwrap().id;
                }
                let mut passed: VecDeque<_> = tenant.waiters.drain(..debtors).collect();
                for waiter in &mut passed {
                    let round_ns = self.debts.round_ns();
                    waiter.request.owed_ns = waiter.request.owed_ns.saturating_sub(round_ns);
                }
                let next = tenant.waiters.pop_front();
                tenant.waiters.append(&mut passed);
                next.unwrap().id
            }
            End::Back => tenant.waiters.pop_back().unwrap().id,
        }
    }

    pub(super) fn started(&mut self) {
        self.pending -= 1;
    }

    pub(super) fn arrive(&mut self, first: bool) -> bool {
        self.pending -= 1;
        let enters = self.unlimited() || self.places < self.limit_for(first);
        self.places += u32::from(enters);
        enters
    }

    pub(super) fn force(&mut self) {
        self.places += 1;
    }

    pub(super) fn enter_below(&mut self, places: u32) -> bool {
        let enters = self.queued() == 0 && self.places < places && !self.congested;
        self.places += u32::from(enters);
        enters
    }

    pub(super) fn may_stay(&self) -> bool {
        self.queued() == 0 && self.places <= self.limit
    }

    fn lists(&mut self) -> impl Iterator<Item = &mut VecDeque<Waiter>> {
        std::iter::once(&mut self.first).chain(self.tenants.iter_mut().map(|tenant| &mut tenant.waiters))
    }

    pub(super) fn withdraw(&mut self, id: Id) -> bool {
        let before = self.queued();
        self.lists().for_each(|list| list.retain(|waiter| waiter.id != id));
        self.queued() < before
    }

    pub(super) fn withdraw_overdue(&mut self, now_ns: u64) -> Tellings {
        let mut tellings = vec![];
        for list in self.lists() {
            let overdue = |waiter: &Waiter| waiter.request.deadline_ns <= now_ns;
            tellings.extend(list.iter().filter(|waiter| overdue(waiter)).map(|w| (w.id, Told::TimedOut)));
            list.retain(|waiter| !overdue(waiter));
        }
        tellings
    }

    pub(super) fn set_rule(&mut self, policy: Policy, limit: u32, now_ns: u64) -> Tellings {
        let changes = self.policy != policy;
        (self.policy, self.limit, self.closed) = (policy, limit, false);
        self.give_back_kept();
        if changes || self.unlimited() { self.disperse() } else { self.offer_free_places(now_ns) }
    }

    pub(super) fn add_tenant(&mut self, weight: f64) {
        self.tenants.push(Tenant { waiters: VecDeque::new(), weight, pass: self.pass });
    }

    pub(super) fn lock_wait(&mut self, begins: bool, now_ns: u64) -> Tellings {
        if begins {
            self.lock_waiters += 1;
        } else {
            self.lock_waiters -= 1;
        }
        self.look_at_congestion(now_ns)
    }

    pub(super) fn terms_changed(&mut self, now_ns: u64) -> Tellings {
        self.look_at_gate(now_ns, false);
        self.look_at_congestion(now_ns)
    }

    fn look_at_congestion(&mut self, now_ns: u64) -> Tellings {
        let before = self.congested;
        self.congested = self.lock_waiters_max != 0 && self.lock_waiters >= self.lock_waiters_max;
        if self.congested == before { vec![] } else { self.offer_free_places(now_ns) }
    }

    /// Opens the gate if nobody waits too long; closes it otherwise, if that `may_close` it.
    pub(super) fn look_at_gate(&mut self, now_ns: u64, may_close: bool) {
        let tau_ns = self.tau_ns;
        let fronts = self.lists().filter_map(|list| list.front().map(|waiter| waiter.request.queued_at_ns));
        let waits_too_long = fronts.min().is_some_and(|at_ns| now_ns.saturating_sub(at_ns) > tau_ns);
        self.closed = waits_too_long && (self.closed || may_close);
    }

    pub(super) fn break_stall(&mut self, now_ns: u64) -> Tellings {
        if self.queued() == 0 {
            return vec![];
        }
        let telling = self.grant(now_ns);
        self.look_at_gate(now_ns, false);
        vec![telling]
    }
}
