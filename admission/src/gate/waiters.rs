//! The queue: who waits, and who is next.
//!
//! - The *first class*, sessions that hold locks others may wait for, goes before everybody else.
//! - So that lock holders cannot keep the others out forever, every fourth slot at the latest goes to the normal class once its head is
//!   older than `promote_after`.
//! - Within a class waiters are served in order, except that those with a deficit let others pass
//!   ([`crate::quantum::fairness`]).
//!
//! Everything here happens under the queue's lock.

use std::sync::Arc;

use super::queue::{List, Node, Request};
use crate::quantum::fairness::{Averages, Charge};

/// Slots for the first class in a row, after which a waiter of the normal class that is old enough is promoted.
const FIRST_IN_A_ROW: u32 = 3;
/// While this number of waiters at the head has a deficit, they are served in order: the lock is held while they are looked at.
pub(crate) const PASSED_OVER_MAX: usize = 256;
/// A time at which no waiter is passed over.
const NEVER_PASSES: u64 = u64::MAX;

/// The end of the queue at which a waiter joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Before all others of its class.
    Front,
    /// Behind all others of its class.
    Back,
}

/// The lists of those that wait, and the settings and counters that the queue's lock guards.
pub(crate) struct Waiters {
    first: List,
    normal: List,
    first_in_a_row: u32,
    pub(crate) averages: Averages,
    /// Age at which a waiter of the normal class is promoted, ns.
    pub(crate) promote_after_ns: u64,
    /// Sessions in row-lock waits now.
    pub(crate) lock_waiters: u32,
    /// So many of them make congestion; 0: any number is fine.
    pub(crate) lock_waiters_max: u32,
    /// Promotions by age so far.
    pub(crate) promoted: u64,
    /// Waiters served so far.
    pub(crate) served: u64,
    /// No deadline in the queue is earlier, ns. It may be that of a waiter that has left.
    earliest_ns: u64,
}

impl Waiters {
    pub(crate) fn new() -> Self {
        Waiters {
            first: List::new(),
            normal: List::new(),
            first_in_a_row: 0,
            averages: Averages::new(),
            promote_after_ns: u64::MAX,
            lock_waiters: 0,
            lock_waiters_max: 0,
            promoted: 0,
            served: 0,
            earliest_ns: Request::NEVER,
        }
    }

    /// Links a node that is not linked.
    pub(crate) fn push(&mut self, node: Arc<Node>, mut request: Request, end: End) {
        self.earliest_ns = self.earliest_ns.min(request.deadline_ns);
        if !request.first {
            self.averages.note(&mut request.charge, request.queued_at_ns, request.deadline_ns);
        }
        if let (End::Front, false) = (end, request.first) {
            // The head's age decides about promotion, so it must not look younger than those behind it.
            let head = queued_at_ns(&self.normal);
            request.queued_at_ns = head.map_or(request.queued_at_ns, |at_ns| at_ns.min(request.queued_at_ns));
        }
        // SAFETY: `&mut self` means that the caller holds the lock.
        unsafe { node.set_request(Some(request)) };
        let list = if request.first { &mut self.first } else { &mut self.normal };
        match end {
            End::Back => list.push_back(node),
            End::Front => list.push_front(node),
        }
    }

    /// Unlinks a node if it is in the queue.
    pub(crate) fn remove(&mut self, node: &Node) -> Option<Arc<Node>> {
        // SAFETY: `&mut self` means that the caller holds the lock; a node with a request is linked in the list of its class.
        unsafe {
            let request = node.request()?;
            node.set_request(None);
            Some(if request.first { self.first.remove(node) } else { self.normal.remove(node) })
        }
    }

    /// Whether a lock holder waits.
    pub(crate) fn has_first(&self) -> bool {
        !self.first.is_empty()
    }

    /// Takes the next.
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<Arc<Node>> {
        self.take(now_ns, now_ns)
    }

    /// Takes all, in order.
    pub(crate) fn take_all(&mut self) -> List {
        let mut all = List::new();
        while let Some(node) = self.take(0, NEVER_PASSES) {
            all.push_back(node);
        }
        all
    }

    /// Takes the next as at `now_ns`; those with a deficit are passed over as at `passes_ns`.
    fn take(&mut self, now_ns: u64, passes_ns: u64) -> Option<Arc<Node>> {
        let node = if !self.has_first() {
            self.pop_normal(passes_ns)
        } else if self.promotes(now_ns) {
            // By age, whatever its deficit.
            self.pop_normal(NEVER_PASSES)
        } else {
            self.first_in_a_row = self.first_in_a_row.saturating_add(1);
            self.first.pop_front()
        }?;
        // SAFETY: `&mut self` means that the caller holds the lock.
        unsafe { node.set_request(None) };
        self.served += 1;
        Some(node)
    }

