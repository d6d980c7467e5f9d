//! The scheduler itself: the state word and the queue. Free of parking and of clocks: every step returns at
//! once and says whom to wake, and is told the time if it needs it, so that threads, async tasks,
//! simulators and model checkers run the same code.
//!
//! # Protocol
//!
//! The word changes by compare-and-swap, each step one transition of [`State`]. Q changes only under the
//! queue's lock, together with the lists, so Q is the number of nodes linked whenever the lock is free.
//! The same holds for L, the policy and the other flags.
//!
//! - *No lost wake-up.* A thread joins under the lock, with a swap from a word that does not admit it. A
//!   place given back before that swap makes it fail, and the thread looks again; a place given back
//!   after it finds Q > 0 and looks at the queue.
//! - *Kept places* ([`crate::kept`]) are given back to the word before places are offered or handed on.
//! - *No idle place*: `fifo`, `lifo`, `flifo` and `sleep` give a place back (T - 1) only from a word with
//!   Q = 0 or T > L. `lease` and `quantum` do so within a lease or quantum, or leave it with the processor, while enough others
//!   run on (`Core::enough_run`) and no holder of locks waits for one that is none, and hand on all free places after it. `summon` and `broadcast` give it back and wake
//!   those who may take it. In congestion it is given back while enough others run, unless a holder of locks waits.
//! - *Wakes happen after unlocking*, so that the woken thread does not run into the lock.
//!
//! Lock order: the queue's lock is the only one here, and nothing is called while it is held.

mod terms;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

pub(crate) use terms::{Counts, Terms};

use crate::Policy;
use crate::config::half;
use crate::kept::Kept;
use crate::queue::{List, Node, Request};
use crate::rule::{End, Exit, Leaver, Passing};
use crate::state::{Caller, ONE_PENDING, ONE_PLACE, State};
use crate::sync::{AtomicBool, AtomicU64, CacheAligned, Mutex, MutexGuard, Ordering, lock};
use crate::waiting::Waiting;

/// How a thread came in without queueing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entered {
    /// There was a free place.
    AtOnce,
    /// All places were out, but fewer than L threads were really running.
    Lifo,
}

/// What came of joining the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joined {
    /// A place became free meanwhile.
    Entered(Entered, State),
    /// It is in the queue.
    Queued(State),
    /// As many are in the queue as may be.
    Full,
    /// Somebody cancelled it before.
    Cancelled,
}

/// Whom the caller must wake now. Each node is out of the queue.
#[must_use]
pub(crate) enum Wake {
    Nobody,
    /// They hold places, and are pending until they call [`Core::started`].
    Granted(List),
    /// They hold nothing, and are pending until they call [`Core::arrive`].
    Summoned(List),
    /// They hold nothing and may try again.
    Retry(List),
}

impl Wake {
    fn of(list: List, kind: fn(List) -> Self) -> Self {
        if list.is_empty() { Wake::Nobody } else { kind(list) }
    }
}

/// The queue, locked.
struct Queue<'a> {
    waiting: MutexGuard<'a, Waiting>,
    first_waits: &'a AtomicBool,
}

impl Deref for Queue<'_> {
    type Target = Waiting;

    fn deref(&self) -> &Waiting {
        &self.waiting
    }
}

impl DerefMut for Queue<'_> {
    fn deref_mut(&mut self) -> &mut Waiting {
        &mut self.waiting
    }
}

impl Drop for Queue<'_> {
    fn drop(&mut self) {
        // Written only when it changes: every exit reads it while somebody waits.
        if self.first_waits.load(Ordering::Relaxed) != self.has_first() {
            self.first_waits.store(self.has_first(), Ordering::Relaxed);
        }
    }
}

pub(crate) struct Core {
    /// See [`crate::state`] for its bits and the invariants between them.
    state: CacheAligned<AtomicU64>,
    waiting: CacheAligned<Mutex<Waiting>>,
    /// Whether a holder of locks waits, as the queue was when it was unlocked last. An exit that reads it too early gives its place
    /// back, or leaves it with its processor, where it should have handed it on, and the next exit mends that.
    first_waits: AtomicBool,
    /// So many threads inside keep the machine busy: an exit leaves no fewer while others wait.
    processors: u32,
    pub(crate) kept: Kept,
}

