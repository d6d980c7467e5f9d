//! A worker with one I/O at a time: pread, pwrite, and the sync that its mode requires.

use std::sync::atomic::AtomicBool;

use flifo_engine::disk::{DiskFile, RealFile};

use super::counters::{IoCounters, Step};
use super::job::{Buffer, Failed, Job, Places, Region, Window, closed_loop, stamp};
use super::kinds::{Sync, Workload};
use crate::measure::workload::Random;

/// A worker, its files open.
pub(crate) struct Blocking {
    job: Job,
    files: Vec<RealFile>,
    buffer: Buffer,
    random: Random,
    places: Places,
    sync: Option<Sync>,
}

impl Blocking {
    pub(crate) fn open(job: Job) -> Result<Self, Failed> {
        let files = job.open_files()?;
        let mut random = job.random(0);
        let buffer_bytes = match job.workload {
            Workload::Doublewrite => job.batch_bytes(),
            _ => job.block_bytes.into(),
        };
        let buffer = Buffer::random(buffer_bytes as usize, &mut random);
        let (places, sync) = (job.places()?, job.mode.sync(job.workload));
        Ok(Blocking { job, files, buffer, random, places, sync })
    }

    pub(crate) fn run(mut self, window: Window, stop: &AtomicBool) -> Result<IoCounters, Failed> {
        match self.job.workload {
            Workload::RandomRead => closed_loop(window, stop, || self.read()),
            Workload::RandomWrite => closed_loop(window, stop, || self.write()),
            Workload::RandomMixed => {
                let share = u64::from(self.job.read_share_pct);
                closed_loop(window, stop, || {
                    if self.random.below(100) < share { self.read() } else { self.write() }
                })
            }
            Workload::Log => {
                let region = self.job.log_region(self.job.worker, self.job.workers)?;
                let mut at = 0;
                closed_loop(window, stop, || self.append(region, &mut at))
            }
            Workload::Doublewrite => {
                let area = self.job.doublewrite_area()?;
                let mut is_touched = vec![false; self.files.len()];
                closed_loop(window, stop, || self.doublewrite(area, &mut is_touched))
            }
        }
    }

    #[inline]
    fn read(&mut self) -> Result<Step, Failed> {
        let (file, offset) = self.places.draw(&mut self.random);
        self.files[file]
            .read_at(self.buffer.bytes_mut(), offset)
            .map_err(|error| self.job.failed("reading", file, self.job.block_bytes.into(), offset, &error))?;
        Ok(Step { is_write: false, blocks: 1, syncs: 0 })
    }

    #[inline]
    fn write(&mut self) -> Result<Step, Failed> {
        let (file, offset) = self.places.draw(&mut self.random);
        self.write_block(file, offset)
    }

    /// The next block of a log, which wraps around at the end of its region.
    fn append(&mut self, region: Region, at: &mut u64) -> Result<Step, Failed> {
        let offset = region.offset + *at;
        *at += u64::from(self.job.block_bytes);
        if *at == region.bytes {
            *at = 0;
        }
        self.write_block(region.file, offset)
    }

    #[inline]
    fn write_block(&mut self, file: usize, offset: u64) -> Result<Step, Failed> {
        stamp(self.buffer.bytes_mut(), &mut self.random);
        self.write_at(file, 0, self.job.block_bytes as usize, offset)?;
        Ok(Step { is_write: true, blocks: 1, syncs: self.sync(file)? })
    }

    /// A batch in one piece and durable, before any page goes to its place: a page torn there is whole here. Then all
    /// to their places and durable, before the next batch may overwrite this one.
    fn doublewrite(&mut self, area: Region, is_touched: &mut [bool]) -> Result<Step, Failed> {
        let block = self.job.block_bytes as usize;
        for page in self.buffer.bytes_mut().chunks_mut(block) {
            stamp(page, &mut self.random);
        }
        self.write_at(area.file, 0, area.bytes as usize, area.offset)?;
        let mut syncs = self.sync(area.file)?;
        for page in 0..self.job.batch_blocks as usize {
            let (file, offset) = self.places.draw(&mut self.random);
            self.write_at(file, page * block, block, offset)?;
            is_touched[file] = true;
        }
        for (file, touched) in is_touched.iter_mut().enumerate() {
            if std::mem::take(touched) {
                syncs += self.sync(file)?;
            }
        }
        Ok(Step { is_write: true, blocks: self.job.batch_blocks.into(), syncs })
    }

    #[inline]
    fn write_at(&self, file: usize, start: usize, len: usize, offset: u64) -> Result<(), Failed> {
        self.files[file]
            .write_at(&self.buffer.bytes()[start..start + len], offset)
            .map_err(|error| self.job.failed("writing", file, len as u64, offset, &error))
    }

    /// How many syncs it took.
    #[inline]
    fn sync(&self, file: usize) -> Result<u64, Failed> {
        let synced = match self.sync {
            None => return Ok(0),
            Some(Sync::All) => self.files[file].sync_all(),
            Some(Sync::Data) => self.files[file].sync(),
        };
        synced.map(|()| 1).map_err(|error| self.job.failed_sync(file, &error))
    }
}
