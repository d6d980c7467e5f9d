//! Writing the log: one leads, the others wait for their LSN.
//!
//! Who finds the writer's lock free leads: it takes what is complete off the ring, writes, syncs if that is asked for, and
//! moves the two marks `written` and `durable`. Who finds it taken parks on the log with the LSN that it
//! waits for. The leader, when it has let go of the lock, wakes all that have what they wanted, and the first that
//! has not: it leads next, for all that were appended meanwhile. So under load a sync serves everyone who came during
//! the one before (group commit; the leader-follower scheme of MySQL's binary log and of InnoDB's
//! `log_write_up_to`).
//!
//! # No lost wake-up
//! `leading` is set under the lock and cleared before the leader looks for the parked. A thread parks only
//! if, under the parking lot's own lock, it sees `leading` and not yet its LSN: then the leader's search comes
//! later, and finds it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use parking_lot_core::{DEFAULT_UNPARK_TOKEN, FilterOp, ParkToken};

use super::frame::ALIGNMENT_BYTES;
use super::ring::Ring;
use super::{BLOCK_BYTES, Durability, LogFiles, stopped};
use crate::disk::AlignedBuffer;
use crate::error::Result;
use crate::page::Lsn;

/// Taken off the ring and written at a time.
const BATCH_BYTES: u64 = 1 << 20;

pub(super) struct Writer {
    files: LogFiles,
    batch: Mutex<Batch>,
    leading: AtomicBool,
    /// All before it was given to the operating system. Grows, under the lock.
    written: AtomicU64,
    /// All before it was synced. Grows, under the lock; `durable <= written`.
    durable: AtomicU64,
    stopped: OnceLock<String>,
    writes: AtomicU64,
    bytes: AtomicU64,
    syncs: AtomicU64,
}

/// What the leader works with.
struct Batch {
    /// The bytes of the last, not yet full block, and what was collected behind them.
    bytes: Vec<u8>,
    aligned: AlignedBuffer,
}

/// What was done.
pub(super) struct Counts {
    pub(super) writes: u64,
    pub(super) bytes: u64,
    pub(super) syncs: u64,
}

impl Writer {
    /// Goes on at `end`; the block of `end` holds `tail` before it.
    pub(super) fn new(files: LogFiles, end: Lsn, tail: &[u8]) -> Self {
        assert_eq!(tail.len() as u64, end.0 % BLOCK_BYTES);
        Writer {
            files,
            batch: Mutex::new(Batch {
                bytes: tail.to_vec(),
                aligned: AlignedBuffer::new(BLOCK_BYTES as usize),
            }),
            leading: AtomicBool::new(false),
            written: AtomicU64::new(end.0),
            durable: AtomicU64::new(end.0),
            stopped: OnceLock::new(),
            writes: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
        }
    }

    pub(super) fn written(&self) -> Lsn {
        Lsn(self.written.load(Ordering::Acquire))
    }

    pub(super) fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    pub(super) fn has_reached(&self, lsn: Lsn, durability: Durability) -> bool {
        lsn <= match durability {
            Durability::Written => self.written(),
            Durability::Synced => self.durable(),
        }
    }

    /// An error if the log has stopped.
    pub(super) fn check(&self) -> Result<()> {
        self.stopped.get().map_or(Ok(()), |what| Err(stopped(what)))
    }

    pub(super) fn stop(&self, what: String) {
        let _ = self.stopped.set(what);
        self.wake();
    }

    pub(super) fn close(&self) {
        let _batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
        self.files.close();
    }

    pub(super) fn counts(&self) -> Counts {
        let [writes, bytes, syncs] =
            [&self.writes, &self.bytes, &self.syncs].map(|count| count.load(Ordering::Relaxed));
        Counts { writes, bytes, syncs }
    }

    /// Returns once all before `lsn` is written or durable: leads, or waits for one who does.
    pub(super) fn reach(&self, ring: &Ring, lsn: Lsn, durability: Durability) -> Result<()> {
        while !self.has_reached(lsn, durability) {
            self.check()?;
            match self.try_lead() {
                Some(lead) => {
                    let led = self.lead(lead, ring, lsn, durability);
                    self.wake();
                    led?;
                }
                None => self.park(lsn, durability),
            }
        }
        Ok(())
    }