impl Core {
    pub(crate) fn new(policy: Policy, limit: u32, processors: u32) -> Self {
        Core {
            state: CacheAligned(AtomicU64::new(State::idle(policy, limit).0)),
            waiting: CacheAligned(Mutex::new(Waiting::new())),
            first_waits: AtomicBool::new(false),
            processors: processors.max(1),
            kept: Kept::new(processors.max(1)),
        }
    }

    fn queue(&self) -> Queue<'_> {
        Queue { waiting: lock(&self.waiting.0), first_waits: &self.first_waits }
    }

    #[inline]
    pub(crate) fn state(&self) -> State {
        State(self.state.0.load(Ordering::Relaxed))
    }

    /// As [`Core::state`], but ordered after what the caller wrote with sequential consistency.
    #[inline]
    pub(crate) fn state_now(&self) -> State {
        State(self.state.0.load(Ordering::SeqCst))
    }

    /// T without the places that processors keep, P and Q.
    pub(crate) fn observed(&self) -> State {
        let kept = self.kept.count();
        self.state().without_kept(kept)
    }

    /// As [`Core::state`], but ordered after the caller's sequentially consistent stores, and before a
    /// join that comes later in that order.
    pub(crate) fn state_after_all(&self) -> State {
        State(self.state.0.fetch_or(0, Ordering::SeqCst))
    }

    /// Places that others than holders of locks get in congestion. The other processors are for those who are waited for.
    #[inline]
    fn spare(&self) -> u32 {
        half(self.processors)
    }

    /// Whether the policy lets this caller in as a newcomer.
    #[inline]
    pub(crate) fn admits(&self, state: State, caller: Caller) -> bool {
        state.admits(caller, self.spare())
    }

    /// Enters if the policy lets this caller in now.
    ///
    /// `guess` is what the caller believes the word to be, such as what it last saw: a right guess saves
    /// the load, which would stall behind the caller's previous swap; a wrong one costs a failed swap.
    #[inline]
    pub(crate) fn try_enter(&self, guess: State, caller: Caller) -> Option<(Entered, State)> {
        if self.admits(guess, caller)
            && let Ok(new) = self.swap(guess, guess.entered())
        {
            return Some((how(guess), new));
        }
        self.try_enter_as_it_is(caller)
    }

    /// The guess was wrong. Not inlined, so that the way of a right one stays short.
    #[inline(never)]
    fn try_enter_as_it_is(&self, caller: Caller) -> Option<(Entered, State)> {
        let mut old = self.state();
        while self.admits(old, caller) {
            match self.swap(old, old.entered()) {
                Ok(new) => return Some((how(old), new)),
                Err(seen) => old = seen,
            }
        }
        self.take_any_kept(caller)
    }

    /// Enters past the limit, while nobody waits and fewer than `places` are out; the word as it is then. Not in congestion.
    pub(crate) fn try_enter_below(&self, places: u32) -> Option<State> {
        let mut old = self.state();
        while old.queued() == 0 && old.places() < places && !old.congested() {
            match self.swap(old, old.entered()) {
                Ok(new) => return Some(new),
                Err(seen) => old = seen,
            }
        }
        None
    }

    /// Joins the queue, or enters after all if a place became free meanwhile. The caller has prepared the
    /// node's parker, and parks when it is queued.
    ///
    /// A caller that may not overtake can find places free that others gave back within their quantum:
    /// those go to the head of the queue, whoever that is.
    pub(crate) fn join(
        &self,
        node: &Arc<Node>,
        request: Request,
        (caller, end): (Caller, End),
        queue_limit: u32,
    ) -> (Joined, Wake) {
        let mut waiting = self.queue();
        // Acquire: what the canceller did before is visible. Set before the lock is taken to look for the
        // node, so either it is seen here or the canceller finds the node linked.
        if node.cancelled.load(Ordering::Acquire) {
            // It may have been summoned to a place that it does not take: another may.
            return (Joined::Cancelled, self.fill(&mut waiting, request.queued_at_ns));
        }
        let mut old = self.state();
        let queued = loop {
            let admitted = self.admits(old, caller);
            if !admitted && queue_limit != 0 && old.queued() >= queue_limit {
                // Its place, if it left one that was to be its own again, is for those who queue.
                return (Joined::Full, self.fill(&mut waiting, request.queued_at_ns));
            }
            let new = if admitted { old.entered() } else { old.joined() };
            match self.swap(old, new) {
                Ok(new) if admitted => return (Joined::Entered(how(old), new), Wake::Nobody),
                Ok(new) => break new,
                Err(seen) => old = seen,
            }
        };
        // Under another policy the order is as it says.
        let by_turns = queued.policy() == Policy::Quantum;
        let request = if by_turns { request } else { Request { turn_ns: 0, owed_ns: 0, ..request } };
        waiting.push(Arc::clone(node), request, end);
        (Joined::Queued(queued), self.fill(&mut waiting, request.queued_at_ns))
    }

    /// Gives the place back, if nobody waits: the word as it is then, else `None`, and
    /// [`Core::leave_and_wake`] is to be called. For `guess` see [`Core::try_enter`]; the caller's own
    /// place must be in it.
    #[inline]
    pub(crate) fn try_leave(&self, guess: State) -> Option<State> {
        let mut old = guess;
        while old.queued() == 0 {
            match self.swap(old, old.left()) {
                Ok(new) => return Some(new),
                Err(seen) => old = seen,
            }
        }
        None
    }

    /// Leaves while somebody waits: hands the place on as the policy says, or gives it back.
    pub(crate) fn leave_and_wake(
        &self,
        leaver: Leaver,
        lease_over: &dyn Fn() -> bool,
        now_ns: &dyn Fn() -> u64,
    ) -> (Wake, State) {
        let exit = |state| Exit { state, leaver, lease_over };
        let mut old = self.state();
        while self.passing(&exit(old)) == Passing::GiveBack && !self.kept_lie_above(old) {
            match self.swap(old, old.left()) {
                Ok(new) if self.too_few_run(new) => return (self.serve(now_ns()), new),
                Ok(new) => return (Wake::Nobody, new),
                Err(seen) => old = seen,
            }
        }
        self.leave_under_lock(&exit, now_ns())
    }

    /// What becomes of the place of a thread that leaves. `GiveBack` is overruled if it would leave too few
    /// running, somebody waits too long, or a holder of locks waits, since others wait for it; but one that holds locks itself
    /// goes on with its turn.
    fn passing(&self, exit: &Exit<'_>) -> Passing {
        let state = exit.state;
        if !state.exit_looks_at_queue() {
            return Passing::GiveBack;
        }
        let rule = state.policy().rule();
        let needed = || {
            state.closed()
                || !self.enough_run(state.left(), 0)
                || !exit.leaver.holds_locks && self.first_waits()
        };
        match (rule.at_exit)(exit) {
            Passing::GiveBack if rule.at_rise == Passing::HandOn && needed() => Passing::HandOn,
            passing => passing,
        }
    }

    /// So many threads inside suffice while a place that was given back, or is kept, waits for its thread to return: one
    /// for each processor, or one less than the limit. Never none: somebody must be there whose exit hands on.
    pub(crate) fn enough(&self, limit: u32) -> u32 {
        if limit > self.processors { self.processors } else { limit.saturating_sub(1).max(1) }
    }

    /// Whether a holder of locks waits.
    #[inline]
    pub(crate) fn first_waits(&self) -> bool {
        self.first_waits.load(Ordering::Relaxed)
    }

    #[cold]
    fn leave_under_lock<'a>(&self, exit: &dyn Fn(State) -> Exit<'a>, now_ns: u64) -> (Wake, State) {
        let mut waiting = self.queue();
        self.give_back_kept();
        let mut old = self.state();
        // Asked again: what was true before the lock was taken need not be so now, and P and Q must not
        // pass their bounds.
        let (new, passing) = loop {
            let passing = match self.serves(&waiting, old) {
                true => self.passing(&exit(old)),
                false => Passing::GiveBack,
            };
            let new = match passing {
                Passing::GiveBack => old.left(),
                Passing::HandOn => old.handed_on(),
                Passing::Summon => old.left_and_summoned(),
                Passing::Disperse => old.left().dispersed(),
            };
            match self.swap(old, new) {
                Ok(new) => break (new, passing),
                Err(seen) => old = seen,
            }
        };
        let end = new.policy().rule().end;
        let wake = match passing {
            Passing::GiveBack if self.too_few_run(new) => self.fill(&mut waiting, now_ns),
            Passing::GiveBack => Wake::Nobody,
            Passing::Disperse => Wake::Retry(waiting.take_all()),
            Passing::Summon => Wake::Summoned(single(waiting.pop(end, now_ns))),
            Passing::HandOn => {
                let mut granted = single(waiting.pop(end, now_ns));
                self.fill_into(&mut granted, &mut waiting, now_ns);
                Wake::Granted(granted)
            }
        };
        self.reopen(&waiting, now_ns);
        (wake, new)
    }

    /// Whether the place of a thread that leaves may go to one of those who wait: in congestion, not
    /// while as many run as it lets in, unless a holder of locks waits.
    fn serves(&self, waiting: &Waiting, state: State) -> bool {
        waiting.has_first() || state.places() <= state.limit_for(false, self.spare())
    }

    /// Whether a place is free for one of this class.
    fn has_free(&self, state: State, first: bool) -> bool {
        state.places() < state.limit_for(first, self.spare())
    }

    /// Offers free places, and those that processors keep, to those who wait.
    #[cold]
    pub(crate) fn serve(&self, now_ns: u64) -> Wake {
        self.fill(&mut self.queue(), now_ns)
    }

    /// Offers free places to those who wait, as the policy does.
    fn fill(&self, waiting: &mut Waiting, now_ns: u64) -> Wake {
        self.give_back_kept();
        let mut woken = List::new();
        match self.state().policy().rule().at_rise {
            Passing::GiveBack => Wake::Nobody,
            Passing::HandOn => {
                self.fill_into(&mut woken, waiting, now_ns);
                Wake::of(woken, Wake::Granted)
            }
            Passing::Summon => {
                // P does not tell those who were summoned from those to whom the stall breaker gave a place. One
                // summoned too many finds no place and is the next again; one too few would leave a place idle.
                let free =
                    |state: State, first| self.has_free(state, first) && state.pending() < state.limit();
                self.take_while(&mut woken, waiting, now_ns, free, State::handed_on);
                Wake::of(woken, Wake::Summoned)
            }
            Passing::Disperse => {
                let mut old = self.state();
                while self.has_free(old, waiting.has_first()) && old.queued() > 0 {
                    match self.swap(old, old.dispersed()) {
                        Ok(_) => {
                            let all = waiting.take_all();
                            // A gate that stayed closed would send them back here, again and again.
                            self.reopen(waiting, now_ns);
                            return Wake::Retry(all);
                        }
                        Err(seen) => old = seen,
                    }
                }
                Wake::Nobody
            }
        }
    }

    /// Hands free places to those who wait.
    fn fill_into(&self, granted: &mut List, waiting: &mut Waiting, now_ns: u64) {
        self.take_while(granted, waiting, now_ns, |state, first| self.has_free(state, first), State::granted);
    }

    /// Takes nodes out of the queue, each with one `step` of the word, while `condition` holds for the word
    /// and for whether a holder of locks waits.
    fn take_while(
        &self,
        taken: &mut List,
        waiting: &mut Waiting,
        now_ns: u64,
        condition: impl Fn(State, bool) -> bool,
        step: fn(State) -> State,
    ) {
        let mut old = self.state();
        while old.queued() > 0 && condition(old, waiting.has_first()) {
            match self.swap(old, step(old)) {
                Ok(new) => {
                    let next = waiting.pop(new.policy().rule().end, now_ns);
                    taken.push_back(next.expect("Q > 0 under the lock, so a node is linked"));
                    old = new;
                }
                Err(seen) => old = seen,
            }
        }
    }

    /// A woken thread runs: it is pending no more. Its first step after waking.
    pub(crate) fn started(&self) -> State {
        // Sequentially consistent: see [`crate::kept`].
        State(self.state.0.fetch_sub(ONE_PENDING, Ordering::SeqCst)).started()
    }

    /// A summoned thread runs: it is pending no more, and enters if there is a place. Whether it does, and the word since.
    pub(crate) fn arrive(&self, caller: Caller) -> (bool, State) {
        let mut old = self.state();
        loop {
            let started = old.started();
            let free = started.unlimited() || self.has_free(started, caller.first);
            match self.swap(old, if free { started.entered() } else { started }) {
                Ok(new) => return (free, new),
                Err(seen) => old = seen,
            }
        }
    }

    /// Enters whatever the word says: the end of a wait, where blocking could deadlock the caller. The
    /// overshoot is repaid by exits, since an exit above L hands nothing on.
    pub(crate) fn enter_by_force(&self) -> State {
        State(self.state.0.fetch_add(ONE_PLACE, Ordering::AcqRel)).entered()
    }

    /// Whether a thread that is inside and out of tickets may simply take new ones: nobody waits.
    #[inline]
    pub(crate) fn may_stay(&self) -> bool {
        let state = self.state();
        state.queued() == 0 && state.places() <= state.limit()
    }

    /// Takes a node out of the queue; false if it is not there (any more).
    pub(crate) fn withdraw(&self, node: &Node) -> bool {
        self.withdraw_if(node, || true)
    }

    /// Takes a node out of the queue if it is still cancelled. A session may have obeyed the cancellation,
    /// or taken it back, and joined again since.
    pub(crate) fn withdraw_cancelled(&self, node: &Node) -> bool {
        // Relaxed: the session joined under the lock after it cleared the flag.
        self.withdraw_if(node, || node.cancelled.load(Ordering::Relaxed))
    }

    fn withdraw_if(&self, node: &Node, still: impl FnOnce() -> bool) -> bool {
        let mut waiting = self.queue();
        let removed = still() && waiting.remove(node).is_some();
        if removed {
            self.change(State::unqueued);
        }
        removed
    }

    /// Takes those out whose deadline has passed.
    pub(crate) fn withdraw_overdue(&self, now_ns: u64) -> List {
        let mut waiting = self.queue();
        let (mut left, mut overdue) = (waiting.take_overdue(now_ns), List::new());
        while let Some(node) = left.pop_front() {
            self.change(State::unqueued);
            overdue.push_back(node);
        }
        overdue
    }

    /// A change that is possible in every state; the caller holds the lock.
    pub(crate) fn change(&self, transition: impl Fn(State) -> State) -> State {
        let mut old = self.state();
        loop {
            match self.swap(old, transition(old)) {
                Ok(new) => return new,
                Err(seen) => old = seen,
            }
        }
    }

    /// Acquire: what earlier holders of places did is visible. Release: what this one did will be. Sequentially
    /// consistent: see [`crate::kept`]; a swap costs the same.
    #[inline]
    fn swap(&self, old: State, new: State) -> Result<State, State> {
        self.state
            .0
            .compare_exchange_weak(old.0, new.0, Ordering::SeqCst, Ordering::Relaxed)
            .map(|_| new)
            .map_err(State)
    }
}

fn single(node: Option<Arc<Node>>) -> List {
    let mut list = List::new();
    list.push_back(node.expect("Q > 0 under the lock, so a node is linked"));
    list
}

pub(crate) fn how(before: State) -> Entered {
    if before.places() < before.limit() || before.unlimited() { Entered::AtOnce } else { Entered::Lifo }
}
