//! A worker with many I/Os in flight: one thread, one io_uring, registered files and memory.
//!
//! Every slot has a block of memory and one I/O in flight; when that ends, the next begins. A durable write is linked
//! with its sync, and ends when the sync does. One read of the clock serves all completions taken from the ring at a
//! time.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use flifo_engine::disk::RealFile;
use io_uring::types::{Fixed, FsyncFlags};
use io_uring::{IoUring, opcode, squeue};

use super::counters::{IoCounters, Step};
use super::job::{Buffer, Failed, Job, Places, Region, Window, stamp};
use super::kinds::{Sync, Workload};
use super::usage::{Usage, Whose};
use crate::measure::workload::Random;
use crate::support::clock::now_ns;

/// The worker takes one completion and submits one I/O per this number in flight. If many complete at once, the disk
/// should not idle until all of the next ones are prepared; but each submission costs.
const IN_FLIGHT_PER_TAKEN: usize = 32;

/// The kernel registers no larger piece of memory.
const PIECE_BYTES_MAX: usize = 1 << 30;

/// A worker, its files open and registered.
pub(crate) struct Ring {
    // Closed before the memory goes.
    ring: IoUring,
    chooser: Chooser,
    buffer: Buffer,
    /// Slots whose memory is registered as one piece.
    slots_per_piece: usize,
    slots: Vec<Slot>,
    _files: Vec<RealFile>,
}

/// What the next I/O of a slot is.
struct Chooser {
    job: Job,
    random: Random,
    places: Places,
    sync: Option<Sync>,
}

/// One I/O in flight.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    began_ns: u64,
    is_write: bool,
    file: usize,
    offset: u64,
    /// Of a log.
    region: Option<Region>,
    next: u64,
}

/// Says in one line why there is no ring, if the kernel gives none.
pub(crate) fn check() -> Result<(), Failed> {
    match new_ring(4) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failed(format!(
            "the kernel gives no io_uring ({error}): leave io-uring out of --as, or allow it (sysctl kernel.io_uring_disabled=0, or the container's seccomp profile)"
        ))),
    }
}

/// The kernel need not interrupt a thread that will poll anyway; kernels before 6.1 do not support that.
fn new_ring(entries: u32) -> io::Result<IoUring> {
    match IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => IoUring::new(entries),
        other => other,
    }
}

impl Ring {
    pub(crate) fn open(job: Job) -> Result<Self, Failed> {
        Self::open_with(job, PIECE_BYTES_MAX)
    }

