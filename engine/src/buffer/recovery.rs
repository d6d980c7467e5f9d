//! Recovery: replays the redo log, each frame's records in order, on every older page.
//!
//! One thread parses; appliers change the pages, each applier the page numbers assigned to it, so the records of a page
//! stay in order and different pages are replayed in parallel. Pages go through the pool like any other, so data may be
//! larger than memory. Changed pages count as dirty since the start of the replayed log, so that no checkpoint passes
//! it before they are written. If recovery crashes, the next one starts at the same place, and skips pages that are new
//! enough.
//!
//! Pages that a bulk load was filling are not read: their earlier records are void ([`VoidRanges`]).
//!
//! # What is refused
//! A record that does not fit its page, and a page that is newer than the end of the log: the log is another
//! database's, or a part of it is lost, and replaying it would corrupt the pages.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::{BufferPool, Stop, VoidRanges};
use crate::error::{Error, Result};
use crate::page::op::Op;
use crate::page::{Lsn, PageNo, lsn, verify_content};
use crate::wait::Waiter;

/// Records on their way to an applier, per applier.
const QUEUE: usize = 1024;

/// The progress of recovery.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecoveryProgress {
    /// Bytes of the redo log replayed so far.
    pub replayed_bytes: u64,
    /// Bytes of the redo log to replay.
    pub total_bytes: u64,
}

/// The records that one frame has for one page.
struct ForPage {
    page: PageNo,
    end: Lsn,
    records: Vec<u8>,
}

/// Takes frames in order, and hands their records to appliers.
pub(crate) struct Replay<'p> {
    pool: &'p BufferPool,
    log_end: Lsn,
    pages_max: u64,
    void_ranges: VoidRanges,
}

impl BufferPool {
    /// The log is going to be replayed from `start` on: no checkpoint is made before that has ended. To be called before
    /// the background begins.
    pub(crate) fn begin_replay(&self, start: Lsn) {
        self.replayed_from.store(start.0, Ordering::Release);
    }
}

impl<'p> Replay<'p> {
    /// Creates a replay of a log that ends at `log_end`, describes pages below `pages_max`, and has `void_ranges`. The
    /// pool has called [`BufferPool::begin_replay`].
    pub(crate) fn new(pool: &'p BufferPool, log_end: Lsn, pages_max: u64, void_ranges: VoidRanges) -> Self {
        Replay { pool, log_end, pages_max, void_ranges }
    }

