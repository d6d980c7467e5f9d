//! Who waits, and who is next: two classes, tenants by weight, promotion by age.
//!
//! - The *first class* (sessions that hold locks others may wait for) goes before everybody else.
//! - Others are served tenant by tenant with stride scheduling (Waldspurger and Weihl, 1995): a tenant's
//!   pass grows by 1 / weight for each place it gets, and the tenant with the lowest pass is next. In
//!   floating point: integer division would favour tenants of small weight.
//! - Within a tenant they are served in order, but for those who owe others time ([`crate::debts`]).
//! - So that holders of locks cannot keep the others out for ever, every fourth place at the latest goes
//!   to one of the others once the one that waits longest is older than `promote_after`.
//!
//! Everything here happens under the queue's lock.

use std::sync::Arc;

use crate::debts::{Debts, NEVER_PASSES};
use crate::queue::{List, Node, Request};
use crate::rule::End;

/// After so many places for the first class in a row, one of the others that is old enough is promoted.
const FIRST_IN_A_ROW: u32 = 3;

/// Beyond it passes are counted from 0 again: only their differences matter, and a stride must not be lost
/// in rounding.
const PASS_MAX: f64 = 1e9;

struct Tenant {
    list: List,
    stride: f64,
    /// Places got, each weighing `stride`; comparable between tenants.
    pass: f64,
}

/// The lists of those who wait.
pub(crate) struct Waiting {
    first: List,
    tenants: Vec<Tenant>,
    /// The pass of the tenant served last: where one that was idle begins.
    pass: f64,
    first_in_a_row: u32,
    /// After so long in the queue one is promoted, ns.
    pub(crate) promote_after_ns: u64,
    /// When the head has waited so long, the gate closes to newcomers, ns.
    pub(crate) tau_ns: u64,
    /// Sessions that wait for row locks now.
    pub(crate) lock_waiters: u32,
    /// So many lock waiters make congestion; 0: any number is fine.
    pub(crate) lock_waiters_max: u32,
    /// Promotions by age so far.
    pub(crate) promoted: u64,
    /// Sessions taken out to get a place.
    pub(crate) served: u64,
    pub(crate) debts: Debts,
    /// No deadline in the queue is earlier, ns. It may be that of one that has left.
    earliest_ns: u64,
}

impl Waiting {
    pub(crate) fn new() -> Self {
        Waiting {
            first: List::new(),
            tenants: vec![Tenant { list: List::new(), stride: 1.0, pass: 0.0 }],
            pass: 0.0,
            first_in_a_row: 0,
            promote_after_ns: u64::MAX,
            tau_ns: u64::MAX,
            lock_waiters: 0,
            lock_waiters_max: 0,
            promoted: 0,
            served: 0,
            debts: Debts::new(),
            earliest_ns: Request::NEVER,
        }
    }

    /// One more tenant; its number.
    pub(crate) fn add_tenant(&mut self, weight: f64) -> u32 {
        self.tenants.push(Tenant { list: List::new(), stride: 1.0 / weight, pass: self.pass });
        (self.tenants.len() - 1) as u32
    }

    /// Links a node that is not linked. A tenant that there is not counts as the default one.
    pub(crate) fn push(&mut self, node: Arc<Node>, mut request: Request, end: End) {
        if request.tenant as usize >= self.tenants.len() {
            request.tenant = 0;
        }
        self.earliest_ns = self.earliest_ns.min(request.deadline_ns);
        if !request.first {
            self.debts.note(&mut request, self.tau_ns);
        }
        if let (End::Front, false) = (end, request.first) {
            // Whoever has waited longest is promoted by the age of the head.
            let head = queued_at_ns(&self.tenants[request.tenant as usize].list);
            request.queued_at_ns = head.map_or(request.queued_at_ns, |at_ns| at_ns.min(request.queued_at_ns));
        }
        // SAFETY: `&mut self` means that the caller holds the lock.
        unsafe { node.set_request(Some(request)) };
        let tenant = &mut self.tenants[request.tenant as usize];
        if !request.first && tenant.list.is_empty() && tenant.pass < self.pass {
            // It does not catch up for the time in which it wanted nothing.
            tenant.pass = self.pass;
        }
        let list = if request.first { &mut self.first } else { &mut tenant.list };
        match end {
            End::Back => list.push_back(node),
            End::Front => list.push_front(node),
        }
    }

