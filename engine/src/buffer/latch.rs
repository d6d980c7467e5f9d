//! The state word of a page: latch, version, residency.
//!
//! # Rules
//! - No thread waits while it holds a latch. A thread waits for a latch with nothing held (`PageEntry::wait_while`). A
//!   thread that holds one only tries for the next, and on failure releases all and starts over. So there is no order
//!   among latches, and no deadlock. [`held`] counts in debug builds; a wait asserts that it is 0.
//! - A reader without a latch reads the version, reads the page, and checks that the version is the same.
//!
//! # Waking
//! A waiter sets `WAITERS` and parks on the entry's address. A thread that ends the awaited state (exclusive latch,
//! last shared latch, load, write in progress) and finds the bit set clears it and wakes all, which check again.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use parking_lot_core::{DEFAULT_PARK_TOKEN, DEFAULT_UNPARK_TOKEN};

use crate::metrics::WaitReason;
use crate::wait::{Waiter, poll};

pub(crate) const SHARED_ONE: u64 = 1;
pub(crate) const SHARED_MASK: u64 = 0xffff;
pub(crate) const EXCLUSIVE: u64 = 1 << 16;
pub(crate) const WAITERS: u64 = 1 << 17;
pub(crate) const REFERENCED: u64 = 1 << 18;
pub(crate) const DIRTY: u64 = 1 << 19;
pub(crate) const WRITING: u64 = 1 << 20;
pub(crate) const RESIDENCY: u64 = 3 << 22;
pub(crate) const EVICTED: u64 = 0;
pub(crate) const LOADING: u64 = 1 << 22;
pub(crate) const RESIDENT: u64 = 2 << 22;
pub(crate) const VERSION_ONE: u64 = 1 << 24;
pub(crate) const VERSION: u64 = !(VERSION_ONE - 1);
/// A change holds a latch for a microsecond or two, so a waiter polls for about 10.
const POLLS: u32 = 64;
/// What an optimistic reader compares.
const SEEN: u64 = VERSION | EXCLUSIVE | RESIDENCY;

/// One page of the tablespace, whether in memory or not. Zeroed memory is a valid, evicted entry.
///
/// | bits | name | meaning |
/// |---|---|---|
/// | 0-15 | shared | holders of the shared latch |
/// | 16 | `EXCLUSIVE` | the exclusive latch is held |
/// | 17 | `WAITERS` | someone may be parked on the entry's address |
/// | 18 | `REFERENCED` | used since the clock's hand last came by |
/// | 19 | `DIRTY` | the frame has changes that no write in progress takes to disk |
/// | 20 | `WRITING` | a copy of the frame is being written to disk |
/// | 22-23 | residency | evicted (0), loading (1), resident (2) |
/// | 24-63 | version | plus one at each release of a changed page and at each eviction |
///
/// | residency | exclusive | shared | dirty, writing | allowed actions |
/// |---|---|---|---|---|
/// | evicted | 0 | 0 | 0, 0 | anyone: become the loader (evicted to loading by CAS) |
/// | loading | 0 | 0 | 0, 0 | the loader alone: set `frame`, fill it, then resident, or evicted after an error |
/// | resident | 0 | 0 | any | read optimistically; share; latch exclusively; evict if neither dirty nor writing |
/// | resident | 0 | n | any | read; a cleaner that shares clears dirty and sets writing before it copies |
/// | resident | 1 | 0 | any | the holder alone reads and changes the frame, and sets dirty before it changes |
///
/// Invariants: exclusive and shared exclude each other. `frame` changes only while loading. Dirty is set by the
/// exclusive holder and cleared by a sharing cleaner only. Writing is cleared only by the cleaner that set
/// it, and a page that is written is not evicted, so that it cannot be read back before it arrived.
#[repr(C, align(16))]
pub(crate) struct PageEntry {
    pub(crate) state: AtomicU64,
    pub(crate) frame: AtomicU32,
}

