//! A place that waits for its session between two entries: anticipatory scheduling.
//!
//! Where the clients run on the same machine, one that has its reply is about to send its next statement, and no processor is idle
//! meanwhile. If its place is handed on then, one more connection is under way, and soon there are a dozen for four places: they
//! queue for the processors instead, in the order of the kernel, and each has left the caches when it is back. So while many queue, one
//! that leaves within its turn keeps its place until it is back, and T counts it.
//! (The idea is that of S. Iyer and P. Druschel, "Anticipatory scheduling: a disk scheduling framework to overcome deceptive idleness",
//! SOSP 2001, whose disk waits for the next request of the same process.)
//!
//! With clients that are far away, or think, processors would be idle for it. So it is compared with handing on, by the work done
//! ([`crate::auto::Controller`]), and left where more is done without. How many are inside meanwhile tells nothing: one of four was, on the average,
//! where most was gained. Nor would a rule for each moment do, as processors have for the places that they
//! keep ([`crate::kept`]): whenever it hands a place on, one more is under way from then on.
//!
//! # Protocol
//!
//! A session that steps out says so by `stay` ([`Node`]), which holds [`AWAY`] then, and takes that back with a swap when it is back. Who
//! takes its place away swaps it, too, and leaves then on the session's behalf; so one of the two has the place.
//!
//! - *T is never too low*: T counts the place from before `AWAY` is written until after somebody has swapped it away, and only that one
//!   leaves.
//! - *No place is away for ever.* Who steps out writes `AWAY`, sees to it that it is in the list, and looks whether places may wait, still;
//!   if not, it takes its place back and leaves. Who says that they may not goes through the list after that, and who takes one off the list
//!   looks at `stay` after that, both with the list locked. These writes and looks are sequentially consistent, so one of them sees the
//!   other. While places may wait, [`Admission::step`] goes through the list, and takes those that have waited until their sessions' turns
//!   were over; after a millisecond while a holder of locks queues, the gate is closed, or in congestion. So for as long as it takes to the next step
//!   places can be idle although somebody queues, and also all of them: nobody may be inside whose exit hands on.
//! - *No lost wake-up*: a place that is taken is left as any other.

use std::sync::Arc;
use std::time::Duration;

use crate::auto::AutoConfig;
use crate::finder::Finder;
use crate::lending::{AWAY, LENT, NONE};
use crate::metrics::{Metrics, add};
use crate::parker::Wakers;
use crate::queue::Node;
use crate::session::{Held, Session, others_wait_by_turns};
use crate::state::State;
use crate::sync::{AtomicBool, CacheAligned, Mutex, Ordering, fence_for_models, lock};
use crate::{Admission, Class};

/// So many queue for each place: with fewer, a session's next turn is near, and with it what is in the caches. A model has few threads.
const QUEUED_PER_PLACE: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 8 };
/// For so long so many must have queued before it begins, ns: places that wait make the queue long that makes them wait.
pub(crate) const QUEUED_NS: u64 = if cfg!(any(loom, shuttle)) { 0 } else { 50_000_000 };
/// Where fewer queue after it has begun, handing on may be why: it is the better way then, and waiting is not tried again for so long, ns;
/// twice as long if that comes again soon, up to the longest.
const REST_NS: u64 = 1_000_000_000;
const REST_NS_MAX: u64 = 32 * REST_NS;
const SOON_NS: u64 = 10 * REST_NS;
/// While a holder of locks queues, the gate is closed, or in congestion, a place waits no longer than this, ns.
const HURRIES_NS: u64 = 1_000_000;
/// One that was not away for so long after its turn is off the list, ns.
const FORGOTTEN_NS: u64 = 100_000_000;

/// The two that are compared, as if they were limits: a place waits, or it is handed on. A tie goes to the lower.
const WAIT: u32 = 1;
const HAND_ON: u32 = 2;
/// A block of a comparison lasts for so many quanta at least: those who are under way are so for their turns.
const BLOCK_QUANTA: u32 = 4;