    /// Unlinks a node if it is in the queue.
    pub(crate) fn remove(&mut self, node: &Node) -> Option<Arc<Node>> {
        // SAFETY: `&mut self` means that the caller holds the lock; a node with a request is linked in
        // the list that the request names.
        unsafe {
            let request = node.request()?;
            node.set_request(None);
            let list = match request.first {
                true => &mut self.first,
                false => &mut self.tenants[request.tenant as usize].list,
            };
            Some(list.remove(node))
        }
    }

    /// Whether a holder of locks waits.
    pub(crate) fn has_first(&self) -> bool {
        !self.first.is_empty()
    }

    /// When the one that waits longest joined, of those at the heads: one that was passed over stands behind others that came later. `None` if
    /// nobody waits.
    pub(crate) fn oldest_ns(&self) -> Option<u64> {
        let normal = self.tenants.iter().filter_map(|tenant| queued_at_ns(&tenant.list)).min();
        queued_at_ns(&self.first).into_iter().chain(normal).min()
    }

    /// Takes the next.
    pub(crate) fn pop(&mut self, end: End, now_ns: u64) -> Option<Arc<Node>> {
        self.take(end, now_ns, now_ns)
    }

    /// As at `now_ns`; those who owe are passed over as at `passes_ns`.
    fn take(&mut self, end: End, now_ns: u64, passes_ns: u64) -> Option<Arc<Node>> {
        let node = if !self.has_first() {
            self.pop_normal(end, passes_ns)
        } else if self.promotes(now_ns) {
            // By age, also where the queue is a stack, and whatever it owes.
            self.pop_normal(End::Front, NEVER_PASSES)
        } else {
            self.first_in_a_row = self.first_in_a_row.saturating_add(1);
            self.first.pop_front()
        }?;
        // SAFETY: `&mut self` means that the caller holds the lock.
        unsafe { node.set_request(None) };
        self.served += 1;
        Some(node)
    }

    /// Whether one of the others goes before the first class now.
    fn promotes(&mut self, now_ns: u64) -> bool {
        if self.first_in_a_row < FIRST_IN_A_ROW {
            return false;
        }
        let oldest = self.tenants.iter().filter_map(|tenant| queued_at_ns(&tenant.list)).min();
        let promotes = oldest.is_some_and(|at_ns| now_ns.saturating_sub(at_ns) > self.promote_after_ns);
        self.promoted += u64::from(promotes);
        promotes
    }

    fn pop_normal(&mut self, end: End, passes_ns: u64) -> Option<Arc<Node>> {
        let waiting = self.tenants.iter_mut().filter(|tenant| !tenant.list.is_empty());
        let tenant = waiting.min_by(|a, b| a.pass.total_cmp(&b.pass))?;
        self.pass = tenant.pass;
        tenant.pass += tenant.stride;
        self.first_in_a_row = 0;
        let node = match end {
            End::Front => self.debts.pop_front(&mut tenant.list, passes_ns),
            End::Back => tenant.list.pop_back(),
        };
        if self.pass > PASS_MAX {
            for tenant in &mut self.tenants {
                tenant.pass = (tenant.pass - self.pass).max(0.0);
            }
            self.pass = 0.0;
        }
        node
    }

    /// Takes all that are in the queue.
    pub(crate) fn take_all(&mut self) -> List {
        let mut all = List::new();
        while let Some(node) = self.take(End::Front, 0, NEVER_PASSES) {
            all.push_back(node);
        }
        all
    }

