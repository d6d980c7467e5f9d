//! The stall rule: what happens when running threads do not leave.
//!
//! Not every wait is declared, and statements can be long. So while others queue the watchdog looks at the sessions, eight times in a
//! [`stall_limit`](crate::Config::stall_limit):
//!
//! - *Slot reclaim.* A session that has run on one slot for the stall limit loses it to the next and goes on without one; its
//!   exit has nothing to release. Otherwise as many reports as there are slots would keep everybody else out. During a
//!   trial of the adaptive limit, a second or so, sessions keep their slots: if the trial ends in a collapse, all of them run for long.
//! - *Stall breaker.* When nobody has entered or left for the stall limit, one more waiter is admitted above the limit: the
//!   sessions granted slots do not run, such as tasks that nobody polls.
//!
//! Both are free of clocks and threads: the caller passes the time.

use crate::gate::Gate;
use crate::gate::word::Word;
use crate::metrics::Metrics;

/// How often in a stall limit the sessions are looked at.
const LOOKS: u64 = 8;
/// A look takes no more than a hundredth of the time until the next.
const COST_MAX: u64 = 100;

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stalls {
    /// Slots that were reclaimed, each to be released.
    pub(crate) reclaimed: u32,
    /// Whether to admit one more.
    pub(crate) breaks: bool,
}

/// What the watchdog remembers between two looks.
#[derive(Default)]
pub(crate) struct StallRule {
    /// `None`: the rule is off.
    limit_ns: Option<u64>,
    /// When to look again, ns.
    look_at_ns: u64,
    /// What had happened when somebody entered or left last, and when that was, ns.
    progress: (u64, u64),
    progress_at_ns: u64,
    /// The lowest T since then. Above the limit an exit releases its slot, and a lower T is all that shows it. A T that falls again after
    /// the end of a wait raised it shows nothing.
    slots_low: u32,
}

impl StallRule {
    /// Sets the limit, ns; `None` switches the rule off.
    pub(crate) fn set_limit(&mut self, limit_ns: Option<u64>) {
        if limit_ns != self.limit_ns {
            self.limit_ns = limit_ns;
            self.look_at_ns = 0;
        }
    }

    /// Looks at the sessions, if it is time to. Without `reclaims` they keep their slots.
    pub(crate) fn look(&mut self, gate: &Gate, metrics: &Metrics, now_ns: u64, reclaims: bool) -> Stalls {
        let Some(limit_ns) = self.limit_ns else { return Stalls::default() };
        if now_ns < self.look_at_ns {
            return Stalls::default();
        }
        let began_ns = metrics.now_ns();
        let word = gate.word();
        let reclaimed = if reclaims && word.queued() != 0 { metrics.reclaim(limit_ns, now_ns) } else { 0 };
        let breaks = self.is_stalled(gate, word, metrics, limit_ns, now_ns);
        let took_ns = metrics.now_ns().saturating_sub(began_ns);
        self.look_at_ns = now_ns.saturating_add((limit_ns / LOOKS).max(COST_MAX * took_ns));
        Stalls { reclaimed, breaks: breaks && reclaimed == 0 }
    }

    /// Whether somebody queues and nobody has entered or left for the limit.
    fn is_stalled(&mut self, gate: &Gate, word: Word, metrics: &Metrics, limit_ns: u64, now_ns: u64) -> bool {
        let (served, entries) = self.progress;
        let served_now = gate.served();
        let moves = word.queued() == 0 || served_now != served || word.slots() < self.slots_low;
        // Reading the counters of all sessions costs too much while the queue moves.
        let entries_now = if moves { entries } else { metrics.progress() };
        let is_stalled =
            !moves && entries_now == entries && now_ns.saturating_sub(self.progress_at_ns) >= limit_ns;
        // The waiter that is admitted because of a stall has as long again.
        if moves || entries_now != entries || is_stalled {
            self.progress = (served_now, entries_now);
            self.slots_low = word.slots();
            self.progress_at_ns = now_ns;
        }
        is_stalled
    }
}
