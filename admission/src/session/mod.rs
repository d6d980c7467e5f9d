//! A connection's handle: acquiring and releasing slots, on the fast path.
//!
//! ARCHITECTURE.md maps the other modules here.
//!
//! # State
//!
//! | [`State`] | means | tickets | T counts a slot | [`Hold`](crate::gate::hold::Hold) | a wait released the slot |
//! |---|---|---|---|---|---|
//! | `Outside` | runs nothing | 0 | no | `FREE` | no |
//! | `Acquiring` | a call on it is about to bring a slot | 0 | no | `FREE` | maybe |
//! | `Waiting` | a declared wait released its slot, and its end acquires one | 0 | no | `FREE` | yes |
//! | `Uncounted` | runs without a limit | any | no | `FREE` | no |
//! | `Running` | runs on a slot | any | yes | `FREE` | no |
//! | `Running`, published | the same, and the watchdog may reclaim the slot | any | yes; no once `RECLAIMED` | `HELD` or `RECLAIMED` | no |
//! | `Reserved` | is outside, a slot waits for it (feature `reservation`) | 0 | yes, until somebody takes it | `RESERVED` or `FREE` | no |
//!
//! Debug builds assert it ([`Session::check`]). A call on a session may run the waker of a task, and that waker may use the session,
//! too. So the state is written before anybody is woken, and an entry within `Acquiring` or `Waiting` does nothing.

pub(crate) mod cancel;
pub(crate) mod queueing;
pub(crate) mod reserved;
pub(crate) mod share;
pub(crate) mod task;
mod uncounted;
pub(crate) mod waits;

use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::config::WaitKind;
use crate::gate::queue::Node;
use crate::gate::word::{Caller, Word};
use crate::gate::{Entered, Leaver, Wake};
use crate::metrics::{Counters, SAMPLE_EVERY, add, record};
use crate::quantum::slice::Slice;
use crate::refused::Refused;
use crate::shared::Admission;

/// Which sessions go first in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Class {
    /// A session that holds locks for which others may wait: it goes before the others, so that the locks are released soon. Others are
    /// promoted by age ([`crate::Config::promote_after`]).
    First,
    /// All other sessions.
    #[default]
    Normal,
}

/// What a session is doing: see the module's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Outside,
    Acquiring,
    Waiting,
    Uncounted,
    Running,
    #[cfg_attr(not(feature = "reservation"), allow(dead_code))]
    Reserved,
}

/// A session's declared waits; [`waits`] changes them.
#[derive(Default)]
pub(crate) struct Waits {
    /// Waits begun and not ended.
    pub(crate) depth: Cell<u32>,
    /// The outermost wait, and when it began, ns since the scheduler was made.
    pub(crate) outermost: Cell<Option<(WaitKind, u64)>>,
    /// The kind and depth of the wait that released the slot, until its end takes it back.
    pub(crate) released: Cell<Option<(WaitKind, u32)>>,
    /// It is one of those that [`crate::Config::lock_waiters_max`] bounds.
    pub(crate) is_counted: Cell<bool>,
}

/// A session's request for a slot that was not free; [`queueing`] takes its steps.
#[derive(Clone, Copy)]
pub(crate) struct Queueing {
    pub(crate) queued_at_ns: u64,
    pub(crate) deadline_ns: u64,
    /// It is within its time slice, and others have its slot. It is the next of its class, and resumes its slice; not if it is sent to try
    /// again.
    pub(crate) resumes: bool,
}

const NOT_SAMPLED: u64 = u64::MAX;

/// One connection's handle. It serves one thread at a time (`Send`, not `Sync`). Dropping it exits.
pub struct Session {
    pub(crate) admission: Arc<Admission>,
    pub(crate) node: Arc<Node>,
    pub(crate) counters: Arc<Counters>,
    number: u64,
    /// The CPU it runs on, as far as it knows: any is right, but another CPU's kept slot is slower.
    cpu: Cell<usize>,
    /// Entries left on the slot it holds.
    tickets: Cell<u32>,
    /// What `tickets` was when it acquired the slot.
    tickets_given: Cell<u32>,
    pub(crate) state: Cell<State>,
    /// The slot is published in the node, and the watchdog may reclaim it.
    is_published: Cell<bool>,
    /// It has lost its slot within a statement, since its tickets had run out.
    pub(crate) is_cut_off: Cell<bool>,
    /// Stays on a slot so far.
    stays: Cell<u64>,
    pub(crate) waits: Waits,
    /// The word as this session saw it last: the guess for its next step.
    pub(crate) last_seen: Cell<Word>,
    /// Where it is in its time slice.
    pub(crate) slice: Slice,
    class: Cell<Class>,
    /// A task's request that is in the queue, or was; see [`task`].
    pub(crate) task_request: Cell<Option<Queueing>>,
    /// When it entered, if this stay is one of those whose time is measured.
    entered_at_ns: Cell<u64>,
    /// Stays until the next measured one.
    until_sample: Cell<u32>,
}

