//! One thread takes random steps on the gate and on [`Plain`], and compares everything that can be seen: T, P, Q, L, congestion, which
//! thread enters, which are woken in which order and with what.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::plain::{Id, Joined, Plain, Verdict, Woken};
use crate::config::Policy;
use crate::extra::percpu::Slots;
use crate::gate::queue::{List, Node, Request};
use crate::gate::waiters::End;
use crate::gate::word::Caller;
use crate::gate::{self, Counts, Gate, Leaver, Wake};
use crate::quantum::fairness::Charge;
use crate::sync::Ordering;

const CLIENTS: usize = 12;
/// Statements in a time slice.
const QUANTUM: u32 = 2;

/// A step. `who` chooses among those that can take it, so that most steps do something.
#[derive(Debug, Clone)]
enum Step {
    Enter { who: usize, patience_ns: u64, slice_ns: u64 },
    Force { who: usize },
    Run { who: usize },
    Exit { who: usize, may_keep: bool },
    MayStay,
    Withdraw { who: usize },
    Cancel { who: usize },
    BeginLockWait { who: usize },
    EndLockWait { who: usize },
    SetFirst { who: usize, first: bool },
    TimePasses { ns: u64 },
    RefuseOverdue,
    BreakStall,
    SetLimit { limit: u32 },
    SetPolicy { policy: Policy },
    SetQueueLimit { queue_limit: u32 },
    SetPromoteAfter { promote_after_ns: u64 },
    SetLockWaitersMax { lock_waiters_max: u32 },
}

fn policy() -> impl Strategy<Value = Policy> {
    prop::sample::select(&Policy::ALL[..])
}

fn time() -> impl Strategy<Value = u64> {
    prop_oneof![Just(u64::MAX), 0..50u64]
}

/// The CPU time of a slice: mostly a little.
fn slice() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0), 4 => 5..10u64, 1 => 0..100u64].prop_map(|ms| ms * 1_000_000)
}

/// Small ones, and one above the CPUs.
fn limit() -> impl Strategy<Value = u32> {
    prop_oneof![5 => 0..5u32, 1 => Just(8)]
}

