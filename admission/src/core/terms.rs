//! What the scheduler is told beside entries and exits: policy and limit, terms, waits for row locks, and the time. And what it tells.

use super::{Core, Wake, single};
use crate::Policy;
use crate::state::{PENDING_MAX, State};
use crate::waiting::Waiting;

/// What the queue is told at run time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) promote_after_ns: u64,
    pub(crate) tau_ns: u64,
    pub(crate) lock_waiters_max: u32,
}

/// What the queue counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    /// Promotions by age so far.
    pub(crate) promoted: u64,
    /// Those that joined and owed, so far.
    pub(crate) queued_owing: u64,
    /// Sessions in waits for row locks now.
    pub(crate) lock_waiters: u32,
}

impl Core {
    /// Sets policy and limit. Raising the limit wakes as many as now fit; another policy, or no limit,
    /// sends everybody in the queue to ask again.
    pub(crate) fn set_rule(&self, policy: Policy, limit: u32, now_ns: u64) -> (Wake, State) {
        let mut waiting = self.queue();
        // Policy and flags change under the lock only, so what is seen now stays so.
        let idle = State::idle(policy, limit);
        if idle.unlimited() || self.state().policy() != policy {
            let state = self.change(|state| state.with_rule(policy, limit).dispersed());
            self.give_back_kept();
            return (Wake::Retry(waiting.take_all()), state);
        }
        let after = self.change(|state| state.with_rule(policy, limit));
        (self.fill(&mut waiting, now_ns), after)
    }

    /// Sets what does not stand in the word.
    pub(crate) fn set_terms(&self, terms: Terms, now_ns: u64) -> Wake {
        let mut waiting = self.queue();
        waiting.promote_after_ns = terms.promote_after_ns;
        waiting.tau_ns = terms.tau_ns;
        waiting.lock_waiters_max = terms.lock_waiters_max;
        self.reopen(&waiting, now_ns);
        self.note_congestion(&mut waiting, now_ns)
    }

    /// One more tenant; its number.
    pub(crate) fn add_tenant(&self, weight: f64) -> u32 {
        self.queue().add_tenant(weight)
    }

    /// One more, or one less, waits for a row lock.
    pub(crate) fn lock_wait(&self, begins: bool, now_ns: u64) -> Wake {
        let mut waiting = self.queue();
        waiting.lock_waiters = match begins {
            true => waiting.lock_waiters + 1,
            false => waiting.lock_waiters.saturating_sub(1),
        };
        self.note_congestion(&mut waiting, now_ns)
    }

    fn note_congestion(&self, waiting: &mut Waiting, now_ns: u64) -> Wake {
        let congested = waiting.lock_waiters_max != 0 && waiting.lock_waiters >= waiting.lock_waiters_max;
        if self.state().congested() == congested {
            return Wake::Nobody;
        }
        self.change(|state| state.with_congested(congested));
        self.fill(waiting, now_ns)
    }

    /// Closes the gate to newcomers if the one that waits longest has waited for tau; true while it is closed.
    pub(crate) fn close_gate(&self, now_ns: u64) -> bool {
        let waiting = self.queue();
        if head_is_old(&waiting, now_ns) && !self.state().closed() {
            self.change(|state| state.with_closed(true));
        }
        self.reopen(&waiting, now_ns);
        self.state().closed()
    }

    /// Opens the gate again once nobody waits too long.
    pub(super) fn reopen(&self, waiting: &Waiting, now_ns: u64) {
        if self.state().closed() && !head_is_old(waiting, now_ns) {
            self.change(|state| state.with_closed(false));
        }
    }

    /// Nothing moves: admits the next past the limit. The stall breaker.
    pub(crate) fn break_stall(&self, now_ns: u64) -> Wake {
        let mut waiting = self.queue();
        let mut old = self.state();
        // However many are pending: they may be tasks that nobody polls, which say nothing of the next. It is asked once in a
        // stall time, so those who are merely slow are not joined by many.
        while old.queued() > 0 && old.pending() < PENDING_MAX {
            match self.swap(old, old.granted()) {
                Ok(new) => {
                    let next = waiting.pop(new.policy().rule().end, now_ns);
                    self.reopen(&waiting, now_ns);
                    return Wake::Granted(single(next));
                }
                Err(seen) => old = seen,
            }
        }
        Wake::Nobody
    }

    /// A number that grows with each session that is served from the queue.
    pub(crate) fn served(&self) -> u64 {
        self.queue().served
    }

    /// What the queue counts.
    pub(crate) fn counts(&self) -> Counts {
        let waiting = self.queue();
        Counts {
            promoted: waiting.promoted,
            queued_owing: waiting.debts.owing,
            lock_waiters: waiting.lock_waiters,
        }
    }
}

fn head_is_old(waiting: &Waiting, now_ns: u64) -> bool {
    // Asked on every hand-off, so the common case, no tau, must cost nothing.
    waiting.tau_ns != u64::MAX
        && waiting.oldest_ns().is_some_and(|at_ns| now_ns.saturating_sub(at_ns) > waiting.tau_ns)
}