    /// Whether a waiter of the normal class goes before the first class now.
    fn promotes(&mut self, now_ns: u64) -> bool {
        if self.first_in_a_row < FIRST_IN_A_ROW {
            return false;
        }
        let head = queued_at_ns(&self.normal);
        let promotes = head.is_some_and(|at_ns| now_ns.saturating_sub(at_ns) > self.promote_after_ns);
        self.promoted += u64::from(promotes);
        promotes
    }

    /// Takes the first of the normal class that is not passed over. Those before it pay a round and go to the tail.
    fn pop_normal(&mut self, passes_ns: u64) -> Option<Arc<Node>> {
        self.first_in_a_row = 0;
        // SAFETY: `&mut self` means that the caller holds the lock.
        let charge =
            |node: &Node| unsafe { node.request() }.map_or(Charge::default(), |request| request.charge);
        let passed_over = |node: &&Node| charge(node).is_passed_over(passes_ns);
        let debtors = self.normal.iter().take(PASSED_OVER_MAX).take_while(passed_over).count();
        let others_follow = debtors < PASSED_OVER_MAX && self.normal.iter().nth(debtors).is_some();
        // Otherwise there is no waiter to pass, or it is too far away.
        for _ in 0..if others_follow { debtors } else { 0 } {
            let debtor = self.normal.pop_front()?;
            // SAFETY: as above.
            if let Some(mut request) = unsafe { debtor.request() } {
                request.charge.deficit_ns = self.averages.pay_round(request.charge.deficit_ns);
                // SAFETY: as above.
                unsafe { debtor.set_request(Some(request)) };
            }
            self.normal.push_back(debtor);
        }
        self.normal.pop_front()
    }

