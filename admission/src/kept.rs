//! Places that processors keep: one that is left while nobody needs it stays with the processor, and the next
//! thread there takes it, so that neither writes the state word, which all processors share.
//!
//! A kept place is out: T counts it. So whoever finds no place, or hands one on, looks here first.
//!
//! # Protocol
//!
//! A place is kept only while the word says that nobody misses it ([`State::lets_keep`]): the queue is empty, or it is
//! above the limit, where an exit hands nothing on, while a woken thread is on its way that will look here.
//!
//! - *No idle place.* Keeping is a swap of the slot and then a look at the word; whoever changes the word such that kept
//!   places are missed (it joins the queue, or was the last woken thread to start) looks at the slots after that. Both are
//!   sequentially consistent, so one of the two sees the other: the keeper takes its place back and leaves as usual, or the
//!   other gives it back to the word and serves the queue.
//! - *Nobody is overtaken who would not be without*: a place is taken from a slot only if the word without that place
//!   admits the caller.
//! - A slot is taken by a swap, so one place is never taken twice. Places are all alike: a keeper that takes back may well
//!   get another's.
//!
//! The same idea stands behind the free lists that allocators have for each processor.

use crate::core::{Core, Entered, Wake, how};
use crate::state::{Caller, KEPT_MAX, State};
use crate::sync::{AtomicBool, CacheAligned, Ordering, fence_for_models};

/// A slot for each processor; those with higher numbers share them.
pub(crate) struct Kept {
    slots: Box<[CacheAligned<AtomicBool>]>,
}

impl Kept {
    pub(crate) fn new(processors: u32) -> Self {
        // Under shuttle, which is not exhaustive, two at least, so that places are taken from others' slots, too.
        let processors = if cfg!(shuttle) { processors.max(2) } else { processors };
        // All slots are looked at while the queue is locked, so there are not any number of them.
        let slots = (processors as usize).next_power_of_two().min(KEPT_MAX as usize);
        Kept { slots: (0..slots).map(|_| CacheAligned(AtomicBool::new(false))).collect() }
    }

    /// Where nothing is kept: every slot multiplies the interleavings, so most models do without.
    #[cfg(all(test, loom))]
    pub(crate) fn nothing() -> Self {
        Kept { slots: Box::new([]) }
    }

    #[inline]
    fn of(&self, processor: usize) -> Option<&AtomicBool> {
        // Their number is a power of two.
        self.slots.get(processor & self.slots.len().wrapping_sub(1)).map(|slot| &slot.0)
    }

    fn all(&self) -> impl Iterator<Item = &AtomicBool> {
        self.slots.iter().map(|slot| &slot.0)
    }

    /// How many there are, at some moments while it counts.
    pub(crate) fn count(&self) -> u32 {
        self.all().filter(|slot| slot.load(Ordering::Relaxed)).count() as u32
    }
}

impl Core {
    /// Enters on a place that this processor keeps.
    #[inline]
    pub(crate) fn take_kept(&self, processor: usize, caller: Caller) -> Option<(Entered, State)> {
        let slot = self.kept.of(processor)?;
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

    /// Leaves, and the processor keeps the place: the word as it is then. `None` if nothing is done.
    #[inline]
    pub(crate) fn keep(&self, processor: usize) -> Option<State> {
        let slot = self.kept.of(processor)?;
        if slot.load(Ordering::Relaxed) || !self.state().lets_keep() {
            return None;
        }
        // Release: what this holder did will be visible. Sequentially consistent: see the protocol.
        if slot.compare_exchange(false, true, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return None;
        }
        fence_for_models();
        let state = self.state_now();
        (state.lets_keep() || !take(slot)).then_some(state)
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

    /// A woken thread runs, `state` is the word since: if it was the last on its way, kept places go to those who wait.
    #[inline]
    pub(crate) fn has_started(&self, state: State, now_ns: impl FnOnce() -> u64) -> Wake {
        if state.pending() > 0 { Wake::Nobody } else { self.offer_kept(state, now_ns) }
    }

    /// Kept places go to those who wait, if anybody does; `state` is the word.
    pub(crate) fn offer_kept(&self, state: State, now_ns: impl FnOnce() -> u64) -> Wake {
        if state.queued() == 0 {
            return Wake::Nobody;
        }
        fence_for_models();
        match self.kept.all().any(|slot| slot.load(Ordering::SeqCst)) {
            true => self.serve(now_ns()),
            false => Wake::Nobody,
        }
    }
}

/// Takes the place out of a slot, if there is one.
#[inline]
fn take(slot: &AtomicBool) -> bool {
    // Sequentially consistent: see the protocol. Acquire: what earlier holders of this place did is visible.
    slot.load(Ordering::SeqCst) && slot.swap(false, Ordering::Acquire)
}