    /// The memory is registered in pieces of at most this many bytes, or of one block if that is more.
    fn open_with(job: Job, piece_bytes_max: usize) -> Result<Self, Failed> {
        let cannot = |what: &str, error: io::Error| Failed(format!("cannot {what}: {error}"));
        let files = job.open_files()?;
        let (depth, block) = (job.ring_depth, job.block_bytes as usize);
        let (mut random, places, sync) = (job.random(0), job.places()?, job.mode.sync(job.workload));
        let mut buffer = Buffer::random(depth as usize * block, &mut random);
        let mut slots = vec![Slot::default(); depth as usize];
        if job.workload == Workload::Log {
            for (writer, slot) in slots.iter_mut().enumerate() {
                slot.region = Some(job.log_region(writer as u32, depth)?);
            }
        }
        // A write and its sync.
        let ring = new_ring((depth * 2).next_power_of_two()).map_err(|error| cannot("make a ring", error))?;
        let descriptors: Vec<_> = files.iter().map(|file| file.as_fd().as_raw_fd()).collect();
        ring.submitter()
            .register_files(&descriptors)
            .map_err(|error| cannot("register files with the ring", error))?;
        let slots_per_piece = (piece_bytes_max / block).max(1);
        let pieces = buffer.bytes_mut().chunks_mut(slots_per_piece * block);
        let pieces: Vec<_> = pieces
            .map(|piece| libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: piece.len() })
            .collect();
        // SAFETY: the memory is the buffer's, which lives as long as the ring and does not move.
        unsafe { ring.submitter().register_buffers(&pieces) }.map_err(|error| {
            cannot("register memory with the ring (a smaller --concurrency, or a higher ulimit -l)", error)
        })?;
        let chooser = Chooser { job, random, places, sync };
        Ok(Ring { ring, chooser, buffer, slots_per_piece, slots, _files: files })
    }

    pub(crate) fn run(mut self, window: Window, stop: &AtomicBool) -> Result<IoCounters, Failed> {
        let mut counters = IoCounters::new();
        let (mut usage_before, mut failed) = (None, None);
        let mut in_flight = 0;
        window.wait_for_start();
        let now = now_ns();
        for slot in 0..self.slots.len() {
            in_flight += self.begin(slot, now);
        }
        let taken = (self.slots.len() / IN_FLIGHT_PER_TAKEN).max(1);
        let (mut is_over, mut usage) = (false, Usage::default());
        // I/Os in flight are always awaited: the kernel uses this memory until then.
        while in_flight > 0 {
            wait(&mut self.ring).map_err(|error| Failed(format!("waiting for the ring: {error}")))?;
            let now = now_ns();
            if usage_before.is_none() && now >= window.from_ns {
                usage_before = Some(Usage::now(Whose::Process));
            }
            if !is_over && (now > window.until_ns || stop.load(Ordering::Relaxed) || failed.is_some()) {
                is_over = true;
                usage = Usage::now(Whose::Process).since(usage_before.unwrap_or_default());
            }
            for _ in 0..taken {
                let Some(ended) = next_ended(&mut self.ring) else { break };
                in_flight -= 1;
                let slot = self.slots[ended.slot];
                if let Err(failure) = self.chooser.check(&slot, &ended) {
                    failed.get_or_insert(failure);
                    continue;
                }
                let has_sync = slot.is_write && self.chooser.sync.is_some();
                if has_sync && !ended.is_sync {
                    continue;
                }
                if now > window.until_ns {
                    counters.unfinished(slot.is_write, window.until_ns.saturating_sub(slot.began_ns));
                } else if window.contains(now) {
                    let step = Step { is_write: slot.is_write, blocks: 1, syncs: has_sync.into() };
                    counters.count(step, now - slot.began_ns);
                }
                if !is_over && failed.is_none() {
                    in_flight += self.begin(ended.slot, now);
                }
            }
        }
        counters.set_usage(usage);
        failed.map_or(Ok(counters), Err)
    }

    /// Puts the next I/O of a slot into the ring; how many ends it will have.
    #[inline]
    fn begin(&mut self, index: usize, now: u64) -> u64 {
        let block = self.chooser.job.block_bytes as usize;
        let slot = &mut self.slots[index];
        self.chooser.choose(slot);
        slot.began_ns = now;
        let memory = &mut self.buffer.bytes_mut()[index * block..][..block];
        let (file, tag) = (Fixed(slot.file as u32), (index as u64) << 1);
        let piece = (index / self.slots_per_piece) as u16;
        if !slot.is_write {
            let read =
                opcode::ReadFixed::new(file, memory.as_mut_ptr(), block as u32, piece).offset(slot.offset);
            push(&mut self.ring, &read.build().user_data(tag));
            return 1;
        }
        stamp(memory, &mut self.chooser.random);
        let write = opcode::WriteFixed::new(file, memory.as_ptr(), block as u32, piece).offset(slot.offset);
        let write = write.build().user_data(tag);
        let Some(sync) = self.chooser.sync else {
            push(&mut self.ring, &write);
            return 1;
        };
        let flags = if sync == Sync::Data { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
        push(&mut self.ring, &write.flags(squeue::Flags::IO_LINK));
        push(&mut self.ring, &opcode::Fsync::new(file).flags(flags).build().user_data(tag | 1));
        2
    }
}

