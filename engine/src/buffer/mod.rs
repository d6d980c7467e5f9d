//! The buffer pool: pages in memory; it may be larger or smaller than the data.
//!
//! # A hit
//! The page table has an entry per page: one word with version, latch, residency and clock bit, and the frame's number.
//! A reader reads the version, reads the frame, and checks that the version is the same. It writes to no shared memory
//! (except the clock bit, if it is not set).
//!
//! # A miss
//! The thread releases everything, claims the entry (evicted to loading), gets a frame from the free list or by
//! evicting a clean page, reads and verifies the page, and restarts its operation. Other threads wait for the load.
//! User threads never write: if all pages are dirty they wait for a cleaner ([`Cleaner`]). A failed read leaves the
//! page evicted.
//!
//! # Instances
//! Frames are divided among instances by page number / 64. An instance has a free list, a clock hand, a flush list and
//! counters. The cleaners serve all instances. Stripes of 64 pages are assigned to the instances in rotation, shifted by one
//! each time, so that neither a range of pages nor a data file has an instance of its own.
//!
//! # Lock order
//! Latches: no thread waits for one while it holds another (`latch.rs`). The free list's mutex is a leaf: it is held
//! for a push or a pop. Frames are reserved before the first latch (`mtr.rs`).
//!
//! # Failure
//! Read errors and corrupt pages are returned to the caller; the page stays evicted, and the next caller tries again. A
//! write or sync error is kept: from then on the pool writes nothing, and [`BufferPool::flush_all`] returns an error.
//! So does a request for a frame when all pages are dirty.

mod adaptive;
mod ages;
mod batch;
mod checkpoint;
mod cleaner;
pub(crate) mod doublewrite;
mod flush;
mod flush_list;
mod flusher;
mod flushing;
mod frames;
mod guard;
mod instance;
pub mod latch;
mod mtr;
mod optimistic;
mod recovery;
mod sequential;
mod table;
mod unlogged;
mod void_ranges;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Instant;

pub use checkpoint::Checkpointer;
pub use cleaner::Cleaner;
pub use flushing::{FlushConfig, FlushMode, FlushStats};
pub(crate) use guard::{ExclusiveGuard, OptimisticGuard, PageVersion, SharedGuard};
pub(crate) use mtr::{Mtr, Need, redo_bytes_max};
pub use recovery::RecoveryProgress;
pub(crate) use recovery::Replay;
pub(crate) use unlogged::LoadedRun;
pub(crate) use void_ranges::VoidRanges;

use flifo_base::{CacheAligned, lock};

use crate::background::{Sleep, Task, run};
use crate::disk::{Disk, Tablespace};
use crate::error::{Error, Result};
use crate::metrics::{WaitReason, Waits};
use crate::page::{PAGE_BYTES_MAX, PAGE_BYTES_MIN, PageNo, lsn, verify};
use crate::redo::Log;
use crate::wait::Waiter;
use batch::BATCH_PAGES;
use doublewrite::Doublewrite;
use flusher::Flusher;
use flushing::Flushing;
use frames::Frames;
use instance::Instance;
use latch::{EXCLUSIVE, LOADING, PageEntry, RESIDENCY, SHARED_MASK};
use optimistic::Racy;
use sequential::{SequentialFlusher, SyncGate};
use table::PageTable;

/// Frames that an instance has at least.
const INSTANCE_FRAMES_MIN: u64 = 16;
/// Threads that clean, at most: more would only queue at the disk.
const CLEANERS_MAX: usize = 4;
/// Tries to load a page that cannot be read before the error is believed although the page may be unused by now.
const LOAD_ATTEMPTS: u32 = 8;

/// Size and division of a [`BufferPool`].
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// Memory for pages, bytes.
    pub bytes: u64,
    /// Number of instances; fewer are created if each would have less than 16 frames.
    pub instances: u32,
    /// Write pages to a doublewrite area first.
    pub doublewrite: bool,
    /// Which pages are written when.
    pub flush: FlushConfig,
}

