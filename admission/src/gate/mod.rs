//! The gate: the state word and the queue together.
//!
//! Free of parking, of clocks and of sessions. Every step returns at once and says whom to wake, and receives the time if it needs
//! it, so that threads, async tasks, simulators and model checkers run the same code.
//!
//! # Protocol
//!
//! The word changes by compare-and-swap, each step one transition of [`Word`]. Q, L, policy and flags change only under the queue's
//! lock; so does the list, and Q is the number of nodes linked whenever the lock is free.
//!
//! - *enter*: from a word that admits the caller, T + 1.
//! - *join*: under the lock, from a word that does not admit the caller, Q + 1; otherwise the caller enters after all.
//! - *exit*: while nobody queues, or T > L, T - 1. Otherwise, under the lock, the slot is handed to the next waiter (Q - 1, P + 1, T
//!   stays) and other free slots are granted.
//! - *start*: a woken thread runs, P - 1.
//!
//! Why it holds:
//!
//! - *No lost wake-up.* A slot released before the joiner's swap makes that swap fail, and the joiner looks again; a slot released
//!   after it finds Q > 0 and looks at the queue.
//! - *No idle slot.* `fifo` and `flifo` release a slot only from a word with Q = 0 or T > L. `quantum` does so within a time slice,
//!   too, while enough threads run on ([`Gate::enough`]) and no lock holder waits for a session that holds none. In congestion a slot is
//!   released while enough threads run, unless a lock holder waits.
//! - *Wakes happen after unlocking*, so that the woken thread does not run into the lock.
//!
//! Lock order: the queue's lock is the only one here, and nothing is called while it is held. Nothing here fails.

pub(crate) mod hold;
pub(crate) mod parker;
pub(crate) mod policy;
pub(crate) mod queue;
pub(crate) mod waiters;
pub(crate) mod word;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use self::policy::Policy;
use self::queue::{List, Node, Request};
use self::waiters::{End, Waiters};
use self::word::{Caller, ONE_PENDING, ONE_SLOT, PENDING_MAX, Word};
use crate::quantum::fairness::Charge;
use crate::sync::{AtomicBool, AtomicU64, CacheAligned, Mutex, MutexGuard, Ordering, lock};

/// How a thread entered without queueing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entered {
    /// On a free slot.
    AtOnce,
    /// All slots were out, but fewer than L threads were really running.
    Barging,
}

impl Entered {
    /// How a thread enters from this word.
    #[inline]
    pub(crate) fn from(before: Word) -> Self {
        if before.slots() < before.limit() || before.is_unlimited() {
            Entered::AtOnce
        } else {
            Entered::Barging
        }
    }
}

/// What came of joining the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joined {
    /// A slot became free before the caller joined.
    Entered(Entered, Word),
    /// The node is in the queue.
    Queued(Word),
    /// The queue is full.
    Full,
    /// The session was cancelled before.
    Cancelled,
}

/// Whom the caller must wake now. Each node is out of the queue.
#[must_use]
pub(crate) enum Wake {
    Nobody,
    /// They hold slots, and are pending until they call [`Gate::start`].
    Granted(List),
    /// They hold nothing and may try again.
    Retry(List),
}

/// The session that exits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaver {
    /// It comes back at once, and its time slice goes on.
    pub(crate) in_slice: bool,
    /// Others may wait for its locks, so it had better come back.
    pub(crate) holds_locks: bool,
}

/// What the queue counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    /// Promotions by age so far.
    pub(crate) promoted: u64,
    /// Waiters that joined with a deficit so far.
    pub(crate) with_deficit: u64,
    /// Sessions in row-lock waits now.
    pub(crate) lock_waiters: u32,
}

/// The queue, locked.
struct Queue<'a> {
    waiters: MutexGuard<'a, Waiters>,
    first_waits: &'a AtomicBool,
}

impl Deref for Queue<'_> {
    type Target = Waiters;

    fn deref(&self) -> &Waiters {
        &self.waiters
    }
}