impl Session {
    pub(crate) fn new(admission: &Arc<Admission>) -> Self {
        let node = Node::new();
        let (number, counters) = admission.metrics.registry.register(&node);
        Session {
            node,
            counters,
            number,
            cpu: Cell::new(admission.extra.current_cpu(number)),
            tickets: Cell::new(0),
            tickets_given: Cell::new(0),
            state: Cell::new(State::Outside),
            is_published: Cell::new(false),
            is_cut_off: Cell::new(false),
            stays: Cell::new(0),
            waits: Waits::default(),
            last_seen: Cell::new(admission.gate.word()),
            slice: Slice::new(),
            class: Cell::default(),
            task_request: Cell::new(None),
            entered_at_ns: Cell::new(NOT_SAMPLED),
            // Spread over the sessions, so that many with few entries each are sampled, too.
            until_sample: Cell::new((number % u64::from(SAMPLE_EVERY)) as u32),
            admission: Arc::clone(admission),
        }
    }

    /// Enters: takes a ticket if there is one left, else acquires a slot, and queues until it has one.
    ///
    /// Call it for every engine entry: at the beginning of a statement and for each row. It is refused only when it is cancelled, or if
    /// the configuration has a queue timeout or a queue limit. When its tickets have run out, no queue limit refuses it and it waits for up
    /// to twice the timeout; if it is refused then, it has lost its slot and its statement cannot go on.
    #[inline]
    pub fn enter(&self) -> Result<(), Refused> {
        if self.take_ticket() { Ok(()) } else { self.enter_without_ticket(None) }
    }

    /// As [`Session::enter`], but is refused at `deadline`, if [`crate::Config::queue_timeout`] does not refuse it before.
    #[inline]
    pub fn enter_until(&self, deadline: Instant) -> Result<(), Refused> {
        if self.take_ticket() { Ok(()) } else { self.enter_without_ticket(Some(deadline)) }
    }

    /// Enters if that is possible without queueing; returns whether it runs then. As with [`Session::enter`], a session whose tickets have
    /// run out while others queue loses its slot to them.
    pub fn try_enter(&self) -> bool {
        let had_slot = self.state.get() == State::Running;
        let is_running = self.enter_at_once() && self.is_running();
        if had_slot && !is_running {
            self.offer_free_slots();
        }
        is_running
    }

    /// Enters above the limit if need be, without queueing; exits repay the overshoot. For a session that running threads wait for, such as
    /// the holder of a row lock: if it queued behind them, none of them would exit.
    pub fn enter_forced(&self) {
        if self.tickets.get() == 0 && self.is_running() {
            self.renew_tickets();
        } else if !self.enter_at_once() {
            add(&self.counters.forced_begins, 1);
            self.is_cut_off.set(false);
            self.force(self.admission.settings.tickets());
        }
    }

    /// Exits: hands the slot off to the head of the queue, or releases it. Does nothing outside.
    ///
    /// Call it at the end of a statement, before its reply is sent.
    #[inline]
    pub fn exit(&self) {
        match self.state.get() {
            State::Outside | State::Acquiring | State::Reserved => {}
            State::Waiting => self.abandon_wait(),
            State::Uncounted | State::Running => self.leave(),
        }
        self.check();
    }

    /// As [`Session::exit`], and ends the time slice: for a session that will not be back at once, such as a session about to wait for
    /// others that declares no wait.
    pub fn exit_ending_slice(&self) {
        match self.state.get() {
            State::Outside | State::Acquiring => {}
            State::Waiting => self.abandon_wait(),
            State::Reserved => self.give_up_reservation(),
            State::Uncounted | State::Running => {
                self.end_slice();
                if self.put_down(State::Outside) {
                    self.release(true);
                }
            }
        }
        self.check();
    }

