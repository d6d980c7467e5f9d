//! The job of one worker, for every carrier: which files, how, where in them, and when.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flifo_engine::disk::RealFile;
use serde::{Deserialize, Serialize};

use super::counters::{IoCounters, Step};
use super::kinds::{Mode, Workload};
use super::usage::{Usage, Whose};
use crate::measure::workload::{Random, stream};
use crate::support::clock::{self, now_ns};

/// One worker's part of a cell.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) files: Vec<OsString>,
    /// Of each file; a multiple of the block.
    pub(crate) file_bytes: u64,
    pub(crate) workload: Workload,
    pub(crate) mode: Mode,
    pub(crate) block_bytes: u32,
    pub(crate) read_share_pct: u32,
    pub(crate) batch_blocks: u32,
    pub(crate) seed: u64,
    /// Counts from 0.
    pub(crate) worker: u32,
    pub(crate) workers: u32,
    /// I/Os in flight on a ring; 0: one at a time, without one.
    pub(crate) ring_depth: u32,
}

/// Why a worker ended early, in one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failed(pub(crate) String);

/// When a round is measured, on the monotonic clock, which all processes share.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Window {
    pub(crate) start_ns: u64,
    pub(crate) from_ns: u64,
    pub(crate) until_ns: u64,
}

impl Window {
    /// From some time in the future on: all workers shall have heard of it by then.
    pub(crate) fn soon(warmup: Duration, time: Duration) -> Self {
        const HEARD_NS: u64 = 5_000_000;
        let start_ns = now_ns() + HEARD_NS;
        let from_ns = start_ns + clock::ns(warmup);
        Window { start_ns, from_ns, until_ns: from_ns + clock::ns(time) }
    }

    pub(crate) fn elapsed_s(&self) -> f64 {
        (self.until_ns - self.from_ns) as f64 / 1e9
    }

    pub(crate) fn wait_for_start(&self) {
        std::thread::sleep(Duration::from_nanos(self.start_ns.saturating_sub(now_ns())));
    }

    /// Whether what ended then is counted. Every I/O that ends within the window is, wherever it began, and none
    /// else: so the rate is right however long they take.
    #[inline]
    pub(crate) fn contains(&self, ended_ns: u64) -> bool {
        (self.from_ns..=self.until_ns).contains(&ended_ns)
    }
}

impl Job {
    pub(crate) fn open_files(&self) -> Result<Vec<RealFile>, Failed> {
        let access = self.mode.access(self.workload, self.block_bytes);
        let open = |name: &OsString| {
            RealFile::open(Path::new(name), access)
                .map_err(|error| Failed(format!("cannot open {}: {error}", Path::new(name).display())))
        };
        self.files.iter().map(open).collect()
    }

    /// Random choices of this worker, or of one of its slots.
    pub(crate) fn random(&self, slot: u32) -> Random {
        stream(self.seed, u64::from(self.worker) << 32 | u64::from(slot))
    }

    /// Where random blocks lie: everywhere but in the areas of doublewrites.
    pub(crate) fn places(&self) -> Result<Places, Failed> {
        let block = u64::from(self.block_bytes);
        let kept_bytes = match self.workload {
            Workload::Doublewrite => self.doublewrite_areas_bytes()?,
            _ => 0,
        };
        let blocks_per_file = (self.file_bytes - kept_bytes) / block;
        Ok(Places { block, first: kept_bytes / block, blocks_per_file, files: self.files.len() as u64 })
    }

    /// The region of one of `writers` writers of a log, which is in the first file alone.
    pub(crate) fn log_region(&self, writer: u32, writers: u32) -> Result<Region, Failed> {
        let block = u64::from(self.block_bytes);
        let bytes = self.file_bytes / u64::from(writers) / block * block;
        if bytes == 0 {
            return Err(Failed(format!(
                "{writers} writers of a log do not find room for a block each in {} bytes; use a larger --size or fewer --files",
                self.file_bytes
            )));
        }
        Ok(Region { file: 0, offset: u64::from(writer) * bytes, bytes })
    }

    /// This worker's doublewrite area, at the beginning of a file.
    pub(crate) fn doublewrite_area(&self) -> Result<Region, Failed> {
        self.doublewrite_areas_bytes()?;
        let (file, index, _) = self.spread(self.worker, self.workers);
        Ok(Region { file, offset: index * self.batch_bytes(), bytes: self.batch_bytes() })
    }

    pub(crate) fn batch_bytes(&self) -> u64 {
        u64::from(self.batch_blocks) * u64::from(self.block_bytes)
    }

