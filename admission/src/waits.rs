//! Waits of a thread inside: they give up the place, nest, and come back.

use std::cell::Cell;

use crate::in_turn::others_wait_by_turns;
use crate::metrics::add;
use crate::session::{Held, Session};
use crate::sync::Ordering;
use crate::{Class, Refused, WaitKind};

/// A session's waits.
pub(crate) struct Waits {
    /// Waits begun and not ended.
    depth: Cell<u32>,
    /// The outermost wait, and when it began, ns since the scheduler was made.
    outermost: Cell<Option<(WaitKind, u64)>>,
    /// While `Held::Waiting`: the kind and depth of the wait that gave up the place.
    left: Cell<Option<(WaitKind, u32)>>,
    /// It is one of those that [`crate::Config::lock_waiters_max`] bounds.
    counted: Cell<bool>,
    /// How many places the session had taken when it waited for a disk last: another wait on the same one counts no more.
    read_on_place: Cell<u64>,
    /// Waits for row locks, of those begun and not ended.
    for_rows: Cell<u32>,
}

impl Waits {
    pub(crate) fn new() -> Self {
        Waits {
            depth: Cell::new(0),
            outermost: Cell::new(None),
            left: Cell::new(None),
            counted: Cell::new(false),
            read_on_place: Cell::new(0),
            for_rows: Cell::new(0),
        }
    }
}

impl Session {
    /// Begins a wait: gives up the place, if [`crate::Config::wait_mask`] has this kind and, for the disk, fewer
    /// than [`crate::Config::io_depth`] disk waits are under way. Waits nest; the outermost one that gives up
    /// the place takes it back.
    pub fn wait_begin(&self, kind: WaitKind) {
        let depth = self.waits.depth.get() + 1;
        self.waits.depth.set(depth);
        if depth == 1 {
            self.waits.outermost.set(Some((kind, self.admission.metrics.now_ns())));
        }
        match kind {
            WaitKind::Disk if self.is_inside() => self.count_reader(),
            WaitKind::RowLock => {
                self.waits.for_rows.set(self.waits.for_rows.get() + 1);
                add(&self.counters.row_waits, 1);
            }
            _ => {}
        }
        if self.is_inside() && self.admission.settings.wait_mask().contains(kind) && self.may_give_up(kind) {
            // Noted before anybody is woken: a waker may use this session.
            self.turn.deficit.stops(u64::MAX);
            let counts = self.put_down(Held::Waiting);
            self.waits.left.set(Some((kind, depth)));
            if kind == WaitKind::RowLock {
                self.waits.counted.set(true);
                self.count_lock_wait(true);
            }
            if counts {
                self.hand_over(true);
            }
        }
    }

    /// Ends a wait. Never blocks, since the caller may hold latches: if the wait gave up the place, this
    /// forces its way back in past the limit, with one ticket; exits repay the overshoot.
    ///
    /// Without a `wait_begin` before it, it does nothing.
    pub fn wait_end(&self, kind: WaitKind) {
        if self.comes_back(kind) {
            self.force_entry(2);
            if kind == WaitKind::Disk {
                let state = self.last_seen.get();
                self.turn.returned(state.queued() != 0 && state.places() > state.limit());
            }
        }
    }

    /// As [`Session::wait_end`], but queues when the limit is reached, before those of the normal class and behind
    /// holders of locks that came before.
    /// Only where the caller holds nothing others may wait for: no latch, no mutex. When it is refused, it
    /// is outside.
    pub fn wait_end_may_queue(&self, kind: WaitKind) -> Result<(), Refused> {
        if !self.comes_back(kind) {
            return Ok(());
        }
        self.place.set(Held::No);
        // What it has now is within the limit.
        self.turn.returned(false);
        let reads = self.waits.read_on_place.get() == self.counters.places();
        if !self.enter_at_once() {
            let state = self.queue_ahead()?;
            self.has_place(state);
        }
        if reads {
            // It goes on with what it had begun.
            self.waits.read_on_place.set(self.counters.places());
        }
        Ok(())
    }

    /// The wait for a row lock that goes on does not count for [`crate::Config::lock_waiters_max`] any more: its
    /// holder takes its time, or the session stands behind others that wait for the same lock. So the bound is on how many
    /// locks are handed from one to the next right now, and neither one row that everybody wants nor a holder that
    /// sits idle keeps the others out.
    pub fn wait_is_long(&self) {
        if self.waits.counted.replace(false) {
            self.count_lock_wait(false);
        }
    }

    /// Waits begun and not ended.
    pub fn wait_depth(&self) -> u32 {
        self.waits.depth.get()
    }

