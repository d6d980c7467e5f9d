//! The redo log: every change is on disk before the changed page.
//!
//! # The stream
//! The log is one endless stream of bytes; an [`Lsn`] is an offset in it. A mini-transaction's records are one *frame*
//! (`frame.rs`), complete or absent: recovery replays frames from the last checkpoint up to the first incomplete one. A
//! changed page has the LSN of its frame's end.
//!
//! # Protocol
//! 1. **Promise** (`Log::promise`, before the first latch; may wait): reserves space in the log buffer and in the files
//!    for the most that the mini-transaction can write. After that, the mini-transaction never waits for the log.
//! 2. **Append** (`Promise::append`, latches held): one `fetch_add` gives the frame its place; the records are copied
//!    into the ring (`ring.rs`); the header word, stored last, marks the frame as complete. Frames become complete in
//!    any order. The ring is a mapped file (`buffer_file.rs`).
//! 3. **Write** (`writer.rs`): the leader takes the complete frames off the ring, in order, and writes them. It writes
//!    the last block of 4 KiB whole, with zeros behind the last frame.
//! 4. **Commit** ([`Log::make_durable`], nothing held). To survive the end of the process, it is enough that its frame
//!    and all before it are complete. To survive a power cut, one thread, without a slot, leads: it writes and syncs
//!    for all that wait; the others park until their LSN is durable. The first thread left over leads next
//!    (`stage.rs`).
//!
//! # Room
//! ```text
//!  checkpoint          durable   written   complete   next        promised        checkpoint + capacity
//!      |------------------|---------|----------|--------|------------|-- ... ---------|
//!       needed by recovery                 ring           not yet appended             would be overwritten
//! ```
//! `promised = next + the outstanding promises`, and a promise is given only if `promised` stays within both the files
//! and the ring. The last block is written whole, so the space in the files begins with the block of the checkpoint. So
//! an append can never overrun either, whatever the number of threads (asserted in `append`). Promises that had to wait
//! for a checkpoint are counted ([`RedoStats::hard_stops`]); statements take tokens long before (`tokens.rs`).
//!
//! # Failure
//! A failed write or sync is final: the durable part is unknown. From then on every promise and every wait for
//! durability returns [`Error::Stopped`], and no checkpoint is made. The next open recovers from the disk.
//!
//! # Files
//! [`SEGMENTS`] files of equal size, created once and reused cyclically (`files.rs`). A frame of an earlier cycle, or
//! a frame that was written behind a hole before a crash, is recognized by its LSN and by its *epoch*: the number of the
//! opening that wrote it, which never decreases along the stream and is durable before the first write.
//!
//! # Lock order
//! The checkpoint's lock before the writer's locks and the tablespace's. Of the writer's, the lock of the syncs is held
//! during a sync, and is taken before the lock of the writes, which is held during a write; both are taken with no
//! latch held. The ring has no lock.

mod buffer_file;
mod files;
mod frame;
#[cfg(any(fuzzing, test))]
pub(crate) mod fuzz;
mod header;
mod parking;
mod reader;
mod ring;
mod stage;
mod tokens;
mod writer;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) use buffer_file::LogBuffer;
pub(crate) use files::LogFiles;
pub(crate) use reader::Reader;
#[cfg(test)]
pub(crate) use tests::log_on;
#[cfg(all(test, not(miri)))]
pub(crate) use tokens::NEWCOMERS as NEWCOMERS_BAND;

use flifo_base::lock;

use crate::disk::{Checkpoint, Disk, Tablespace};
use crate::error::{Error, Result};
use crate::metrics::WaitReason;
use crate::page::Lsn;
use crate::wait::Waiter;
use frame::frame_bytes;
use ring::Ring;
use tokens::{Fill, HOLDERS, NEWCOMERS, Tokens};
use writer::Writer;

/// The number of log files.
pub const SEGMENTS: u32 = 4;
/// The minimum write to the files, and the minimum page size of the operating system's page cache.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// Where the log of a new database begins: 0 means "never changed".
pub(crate) const LSN_START: Lsn = Lsn(BLOCK_BYTES);
/// A thread that waits for space checks again after this time, in case it missed the notification.
const ROOM_WAIT: Duration = Duration::from_millis(2);

/// How durable a commit is when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It is in the page cache, and survives the end of the process.
    Written,
    /// It is on the device, and survives a power cut.
    Synced,
}