    /// Takes something off a ring that is full of frames, or of promises that will soon be frames or given back.
    pub(super) fn make_room(&self, ring: &Ring) -> Result<()> {
        let first = Lsn(self.written().0 + ALIGNMENT_BYTES);
        if ring.next() < first {
            std::thread::yield_now();
            return self.check();
        }
        self.reach(ring, first, Durability::Written)
    }

    fn try_lead(&self) -> Option<MutexGuard<'_, Batch>> {
        let lead = match self.batch.try_lock() {
            Ok(lead) => lead,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.leading.store(true, Ordering::SeqCst);
        Some(lead)
    }

    fn lead(
        &self,
        mut batch: MutexGuard<'_, Batch>,
        ring: &Ring,
        lsn: Lsn,
        durability: Durability,
    ) -> Result<()> {
        let led = self.write_up_to(&mut batch, ring, lsn).and_then(|()| match durability {
            Durability::Written => Ok(()),
            Durability::Synced => self.sync(),
        });
        if let Err(error) = &led {
            let _ = self.stopped.set(format!("the redo log: {error}"));
        }
        self.leading.store(false, Ordering::SeqCst);
        led
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

    /// Writes the batch, which ends at `to`; its last, not yet full block stays in it.
    fn write(&self, batch: &mut Batch, from: Lsn, to: Lsn) -> Result<()> {
        let begin = from.0 / BLOCK_BYTES * BLOCK_BYTES;
        debug_assert_eq!(batch.bytes.len() as u64, to.0 - begin);
        let whole = (to.0 - begin).next_multiple_of(BLOCK_BYTES) as usize;
        if batch.aligned.bytes().len() < whole {
            batch.aligned = AlignedBuffer::new(whole.next_power_of_two());
        }
        let aligned = &mut batch.aligned.bytes_mut()[..whole];
        let (filled, rest) = aligned.split_at_mut(batch.bytes.len());
        filled.copy_from_slice(&batch.bytes);
        rest.fill(0);
        self.files.write(begin, aligned)?;
        batch.bytes.drain(..(to.0 / BLOCK_BYTES * BLOCK_BYTES - begin) as usize);
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(whole as u64, Ordering::Relaxed);
        self.written.store(to.0, Ordering::Release);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let (from, to) = (self.durable(), self.written());
        if from < to {
            self.files.sync(from, to)?;
            self.syncs.fetch_add(1, Ordering::Relaxed);
            self.durable.store(to.0, Ordering::Release);
        }
        Ok(())
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(&self.written).addr()
    }

    fn park(&self, lsn: Lsn, durability: Durability) {
        let still = || {
            self.leading.load(Ordering::SeqCst)
                && !self.has_reached(lsn, durability)
                && self.stopped.get().is_none()
        };
        let token = ParkToken(token_of(lsn, durability));
        // SAFETY: the address is this log's, which nothing else parks on; the callbacks neither panic nor park.
        unsafe { parking_lot_core::park(self.key(), still, || {}, |_, _| {}, token, None) };
        // The lock is let go of a moment after `leading` is cleared.
        std::hint::spin_loop();
    }

    /// Wakes those who have what they want, and one who has not, to lead.
    fn wake(&self) {
        let all = self.stopped.get().is_some();
        let mut leader = false;
        let wake = |ParkToken(token)| {
            let (lsn, durability) = of_token(token);
            let next_leader = !all && !self.has_reached(lsn, durability);
            if next_leader && leader {
                return FilterOp::Skip;
            }
            leader |= next_leader;
            FilterOp::Unpark
        };
        // SAFETY: the address is this log's; the callbacks neither panic nor park.
        unsafe { parking_lot_core::unpark_filter(self.key(), wake, |_| DEFAULT_UNPARK_TOKEN) };
    }
}

/// Frames end at multiples of 8, so the lowest bit is free.
fn token_of(lsn: Lsn, durability: Durability) -> usize {
    lsn.0 as usize | usize::from(durability == Durability::Synced)
}

fn of_token(token: usize) -> (Lsn, Durability) {
    let durability = if token & 1 == 1 { Durability::Synced } else { Durability::Written };
    (Lsn(token as u64 & !1), durability)
}
