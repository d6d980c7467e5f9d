//! Places that processors keep: one that is left while nobody misses it stays with the processor, and the next
//! thread there takes it, so that neither writes the state word, which all processors share.
//!
//! A kept place is out: T counts it. So whoever finds no place, or hands one on, looks here first.
//!
//! # Protocol
//!
//! A place is kept only while nobody misses it:
//! - the queue is empty;
//! - or it is above the limit, where an exit hands nothing on, while a woken thread is on its way that will look here
//!   (both: [`State::lets_keep`]);
//! - or it is left within a turn, to which its thread is about to come back, and enough others run
//!   ([`Core::lets_keep_in_turn`], [`Core::enough_run`]), whose exits look here before they hand on.
//!
//! - *No idle place.* Keeping is a swap of the slot and then a look at the word, and within a turn at the other slots; whoever
//!   changes the word such that kept places are missed looks at the slots after that: it joins the queue, was the last woken
//!   thread to start, gives a place back within its turn, or changes the rule, the gate or congestion. All of
//!   that is sequentially consistent, so one of the two sees the other: the keeper takes its place back and leaves as usual, or
//!   the other gives it back to the word and serves the queue.
//! - *Nobody is overtaken who would not be without*: a place is taken from a slot only if the word without that place
//!   admits the caller.
//! - A slot is taken by a swap, so one place is never taken twice. Places are all alike: a keeper that takes back may well
//!   get another's.
//!
//! The same idea stands behind the free lists that allocators have for each processor.

use crate::Policy;
use crate::core::{Core, Entered, Wake, how};
use crate::state::{Caller, KEPT_MAX, State};
use crate::sync::{AtomicBool, CacheAligned, Ordering, fence_for_models};

/// A slot for each processor.
pub(crate) struct Kept {
    slots: Box<[CacheAligned<AtomicBool>]>,
}

impl Kept {
    pub(crate) fn new(processors: u32) -> Self {
        // Under shuttle, which is not exhaustive, two at least, so that places are taken from others' slots, too.
        let processors = if cfg!(shuttle) { processors.max(2) } else { processors };
        // All slots are looked at while the queue is locked, so there are not any number of them.
        let slots = (processors as usize).min(KEPT_MAX as usize);
        Kept { slots: (0..slots).map(|_| CacheAligned(AtomicBool::new(false))).collect() }
    }

    /// Where nothing is kept: every slot multiplies the interleavings, so most models do without.
    #[cfg(test)]
    pub(crate) fn nothing() -> Self {
        Kept { slots: Box::new([]) }
    }

    /// The slot of a processor; those with higher numbers share them.
    pub(crate) fn slot_of(&self, processor: usize) -> usize {
        processor.checked_rem(self.slots.len()).unwrap_or(0)
    }

    #[inline]
    fn at(&self, slot: usize) -> Option<&AtomicBool> {
        self.slots.get(slot).map(|slot| &slot.0)
    }

    /// The most places that are kept.
    #[inline]
    pub(crate) fn most(&self) -> u32 {
        self.slots.len() as u32
    }

    fn all(&self) -> impl Iterator<Item = &AtomicBool> {
        self.slots.iter().map(|slot| &slot.0)
    }

    /// How many there are, at some moments while it counts.
    pub(crate) fn count(&self) -> u32 {
        self.all().filter(|slot| slot.load(Ordering::SeqCst)).count() as u32
    }
}

impl Core {
    /// Enters on a place that this slot keeps.
    #[inline]
    pub(crate) fn take_kept(&self, slot: usize, caller: Caller) -> Option<(Entered, State)> {
        let slot = self.kept.at(slot)?;
        // Relaxed: the swap decides.
        if !slot.load(Ordering::Relaxed) {
            return None;
        }
        let before = self.state().without_kept(1);
        // The word is read again: before, the place may have been given back, and kept again by another since.
        (self.admits(before, caller) && take(slot)).then(|| (how(before), self.state()))
    }

    /// Enters on a place that any processor keeps.
    pub(crate) fn take_any_kept(&self, caller: Caller) -> Option<(Entered, State)> {
        let before = self.observed();
        let takes = self.admits(before, caller) && self.kept.all().any(take);
        takes.then(|| (how(before), self.state()))
    }

