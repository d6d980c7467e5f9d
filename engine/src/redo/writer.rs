//! Writing the log, in two stages: what is complete is taken off the ring and written, what is written is synced.
//!
//! The stages have a leader each, so while one sync is on its way others append and write for the next. Who wants a sync
//! writes only if it leads: for all that want the same. A commit that need not survive a power cut does neither.

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
const WRITE_LOOKS: u32 = 64;

pub(super) struct Writer {
    files: Arc<LogFiles>,
    /// What was given to the operating system.
    writing: Stage<Batch>,
    /// What was synced; never beyond what was written. Led before, and while, the other is led.
    syncing: Stage<()>,
    stop: Stop,
    writes: AtomicU64,
    bytes: AtomicU64,
    syncs: AtomicU64,
}

/// What the leader of the writing works with.
struct Batch {
    /// What was collected, from what is written on.
    bytes: Vec<u8>,
    /// Where the last block ends that was written into: up to there the files have zeros behind what is written.
    block_end: u64,
}

/// What was done.
pub(super) struct Counts {
    pub(super) writes: u64,
    pub(super) bytes: u64,
    pub(super) syncs: u64,
}

impl Writer {
    /// Goes on at `end`.
    pub(super) fn new(files: Arc<LogFiles>, end: Lsn) -> Self {
        let batch = Batch { bytes: Vec::new(), block_end: end.0 };
        Writer {
            files,
            writing: Stage::new(end, WRITE_LOOKS, batch),
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

    /// Writes what is complete, unless somebody is writing. What goes wrong stops the log, and is told to who needs it next.
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

    /// Writes all that is complete, and goes on until that reaches `lsn`: the frames before it are being copied into the
    /// ring right now by threads that wait for nothing.
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
    /// A block that is begun is written to its end, or the operating system, which keeps whole pages, would read what is
    /// there first; after that only what is new. (To write the whole block each time made the processors send each other its
    /// 64 cache lines, twice, for a commit of four or five.)
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
        // Even if this one's own LSN was written by others: those who park here have not written theirs.
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
