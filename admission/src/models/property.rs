//! One thread takes random steps on the core and on [`Plain`], and compares everything that can be seen:
//! T, P, Q, L, the flags, who enters, who is woken in which order and with what.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::plain::{Id, Joined, Plain, Tellings, Told};
use crate::Policy;
use crate::core::{self, Core, Counts, Terms, Wake};
use crate::queue::{List, Node, Request};
use crate::rule::End;
use crate::rule::Leaver;
use crate::state::{Caller, State};
use crate::sync::Ordering;

const CLIENTS: usize = 12;
/// Statements in a quantum.
const QUANTUM: u32 = 2;

/// A step. `who` chooses among those who can take it, so that most steps do something.
#[derive(Debug, Clone)]
enum Step {
    Enter { who: usize, patience_ns: u64, turn_ns: u64 },
    ReturnFromWait { who: usize },
    Force { who: usize },
    EnterBelow { who: usize, places: u32 },
    Run { who: usize },
    Exit { who: usize, lease_over: bool, may_keep: bool },
    MayStay,
    Withdraw { who: usize },
    Cancel { who: usize },
    BeginLockWait { who: usize },
    EndLockWait { who: usize },
    SetFirst { who: usize, first: bool },
    SetTenant { who: usize, tenant: u32 },
    AddTenant { weight: f64 },
    TimePasses { ns: u64 },
    RefuseOverdue,
    CloseGate,
    OfferKept,
    BreakStall,
    SetLimit { limit: u32 },
    SetPolicy { policy: Policy },
    SetQueueLimit { queue_limit: u32 },
    SetTau { tau_ns: u64 },
    SetPromoteAfter { promote_after_ns: u64 },
    SetLockWaitersMax { lock_waiters_max: u32 },
}

fn policy() -> impl Strategy<Value = Policy> {
    prop::sample::select(&Policy::ALL[..])
}

fn time() -> impl Strategy<Value = u64> {
    prop_oneof![Just(u64::MAX), 0..50u64]
}

/// What a turn took: mostly a little.
fn turn() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0), 4 => 5..10u64, 1 => 0..100u64].prop_map(|ms| ms * 1_000_000)
}

/// Small ones, and one above the processors.
fn limit() -> impl Strategy<Value = u32> {
    prop_oneof![5 => 0..5u32, 1 => Just(8)]
}