/// Counters of the pool since it was created, and its present content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Pages that fit.
    pub frames: u64,
    /// Frames without a page.
    pub free_frames: u64,
    /// Pages with changes that are not on disk.
    pub dirty_pages: u64,
    /// Pages read from disk.
    pub reads: u64,
    /// Pages written to disk.
    pub writes: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// How many times a thread waited for a free frame.
    pub free_frame_waits: u64,
}

/// Why an attempt stopped early. All guards are dropped, then [`BufferPool::settle`] waits for the obstacle, and the
/// attempt is repeated.
pub(crate) enum Stop {
    /// A page changed while it was read.
    Changed,
    /// A page is latched or loading.
    Latched(PageNo),
    /// A page is not in memory. Also where its number was read: if that did not change, the page must exist.
    Missing(PageNo, Option<(PageNo, u64)>),
    /// An error.
    Fail(Box<Error>),
}

impl Stop {
    #[cold]
    pub(crate) fn fail(error: Error) -> Self {
        Stop::Fail(Box::new(error))
    }

    #[cold]
    pub(crate) fn corrupt(page: PageNo) -> Self {
        Stop::fail(Error::CorruptPage { page: page.0, what: "its entries lie outside of it".to_owned() })
    }
}

/// The cached pages of one tablespace.
pub struct BufferPool {
    frames: Frames,
    table: PageTable,
    instances: Box<[CacheAligned<Instance>]>,
    space: Arc<Tablespace>,
    log: Arc<Log>,
    /// While recovery replays the log: where it began. Pages that it changes are dirty since then. 0 otherwise.
    replayed_from: AtomicU64,
    flushing: Flushing,
    sync_gate: SyncGate,
    /// Where the cleaners sleep.
    cleaners_sleep: Arc<Sleep>,
    waits: Arc<Waits>,
    failed: OnceLock<String>,
    background: Mutex<Vec<BackgroundThread>>,
    background_stopped: Arc<AtomicBool>,
}

struct BackgroundThread {
    sleep: Arc<Sleep>,
    thread: JoinHandle<()>,
}

