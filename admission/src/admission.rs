//! The scheduler as it is shared: its configuration, which can change at run time, and what belongs to all
//! sessions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::anticipation::Anticipation;
use crate::config::{AutoLimit, processors};
use crate::core::{Core, Terms, Wake};
use crate::delay::SleepDelay;
use crate::metrics::{Metrics, Snapshot};
use crate::overtaking::Overtaking;
use crate::parker::{Verdict, Wakers};
use crate::queue::{List, Node};
use crate::session::Session;
use crate::state::SESSIONS_MAX;
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering, lock};
use crate::watchdog::Watchdog;
use crate::{Config, ConfigError, WaitMask};

/// A scheduler: shared by all sessions that compete for the same processors.
pub struct Admission {
    pub(crate) core: Core,
    pub(crate) settings: Settings,
    pub(crate) delay: SleepDelay,
    pub(crate) metrics: Metrics,
    pub(crate) watchdog: Watchdog,
    /// Disk waits that gave up their places. Invariant: counts the sessions between such a `wait_begin` and
    /// its end; never above the io_depth that was set when the last of them began.
    pub(crate) disk_waits: AtomicU32,
    pub(crate) overtaking: Overtaking,
    pub(crate) anticipation: Anticipation,
    config: Mutex<Config>,
    tenants: Mutex<u32>,
}

/// The part of the configuration that sessions read on their way. Each value stands for itself, so relaxed
/// loads suffice: a session that sees a new one a moment late does what it did the moment before.
///
/// On cache lines of their own: every entry reads them, and hardly anybody writes them.
#[repr(align(128))]
pub(crate) struct Settings {
    tickets: AtomicU32,
    wait_mask: AtomicU32,
    io_depth: AtomicU32,
    queue_limit: AtomicU32,
    queue_timeout_ns: AtomicU64,
    lease_ns: AtomicU64,
    quantum_ns: AtomicU64,
    /// When the lease of those inside began. Not when it ends: another lease time holds for it, too.
    lease_since_ns: AtomicU64,
}

/// Stands for "never" and "any time".
const UNBOUNDED_NS: u64 = u64::MAX;

impl Settings {
    fn new(config: &Config) -> Self {
        let settings = Settings {
            tickets: AtomicU32::new(0),
            wait_mask: AtomicU32::new(0),
            io_depth: AtomicU32::new(0),
            queue_limit: AtomicU32::new(0),
            queue_timeout_ns: AtomicU64::new(0),
            lease_ns: AtomicU64::new(0),
            quantum_ns: AtomicU64::new(0),
            lease_since_ns: AtomicU64::new(0),
        };
        settings.set(config);
        settings
    }