/// How they are compared. Each comparison makes half of its time wrong, so they are short and few: more than a few percent
/// show, and a change of the load opens the search at once.
fn comparisons(quantum: Duration) -> AutoConfig {
    let default = AutoConfig::default();
    let block_min = default.block_min.max(quantum.saturating_mul(BLOCK_QUANTA));
    AutoConfig {
        floor: WAIT,
        ceiling: HAND_ON,
        start: WAIT,
        block_min,
        block_max: default.block_max.max(block_min),
        probe_after: Duration::from_secs(5),
        probe_after_max: Duration::from_secs(60),
        patience: Duration::from_secs(1),
        ..default
    }
}

/// Whether so many queue that places may wait.
#[inline]
fn so_many_queue(state: State) -> bool {
    state.queued() >= QUEUED_PER_PLACE * state.limit()
}

/// Finds out whether places are to wait. The watchdog keeps it, under its lock.
pub(crate) struct Trial {
    /// The limit and the quantum with which it is tried.
    of: (u32, Duration),
    /// Since when so many queue, ns.
    queued_since_ns: Option<u64>,
    /// Compares, once so many have queued for long enough.
    finder: Option<Finder>,
    rest_ns: u64,
    /// Not tried before, ns.
    rests_until_ns: u64,
    lets_wait: bool,
}

impl Trial {
    pub(crate) fn new(of: (u32, Duration)) -> Self {
        Trial { of, queued_since_ns: None, finder: None, rest_ns: 0, rests_until_ns: 0, lets_wait: false }
    }

    /// The limit and the quantum with which it is tried.
    pub(crate) fn of(&self) -> (u32, Duration) {
        self.of
    }

    /// What was found last.
    pub(crate) fn lets_wait(&self) -> bool {
        self.lets_wait
    }

    /// Looks, at `now_ns`.
    pub(crate) fn observe(&mut self, metrics: &Metrics, state: State, now_ns: u64) {
        self.lets_wait = so_many_queue(state) && self.compares(metrics, state, now_ns);
        if !so_many_queue(state) {
            self.queued_since_ns = None;
            self.rests(now_ns);
        }
    }

    fn compares(&mut self, metrics: &Metrics, state: State, now_ns: u64) -> bool {
        let since_ns = self.queued_since_ns.map_or(now_ns, |since_ns| since_ns.min(now_ns));
        self.queued_since_ns = Some(since_ns);
        if now_ns < self.rests_until_ns || now_ns - since_ns < QUEUED_NS {
            return false;
        }
        let quantum = self.of.1;
        let finder = self.finder.get_or_insert_with(|| Finder::new(comparisons(quantum), now_ns));
        finder.observe(metrics, (state.places(), state.queued()), now_ns);
        finder.limit() == WAIT
    }

    /// If it has begun, it ends.
    fn rests(&mut self, now_ns: u64) {
        if self.finder.take().is_none() {
            return;
        }
        let again = now_ns.saturating_sub(self.rests_until_ns) < SOON_NS;
        self.rest_ns = if again { (2 * self.rest_ns).clamp(REST_NS, REST_NS_MAX) } else { REST_NS };
        self.rests_until_ns = now_ns.saturating_add(self.rest_ns);
    }
}

pub(crate) struct Anticipation {
    /// Whether places may wait. On a cache line of its own: every exit reads it.
    is_on: CacheAligned<AtomicBool>,
    /// The nodes of those who step out, as long as they do.
    list: Mutex<Vec<Arc<Node>>>,
}

impl Anticipation {
    pub(crate) fn new() -> Self {
        Anticipation { is_on: CacheAligned(AtomicBool::new(false)), list: Mutex::new(Vec::new()) }
    }

    /// Whether places may wait now. Relaxed: who acts upon it looks again.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.0.load(Ordering::Relaxed)
    }

    #[cold]
    fn put_on_list(&self, node: &Arc<Node>) {
        let mut list = lock(&self.list);
        if !node.is_listed.swap(true, Ordering::SeqCst) {
            list.push(Arc::clone(node));
        }
    }
}