fn step() -> impl Strategy<Value = Step> {
    let who = || 0..CLIENTS;
    prop_oneof![
        14 => (who(), prop_oneof![3 => Just(u64::MAX), 1 => 0..100u64], slice())
            .prop_map(|(who, patience_ns, slice_ns)| Step::Enter { who, patience_ns, slice_ns }),
        1 => who().prop_map(|who| Step::Force { who }),
        10 => who().prop_map(|who| Step::Run { who }),
        10 => (who(), any::<bool>()).prop_map(|(who, may_keep)| Step::Exit { who, may_keep }),
        1 => Just(Step::MayStay),
        1 => who().prop_map(|who| Step::Withdraw { who }),
        1 => who().prop_map(|who| Step::Cancel { who }),
        2 => who().prop_map(|who| Step::BeginLockWait { who }),
        2 => who().prop_map(|who| Step::EndLockWait { who }),
        1 => (who(), any::<bool>()).prop_map(|(who, first)| Step::SetFirst { who, first }),
        3 => (0..40u64).prop_map(|ns| Step::TimePasses { ns }),
        1 => Just(Step::RefuseOverdue),
        1 => Just(Step::BreakStall),
        2 => limit().prop_map(|limit| Step::SetLimit { limit }),
        1 => policy().prop_map(|policy| Step::SetPolicy { policy }),
        1 => (0..5u32).prop_map(|queue_limit| Step::SetQueueLimit { queue_limit }),
        1 => time().prop_map(|promote_after_ns| Step::SetPromoteAfter { promote_after_ns }),
        1 => (0..3u32).prop_map(|lock_waiters_max| Step::SetLockWaitersMax { lock_waiters_max }),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    Outside,
    Queued,
    Woken(Verdict),
    Running,
    InLockWait,
}

struct Client {
    node: Arc<Node>,
    at: Where,
    first: bool,
    request: Request,
    quantum_left: u32,
}

impl Client {
    fn caller(&self) -> Caller {
        Caller { may_barge: self.quantum_left != 0, first: self.first }
    }
}

/// The two that are compared, and their clients.
struct World {
    gate: Gate,
    slots: Slots,
    plain: Plain,
    clients: Vec<Client>,
    now_ns: u64,
    queue_limit: u32,
    cpus: u32,
}

type Checked = Result<(), TestCaseError>;

impl World {
    fn new(policy: Policy, limit: u32, cpus: u32) -> Self {
        let client = |_| Client {
            node: Node::new(),
            at: Where::Outside,
            first: false,
            request: Request::plain(),
            quantum_left: 0,
        };
        World {
            gate: Gate::new(policy, limit, cpus),
            slots: Slots::new(cpus),
            plain: Plain::new(policy, limit, cpus),
            clients: (0..CLIENTS).map(client).collect(),
            now_ns: 0,
            queue_limit: 0,
            cpus,
        }
    }

    fn cpu_of(&self, id: Id) -> usize {
        id % self.cpus as usize
    }

    /// Client number `who` (modulo their number) of the clients for which `is_so` holds.
    fn find(&self, who: usize, is_so: impl Fn(&Client) -> bool) -> Option<Id> {
        let those: Vec<Id> = (0..CLIENTS).filter(|&id| is_so(&self.clients[id])).collect();
        (!those.is_empty()).then(|| those[who % those.len()])
    }

    fn find_at(&self, who: usize, at: Where) -> Option<Id> {
        self.find(who, |client| client.at == at)
    }

    fn take(&mut self, step: &Step) -> Checked {
        match *step {
            Step::Enter { who, patience_ns, slice_ns } => {
                let Some(id) = self.find_at(who, Where::Outside) else { return Ok(()) };
                self.acquire(id, patience_ns, slice_ns)?;
            }
            Step::Force { who } => {
                let Some(id) = self.find_at(who, Where::Outside) else { return Ok(()) };
                self.gate.enter_forced();
                self.plain.force();
                self.clients[id].at = Where::Running;
            }
            Step::Run { who } => {
                let woken = |client: &Client| matches!(client.at, Where::Woken(_));
                let Some(id) = self.find(who, woken) else { return Ok(()) };
                self.run(id)?;
            }
            Step::Exit { who, may_keep } => {
                let Some(id) = self.find_at(who, Where::Running) else { return Ok(()) };
                if !may_keep || !self.keep(id)? {
                    self.exit(id)?;
                }
            }
            Step::MayStay => prop_assert_eq!(self.gate.may_stay(), self.plain.may_stay()),
            Step::Withdraw { who } => {
                prop_assert_eq!(self.gate.withdraw(&self.clients[who].node), self.plain.withdraw(who));
                if self.clients[who].at == Where::Queued {
                    self.clients[who].at = Where::Outside;
                }
            }
            Step::Cancel { who } => self.cancel(who)?,
            Step::BeginLockWait { who } => {
                let Some(id) = self.find_at(who, Where::Running) else { return Ok(()) };
                let wake = self.gate.count_lock_wait(true, self.now_ns);
                let expected = self.plain.count_lock_wait(true, self.now_ns);
                self.notify(wake, &expected)?;
                self.exit(id)?;
                self.clients[id].at = Where::InLockWait;
            }
            Step::EndLockWait { who } => {
                let Some(id) = self.find_at(who, Where::InLockWait) else { return Ok(()) };
                let wake = self.gate.count_lock_wait(false, self.now_ns);
                let expected = self.plain.count_lock_wait(false, self.now_ns);
                self.notify(wake, &expected)?;
                self.gate.enter_forced();
                self.plain.force();
                self.clients[id].at = Where::Running;
            }
            Step::SetFirst { who, first } => self.clients[who].first = first,
            Step::TimePasses { ns } => self.now_ns += ns,
            Step::RefuseOverdue => {
                let overdue = self.gate.withdraw_overdue(self.now_ns);
                let expected = self.plain.withdraw_overdue(self.now_ns);
                self.compare(overdue, Verdict::TimedOut, &expected)?;
            }
            Step::BreakStall => {
                let wake = self.gate.break_stall(self.now_ns);
                let expected = self.plain.break_stall(self.now_ns);
                self.notify(wake, &expected)?;
            }
            Step::SetLimit { limit } => self.set_rule(self.plain.policy, limit)?,
            Step::SetPolicy { policy } => self.set_rule(policy, self.plain.limit)?,
            Step::SetQueueLimit { queue_limit } => self.queue_limit = queue_limit,
            Step::SetPromoteAfter { promote_after_ns } => {
                self.set_bounds(|plain| plain.promote_after_ns = promote_after_ns)?;
            }
            Step::SetLockWaitersMax { lock_waiters_max } => {
                self.set_bounds(|plain| plain.lock_waiters_max = lock_waiters_max)?;
            }
        }
        self.check()
    }

    /// Enters at once, or joins the queue.
    fn acquire(&mut self, id: Id, patience_ns: u64, slice_ns: u64) -> Checked {
        // Some were away for as long as their slice.
        let deficit_ns = if slice_ns.is_multiple_of(2_000_000) { slice_ns } else { 0 };
        self.clients[id].request = Request {
            first: self.clients[id].caller().first,
            queued_at_ns: self.now_ns,
            deadline_ns: self.now_ns.saturating_add(patience_ns),
            charge: Charge { slice_ns, deficit_ns, passed_until_ns: 0 },
        };
        if !self.enter(id)? {
            self.join(id, End::Back, self.queue_limit)?;
        }
        Ok(())
    }

    /// Enters if it may.
    fn enter(&mut self, id: Id) -> Result<bool, TestCaseError> {
        let (caller, cpu) = (self.clients[id].caller(), self.cpu_of(id));
        let kept = self.slots.take(&self.gate, cpu, caller).is_some();
        prop_assert_eq!(kept, self.plain.take_kept(cpu, caller), "the CPU's own");
        let free = !kept && self.gate.try_enter(self.gate.word(), caller).is_some();
        prop_assert_eq!(free, !kept && self.plain.enter(caller), "a free one");
        let any = !(kept || free) && self.slots.take_any(&self.gate, caller).is_some();
        prop_assert_eq!(any, !(kept || free) && self.plain.take_any_kept(caller), "any CPU's");
        if kept || free || any {
            self.on_entered(id);
        }
        Ok(kept || free || any)
    }

    fn on_entered(&mut self, id: Id) {
        self.clients[id].at = Where::Running;
        if self.plain.queued() == 0 {
            self.clients[id].quantum_left = QUANTUM;
        }
    }

    fn join(&mut self, id: Id, end: End, queue_limit: u32) -> Checked {
        let client = &mut self.clients[id];
        let caller = client.caller();
        // As a session does: its class may have changed since it joined first.
        let request = Request { first: caller.first, ..client.request };
        let cancelled = client.node.cancelled.load(Ordering::Relaxed);
        let (joined, wake) = self.gate.join(&client.node, request, (caller, end), queue_limit);
        let joined = match joined {
            gate::Joined::Entered(..) => Joined::Entered,
            gate::Joined::Queued(_) => Joined::Queued,
            gate::Joined::Full => Joined::Full,
            gate::Joined::Cancelled => Joined::Cancelled,
        };
        let (expected, woken) = self.plain.join(id, request, (caller, end), queue_limit, cancelled);
        prop_assert_eq!(joined, expected);
        match joined {
            Joined::Entered => self.on_entered(id),
            Joined::Queued => self.clients[id].at = Where::Queued,
            Joined::Full | Joined::Cancelled => {
                self.clients[id].at = Where::Outside;
                self.clients[id].node.cancelled.store(false, Ordering::Relaxed);
            }
        }
        self.notify(wake, &woken)?;
        if joined == Joined::Queued {
            self.give_back_kept()?;
        }
        Ok(())
    }

    /// As a session does that has joined the queue.
    fn give_back_kept(&mut self) -> Checked {
        let any = self.slots.give_back(&self.gate);
        prop_assert_eq!(any, self.plain.kept() != 0);
        if any {
            let wake = self.gate.serve(self.now_ns);
            let expected = self.plain.give_back_kept(self.now_ns);
            self.notify(wake, &expected)?;
        }
        Ok(())
    }

    fn cancel(&mut self, who: usize) -> Checked {
        let client = &mut self.clients[who];
        client.node.cancelled.store(true, Ordering::Relaxed);
        let withdrawn = self.gate.withdraw_cancelled(&client.node);
        prop_assert_eq!(withdrawn, self.plain.withdraw(who));
        if withdrawn {
            client.at = Where::Outside;
            client.node.cancelled.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// A woken client runs.
    fn run(&mut self, id: Id) -> Checked {
        let Where::Woken(verdict) = self.clients[id].at else { unreachable!("only those are asked to run") };
        match verdict {
            Verdict::TimedOut => {
                self.clients[id].at = Where::Outside;
                return Ok(());
            }
            Verdict::Granted => {
                self.gate.start();
                self.plain.start();
            }
            Verdict::Retry if !self.enter(id)? => return self.join(id, End::Back, 0),
            Verdict::Retry => {}
        }
        self.clients[id].at = Where::Running;
        self.clients[id].quantum_left = QUANTUM;
        if self.clients[id].node.cancelled.swap(false, Ordering::Relaxed) {
            self.clients[id].quantum_left = 0;
            return self.exit(id);
        }
        Ok(())
    }

    /// Leaves its slot with its CPU, if that is possible.
    fn keep(&mut self, id: Id) -> Result<bool, TestCaseError> {
        let keeps = self.slots.keep(&self.gate, self.cpu_of(id)).is_some();
        prop_assert_eq!(keeps, self.plain.keep(self.cpu_of(id)));
        if keeps {
            self.clients[id].at = Where::Outside;
        }
        Ok(keeps)
    }

    fn exit(&mut self, id: Id) -> Checked {
        self.clients[id].at = Where::Outside;
        // As a session does: only exits while somebody queues use the quantum.
        if self.gate.try_exit(self.gate.word()).is_some() {
            let woken = self.plain.exit(Leaver { in_slice: true, holds_locks: false }, self.now_ns);
            prop_assert_eq!(woken, vec![], "somebody was to be woken");
            return Ok(());
        }
        let left = self.clients[id].quantum_left.saturating_sub(1);
        self.clients[id].quantum_left = left;
        let now_ns = self.now_ns;
        let leaver = Leaver { in_slice: left != 0, holds_locks: self.clients[id].first };
        let (wake, _) = self.gate.exit_and_wake(leaver, &|| now_ns);
        let expected = self.plain.exit(leaver, now_ns);
        self.notify(wake, &expected)
    }

    fn set_rule(&mut self, policy: Policy, limit: u32) -> Checked {
        let wake = self.gate.set_rule(policy, limit, self.now_ns);
        let expected = self.plain.set_rule(policy, limit, self.now_ns);
        self.notify(wake, &expected)
    }

    fn set_bounds(&mut self, set: impl FnOnce(&mut Plain)) -> Checked {
        set(&mut self.plain);
        let Plain { promote_after_ns, lock_waiters_max, .. } = self.plain;
        let wake = self.gate.set_bounds(promote_after_ns, lock_waiters_max, self.now_ns);
        let expected = self.plain.update_congestion(self.now_ns);
        self.notify(wake, &expected)
    }

    /// Notifies those that the gate wakes; they must be those of the model, in its order.
    fn notify(&mut self, wake: Wake, expected: &Woken) -> Checked {
        match wake {
            Wake::Nobody => prop_assert_eq!(expected, &vec![], "nobody was woken"),
            Wake::Granted(list) => self.compare(list, Verdict::Granted, expected)?,
            Wake::Retry(list) => self.compare(list, Verdict::Retry, expected)?,
        }
        Ok(())
    }

    fn compare(&mut self, mut list: List, verdict: Verdict, expected: &Woken) -> Checked {
        let mut got = vec![];
        while let Some(node) = list.pop_front() {
            let id = self.clients.iter().position(|client| Arc::ptr_eq(&client.node, &node)).unwrap();
            prop_assert_eq!(self.clients[id].at, Where::Queued);
            self.clients[id].at = Where::Woken(verdict);
            got.push((id, verdict));
        }
        prop_assert_eq!(&got, expected);
        Ok(())
    }

    fn check(&self) -> Checked {
        let (word, plain) = (self.gate.word(), &self.plain);
        let count =
            |is_so: fn(&Client) -> bool| self.clients.iter().filter(|client| is_so(client)).count() as u32;
        let got = (word.slots(), word.pending(), word.queued());
        prop_assert_eq!(got, (plain.slots, plain.pending, plain.queued()), "T, P, Q");
        let pending = count(|client| client.at == Where::Woken(Verdict::Granted));
        let holders = count(|client| client.at == Where::Running) + pending;
        prop_assert_eq!(self.slots.count(), plain.kept());
        let queued = count(|client| client.at == Where::Queued);
        prop_assert_eq!(got, (holders + plain.kept(), pending, queued), "T, P, Q");
        prop_assert_eq!((word.policy(), word.limit()), (plain.policy, plain.limit));
        prop_assert_eq!(word.is_congested(), plain.congested);
        prop_assert_eq!(self.gate.first_waits(), plain.has_first());
        let expected = Counts {
            promoted: plain.promoted,
            with_deficit: plain.averages.with_deficit,
            lock_waiters: plain.lock_waiters,
        };
        prop_assert_eq!(self.gate.counts(), expected);
        if count(|client| matches!(client.at, Where::Woken(_))) == 0 {
            prop_assert_eq!(plain.wrong_at_rest(), None);
        }
        Ok(())
    }

    /// All running clients exit and all woken clients run, but no exit ends a slice: every queued client enters all the same.
    fn drain(&mut self) -> Checked {
        for left in (0..10_000).rev() {
            prop_assert_ne!(left, 0, "they are woken again and again");
            // Not always the same client: each woken client runs before long.
            if let Some(id) = self.find(left, |client| matches!(client.at, Where::Woken(_))) {
                self.run(id)?;
            } else if let Some(id) = self.find_at(0, Where::Running) {
                self.clients[id].quantum_left = QUANTUM;
                self.exit(id)?;
            } else if self.find_at(0, Where::InLockWait).is_some() && self.plain.queued() == 0 {
                self.take(&Step::EndLockWait { who: 0 })?;
            } else {
                break;
            }
            self.check()?;
        }
        prop_assert_eq!(self.gate.word().queued(), 0, "somebody waits forever");
        let end = self.gate.word();
        prop_assert_eq!((end.slots() - self.slots.count(), end.pending()), (0, 0));
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        // PROPTEST_CASES asks for more.
        cases: if cfg!(miri) { 5 } else { ProptestConfig::default().cases.max(600) },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_gate_does_what_the_plain_model_does(
        policy in policy(),
        limit in limit(),
        // Of four, congestion leaves two slots to newcomers.
        cpus in prop::sample::select(&[2, 4][..]),
        steps in vec(step(), 1..if cfg!(miri) { 40 } else { 150 }),
    ) {
        let mut world = World::new(policy, limit, cpus);
        for step in &steps {
            world.take(step)?;
        }
        world.drain()?;
    }
}