    /// Takes those whose deadline has passed. Deadlines need not be in the order of the lists, so all are
    /// looked at, but not before the earliest.
    pub(crate) fn take_overdue(&mut self, now_ns: u64) -> List {
        let mut overdue = List::new();
        if now_ns < self.earliest_ns {
            return overdue;
        }
        let mut earliest_ns = Request::NEVER;
        let lists = std::iter::once(&mut self.first).chain(self.tenants.iter_mut().map(|t| &mut t.list));
        for list in lists {
            let mut taken = list.take_if(|node| {
                // SAFETY: `&mut self` means that the caller holds the lock.
                let request = unsafe { node.request() }.expect("it is in the queue");
                let is_overdue = request.deadline_ns <= now_ns;
                if is_overdue {
                    // SAFETY: as above.
                    unsafe { node.set_request(None) };
                } else {
                    earliest_ns = earliest_ns.min(request.deadline_ns);
                }
                is_overdue
            });
            while let Some(node) = taken.pop_front() {
                overdue.push_back(node);
            }
        }
        self.earliest_ns = earliest_ns;
        overdue
    }
}

fn queued_at_ns(list: &List) -> Option<u64> {
    // SAFETY: lists are reached through `Waiting`, whose owner holds the lock.
    list.front().and_then(|node| unsafe { node.request() }).map(|request| request.queued_at_ns)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn request(first: bool, tenant: u32, queued_at_ns: u64) -> Request {
        Request { first, tenant, queued_at_ns, ..Request::of_nobody() }
    }

    fn name(nodes: &[Arc<Node>], node: Option<Arc<Node>>) -> Option<usize> {
        node.map(|node| nodes.iter().position(|other| Arc::ptr_eq(other, &node)).unwrap())
    }

    #[test]
    fn holders_of_locks_go_first_but_not_for_ever() {
        let nodes: Vec<_> = (0..12).map(|_| Node::new()).collect();
        let mut waiting = Waiting::new();
        waiting.promote_after_ns = 50;
        for (n, node) in nodes.iter().enumerate() {
            waiting.push(Arc::clone(node), request(n >= 2, 0, 0), End::Back);
        }
        let mut order = |now_ns, count| {
            (0..count).map(|_| name(&nodes, waiting.pop(End::Front, now_ns)).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(order(10, 5), [2, 3, 4, 5, 6], "nobody else is old");
        assert_eq!(order(60, 7), [0, 7, 8, 9, 1, 10, 11], "every fourth at the latest");
        assert_eq!(waiting.promoted, 2);
        waiting.first_in_a_row = u32::MAX;
        waiting.push(Arc::clone(&nodes[2]), request(true, 0, 0), End::Back);
        assert_eq!(name(&nodes, waiting.pop(End::Front, 0)), Some(2), "after any number of them");
    }

    #[test]
    fn tenants_get_their_shares_whatever_their_weights() {
        let mut waiting = Waiting::new();
        let weights = [1.0, 2.5, 0.3];
        let tenants: Vec<u32> =
            weights.iter().map(|&w| if w == 1.0 { 0 } else { waiting.add_tenant(w) }).collect();
        let nodes: Vec<_> = (0..3000).map(|_| Node::new()).collect();
        for (n, node) in nodes.iter().enumerate() {
            waiting.push(Arc::clone(node), request(false, tenants[n % 3], 0), End::Back);
        }
        let mut got = [0f64; 3];
        for _ in 0..1000 {
            got[name(&nodes, waiting.pop(End::Front, 0)).unwrap() % 3] += 1.0;
        }
        for (got, weight) in got.iter().zip(weights) {
            let fair = 1000.0 * weight / weights.iter().sum::<f64>();
            assert!((got - fair).abs() <= 2.0, "got {got}, fair is {fair}");
        }
    }

    #[test]
    fn a_tenant_does_not_catch_up_for_idle_time() {
        let mut waiting = Waiting::new();
        let late = waiting.add_tenant(1.0);
        let nodes: Vec<_> = (0..20).map(|_| Node::new()).collect();
        for node in &nodes[..15] {
            waiting.push(Arc::clone(node), request(false, 0, 0), End::Back);
        }
        (0..10).for_each(|_| drop(waiting.pop(End::Front, 0)));
        for node in &nodes[15..] {
            waiting.push(Arc::clone(node), request(false, late, 0), End::Back);
        }
        let of_late = (0..6).filter(|_| name(&nodes, waiting.pop(End::Front, 0)).unwrap() >= 15).count();
        assert_eq!(of_late, 3);
    }

    #[test]
    fn one_is_taken_out_once() {
        let nodes: Vec<_> = (0..3).map(|_| Node::new()).collect();
        let mut waiting = Waiting::new();
        for (n, node) in nodes.iter().enumerate() {
            let deadline_ns = if n == 0 { 100 } else { 200 };
            let request = Request { deadline_ns, ..request(false, 0, n as u64) };
            waiting.push(Arc::clone(node), request, End::Back);
        }
        assert_eq!(waiting.oldest_ns(), Some(0));
        let mut overdue = waiting.take_overdue(150);
        assert_eq!((name(&nodes, overdue.pop_front()), overdue.is_empty()), (Some(0), true));
        assert!(waiting.remove(&nodes[0]).is_none());
        assert_eq!(name(&nodes, waiting.remove(&nodes[1])), Some(1));
        assert!(waiting.remove(&nodes[1]).is_none());
        assert_eq!(name(&nodes, waiting.pop(End::Back, 0)), Some(2));
        assert_eq!(waiting.oldest_ns(), None);
    }

    #[test]
    fn deadlines_need_not_be_in_order() {
        let nodes: Vec<_> = (0..4).map(|_| Node::new()).collect();
        let mut waiting = Waiting::new();
        for (node, deadline_ns) in nodes.iter().zip([Request::NEVER, 200, 100, 300]) {
            waiting.push(Arc::clone(node), Request { deadline_ns, ..request(false, 0, 0) }, End::Back);
        }
        let mut overdue = |now_ns| {
            let mut taken = waiting.take_overdue(now_ns);
            std::iter::from_fn(|| name(&nodes, taken.pop_front())).collect::<Vec<_>>()
        };
        assert_eq!(overdue(99), []);
        assert_eq!(overdue(100), [2]);
        assert_eq!(overdue(350), [1, 3]);
        assert_eq!(overdue(u64::MAX - 1), []);
    }

    #[test]
    fn a_stack_promotes_by_age_too() {
        let nodes: Vec<_> = (0..6).map(|_| Node::new()).collect();
        let mut waiting = Waiting::new();
        waiting.promote_after_ns = 50;
        for (n, node) in nodes.iter().enumerate() {
            waiting.push(Arc::clone(node), request(n >= 3, 0, n as u64), End::Back);
        }
        let mut next = || name(&nodes, waiting.pop(End::Back, 100)).unwrap();
        assert_eq!([next(), next(), next(), next()], [3, 4, 5, 2], "nobody of the first class is left");
        waiting.push(Arc::clone(&nodes[3]), request(true, 0, 9), End::Back);
        waiting.first_in_a_row = FIRST_IN_A_ROW;
        assert_eq!(name(&nodes, waiting.pop(End::Back, 100)), Some(0), "the oldest, not the last to come");
    }

    #[test]
    fn shares_hold_after_any_number_of_places() {
        let mut waiting = Waiting::new();
        let other = waiting.add_tenant(2.0);
        // As after so many places that adding a stride changes nothing.
        waiting.tenants.iter_mut().for_each(|tenant| tenant.pass = 1e17);
        waiting.pass = 1e17;
        let nodes: Vec<_> = (0..60).map(|_| Node::new()).collect();
        for (n, node) in nodes.iter().enumerate() {
            waiting.push(Arc::clone(node), request(false, if n < 30 { 0 } else { other }, 0), End::Back);
        }
        let of_other = (0..30).filter(|_| name(&nodes, waiting.pop(End::Front, 0)).unwrap() >= 30).count();
        assert!((19..=21).contains(&of_other), "{of_other} of 30, fair are 20");
    }
}