impl BufferPool {
    /// Creates an empty pool for the tablespace of `log`; its doublewrite areas are files on `disk`.
    pub fn new(
        disk: &dyn Disk,
        log: Arc<Log>,
        config: PoolConfig,
        waits: Arc<Waits>,
    ) -> Result<Arc<BufferPool>> {
        let space = Arc::clone(log.space());
        let page_bytes = space.page_size();
        if !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes) || !page_bytes.is_power_of_two() {
            let (value, allowed) = (page_bytes as u64, "4096, 8192 or 16384".to_owned());
            return Err(Error::BadOption { option: "page_size", value, allowed });
        }
        let frames = config.bytes / page_bytes as u64;
        if frames < INSTANCE_FRAMES_MIN || frames > u64::from(u32::MAX / 2) {
            let allowed = format!("at least {} pages of {page_bytes} bytes", INSTANCE_FRAMES_MIN);
            return Err(Error::BadOption { option: "buffer_pool_bytes", value: config.bytes, allowed });
        }
        let instances = u64::from(config.instances).clamp(1, frames / INSTANCE_FRAMES_MIN);
        let first = |index: u64| (frames * index / instances) as u32;
        let instance = |index: u64| {
            let doublewrite = Doublewrite::open(disk, &space, index as u32, config.doublewrite)?;
            let (first, end) = (first(index), first(index + 1));
            Ok(CacheAligned(Instance::new(first, end - first, log.capacity_bytes(), doublewrite)))
        };
        Ok(Arc::new(BufferPool {
            frames: Frames::new(frames as usize, page_bytes)?,
            table: PageTable::new(),
            instances: (0..instances).map(instance).collect::<Result<_>>()?,
            space,
            log,
            replayed_from: AtomicU64::new(0),
            flushing: Flushing::new(config.flush),
            sync_gate: SyncGate::default(),
            cleaners_sleep: Arc::default(),
            waits,
            failed: OnceLock::new(),
            background: Mutex::default(),
            background_stopped: Arc::default(),
        }))
    }

    /// Starts the threads of the page cleaners and of the checkpointer. Without them, and unless the embedder calls
    /// their steps, threads that need a frame wait forever once all pages are dirty.
    pub fn start_background(self: &Arc<Self>) -> Result<()> {
        let mut threads = lock(&self.background);
        if !threads.is_empty() {
            return Ok(());
        }
        self.background_stopped.store(false, Ordering::Release);
        for instance in &self.instances {
            instance.wake_signal.set_target(Some(Arc::clone(&self.cleaners_sleep)));
        }
        for index in 0..self.cleaners() {
            let cleaner = Cleaner::new(self, index, self.cleaners());
            threads.push(self.start(
                format!("flifo-cleaner{index}"),
                cleaner,
                Arc::clone(&self.cleaners_sleep),
            )?);
        }
        let (name, now) = ("flifo-flush".to_owned(), Instant::now());
        threads.push(match self.flushing.config.mode {
            FlushMode::Adaptive => self.start(name, Flusher::new(self, now), Arc::default())?,
            FlushMode::Sequential => {
                let sleep = Arc::clone(self.sync_gate.sleep());
                self.start(name, SequentialFlusher::new(self, now), sleep)?
            }
        });
        let keeper = Checkpointer::new(self, now);
        threads.push(self.start("flifo-log".to_owned(), keeper, Arc::default())?);
        Ok(())
    }

    /// Threads that clean.
    fn cleaners(&self) -> usize {
        self.instances.len().min(CLEANERS_MAX)
    }

    /// Wakes as many cleaners as this many pages are work for.
    fn wake_cleaners(&self, pages: u64) {
        let cleaners = pages.div_ceil(BATCH_PAGES as u64).min(self.cleaners() as u64);
        (0..cleaners).for_each(|_| self.cleaners_sleep.wake());
    }

    /// Back-pressure for a thread that is about to change pages, or to go on with it. It may wait: it holds no latch.
    /// `holds_locks`: its transaction may be one that others wait for.
    pub(crate) fn admit_change(&self, holds_locks: bool, waiter: &Waiter) {
        match self.flushing.config.mode {
            FlushMode::Adaptive => self.log.take_tokens(holds_locks, waiter),
            FlushMode::Sequential => self.wait_for_sync_flush(waiter),
        }
    }

    /// Starts a thread for a task of a room above; it ends with the others.
    pub(crate) fn start_task(&self, name: &str, task: impl Task) -> Result<()> {
        let thread = self.start(name.to_owned(), task, Arc::default())?;
        lock(&self.background).push(thread);
        Ok(())
    }

    fn start(&self, name: String, task: impl Task, sleep: Arc<Sleep>) -> Result<BackgroundThread> {
        let (of_thread, stopped) = (Arc::clone(&sleep), Arc::clone(&self.background_stopped));
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || run(task, &of_thread, &stopped))
            .map_err(|source| Error::from_io("cannot start", "a thread of the background", source))?;
        Ok(BackgroundThread { sleep, thread })
    }

    /// Ends the background threads. Call it before the last handle is dropped, since each thread has a handle. A later
    /// request for a frame, if none is free, returns an error.
    pub fn stop_background(&self) {
        self.background_stopped.store(true, Ordering::Release);
        let threads = std::mem::take(&mut *lock(&self.background));
        threads.iter().for_each(|thread| thread.sleep.wake());
        for thread in threads {
            // One that panicked has said so itself.
            let _ = thread.thread.join();
        }
    }

    /// Bytes per page.
    pub fn page_size(&self) -> usize {
        self.frames.page_bytes()
    }

    /// The redo log.
    pub(crate) fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// The tablespace.
    pub(crate) fn space(&self) -> &Arc<Tablespace> {
        &self.space
    }

    fn instance_of(&self, page: PageNo) -> &Instance {
        let (stripe, instances) = (page.0 / Tablespace::STRIPE_PAGES, self.instances.len() as u64);
        &self.instances[((stripe + stripe / instances) % instances) as usize]
    }

    fn bytes_of(&self, entry: &PageEntry) -> (*mut u8, usize) {
        (self.frames.address(entry.frame.load(Ordering::Relaxed)), self.frames.page_bytes())
    }

    fn entry(&self, page: PageNo) -> Result<&PageEntry> {
        self.table.get_or_make(page).ok_or_else(|| Error::CorruptPage {
            page: page.0,
            what: "something refers to it, and there can be no such page".to_owned(),
        })
    }

    /// A page to read; `parent` is where its number was read. Validates the parent, so that the number is known to be
    /// right.
    #[inline]
    pub(crate) fn child<'p>(
        &'p self,
        page: PageNo,
        parent: &OptimisticGuard<'p>,
    ) -> std::result::Result<OptimisticGuard<'p>, Stop> {
        let child = self.table.get(page).and_then(|entry| self.begin_read(page, entry).ok());
        parent.validate()?;
        match child {
            Some(child) => Ok(child),
            None => Err(self.unavailable(page, Some((parent.page(), parent.seen)))),
        }
    }

    /// A page to read that is known to exist.
    #[inline]
    pub(crate) fn optimistic(&self, page: PageNo) -> std::result::Result<OptimisticGuard<'_>, Stop> {
        match self.table.get(page).and_then(|entry| self.begin_read(page, entry).ok()) {
            Some(guard) => Ok(guard),
            None => Err(self.unavailable(page, None)),
        }
    }

    /// The page, if it is unchanged; the guard's validation shows whether it stays unchanged.
    #[inline]
    pub(crate) fn reopen(&self, page_version: PageVersion) -> Option<OptimisticGuard<'_>> {
        let guard = self.begin_read(page_version.page, self.table.get(page_version.page)?).ok()?;
        (guard.seen == page_version.seen).then_some(guard)
    }

    #[inline]
    fn begin_read<'p>(
        &'p self,
        page: PageNo,
        entry: &'p PageEntry,
    ) -> std::result::Result<OptimisticGuard<'p>, u64> {
        let seen = entry.begin_read()?;
        let (base, bytes) = self.bytes_of(entry);
        // SAFETY: a frame's memory is mapped as long as the pool lives.
        let racy = unsafe { Racy::new(base, bytes) };
        Ok(OptimisticGuard { pool: self, entry, seen, page, racy })
    }

    #[cold]
    fn unavailable(&self, page: PageNo, parent: Option<(PageNo, u64)>) -> Stop {
        let state = self.table.get(page).map_or(0, |entry| entry.state.load(Ordering::Acquire));
        match state & EXCLUSIVE != 0 {
            true => Stop::Latched(page),
            false => Stop::Missing(page, parent),
        }
    }

    /// Waits for the reason that stopped an attempt, so that it can be repeated; or returns the error that prevents it.
    #[cold]
    pub(crate) fn settle(&self, stop: Stop, waiter: &Waiter, attempts: &mut u32) -> Result<()> {
        debug_assert_eq!(latch::held(), 0, "all guards are dropped before an attempt is made again");
        match stop {
            Stop::Changed => std::hint::spin_loop(),
            Stop::Latched(page) => {
                let busy = |state| state & (EXCLUSIVE | SHARED_MASK) != 0 || state & RESIDENCY == LOADING;
                self.entry(page)?.wait_while(waiter, WaitReason::PageLatch, busy);
            }
            Stop::Missing(page, parent) => self.load(page, waiter).or_else(|error| {
                *attempts += 1;
                let still = parent.is_none_or(|(parent, seen)| {
                    self.table.get(parent).is_some_and(|entry| entry.unchanged(seen))
                });
                // The page may have been freed since its number was read; then the attempt is repeated.
                if still || *attempts >= LOAD_ATTEMPTS { Err(error) } else { Ok(()) }
            })?,
            Stop::Fail(error) => return Err(*error),
        }
        Ok(())
    }

    /// Makes attempts until one succeeds.
    #[inline]
    pub(crate) fn retry<T>(
        &self,
        waiter: &Waiter,
        mut attempt: impl FnMut() -> std::result::Result<T, Stop>,
    ) -> Result<T> {
        let mut attempts = 0;
        loop {
            match attempt() {
                Ok(value) => return Ok(value),
                Err(stop) => self.settle(stop, waiter, &mut attempts)?,
            }
        }
    }

    /// Brings a page into memory, if it is not there. The caller holds no latch.
    fn load(&self, page: PageNo, waiter: &Waiter) -> Result<()> {
        let entry = self.entry(page)?;
        loop {
            match entry.state.load(Ordering::Acquire) & RESIDENCY {
                LOADING => {
                    entry.wait_while(waiter, WaitReason::PageLoad, |state| state & RESIDENCY == LOADING)
                }
                latch::RESIDENT => return Ok(()),
                _ if entry.try_begin_load() => return self.load_claimed(page, entry, waiter),
                _ => {}
            }
        }
    }

    fn load_claimed(&self, page: PageNo, entry: &PageEntry, waiter: &Waiter) -> Result<()> {
        /// Ends the load however it ends.
        struct Claim<'a>(&'a PageEntry, Option<u32>);
        impl Drop for Claim<'_> {
            fn drop(&mut self) {
                self.0.end_load(self.1);
            }
        }
        let mut claim = Claim(entry, None);
        let instance = self.instance_of(page);
        let frame = self.take_frame(instance, waiter)?;
        let (base, bytes) = (self.frames.address(frame), self.frames.page_bytes());
        // SAFETY: the frame is this thread's alone: it is in no list, and no page's.
        let buf = unsafe { std::slice::from_raw_parts_mut(base, bytes) };
        let read = waiter.wait(WaitReason::DiskRead, || self.space.read(page.0, buf));
        match read.and_then(|()| verify(buf, page)).and_then(|()| self.check_age(buf, page)) {
            Ok(()) => {
                instance.counts.reads.fetch_add(1, Ordering::Relaxed);
                instance.set_page(frame, page);
                claim.1 = Some(frame);
                Ok(())
            }
            Err(error) => {
                instance.give_back(frame);
                Err(error)
            }
        }
    }

    /// No page is newer than the log, which is written first: otherwise a part of the log is lost, or one of them was put
    /// back from an older copy.
    pub(super) fn check_age(&self, bytes: &[u8], page: PageNo) -> Result<()> {
        let (changed, end) = (lsn(bytes), self.log.next());
        match changed <= end {
            true => Ok(()),
            false => Err(Error::CorruptRedo {
                path: "the redo log".to_owned(),
                what: format!("page {} was changed at {}, the log ends at {}", page.0, changed.0, end.0),
            }),
        }
    }

    /// Counters of page writes by their cause, and the present plan.
    pub fn flush_stats(&self) -> FlushStats {
        self.flushing.stats(self.log.capacity_bytes())
    }

    fn is_replaying(&self) -> bool {
        self.replayed_from.load(Ordering::Acquire) != 0
    }

    fn is_failed(&self) -> bool {
        self.failed.get().is_some()
    }

    /// The kept write error, if any; also an error if no cleaner runs any more.
    fn check_writable(&self) -> Result<()> {
        match self.failed.get() {
            Some(what) => Err(Error::Stopped { what: what.clone() }),
            None if self.background_stopped.load(Ordering::Acquire) => Err(Error::Closed),
            None => Ok(()),
        }
    }

    /// The counters, and the present content.
    pub fn stats(&self) -> PoolStats {
        let mut stats = PoolStats::default();
        for instance in &self.instances {
            let counts = &instance.counts;
            stats.frames += u64::from(instance.frames());
            stats.free_frames += u64::from(instance.free_frames());
            stats.dirty_pages += instance.flush_list.dirty_pages();
            stats.reads += counts.reads.load(Ordering::Relaxed);
            stats.writes += counts.writes.load(Ordering::Relaxed);
            stats.evictions += counts.evictions.load(Ordering::Relaxed);
            stats.free_frame_waits += counts.free_frame_waits.load(Ordering::Relaxed);
        }
        stats
    }
}

#[cfg(test)]
mod tests;