    /// What the areas of all workers take of each file: at most half of it.
    fn doublewrite_areas_bytes(&self) -> Result<u64, Failed> {
        let (_, _, per_file) = self.spread(self.worker, self.workers);
        let bytes = per_file * self.batch_bytes();
        if bytes > self.file_bytes / 2 {
            return Err(Failed(format!(
                "the doublewrite areas of {} workers take more than half of the files; use a larger --size or a smaller --batch",
                self.workers
            )));
        }
        Ok(bytes)
    }

    /// Of `of` parts spread over the files: the file of part `index`, its place there, and how many share a file.
    fn spread(&self, index: u32, of: u32) -> (usize, u64, u64) {
        let files = self.files.len() as u32;
        ((index % files) as usize, u64::from(index / files), u64::from(of.div_ceil(files)))
    }

    /// Says what failed where.
    #[cold]
    pub(crate) fn failed(
        &self,
        what: &str,
        file: usize,
        bytes: u64,
        offset: u64,
        error: &io::Error,
    ) -> Failed {
        Failed(format!("{what} {bytes} bytes at {offset} of {}: {error}", self.path(file).display()))
    }

    /// Says that a sync failed.
    #[cold]
    pub(crate) fn failed_sync(&self, file: usize, error: &io::Error) -> Failed {
        Failed(format!("syncing {}: {error}", self.path(file).display()))
    }

    fn path(&self, file: usize) -> PathBuf {
        PathBuf::from(&self.files[file])
    }
}

/// Blocks of all files, to choose from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    block: u64,
    first: u64,
    blocks_per_file: u64,
    files: u64,
}

impl Places {
    /// The file and the offset of any block, all alike.
    #[inline]
    pub(crate) fn draw(&self, random: &mut Random) -> (usize, u64) {
        let place = random.below(self.blocks_per_file * self.files);
        let (file, block) = (place / self.blocks_per_file, place % self.blocks_per_file);
        (file as usize, (self.first + block) * self.block)
    }
}

/// A part of a file that one writer has to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) file: usize,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Runs steps until the window ends. Besides the step itself, an I/O costs a read of the clock, of an unchanged flag,
/// and a count in a bucket of this worker's own.
pub(crate) fn closed_loop(
    window: Window,
    stop: &AtomicBool,
    mut step: impl FnMut() -> Result<Step, Failed>,
) -> Result<IoCounters, Failed> {
    let mut counters = IoCounters::new();
    let is_over = |counters: &mut IoCounters, done: Step, began_ns, ended_ns| {
        let is_late = ended_ns > window.until_ns;
        if is_late {
            counters.unfinished(done.is_write, window.until_ns.saturating_sub(began_ns));
        }
        is_late || stop.load(Ordering::Relaxed)
    };
    window.wait_for_start();
    let mut began_ns = now_ns();
    loop {
        let done = step()?;
        let ended_ns = now_ns();
        if is_over(&mut counters, done, began_ns, ended_ns) {
            return Ok(counters);
        }
        if window.contains(ended_ns) {
            counters.count(done, ended_ns - began_ns);
            break;
        }
        began_ns = ended_ns;
    }
    // From the end of the first I/O that counts to the end of the first that does not: as many as are counted.
    let before = Usage::now(Whose::Thread);
    began_ns = now_ns();
    loop {
        let done = step()?;
        let ended_ns = now_ns();
        if is_over(&mut counters, done, began_ns, ended_ns) {
            break;
        }
        counters.count(done, ended_ns - began_ns);
        began_ns = ended_ns;
    }
    counters.set_usage(Usage::now(Whose::Thread).since(before));
    Ok(counters)
}

