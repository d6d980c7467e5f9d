//! A database in a simulator: writers, a buffer pool, cleaners and a checkpointer, around the controller and the
//! back-pressure that ship.

use std::collections::VecDeque;

use super::{Controller, Limits, Plan, Sample, TICK_MS};
use crate::buffer::CLEANERS_MAX;
use crate::buffer::ages::{AgeCounts, Ages};
use crate::buffer::batch::BATCH_PAGES;
use crate::buffer::checkpoint::CHECKPOINT_SHARE;
use crate::buffer::cleaner::AHEAD_SHARE;
use crate::page::Lsn;
use crate::redo::NEWCOMERS_BAND as NEWCOMERS;

/// Redo of one change, bytes.
const CHANGE_BYTES: u64 = 200;
/// A step, nanoseconds.
const STEP_NS: u64 = 1_000_000;

/// What the writers want, and what the device achieves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// Redo per second that the writers would produce, bytes.
    pub(super) redo_per_s: f64,
    /// Pages that they change, each as often as any other.
    pub(super) pages: u64,
    /// Mean time of a batch of pages, milliseconds.
    pub(super) batch_ms: f64,
}

/// A generator of the splitmix family: the same seed gives the same run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// Between 1 - `spread` and 1 + `spread`.
    fn around_one(&mut self, spread: f64) -> f64 {
        1.0 + spread * (2.0 * (self.next() >> 11) as f64 / (1u64 << 53) as f64 - 1.0)
    }
}

/// A cleaner that writes a batch.
struct Writing {
    ends_ns: u64,
    begun_ns: u64,
    oldest: u64,
}

pub(super) struct Database {
    pub(super) limits: Limits,
    controller: Controller,
    pub(super) plan: Plan,
    random: Random,
    pub(super) now_ns: u64,
    pub(super) next: u64,
    checkpoint: u64,
    /// A checkpoint in progress: its LSN, and when it ends.
    checkpointing: Option<(u64, u64)>,
    checkpointed_ns: u64,
    /// Since when each page is dirty; `None` while it is clean.
    dirty: Vec<Option<u64>>,
    list: VecDeque<(u64, usize)>,
    ages: AgeCounts,
    cleaners: Vec<Option<Writing>>,
    pub(super) written: u64,
    batches: u64,
    batches_ns: u64,
    /// Redo that the writers want to write and have not, bytes.
    owed: f64,
}

/// What was seen during a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// The least age and the greatest, as shares of the capacity.
    pub(super) age_min: f64,
    pub(super) age_max: f64,
    /// Redo written, bytes per second.
    pub(super) redo_per_s: f64,
    /// Pages written per second.
    pub(super) pages_per_s: f64,
}

impl Database {
    pub(super) fn new(limits: Limits, seed: u64) -> Self {
        Database {
            limits,
            controller: Controller::new(limits),
            plan: Plan::default(),
            random: Random(seed),
            now_ns: 0,
            next: 4096,
            checkpoint: 4096,
            checkpointing: None,
            checkpointed_ns: 0,
            dirty: Vec::new(),
            list: VecDeque::new(),
            ages: AgeCounts::new(limits.capacity_bytes),
            cleaners: (0..CLEANERS_MAX).map(|_| None).collect(),
            written: 0,
            batches: 0,
            batches_ns: 0,
            owed: 0.0,
        }
    }

    /// The share of the log that recovery would read.
    pub(super) fn age(&self) -> f64 {
        (self.next - self.checkpoint) as f64 / self.limits.capacity_bytes as f64
    }

    /// Runs a load for this time.
    pub(super) fn run(&mut self, load: &Load, seconds: f64) -> Seen {
        let end_ns = self.now_ns + (seconds * 1e9) as u64;
        self.run_while(load, |database| database.now_ns < end_ns)
    }

    /// Runs a load until it has written this many capacities of redo.
    pub(super) fn run_capacities(&mut self, load: &Load, capacities: f64) -> Seen {
        let end = self.next + (capacities * self.limits.capacity_bytes as f64) as u64;
        self.run_while(load, |database| database.next < end)
    }

    fn run_while(&mut self, load: &Load, goes_on: impl Fn(&Database) -> bool) -> Seen {
        let (mut age_min, mut age_max) = (f64::INFINITY, 0.0_f64);
        let (begun_ns, next, written) = (self.now_ns, self.next, self.written);
        while goes_on(self) {
            let seconds = (self.now_ns - begun_ns) / 1_000_000_000;
            assert!(seconds < 1000, "it stands still at an age of {}", self.age());
            self.step(load);
            let age = self.age();
            (age_min, age_max) = (age_min.min(age), age_max.max(age));
        }
        let seconds = (self.now_ns - begun_ns) as f64 / 1e9;
        Seen {
            age_min,
            age_max,
            redo_per_s: (self.next - next) as f64 / seconds,
            pages_per_s: (self.written - written) as f64 / seconds,
        }
    }