    /// Leaves, and the slot keeps the place: the word as it is then. `None` if nothing is done.
    ///
    /// `comes_back` is asked if the policy has turns and somebody waits: whether the leaver does within its own.
    #[inline]
    pub(crate) fn keep(
        &self,
        slot: usize,
        holds_locks: bool,
        comes_back: impl FnOnce() -> bool,
    ) -> Option<State> {
        let slot = self.kept.at(slot)?;
        if slot.load(Ordering::Relaxed) {
            return None;
        }
        let state = self.state();
        let in_turn = !state.lets_keep();
        // One more that is kept: asked before, too, so that two that cannot both leave their places so seldom try.
        if in_turn
            && !(self.lets_keep_in_turn(state, holds_locks) && self.enough_run(state, 1) && comes_back())
        {
            return None;
        }
        // Release: what this holder did will be visible. Sequentially consistent: see the protocol.
        if slot.compare_exchange(false, true, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return None;
        }
        fence_for_models();
        let state = self.state_now();
        let in_turn = || in_turn && self.lets_keep_in_turn(state, holds_locks) && self.enough_run(state, 0);
        (state.lets_keep() || in_turn() || !take(slot)).then_some(state)
    }

    /// Whether one that comes back within its turn may leave its place with its processor although somebody waits: no holder of
    /// locks does, unless it is one itself. Asked besides: whether enough run on.
    #[inline]
    fn lets_keep_in_turn(&self, state: State, holds_locks: bool) -> bool {
        state.lets_keep_in_turn() && (holds_locks || !self.first_waits())
    }

    /// Whether enough run, apart from those whose places are kept and from `more` who would leave theirs so: then such a place
    /// may wait for its thread.
    pub(crate) fn enough_run(&self, state: State, more: u32) -> bool {
        let enough = self.enough(state.limit());
        // Counting reads all slots, which others write.
        state.places() >= enough + self.kept.most() || state.places() >= enough + self.kept.count() + more
    }

    /// One gave its place back within its turn, `state` is the word since: whether processors kept so many places meanwhile that
    /// those who wait must be served.
    #[inline]
    pub(crate) fn too_few_run(&self, state: State) -> bool {
        fence_for_models();
        has_turns(state) && !self.enough_run(state, 0)
    }

    /// Whether no more lie above the limit than are kept. Then an exit repays no overshoot, since those could be handed on.
    #[inline]
    pub(crate) fn kept_lie_above(&self, state: State) -> bool {
        has_turns(state)
            && state.places() > state.limit()
            && state.places() <= state.limit() + self.kept.count()
    }

    /// Gives all kept places back to the word. The caller holds the queue's lock, and serves the queue then.
    pub(crate) fn give_back_kept(&self) {
        fence_for_models();
        for slot in self.kept.all() {
            if take(slot) {
                self.change(State::left);
            }
        }
    }

    /// A woken thread runs, `state` is the word since: if it was the last on its way, kept places that are missed go to those who
    /// wait.
    #[inline]
    pub(crate) fn has_started(&self, state: State, now_ns: impl FnOnce() -> u64) -> Wake {
        if state.pending() > 0 { Wake::Nobody } else { self.offer_kept(state, now_ns) }
    }

    /// Kept places go to those who wait, if anybody does; within turns only if too few run. `state` is the word.
    pub(crate) fn offer_kept(&self, state: State, now_ns: impl FnOnce() -> u64) -> Wake {
        if state.queued() == 0 {
            return Wake::Nobody;
        }
        fence_for_models();
        let is_kept = || self.kept.all().any(|slot| slot.load(Ordering::SeqCst));
        let is_missed = if has_turns(state) { !self.enough_run(state, 0) } else { is_kept() };
        if is_missed { self.serve(now_ns()) } else { Wake::Nobody }
    }
}

/// Whether places may be kept within turns, while somebody waits.
#[inline]
fn has_turns(state: State) -> bool {
    state.policy() == Policy::Quantum && state.queued() > 0
}

/// Takes the place out of a slot, if there is one.
#[inline]
fn take(slot: &AtomicBool) -> bool {
    // Sequentially consistent: see the protocol. Acquire: what earlier holders of this place did is visible.
    slot.load(Ordering::SeqCst) && slot.swap(false, Ordering::Acquire)
}
