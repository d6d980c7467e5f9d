//! Turns by time: who took far more of the processor than others lets them pass.
//!
//! A statement cannot be interrupted, so a turn takes what it takes, and in a plain round robin those with long statements have
//! the processors. So this is deficit round robin (Shreedhar and Varghese, 1995): one that comes to the head of the queue, and owes
//! ([`crate::deficit`]), goes to the tail instead, and owes a round less: what a turn takes on average. That, and what is usual, the queue
//! learns from those who come, whether they owe or not.
//!
//! Those who owe nothing keep their order. While all owe, or many at the head do, they are served in order. Who has waited for [`PASSED_FOR_NS`], a third of
//! its time until its deadline, or tau, is passed over no more.
//!
//! Everything here happens under the queue's lock.

use std::sync::Arc;

use crate::deficit::FREE_NS;
use crate::queue::{List, Node, Request};

/// Nobody owes for as little as so many usual turns.
const FREE_TURNS: u64 = 4;
/// The average turn is one of so many.
const AVERAGED: f64 = 64.0;
/// Else who asks for a little after a report of an hour would wait for an hour, ns.
const PASSED_FOR_NS: u64 = 2_000_000_000;
/// While so many stand at the head and owe, they are served in order: the lock is held while they are looked at.
pub(crate) const PASSED_OVER_MAX: usize = 256;
/// The usual turn grows by this part of itself with each turn that was longer, and shrinks by three times as much with each that was
/// shorter: so it rests where one in four is shorter.
const STEP: f64 = 1.0 / 64.0;

/// A time at which nobody is passed over.
pub(crate) const NEVER_PASSES: u64 = u64::MAX;

/// What is usual, and so who owes.
#[derive(Debug)]
pub(crate) struct Debts {
    /// One turn in four is shorter, ns; 0 until a turn is known.
    usual_ns: f64,
    /// The average of turns, of which long ones count as the shortest for which one owes, ns.
    round_ns: f64,
    /// So many have joined the queue and owed.
    pub(crate) owing: u64,
}

impl Debts {
    pub(crate) fn new() -> Self {
        Debts { usual_ns: 0.0, round_ns: 0.0, owing: 0 }
    }

    /// One joins the queue: what its turn took is learnt, and whether it is passed over for what it owes, and until when, noted.
    pub(crate) fn note(&mut self, request: &mut Request, tau_ns: u64) {
        if request.turn_ns != 0 {
            self.learn(request.turn_ns);
        }
        if request.owed_ns == 0 || request.owed_ns.max(request.turn_ns) <= self.free_ns() {
            request.owed_ns = 0;
            return;
        }
        // One turn is everybody's.
        request.owed_ns = request.owed_ns.saturating_sub(self.round_ns());
        self.owing += u64::from(request.owed_ns != 0);
        let patience_ns = request.deadline_ns.saturating_sub(request.queued_at_ns) / 3;
        let passed_for_ns = PASSED_FOR_NS.min(patience_ns).min(tau_ns);
        request.passed_until_ns = request.queued_at_ns.saturating_add(passed_for_ns);
    }

    fn learn(&mut self, turn_ns: u64) {
        let turn = turn_ns as f64;
        self.usual_ns = match self.usual_ns {
            0.0 => turn,
            usual if turn < usual => usual * (1.0 - 3.0 * STEP),
            usual => usual * (1.0 + STEP),
        };
        let counts = turn.min(self.free_ns() as f64);
        self.round_ns = match self.round_ns {
            0.0 => counts,
            round => round + (counts - round) / AVERAGED,
        };
    }

    fn free_ns(&self) -> u64 {
        FREE_NS.max(FREE_TURNS.saturating_mul(self.usual_ns as u64))
    }

    /// What one pays by letting a round pass, ns; at least 1.
    pub(crate) fn round_ns(&self) -> u64 {
        (self.round_ns as u64).max(1)
    }