    /// Enters, and exits when the guard is dropped.
    #[inline]
    pub fn slot(&self) -> Result<Slot<'_>, Refused> {
        self.enter()?;
        Ok(Slot { session: self })
    }

    /// As [`Session::enter_forced`], and exits when the guard is dropped.
    #[inline]
    pub fn slot_forced(&self) -> Slot<'_> {
        self.enter_forced();
        Slot { session: self }
    }

    /// Whether this session is running: it has entered and not exited, and no wait has released its slot.
    #[inline]
    pub fn is_running(&self) -> bool {
        matches!(self.state.get(), State::Uncounted | State::Running)
    }

    /// Whether a wait released its slot, which the wait's end acquires again.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.state.get() == State::Waiting
    }

    /// Entries left on the slot it holds; 0 while it holds none. An entry on a ticket cannot be refused.
    #[inline]
    pub fn tickets(&self) -> u32 {
        self.tickets.get()
    }

    /// Returns the scheduler that it belongs to.
    pub fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// Sets whether it holds locks for which others may wait. Counts from its next entry, and at its next exit: a lock holder goes on with
    /// its time slice, others make room for lock holders.
    pub fn set_class(&self, class: Class) {
        self.class.set(class);
    }

    /// Returns its class.
    pub fn class(&self) -> Class {
        self.class.get()
    }

    /// Sets whether it is within a transaction. Under [`crate::Policy::Quantum`] its time slice then lasts until the transaction ends, for
    /// up to eight quanta: a transaction that is cut in two waits for two rotations of the queue while it holds its locks. A session that
    /// never ends one has up to eight times the time of others, and if slices are timed, a deficit from four quanta of CPU time on.
    pub fn set_in_transaction(&self, in_transaction: bool) {
        self.slice.set_in_transaction(in_transaction);
    }

    #[inline]
    fn take_ticket(&self) -> bool {
        let left = self.tickets.get();
        self.tickets.set(left.saturating_sub(1));
        left != 0
    }

    #[inline(never)]
    fn enter_without_ticket(&self, deadline: Option<Instant>) -> Result<(), Refused> {
        if !self.enter_at_once() {
            let word = self.queue(deadline)?;
            self.run(word);
        }
        self.check();
        Ok(())
    }

    /// Whether the entry is done; otherwise the session is outside and has to queue.
    #[inline]
    pub(crate) fn enter_at_once(&self) -> bool {
        if self.take_ticket() {
            return true;
        }
        match self.state.get() {
            State::Outside => {
                self.give_up_task_request();
                self.try_acquire()
            }
            State::Acquiring | State::Waiting => true,
            State::Uncounted | State::Running => self.renew(),
            State::Reserved => self.take_back_reservation() || self.try_acquire(),
        }
    }

    /// Acquires a slot if that is possible at once.
    #[inline]
    fn try_acquire(&self) -> bool {
        let Admission { gate, extra, .. } = &*self.admission;
        let guess = self.last_seen.get();
        // Without a limit the word does not change, so reading it costs no other session anything.
        if guess.is_unlimited() && gate.word().is_unlimited() {
            self.run_uncounted();
            return true;
        }
        let caller = self.caller();
        let entered = extra
            .acquire(gate, Some(self.cpu.get()), caller)
            .or_else(|| gate.try_enter(guess, caller))
            .or_else(|| extra.acquire(gate, None, caller));
        let Some((how, word)) = entered else { return false };
        self.on_entered(how, word);
        self.run(word);
        true
    }

    /// Out of tickets while running: takes new ones if nobody queues, else acquires a slot as a newcomer. So does a session that came in
    /// without a limit, when there is one now.
    #[cold]
    fn renew(&self) -> bool {
        let gate = &self.admission.gate;
        let stays = match self.state.get() {
            State::Uncounted => gate.word().is_unlimited(),
            _ => gate.may_stay(),
        };
        if stays {
            self.renew_tickets();
            return true;
        }
        if self.put_down(State::Acquiring) {
            self.release(false);
        }
        self.slice.forfeit();
        self.state.set(State::Outside);
        self.is_cut_off.set(!self.try_acquire());
        !self.is_cut_off.get()
    }

    #[cold]
    fn renew_tickets(&self) {
        self.settle_tickets();
        self.give_tickets(self.admission.settings.tickets());
        add(&self.counters.at_once, 1);
    }

    /// Enters without asking. The entry uses one of the tickets.
    pub(crate) fn force(&self, tickets: u32) {
        add(&self.counters.forced, 1);
        // Without a limit, T need not count it; see `Session::try_acquire`.
        if self.admission.gate.word().is_unlimited() {
            return self.begin_stay(State::Uncounted, tickets);
        }
        let word = self.admission.gate.enter_forced();
        self.time_slice_if_others_wait(word);
        self.last_seen.set(word);
        self.admission.metrics.saw_slots(word);
        self.begin_stay(State::Running, tickets);
    }

    /// Runs on a slot that T counts; `word` is the word as it is then.
    #[inline]
    pub(crate) fn run(&self, word: Word) {
        self.last_seen.set(word);
        self.admission.metrics.saw_slots(word);
        self.begin_stay(State::Running, self.admission.settings.tickets());
    }

    /// Begins a stay. The entry that began it uses one of the tickets.
    #[inline]
    fn begin_stay(&self, state: State, tickets: u32) {
        self.state.set(state);
        if state == State::Uncounted {
            self.counters.uncounted.store(1, Ordering::Relaxed);
        }
        if state == State::Running && self.admission.settings.reclaims() {
            let stay = self.stays.get() + 1;
            self.stays.set(stay);
            self.is_published.set(true);
            self.node.hold.publish(stay);
        }
        self.give_tickets(tickets);
        match self.until_sample.get() {
            0 => self.begin_sample(),
            left => self.until_sample.set(left - 1),
        }
    }

    /// Notes `instead` of what it held. Returns whether it held a slot that T counts, which is to be released. What is noted comes first:
    /// a waker may use this session.
    #[inline]
    pub(crate) fn put_down(&self, instead: State) -> bool {
        self.settle_tickets();
        if self.entered_at_ns.get() != NOT_SAMPLED {
            self.end_sample();
        }
        let before = self.state.replace(instead);
        let is_counted = before == State::Running;
        if before == State::Uncounted {
            self.counters.uncounted.store(0, Ordering::Relaxed);
        }
        if self.is_published.replace(false) && !self.node.hold.take_out() {
            // The slot was reclaimed, after a stay that was longer than any slice.
            self.end_slice();
            return false;
        }
        is_counted
    }

    #[inline]
    fn leave(&self) {
        if self.admission.extra.reserves() && self.leave_reserved() {
            return;
        }
        if self.put_down(State::Outside) {
            self.release(false);
        }
    }

    /// Releases a slot that T counts. `ends_slice`: the session will not be back at once; otherwise its time slice goes on if it comes
    /// back in time.
    #[inline]
    pub(crate) fn release(&self, ends_slice: bool) {
        let Admission { gate, extra, .. } = &*self.admission;
        let seen = self.last_seen.get();
        let kept = if ends_slice { None } else { extra.release(gate, self.cpu.get()) };
        let released = kept.or_else(|| if seen.queued() == 0 { gate.try_exit(seen) } else { None });
        match released {
            Some(word) => self.on_released(word),
            None => self.release_while_others_queue(ends_slice),
        }
    }

    #[inline]
    fn on_released(&self, word: Word) {
        if word.queued() == 0 {
            self.slice.deficit.forget();
        }
        self.last_seen.set(word);
    }

    #[cold]
    fn release_while_others_queue(&self, ends_slice: bool) {
        let Admission { gate, settings, metrics, .. } = &*self.admission;
        // Read once at most: from here to the wake-up is less time than a reading costs.
        let clock_ns = OnceCell::new();
        let now_ns = || *clock_ns.get_or_init(|| metrics.now_ns());
        let has_slices = !ends_slice && self.last_seen.get().policy().rule().has_slices;
        let in_slice = has_slices && self.slice.leave(now_ns(), settings.quantum_ns.get());
        let leaver = Leaver { in_slice, holds_locks: self.class.get() == Class::First };
        let (wake, word) = gate.exit_and_wake(leaver, &now_ns);
        match wake {
            // Somebody queued until then.
            Wake::Granted(_) => {
                self.last_seen.set(word);
                if word.queued() == 0 {
                    // Its next entry need not ask whether it may pass the queue, and what it does until then is its own.
                    self.slice.deficit.stop(u64::MAX);
                }
                add(&self.counters.handed_off, 1);
            }
            _ => self.on_released(word),
        }
        self.admission.wake_at(wake, now_ns);
    }

    /// Releases a slot that the session was granted and will not use: the next in the queue shall have it.
    pub(crate) fn pass_slot_on(&self, word: Word) {
        self.last_seen.set(word);
        self.admission.metrics.saw_slots(word);
        self.release(true);
    }

    /// Grants free slots to those that queue. An exit may have left its own slot free for this session to come back within its slice.
    #[cold]
    fn offer_free_slots(&self) {
        let wake = self.admission.gate.serve(self.admission.metrics.now_ns());
        self.admission.wake(wake);
    }

    /// What the gate must know of it.
    #[inline]
    pub(crate) fn caller(&self) -> Caller {
        // What it saw last may be old; then it passes the queue once where it should not have.
        let may_barge = !self.last_seen.get().has_slices() || self.may_barge();
        Caller { may_barge, first: self.class() == Class::First }
    }

    #[cold]
    fn may_barge(&self) -> bool {
        let now_ns = || self.admission.metrics.now_ns();
        let is_first = self.class() == Class::First;
        self.slice.may_pass(now_ns, self.admission.settings.quantum_ns.get(), !is_first)
            && (self.slice.returns() || is_first || self.admission.barging.is_allowed())
    }

    /// It entered without queueing; `word` is the word as it is then.
    #[inline]
    pub(crate) fn on_entered(&self, how: Entered, word: Word) {
        match how {
            Entered::AtOnce => add(&self.counters.at_once, 1),
            Entered::Barging => add(&self.counters.by_barging, 1),
        }
        if word.has_slices() {
            if self.class() == Class::Normal && !self.slice.returns() {
                self.admission.barging.on_barge();
            }
            self.slice.on_pass(self.admission.settings.quantum_ns.get());
        }
    }

    /// It entered from the queue, or by force; `word` is the word as it is then.
    #[inline]
    pub(crate) fn time_slice_if_others_wait(&self, word: Word) {
        if word.has_slices() {
            let now_ns = || self.admission.metrics.now_ns();
            self.slice.on_forced(now_ns, self.admission.settings.quantum_ns.get());
        }
    }

    /// It will not be back within its time slice: when it comes, it queues, or is a newcomer.
    #[cold]
    pub(crate) fn end_slice(&self) {
        self.slice.end(self.admission.metrics.now_ns());
    }

    #[cold]
    fn begin_sample(&self) {
        self.until_sample.set(SAMPLE_EVERY - 1);
        self.cpu.set(self.admission.extra.current_cpu(self.number));
        self.entered_at_ns.set(self.admission.metrics.now_ns());
    }

    #[cold]
    fn end_sample(&self) {
        let entered_at_ns = self.entered_at_ns.replace(NOT_SAMPLED);
        let ns = self.admission.metrics.now_ns().saturating_sub(entered_at_ns);
        record(&self.admission.metrics.histograms.running_ns, ns);
    }

    #[inline]
    fn give_tickets(&self, tickets: u32) {
        self.tickets_given.set(tickets - 1);
        self.tickets.set(tickets - 1);
    }

    /// Counts the tickets used on the slot that is released or renewed, and takes the rest away.
    #[inline]
    fn settle_tickets(&self) {
        let used = self.tickets_given.get() - self.tickets.replace(0);
        if used != 0 {
            add(&self.counters.by_ticket, u64::from(used));
        }
    }

    /// Asserts the module's table in debug builds.
    #[inline]
    pub(crate) fn check(&self) {
        let (state, published) = (self.state.get(), self.is_published.get());
        debug_assert!(self.tickets.get() == 0 || self.is_running(), "{state:?} with tickets");
        debug_assert!(!published || state == State::Running, "{state:?} with a published slot");
        debug_assert!(state != State::Waiting || self.waits.released.get().is_some(), "it waits for nothing");
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.give_up_task_request();
        self.exit_ending_slice();
        // What it left free within its slice was left for it.
        if self.admission.gate.word().queued() != 0 {
            self.offer_free_slots();
        }
        self.admission.metrics.registry.unregister(self.number);
    }
}

/// A slot, from [`Session::slot`] or [`Session::slot_forced`]; dropping it exits.
#[must_use = "the slot is released when this is dropped"]
pub struct Slot<'a> {
    session: &'a Session,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.session.exit();
    }
}
