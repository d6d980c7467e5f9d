//! Writing the log, in two stages: complete frames are taken off the ring and written; written frames are synced.
//!
//! Each stage has its own leader, so during a sync other threads append and write for the next. A thread that needs a
//! sync writes only if it leads, for all that need the same. A commit that need not survive a power cut does neither.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::frame::ALIGNMENT_BYTES;
use super::ring::Ring;
use super::stage::{Stage, Stop, check};
use super::{BLOCK_BYTES, LogFiles};
use crate::error::Result;
use crate::page::Lsn;

/// Taken off the ring and written at a time.
const BATCH_BYTES: u64 = 256 << 10;
/// A write of a block takes some microseconds, so a follower looks out for 20 or so. A sync takes a hundred and more.
const WRITE_POLLS: u32 = 64;

pub(super) struct Writer {
    files: Arc<LogFiles>,
    /// Frames written to the operating system.
    writing: Stage<Batch>,
    /// Frames synced; never beyond the written ones. A thread leads this stage before, and while, it leads the other.
    syncing: Stage<()>,
    stop: Stop,
    writes: AtomicU64,
    bytes: AtomicU64,
    syncs: AtomicU64,
}

/// What the leader of the writing works with.
struct Batch {
    /// The collected frames, from the last written one on.
    bytes: Vec<u8>,
    /// The end of the last block that was written into: up to there the files have zeros behind the written frames.
    block_end: u64,
}

/// Counters.
pub(super) struct Counts {
    pub(super) writes: u64,
    pub(super) bytes: u64,
    pub(super) syncs: u64,
}

impl Writer {
    /// Continues at `end`.
    pub(super) fn new(files: Arc<LogFiles>, end: Lsn) -> Self {
        let batch = Batch { bytes: Vec::new(), block_end: end.0 };
        Writer {
            files,
            writing: Stage::new(end, WRITE_POLLS, batch),
            syncing: Stage::new(end, 0, ()),
            stop: Stop::new(),
            writes: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
        }
    }

    pub(super) fn written(&self) -> Lsn {
        self.writing.reached()
    }

    pub(super) fn durable(&self) -> Lsn {
        self.syncing.reached()
    }

    /// An error if the log has stopped.
    pub(super) fn check(&self) -> Result<()> {
        check(&self.stop)
    }

    pub(super) fn stop(&self, what: String) {
        let _ = self.stop.set(what);
        self.writing.wake(&self.stop);
        self.syncing.wake(&self.stop);
    }

    pub(super) fn close(&self) {
        let _syncing = self.syncing.lock();
        let _writing = self.writing.lock();
        self.files.close();
    }

    pub(super) fn counts(&self) -> Counts {
        let [writes, bytes, syncs] =
            [&self.writes, &self.bytes, &self.syncs].map(|count| count.load(Ordering::Relaxed));
        Counts { writes, bytes, syncs }
    }

    /// Returns once all before `lsn` was given to the operating system.
    pub(super) fn write_out(&self, ring: &Ring, lsn: Lsn) -> Result<()> {
        self.writing.reach(lsn, &self.stop, |batch| self.write_up_to(batch, ring, lsn))
    }

    /// Returns once all before `lsn` is durable.
    pub(super) fn sync_out(&self, ring: &Ring, lsn: Lsn) -> Result<()> {
        self.syncing.reach(lsn, &self.stop, |()| self.sync(ring, lsn))
    }

    pub(super) fn is_writing(&self) -> bool {
        self.writing.is_led()
    }

    /// Writes the complete frames, unless a thread is writing. An error stops the log, and is returned by the next
    /// operation.
    pub(super) fn drain(&self, ring: &Ring) {
        let _ = self.writing.lead(&self.stop, |batch| self.write_up_to(batch, ring, self.written()));
    }

    /// Takes something off a ring that is full of frames, or of promises that will soon be frames or given back.
    pub(super) fn make_room(&self, ring: &Ring) -> Result<()> {
        let first = Lsn(self.written().0 + ALIGNMENT_BYTES);
        if ring.next() < first {
            std::thread::yield_now();
            return self.check();
        }
        self.write_out(ring, first)
    }

    /// Writes all complete frames, until these reach `lsn`: other threads are copying the frames before it into the
    /// ring right now, and wait for nothing.
    fn write_up_to(&self, batch: &mut Batch, ring: &Ring, lsn: Lsn) -> Result<()> {
        loop {
            self.check()?;
            let from = self.written();
            let to = ring.collect(from, &mut batch.bytes, BATCH_BYTES);
            if to > from {
                self.write(batch, from, to)?;
                // Only now: until then the ring is where they are after the end of the process.
                ring.release(to);
            } else if lsn <= from {
                return Ok(());
            } else {
                std::thread::yield_now();
            }
            if lsn <= to && to.0 - from.0 < BATCH_BYTES {
                return Ok(());
            }
        }
    }

    /// Writes the batch, which ends at `to`.
    ///
    /// A new block is written to its end; otherwise the operating system, which caches whole pages, would first read
    /// its old content. After that only new bytes are written. (Writing the whole block each time would transfer its 64
    /// cache lines between CPUs twice, for a commit of four or five.)
    fn write(&self, batch: &mut Batch, from: Lsn, to: Lsn) -> Result<()> {
        debug_assert_eq!(batch.bytes.len() as u64, to.0 - from.0);
        if to.0 > batch.block_end {
            batch.block_end = to.0.next_multiple_of(BLOCK_BYTES);
            batch.bytes.resize((batch.block_end - from.0) as usize, 0);
        }
        self.files.write(from, &batch.bytes)?;
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(batch.bytes.len() as u64, Ordering::Relaxed);
        batch.bytes.clear();
        self.writing.advance(to);
        Ok(())
    }

    /// Makes durable all that is complete now, and all before `lsn`.
    fn sync(&self, ring: &Ring, lsn: Lsn) -> Result<()> {
        // Even if others have written this thread's LSN: the threads that park here have not written theirs.
        self.writing.step(lsn, &self.stop, |batch| self.write_up_to(batch, ring, lsn))?;
        self.write_out(ring, lsn)?;
        let (from, to) = (self.durable(), self.written());
        if from < to {
            self.files.sync(from, to)?;
            self.syncs.fetch_add(1, Ordering::Relaxed);
            self.syncing.advance(to);
        }
        Ok(())
    }
}