    /// One wait less; whether the session must take its place again. If so, it asks for it already.
    fn comes_back(&self, kind: WaitKind) -> bool {
        let depth = self.waits.depth.get();
        let Some(depth_left) = depth.checked_sub(1) else { return false };
        self.waits.depth.set(depth_left);
        let for_rows = self.waits.for_rows.get();
        if kind == WaitKind::RowLock && for_rows != 0 {
            self.waits.for_rows.set(for_rows - 1);
            add(&self.counters.row_waits_over, 1);
        }
        // Of a wait within a wait that kept the place, no time is known: it counts as time inside.
        let mut waited_ns = 0;
        if depth_left == 0
            && let Some((kind, began_ns)) = self.waits.outermost.take()
        {
            let metrics = &self.admission.metrics;
            waited_ns = metrics.now_ns().saturating_sub(began_ns);
            metrics.waited(kind, waited_ns);
        }
        match self.waits.left.get() {
            Some((kind, at)) if at == depth && self.place.get() == Held::Waiting => {
                self.waits.left.set(None);
                self.turn.pause(waited_ns);
                self.place.set(Held::Asks);
                self.uncount(kind);
                true
            }
            _ => false,
        }
    }

    /// An exit inside a wait: there is nothing to come back to.
    #[cold]
    pub(crate) fn abandon_wait(&self) {
        self.place.set(Held::No);
        self.end_turn();
        if let Some((kind, _)) = self.waits.left.take() {
            self.uncount(kind);
        }
    }

    /// It waits for a disk on the place it has.
    fn count_reader(&self) {
        let places = self.counters.places();
        if self.waits.read_on_place.replace(places) != places {
            add(&self.counters.read_from_disk, 1);
        }
    }

    /// None of its waits for row locks is under way any more.
    pub(crate) fn forget_row_waits(&self) {
        add(&self.counters.row_waits_over, u64::from(self.waits.for_rows.take()));
    }

    /// Whether one more wait of this kind may give up its place.
    fn may_give_up(&self, kind: WaitKind) -> bool {
        if kind != WaitKind::Disk {
            return true;
        }
        let io_depth = self.admission.settings.io_depth();
        let below = |waits: u32| (io_depth == 0 || waits < io_depth).then_some(waits + 1);
        // Relaxed: it is a bound on a number and guards nothing.
        let relaxed = Ordering::Relaxed;
        self.admission.disk_waits.fetch_update(relaxed, relaxed, below).is_ok()
    }

    /// A wait that gave up the place is over.
    fn uncount(&self, kind: WaitKind) {
        match kind {
            WaitKind::Disk => _ = self.admission.disk_waits.fetch_sub(1, Ordering::Relaxed),
            WaitKind::RowLock => self.wait_is_long(),
            _ => {}
        }
    }

    fn count_lock_wait(&self, begins: bool) {
        let now_ns = self.admission.metrics.now_ns();
        let wake = self.admission.core.lock_wait(begins, now_ns);
        self.admission.wake(wake);
    }

    /// Past the limit it goes on with a turn in which it made way for another; whether it does. Not while the head of the queue has
    /// waited too long, holders of locks wait, or only they are let in; nor beyond some times the limit, since a disk that stood
    /// still lets all come back together.
    #[cold]
    pub(crate) fn goes_on_past_limit(&self) -> bool {
        const TIMES_THE_LIMIT: u32 = 8;
        let core = &self.admission.core;
        let state = core.state();
        let goes_on = self.turn.made_way()
            && others_wait_by_turns(state)
            && !(state.closed() || state.congested())
            && state.places() < TIMES_THE_LIMIT * state.limit()
            && (self.class() == Class::First || !core.first_waits())
            && self.may_overtake()
            && self.turn.is_on(self.admission.metrics.now_ns(), self.admission.settings.quantum_ns());
        if goes_on {
            add(&self.counters.entered_past_limit, 1);
            self.force_entry(self.admission.settings.tickets());
        }
        goes_on
    }

    /// Enters without asking; the entry uses one of the tickets.
    pub(crate) fn force_entry(&self, tickets: u32) {
        add(&self.counters.entered_by_force, 1);
        // Without a limit, T need not count it; see `Session::ask_once`.
        if self.admission.core.state().unlimited() {
            return self.take(Held::Uncounted, tickets);
        }
        let state = self.admission.core.enter_by_force();
        self.is_timed_if_others_wait(state);
        self.last_seen.set(state);
        self.admission.metrics.saw_places(state);
        self.take(Held::Place, tickets);
    }
}
