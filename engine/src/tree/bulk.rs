//! Bulk load: loads sorted rows into an empty tree, bottom-up.
//!
//! Each level has one node under construction, whose entries are collected in private memory. When the next entry
//! exceeds the fill, the node is written to contiguous pages, and its lower fence and number go to the level above. The
//! overflow pages of a large value are written before its row is added. Pages are created through the pool, one at a
//! time and with nothing else held, so with a pool smaller than the data a load only waits for the cleaners. Until the
//! root is written, last, the tree is empty for all readers.
//!
//! Only the root is logged. Before that, all nodes are written and synced. A crash in between leaves the tree empty,
//! and leaks the pages.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::Tree;
use super::entries::{Entries, NodeKind};
use crate::buffer::{BufferPool, LoadedRun, Need, Stop};
use crate::disk::Tablespace;
use crate::error::{Error, Result};
use crate::page::edit::entry_bytes;
use crate::page::node::{Fences, LARGE_PREFIX_BYTES, Node, Stored, common_prefix, separator};
use crate::page::overflow::{OverflowHeader, Pointer, bytes_per_page, format_overflow};
use crate::page::{Bytes, Lsn, PageNo, Torn};
use crate::space::{PageAllocator, Run};
use crate::wait::Waiter;

/// Pages allocated in a row at first; then twice as many each time, up to [`RUN_DOUBLINGS`] times: an allocation is logged,
/// and pages wait for the log before they are written.
const RUN_PAGES: u64 = 64;
const RUN_DOUBLINGS: usize = 4;

/// The node in the making of one level.
#[derive(Default)]
struct Level {
    lower: Vec<u8>,
    first_child: u64,
    entries: Entries,
    /// Bytes of the entries if all keys have `prefix` bytes in common.
    bytes: usize,
    prefix: usize,
    /// Nodes of this level that were made.
    nodes: u64,
}

struct Loader<'t> {
    pool: &'t BufferPool,
    alloc: &'t PageAllocator,
    waiter: &'t Waiter,
    root: PageNo,
    fill_bytes: usize,
    levels: Vec<Level>,
    /// All that was allocated, and the end of the log then; the last one is in use up to `used`.
    runs: Vec<(Run, Lsn)>,
    used: u64,
    /// The last pages that were made and follow each other in a stripe and a run.
    made: LoadedRun,
}

