//! One instance of the buffer pool: its frames, free list, clock and counters.
//!
//! A read hit touches nothing here. A thread that waits for a free frame parks on the instance's address; a thread that
//! frees a frame wakes one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use flifo_base::lock;
use parking_lot_core::{DEFAULT_PARK_TOKEN, DEFAULT_UNPARK_TOKEN};

use super::doublewrite::Doublewrite;
use super::flush_list::FlushList;
use super::latch::{DIRTY, EXCLUSIVE, REFERENCED, RESIDENCY, RESIDENT, SHARED_MASK, WRITING};
use super::table::PageTable;
use super::unlogged::Finished;
use crate::background::WakeSignal;
use crate::page::PageNo;

const NO_PAGE: u64 = u64::MAX;
/// Steps of the clock's hand that a user thread makes before it leaves the search to the cleaner.
const USER_SWEEP_STEPS: u32 = 512;
/// A waiter for a frame looks again after this, should a wake-up have gone to one that did not need it.
const FRAME_WAIT: Duration = Duration::from_millis(10);

/// Counters and gauges.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) reads: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) evictions: AtomicU64,
    pub(super) free_frame_waits: AtomicU64,
}

pub(super) struct Instance {
    first_frame: u32,
    frames: u32,
    /// A cleaner fills its stock.
    is_served: AtomicBool,
    /// The page of each frame, `NO_PAGE` while it is free or changes hands.
    pages: Box<[AtomicU64]>,
    pub(super) flush_list: FlushList,
    finished: Mutex<VecDeque<Finished>>,
    pub(super) doublewrite: Mutex<Doublewrite>,
    free: Mutex<Vec<u32>>,
    free_frames: AtomicU32,
    hand: AtomicU32,
    waiting: AtomicU32,
    pub(super) counts: Counts,
    pub(super) wake_signal: WakeSignal,
}

/// The right to fill an instance's stock.
pub(super) struct Serving<'i>(&'i Instance);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.0.is_served.store(false, Ordering::Release);
    }
}

/// What the clock's hand found.
pub(super) enum Swept {
    /// A clean page was evicted; its frame is the caller's.
    Frame(u32),
    /// A dirty page that was not used lately.
    Cold(PageNo),
    /// Nothing to take.
    Nothing,
}

impl Instance {
    /// For these frames, and a log of this capacity.
    pub(super) fn new(first_frame: u32, frames: u32, capacity_bytes: u64, doublewrite: Doublewrite) -> Self {
        Instance {
            first_frame,
            frames,
            is_served: AtomicBool::new(false),
            pages: (0..frames).map(|_| AtomicU64::new(NO_PAGE)).collect(),
            flush_list: FlushList::new(first_frame, frames, capacity_bytes),
            finished: Mutex::default(),
            doublewrite: Mutex::new(doublewrite),
            // Low frames first, so that memory is touched as it is needed.
            free: Mutex::new((first_frame..first_frame + frames).rev().collect()),
            free_frames: AtomicU32::new(frames),
            hand: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            counts: Counts::default(),
            wake_signal: WakeSignal::default(),
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<u32>> {
        lock(&self.free)
    }

    /// Pages that loads are done with, to be written soon. A leaf in the order of locks.
    pub(super) fn finished(&self) -> MutexGuard<'_, VecDeque<Finished>> {
        lock(&self.finished)
    }

    pub(super) fn free_frames(&self) -> u32 {
        self.free_frames.load(Ordering::Relaxed)
    }

    pub(super) fn frames(&self) -> u32 {
        self.frames
    }

    pub(super) fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The free frames that the cleaner keeps in stock.
    pub(super) fn stock(&self) -> u32 {
        (self.frames / 16).clamp(2, 128).min(self.frames / 2)
    }

    /// Becomes the cleaner that fills its stock, until the result is dropped; `None` if another does.
    pub(super) fn try_serve(&self) -> Option<Serving<'_>> {
        (!self.is_served.swap(true, Ordering::Acquire)).then_some(Serving(self))
    }

