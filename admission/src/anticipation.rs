//! A place that waits for its session between two entries: anticipatory scheduling.
//!
//! Where the clients run on the same machine, one that has its reply is about to send its next statement, and no processor is idle
//! meanwhile. If its place is handed on then, one more connection is under way, and soon there are a dozen for four places: they
//! queue for the processors instead, in the order of the kernel, and each has left the caches when it is back. So while many queue, one
//! that leaves within its turn keeps its place until it is back, and T counts it.
//! (The idea is that of S. Iyer and P. Druschel, "Anticipatory scheduling: a disk scheduling framework to overcome deceptive idleness",
//! SOSP 2001, whose disk waits for the next request of the same process.)
//!
//! With clients that are far away, or think, processors would be idle for it: then it is compared with handing on, by the work done, and
//! left where more is done without ([`trial`]). Nor would a rule for each moment do, as processors have for the places that they
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

mod trial;

use std::sync::Arc;

pub(crate) use self::trial::Trial;
#[cfg(test)]
pub(crate) use self::trial::{QUEUED_NS, SHORT_NS};
use crate::in_turn::others_wait_by_turns;
use crate::lending::{AWAY, LENT, NONE};
use crate::metrics::add;
use crate::parker::Wakers;
use crate::queue::Node;
use crate::session::{Held, Session};
use crate::sync::{AtomicBool, CacheAligned, Mutex, Ordering, fence_for_models, lock};
use crate::{Admission, Class};

/// While a holder of locks queues, the gate is closed, or in congestion, a place waits no longer than this, ns.
const HURRIES_NS: u64 = 1_000_000;
/// One that was not away for so long after its turn is off the list, ns.
const FORGOTTEN_NS: u64 = 100_000_000;

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
            && state.lets_keep_in_turn()
            && (self.class() == Class::First || !core.first_waits())
            // Its place would be one above the limit. One that is lent from now on is repaid by the next exit.
            && self.node.stay.load(Ordering::Relaxed) != LENT;
        if !may_wait || !self.turn.leaves_within(|| admission.metrics.now_ns(), quantum_ns) {
            return false;
        }
        self.last_seen.set(state);
        self.put_down(Held::Away);
        // No longer than a quantum, also within a transaction: its client may be the one that keeps others waiting.
        let left_ns = self.turn.left_ns();
        let until_ns = self.turn.ends_ns(quantum_ns).min(left_ns.saturating_add(quantum_ns));
        // Relaxed: `stay` publishes it.
        self.node.away_since_ns.store(left_ns, Ordering::Relaxed);
        self.node.away_until_ns.store(until_ns, Ordering::Relaxed);
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