impl Tree {
    /// Fills the empty tree with rows in strictly ascending order; returns their number. `fill` is the share of each
    /// page to fill, 0.5 to 1. Calls `progress` with the number of rows from time to time, and with the total before
    /// the root is written. After an error, and after a panic in `rows` or `progress`, the tree is empty.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        waiter: &Waiter,
        rows: impl IntoIterator<Item = (K, V)>,
        fill: f64,
        progress: impl FnMut(u64),
    ) -> Result<u64> {
        let mut rows = rows.into_iter();
        self.bulk_load_from(waiter, fill, progress, |key, value| {
            let Some((next_key, next_value)) = rows.next() else { return Ok(false) };
            key.extend_from_slice(next_key.as_ref());
            value.extend_from_slice(next_value.as_ref());
            Ok(true)
        })
    }

    /// As [`Tree::bulk_load`], with rows that `next` appends to two empty buffers; false at the end. An error from
    /// `next` ends the load.
    pub(crate) fn bulk_load_from(
        &self,
        waiter: &Waiter,
        fill: f64,
        progress: impl FnMut(u64),
        next: impl FnMut(&mut Vec<u8>, &mut Vec<u8>) -> Result<bool>,
    ) -> Result<u64> {
        self.check_empty(waiter)?;
        let page_bytes = self.pool.page_size();
        let mut loader = Loader {
            pool: &self.pool,
            alloc: &self.alloc,
            waiter,
            root: self.root,
            fill_bytes: (page_bytes as f64 * fill.clamp(0.5, 1.0)) as usize,
            levels: vec![Level::default()],
            runs: Vec::new(),
            used: 0,
            made: LoadedRun { pages: 0..0, since: Lsn(0) },
        };
        // A panic in the caller's code is resumed once the pages are free. The code below does not call it; a panic
        // there may come when the pages already belong to the tree.
        let load = AssertUnwindSafe(|| self.load_rows(&mut loader, next, progress));
        let loaded = catch_unwind(load).map(|loaded| {
            let rows = loaded?;
            loader.finish().map(|()| rows)
        });
        let freed = loader.free_unused(matches!(loaded, Ok(Ok(_))));
        let rows = loaded.unwrap_or_else(|panic| resume_unwind(panic))?;
        // They are there, whether their pages' neighbours can be given back or not.
        if let Err(error) = freed
            && error.ends_all()
        {
            return Err(error);
        }
        Ok(rows)
    }

    /// Fails with [`Error::TreeNotEmpty`] if there is an entry, even a deleted entry not yet purged.
    pub(crate) fn check_empty(&self, waiter: &Waiter) -> Result<()> {
        let empty = self.pool.retry(waiter, || {
            let root = self.pool.optimistic(self.root)?;
            root.checked(is_empty(root.node()))
        })?;
        if empty { Ok(()) } else { Err(Error::TreeNotEmpty) }
    }

    fn load_rows(
        &self,
        loader: &mut Loader<'_>,
        mut next: impl FnMut(&mut Vec<u8>, &mut Vec<u8>) -> Result<bool>,
        mut progress: impl FnMut(u64),
    ) -> Result<u64> {
        let (mut previous, mut key, mut value) = (Vec::new(), Vec::new(), Vec::new());
        let (mut loaded, mut leaves) = (0, 0);
        while next(&mut key, &mut value)? {
            self.check_size(key.len(), value.len())?;
            if loaded > 0 && key <= previous {
                return Err(Error::Unsorted { row: loaded });
            }
            match self.is_large(key.len(), value.len()) {
                true => loader.add_large(&key, &value)?,
                false => loader.add(0, &key, value[..].into())?,
            }
            std::mem::swap(&mut previous, &mut key);
            key.clear();
            value.clear();
            loaded += 1;
            if loader.levels[0].nodes / 16 != leaves {
                leaves = loader.levels[0].nodes / 16;
                progress(loaded);
            }
        }
        // Before the root is written: a panic in `progress` must leave no rows.
        progress(loaded);
        Ok(loaded)
    }
}

impl Level {
    /// Bytes of the node if `key` were its last.
    fn bytes_with(&mut self, key: &[u8], value: Stored<'_>) -> usize {
        // Fences between `lower` and `key` have at least this in common.
        let prefix = common_prefix(&self.lower, key);
        if prefix != self.prefix {
            let entries = &self.entries;
            let of_entry = |index| entry_bytes(prefix, entries.key(index).len(), entries.value(index).len());
            self.bytes = (0..entries.len()).map(of_entry).sum();
            self.prefix = prefix;
        }
        let fences = Fences { lower: Vec::new(), upper: None };
        let fixed = crate::page::edit::fixed_bytes(&fences) + self.lower.len() + key.len();
        fixed + self.bytes + entry_bytes(prefix, key.len(), value.len())
    }

    fn push(&mut self, key: &[u8], value: Stored<'_>) {
        self.bytes += entry_bytes(self.prefix, key.len(), value.len());
        self.entries.push(key, value);
    }
}