    /// Notes which page a frame has, for the clock.
    pub(super) fn set_page(&self, frame: u32, page: PageNo) {
        self.pages[(frame - self.first_frame) as usize].store(page.0, Ordering::Release);
    }

    /// The page of the instance's `index`-th frame.
    pub(super) fn page(&self, index: u32) -> Option<PageNo> {
        let page = self.pages[index as usize].load(Ordering::Acquire);
        (page != NO_PAGE).then_some(PageNo(page))
    }

    /// A frame from the free list, or from a clean page that was not used lately.
    pub(super) fn try_take(&self, table: &PageTable) -> Option<u32> {
        let frame = self.pop_free();
        if self.free_frames() < self.stock() / 2 {
            self.wake_signal.raise();
        }
        frame.or_else(|| {
            (0..USER_SWEEP_STEPS.min(2 * self.frames)).find_map(|_| match self.sweep(table) {
                Swept::Frame(frame) => Some(frame),
                Swept::Cold(_) | Swept::Nothing => None,
            })
        })
    }

    fn pop_free(&self) -> Option<u32> {
        if self.free_frames() == 0 {
            return None;
        }
        let mut free = self.free();
        let frame = free.pop();
        self.free_frames.store(free.len() as u32, Ordering::Relaxed);
        frame
    }

    /// Puts a frame on the free list and wakes a thread that waits for it.
    pub(super) fn give_back(&self, frame: u32) {
        self.pages[(frame - self.first_frame) as usize].store(NO_PAGE, Ordering::Release);
        let mut free = self.free();
        free.push(frame);
        self.free_frames.store(free.len() as u32, Ordering::SeqCst);
        drop(free);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            // SAFETY: the address is this instance's list, which nothing else parks on; the callback does nothing.
            unsafe { parking_lot_core::unpark_one(self.key(), |_| DEFAULT_UNPARK_TOKEN) };
        }
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(&self.free).addr()
    }

    /// Waits until there may be a free frame. The caller holds no latch and no frame.
    pub(super) fn wait_for_frame(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.wake_signal.raise();
        let none = || self.free_frames.load(Ordering::SeqCst) == 0;
        let until = Instant::now() + FRAME_WAIT;
        // SAFETY: the address is this instance's list; the callbacks neither panic nor park.
        unsafe {
            parking_lot_core::park(self.key(), none, || {}, |_, _| {}, DEFAULT_PARK_TOKEN, Some(until))
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Moves the clock's hand by one frame.
    pub(super) fn sweep(&self, table: &PageTable) -> Swept {
        let index = self.hand.fetch_add(1, Ordering::Relaxed) % self.frames;
        let Some(page) = self.page(index) else { return Swept::Nothing };
        let entry = table.get(page).expect("a page in a frame has an entry");
        let state = entry.state.load(Ordering::Acquire);
        if state & RESIDENCY != RESIDENT || state & (EXCLUSIVE | SHARED_MASK | WRITING) != 0 {
            return Swept::Nothing;
        }
        if state & REFERENCED != 0 {
            entry.state.fetch_and(!REFERENCED, Ordering::Relaxed);
            return Swept::Nothing;
        }
        if state & DIRTY != 0 {
            return Swept::Cold(page);
        }
        match self.try_evict(table, page) {
            Some(frame) => Swept::Frame(frame),
            None => Swept::Nothing,
        }
    }

    /// Evicts a page if it is clean, was not used lately, and is not in use.
    pub(super) fn try_evict(&self, table: &PageTable, page: PageNo) -> Option<u32> {
        let entry = table.get(page)?;
        let seen = entry.evictable()?;
        if !entry.try_exclusive(seen, DIRTY | WRITING | REFERENCED) {
            return None;
        }
        let frame = entry.frame.load(Ordering::Relaxed);
        // Before the page can be loaded into another frame, and this one be noted for another page.
        self.pages[(frame - self.first_frame) as usize].store(NO_PAGE, Ordering::Release);
        entry.release_evicted();
        self.counts.evictions.fetch_add(1, Ordering::Relaxed);
        Some(frame)
    }
}
