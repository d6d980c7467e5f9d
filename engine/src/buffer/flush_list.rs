//! The flush list: an instance's dirty pages, in the order in which they became dirty; the oldest one limits the
//! checkpoint.
//!
//! A page enters when it becomes dirty, with the end of the log at that time: all of its changes that are not on disk
//! are behind that LSN. Entries are added under the list's lock, so they ascend. An entry is *valid* as long as the
//! page is dirty or being written with that LSN; invalid entries are dropped when they reach the front.
//!
//! A page that is being written may become dirty again. Then it has two entries, and two LSNs: that of the write in
//! progress, which counts until the write has ended, and its own.
//!
//! # Invariant
//! A thread that reads the end of the log first and then, list by list, the oldest valid entry, finds an LSN before
//! which no page has a change that is not on disk (or written and not yet synced). A page is entered before its change
//! is appended (`BufferPool::note_dirty` comes first), and the list's lock makes the entry visible.
//!
//! # Lock order
//! A leaf: held for a push, or to read the front. Page latches may be held.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use flifo_base::lock;

use super::ages::AgeCounts;
use super::latch::{DIRTY, PageEntry, RESIDENCY, RESIDENT, WRITING};
use super::table::PageTable;
use crate::page::{Lsn, PageNo};

/// Since when a frame's page is dirty, and since when it was before the write in progress.
#[derive(Clone, Copy, Default)]
struct Since {
    dirty: Lsn,
    writing: Lsn,
}

/// The pages to be written, if any is due.
#[derive(Clone, Copy)]
pub(super) struct Due {
    /// Pages that became dirty before this LSN are due.
    pub(super) due: Lsn,
    /// Pages that became dirty before this LSN are written with them.
    pub(super) limit: Lsn,
}

/// Which of the pages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// All that hold up the checkpoint.
    All,
    /// Those that no write is in progress for.
    Writable,
}

#[derive(Default)]
struct List {
    entries: VecDeque<(Lsn, PageNo)>,
    /// Per frame of the instance.
    since: Box<[Since]>,
}

pub(super) struct FlushList {
    first_frame: u32,
    list: Mutex<List>,
    ages: AgeCounts,
    dirty: AtomicU64,
}

impl FlushList {
    /// For an instance with these frames, and a log of this capacity.
    pub(super) fn new(first_frame: u32, frames: u32, capacity_bytes: u64) -> Self {
        let since = vec![Since::default(); frames as usize].into();
        FlushList {
            first_frame,
            list: Mutex::new(List { entries: VecDeque::new(), since }),
            ages: AgeCounts::new(capacity_bytes),
            dirty: AtomicU64::new(0),
        }
    }

    /// Dirty pages, without those whose changes a write in progress takes to disk.
    pub(super) fn dirty_pages(&self) -> u64 {
        self.dirty.load(Ordering::Relaxed)
    }

    /// The same by age.
    pub(super) fn ages(&self) -> &AgeCounts {
        &self.ages
    }

    fn index_of(&self, entry: &PageEntry) -> usize {
        (entry.frame.load(Ordering::Relaxed) - self.first_frame) as usize
    }

    fn count(&self, dirty_since: Lsn) {
        self.ages.add(dirty_since);
        self.dirty.fetch_add(1, Ordering::Relaxed);
    }

    /// A write of the page begins: it is clean. The caller has the page's shared latch.
    pub(super) fn leave(&self, entry: &PageEntry) {
        let dirty_since = self.list().since[self.index_of(entry)].dirty;
        self.ages.remove(dirty_since);
        self.dirty.fetch_sub(1, Ordering::Relaxed);
    }

    /// The write that made the page clean has failed; before its end is marked.
    pub(super) fn reenter(&self, entry: &PageEntry) {
        let list = self.list();
        if entry.state.load(Ordering::Acquire) & DIRTY == 0 {
            self.count(list.since[self.index_of(entry)].dirty);
        }
    }

    fn list(&self) -> MutexGuard<'_, List> {
        lock(&self.list)
    }

    /// Marks the page, whose exclusive latch the caller holds, as dirty, if it is not. `end` returns the log's end.
    pub(super) fn enter(&self, entry: &PageEntry, page: PageNo, end: impl FnOnce() -> Lsn) {
        if entry.state.load(Ordering::Acquire) & DIRTY != 0 {
            return;
        }
        let mut list = self.list();
        let lsn = end();
        let since = &mut list.since[self.index_of(entry)];
        since.writing = since.dirty;
        since.dirty = lsn;
        list.entries.push_back((lsn, page));
        // Under the lock, since an entry of a page that does not look dirty is dropped.
        entry.state.fetch_or(DIRTY, Ordering::AcqRel);
        self.count(lsn);
    }

    /// The least LSN of a valid entry.
    pub(super) fn oldest(&self, table: &PageTable) -> Option<Lsn> {
        let mut list = self.list();
        self.trim(&mut list, table);
        list.entries.front().map(|&(lsn, _)| lsn)
    }

    /// The least LSN of a page that could be written now.
    pub(super) fn oldest_writable(&self, table: &PageTable) -> Option<Lsn> {
        let mut list = self.list();
        self.trim(&mut list, table);
        let mut lsns = list.entries.iter();
        lsns.find(|&&(lsn, page)| self.is_writable(&list, table, lsn, page)).map(|&(lsn, _)| lsn)
    }

    /// Appends to `pages` up to `max` of these pages that became dirty before `limit`, the oldest first, if any became
    /// dirty before `due`.
    pub(super) fn oldest_pages(
        &self,
        table: &PageTable,
        Due { due, limit }: Due,
        which: Which,
        max: usize,
        pages: &mut Vec<PageNo>,
    ) {
        let mut list = self.list();
        self.trim(&mut list, table);
        if list.entries.front().is_none_or(|&(oldest, _)| oldest >= due) {
            return;
        }
        let old = list.entries.iter().take_while(|&&(lsn, _)| lsn < limit);
        let counts = |&&(lsn, page): &&(Lsn, PageNo)| match which {
            Which::All => self.is_valid(&list, table, lsn, page),
            Which::Writable => self.is_writable(&list, table, lsn, page),
        };
        pages.extend(old.filter(counts).take(max).map(|&(_, page)| page));
    }

    fn trim(&self, list: &mut List, table: &PageTable) {
        while let Some(&(lsn, page)) = list.entries.front()
            && !self.is_valid(list, table, lsn, page)
        {
            list.entries.pop_front();
        }
    }

    fn is_valid(&self, list: &List, table: &PageTable, lsn: Lsn, page: PageNo) -> bool {
        let entry = table.get(page).expect("a page that was dirty has an entry");
        let state = entry.state.load(Ordering::Acquire);
        // Neither dirty nor written pages are evicted, so the frame is the page's.
        if state & RESIDENCY != RESIDENT || state & (DIRTY | WRITING) == 0 {
            return false;
        }
        let since = list.since[self.index_of(entry)];
        // A page becomes dirty again under the lock. The end of a write may be missed briefly, which is harmless.
        since.dirty == lsn || state & (DIRTY | WRITING) == DIRTY | WRITING && since.writing == lsn
    }

    /// Whether the entry is valid, and no write of its page is in progress.
    fn is_writable(&self, list: &List, table: &PageTable, lsn: Lsn, page: PageNo) -> bool {
        let state = table.get(page).map_or(0, |entry| entry.state.load(Ordering::Acquire));
        state & WRITING == 0 && self.is_valid(list, table, lsn, page)
    }
}