fn push(ring: &mut IoUring, entry: &squeue::Entry) {
    // SAFETY: the entry's memory is a slot of the registered buffer, which is not touched until the I/O has ended, and
    // which outlives it: `run` waits for all I/Os in flight.
    let pushed = unsafe { ring.submission().push(entry) };
    pushed.expect("the ring has room for a write and a sync of every slot");
}

/// Submits the pushed entries, and waits for at least one completion.
fn wait(ring: &mut IoUring) -> io::Result<()> {
    loop {
        match ring.submit_and_wait(1) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map(drop),
        }
    }
}

struct EndedIo {
    slot: usize,
    is_sync: bool,
    result: i32,
}

#[inline]
fn next_ended(ring: &mut IoUring) -> Option<EndedIo> {
    let entry = ring.completion().next()?;
    let tag = entry.user_data();
    Some(EndedIo { slot: (tag >> 1) as usize, is_sync: tag & 1 == 1, result: entry.result() })
}

impl Chooser {
    #[inline]
    fn choose(&mut self, slot: &mut Slot) {
        slot.is_write = match self.job.workload {
            Workload::RandomRead => false,
            Workload::RandomMixed => self.random.below(100) >= u64::from(self.job.read_share_pct),
            _ => true,
        };
        match slot.region {
            None => (slot.file, slot.offset) = self.places.draw(&mut self.random),
            Some(region) => {
                (slot.file, slot.offset) = (region.file, region.offset + slot.next);
                slot.next += u64::from(self.job.block_bytes);
                if slot.next == region.bytes {
                    slot.next = 0;
                }
            }
        }
    }

    /// A part of a block is a failure, too: there is none on a healthy file.
    #[inline]
    fn check(&self, slot: &Slot, ended: &EndedIo) -> Result<(), Failed> {
        let block = self.job.block_bytes;
        let expected = if ended.is_sync { 0 } else { block as i32 };
        if ended.result == expected {
            return Ok(());
        }
        let error = match ended.result {
            errno if errno < 0 => io::Error::from_raw_os_error(-errno),
            _ => io::ErrorKind::UnexpectedEof.into(),
        };
        let what = if slot.is_write { "writing" } else { "reading" };
        Err(match ended.is_sync {
            true => self.job.failed_sync(slot.file, &error),
            false => self.job.failed(what, slot.file, block.into(), slot.offset, &error),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::measure::storage::kinds::Mode;

    /// Eleven blocks in pieces of four: each slot's I/O goes to its own memory, whatever piece that is in.
    #[test]
    fn every_slot_has_memory_of_a_piece_that_the_kernel_takes() {
        if let Err(Failed(why)) = check() {
            eprintln!("not tested: {why}");
            return;
        }
        let (block, depth) = (4096, 11);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![0; 64 * block]).unwrap();
        let job = |workload| Job {
            files: vec![file.path().into()],
            file_bytes: 64 * block as u64,
            workload,
            mode: Mode::Buffered,
            block_bytes: block as u32,
            read_share_pct: 0,
            batch_blocks: 1,
            seed: 1,
            worker: 0,
            workers: 1,
            ring_depth: depth,
        };
        for workload in [Workload::RandomWrite, Workload::RandomRead] {
            let ring =
                Ring::open_with(job(workload), 4 * block).unwrap_or_else(|Failed(why)| panic!("{why}"));
            assert_eq!((ring.slots_per_piece, ring.buffer.bytes().len()), (4, depth as usize * block));
            // Its window is over before it begins: each slot has one I/O, and none fails.
            let window = Window { start_ns: 0, from_ns: 0, until_ns: 0 };
            let ran = ring.run(window, &AtomicBool::new(false));
            assert!(ran.is_ok(), "{:?}", ran.err());
        }
        assert!(std::fs::read(file.path()).unwrap().iter().any(|byte| *byte != 0), "blocks were written");
    }
}