impl DerefMut for Queue<'_> {
    fn deref_mut(&mut self) -> &mut Waiters {
        &mut self.waiters
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

pub(crate) struct Gate {
    /// See [`word`] for its bits and the invariants between them.
    word: CacheAligned<AtomicU64>,
    waiters: CacheAligned<Mutex<Waiters>>,
    /// Whether a lock holder waits, as of the last unlocking. An exit that reads it too early releases its slot where it should have
    /// handed it off, and the next exit mends that.
    first_waits: AtomicBool,
    /// So many running threads keep the machine busy.
    cpus: u32,
}

impl Gate {
    pub(crate) fn new(policy: Policy, limit: u32, cpus: u32) -> Self {
        Gate {
            word: CacheAligned(AtomicU64::new(Word::idle(policy, limit).0)),
            waiters: CacheAligned(Mutex::new(Waiters::new())),
            first_waits: AtomicBool::new(false),
            cpus: cpus.max(1),
        }
    }

    fn queue(&self) -> Queue<'_> {
        Queue { waiters: lock(&self.waiters.0), first_waits: &self.first_waits }
    }

    /// The word now. Relaxed: a hint that a swap confirms.
    #[inline]
    pub(crate) fn word(&self) -> Word {
        Word(self.word.0.load(Ordering::Relaxed))
    }

    /// The word, ordered after the caller's sequentially consistent stores.
    #[cfg_attr(not(feature = "percpu"), allow(dead_code))]
    #[inline]
    pub(crate) fn word_now(&self) -> Word {
        Word(self.word.0.load(Ordering::SeqCst))
    }

    /// The word, ordered after the caller's sequentially consistent stores, and before a join that comes later in that order.
    pub(crate) fn word_after_all(&self) -> Word {
        Word(self.word.0.fetch_or(0, Ordering::SeqCst))
    }

    /// Slots that congestion leaves to sessions without locks. The other CPUs are for the lock holders that others wait for.
    #[inline]
    fn spare(&self) -> u32 {
        (self.cpus / 2).max(1)
    }

    /// Running threads that suffice while a released slot waits for its session: one for each CPU, or one less than the limit. Never
    /// none: some thread must be there whose exit hands off.
    pub(crate) fn enough(&self, limit: u32) -> u32 {
        if limit > self.cpus { self.cpus } else { limit.saturating_sub(1).max(1) }
    }

    /// Whether a lock holder waits.
    #[inline]
    pub(crate) fn first_waits(&self) -> bool {
        self.first_waits.load(Ordering::Relaxed)
    }

    /// Whether the caller may enter as a newcomer from this word.
    #[inline]
    pub(crate) fn admits(&self, word: Word, caller: Caller) -> bool {
        word.admits(caller, self.spare())
    }

    /// Enters if the policy lets the caller in now.
    ///
    /// `guess` is what the caller believes the word to be, such as what it saw last. A right guess saves the load, which would stall
    /// behind the caller's previous swap; a wrong one costs a failed swap.
    #[inline]
    pub(crate) fn try_enter(&self, guess: Word, caller: Caller) -> Option<(Entered, Word)> {
        if self.admits(guess, caller)
            && let Ok(new) = self.swap(guess, guess.entered())
        {
            return Some((Entered::from(guess), new));
        }
        self.try_enter_again(caller)
    }

    /// The guess was wrong. Not inlined, so that the way of a right one stays short.
    #[inline(never)]
    fn try_enter_again(&self, caller: Caller) -> Option<(Entered, Word)> {
        let mut old = self.word();
        while self.admits(old, caller) {
            match self.swap(old, old.entered()) {
                Ok(new) => return Some((Entered::from(old), new)),
                Err(seen) => old = seen,
            }
        }
        None
    }

    /// Joins the queue, or enters after all if a slot has become free. The caller has prepared the node's parker, and parks
    /// when it is queued.
    ///
    /// A caller that may not pass the queue can find slots free that others released within their slices: those go to the head of the
    /// queue, whoever that is.
    pub(crate) fn join(
        &self,
        node: &Arc<Node>,
        request: Request,
        (caller, end): (Caller, End),
        queue_limit: u32,
    ) -> (Joined, Wake) {
        let mut waiters = self.queue();
        // Acquire: what the canceller did before is visible. Set before the lock is taken to look for the node, so either it is seen
        // here or the canceller finds the node linked.
        if node.cancelled.load(Ordering::Acquire) {
            return (Joined::Cancelled, self.fill(&mut waiters, request.queued_at_ns));
        }
        let mut old = self.word();
        let queued = loop {
            let admitted = self.admits(old, caller);
            if !admitted && queue_limit != 0 && old.queued() >= queue_limit {
                // The slot it released within its slice is for those that queue.
                return (Joined::Full, self.fill(&mut waiters, request.queued_at_ns));
            }
            let new = if admitted { old.entered() } else { old.joined() };
            match self.swap(old, new) {
                Ok(new) if admitted => return (Joined::Entered(Entered::from(old), new), Wake::Nobody),
                Ok(new) => break new,
                Err(seen) => old = seen,
            }
        };
        let charge = if queued.has_slices() { request.charge } else { Charge::default() };
        waiters.push(Arc::clone(node), Request { charge, ..request }, end);
        (Joined::Queued(queued), self.fill(&mut waiters, request.queued_at_ns))
    }

    /// Releases the slot if nobody queues, and returns the word as it is then. If `None`, call [`Gate::exit_and_wake`]. For `guess`
    /// see [`Gate::try_enter`]; the caller's own slot must be in it.
    #[inline]
    pub(crate) fn try_exit(&self, guess: Word) -> Option<Word> {
        let mut old = guess;
        while old.queued() == 0 {
            match self.swap(old, old.released()) {
                Ok(new) => return Some(new),
                Err(seen) => old = seen,
            }
        }
        None
    }

    /// Releases a slot without looking at the queue. The caller serves the queue then.
    #[cfg_attr(not(feature = "percpu"), allow(dead_code))]
    pub(crate) fn release(&self) {
        self.change(Word::released);
    }

    /// Exits while others queue: hands the slot off, or releases it, as the policy says.
    pub(crate) fn exit_and_wake(&self, leaver: Leaver, now_ns: &dyn Fn() -> u64) -> (Wake, Word) {
        let mut old = self.word();
        while !self.hands_off(old, leaver) {
            match self.swap(old, old.released()) {
                Ok(new) => return (Wake::Nobody, new),
                Err(seen) => old = seen,
            }
        }
        self.exit_under_lock(leaver, now_ns())
    }

    /// Whether an exit from this word hands its slot off. One whose slice goes on does not, unless too few threads would run or a lock
    /// holder waits; a session that holds locks itself goes on all the same.
    fn hands_off(&self, word: Word, leaver: Leaver) -> bool {
        let goes_on = || {
            word.policy().rule().has_slices
                && leaver.in_slice
                && word.slots() > self.enough(word.limit())
                && (leaver.holds_locks || !self.first_waits())
        };
        word.exit_serves_queue() && !goes_on()
    }

    #[cold]
    fn exit_under_lock(&self, leaver: Leaver, now_ns: u64) -> (Wake, Word) {
        let mut waiters = self.queue();
        let mut old = self.word();
        // Asked again: what was true before the lock was taken need not be so now, and P and Q must not pass their bounds.
        let (new, hands_off) = loop {
            let hands_off = self.serves(&waiters, old) && self.hands_off(old, leaver);
            match self.swap(old, if hands_off { old.handed_off() } else { old.released() }) {
                Ok(new) => break (new, hands_off),
                Err(seen) => old = seen,
            }
        };
        if !hands_off {
            return (Wake::Nobody, new);
        }
        let mut granted = List::new();
        granted.push_back(waiters.pop(now_ns).expect("Q > 0 under the lock, so a node is linked"));
        self.fill_into(&mut granted, &mut waiters, now_ns);
        (Wake::Granted(granted), new)
    }

    /// Whether a released slot may go to a waiter: in congestion, not while as many run as it lets in, unless a lock holder waits.
    fn serves(&self, waiters: &Waiters, word: Word) -> bool {
        waiters.has_first() || word.slots() <= word.limit_for(false, self.spare())
    }

    /// Grants free slots to those that wait.
    #[cold]
    pub(crate) fn serve(&self, now_ns: u64) -> Wake {
        self.fill(&mut self.queue(), now_ns)
    }

    fn fill(&self, waiters: &mut Waiters, now_ns: u64) -> Wake {
        let mut granted = List::new();
        self.fill_into(&mut granted, waiters, now_ns);
        if granted.is_empty() { Wake::Nobody } else { Wake::Granted(granted) }
    }

    fn fill_into(&self, granted: &mut List, waiters: &mut Waiters, now_ns: u64) {
        let has_free =
            |word: Word, first| word.slots() < word.limit_for(first, self.spare()) && word.queued() > 0;
        let mut old = self.word();
        while has_free(old, waiters.has_first()) {
            match self.swap(old, old.granted()) {
                Ok(new) => {
                    granted
                        .push_back(waiters.pop(now_ns).expect("Q > 0 under the lock, so a node is linked"));
                    old = new;
                }
                Err(seen) => old = seen,
            }
        }
    }

    /// A woken thread runs: its first step after waking.
    pub(crate) fn start(&self) -> Word {
        Word(self.word.0.fetch_sub(ONE_PENDING, Ordering::AcqRel)).started()
    }

    /// Enters whatever the word says: the end of a wait, where blocking could deadlock the caller. Exits repay the overshoot, since an
    /// exit above L hands nothing off.
    pub(crate) fn enter_forced(&self) -> Word {
        Word(self.word.0.fetch_add(ONE_SLOT, Ordering::AcqRel)).entered()
    }

    /// Whether a running session that is out of tickets may simply take new ones: nobody queues.
    #[inline]
    pub(crate) fn may_stay(&self) -> bool {
        let word = self.word();
        word.queued() == 0 && word.slots() <= word.limit()
    }

    /// Takes a node out of the queue; false if it is not there.
    pub(crate) fn withdraw(&self, node: &Node) -> bool {
        self.withdraw_if(node, || true)
    }

    /// Takes a node out of the queue if it is still cancelled. Its session may have obeyed the cancellation, or taken it back, and
    /// joined again since.
    pub(crate) fn withdraw_cancelled(&self, node: &Node) -> bool {
        // Relaxed: the session joined under the lock after it cleared the flag.
        self.withdraw_if(node, || node.cancelled.load(Ordering::Relaxed))
    }

    fn withdraw_if(&self, node: &Node, still: impl FnOnce() -> bool) -> bool {
        let mut waiters = self.queue();
        let removed = still() && waiters.remove(node).is_some();
        if removed {
            self.change(Word::unqueued);
        }
        removed
    }

    /// Takes those out whose deadline has passed.
    pub(crate) fn withdraw_overdue(&self, now_ns: u64) -> List {
        let mut waiters = self.queue();
        let (mut left, mut overdue) = (waiters.take_overdue(now_ns), List::new());
        while let Some(node) = left.pop_front() {
            self.change(Word::unqueued);
            overdue.push_back(node);
        }
        overdue
    }

    /// Sets policy and limit. A higher limit wakes as many as now fit; another policy, or no limit, sends everybody in the queue to
    /// try again.
    pub(crate) fn set_rule(&self, policy: Policy, limit: u32, now_ns: u64) -> Wake {
        let mut waiters = self.queue();
        // Policy and flags change under the lock only, so what is seen now stays so.
        if Word::idle(policy, limit).is_unlimited() || self.word().policy() != policy {
            self.change(|word| word.with_rule(policy, limit).dispersed());
            return Wake::Retry(waiters.take_all());
        }
        self.change(|word| word.with_rule(policy, limit));
        self.fill(&mut waiters, now_ns)
    }

    /// Sets the age at which a waiter is promoted, and how many row-lock waits make congestion.
    pub(crate) fn set_bounds(&self, promote_after_ns: u64, lock_waiters_max: u32, now_ns: u64) -> Wake {
        let mut waiters = self.queue();
        waiters.promote_after_ns = promote_after_ns;
        waiters.lock_waiters_max = lock_waiters_max;
        self.update_congestion(&mut waiters, now_ns)
    }

    /// A wait for a row lock begins or ends.
    pub(crate) fn count_lock_wait(&self, begins: bool, now_ns: u64) -> Wake {
        let mut waiters = self.queue();
        waiters.lock_waiters = match begins {
            true => waiters.lock_waiters + 1,
            false => waiters.lock_waiters.saturating_sub(1),
        };
        self.update_congestion(&mut waiters, now_ns)
    }

    fn update_congestion(&self, waiters: &mut Waiters, now_ns: u64) -> Wake {
        let congested = waiters.lock_waiters_max != 0 && waiters.lock_waiters >= waiters.lock_waiters_max;
        if self.word().is_congested() == congested {
            return Wake::Nobody;
        }
        self.change(|word| word.with_congested(congested));
        self.fill(waiters, now_ns)
    }

    /// Admits the next waiter above the limit: the stall breaker.
    pub(crate) fn break_stall(&self, now_ns: u64) -> Wake {
        let mut waiters = self.queue();
        let mut old = self.word();
        // However many are pending: they may be tasks that nobody polls, unlike the next.
        while old.queued() > 0 && old.pending() < PENDING_MAX {
            match self.swap(old, old.granted()) {
                Ok(_) => {
                    let mut granted = List::new();
                    granted
                        .push_back(waiters.pop(now_ns).expect("Q > 0 under the lock, so a node is linked"));
                    return Wake::Granted(granted);
                }
                Err(seen) => old = seen,
            }
        }
        Wake::Nobody
    }

    /// A number that grows with each waiter that is served.
    pub(crate) fn served(&self) -> u64 {
        self.queue().served
    }

    /// What the queue counts.
    pub(crate) fn counts(&self) -> Counts {
        let waiters = self.queue();
        Counts {
            promoted: waiters.promoted,
            with_deficit: waiters.averages.with_deficit,
            lock_waiters: waiters.lock_waiters,
        }
    }

    /// A change that is possible in every state. Of Q, L, policy and flags only under the lock.
    fn change(&self, transition: impl Fn(Word) -> Word) -> Word {
        let mut old = self.word();
        loop {
            match self.swap(old, transition(old)) {
                Ok(new) => return new,
                Err(seen) => old = seen,
            }
        }
    }

    /// Acquire: what earlier slot holders did is visible. Release: what this one did will be. Sequentially consistent for the modules
    /// that keep slots aside, which look at the word after a store of theirs; on a swap that costs the same.
    #[inline]
    fn swap(&self, old: Word, new: Word) -> Result<Word, Word> {
        self.word
            .0
            .compare_exchange_weak(old.0, new.0, Ordering::SeqCst, Ordering::Relaxed)
            .map(|_| new)
            .map_err(Word)
    }
}
