//! What depends on time alone: the stall breaker, tau, deadlines of tasks, places that wait for their sessions, and the limit that finds itself.
//!
//! [`crate::Admission::step`] does it, told the time. A thread of the scheduler's own calls it while anybody
//! waits, or the limit is lifted, and sleeps while nobody does.

use std::sync::{Arc, Weak};
use std::thread::{Builder, Thread};
use std::time::{Duration, Instant};

use crate::admission::{Admission, in_ns};
use crate::anticipation::Trial;
use crate::auto::AutoConfig;
use crate::config::processors;
use crate::core::Core;
use crate::disk_bound::DiskBound;
use crate::finder::Finder;
use crate::futex_hash;
use crate::idle::Idle;
use crate::metrics::Metrics;
use crate::state::State;
use crate::sync::{AtomicBool, Mutex, Ordering, lock};
use crate::{AutoLimit, Config, ConfigError};

/// Between two steps: short against the stall time and any timeout a user would set, long against the cost
/// of a step (some microseconds).
const PERIOD: Duration = Duration::from_millis(5);
/// Chooses the order of the limits that are compared; any will do.
const SEED: u64 = 0x5EED;
/// So often in a stall time the watchdog looks whether anything moves.
const LOOKS: u64 = 8;
/// After so many steps without anybody in the queue the thread sleeps until somebody joins.
const IDLE_STEPS: u32 = 20;

pub(crate) struct Watchdog {
    /// Locked after the scheduler's configuration, if that is locked, too.
    inner: Mutex<Inner>,
    /// The thread sleeps until it is roused. Set by the thread, before it looks whether anybody waits and
    /// sleeps; cleared by whoever rouses it, after it joined the queue. Sequentially consistent on both
    /// sides, so one of the two sees the other.
    asleep: AtomicBool,
}

#[derive(Default)]
struct Inner {
    thread: Option<Thread>,
    stall_after_ns: Option<u64>,
    /// Sessions served from the queue, and entries and hand-offs, when somebody entered or left last.
    progress: (u64, u64),
    /// The lowest T since then. Above the limit an exit gives its place back: then T falls lower, and nothing else tells. One
    /// that falls again, after a wait's end forced it up, tells nothing.
    places_low: u32,
    /// When that was, ns.
    progress_at_ns: u64,
    /// When to look at the progress again, ns.
    look_at_ns: u64,
    /// What the limit that finds itself was told, and the limit it began with.
    auto: Option<(AutoLimit, u32)>,
    /// Finds the limit.
    limit: Option<Finder>,
    /// Finds out whether places are to wait for their sessions, where they may.
    anticipation: Option<Trial>,
    /// Lifts a limit that is set, and does not find itself.
    disk_bound: DiskBound,
}

impl Watchdog {
    pub(crate) fn new() -> Self {
        Watchdog { inner: Mutex::new(Inner::default()), asleep: AtomicBool::new(false) }
    }

    /// Starts the thread if it is wanted and not there. Once started it stays until the scheduler is dropped.
    pub(crate) fn start(&self, admission: &Arc<Admission>, config: &Config) -> Result<(), ConfigError> {
        if !config.watchdog || cfg!(any(loom, shuttle, miri)) {
            return Ok(());
        }
        let mut inner = lock(&self.inner);
        if inner.thread.is_none() {
            let admission = Arc::downgrade(admission);
            let thread = Builder::new()
                .name("flifo-watchdog".to_owned())
                .stack_size(128 << 10)
                .spawn(move || watch(&admission))
                .map_err(|error| ConfigError::Watchdog(error.to_string()))?;
            inner.thread = Some(thread.thread().clone());
        }
        Ok(())
    }

    /// Does as the configuration says from now on. `begins_anew`: a limit that finds itself begins at the one that is told.
    pub(crate) fn configure(&self, config: &Config, begins_anew: bool) {
        let mut inner = lock(&self.inner);
        let stall_after_ns = config.stall_after.map(in_ns);
        if stall_after_ns != inner.stall_after_ns {
            inner.stall_after_ns = stall_after_ns;
            inner.look_at_ns = 0;
        }
        let (percent, limit) = (config.lifts_at_percent(), config.first_limit());
        if begins_anew || !inner.disk_bound.stays_with(percent, limit) {
            inner.disk_bound = DiskBound::new(percent, limit, processors());
        }
        let auto = config.auto.map(|bounds| (bounds, config.thread_concurrency));
        if begins_anew || auto != inner.auto {
            inner.auto = auto;
            inner.limit = config.auto.map(|AutoLimit { floor, ceiling }| {
                Finder::new(AutoConfig { floor, ceiling, start: limit, ..AutoConfig::default() }, SEED)
            });
        }
        let anticipates = config.anticipates().then_some((limit, config.quantum));
        if begins_anew || anticipates != inner.anticipation.as_ref().map(Trial::of) {
            inner.anticipation = anticipates.map(Trial::new);
        }
    }

    /// Whether there is nothing to look at while nobody waits: the limit is not lifted, and who finds it knows of the empty queue.
    pub(crate) fn may_rest(&self) -> bool {
        let inner = lock(&self.inner);
        !inner.disk_bound.is_lifted() && inner.limit.as_ref().is_none_or(Finder::may_rest)
    }