impl Session {
    /// It leaves: whether its place waits for it.
    #[inline]
    pub(crate) fn steps_out(&self) -> bool {
        self.admission.anticipation.is_on() && self.place.get() == Held::Place && self.steps_out_in_turn()
    }

    fn steps_out_in_turn(&self) -> bool {
        let admission = &*self.admission;
        let (core, quantum_ns) = (&admission.core, admission.settings.quantum_ns());
        let state = core.state();
        // A holder of locks that joins the queue at this moment is seen by the next that leaves, or at the next step.
        let may_wait = others_wait_by_turns(state)
            && so_many_queue(state)
            && state.lets_keep_in_turn()
            && (self.class() == Class::First || !core.first_waits())
            // Its place would be one above the limit. One that is lent from now on is repaid by the next exit.
            && self.node.stay.load(Ordering::Relaxed) != LENT;
        if !may_wait || !self.turn.leaves_within(|| admission.metrics.now_ns(), quantum_ns) {
            return false;
        }
        self.last_seen.set(state);
        self.put_down(Held::Away);
        // Relaxed: `stay` publishes it.
        self.node.away_since_ns.store(self.turn.left_ns(), Ordering::Relaxed);
        self.node.away_until_ns.store(self.turn.ends_ns(quantum_ns), Ordering::Relaxed);
        // Release: what it did before is visible to who takes the place. Sequentially consistent: see the protocol.
        self.node.stay.store(AWAY, Ordering::SeqCst);
        fence_for_models();
        if !self.node.is_listed.load(Ordering::SeqCst) {
            admission.anticipation.put_on_list(&self.node);
        }
        if !admission.anticipation.is_on.0.load(Ordering::SeqCst) {
            self.stays_out();
        }
        true
    }

    /// It is back, and enters: whether its place is still its own. If not, it holds nothing.
    #[inline]
    pub(crate) fn is_back(&self) -> bool {
        let is_own = self.takes_back();
        if is_own {
            add(&self.counters.entered_at_once, 1);
            add(&self.counters.anticipated, 1);
            let (settings, metrics) = (&self.admission.settings, &self.admission.metrics);
            self.turn.ends_outside(|| metrics.now_ns(), settings.quantum_ns());
            self.has_place(self.admission.core.state());
            self.turn.forced(|| metrics.now_ns(), settings.quantum_ns());
        }
        is_own
    }

    /// It will not be back at once: its place goes to the next, if it has it still.
    #[cold]
    pub(crate) fn stays_out(&self) {
        if self.takes_back() {
            self.hand_over(true);
        }
    }

