//! What all sessions of a scheduler share.

use crate::alarm::Alarm;
use crate::config::{Config, WaitKind, cpus};
use crate::gate::parker::{Verdict, Wakers};
use crate::gate::queue::{List, Node};
use crate::gate::word::Word;
use crate::gate::{Gate, Leaver, Wake};
use crate::hooks::Extra;
use crate::metrics::Metrics;
use crate::quantum::barging::Barging;
use crate::stall::StallRule;
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering};
use crate::tuner::Tuner;

/// A scheduler: shared by all sessions that compete for the same CPUs.
pub struct Admission {
    pub(crate) gate: Gate,
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    pub(crate) barging: Barging,
    pub(crate) extra: Extra,
    /// Disk waits that released their slots. Invariant: counts the sessions between such a `wait_begin` and its end; never above the
    /// io_depth that was set when the last of them began.
    pub(crate) disk_waits: AtomicU32,
    /// Rouses the watchdog.
    pub(crate) alarm: Alarm,
    /// Locked after `config`, if that is locked, too.
    pub(crate) stall: Mutex<StallRule>,
    /// Locked after `config`, if that is locked, too.
    pub(crate) tuner: Mutex<Tuner>,
    /// Held throughout a change, so that two changes do not mix.
    pub(crate) config: Mutex<Config>,
}

impl Admission {
    pub(crate) fn unconfigured(config: Config) -> Self {
        Admission {
            gate: Gate::new(config.policy, config.thread_concurrency, cpus()),
            settings: Settings::default(),
            metrics: Metrics::new(),
            barging: Barging::new(),
            extra: Extra::new(cpus()),
            disk_waits: AtomicU32::new(0),
            alarm: Alarm::new(),
            stall: Mutex::default(),
            tuner: Mutex::default(),
            config: Mutex::new(config),
        }
    }

    /// The word without the slots that no thread has.
    pub(crate) fn observed(&self) -> Word {
        let kept = self.extra.kept();
        self.gate.word().without(kept)
    }

    /// Wakes those that a step of the gate named.
    pub(crate) fn wake(&self, wake: Wake) {
        self.wake_at(wake, || self.metrics.now_ns());
    }

    /// As [`Admission::wake`]. `now_ns` returns the time, and is called only if somebody is woken.
    pub(crate) fn wake_at(&self, wake: Wake, now_ns: impl FnOnce() -> u64) {
        self.notify(wake, now_ns).call();
    }

    /// As [`Admission::wake_at`], but leaves it to the caller to call the wakers of tasks.
    pub(crate) fn notify(&self, wake: Wake, now_ns: impl FnOnce() -> u64) -> Wakers {
        match wake {
            Wake::Nobody => Wakers::default(),
            Wake::Retry(list) => notify_all(list, Verdict::Retry, |_| {}),
            Wake::Granted(list) => {
                self.metrics.saw_pending(self.gate.word());
                let now_ns = now_ns();
                // Relaxed: the parker's word publishes it.
                notify_all(list, Verdict::Granted, |node| node.granted_at_ns.store(now_ns, Ordering::Relaxed))
            }
        }
    }

    /// Releases a slot that T counts on behalf of a session that will not be back at once; returns the wakers to call.
    pub(crate) fn release_for(&self) -> Wakers {
        if self.gate.try_exit(self.gate.word()).is_some() {
            return Wakers::default();
        }
        let now_ns = || self.metrics.now_ns();
        let (wake, _) = self.gate.exit_and_wake(Leaver { in_slice: false, holds_locks: false }, &now_ns);
        self.notify(wake, now_ns)
    }
}

/// Gives everybody in a list the verdict, after `before`.
pub(crate) fn notify_all(mut list: List, verdict: Verdict, before: impl Fn(&Node)) -> Wakers {
    let mut wakers = Wakers::default();
    while let Some(node) = list.pop_front() {
        before(&node);
        wakers.0.extend(node.parker.notify(verdict));
    }
    wakers
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.alarm.unpark();
    }
}

/// The part of the configuration that sessions read on their way. On cache lines of their own: every entry reads them, and hardly anybody
/// writes them.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Settings {
    pub(crate) tickets: Setting,
    pub(crate) wait_mask: Setting,
    pub(crate) io_depth: Setting,
    pub(crate) queue_limit: Setting,
    pub(crate) queue_timeout_ns: Setting,
    pub(crate) quantum_ns: Setting,
    pub(crate) stall_limit_ns: Setting,
    /// When the next sample for the adaptive limit is due: the tuner's, or [`UNBOUNDED_NS`] if there is none, or while one is taken.
    pub(crate) sample_at_ns: Setting,
}

/// One setting. Each stands for itself, so relaxed accesses suffice: a session that sees a new value late does what it did the moment
/// before.
#[derive(Default)]
pub(crate) struct Setting(AtomicU64);

impl Setting {
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Puts [`UNBOUNDED_NS`] in place of a time that is over. Returns whether it did; of several callers one does.
    #[inline]
    pub(crate) fn take_if_over(&self, now_ns: u64) -> bool {
        let at_ns = self.get();
        at_ns <= now_ns
            && self.0.compare_exchange(at_ns, UNBOUNDED_NS, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// Stands for "never" and "any time".
pub(crate) const UNBOUNDED_NS: u64 = u64::MAX;

impl Settings {
    pub(crate) fn set(&self, config: &Config) {
        self.tickets.set(config.concurrency_tickets.into());
        self.wait_mask.set(config.wait_mask.bits().into());
        self.io_depth.set(config.io_depth.into());
        self.queue_limit.set(config.queue_limit.into());
        self.queue_timeout_ns.set(config.queue_timeout.map_or(UNBOUNDED_NS, in_ns));
        self.quantum_ns.set(in_ns(config.quantum));
        self.stall_limit_ns.set(config.stall_limit.map_or(UNBOUNDED_NS, in_ns));
    }

    #[inline]
    pub(crate) fn tickets(&self) -> u32 {
        self.tickets.get() as u32
    }

    /// Whether waits of this kind release the slot.
    pub(crate) fn releases(&self, kind: WaitKind) -> bool {
        self.wait_mask.get() & 1 << kind as u64 != 0
    }

    /// Whether the slot of a session that runs for long is reclaimed.
    #[inline]
    pub(crate) fn reclaims(&self) -> bool {
        self.stall_limit_ns.get() != UNBOUNDED_NS
    }
}

/// A time in ns; a longer one than fits is as good as never.
pub(crate) fn in_ns(time: std::time::Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(UNBOUNDED_NS)
}