    /// The thread wants to sleep: whether it may, since whoever joins from now on rouses it.
    pub(crate) fn falls_asleep(&self, core: &Core) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        core.state_after_all().queued() == 0 && self.may_rest()
    }

    /// Whether the thread would have to be roused.
    #[cfg(all(test, loom))]
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::SeqCst)
    }

    /// Somebody has joined the queue.
    pub(crate) fn rouse(&self) {
        // After the join's swap; see `asleep`.
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            self.unpark();
        }
    }

    /// The scheduler is gone.
    pub(crate) fn end(&self) {
        self.unpark();
    }

    fn unpark(&self) {
        if let Some(thread) = &lock(&self.inner).thread {
            thread.unpark();
        }
    }

    /// Whether somebody waits and nobody has entered or left for the stall time.
    pub(crate) fn stalls(&self, core: &Core, metrics: &Metrics, now_ns: u64) -> bool {
        let mut inner = lock(&self.inner);
        let Some(stall_after_ns) = inner.stall_after_ns else { return false };
        if now_ns < inner.look_at_ns {
            return false;
        }
        inner.look_at_ns = now_ns.saturating_add(stall_after_ns / LOOKS);
        // Counting entries reads the counters of all sessions, which costs too much while the queue moves.
        let (served, entries) = inner.progress;
        let served_now = core.served();
        let state = core.state();
        let moves = state.queued() == 0 || served_now != served || state.places() < inner.places_low;
        let entries_now = if moves { entries } else { metrics.progress() };
        let stalls =
            !moves && entries_now == entries && now_ns.saturating_sub(inner.progress_at_ns) >= stall_after_ns;
        // The one that is admitted because of a stall has as long again.
        if moves || entries_now != entries || stalls {
            inner.progress = (served_now, entries_now);
            inner.places_low = state.places();
            inner.progress_at_ns = now_ns;
        }
        stalls
    }

    /// Whether a change to `config` leaves the limit to the one who finds it, or has lifted it.
    pub(crate) fn keeps_limit(&self, config: &Config) -> bool {
        let inner = lock(&self.inner);
        let auto = config.auto.map(|bounds| (bounds, config.thread_concurrency));
        let finds_it = inner.auto.is_some() && inner.auto == auto;
        finds_it || inner.disk_bound.stays_with(config.lifts_at_percent(), config.first_limit())
    }

    /// Whether this limit is to be set, still.
    pub(crate) fn wants_limit(&self, limit: u32) -> bool {
        let inner = lock(&self.inner);
        let wanted = inner.limit.as_ref().map_or_else(|| inner.disk_bound.limit(), Finder::limit);
        wanted == limit
    }

    /// A limit to set, if most statements began to read from disk, or ceased to. Others may change the configuration before it is
    /// set: see [`Watchdog::wants_limit`].
    pub(crate) fn lifted_limit(
        &self,
        metrics: &Metrics,
        state: State,
        disk_waits: u32,
        now_ns: u64,
    ) -> Option<u32> {
        let demand = state.places() + state.queued() + disk_waits;
        lock(&self.inner).disk_bound.observe(now_ns, demand, || metrics.reads())
    }

    /// A limit to try, if the limit finds itself. Others may change the configuration before it is set: see
    /// [`Watchdog::wants_limit`].
    pub(crate) fn better_limit(&self, metrics: &Metrics, state: State, now_ns: u64) -> Option<u32> {
        lock(&self.inner).limit.as_mut()?.observe(metrics, (state.places(), state.queued()), now_ns)
    }

    /// Looks whether places are to wait for their sessions.
    pub(crate) fn tries_to_wait(&self, metrics: &Metrics, state: State, now_ns: u64) {
        if let Some(trial) = &mut lock(&self.inner).anticipation {
            trial.observe(metrics, state, now_ns, Idle::now);
        }
    }

    /// Whether they are, as was found when it looked last.
    pub(crate) fn lets_wait(&self) -> bool {
        lock(&self.inner).anticipation.as_ref().is_some_and(Trial::lets_wait)
    }
}

fn watch(admission: &Weak<Admission>) {
    let mut idle_steps = 0;
    while let Some(admission) = admission.upgrade() {
        admission.step(Instant::now());
        let queued = admission.core.state().queued();
        futex_hash::make_room(queued);
        idle_steps = if queued != 0 { 0 } else { (idle_steps + 1).min(IDLE_STEPS) };
        let may_rest = admission.watchdog.may_rest() && !admission.anticipation.is_on();
        if idle_steps < IDLE_STEPS || !may_rest {
            drop(admission);
            std::thread::park_timeout(PERIOD);
            continue;
        }
        idle_steps = 0;
        let sleeps = admission.watchdog.falls_asleep(&admission.core);
        drop(admission);
        if sleeps {
            std::thread::park();
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// What it tells next would count the hours asleep as if the queue had stood.
    #[test]
    fn the_thread_sleeps_when_the_limit_that_finds_itself_knows_of_the_empty_queue() {
        let auto = Some(AutoLimit { floor: 1, ceiling: 4 });
        let admission = Admission::new(Config { watchdog: false, ..Config::default() }).unwrap();
        let (watchdog, metrics) = (&admission.watchdog, &admission.metrics);
        assert!(watchdog.may_rest());
        admission.reconfigure(Config { auto, ..admission.config() }).unwrap();
        assert!(!watchdog.may_rest());
        let idle = admission.core.observed();
        let told = |state, seconds: u64| {
            watchdog.better_limit(metrics, state, 1_000_000_000 * seconds);
            watchdog.may_rest()
        };
        assert!(!told(idle.joined(), 1));
        assert!(told(idle, 2));
        assert!(!told(idle.joined(), 3));
    }
}
