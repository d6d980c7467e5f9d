//! A connection's handle: tickets and places on the fast path. What happens when there is no place is in
//! [`crate::asking`], waits are in [`crate::waits`].

use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::time::Instant;

use crate::admission::Admission;
use crate::asking::Asking;
use crate::core::{Entered, Wake};
use crate::metrics::{Counters, SAMPLE_EVERY, add};
use crate::queue::Node;
use crate::rule::Leaver;
use crate::state::{Caller, State};
use crate::turn::Turn;
use crate::waits::Waits;
use crate::{Canceller, Policy, Refused, Tenant};

/// Who goes first in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Class {
    /// A session that holds locks for which others may wait: it goes before the others, so that the locks
    /// are released soon. Others are promoted by age ([`crate::Config::promote_after`]).
    First,
    /// Everybody else.
    #[default]
    Normal,
}

/// What a session holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// Nothing: it is outside.
    No,
    /// Nothing yet: a call on it asks for a place. A task's waker that this call runs may use the session, too; an entry
    /// does nothing then, or there would be two places for one session, and its node twice in the queue.
    Asks,
    /// Nothing for now: a wait gave the place up, and its end brings it back.
    Waiting,
    /// It has left, but one of the places that T counts waits for it, unless somebody has taken it: [`crate::anticipation`].
    Away,
    /// It is inside without a limit, and T does not count it.
    Uncounted,
    /// One of the places that T counts.
    Place,
}

const NOT_SAMPLED: u64 = u64::MAX;

/// One connection's handle. It serves one thread at a time (`Send`, not `Sync`).
///
/// A call on it may run the waker of a task, and that waker may use this session, too: within an entry another one does nothing,
/// since the one under way brings the place.
///
/// Dropping it leaves.
pub struct Session {
    pub(crate) admission: Arc<Admission>,
    pub(crate) node: Arc<Node>,
    pub(crate) counters: Arc<Counters>,
    number: u64,
    /// The slot of the processor it runs on, as far as it knows: any is right, but another's is slower.
    slot: Cell<usize>,
    /// Entries left on the place it holds; 0 while it holds none.
    tickets: Cell<u32>,
    /// What `tickets` was when it took its place.
    tickets_given: Cell<u32>,
    pub(crate) place: Cell<Held>,
    /// Whether its place may be lent; see [`crate::lending`].
    pub(crate) lendable: Cell<bool>,
    pub(crate) waits: Waits,
    /// The state word as this session last saw it: the guess for its next step.
    pub(crate) last_seen: Cell<State>,
    /// Where it is in its turn ([`Policy::Quantum`]).
    pub(crate) turn: Turn,
    class: Cell<Class>,
    tenant: Cell<Tenant>,
    /// A task's entry that is in the queue, or was; see [`crate::task`].
    pub(crate) task_asks: Cell<Option<Asking>>,
    /// When it entered, if this place is one of those whose time is measured.
    entered_at_ns: Cell<u64>,
    /// Places until the next measured one.
    until_sample: Cell<u32>,
}

impl Session {
    pub(crate) fn new(admission: &Arc<Admission>) -> Self {
        let (number, counters) = admission.metrics.register();
        Session {
            node: Node::new(),
            counters,
            number,
            slot: Cell::new(admission.core.kept.slot_of(processor_now(number))),
            tickets: Cell::new(0),
            tickets_given: Cell::new(0),
            place: Cell::new(Held::No),
            lendable: Cell::new(false),
            waits: Waits::new(),
            last_seen: Cell::new(admission.core.state()),
            turn: Turn::new(),
            class: Cell::default(),
            tenant: Cell::default(),
            task_asks: Cell::new(None),
            entered_at_ns: Cell::new(NOT_SAMPLED),
            // Spread over the sessions, so that many with few entries each are sampled, too.
            until_sample: Cell::new((number % u64::from(SAMPLE_EVERY)) as u32),
            admission: Arc::clone(admission),
        }
    }