impl Loader<'_> {
    /// Makes the overflow pages of a large value, and adds its row.
    fn add_large(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let (prefix, rest) = value.split_at(LARGE_PREFIX_BYTES);
        let stamp = self.alloc.next_stamp();
        let pieces = rest.chunks(bytes_per_page(self.pool.page_size()));
        let mut no = self.next_page()?;
        let entry = Pointer { first: no, stamp, len: value.len() as u64 }.entry(prefix);
        let last = pieces.len() - 1;
        for (index, piece) in pieces.enumerate() {
            let next = if index < last { self.next_page()? } else { PageNo(0) };
            let header = OverflowHeader { owner: self.root, stamp, next, index: index as u32 };
            self.make(no, |page| format_overflow(page, no, &header, piece))?;
            no = next;
        }
        self.add(0, key, Stored { bytes: &entry, large: true })
    }

    fn add(&mut self, level: usize, key: &[u8], value: Stored<'_>) -> Result<()> {
        while self.levels[level].bytes_with(key, value) > self.fill_bytes
            && self.levels[level].entries.len() > 0
        {
            self.seal(level, Some((key, value)))?;
            if level > 0 && self.levels[level].lower == key {
                // It went up, and its child became the new node's first.
                return Ok(());
            }
        }
        self.levels[level].push(key, value);
        Ok(())
    }

    /// Makes a node of what the level has. `next` is the entry that follows; without one, the node is the level's last.
    /// If the entries do not fit, because the next one shortens the prefix, the last of them stays for the next node.
    fn seal(&mut self, level: usize, next: Option<(&[u8], Stored<'_>)>) -> Result<()> {
        let of_level = &self.levels[level];
        let count = of_level.entries.len();
        let upper = next.map(|(key, _)| match level {
            0 => separator(of_level.entries.key(count - 1), key).to_vec(),
            _ => key.to_vec(),
        });
        let fences = Fences { lower: of_level.lower.clone(), upper };
        if of_level.entries.node_bytes(0..count, &fences) <= self.pool.page_size() {
            self.make_node(level, count, &fences)?;
            let of_level = &mut self.levels[level];
            of_level.entries.clear();
            if let (Some((_, value)), true) = (next, level > 0) {
                of_level.first_child = child_of(value.bytes);
            }
        } else {
            self.seal_but_last(level, fences.lower)?;
        }
        let of_level = &mut self.levels[level];
        // The loop computes both for the new lower fence.
        (of_level.prefix, of_level.bytes) = (usize::MAX, 0);
        Ok(())
    }

    fn seal_but_last(&mut self, level: usize, lower: Vec<u8>) -> Result<()> {
        let entries = &self.levels[level].entries;
        let last = entries.len() - 1;
        let upper = match level {
            0 => separator(entries.key(last - 1), entries.key(last)).to_vec(),
            _ => entries.key(last).to_vec(),
        };
        self.make_node(level, last, &Fences { lower, upper: Some(upper) })?;
        let of_level = &mut self.levels[level];
        if level == 0 {
            of_level.entries.keep_last();
        } else {
            of_level.first_child = of_level.entries.child(last).0;
            of_level.entries.clear();
        }
        Ok(())
    }

    /// Makes a node of the level's first `count` entries, and says so to the level above.
    fn make_node(&mut self, level: usize, count: usize, fences: &Fences) -> Result<()> {
        let no = self.next_page()?;
        let node = self.build_node(no, level, count, fences);
        self.make(no, |page| page.copy_from_slice(&node))?;
        let of_level = &mut self.levels[level];
        of_level.nodes += 1;
        if let Some(upper) = &fences.upper {
            of_level.lower.clone_from(upper);
        }
        if self.levels.len() == level + 1 {
            self.levels.push(Level { first_child: no.0, ..Level::default() });
            return Ok(());
        }
        self.add(level + 1, &fences.lower, (&no.0.to_le_bytes()).into())
    }

    /// Writes and syncs the loaded pages, then logs the root, which makes them a part of the tree.
    fn write_root(&self, level: usize, count: usize, fences: &Fences) -> Result<()> {
        if !self.runs.is_empty() {
            self.pool.flush_unlogged(self.all_made(), self.waiter)?;
        }
        let node = self.build_node(self.root, level, count, fences);
        self.pool.change(self.waiter, &Need::nodes(self.pool.page_size()), |mut mtr| {
            let mut root = self.pool.optimistic(self.root)?.exclusive()?;
            if !root.checked(is_empty(root.node()))? {
                return Err(Stop::fail(Error::TreeNotEmpty));
            }
            mtr.rewrite(&mut root, |page| page.copy_from_slice(&node));
            mtr.commit(&mut [&mut root]);
            Ok(())
        })
    }

    fn build_node(&self, no: PageNo, level: usize, count: usize, fences: &Fences) -> Vec<u8> {
        let of_level = &self.levels[level];
        let first_child = PageNo(of_level.first_child);
        let kind = NodeKind { no, owner: self.root, level: level as u8, first_child };
        let mut page = vec![0; self.pool.page_size()];
        let built = of_level.entries.build(0..count, &kind, fences, &mut page);
        assert!(built, "a node in the making is sealed while it fits");
        page
    }

    /// Makes the last node of each level; the topmost is the root.
    fn finish(&mut self) -> Result<()> {
        let mut level = 0;
        loop {
            let top = level + 1 == self.levels.len();
            let of_level = &self.levels[level];
            let count = of_level.entries.len();
            let fences = Fences { lower: of_level.lower.clone(), upper: None };
            if of_level.entries.node_bytes(0..count, &fences) > self.pool.page_size() {
                self.seal_but_last(level, fences.lower)?;
                (self.levels[level].prefix, self.levels[level].bytes) = (usize::MAX, 0);
            } else if top {
                return self.write_root(level, count, &fences);
            } else {
                self.make_node(level, count, &fences)?;
                level += 1;
            }
        }
    }

    /// The number of a page to be made.
    fn next_page(&mut self) -> Result<PageNo> {
        let last = self.runs.last().filter(|(run, _)| self.used < run.pages);
        if last.is_none() {
            let near = self.runs.last().map(|(run, _)| PageNo(run.first.0 + run.pages));
            let pages = RUN_PAGES << self.runs.len().min(RUN_DOUBLINGS);
            let run = self.alloc.allocate_unlogged(near, pages, self.waiter)?;
            self.runs.push((run, self.pool.log().next()));
            self.used = 0;
        }
        let (run, _) = self.runs.last().expect("there is one now");
        self.used += 1;
        Ok(PageNo(run.first.0 + self.used - 1))
    }

    /// Makes a page. Numbers may have been given out since its own: of a large value's pages each one has the next one's.
    fn make(&mut self, no: PageNo, f: impl FnOnce(&mut [u8])) -> Result<()> {
        // Later than all that was ever logged of the page.
        let lsn = self.pool.log().next();
        self.pool.make_unlogged(no, lsn, self.waiter, f)?;
        // Counted only now: before, its frame may have what an earlier life of the page left.
        let has_it = |&&(run, _): &&(Run, Lsn)| (run.first.0..run.first.0 + run.pages).contains(&no.0);
        let &(_, since) = self.runs.iter().rev().find(has_it).expect("it is one of those allocated");
        let made = &mut self.made;
        if no.0 != made.pages.end || since != made.since || no.0.is_multiple_of(Tablespace::STRIPE_PAGES) {
            // The pages do not change before the load ends, and must be on disk by then, so writing starts now.
            self.pool.write_soon(std::mem::replace(made, LoadedRun { pages: no.0..no.0, since }));
        }
        made.pages.end = no.0 + 1;
        Ok(())
    }

    /// The used part of each run; valid once all of its pages exist.
    fn all_made(&self) -> impl Iterator<Item = LoadedRun> + Clone {
        let last = self.runs.len().saturating_sub(1);
        self.runs.iter().enumerate().map(move |(index, &(run, since))| {
            let used = if index == last { self.used } else { run.pages };
            LoadedRun { pages: run.first.0..run.first.0 + used, since }
        })
    }

    /// Frees the unused pages: the rest of the last run, or all if the load failed.
    fn free_unused(&self, loaded: bool) -> Result<()> {
        for (index, (run, _)) in self.runs.iter().enumerate() {
            let used = match (loaded, index + 1 == self.runs.len()) {
                (true, true) => self.used,
                (true, false) => run.pages,
                (false, _) => 0,
            };
            if used < run.pages {
                let unused = Run { first: PageNo(run.first.0 + used), pages: run.pages - used };
                self.alloc.free_run(unused, self.waiter)?;
            }
        }
        Ok(())
    }
}

/// Whether a tree with this root has no rows. One that was just raised has no slots, and a child with all of them.
fn is_empty(root: Node<impl Bytes>) -> std::result::Result<bool, Torn> {
    Ok(root.level()? == 0 && root.slots()? == 0)
}

fn child_of(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().expect("an inner node's value has 8 bytes"))
}