    fn takes_back(&self) -> bool {
        self.place.set(Held::No);
        // Relaxed on failure: it finds out by the word what became of the place.
        self.node.stay.compare_exchange(AWAY, NONE, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

impl Admission {
    /// Asks whether places may wait from now on, and takes those that have waited for too long at `now_ns`: the next have them.
    pub(crate) fn anticipate(&self, may_wait: impl FnOnce() -> bool, now_ns: u64) {
        let Anticipation { is_on, list } = &self.anticipation;
        let mut list = lock(list);
        // Asked under the lock: who was told to wait no more, and says so after that, is the last to say.
        let may_wait = may_wait();
        // Written only when it changes: every exit reads it.
        if is_on.0.load(Ordering::Relaxed) != may_wait {
            is_on.0.store(may_wait, Ordering::SeqCst);
        }
        fence_for_models();
        let state = self.core.state();
        let hurries = state.closed() || state.congested() || self.core.first_waits();
        let mut taken = 0;
        list.retain(|node| {
            let waits = || node.stay.load(Ordering::SeqCst) == AWAY;
            let is_away = waits();
            // After `stay`. Should the session come back and step out again meanwhile, its place is taken early.
            let until_ns = node.away_until_ns.load(Ordering::Relaxed);
            let since_ns = node.away_since_ns.load(Ordering::Relaxed);
            let is_late = now_ns >= until_ns || hurries && now_ns.saturating_sub(since_ns) >= HURRIES_NS;
            if is_away && (is_late || !may_wait) {
                // Acquire: what the session did before is visible to who gets the place.
                let swap = node.stay.compare_exchange(AWAY, NONE, Ordering::AcqRel, Ordering::Relaxed);
                taken += u32::from(swap.is_ok());
            } else if may_wait && (is_away || now_ns < until_ns.saturating_add(FORGOTTEN_NS)) {
                return true;
            }
            node.is_listed.store(false, Ordering::SeqCst);
            fence_for_models();
            let waits = waits();
            if waits {
                node.is_listed.store(true, Ordering::SeqCst);
            }
            waits
        });
        // Not under the lock: a waker of a task may do anything. Nor before all places are left: it may wait for one of them.
        drop(list);
        let mut wakers = Wakers::default();
        (0..taken).for_each(|_| wakers.add(self.left_for_another()));
        wakers.call();
    }

    /// Whether a place waits for its session.
    pub(crate) fn is_somebody_away(&self) -> bool {
        let is_away = |node: &Arc<Node>| node.stay.load(Ordering::Relaxed) == AWAY;
        self.anticipation.is_on() && lock(&self.anticipation.list).iter().any(is_away)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::auto::{Controller, Sample};

    const QUANTUM: Duration = Duration::from_millis(5);

    #[test]
    fn it_begins_when_so_many_have_queued_for_a_while_and_rests_when_fewer_do() {
        const TICK_NS: u64 = 5_000_000;
        let (metrics, mut trial) = (Metrics::new(), Trial::new((1, QUANTUM)));
        let idle = State::idle(crate::Policy::Quantum, 1);
        let mut now_ns = 0;
        let mut lets_wait = |queued| {
            now_ns += TICK_NS;
            trial.observe(&metrics, (0..queued).fold(idle, |state, _| state.joined()), now_ns);
            trial.lets_wait()
        };
        assert!(!(0..1000).any(|_| lets_wait(7)));
        let mut ticks = (0..20_000).position(|_| lets_wait(8)).unwrap() as u64;
        assert_eq!(ticks * TICK_NS, QUEUED_NS);
        for rests in [1, 2, 4, 8, 16, 32, 32] {
            assert!(!lets_wait(7), "at once");
            ticks = (0..20_000).position(|_| lets_wait(8)).unwrap() as u64;
            assert_eq!((ticks + 1) * TICK_NS, rests * REST_NS);
        }
    }

    /// For so many seconds so much is done in 10 ms while places are handed on, and this share of it while they wait; the share of the time
    /// in which they do.
    fn tried_for(
        controller: &mut Controller,
        from: &mut Sample,
        seconds: u64,
        (all, share): (f64, f64),
    ) -> f64 {
        let (ticks, mut waited) = (100 * seconds, 0);
        for _ in 0..ticks {
            let waits = controller.limit() == WAIT;
            waited += u64::from(waits);
            let done = (all * if waits { share } else { 1.0 }) as u64;
            from.now_ns += 10_000_000;
            from.work += done;
            from.places += done;
            controller.observe(Sample { queued: 500, inside: 4, ..*from });
        }
        waited as f64 / ticks as f64
    }

    #[test]
    fn places_wait_only_where_more_is_done_so() {
        let controller = || (Controller::new(comparisons(QUANTUM), 1).unwrap(), Sample::default());
        for all in [300.0, 10.0] {
            for (share, least, most) in
                [(1.3, 0.93, 1.0), (1.0, 0.9, 1.0), (0.9, 0.0, 0.2), (0.8, 0.0, 0.1), (0.3, 0.0, 0.02)]
            {
                let (mut controller, mut from) = controller();
                let waited = tried_for(&mut controller, &mut from, 300, (all, share));
                assert!((least..=most).contains(&waited), "{share} of {all}: {waited}");
            }
        }
        let (mut controller, mut from) = controller();
        tried_for(&mut controller, &mut from, 60, (300.0, 1.3));
        let waited = tried_for(&mut controller, &mut from, 60, (300.0, 0.3));
        assert!(waited < 0.1, "the clients are others now: {waited}");
        let waited = tried_for(&mut controller, &mut from, 120, (300.0, 1.3));
        assert!(waited > 0.5, "and are the first again: {waited}");
    }
}