    /// Enters: takes a ticket if there is one left, else asks for a place, and queues until it has one.
    ///
    /// Call it for every engine entry: at the beginning of a statement and for each row. It is refused only
    /// when it is cancelled, or if the configuration has a queue timeout or a queue limit. A session that
    /// is refused when its tickets have run out has lost its place: its statement cannot go on.
    #[inline]
    pub fn enter(&self) -> Result<(), Refused> {
        match self.tickets.get() {
            0 => self.enter_without_ticket(None),
            left => {
                self.tickets.set(left - 1);
                Ok(())
            }
        }
    }

    /// As [`Session::enter`], but is refused at `deadline`, if [`crate::Config::queue_timeout`] does not refuse it
    /// before.
    #[inline]
    pub fn enter_until(&self, deadline: Instant) -> Result<(), Refused> {
        match self.tickets.get() {
            0 => self.enter_without_ticket(Some(deadline)),
            left => {
                self.tickets.set(left - 1);
                Ok(())
            }
        }
    }

    /// Enters if that is possible without waiting; whether it is inside then. As with [`Session::enter`],
    /// a session whose tickets have run out while others wait loses its place to them.
    pub fn try_enter(&self) -> bool {
        let had_place = self.place.get() == Held::Place;
        let is_in = self.enter_at_once() && self.is_inside();
        if had_place && !is_in {
            self.offer_free();
        }
        is_in
    }

    /// As [`Session::try_enter`], but as long as nobody queues also past the limit, while fewer than `places` are held: for one that
    /// needs nothing that those inside hold, such as a short read. Exits repay the overshoot before the next of the queue is let in.
    pub fn try_enter_below(&self, places: u32) -> bool {
        if self.try_enter() {
            return true;
        }
        // A wait's end brings its place, or a call on this session does.
        if self.place.get() != Held::No {
            return false;
        }
        let Some(state) = self.admission.core.try_enter_below(places) else { return false };
        add(&self.counters.entered_past_limit, 1);
        add(&self.counters.entered_by_force, 1);
        self.has_place(state);
        true
    }

    /// Enters whatever the limit says; exits repay the overshoot. For one that those inside wait for, such as
    /// the holder of a row lock: if it queued behind them, nobody would ever leave.
    pub fn enter_past_limit(&self) {
        if self.tickets.get() == 0 && self.is_inside() {
            self.stay();
        } else if !self.enter_at_once() {
            add(&self.counters.entered_past_limit, 1);
            self.force_entry(self.admission.settings.tickets());
        }
    }

    /// Leaves: hands the place to the head of the queue, or gives it back. Does nothing outside.
    ///
    /// Call it at the end of a statement, before its reply is sent.
    #[inline]
    pub fn exit(&self) {
        match self.place.get() {
            Held::No | Held::Asks | Held::Away => {}
            Held::Waiting => self.abandon_wait(),
            Held::Uncounted | Held::Place => self.leave(),
        }
    }

    /// As [`Session::exit`], for one that will not be back at once: whatever it might keep of quantum or lease goes to the
    /// next. For one that is about to wait for others, and declares no wait.
    pub fn exit_for_good(&self) {
        match self.place.get() {
            Held::No | Held::Asks => {}
            Held::Waiting => self.abandon_wait(),
            Held::Away => {
                let (settings, metrics) = (&self.admission.settings, &self.admission.metrics);
                self.turn.ends_outside(|| metrics.now_ns(), settings.quantum_ns());
                if self.turn.is_begun() {
                    self.end_turn();
                }
                self.stays_out();
            }
            Held::Uncounted | Held::Place => {
                self.end_turn();
                self.leave_for_good();
            }
        }
    }