/// Memory at an address that O_DIRECT takes, filled with random bytes that no device can compress.
pub(crate) struct Buffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    const ALIGNMENT_BYTES: usize = 4096;

    pub(crate) fn random(len: usize, random: &mut Random) -> Self {
        let mut memory = vec![0; len + Self::ALIGNMENT_BYTES];
        let start = memory.as_ptr().align_offset(Self::ALIGNMENT_BYTES);
        for word in memory[start..start + len].chunks_mut(8) {
            word.copy_from_slice(&random.next_u64().to_le_bytes()[..word.len()]);
        }
        Buffer { memory, start, len }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

/// Makes a block unlike all others, so that the storage cannot deduplicate them.
#[inline]
pub(crate) fn stamp(block: &mut [u8], random: &mut Random) {
    block[..8].copy_from_slice(&random.next_u64().to_le_bytes());
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn job(workload: Workload, files: usize, file_bytes: u64) -> Job {
        Job {
            files: (0..files).map(|n| OsString::from(format!("f{n}"))).collect(),
            file_bytes,
            workload,
            mode: Mode::Direct,
            block_bytes: 4096,
            read_share_pct: 50,
            batch_blocks: 4,
            seed: 1,
            worker: 0,
            workers: 1,
            ring_depth: 0,
        }
    }

    #[test]
    fn random_blocks_are_all_of_all_files() {
        let job = job(Workload::RandomRead, 3, 4 * 4096);
        let (places, mut random) = (job.places().unwrap(), job.random(0));
        let drawn: BTreeSet<_> = (0..1000).map(|_| places.draw(&mut random)).collect();
        let all: BTreeSet<_> =
            (0..3).flat_map(|file| (0..4).map(move |block| (file, block * 4096))).collect();
        assert_eq!(drawn, all);
    }

    #[test]
    fn writers_of_a_log_do_not_meet() {
        let job = job(Workload::Log, 2, 10 * 4096);
        let regions: Vec<_> = (0..3).map(|writer| job.log_region(writer, 3).unwrap()).collect();
        // All in one file of ten blocks: three blocks each.
        let found: Vec<_> = regions.iter().map(|region| (region.file, region.offset / 4096)).collect();
        assert_eq!(found, [(0, 0), (0, 3), (0, 6)]);
        assert!(regions.iter().all(|region| region.bytes == 3 * 4096));
        assert!(job.log_region(0, 100).is_err());
    }

    #[test]
    fn pages_of_a_doublewrite_lie_behind_its_areas() {
        let mut job = job(Workload::Doublewrite, 2, 32 * 4096);
        (job.worker, job.workers) = (3, 6);
        // Three areas of four blocks in each file.
        assert_eq!(job.doublewrite_area().unwrap(), Region { file: 1, offset: 4 * 4096, bytes: 4 * 4096 });
        let (places, mut random) = (job.places().unwrap(), job.random(0));
        let drawn: BTreeSet<_> = (0..2000).map(|_| places.draw(&mut random).1 / 4096).collect();
        assert_eq!((drawn.first(), drawn.last(), drawn.len()), (Some(&12), Some(&31), 20));
        job.workers = 9;
        assert!(job.doublewrite_area().unwrap_err().0.contains("--batch"));
    }

    #[test]
    fn what_ends_in_the_window_counts_wherever_it_began() {
        let stop = AtomicBool::new(false);
        let window = Window::soon(Duration::from_millis(20), Duration::from_millis(100));
        let step = Step { is_write: false, blocks: 1, syncs: 0 };
        let counters = closed_loop(window, &stop, || {
            std::thread::sleep(Duration::from_millis(30));
            Ok(step)
        });
        // Ends at 30, 60, 90, 120 ms and a little more: the last may fall behind the end.
        let round = counters.unwrap().round(0, window.elapsed_s(), 4096);
        assert!((1..=4).contains(&round.reads), "{round:?}");
        assert!(round.read_latency.unwrap().p50_us.unwrap() >= 29_000.0);
    }

    #[test]
    fn what_outlasts_the_window_took_until_its_end() {
        let stop = AtomicBool::new(false);
        let window = Window::soon(Duration::ZERO, Duration::from_millis(50));
        let step = Step { is_write: true, blocks: 1, syncs: 0 };
        let mut left_ns = 0;
        let counters = closed_loop(window, &stop, || {
            left_ns = window.until_ns.saturating_sub(now_ns());
            std::thread::sleep(Duration::from_nanos(left_ns + 1_000_000));
            Ok(step)
        });
        let round = counters.unwrap().round(0, window.elapsed_s(), 4096);
        assert_eq!((round.writes, round.read_latency), (0, None));
        if left_ns > 0 {
            let latency = round.write_latency.unwrap();
            assert!(latency.max_us >= left_ns as f64 / 1e3, "{latency:?}");
            assert_eq!((latency.mean_us, latency.p99_us), (None, None));
        }
    }

    #[test]
    fn a_failure_or_a_stop_ends_the_loop() {
        let window = Window::soon(Duration::ZERO, Duration::from_secs(3600));
        let mut left = 3;
        let failed = closed_loop(window, &AtomicBool::new(false), || {
            left -= 1;
            if left == 0 {
                Err(Failed("as asked".into()))
            } else {
                Ok(Step { is_write: true, blocks: 1, syncs: 0 })
            }
        });
        assert_eq!(failed.unwrap_err(), Failed("as asked".into()));
        let step = Step { is_write: true, blocks: 1, syncs: 0 };
        closed_loop(window, &AtomicBool::new(true), || Ok(step)).unwrap();
    }

    #[test]
    fn buffers_are_aligned_and_random() {
        let mut buffer = Buffer::random(8192, &mut stream(1, 1));
        assert_eq!((buffer.bytes().as_ptr().addr() % 4096, buffer.bytes().len()), (0, 8192));
        let distinct: BTreeSet<_> = buffer.bytes().chunks(8).collect();
        assert_eq!(distinct.len(), 1024);
        let before = buffer.bytes()[..8].to_vec();
        stamp(buffer.bytes_mut(), &mut stream(2, 2));
        assert_ne!(buffer.bytes()[..8], before);
    }
}