    /// Takes the next of those who wait in order.
    pub(crate) fn pop_front(&self, list: &mut List, now_ns: u64) -> Option<Arc<Node>> {
        // SAFETY: the caller holds the queue's lock, which guards the requests.
        let owes = |node: &&Node| unsafe { node.request() }.is_some_and(|request| request.owes(now_ns));
        let debtors = list.iter().take(PASSED_OVER_MAX).take_while(owes).count();
        let others_follow = debtors < PASSED_OVER_MAX && list.iter().nth(debtors).is_some();
        // Else nobody is there to pass, or too far away.
        for _ in 0..if others_follow { debtors } else { 0 } {
            let debtor = list.pop_front()?;
            // SAFETY: as above.
            if let Some(request) = unsafe { debtor.request() } {
                let owed_ns = request.owed_ns.saturating_sub(self.round_ns());
                // SAFETY: as above.
                unsafe { debtor.set_request(Some(Request { owed_ns, ..request })) };
            }
            list.push_back(debtor);
        }
        list.pop_front()
    }
}

impl Request {
    /// Whether others go before it now.
    fn owes(&self, now_ns: u64) -> bool {
        self.owed_ns != 0 && now_ns < self.passed_until_ns
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A queue of which the nodes have numbers.
    struct Queue {
        debts: Debts,
        nodes: Vec<Arc<Node>>,
        list: List,
    }

    impl Queue {
        fn new(nodes: usize) -> Self {
            let nodes = (0..nodes).map(|_| Node::new()).collect();
            Queue { debts: Debts::new(), nodes, list: List::new() }
        }

        fn join(&mut self, node: usize, turn_ns: u64) {
            self.join_until(node, turn_ns, (Request::NEVER, u64::MAX));
        }

        fn join_until(&mut self, node: usize, turn_ns: u64, (deadline_ns, tau_ns): (u64, u64)) {
            let mut request = Request { turn_ns, owed_ns: turn_ns, deadline_ns, ..Request::of_nobody() };
            self.debts.note(&mut request, tau_ns);
            // SAFETY: nobody else has the list.
            unsafe { self.nodes[node].set_request(Some(request)) };
            self.list.push_back(Arc::clone(&self.nodes[node]));
        }

        fn next(&mut self, now_ns: u64) -> usize {
            let next = self.debts.pop_front(&mut self.list, now_ns).expect("somebody waits");
            self.nodes.iter().position(|node| Arc::ptr_eq(node, &next)).unwrap()
        }
    }

    /// Who comes back at once, each time after a turn of its own length, gets about as much time as the others.
    #[test]
    #[cfg_attr(miri, ignore = "it shows arithmetic, and takes minutes there")]
    fn long_turns_are_paid_for_in_rounds() {
        // Ten with turns of 5 ms, one with 40 and two with 100.
        let lengths: Vec<u64> =
            (0..13).map(|n| [5, 40, 100][usize::from(n > 9) + usize::from(n > 10)]).collect();
        let mut queue = Queue::new(lengths.len());
        (0..lengths.len()).for_each(|node| queue.join(node, 0));
        let mut time = vec![0; lengths.len()];
        for place in 0..20_000 {
            let next = queue.next(0);
            // Some of the short ones are twice as long.
            let turn_ns = lengths[next] * MS * if next < 10 && place % 5 == 0 { 2 } else { 1 };
            time[next] += turn_ns;
            queue.join(next, turn_ns);
        }
        let short = time[..10].iter().sum::<u64>() / 10;
        assert!(time[10..].iter().all(|long| (short / 2..=short * 3).contains(long)), "{time:?}");
    }

    #[test]
    fn who_owes_nothing_keeps_its_order() {
        let mut queue = Queue::new(60);
        queue.debts.usual_ns = 5e6;
        queue.debts.round_ns = 5e6;
        (0..60).for_each(|node| queue.join(node, if node % 3 == 0 { 500 * MS } else { 5 * MS }));
        let served: Vec<_> = (0..40).map(|_| queue.next(0)).collect();
        assert!(served.iter().all(|node| node % 3 != 0));
        assert!(served.is_sorted());
    }

    /// Also if they are one more than are passed over at a time, and come back.
    #[test]
    #[cfg_attr(miri, ignore = "it shows arithmetic, and takes minutes there")]
    fn where_all_owe_they_are_served_in_order() {
        for others in [1, 2, PASSED_OVER_MAX - 1, PASSED_OVER_MAX, PASSED_OVER_MAX + 1, 400] {
            let mut queue = Queue::new(others + 1);
            queue.debts.usual_ns = 1e5;
            let mut served = vec![0; others + 1];
            (0..others).for_each(|node| queue.join(node, 1 << 50));
            let mut away = others;
            for _ in 0..served.len() * 50 {
                let next = queue.next(0);
                served[next] += 1;
                queue.join(away, 1 << 50);
                away = next;
            }
            assert!(served.iter().all(|times| (40..=60).contains(times)), "{others}: {served:?}");
        }
    }

    #[test]
    fn nobody_is_passed_over_for_long() {
        const S: u64 = 1000 * MS;
        for (deadline_ns, tau_ns, until_ns) in
            [(Request::NEVER, u64::MAX, 2 * S), (3 * S, u64::MAX, S), (Request::NEVER, 50 * MS, 50 * MS)]
        {
            for (now_ns, first) in [(until_ns - 1, 1), (until_ns, 0)] {
                let mut queue = Queue::new(2);
                queue.debts.usual_ns = 1e5;
                queue.join_until(0, 1 << 50, (deadline_ns, tau_ns));
                queue.join(1, 0);
                assert_eq!(queue.next(now_ns), first, "{now_ns} of {until_ns}");
            }
        }
    }

    /// Those who were away as long as they took owe nothing, but what they took is what is usual.
    #[test]
    fn who_owes_nothing_teaches_what_is_usual() {
        let mut queue = Queue::new(2);
        for _ in 0..1000 {
            let mut request = Request { turn_ns: MS, ..Request::of_nobody() };
            queue.debts.note(&mut request, u64::MAX);
        }
        queue.join(0, 60 * MS);
        queue.join(1, MS);
        assert_eq!(queue.next(0), 1);
    }

    /// Twenty owe, as many do not: each debt is one to all of these.
    #[test]
    #[cfg_attr(miri, ignore = "it shows arithmetic, and takes minutes there")]
    fn many_debtors_pay_as_one_does() {
        let mut queue = Queue::new(40);
        queue.debts.usual_ns = 5e6;
        queue.debts.round_ns = 5e6;
        let turn_ns = |node| if node % 2 == 0 { 60 * MS } else { 5 * MS };
        (0..40).for_each(|node| queue.join(node, turn_ns(node)));
        let mut time = [0; 2];
        for _ in 0..20_000 {
            let next = queue.next(0);
            time[next % 2] += turn_ns(next);
            queue.join(next, turn_ns(next));
        }
        assert!(time[0] < 3 * time[1] && time[1] < 3 * time[0], "{time:?}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "it shows arithmetic, and takes minutes there")]
    fn a_usual_turn_is_found_from_anywhere() {
        for start_ns in [1.0, 1e3, 1e9, 1e13] {
            let mut queue = Queue::new(1);
            queue.debts.usual_ns = start_ns;
            for turn in 0..4000 {
                queue.join(0, if turn % 2 == 0 { 3 * MS } else { 80 * MS });
                queue.next(NEVER_PASSES);
            }
            assert!((2e6..4e6).contains(&queue.debts.usual_ns), "{}", queue.debts.usual_ns);
            // Of 3 ms, and of what 80 count as: four times 3.
            assert!((6e6..9e6).contains(&queue.debts.round_ns), "{}", queue.debts.round_ns);
        }
    }
}