#[cfg(debug_assertions)]
mod counter {
    use std::cell::Cell;
    thread_local!(static HELD: Cell<u32> = const { Cell::new(0) });
    pub(super) fn add(n: i32) {
        HELD.set(HELD.get().checked_add_signed(n).expect("a latch is released once"));
    }
    pub(super) fn get() -> u32 {
        HELD.get()
    }
}

#[cfg(not(debug_assertions))]
mod counter {
    pub(super) fn add(_: i32) {}
    pub(super) fn get() -> u32 {
        0
    }
}

/// The number of latches that this thread holds. Counted in debug builds only; 0 in others.
pub fn held() -> u32 {
    counter::get()
}

impl PageEntry {
    /// The version to read optimistically under; `Err` has the state if that is not possible now.
    #[inline]
    pub(crate) fn begin_read(&self) -> Result<u64, u64> {
        let state = self.state.load(Ordering::Acquire);
        if state & (EXCLUSIVE | RESIDENCY) != RESIDENT {
            return Err(state);
        }
        if state & REFERENCED == 0 {
            self.state.fetch_or(REFERENCED, Ordering::Relaxed);
        }
        Ok(state & SEEN)
    }

    /// Whether the page is in memory; this may change at any time.
    pub(crate) fn is_resident(&self) -> bool {
        self.state.load(Ordering::Acquire) & RESIDENCY == RESIDENT
    }

    /// The version of a page that looks evictable; [`Self::try_exclusive`] decides.
    pub(crate) fn evictable(&self) -> Option<u64> {
        let state = self.state.load(Ordering::Acquire);
        (state & (EXCLUSIVE | RESIDENCY) == RESIDENT).then_some(state & SEEN)
    }

    /// Whether the page is still as it was when `seen` was read.
    #[inline]
    pub(crate) fn unchanged(&self, seen: u64) -> bool {
        fence(Ordering::Acquire);
        self.state.load(Ordering::Relaxed) & SEEN == seen
    }

