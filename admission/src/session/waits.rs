//! Declared waits of a running session: they release the slot, nest, and come back.

use super::{Session, State};
use crate::config::WaitKind;
use crate::metrics::record;
use crate::sync::Ordering;

impl Session {
    /// Begins a wait: releases the slot, if [`crate::Config::wait_mask`] has this kind and, for the disk, fewer than
    /// [`crate::Config::io_depth`] disk waits are under way. Waits nest; the outermost one that releases the slot takes it back.
    pub fn wait_begin(&self, kind: WaitKind) {
        let depth = self.waits.depth.get() + 1;
        self.waits.depth.set(depth);
        if depth == 1 {
            self.waits.outermost.set(Some((kind, self.admission.metrics.now_ns())));
        }
        let may_release = self.is_running() && self.admission.settings.releases(kind) && !self.is_reclaimed();
        if may_release && self.may_release(kind) {
            // Noted before anybody is woken: a waker may use this session.
            self.slice.deficit.stop(u64::MAX);
            let counts = self.put_down(State::Waiting);
            self.waits.released.set(Some((kind, depth)));
            if kind == WaitKind::RowLock {
                self.counters.waits_for_row.store(1, Ordering::Relaxed);
                self.waits.is_counted.set(true);
                self.count_lock_wait(true);
            }
            if counts {
                self.release(true);
            }
        }
        self.check();
    }

    /// Ends a wait. Never blocks, since the caller may hold latches: if the wait released the slot, this enters by force, with one
    /// ticket; exits repay the overshoot.
    ///
    /// Without a `wait_begin` before it, it does nothing.
    pub fn wait_end(&self, _kind: WaitKind) {
        if self.comes_back() {
            self.force(2);
        }
        self.check();
    }

    /// Marks the session's row-lock wait as long: it no longer counts for [`crate::Config::lock_waiters_max`].
    ///
    /// For a session that queues behind others for the same lock, or whose lock holder takes its time. So one hot row or one idle lock
    /// holder does not keep other sessions out.
    pub fn mark_wait_long(&self) {
        if self.waits.is_counted.replace(false) {
            self.count_lock_wait(false);
        }
    }

    /// Waits begun and not ended.
    pub fn wait_depth(&self) -> u32 {
        self.waits.depth.get()
    }

    /// One wait less; whether the session must acquire a slot again. If so, it is doing that already.
    fn comes_back(&self) -> bool {
        let depth = self.waits.depth.get();
        let Some(depth_left) = depth.checked_sub(1) else { return false };
        self.waits.depth.set(depth_left);
        // Of a wait within a wait that kept the slot, no time is known: it counts as running.
        let mut waited_ns = 0;
        if depth_left == 0
            && let Some((kind, began_ns)) = self.waits.outermost.take()
        {
            let metrics = &self.admission.metrics;
            waited_ns = metrics.now_ns().saturating_sub(began_ns);
            record(&metrics.histograms.wait_ns[kind as usize], waited_ns);
        }
        match self.waits.released.get() {
            Some((kind, at)) if at == depth && self.state.get() == State::Waiting => {
                self.waits.released.set(None);
                self.slice.pause(waited_ns);
                self.state.set(State::Acquiring);
                self.uncount(kind);
                true
            }
            _ => false,
        }
    }

    /// An exit inside a wait: there is nothing to come back to.
    #[cold]
    pub(crate) fn abandon_wait(&self) {
        self.state.set(State::Outside);
        self.end_slice();
        if let Some((kind, _)) = self.waits.released.take() {
            self.uncount(kind);
        }
    }

    /// Whether its slot was taken while it runs. It goes through its waits without one, or their ends would bring it a slot again.
    pub fn is_reclaimed(&self) -> bool {
        self.node.hold.is_reclaimed()
    }

    /// Whether one more wait of this kind may release its slot.
    fn may_release(&self, kind: WaitKind) -> bool {
        if kind != WaitKind::Disk {
            return true;
        }
        let io_depth = self.admission.settings.io_depth.get() as u32;
        let below = |waits: u32| (io_depth == 0 || waits < io_depth).then_some(waits + 1);
        // Relaxed: it is a bound on a number and guards nothing.
        let relaxed = Ordering::Relaxed;
        self.admission.disk_waits.fetch_update(relaxed, relaxed, below).is_ok()
    }

    /// A wait that released the slot is over.
    fn uncount(&self, kind: WaitKind) {
        match kind {
            WaitKind::Disk => _ = self.admission.disk_waits.fetch_sub(1, Ordering::Relaxed),
            WaitKind::RowLock => {
                self.counters.waits_for_row.store(0, Ordering::Relaxed);
                self.mark_wait_long();
            }
            _ => {}
        }
    }

    fn count_lock_wait(&self, begins: bool) {
        let wake = self.admission.gate.count_lock_wait(begins, self.admission.metrics.now_ns());
        self.admission.wake(wake);
    }
}