    /// Replays what `frames` gives: it calls its argument with the end and the records of each frame, in order.
    pub(crate) fn run(
        self,
        appliers: usize,
        frames: impl FnOnce(&mut dyn FnMut(Lsn, &[u8]) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let replayed = std::thread::scope(|scope| {
            let (queues, threads): (Vec<_>, Vec<_>) = (0..appliers.max(1))
                .map(|_| {
                    let (queue, work) = sync_channel(QUEUE);
                    let replay = &self;
                    (queue, scope.spawn(move || replay.apply_all(&work)))
                })
                .unzip();
            let parsed = frames(&mut |end, payload| self.distribute(end, payload, &queues));
            drop(queues);
            // An applier's error is the reason why the parser could not continue.
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err(bad("an applier ended half-way"))))
                .fold(Ok(()), Result::and)
                .and(parsed)
        });
        if replayed.is_ok() {
            self.pool.replayed_from.store(0, Ordering::Release);
        }
        replayed
    }

    fn distribute(&self, end: Lsn, payload: &[u8], queues: &[SyncSender<ForPage>]) -> Result<()> {
        let mut pages: Vec<ForPage> = Vec::new();
        let mut rest = payload;
        while !rest.is_empty() {
            let before = rest;
            let (page, op) = Op::decode(&mut rest, self.pool.page_size())
                .map_err(|_| bad(format!("the frame that ends at {} has a record that cannot be", end.0)))?;
            if matches!(op, Op::Unlogged { .. }) || self.void_ranges.is_void(page, end) {
                continue;
            }
            let record = &before[..before.len() - rest.len()];
            match pages.iter_mut().find(|of| of.page == page) {
                Some(of) => of.records.extend_from_slice(record),
                None => pages.push(ForPage { page, end, records: record.to_vec() }),
            }
        }
        for of in pages {
            // A stripe of pages goes to one applier: neighbours are read together.
            let queue = &queues[(of.page.0 / 64) as usize % queues.len()];
            queue.send(of).map_err(|_| bad("an applier gave up"))?;
        }
        Ok(())
    }

    fn apply_all(&self, work: &Receiver<ForPage>) -> Result<()> {
        let waiter = Waiter::background().recording(&self.pool.waits);
        work.iter().try_for_each(|of| self.apply(&of, &waiter))
    }

    fn apply(&self, of: &ForPage, waiter: &Waiter) -> Result<()> {
        let space = self.pool.space();
        if of.page.0 >= self.pages_max {
            let what = format!(
                "the record that ends at {} is of page {}, which was never allocated",
                of.end.0, of.page.0
            );
            return Err(bad(what));
        }
        if of.page.0 >= space.pages() {
            space.grow(of.page.0 + 1)?;
        }
        let page_bytes = self.pool.page_size();
        let (_, first) = Op::decode(&mut &of.records[..], page_bytes).expect("it was decoded before");
        if first.makes_page() && first.is_of(of.page) && !self.is_readable(of.page, waiter)? {
            let mut fits = true;
            self.pool.make_unlogged(of.page, of.end, waiter, |page| fits = self.apply_to(of, page))?;
            if fits { Ok(()) } else { Err(misfit(of)) }
        } else {
            self.change(of, waiter)
        }
    }

    /// Makes the changes; false, and nothing is written any more, if one does not fit.
    fn apply_to(&self, of: &ForPage, page: &mut [u8]) -> bool {
        let mut rest = &of.records[..];
        while !rest.is_empty() {
            let (_, op) = Op::decode(&mut rest, page.len()).expect("it was decoded before");
            // Other kinds keep a sound page sound; these two write unverified bytes.
            let unseen = matches!(op, Op::Image { .. } | Op::Write { .. });
            let fits = op.is_of(of.page) && op.apply(page).is_ok();
            if !fits || unseen && verify_content(page).is_err() {
                self.pool.stop(misfit(of).to_string());
                return false;
            }
        }
        true
    }

    /// Whether the page is readable. A page that was never written, is torn, or is on a bad sector is not. (The medium
    /// accepts a write there.)
    fn is_readable(&self, page: PageNo, waiter: &Waiter) -> Result<bool> {
        match self.pool.retry(waiter, || self.pool.optimistic(page).map(drop)) {
            Ok(()) => Ok(true),
            Err(Error::CorruptPage { .. } | Error::Io { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn change(&self, of: &ForPage, waiter: &Waiter) -> Result<()> {
        self.pool.retry(waiter, || {
            let mut page = self.pool.optimistic(of.page)?.exclusive()?;
            let found = lsn(page.bytes());
            if found > self.log_end {
                let what = format!(
                    "page {} was changed at {}, the log ends at {}",
                    of.page.0, found.0, self.log_end.0
                );
                return Err(Stop::fail(bad(what)));
            }
            if found >= of.end {
                // Dirty all the same: after a sync that failed, the page reads well from memory and is not on the disk.
                page.bytes_mut();
                page.commit(found);
                return Ok(());
            }
            let fits = self.apply_to(of, page.bytes_mut());
            page.commit(of.end);
            if fits { Ok(()) } else { Err(Stop::fail(misfit(of))) }
        })
    }
}

fn misfit(of: &ForPage) -> Error {
    bad(format!("the record that ends at {} does not fit page {}", of.end.0, of.page.0))
}

fn bad(what: impl Into<String>) -> Error {
    Error::CorruptRedo { path: "the redo log".to_owned(), what: what.into() }
}