    /// Enters, and leaves when the guard is dropped.
    #[inline]
    pub fn place(&self) -> Result<Place<'_>, Refused> {
        self.enter()?;
        Ok(Place { session: self })
    }

    /// As [`Session::enter_past_limit`], and leaves when the guard is dropped.
    #[inline]
    pub fn place_past_limit(&self) -> Place<'_> {
        self.enter_past_limit();
        Place { session: self }
    }

    /// Whether this session is inside.
    #[inline]
    pub fn is_inside(&self) -> bool {
        matches!(self.place.get(), Held::Uncounted | Held::Place)
    }

    /// Whether a wait gave its place up, which the wait's end brings back.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.place.get() == Held::Waiting
    }

    /// Entries left on the place it holds; 0 while it holds none. An entry on a ticket asks nobody and cannot
    /// be refused.
    #[inline]
    pub fn tickets(&self) -> u32 {
        self.tickets.get()
    }

    /// The scheduler it belongs to.
    pub fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// Says whether it holds locks for which others may wait. It counts from its next entry, and at its next exit: one that
    /// holds locks goes on with its turn, others make room for those who do.
    pub fn set_class(&self, class: Class) {
        self.class.set(class);
    }

    /// Its class.
    pub fn class(&self) -> Class {
        self.class.get()
    }

    /// Says whose share it uses, from its next entry on. The tenant is one of the same scheduler's; one that
    /// this scheduler does not have counts as the default.
    pub fn set_tenant(&self, tenant: Tenant) {
        self.tenant.set(tenant);
    }

    /// Its tenant.
    pub fn tenant(&self) -> Tenant {
        self.tenant.get()
    }

    /// What ends this session's queueing from another thread, as KILL does.
    pub fn canceller(&self) -> Canceller {
        Canceller::new(&self.admission, &self.node)
    }

    #[inline(never)]
    fn enter_without_ticket(&self, deadline: Option<Instant>) -> Result<(), Refused> {
        if self.enter_at_once() {
            return Ok(());
        }
        let state = match self.admission.core.state().policy() {
            Policy::Sleep => self.poll(deadline)?,
            _ => self.queue(deadline)?,
        };
        self.has_place(state);
        Ok(())
    }

    /// Whether the entry is done; else it holds nothing and has to ask for a place.
    #[inline]
    pub(crate) fn enter_at_once(&self) -> bool {
        if self.tickets.get() != 0 {
            self.tickets.set(self.tickets.get() - 1);
            return true;
        }
        match self.place.get() {
            Held::No => {
                self.give_up_asking();
                self.ask_once()
            }
            Held::Away => self.is_back() || self.ask_once(),
            Held::Waiting | Held::Asks => true,
            Held::Uncounted | Held::Place => self.renew(),
        }
    }

    /// Out of tickets on the place it holds: new ones at once if nobody waits, else it asks as a newcomer. So does one that
    /// came in without a limit, when there is one now.
    #[cold]
    fn renew(&self) -> bool {
        let core = &self.admission.core;
        let stays = match self.place.get() {
            Held::Uncounted => core.state().unlimited(),
            _ => core.may_stay(),
        };
        if stays {
            self.stay();
            return true;
        }
        if self.put_down(Held::Asks) {
            self.hand_over(false);
        }
        self.turn.forfeit();
        self.place.set(Held::No);
        self.ask_once()
    }

    /// Out of tickets it enters on the place it holds, and has new ones.
    #[cold]
    fn stay(&self) {
        self.settle_tickets();
        self.give_tickets(self.admission.settings.tickets());
        add(&self.counters.entered_at_once, 1);
    }

    /// Takes a place if that is possible at once.
    #[inline]
    fn ask_once(&self) -> bool {
        let core = &self.admission.core;
        let guess = self.last_seen.get();
        // Without a limit the word does not change, so reading it costs no other session anything.
        if guess.unlimited() && core.state().unlimited() {
            add(&self.counters.entered_at_once, 1);
            self.turn.deficit.forget();
            self.take(Held::Uncounted, self.admission.settings.tickets());
            return true;
        }
        let (slot, caller) = (self.slot.get(), self.caller());
        let entered = core.take_kept(slot, caller).or_else(|| core.try_enter(guess, caller));
        let Some((how, state)) = entered else { return self.goes_on_past_limit() };
        self.count(how);
        self.has_overtaken(state);
        self.has_place(state);
        true
    }

    /// It has one of the places that T counts; `state` is the word as it is then.
    #[inline]
    pub(crate) fn has_place(&self, state: State) {
        self.last_seen.set(state);
        self.admission.metrics.saw_places(state);
        self.take(Held::Place, self.admission.settings.tickets());
    }

    /// Notes what it holds now. The entry that got it uses one of the tickets.
    #[inline]
    pub(crate) fn take(&self, held: Held, tickets: u32) {
        self.place.set(held);
        self.note_stay();
        self.give_tickets(tickets);
        match self.until_sample.get() {
            0 => self.begin_sample(),
            left => self.until_sample.set(left - 1),
        }
    }

    /// It has one of the places that T counts, but will not use it: the next in the queue shall.
    pub(crate) fn give_place_on(&self, state: State) {
        self.last_seen.set(state);
        self.admission.metrics.saw_places(state);
        self.hand_over(true);
    }

    #[inline]
    fn leave(&self) {
        if self.steps_out() {
            return;
        }
        if self.put_down(Held::No) {
            self.hand_over(false);
        }
    }

    /// Leaves, and will not be back at once: whatever it might keep of quantum or lease goes to the next.
    fn leave_for_good(&self) {
        if self.put_down(Held::No) {
            self.hand_over(true);
        }
    }

    /// Notes that it holds `instead` of what it held. If so, T counts what it held, and it is to be handed over. What is
    /// noted comes first: who is woken then may use this session from a waker.
    #[inline]
    pub(crate) fn put_down(&self, instead: Held) -> bool {
        self.settle_tickets();
        if self.entered_at_ns.get() != NOT_SAMPLED {
            self.sample_inside();
        }
        let counts = self.place.replace(instead) == Held::Place;
        if counts {
            self.settle_loan();
        }
        counts
    }

    /// Gives a place that T counts to the next in the queue, or back. `for_good`: it will not be back at once. Its turn goes on
    /// when it comes back, unless [`Session::end_turn`] says otherwise.
    #[inline]
    pub(crate) fn hand_over(&self, for_good: bool) {
        let seen = self.last_seen.get();
        let left = match if for_good { None } else { self.keep() } {
            Some(state) => Some(state),
            None if seen.queued() == 0 => self.admission.core.try_leave(seen),
            None => None,
        };
        let Some(state) = left else { return self.leave_and_wake(for_good) };
        self.has_left(state);
    }

    /// `state` is the word as it is then.
    #[inline]
    fn has_left(&self, state: State) {
        if state.queued() == 0 {
            self.turn.deficit.forget();
        }
        self.last_seen.set(state);
    }

    /// Leaves its place with its processor, if nobody misses it meanwhile.
    #[inline]
    fn keep(&self) -> Option<State> {
        let in_turn = || {
            let (settings, metrics) = (&self.admission.settings, &self.admission.metrics);
            self.turn.comes_back(|| metrics.now_ns(), settings.quantum_ns())
        };
        self.admission.core.keep(self.slot.get(), self.class.get() == Class::First, in_turn)
    }

    #[cold]
    fn begin_sample(&self) {
        self.until_sample.set(SAMPLE_EVERY - 1);
        self.slot.set(self.admission.core.kept.slot_of(processor_now(self.number)));
        self.entered_at_ns.set(self.admission.metrics.now_ns());
    }

    #[cold]
    fn sample_inside(&self) {
        let entered_at_ns = self.entered_at_ns.replace(NOT_SAMPLED);
        let ns = self.admission.metrics.now_ns().saturating_sub(entered_at_ns);
        self.admission.metrics.inside(ns);
    }

    #[cold]
    fn leave_and_wake(&self, for_good: bool) {
        let admission = &*self.admission;
        // Read once at most: from here to the wake-up is less time than a reading costs.
        let clock_ns = OnceCell::new();
        let now_ns = || *clock_ns.get_or_init(|| admission.metrics.now_ns());
        let by_turns = !for_good && self.last_seen.get().policy() == Policy::Quantum;
        let in_quantum = by_turns && self.turn.leave(now_ns(), admission.settings.quantum_ns());
        let leaver = Leaver { in_quantum, holds_locks: self.class.get() == Class::First };
        // Asking whether the lease is over begins the next one, so it is asked once for an exit.
        let lease_over = Cell::new(None);
        let lease_over = || {
            let over =
                lease_over.get().unwrap_or_else(|| for_good || admission.settings.lease_over(now_ns()));
            lease_over.set(Some(over));
            over
        };
        let (wake, state) = admission.core.leave_and_wake(leaver, &lease_over, &now_ns);
        match wake {
            // Somebody waited until then.
            Wake::Granted(_) => {
                self.last_seen.set(state);
                if state.queued() == 0 {
                    // Its next entry need not ask whether it may overtake, and what it does until then is its own.
                    self.turn.deficit.stops(u64::MAX);
                }
                add(&self.counters.handed_on, 1);
            }
            _ => self.has_left(state),
        }
        admission.wake_at(wake, now_ns);
    }

    /// Free places go to those who wait. Its exit may have left its own free for it to come back, within its turn: one that
    /// queues instead offers it when it joins, and this one does not queue.
    #[cold]
    fn offer_free(&self) {
        let admission = &*self.admission;
        let wake = admission.core.serve(admission.metrics.now_ns());
        admission.wake(wake);
    }

    /// It was granted a place, and runs; the word since.
    pub(crate) fn starts(&self) -> State {
        let state = self.admission.core.started();
        self.has_started(state);
        state
    }

    /// It was summoned, and runs; the word since if there was a place for it.
    pub(crate) fn arrives(&self, caller: Caller) -> Option<State> {
        let (enters, state) = self.admission.core.arrive(caller);
        self.has_started(state);
        enters.then_some(state)
    }

    fn has_started(&self, state: State) {
        let admission = &*self.admission;
        let wake = admission.core.has_started(state, || admission.metrics.now_ns());
        admission.wake(wake);
    }

    #[inline]
    fn give_tickets(&self, tickets: u32) {
        self.tickets_given.set(tickets - 1);
        self.tickets.set(tickets - 1);
    }

    #[inline]
    pub(crate) fn count(&self, how: Entered) {
        match how {
            Entered::AtOnce => add(&self.counters.entered_at_once, 1),
            Entered::Lifo => add(&self.counters.entered_by_lifo, 1),
        }
    }

    /// Counts the tickets used on the place that is left or renewed, and takes the rest away.
    #[inline]
    fn settle_tickets(&self) {
        let used = self.tickets_given.get() - self.tickets.replace(0);
        if used != 0 {
            add(&self.counters.entered_by_ticket, u64::from(used));
        }
    }
}

/// The processor that this thread runs on. A model checker has none: each session is given one.
fn processor_now(number: u64) -> usize {
    if cfg!(any(loom, shuttle, miri)) { number as usize } else { rustix::thread::sched_getcpu() }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.give_up_asking();
        self.exit_for_good();
        self.forget_row_waits();
        // What it left within its turn was left for it.
        if self.admission.core.state().queued() != 0 {
            self.offer_free();
        }
        self.admission.metrics.unregister(self.number);
    }
}

/// A place inside, from [`Session::place`] or [`Session::place_past_limit`]; dropping it leaves.
#[must_use = "the place is given up when this is dropped"]
pub struct Place<'a> {
    session: &'a Session,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.session.exit();
    }
}