    fn step(&mut self, load: &Load) {
        self.now_ns += STEP_NS;
        self.write_redo(load);
        self.clean(load);
        if (self.now_ns / STEP_NS).is_multiple_of(TICK_MS) {
            self.tick();
            self.make_checkpoint(load);
        }
    }

    /// The writers, as far as the back-pressure admits them.
    fn write_redo(&mut self, load: &Load) {
        self.dirty.resize(load.pages as usize, None);
        let admitted = NEWCOMERS.bytes_per_s(self.age(), self.limits.capacity_bytes).min(load.redo_per_s);
        self.owed += admitted * self.random.around_one(0.5) * STEP_NS as f64 / 1e9;
        while self.owed >= CHANGE_BYTES as f64 {
            self.owed -= CHANGE_BYTES as f64;
            let page = (self.random.next() % load.pages) as usize;
            if self.dirty[page].is_none() {
                self.dirty[page] = Some(self.next);
                self.ages.add(Lsn(self.next));
                self.list.push_back((self.next, page));
            }
            self.next += CHANGE_BYTES;
            assert!(self.age() < 1.0, "a writer stopped hard");
        }
    }

    fn clean(&mut self, load: &Load) {
        for index in 0..self.cleaners.len() {
            if let Some(batch) = self.cleaners[index].take_if(|batch| batch.ends_ns <= self.now_ns) {
                self.batches += 1;
                self.batches_ns += batch.ends_ns - batch.begun_ns;
            }
            if self.cleaners[index].is_none() {
                self.cleaners[index] = self.begin_batch(load);
            }
        }
    }

    fn begin_batch(&mut self, load: &Load) -> Option<Writing> {
        let &(oldest, _) = self.list.front()?;
        if oldest >= self.plan.target.0 || self.plan.quota <= 0 {
            return None;
        }
        let limit = self.plan.target.0 + (self.limits.capacity_bytes as f64 * AHEAD_SHARE) as u64;
        let mut pages = 0;
        while pages < BATCH_PAGES as u64
            && let Some((since, page)) = self.list.pop_front_if(|&mut (since, _)| since < limit)
        {
            self.dirty[page] = None;
            self.ages.remove(Lsn(since));
            pages += 1;
        }
        self.written += pages;
        self.plan.quota -= pages as i64;
        let took_ns = (load.batch_ms * 1e6 * self.random.around_one(0.3)) as u64;
        Some(Writing { ends_ns: self.now_ns + took_ns, begun_ns: self.now_ns, oldest })
    }

    fn oldest(&self) -> u64 {
        let listed = self.list.front().map_or(self.next, |&(since, _)| since);
        self.cleaners.iter().flatten().map(|batch| batch.oldest).fold(listed, u64::min)
    }

    fn tick(&mut self) {
        let sample = Sample {
            now_ns: self.now_ns,
            next: Lsn(self.next),
            oldest: Lsn(self.oldest()),
            checkpoint: Lsn(self.checkpoint),
            begun: self.written,
            batches: self.batches,
            batches_ns: self.batches_ns,
        };
        let mut ages = Ages::since(sample.oldest, self.limits.capacity_bytes);
        ages.add(&self.ages);
        self.plan = self.controller.step(&sample, &ages);
    }

    /// As the checkpointer does. Its syncs take as long as a batch.
    fn make_checkpoint(&mut self, load: &Load) {
        if let Some((lsn, _)) = self.checkpointing.take_if(|(_, ends_ns)| *ends_ns <= self.now_ns) {
            self.checkpoint = self.checkpoint.max(lsn);
        }
        let gain = self.oldest() - self.checkpoint;
        let is_late = self.now_ns - self.checkpointed_ns >= 1_000_000_000 && gain > 0;
        if self.checkpointing.is_none() && (is_late || gain > self.limits.capacity_bytes / CHECKPOINT_SHARE) {
            self.checkpointed_ns = self.now_ns;
            let ends_ns = self.now_ns + (load.batch_ms * 1e6 * self.random.around_one(0.3)) as u64;
            self.checkpointing = Some((self.oldest(), ends_ns));
        }
    }
}