/// Counters of the log since it was opened, and its fill level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RedoStats {
    /// End of the appended frames.
    pub next_lsn: u64,
    /// End of the durable part.
    pub durable_lsn: u64,
    /// Where recovery would begin.
    pub checkpoint_lsn: u64,
    /// Capacity of the files, bytes.
    pub capacity_bytes: u64,
    /// Batches written.
    pub writes: u64,
    /// Bytes written, including zeros behind the last frame of a block.
    pub written_bytes: u64,
    /// Syncs.
    pub syncs: u64,
    /// How many times a thread waited for space in the log buffer.
    pub buffer_waits: u64,
    /// How many times a thread waited for a checkpoint: each is a failure of the back-pressure.
    pub hard_stops: u64,
    /// Checkpoints made.
    pub checkpoints: u64,
}

/// The redo log of one open database.
pub struct Log {
    space: Arc<Tablespace>,
    ring: Ring,
    /// Complete frames in the ring outlive the process.
    ring_is_mapped: bool,
    writer: Writer,
    capacity_bytes: u64,
    /// What lies before was written by earlier openings.
    begun: Lsn,
    /// The least epoch that frames before `begun` have.
    epoch_before: u32,
    /// Recovery begins here; what lies before may be overwritten. Grows.
    checkpoint: AtomicU64,
    /// No promise is given any more.
    sealed: AtomicBool,
    /// Held during a checkpoint, so that an older checkpoint cannot overwrite a newer one on disk.
    checkpointing: Mutex<()>,
    buffer_waits: AtomicU64,
    hard_stops: AtomicU64,
    checkpoints: AtomicU64,
    /// For changes of transactions that hold nothing, and of those that hold locks.
    tokens: [Tokens; 2],
}

/// Reserved log space of one mini-transaction; the drop returns the unused part.
#[must_use]
pub(crate) struct Promise<'l> {
    log: &'l Log,
    bytes: u64,
}

impl Log {
    /// Creates a log in new files on `disk`, with a capacity of `capacity_bytes`, and `buffer_bytes` of memory. It
    /// continues at the tablespace's checkpoint with an empty past: the database is new, or was closed.
    pub fn create(
        disk: &dyn Disk,
        space: &Arc<Tablespace>,
        capacity_bytes: u64,
        buffer_bytes: u64,
    ) -> Result<Arc<Log>> {
        if space.checkpoint() == Checkpoint::default() {
            space.set_checkpoint(Checkpoint { lsn: LSN_START.0, epoch: space.epoch() });
        }
        let files = Arc::new(LogFiles::create(disk, space.database(), capacity_bytes)?);
        let buffer = LogBuffer::create(disk, space.database(), buffer_bytes)?;
        let end = space.checkpoint().lsn;
        Ok(Log::new(space, files, buffer, Lsn(end)))
    }

    /// Opens the log in `files`, of the database in `space`, whose state has the checkpoint. The log ends at `end`, and
    /// the content of `buffer` is not needed.
    pub(crate) fn new(
        space: &Arc<Tablespace>,
        files: Arc<LogFiles>,
        buffer: LogBuffer,
        end: Lsn,
    ) -> Arc<Log> {
        let checkpoint = space.checkpoint();
        let files_capacity = files.capacity_bytes();
        assert!(checkpoint.lsn <= end.0 && end.0.is_multiple_of(frame::ALIGNMENT_BYTES));
        Arc::new(Log {
            space: Arc::clone(space),
            ring_is_mapped: buffer.is_mapped(),
            ring: Ring::new(buffer.into_zeros(), end, space.epoch()),
            capacity_bytes: files_capacity,
            writer: Writer::new(files, end),
            begun: end,
            epoch_before: checkpoint.epoch,
            checkpoint: AtomicU64::new(checkpoint.lsn),
            sealed: AtomicBool::new(false),
            checkpointing: Mutex::default(),
            buffer_waits: AtomicU64::new(0),
            hard_stops: AtomicU64::new(0),
            checkpoints: AtomicU64::new(0),
            tokens: [NEWCOMERS, HOLDERS].map(|band| Tokens::new(band, files_capacity)),
        })
    }

    /// The tablespace whose changes it records.
    pub(crate) fn space(&self) -> &Arc<Tablespace> {
        &self.space
    }

    /// The end of the appended frames: the next frame begins here or later.
    #[inline]
    pub fn next(&self) -> Lsn {
        self.ring.next()
    }