fn step() -> impl Strategy<Value = Step> {
    let who = || 0..CLIENTS;
    prop_oneof![
        14 => (who(), prop_oneof![3 => Just(u64::MAX), 1 => 0..100u64], turn())
            .prop_map(|(who, patience_ns, turn_ns)| Step::Enter { who, patience_ns, turn_ns }),
        1 => who().prop_map(|who| Step::ReturnFromWait { who }),
        1 => who().prop_map(|who| Step::Force { who }),
        2 => (who(), 0..8u32).prop_map(|(who, places)| Step::EnterBelow { who, places }),
        10 => who().prop_map(|who| Step::Run { who }),
        10 => (who(), any::<bool>(), any::<bool>())
            .prop_map(|(who, lease_over, may_keep)| Step::Exit { who, lease_over, may_keep }),
        1 => Just(Step::MayStay),
        1 => who().prop_map(|who| Step::Withdraw { who }),
        1 => who().prop_map(|who| Step::Cancel { who }),
        2 => who().prop_map(|who| Step::BeginLockWait { who }),
        2 => who().prop_map(|who| Step::EndLockWait { who }),
        1 => (who(), any::<bool>()).prop_map(|(who, first)| Step::SetFirst { who, first }),
        1 => (who(), 0..3u32).prop_map(|(who, tenant)| Step::SetTenant { who, tenant }),
        1 => prop::sample::select(&[0.5, 1.0, 3.0][..]).prop_map(|weight| Step::AddTenant { weight }),
        3 => (0..40u64).prop_map(|ns| Step::TimePasses { ns }),
        1 => Just(Step::RefuseOverdue),
        2 => Just(Step::CloseGate),
        1 => Just(Step::OfferKept),
        1 => Just(Step::BreakStall),
        2 => limit().prop_map(|limit| Step::SetLimit { limit }),
        1 => policy().prop_map(|policy| Step::SetPolicy { policy }),
        1 => (0..5u32).prop_map(|queue_limit| Step::SetQueueLimit { queue_limit }),
        1 => time().prop_map(|tau_ns| Step::SetTau { tau_ns }),
        1 => time().prop_map(|promote_after_ns| Step::SetPromoteAfter { promote_after_ns }),
        1 => (0..3u32).prop_map(|lock_waiters_max| Step::SetLockWaitersMax { lock_waiters_max }),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    Outside,
    Queued,
    Told(Told),
    Inside,
    InLockWait,
}

struct Client {
    node: Arc<Node>,
    at: Where,
    first: bool,
    /// It goes before those of the normal class in its present queueing.
    ahead: bool,
    tenant: u32,
    request: Request,
    quantum_left: u32,
}

impl Client {
    fn caller(&self) -> Caller {
        Caller { fresh: self.quantum_left != 0, first: self.first || self.ahead }
    }
}

/// The two that are compared, and those who use them.
struct World {
    core: Core,
    plain: Plain,
    clients: Vec<Client>,
    tenants: u32,
    now_ns: u64,
    queue_limit: u32,
    processors: u32,
}

type Checked = Result<(), TestCaseError>;

impl World {
    fn new(policy: Policy, limit: u32, processors: u32) -> Self {
        let request = Request::of_nobody();
        let client = |_| Client {
            node: Node::new(),
            at: Where::Outside,
            first: false,
            ahead: false,
            tenant: 0,
            request,
            quantum_left: 0,
        };
        World {
            core: Core::new(policy, limit, processors),
            plain: Plain::new(policy, limit, processors),
            clients: (0..CLIENTS).map(client).collect(),
            tenants: 1,
            now_ns: 0,
            queue_limit: 0,
            processors,
        }
    }

    fn processor_of(&self, id: Id) -> usize {
        id % self.processors as usize
    }

    /// The client numbered `who` among those that are so.
    fn find(&self, who: usize, is_so: impl Fn(&Client) -> bool) -> Option<Id> {
        let those: Vec<Id> = (0..CLIENTS).filter(|&id| is_so(&self.clients[id])).collect();
        (!those.is_empty()).then(|| those[who % those.len()])
    }

    fn find_at(&self, who: usize, at: Where) -> Option<Id> {
        self.find(who, |client| client.at == at)
    }

    fn take(&mut self, step: &Step) -> Checked {
        match *step {
            Step::Enter { who, patience_ns, turn_ns } => {
                let Some(id) = self.find_at(who, Where::Outside) else { return Ok(()) };
                self.ask(id, patience_ns, turn_ns, false)?;
            }
            Step::ReturnFromWait { who } => {
                let Some(id) = self.find_at(who, Where::Outside) else { return Ok(()) };
                self.ask(id, u64::MAX, 0, true)?;
            }
            Step::Force { who } => {
                let Some(id) = self.find_at(who, Where::Outside) else { return Ok(()) };
                self.core.enter_by_force();
                self.plain.force();
                self.clients[id].at = Where::Inside;
            }
            Step::EnterBelow { who, places } => {
                let Some(id) = self.find_at(who, Where::Outside) else { return Ok(()) };
                let enters = self.core.try_enter_below(places).is_some();
                prop_assert_eq!(enters, self.plain.enter_below(places));
                if enters {
                    self.is_running(id);
                }
            }
            Step::Run { who } => {
                let told = |client: &Client| matches!(client.at, Where::Told(_));
                let Some(id) = self.find(who, told) else { return Ok(()) };
                self.run(id)?;
            }
            Step::Exit { who, lease_over, may_keep } => {
                let Some(id) = self.find_at(who, Where::Inside) else { return Ok(()) };
                if !may_keep || !self.keep(id)? {
                    self.exit(id, lease_over)?;
                }
            }
            Step::MayStay => prop_assert_eq!(self.core.may_stay(), self.plain.may_stay()),
            Step::Withdraw { who } => {
                prop_assert_eq!(self.core.withdraw(&self.clients[who].node), self.plain.withdraw(who));
                if self.clients[who].at == Where::Queued {
                    self.clients[who].at = Where::Outside;
                }
            }
            Step::Cancel { who } => {
                let client = &mut self.clients[who];
                client.node.cancelled.store(true, Ordering::Relaxed);
                let withdrawn = self.core.withdraw_cancelled(&client.node);
                prop_assert_eq!(withdrawn, self.plain.withdraw(who));
                if withdrawn {
                    client.at = Where::Outside;
                    client.node.cancelled.store(false, Ordering::Relaxed);
                }
            }
            Step::BeginLockWait { who } => {
                let Some(id) = self.find_at(who, Where::Inside) else { return Ok(()) };
                let wake = self.core.lock_wait(true, self.now_ns);
                let told = self.plain.lock_wait(true, self.now_ns);
                self.tell(wake, &told)?;
                self.exit(id, false)?;
                self.clients[id].at = Where::InLockWait;
            }
            Step::EndLockWait { who } => {
                let Some(id) = self.find_at(who, Where::InLockWait) else { return Ok(()) };
                let wake = self.core.lock_wait(false, self.now_ns);
                let told = self.plain.lock_wait(false, self.now_ns);
                self.tell(wake, &told)?;
                self.core.enter_by_force();
                self.plain.force();
                self.clients[id].at = Where::Inside;
            }
            Step::SetFirst { who, first } => self.clients[who].first = first,
            Step::SetTenant { who, tenant } => self.clients[who].tenant = tenant.min(self.tenants - 1),
            Step::AddTenant { weight } => {
                prop_assert_eq!(self.core.add_tenant(weight), self.tenants);
                self.plain.add_tenant(weight);
                self.tenants += 1;
            }
            Step::TimePasses { ns } => self.now_ns += ns,
            Step::RefuseOverdue => {
                let overdue = self.core.withdraw_overdue(self.now_ns);
                let told = self.plain.withdraw_overdue(self.now_ns);
                self.compare(overdue, Told::TimedOut, &told)?;
            }
            Step::CloseGate => {
                self.plain.look_at_gate(self.now_ns, true);
                prop_assert_eq!(self.core.close_gate(self.now_ns), self.plain.closed);
            }
            Step::OfferKept => {
                let wake = self.core.offer_kept(self.core.state(), || self.now_ns);
                let told = self.plain.offer_kept(self.now_ns);
                self.tell(wake, &told)?;
            }
            Step::BreakStall => {
                let wake = self.core.break_stall(self.now_ns);
                let told = self.plain.break_stall(self.now_ns);
                self.tell(wake, &told)?;
            }
            Step::SetLimit { limit } => self.set_rule(self.plain.policy, limit)?,
            Step::SetPolicy { policy } => self.set_rule(policy, self.plain.limit)?,
            Step::SetQueueLimit { queue_limit } => self.queue_limit = queue_limit,
            Step::SetTau { tau_ns } => self.set_terms(|plain| plain.tau_ns = tau_ns)?,
            Step::SetPromoteAfter { promote_after_ns } => {
                self.set_terms(|plain| plain.promote_after_ns = promote_after_ns)?;
            }
            Step::SetLockWaitersMax { lock_waiters_max } => {
                self.set_terms(|plain| plain.lock_waiters_max = lock_waiters_max)?;
            }
        }
        self.check()
    }

    /// Enters at once, or joins the queue.
    fn ask(&mut self, id: Id, patience_ns: u64, turn_ns: u64, ahead: bool) -> Checked {
        self.clients[id].ahead = ahead;
        self.clients[id].request = Request {
            first: self.clients[id].caller().first,
            tenant: self.clients[id].tenant,
            queued_at_ns: self.now_ns,
            deadline_ns: self.now_ns.saturating_add(patience_ns),
            turn_ns,
            // Some were away for as long.
            owed_ns: if turn_ns.is_multiple_of(2_000_000) { turn_ns } else { 0 },
            passed_until_ns: 0,
        };
        if !self.enter(id)? {
            self.join(id, End::Back, self.queue_limit)?;
        }
        Ok(())
    }

    /// Enters if it may.
    fn enter(&mut self, id: Id) -> Result<bool, TestCaseError> {
        let caller = self.clients[id].caller();
        let kept = self.core.take_kept(self.processor_of(id), caller).is_some();
        prop_assert_eq!(kept, self.plain.take_kept(self.processor_of(id), caller));
        let enters = kept || self.core.try_enter(self.core.state(), caller).is_some();
        prop_assert_eq!(enters, kept || self.plain.enter(caller));
        if enters {
            self.is_running(id);
        }
        Ok(enters)
    }

    fn is_running(&mut self, id: Id) {
        self.clients[id].at = Where::Inside;
        if self.plain.queued() == 0 {
            self.clients[id].quantum_left = QUANTUM;
        }
    }

    fn join(&mut self, id: Id, end: End, queue_limit: u32) -> Checked {
        let client = &mut self.clients[id];
        let caller = client.caller();
        // As a session does: its class may have changed since it joined first.
        let request = Request { first: caller.first, ..client.request };
        let cancelled = client.node.cancelled.swap(false, Ordering::Relaxed);
        client.node.cancelled.store(cancelled, Ordering::Relaxed);
        let (joined, wake) = self.core.join(&client.node, request, (caller, end), queue_limit);
        let joined = match joined {
            core::Joined::Entered(..) => Joined::Entered,
            core::Joined::Queued(_) => Joined::Queued,
            core::Joined::Full => Joined::Full,
            core::Joined::Cancelled => Joined::Cancelled,
        };
        let (expected, told) = self.plain.join(id, request, (caller, end), queue_limit, cancelled);
        prop_assert_eq!(joined, expected);
        match joined {
            Joined::Entered => self.is_running(id),
            Joined::Queued => self.clients[id].at = Where::Queued,
            Joined::Full | Joined::Cancelled => {
                self.clients[id].at = Where::Outside;
                self.clients[id].node.cancelled.store(false, Ordering::Relaxed);
            }
        }
        self.tell(wake, &told)
    }

    /// One that was told something runs.
    fn run(&mut self, id: Id) -> Checked {
        let Where::Told(told) = self.clients[id].at else { unreachable!("only those are asked to run") };
        let enters = match told {
            Told::TimedOut => {
                self.clients[id].at = Where::Outside;
                return Ok(());
            }
            Told::Granted => {
                let state = self.core.started();
                self.plain.started();
                self.has_started(state)?;
                true
            }
            Told::Summoned => {
                let caller = self.clients[id].caller();
                let (enters, state) = self.core.arrive(caller);
                prop_assert_eq!(enters, self.plain.arrive(caller.first));
                self.has_started(state)?;
                if !enters {
                    return self.join(id, End::Front, 0);
                }
                true
            }
            Told::Retry => {
                let enters = self.enter(id)?;
                if !enters {
                    return self.join(id, End::Back, 0);
                }
                enters
            }
        };
        assert!(enters);
        self.clients[id].at = Where::Inside;
        self.clients[id].quantum_left = QUANTUM;
        if self.clients[id].node.cancelled.swap(false, Ordering::Relaxed) {
            self.clients[id].quantum_left = 0;
            return self.exit(id, false);
        }
        Ok(())
    }

    fn has_started(&mut self, state: State) -> Checked {
        let wake = self.core.has_started(state, || self.now_ns);
        let told = self.plain.has_started(self.now_ns);
        self.tell(wake, &told)
    }

    /// Leaves its place with its processor, if that is possible.
    fn keep(&mut self, id: Id) -> Result<bool, TestCaseError> {
        let left = self.clients[id].quantum_left.saturating_sub(1);
        let leaver = Leaver { in_quantum: left != 0, holds_locks: self.clients[id].first };
        let keeps = self.core.keep(self.processor_of(id), leaver.holds_locks, || leaver.in_quantum).is_some();
        prop_assert_eq!(keeps, self.plain.keep(self.processor_of(id), leaver));
        if keeps {
            let client = &mut self.clients[id];
            client.at = Where::Outside;
            if self.plain.queued() > 0 {
                client.quantum_left = left;
            }
        }
        Ok(keeps)
    }

    fn exit(&mut self, id: Id, lease_over: bool) -> Checked {
        self.clients[id].at = Where::Outside;
        // As a session does: only exits while somebody waits use the quantum.
        if self.core.try_leave(self.core.state()).is_some() {
            let leaver = Leaver { in_quantum: true, holds_locks: false };
            let told = self.plain.exit(leaver, lease_over, self.now_ns);
            prop_assert_eq!(told, vec![], "somebody was to be woken");
            return Ok(());
        }
        let left = self.clients[id].quantum_left.saturating_sub(1);
        self.clients[id].quantum_left = left;
        let now_ns = self.now_ns;
        let leaver = Leaver { in_quantum: left != 0, holds_locks: self.clients[id].first };
        let (wake, _) = self.core.leave_and_wake(leaver, &|| lease_over, &|| now_ns);
        let told = self.plain.exit(leaver, lease_over, now_ns);
        self.tell(wake, &told)
    }

    fn set_rule(&mut self, policy: Policy, limit: u32) -> Checked {
        let (wake, _) = self.core.set_rule(policy, limit, self.now_ns);
        let told = self.plain.set_rule(policy, limit, self.now_ns);
        self.tell(wake, &told)
    }

    fn set_terms(&mut self, set: impl FnOnce(&mut Plain)) -> Checked {
        set(&mut self.plain);
        let Plain { promote_after_ns, tau_ns, lock_waiters_max, .. } = self.plain;
        let wake = self.core.set_terms(Terms { promote_after_ns, tau_ns, lock_waiters_max }, self.now_ns);
        let told = self.plain.terms_changed(self.now_ns);
        self.tell(wake, &told)
    }

    /// Tells those whom the core wakes; they must be those of the model, in its order.
    fn tell(&mut self, wake: Wake, expected: &Tellings) -> Checked {
        match wake {
            Wake::Nobody => prop_assert_eq!(expected, &vec![], "nobody was woken"),
            Wake::Granted(list) => self.compare(list, Told::Granted, expected)?,
            Wake::Summoned(list) => self.compare(list, Told::Summoned, expected)?,
            Wake::Retry(list) => self.compare(list, Told::Retry, expected)?,
        }
        Ok(())
    }

    fn compare(&mut self, mut list: List, told: Told, expected: &Tellings) -> Checked {
        let mut got = vec![];
        while let Some(node) = list.pop_front() {
            let id = self.clients.iter().position(|client| Arc::ptr_eq(&client.node, &node)).unwrap();
            prop_assert_eq!(self.clients[id].at, Where::Queued);
            self.clients[id].at = Where::Told(told);
            got.push((id, told));
        }
        prop_assert_eq!(&got, expected);
        Ok(())
    }

    fn check(&self) -> Checked {
        let (state, plain) = (self.core.state(), &self.plain);
        let count =
            |is_so: fn(&Client) -> bool| self.clients.iter().filter(|client| is_so(client)).count() as u32;
        let got = (state.places(), state.pending(), state.queued());
        prop_assert_eq!(got, (plain.places, plain.pending, plain.queued()), "T, P, Q");
        let holders = count(|client| matches!(client.at, Where::Inside | Where::Told(Told::Granted)));
        let woken = count(|client| matches!(client.at, Where::Told(Told::Granted | Told::Summoned)));
        prop_assert_eq!(self.core.kept.count(), plain.kept());
        prop_assert_eq!(
            got,
            (holders + plain.kept(), woken, count(|client| client.at == Where::Queued)),
            "T, P, Q"
        );
        prop_assert_eq!((state.policy(), state.limit()), (plain.policy, plain.limit));
        prop_assert_eq!((state.closed(), state.congested()), (plain.closed, plain.congested));
        let expected = Counts {
            promoted: plain.promoted,
            queued_with_deficit: plain.debts.owing,
            lock_waiters: plain.lock_waiters,
        };
        prop_assert_eq!(self.core.counts(), expected);
        if count(|client| matches!(client.at, Where::Told(_))) == 0 {
            prop_assert_eq!(plain.wrong_at_rest(), None);
        }
        Ok(())
    }

    /// Everybody inside leaves, and whoever is told runs, but no exit ends a lease or a quantum: everybody
    /// in the queue gets in all the same.
    fn drain(&mut self) -> Checked {
        for left in (0..10_000).rev() {
            prop_assert_ne!(left, 0, "they are woken again and again");
            // Not always the same one: of those who are woken, each runs before long.
            if let Some(id) = self.find(left, |client| matches!(client.at, Where::Told(_))) {
                self.run(id)?;
            } else if let Some(id) = self.find_at(0, Where::Inside) {
                self.clients[id].quantum_left = QUANTUM;
                self.exit(id, false)?;
            } else if self.find_at(0, Where::InLockWait).is_some() && self.plain.queued() == 0 {
                self.take(&Step::EndLockWait { who: 0 })?;
            } else {
                break;
            }
            self.check()?;
        }
        prop_assert_eq!(self.core.state().queued(), 0, "somebody waits for ever");
        prop_assert_eq!((self.core.observed().places(), self.core.state().pending()), (0, 0));
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
    fn the_core_does_what_the_plain_model_does(
        policy in policy(),
        limit in limit(),
        // Of four, congestion leaves two places to newcomers.
        processors in prop::sample::select(&[2, 4][..]),
        steps in vec(step(), 1..if cfg!(miri) { 40 } else { 150 }),
    ) {
        let mut world = World::new(policy, limit, processors);
        for step in &steps {
            world.take(step)?;
        }
        world.drain()?;
    }
}