    /// Takes the exclusive latch if the page is as `seen`, and neither shared nor otherwise `forbidden`.
    pub(crate) fn try_exclusive(&self, seen: u64, forbidden: u64) -> bool {
        let taken = self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, |state| {
            let free = state & SEEN == seen && state & (SHARED_MASK | forbidden) == 0;
            free.then_some(state | EXCLUSIVE)
        });
        if taken.is_ok() {
            // The changes that follow must not be seen before the bit is.
            fence(Ordering::Release);
            counter::add(1);
        }
        taken.is_ok()
    }

    /// Takes a shared latch if the page is as `seen`.
    pub(crate) fn try_shared(&self, seen: u64) -> bool {
        let taken = self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, |state| {
            let free = state & SEEN == seen && state & SHARED_MASK != SHARED_MASK;
            free.then(|| state + SHARED_ONE)
        });
        counter::add(i32::from(taken.is_ok()));
        taken.is_ok()
    }

    /// Takes a shared latch on a dirty page in order to write it: it is clean and being written from here on.
    pub(crate) fn try_begin_write(&self) -> bool {
        let taken = self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, |state| {
            let free = state & (EXCLUSIVE | RESIDENCY | DIRTY | WRITING) == RESIDENT | DIRTY
                && state & SHARED_MASK != SHARED_MASK;
            free.then(|| (state & !DIRTY | WRITING) + SHARED_ONE)
        });
        counter::add(i32::from(taken.is_ok()));
        taken.is_ok()
    }

    /// The write that [`Self::try_begin_write`] began has ended; `again` makes the page dirty (again).
    pub(crate) fn end_write(&self, again: bool) {
        if again {
            self.state.fetch_or(DIRTY, Ordering::Relaxed);
        }
        let before = self.state.fetch_and(!WRITING, Ordering::Release);
        self.wake_if(before);
    }

    pub(crate) fn release_shared(&self) {
        counter::add(-1);
        let before = self.state.fetch_sub(SHARED_ONE, Ordering::Release);
        if before & SHARED_MASK == SHARED_ONE {
            self.wake_if(before);
        }
    }

    pub(crate) fn release_exclusive(&self, changed: bool) {
        counter::add(-1);
        let before = match changed {
            true => self.state.fetch_add(VERSION_ONE - EXCLUSIVE, Ordering::Release),
            false => self.state.fetch_sub(EXCLUSIVE, Ordering::Release),
        };
        self.wake_if(before);
    }

    /// What an optimistic reader sees after the exclusive holder's release.
    pub(crate) fn seen_after(&self, changed: bool) -> u64 {
        let now = self.state.load(Ordering::Relaxed) & SEEN & !EXCLUSIVE;
        if changed { now.wrapping_add(VERSION_ONE) } else { now }
    }

    /// The exclusive holder evicts the page; the frame is the caller's.
    pub(crate) fn release_evicted(&self) {
        counter::add(-1);
        self.replace(|state| (state & VERSION).wrapping_add(VERSION_ONE) | EVICTED);
    }

    /// Becomes the loader of an evicted page.
    pub(crate) fn try_begin_load(&self) -> bool {
        self.state
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |state| {
                (state & RESIDENCY == EVICTED).then_some(state | LOADING)
            })
            .is_ok()
    }

    /// The loader has filled `frame`, or failed (`None`).
    pub(crate) fn end_load(&self, frame: Option<u32>) {
        if let Some(frame) = frame {
            self.frame.store(frame, Ordering::Relaxed);
            self.replace(|state| state & VERSION | RESIDENT | REFERENCED);
        } else {
            self.replace(|state| state & VERSION | EVICTED);
        }
    }

    /// The loader makes a page that is not on disk yet, and has its exclusive latch.
    pub(crate) fn end_load_created(&self, frame: u32) {
        self.frame.store(frame, Ordering::Relaxed);
        counter::add(1);
        self.replace(|state| state & VERSION | RESIDENT | REFERENCED | EXCLUSIVE);
        fence(Ordering::Release);
    }

    /// Replaces the state by a new one derived from it. Only one thread may do so; waiters are woken.
    fn replace(&self, new: impl Fn(u64) -> u64) {
        let mut state = self.state.load(Ordering::Relaxed);
        while let Err(now) =
            self.state.compare_exchange_weak(state, new(state), Ordering::Release, Ordering::Relaxed)
        {
            state = now;
        }
        if state & WAITERS != 0 {
            self.wake();
        }
    }

    #[inline]
    fn wake_if(&self, before: u64) {
        if before & WAITERS != 0 {
            self.state.fetch_and(!WAITERS, Ordering::Relaxed);
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        // SAFETY: the address is this entry's, which nothing else parks on.
        unsafe { parking_lot_core::unpark_all(self.key(), DEFAULT_UNPARK_TOKEN) };
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Waits until the state is no longer `blocked`: polls, then parks. The caller holds no latch.
    ///
    /// It does not yield the CPU between polls: a thread that does gets it back after the others' time slices, which is
    /// milliseconds with many threads, and may hold row locks for that long.
    pub(crate) fn wait_while(&self, waiter: &Waiter, reason: WaitReason, blocked: impl Fn(u64) -> bool) {
        debug_assert_eq!(held(), 0, "a thread must not wait while it holds a latch");
        if !poll(POLLS, || !blocked(self.state.load(Ordering::Acquire))) {
            waiter.wait(reason, || self.park_while(&blocked));
        }
    }

    fn park_while(&self, blocked: &impl Fn(u64) -> bool) {
        loop {
            let announced = self.state.fetch_update(Ordering::Acquire, Ordering::Acquire, |state| {
                blocked(state).then_some(state | WAITERS)
            });
            if announced.is_err() {
                return;
            }
            let still = || {
                let state = self.state.load(Ordering::Acquire);
                state & WAITERS != 0 && blocked(state)
            };
            // SAFETY: the address is this entry's; `still` neither panics nor parks, the others do nothing.
            unsafe { parking_lot_core::park(self.key(), still, || {}, |_, _| {}, DEFAULT_PARK_TOKEN, None) };
        }
    }
}