    /// The end of the durable part.
    pub fn durable(&self) -> Lsn {
        self.writer.durable()
    }

    /// Where recovery would begin.
    pub fn checkpoint(&self) -> Lsn {
        Lsn(self.checkpoint.load(Ordering::Acquire))
    }

    /// Capacity of the files, bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// The share of the files that recovery would need, 0 to 1.
    pub fn checkpoint_age_share(&self) -> f64 {
        // The checkpoint first: it never overtakes the end, and both advance.
        let checkpoint = self.checkpoint().0;
        (self.next().0 - checkpoint) as f64 / self.capacity_bytes as f64
    }

    /// Back-pressure: while the log is getting full, waits for tokens before a change begins or continues (`tokens.rs`).
    /// The caller holds no latch. `holds_locks`: others may wait for its transaction.
    #[inline]
    pub(crate) fn take_tokens(&self, holds_locks: bool, waiter: &Waiter) {
        let tokens = &self.tokens[usize::from(holds_locks)];
        if !tokens.is_open(self.fill().share) {
            let is_over = || self.check_open().is_err();
            waiter.wait(WaitReason::RedoTokens, || tokens.take(|| self.fill(), is_over));
        }
    }

    /// How full the log is, with what is promised.
    fn fill(&self) -> Fill {
        // The checkpoint first: it never overtakes the end, and both advance.
        let checkpoint = self.checkpoint().0;
        let promised = self.ring.promised();
        Fill { share: (promised - checkpoint) as f64 / self.capacity_bytes as f64, next: self.next().0 }
    }

