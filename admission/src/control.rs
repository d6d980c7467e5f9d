//! Making a scheduler, changing its settings while it runs, and looking at it.

use std::sync::Arc;

use flifo_auto::State as AutoState;

use crate::config::{Config, ConfigError};
use crate::gate::word::SESSIONS_MAX;
use crate::metrics::Snapshot;
use crate::session::Session;
use crate::shared::{Admission, UNBOUNDED_NS, in_ns};
use crate::sync::{Ordering, lock};
use crate::watchdog;

impl Admission {
    /// The most sessions of one scheduler at a time.
    pub const SESSIONS_MAX: u32 = SESSIONS_MAX as u32;

    /// Makes a scheduler with this configuration; an impossible one is an error that says what is allowed.
    pub fn new(config: Config) -> Result<Arc<Self>, ConfigError> {
        config.check()?;
        let admission = Arc::new(Admission::unconfigured(config.clone()));
        admission.reconfigure(config)?;
        Ok(admission)
    }

    /// The configuration that was set last. With `auto`, [`Admission::thread_concurrency`] returns the limit now.
    pub fn config(&self) -> Config {
        lock(&self.config).clone()
    }

    /// Changes the configuration at run time. A higher limit admits as many as now fit; a lower one takes effect as threads exit. When the
    /// policy changes, or there is no limit any more, everybody in the queue tries again. A change that is refused changes nothing.
    ///
    /// With `auto`, the controller begins again only if [`Config::thread_concurrency`] differs from before.
    pub fn reconfigure(self: &Arc<Self>, config: Config) -> Result<(), ConfigError> {
        self.change(|_| config, false)
    }

    /// Changes the limit alone; see [`Admission::reconfigure`]. 0 = unlimited.
    ///
    /// With [`Config::auto`] the controller begins again with this limit, also if it is the limit set last.
    pub fn set_thread_concurrency(self: &Arc<Self>, limit: u32) -> Result<(), ConfigError> {
        self.change(|config| Config { thread_concurrency: limit, ..config }, true)
    }

    /// `sets_limit`: also if it is the limit set last, and the tuner has found another since.
    fn change(
        self: &Arc<Self>,
        to: impl FnOnce(Config) -> Config,
        sets_limit: bool,
    ) -> Result<(), ConfigError> {
        // Held throughout, so that two changes do not mix. Nobody is woken under the lock, since a task's waker may do anything.
        let mut current = lock(&self.config);
        let config = to(current.clone());
        config.check()?;
        // What can fail comes first: a change that fails has changed nothing.
        if config.watchdog && !cfg!(any(loom, shuttle, miri)) {
            let started = self.alarm.start(|| watchdog::spawn(self));
            started.map_err(|error| ConfigError::Watchdog(error.to_string()))?;
        }
        self.settings.set(&config);
        self.extra.configure(&config);
        lock(&self.stall).set_limit(config.stall_limit.map(in_ns));
        let limit = {
            let mut tuner = lock(&self.tuner);
            let keeps_limit = !sets_limit && tuner.keeps_limit(&config);
            tuner.configure(&config, sets_limit);
            self.settings.sample_at_ns.set(tuner.sample_at_ns().unwrap_or(UNBOUNDED_NS));
            if keeps_limit { self.gate.word().limit() } else { config.first_limit() }
        };
        let now_ns = self.metrics.now_ns();
        let by_bounds = self.gate.set_bounds(in_ns(config.promote_after), config.lock_waiters_max, now_ns);
        let by_rule = self.gate.set_rule(config.policy, limit, now_ns);
        *current = config;
        drop(current);
        // The watchdog's thread sleeps until somebody queues, if nothing is to be sampled.
        self.alarm.unpark();
        let mut wakers = self.notify(by_bounds, || now_ns);
        wakers.0.extend(self.notify(by_rule, || now_ns).0);
        wakers.call();
        // Last: it calls wakers, too, and those of before must not wait for theirs.
        if !self.extra.reserves() {
            self.release_expired(now_ns);
        }
        Ok(())
    }

    /// What an adaptive limit does now; `None` without [`Config::auto`].
    pub fn auto_state(&self) -> Option<AutoState> {
        lock(&self.tuner).state()
    }

    /// Whether an adaptive limit is not in force, and about to stay so: entries need no more than to be counted
    /// ([`Session::enter_uncounted`]).
    pub fn is_dormant(&self) -> bool {
        lock(&self.tuner).is_dormant()
    }

    /// The limit now; 0 = unlimited.
    pub fn thread_concurrency(&self) -> u32 {
        self.gate.word().limit()
    }

    /// Makes a handle for one connection.
    ///
    /// # Panics
    /// If [`Admission::SESSIONS_MAX`] sessions of this scheduler are alive.
    pub fn session(self: &Arc<Self>) -> Session {
        Session::new(self)
    }

    /// Counters, T, P and Q, and histograms of time.
    pub fn snapshot(&self) -> Snapshot {
        let disk_waits = self.disk_waits.load(Ordering::Relaxed);
        self.metrics.snapshot(self.observed(), self.gate.counts(), disk_waits)
    }
}