    /// Takes those whose deadline has passed. Deadlines need not be in the order of the lists, so all are looked at, but not before
    /// the earliest.
    pub(crate) fn take_overdue(&mut self, now_ns: u64) -> List {
        let mut overdue = List::new();
        if now_ns < self.earliest_ns {
            return overdue;
        }
        let mut earliest_ns = Request::NEVER;
        for list in [&mut self.first, &mut self.normal] {
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
    // SAFETY: lists are reached through `Waiters`, whose owner holds the lock.
    list.front().and_then(|node| unsafe { node.request() }).map(|request| request.queued_at_ns)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn request(first: bool, queued_at_ns: u64) -> Request {
        Request { first, queued_at_ns, ..Request::plain() }
    }

    /// A queue whose nodes have numbers.
    struct Queue {
        waiters: Waiters,
        nodes: Vec<Arc<Node>>,
    }

    impl Queue {
        fn new(nodes: usize) -> Self {
            Queue { waiters: Waiters::new(), nodes: (0..nodes).map(|_| Node::new()).collect() }
        }

        fn push(&mut self, node: usize, request: Request) {
            self.waiters.push(Arc::clone(&self.nodes[node]), request, End::Back);
        }

        /// Joins after a slice of this length, all of it a deficit.
        fn join(&mut self, node: usize, slice_ns: u64) {
            let charge = Charge { slice_ns, deficit_ns: slice_ns, passed_until_ns: 0 };
            self.push(node, Request { charge, ..Request::plain() });
        }

        fn number(&self, node: Option<Arc<Node>>) -> Option<usize> {
            node.map(|node| self.nodes.iter().position(|other| Arc::ptr_eq(other, &node)).unwrap())
        }

        fn pop(&mut self, now_ns: u64) -> Option<usize> {
            let node = self.waiters.pop(now_ns);
            self.number(node)
        }
    }

    #[test]
    fn lock_holders_go_first_but_not_forever() {
        let mut queue = Queue::new(12);
        queue.waiters.promote_after_ns = 50;
        (0..12).for_each(|n| queue.push(n, request(n >= 2, 0)));
        let mut order = |now_ns, count| (0..count).map(|_| queue.pop(now_ns).unwrap()).collect::<Vec<_>>();
        assert_eq!(order(10, 5), [2, 3, 4, 5, 6], "the normal class is not old enough");
        assert_eq!(order(60, 7), [0, 7, 8, 9, 1, 10, 11], "every fourth at the latest");
        assert_eq!(queue.waiters.promoted, 2);
        queue.waiters.first_in_a_row = u32::MAX;
        queue.push(2, request(true, 0));
        assert_eq!(queue.pop(0), Some(2), "after any number of them");
    }

    #[test]
    fn a_waiter_is_taken_out_once() {
        let mut queue = Queue::new(3);
        for n in 0..3 {
            let deadline_ns = if n == 0 { 100 } else { 200 };
            queue.push(n, Request { deadline_ns, ..request(false, n as u64) });
        }
        let mut overdue = queue.waiters.take_overdue(150);
        assert_eq!((queue.number(overdue.pop_front()), overdue.is_empty()), (Some(0), true));
        assert!(queue.waiters.remove(&queue.nodes[0]).is_none());
        assert!(queue.waiters.remove(&queue.nodes[1]).is_some());
        assert!(queue.waiters.remove(&queue.nodes[1]).is_none());
        assert_eq!((queue.pop(0), queue.pop(0)), (Some(2), None));
    }

    #[test]
    fn deadlines_need_not_be_in_order() {
        let mut queue = Queue::new(4);
        for (n, deadline_ns) in [Request::NEVER, 200, 100, 300].into_iter().enumerate() {
            queue.push(n, Request { deadline_ns, ..Request::plain() });
        }
        let mut overdue = |now_ns| {
            let mut taken = queue.waiters.take_overdue(now_ns);
            std::iter::from_fn(|| queue.number(taken.pop_front())).collect::<Vec<_>>()
        };
        assert!(overdue(99).is_empty());
        assert_eq!(overdue(100), [2]);
        assert_eq!(overdue(350), [1, 3]);
        assert!(overdue(u64::MAX - 1).is_empty());
    }

    /// Sessions that come back at once get about as much time as each other, however long their slices are.
    #[test]
    #[cfg_attr(miri, ignore = "it shows arithmetic, and takes minutes there")]
    fn long_slices_are_paid_for_in_rounds() {
        // Ten with slices of 5 ms, one with 40 and two with 100.
        let lengths: Vec<u64> =
            (0..13).map(|n| [5, 40, 100][usize::from(n > 9) + usize::from(n > 10)]).collect();
        let mut queue = Queue::new(lengths.len());
        (0..lengths.len()).for_each(|node| queue.join(node, 0));
        let mut time = vec![0; lengths.len()];
        for slot in 0..20_000 {
            let next = queue.pop(0).unwrap();
            // Some of the short ones are twice as long.
            let slice_ns = lengths[next] * MS * if next < 10 && slot % 5 == 0 { 2 } else { 1 };
            time[next] += slice_ns;
            queue.join(next, slice_ns);
        }
        let short = time[..10].iter().sum::<u64>() / 10;
        assert!(time[10..].iter().all(|long| (short / 2..=short * 3).contains(long)), "{time:?}");
    }

    #[test]
    fn waiters_without_a_deficit_keep_their_order() {
        let mut queue = Queue::new(60);
        queue.waiters.averages = Averages::of(5e6, 5e6);
        (0..60).for_each(|node| queue.join(node, if node % 3 == 0 { 500 * MS } else { 5 * MS }));
        let served: Vec<_> = (0..40).map(|_| queue.pop(0).unwrap()).collect();
        assert!(served.iter().all(|node| node % 3 != 0));
        assert!(served.is_sorted());
    }

    /// Also if they are one more than are passed over at a time, and come back.
    #[test]
    #[cfg_attr(miri, ignore = "it shows arithmetic, and takes minutes there")]
    fn where_all_have_a_deficit_they_are_served_in_order() {
        for others in [1, 2, PASSED_OVER_MAX - 1, PASSED_OVER_MAX, PASSED_OVER_MAX + 1, 400] {
            let mut queue = Queue::new(others + 1);
            queue.waiters.averages = Averages::of(1e5, 0.0);
            let mut served = vec![0; others + 1];
            (0..others).for_each(|node| queue.join(node, 1 << 50));
            let mut away = others;
            for _ in 0..served.len() * 50 {
                let next = queue.pop(0).unwrap();
                served[next] += 1;
                queue.join(away, 1 << 50);
                away = next;
            }
            assert!(served.iter().all(|times| (40..=60).contains(times)), "{others}: {served:?}");
        }
    }

    /// Sessions that were away as long as their slice have no deficit, but their slices are what is usual.
    #[test]
    fn slices_without_a_deficit_teach_what_is_usual() {
        let mut queue = Queue::new(2);
        for _ in 0..1000 {
            let charge = Charge { slice_ns: MS, ..Charge::default() };
            queue.push(0, Request { charge, ..Request::plain() });
            queue.pop(0);
        }
        queue.join(0, 60 * MS);
        queue.join(1, MS);
        assert_eq!(queue.pop(0), Some(1));
    }

    /// Twenty with a deficit, as many without: each deficit counts against all of these.
    #[test]
    #[cfg_attr(miri, ignore = "it shows arithmetic, and takes minutes there")]
    fn many_deficits_are_paid_as_one_is() {
        let mut queue = Queue::new(40);
        queue.waiters.averages = Averages::of(5e6, 5e6);
        let slice_ns = |node| if node % 2 == 0 { 60 * MS } else { 5 * MS };
        (0..40).for_each(|node| queue.join(node, slice_ns(node)));
        let mut time = [0; 2];
        for _ in 0..20_000 {
            let next = queue.pop(0).unwrap();
            time[next % 2] += slice_ns(next);
            queue.join(next, slice_ns(next));
        }
        assert!(time[0] < 3 * time[1] && time[1] < 3 * time[0], "{time:?}");
    }
}