    /// Reserves space for a mini-transaction whose records have at most `payload_bytes`. May wait: the caller holds no
    /// latch.
    pub(crate) fn promise(&self, payload_bytes: usize, waiter: &Waiter) -> Result<Promise<'_>> {
        let bytes = frame_bytes(payload_bytes);
        assert!(bytes <= self.ring.bytes() / 2, "a mini-transaction of {bytes} bytes");
        self.write_behind(waiter);
        loop {
            self.writer.check()?;
            match self.ring.try_promise(bytes, self.file_end()) {
                Ok(()) => {
                    let promise = Promise { log: self, bytes };
                    // Paired with the fence in `seal`: it sees this promise, or this sees the seal.
                    fence(Ordering::SeqCst);
                    if self.sealed.load(Ordering::Relaxed) {
                        return Err(Error::Closed);
                    }
                    // With the promise in hand, for which a close waits before it makes the state clean.
                    self.space.begin_writing()?;
                    return Ok(promise);
                }
                Err(ring::NoRoom::InRing) => {
                    self.buffer_waits.fetch_add(1, Ordering::Relaxed);
                    waiter.wait(WaitReason::RedoBuffer, || self.writer.make_room(&self.ring))?;
                }
                // No thread frees space any more, and the promise would be refused all the same.
                Err(ring::NoRoom::InFiles) if self.sealed.load(Ordering::Relaxed) => {
                    return Err(Error::Closed);
                }
                Err(ring::NoRoom::InFiles) => {
                    self.hard_stops.fetch_add(1, Ordering::Relaxed);
                    waiter.wait(WaitReason::RedoSpace, || std::thread::sleep(ROOM_WAIT));
                }
            }
        }
    }

    /// Ends all changes: from now on every promise is refused ([`Error::Closed`]). Returns once the outstanding
    /// promises are used or returned, so that no frame is appended any more. The caller holds no latch.
    pub(crate) fn seal(&self, waiter: &Waiter) {
        self.refuse();
        // A thread with a promise waits only for frames and latches.
        while self.ring.has_promises() {
            waiter.wait(WaitReason::Close, || std::thread::sleep(ROOM_WAIT));
        }
    }

    /// Refuses all promises from now on, and ends waits for them: the threads that free space are about to end.
    pub(crate) fn refuse(&self) {
        self.sealed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.tokens.iter().for_each(Tokens::wake_all);
    }

    /// An error if nothing is appended any more.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.writer.check()?;
        if self.sealed.load(Ordering::Relaxed) { Err(Error::Closed) } else { Ok(()) }
    }

    /// What lies before may be appended: nothing that recovery needs is in the way of the block it lies in.
    fn file_end(&self) -> u64 {
        self.checkpoint().0 / BLOCK_BYTES * BLOCK_BYTES + self.capacity_bytes
    }

    /// Writes frames that no thread waits for, if the amount is worth it, so that promises need not wait for the
    /// buffer.
    #[inline]
    fn write_behind(&self, waiter: &Waiter) {
        if self.ring.is_worth_a_write() && !self.writer.is_writing() {
            waiter.wait(WaitReason::LogWrite, || self.writer.drain(&self.ring));
        }
    }

    /// Writes all frames appended so far to the files. The caller holds no latch.
    pub(crate) fn write_out(&self, waiter: &Waiter) -> Result<()> {
        self.writer.check()?;
        waiter.wait(WaitReason::LogWrite, || self.writer.write_out(&self.ring, self.next()))
    }

    /// Returns once all frames before `lsn`, which is at most [`Log::next`], are as durable as given. The caller holds
    /// no latch.
    pub fn make_durable(&self, lsn: Lsn, durability: Durability, waiter: &Waiter) -> Result<()> {
        if durability == Durability::Synced && lsn <= self.durable() {
            return Ok(());
        }
        self.writer.check()?;
        match durability {
            Durability::Written if !self.ring_is_mapped => {
                waiter.wait(WaitReason::LogWrite, || self.writer.write_out(&self.ring, lsn))
            }
            Durability::Written if self.ring.is_complete(lsn) => Ok(()),
            Durability::Written => {
                waiter.wait(WaitReason::LogWrite, || self.ring.wait_until_complete(lsn));
                Ok(())
            }
            Durability::Synced => waiter.wait(WaitReason::LogSync, || self.writer.sync_out(&self.ring, lsn)),
        }
    }

    /// Makes `lsn` the start of recovery. The caller has written all pages with changes before it; they are synced
    /// here. With `clean`, the pages contain every change in the log; if the log is sealed, too, that stays so. Waits
    /// for the disk.
    pub(crate) fn make_checkpoint(&self, lsn: Lsn, clean: bool) -> Result<()> {
        let _one_at_a_time = lock(&self.checkpointing);
        self.writer.sync_out(&self.ring, lsn)?;
        self.writer.check()?;
        if lsn <= self.checkpoint() && !clean {
            // One that began later was faster, and what lies before it may be overwritten already.
            return Ok(());
        }
        self.space.note_durable_log(self.durable().0);
        let epoch = if lsn >= self.begun { self.space.epoch() } else { self.epoch_before };
        let checkpoint = Checkpoint { lsn: lsn.0, epoch };
        match clean {
            true => {
                self.space.set_checkpoint(checkpoint);
                match self.sealed.load(Ordering::Relaxed) {
                    true => self.space.end_writing()?,
                    false => self.space.mark_clean()?,
                }
            }
            false => self.space.mark_checkpoint(checkpoint)?,
        }
        self.checkpoint.fetch_max(lsn.0, Ordering::AcqRel);
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Nothing is written any more, for this reason.
    pub(crate) fn stop(&self, what: String) {
        self.writer.stop(what);
        self.tokens.iter().for_each(Tokens::wake_all);
    }

    /// Closes the files.
    pub(crate) fn close(&self) {
        self.writer.close();
    }

    /// The counters, and the fill level.
    pub fn stats(&self) -> RedoStats {
        let written = self.writer.counts();
        RedoStats {
            next_lsn: self.next().0,
            durable_lsn: self.durable().0,
            checkpoint_lsn: self.checkpoint().0,
            capacity_bytes: self.capacity_bytes,
            writes: written.writes,
            written_bytes: written.bytes,
            syncs: written.syncs,
            buffer_waits: self.buffer_waits.load(Ordering::Relaxed),
            hard_stops: self.hard_stops.load(Ordering::Relaxed),
            checkpoints: self.checkpoints.load(Ordering::Relaxed),
        }
    }
}

impl Promise<'_> {
    /// Appends a frame with these records; gives its end. Waits for nothing.
    pub(crate) fn append(self, payload: &[u8]) -> Lsn {
        let end = self.log.ring.append(payload, self.bytes, self.log.durable());
        debug_assert!(end.0 <= self.log.file_end(), "the log overran its checkpoint");
        // The rest of the promise was given back with the append.
        std::mem::forget(self);
        end
    }
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        self.log.ring.give_back(self.bytes);
    }
}

/// The error of a log that has stopped.
fn stopped(what: &str) -> Error {
    Error::Stopped { what: what.to_owned() }
}

#[cfg(test)]
mod tests;
