//! What depends on time alone: deadlines of tasks, the stall rule, reserved slots, the adaptive limit.
//!
//! [`Admission::step`] does it, and is passed the time. A thread of the scheduler's own calls it while anybody queues, and sleeps
//! while nobody queues.

use std::sync::{Arc, Weak};
use std::thread::{Builder, Thread};
use std::time::{Duration, Instant};

use crate::gate::Wake;
use crate::gate::parker::{Verdict, Wakers};
use crate::hooks;
use crate::shared::{Admission, UNBOUNDED_NS, notify_all};
use crate::sync::lock;

/// Time between two steps: short against the stall limit and any timeout a user would set, long against the cost of a step (some
/// microseconds).
const PERIOD: Duration = Duration::from_millis(5);
/// Steps without anybody in the queue, after which the thread sleeps until somebody joins.
const IDLE_STEPS: u32 = 20;

impl Admission {
    /// Does what depends on time alone: refuses async tasks whose deadline has passed, reclaims slots and breaks stalls, releases reserved
    /// slots, tries limits if the limit is adaptive. For schedulers without a watchdog ([`crate::Config::watchdog`]): call it every
    /// few milliseconds.
    pub fn step(&self, now: Instant) {
        // The last of all times stands for never, which has not come.
        let now_ns = self.metrics.ns_of(now).min(UNBOUNDED_NS - 1);
        let overdue = self.gate.withdraw_overdue(now_ns);
        notify_all(overdue, Verdict::TimedOut, |_| {}).call();
        if self.extra.reserves() {
            self.release_expired(now_ns);
        }
        self.handle_stalls(now_ns);
        self.adapt(now_ns);
    }

    /// Samples for the adaptive limit, and sets the limit that follows.
    fn adapt(&self, now_ns: u64) {
        let limit = {
            let mut tuner = lock(&self.tuner);
            let limit = tuner.sample(&self.metrics, self.observed(), now_ns);
            self.settings.sample_at_ns.set(tuner.sample_at_ns().unwrap_or(UNBOUNDED_NS));
            limit
        };
        if let Some(limit) = limit {
            self.try_limit(limit);
        }
    }

    /// As [`Admission::adapt`], if it is time to, on behalf of one of the sessions that find so.
    #[inline]
    pub(crate) fn adapt_if_due(&self, now_ns: u64) {
        if self.settings.sample_at_ns.take_if_over(now_ns) {
            self.adapt(now_ns);
        }
    }

    fn handle_stalls(&self, now_ns: u64) {
        // A trial ends by itself, and must not admit more than its limit.
        let reclaims = !lock(&self.tuner).is_trying();
        let stalls = lock(&self.stall).look(&self.gate, &self.metrics, now_ns, reclaims);
        self.release_all(stalls.reclaimed);
        if stalls.breaks {
            let wake = self.gate.break_stall(now_ns);
            if matches!(wake, Wake::Granted(_)) {
                self.metrics.broke_stall();
            }
            self.wake(wake);
        }
    }

    /// Releases the reserved slots whose time is over, and all of them while a lock holder waits.
    pub(crate) fn release_expired(&self, now_ns: u64) {
        let hurry = self.gate.first_waits() || self.gate.word().is_congested();
        let taken =
            self.metrics.registry.count_nodes(|node| self.extra.take_expired(&node.hold, now_ns, hurry));
        self.release_all(taken);
    }

    /// Releases slots that were taken from their sessions. The wakers come last: one of them may wait for another of these slots.
    fn release_all(&self, slots: u32) {
        let mut wakers = Wakers::default();
        (0..slots).for_each(|_| wakers.0.extend(self.release_for().0));
        wakers.call();
    }

    /// Sets the limit on behalf of the tuner, if that still wants it.
    fn try_limit(&self, limit: u32) {
        // Under the lock, so that a change by the user is not undone: it comes with another controller, or with none.
        let config = lock(&self.config);
        if !lock(&self.tuner).wants(limit) {
            return;
        }
        let wake = self.gate.set_rule(config.policy, limit, self.metrics.now_ns());
        drop(config);
        self.wake(wake);
    }
}

/// Starts the watchdog's thread for a scheduler; it ends with the scheduler.
pub(crate) fn spawn(admission: &Arc<Admission>) -> std::io::Result<Thread> {
    let admission = Arc::downgrade(admission);
    let thread = Builder::new()
        .name("flifo-watchdog".to_owned())
        .stack_size(128 << 10)
        .spawn(move || watch(&admission))?;
    Ok(thread.thread().clone())
}

fn watch(admission: &Weak<Admission>) {
    let mut idle_steps = 0;
    while let Some(admission) = admission.upgrade() {
        admission.step(Instant::now());
        let queued = admission.gate.word().queued();
        hooks::on_watch(queued);
        idle_steps = if queued != 0 { 0 } else { (idle_steps + 1).min(IDLE_STEPS) };
        let pause = if idle_steps < IDLE_STEPS || admission.extra.reserves() {
            Some(PERIOD)
        } else {
            lock(&admission.tuner).pause()
        };
        if let Some(pause) = pause {
            drop(admission);
            std::thread::park_timeout(pause);
            continue;
        }
        idle_steps = 0;
        let sleeps = admission.alarm.fall_asleep(&admission.gate);
        drop(admission);
        if sleeps {
            std::thread::park();
        }
    }
}
