//! The per-CPU slot cache: a slot that is released while nobody queues stays with the CPU.
//!
//! The next thread there takes it, so that neither writes the state word, which all CPUs share.
//!
//! T counts a kept slot, so whoever finds no slot looks here before it queues, and whoever queues gives them all back.
//!
//! # Protocol
//!
//! A slot is kept only while nobody misses it: the queue is empty and T <= L ([`Word::may_set_aside`]).
//!
//! - *No idle slot.* Keeping is a swap of the slot and then a look at the word. A joiner changes the word and then looks at all slots.
//!   All of that is sequentially consistent, so one of the two sees the other: the keeper takes its slot back and exits as usual, or the
//!   joiner gives it back to the word and serves the queue.
//! - *Nobody is passed that would not be passed without*: a slot is taken only if the word without that slot admits the caller.
//! - A slot is taken by a swap, so never twice. Slots are all alike: a keeper that takes back may well get another's.
//!
//! Allocators keep free lists per CPU for the same reason.

use crate::gate::word::{Caller, SET_ASIDE_MAX, Word};
use crate::gate::{Entered, Gate};
use crate::sync::{AtomicBool, CacheAligned, Ordering, fence_for_models};

/// A slot for each CPU; CPUs with higher numbers share them.
pub(crate) struct Slots(pub(crate) Box<[CacheAligned<AtomicBool>]>);

impl Slots {
    pub(crate) fn new(cpus: u32) -> Self {
        // Under shuttle, which is not exhaustive, two at least, so that slots are taken from other CPUs, too.
        let cpus = if cfg!(shuttle) { cpus.max(2) } else { cpus };
        // All slots are looked at by every joiner, so there are not any number of them.
        let slots = (cpus as usize).min(SET_ASIDE_MAX as usize);
        Slots((0..slots).map(|_| CacheAligned(AtomicBool::new(false))).collect())
    }

    /// The index of a CPU's slot.
    pub(crate) fn index_of(&self, cpu: usize) -> usize {
        cpu.checked_rem(self.0.len()).unwrap_or(0)
    }

    fn all(&self) -> impl Iterator<Item = &AtomicBool> {
        self.0.iter().map(|slot| &slot.0)
    }

    /// How many are kept, at some moments while it counts.
    pub(crate) fn count(&self) -> u32 {
        self.all().filter(|slot| slot.load(Ordering::SeqCst)).count() as u32
    }

    /// Enters on the slot that this CPU keeps.
    #[inline]
    pub(crate) fn take(&self, gate: &Gate, index: usize, caller: Caller) -> Option<(Entered, Word)> {
        let slot = &self.0.get(index)?.0;
        // Relaxed: the swap decides.
        if !slot.load(Ordering::Relaxed) {
            return None;
        }
        let before = gate.word().without(1);
        // The word is read again: before, the slot may have been given back, and kept again by another since.
        (gate.admits(before, caller) && take(slot)).then(|| (Entered::from(before), gate.word()))
    }

    /// Enters on a slot that any CPU keeps.
    #[cold]
    pub(crate) fn take_any(&self, gate: &Gate, caller: Caller) -> Option<(Entered, Word)> {
        let kept = self.count();
        let before = gate.word().without(kept);
        let takes = kept != 0 && gate.admits(before, caller) && self.all().any(take);
        takes.then(|| (Entered::from(before), gate.word()))
    }

    /// Exits, and the CPU keeps the slot: the word as it is then. `None` if nothing is done.
    #[inline]
    pub(crate) fn keep(&self, gate: &Gate, index: usize) -> Option<Word> {
        let slot = &self.0.get(index)?.0;
        if slot.load(Ordering::Relaxed) || !gate.word().may_set_aside() {
            return None;
        }
        // Release: what this holder did will be visible. Sequentially consistent: see the protocol.
        if slot.compare_exchange(false, true, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return None;
        }
        fence_for_models();
        let word = gate.word_now();
        (word.may_set_aside() || !take(slot)).then_some(word)
    }

    /// Gives all kept slots back to the word; returns whether there was one. The caller has joined the queue, and serves it then.
    #[cold]
    pub(crate) fn give_back(&self, gate: &Gate) -> bool {
        fence_for_models();
        let mut any = false;
        for slot in self.all() {
            if take(slot) {
                gate.release();
                any = true;
            }
        }
        any
    }
}

/// Takes the slot, if there is one.
#[inline]
fn take(slot: &AtomicBool) -> bool {
    // Sequentially consistent: see the protocol. Acquire: what earlier holders of this slot did is visible.
    slot.load(Ordering::SeqCst) && slot.swap(false, Ordering::Acquire)
}