    fn set(&self, config: &Config) {
        let ns = |time: Option<Duration>| time.map_or(UNBOUNDED_NS, in_ns);
        self.tickets.store(config.concurrency_tickets, Ordering::Relaxed);
        self.wait_mask.store(config.wait_mask.bits().into(), Ordering::Relaxed);
        self.io_depth.store(config.io_depth, Ordering::Relaxed);
        self.queue_limit.store(config.queue_limit, Ordering::Relaxed);
        self.queue_timeout_ns.store(ns(config.queue_timeout), Ordering::Relaxed);
        self.lease_ns.store(in_ns(config.lease), Ordering::Relaxed);
        self.quantum_ns.store(in_ns(config.quantum), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn tickets(&self) -> u32 {
        self.tickets.load(Ordering::Relaxed)
    }

    pub(crate) fn wait_mask(&self) -> WaitMask {
        WaitMask::from_bits(self.wait_mask.load(Ordering::Relaxed) as u8).expect("stored from a mask")
    }

    pub(crate) fn io_depth(&self) -> u32 {
        self.io_depth.load(Ordering::Relaxed)
    }

    pub(crate) fn queue_limit(&self) -> u32 {
        self.queue_limit.load(Ordering::Relaxed)
    }

    /// When a session that joins the queue at `now_ns` gives up.
    pub(crate) fn deadline_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_add(self.queue_timeout_ns.load(Ordering::Relaxed))
    }

    pub(crate) fn quantum_ns(&self) -> u64 {
        self.quantum_ns.load(Ordering::Relaxed)
    }

    /// Whether the lease of those inside is over; if so, the next one begins, and only one caller is told.
    pub(crate) fn lease_over(&self, now_ns: u64) -> bool {
        let since_ns = self.lease_since_ns.load(Ordering::Relaxed);
        now_ns.saturating_sub(since_ns) >= self.lease_ns.load(Ordering::Relaxed)
            && self
                .lease_since_ns
                .compare_exchange(since_ns, now_ns, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

/// What does not fit is as good as never.
pub(crate) fn in_ns(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(UNBOUNDED_NS)
}

/// Whose share of the places a session uses; see [`Admission::tenant`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Tenant(pub(crate) u32);

impl Tenant {
    /// The most tenants of one scheduler, the default one included.
    pub const MAX: u32 = 64;
    /// The weights a tenant can have: far apart, but not so far that rounding hides the smaller one.
    pub const WEIGHTS: std::ops::RangeInclusive<f64> = 1e-3..=1e3;
}

impl Admission {
    /// The most sessions of one scheduler at a time.
    pub const SESSIONS_MAX: u32 = SESSIONS_MAX as u32;

    /// A scheduler with this configuration; an impossible one is an error that says what is allowed.
    pub fn new(config: Config) -> Result<Arc<Self>, ConfigError> {
        config.check()?;
        let metrics = Metrics::new();
        let admission = Arc::new(Admission {
            core: Core::new(config.policy, config.thread_concurrency, processors()),
            settings: Settings::new(&config),
            delay: SleepDelay::new(),
            metrics,
            watchdog: Watchdog::new(),
            disk_waits: AtomicU32::new(0),
            overtaking: Overtaking::new(),
            anticipation: Anticipation::new(),
            config: Mutex::new(config.clone()),
            tenants: Mutex::new(1),
        });
        admission.reconfigure(config)?;
        Ok(admission)
    }

    /// What it was told last. With `auto`, [`Admission::thread_concurrency`] says what the limit is now.
    pub fn config(&self) -> Config {
        lock(&self.config).clone()
    }

    /// Changes the configuration at run time. A higher limit lets as many in as now fit; a lower one takes
    /// effect as threads leave. When the policy changes, or there is no limit any more, everybody in the queue
    /// asks again. A change that is refused changes nothing.
    ///
    /// While `auto` finds the limit, [`Config::thread_concurrency`] and its bounds are taken anew only when one of them is another
    /// than before. Nor does another change set a limit again that [`Config::disk_bound_percent`] has lifted.
    pub fn reconfigure(self: &Arc<Self>, config: Config) -> Result<(), ConfigError> {
        self.change(|_| config, false)
    }

    /// `sets_limit`: also if the limit is the one that was told last, and `auto` has found another since.
    fn change(
        self: &Arc<Self>,
        to: impl FnOnce(Config) -> Config,
        sets_limit: bool,
    ) -> Result<(), ConfigError> {
        // Held throughout, so that two changes do not mix; but nobody is woken meanwhile, since a task's
        // waker may do anything.
        let mut current = lock(&self.config);
        let config = to(current.clone());
        config.check()?;
        // What can fail comes first: a change that fails has changed nothing.
        self.watchdog.start(self, &config)?;
        self.settings.set(&config);
        self.overtaking.set(config.overtakes_max);
        let now_ns = self.metrics.now_ns();
        let terms = Terms {
            promote_after_ns: in_ns(config.promote_after),
            tau_ns: config.tau.map_or(UNBOUNDED_NS, in_ns),
            lock_waiters_max: config.lock_waiters_max,
        };
        let keeps_limit = !sets_limit && self.watchdog.keeps_limit(&config);
        let limit = if keeps_limit { self.core.state().limit() } else { config.first_limit() };
        let by_terms = self.core.set_terms(terms, now_ns);
        let (by_rule, _) = self.core.set_rule(config.policy, limit, now_ns);
        self.watchdog.configure(&config, sets_limit);
        let anticipates = config.anticipates();
        *current = config;
        drop(current);
        let mut wakers = self.tell(by_terms, || now_ns);
        wakers.add(self.tell(by_rule, || now_ns));
        wakers.call();
        // Only now: it calls wakers, too, and those of before must not wait for theirs.
        if !anticipates {
            self.anticipate(|| false, now_ns);
        }
        Ok(())
    }

    /// The limit now; 0: none.
    pub fn thread_concurrency(&self) -> u32 {
        self.core.state().limit()
    }

    /// Changes the limit alone; see [`Admission::reconfigure`]. 0: no limit.
    ///
    /// With [`Config::auto`] the search begins again from this limit, brought between the bounds: 0 is the lower one. Also if it
    /// is the limit that was told last.
    pub fn set_thread_concurrency(self: &Arc<Self>, limit: u32) -> Result<(), ConfigError> {
        self.change(|config| Config { thread_concurrency: limit, ..config }, true)
    }

    /// A new tenant. While several tenants have sessions in the queue, places go to them by `weight`; the
    /// sessions that were given no tenant share one of weight 1. A weight is one of [`Tenant::WEIGHTS`].
    pub fn tenant(&self, weight: f64) -> Result<Tenant, ConfigError> {
        if !Tenant::WEIGHTS.contains(&weight) {
            return Err(ConfigError::Weight(weight));
        }
        let mut tenants = lock(&self.tenants);
        if *tenants == Tenant::MAX {
            return Err(ConfigError::Tenants);
        }
        *tenants += 1;
        Ok(Tenant(self.core.add_tenant(weight)))
    }

    /// A handle for one connection.
    ///
    /// # Panics
    /// If [`Admission::SESSIONS_MAX`] sessions of this scheduler are alive.
    pub fn session(self: &Arc<Self>) -> Session {
        Session::new(self)
    }

    /// Counters, T, P and Q, and histograms of time.
    pub fn snapshot(&self) -> Snapshot {
        let disk_waits = self.disk_waits.load(Ordering::Relaxed);
        self.metrics.snapshot(self.core.observed(), self.core.counts(), disk_waits)
    }

    /// Does what depends on time alone: closes the gate when the head of the queue is too old, refuses async tasks whose deadline has passed, takes places that wait for
    /// their sessions for too long, breaks a stall, lifts the limit where most wait for disks, and tries limits if the limit finds itself.
    /// For schedulers without a watchdog ([`Config::watchdog`]); call it every few milliseconds, also while nobody queues, if
    /// [`Config::disk_bound_percent`], [`Config::anticipate`] or `auto` is set: a limit that is lifted is set again by it, and a place that waits
    /// for its session is another's.
    pub fn step(self: &Arc<Self>, now: Instant) {
        // The last of all times stands for never, which has not come.
        let now_ns = self.metrics.ns_of(now).min(UNBOUNDED_NS - 1);
        let overdue = self.core.withdraw_overdue(now_ns);
        tell_all(overdue, Verdict::TimedOut, |_| {}).call();
        if self.core.close_gate(now_ns) {
            // A place may have been left for one whom the gate keeps out.
            self.wake(self.core.serve(now_ns));
        }
        self.watchdog.tries_to_wait(&self.metrics, self.core.observed(), now_ns);
        self.anticipate(|| self.watchdog.lets_wait(), now_ns);
        // Should the thread that was woken last not run for long, such as a task that nobody polls.
        self.wake(self.core.offer_kept(self.core.state(), || now_ns));
        if self.watchdog.stalls(&self.core, &self.metrics, now_ns) {
            let wake = self.core.break_stall(now_ns);
            if matches!(wake, Wake::Granted(_)) {
                self.metrics.broke_stall();
            }
            self.wake(wake);
        }
        let disk_waits = self.disk_waits.load(Ordering::Relaxed);
        let lifted = self.watchdog.lifted_limit(&self.metrics, self.core.observed(), disk_waits, now_ns);
        let better = || self.watchdog.better_limit(&self.metrics, self.core.observed(), now_ns);
        if let Some(limit) = lifted.or_else(better) {
            self.try_limit(limit);
        }
    }

    /// Sets the limit on behalf of the watchdog, if that still wants that one.
    fn try_limit(&self, limit: u32) {
        // Under the lock, so that a change is not undone: neither of the policy, nor of the limit, which comes with another
        // controller, or with none.
        let config = lock(&self.config);
        if !self.watchdog.wants_limit(limit) {
            return;
        }
        let (wake, _) = self.core.set_rule(config.policy, limit, self.metrics.now_ns());
        drop(config);
        // The thread is not to sleep while the limit is lifted, also if another called this.
        self.watchdog.rouse();
        self.wake(wake);
    }

    /// The bounds of a limit that finds itself, if it does.
    pub fn auto(&self) -> Option<AutoLimit> {
        lock(&self.config).auto
    }

    /// Wakes whom a step of the core said.
    pub(crate) fn wake(&self, wake: Wake) {
        self.wake_at(wake, || self.metrics.now_ns());
    }

    /// As [`Admission::wake`]; `now_ns` says when that is, and is asked only if somebody is woken.
    pub(crate) fn wake_at(&self, wake: Wake, now_ns: impl FnOnce() -> u64) {
        self.tell(wake, now_ns).call();
    }

    /// As [`Admission::wake_at`], but leaves it to the caller to call the wakers of tasks.
    pub(crate) fn tell(&self, wake: Wake, now_ns: impl FnOnce() -> u64) -> Wakers {
        let at = |now_ns: u64| {
            // Relaxed: the parker's word publishes it.
            move |node: &Node| node.granted_at_ns.store(now_ns, Ordering::Relaxed)
        };
        let (list, verdict) = match wake {
            Wake::Nobody => return Wakers::default(),
            Wake::Retry(list) => return tell_all(list, Verdict::Retry, |_| {}),
            Wake::Granted(list) => (list, Verdict::Granted),
            Wake::Summoned(list) => (list, Verdict::Summoned),
        };
        self.metrics.saw_pending(self.core.state());
        tell_all(list, verdict, at(now_ns()))
    }
}

/// Gives everybody in a list the verdict, after `before`.
fn tell_all(mut list: List, verdict: Verdict, before: impl Fn(&Node)) -> Wakers {
    let mut wakers = Wakers::default();
    while let Some(node) = list.pop_front() {
        before(&node);
        wakers.add(node.parker.tell(verdict));
    }
    wakers
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.watchdog.end();
    }
}
