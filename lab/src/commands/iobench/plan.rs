//! The plan: what is measured, in which order.
//!
//! A round is one pass over all cells: workloads, block sizes, concurrency, and at each the modes, files and carriers
//! in turn. A temporary slowdown of the machine affects neighbours alike, so figures of one round pair.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::args::IobenchArgs;
use crate::commands::common::without_repeats;
use crate::measure::storage::kinds::{Carrier, Mode, Workload};
use crate::measure::workload::stream;
use crate::results::io::IoKey;
use crate::support::error::Error;
use crate::support::size::Bytes;

/// The object of the measurement: files, or a device itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Files of flifo's own in a directory.
    Files,
    /// A block device.
    Device,
}

/// One combination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// The I/O pattern.
    pub workload: Workload,
    /// How files are opened and writes made durable.
    pub mode: Mode,
    /// Bytes of an I/O.
    pub block_bytes: u32,
    /// Number of files; 0 for a device.
    pub files: u32,
    /// The carrier of the I/O.
    pub carrier: Carrier,
    /// I/Os at a time.
    pub concurrency: u32,
}

impl Cell {
    /// Its name in the results.
    pub fn key(&self) -> IoKey {
        IoKey {
            workload: self.workload.name().into(),
            access: if self.files == 0 { "device" } else { "file" }.into(),
            mode: self.mode.name().into(),
            block_bytes: self.block_bytes,
            files: self.files,
            carrier: self.carrier.name().into(),
            concurrency: self.concurrency,
        }
    }
}

/// The values to combine. Invalid combinations are left out.
#[derive(Debug, Clone)]
pub struct Lists {
    /// Workloads.
    pub workloads: Vec<Workload>,
    /// Block sizes; empty: the default of the workload.
    pub blocks: Vec<u32>,
    /// I/Os at a time.
    pub concurrency: Vec<u32>,
    /// Numbers of files.
    pub files: Vec<u32>,
    /// Modes.
    pub modes: Vec<Mode>,
    /// Carriers.
    pub carriers: Vec<Carrier>,
}

impl Lists {
    /// Every valid combination, in the order of one round.
    pub fn cells(&self, access: Access) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &workload in &self.workloads {
            let blocks = if self.blocks.is_empty() { usual_blocks(workload) } else { &self.blocks };
            for &block_bytes in blocks {
                for &concurrency in &self.concurrency {
                    for mode in self.modes_of(workload, access) {
                        for files in self.files_of(workload, access) {
                            let carriers = self.carriers.iter().filter(|one| one.applies_to(workload));
                            cells.extend(carriers.map(|&carrier| Cell {
                                workload,
                                mode,
                                block_bytes,
                                files,
                                carrier,
                                concurrency,
                            }));
                        }
                    }
                }
            }
        }
        without_repeats(&cells)
    }

    /// Of a device fsync and fdatasync are the same flush.
    fn modes_of(&self, workload: Workload, access: Access) -> Vec<Mode> {
        let mut modes = self.modes.clone();
        modes.retain(|mode| mode.applies_to(workload));
        if access == Access::Device && modes.contains(&Mode::Fdatasync) {
            modes.retain(|mode| *mode != Mode::Fsync);
        }
        modes
    }

    /// A log is one file, however many there are.
    fn files_of(&self, workload: Workload, access: Access) -> Vec<u32> {
        match (access, workload) {
            (Access::Device, _) => vec![0],
            (Access::Files, Workload::Log) => self.files.iter().copied().min().into_iter().collect(),
            (Access::Files, _) => self.files.clone(),
        }
    }
}

fn usual_blocks(workload: Workload) -> &'static [u32] {
    match workload {
        Workload::Log => &[4 << 10],
        Workload::Doublewrite => &[16 << 10],
        _ => &[4 << 10, 16 << 10],
    }
}

/// Everything a run measures.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The directory or the device.
    pub path: PathBuf,
    /// Which of the two.
    pub access: Access,
    /// In the order of one round.
    pub cells: Vec<Cell>,
    /// Size of all files together; `None`: a default that fits the machine.
    pub size_bytes: Option<u64>,
    /// Rounds.
    pub rounds: u32,
    /// Measured time per cell and round.
    pub time: Duration,
    /// Warm-up time before that.
    pub warmup: Duration,
    /// Reads of `random-mixed`, percent.
    pub read_share_pct: u32,
    /// Pages of a batch of `doublewrite`.
    pub batch_blocks: u32,
    /// Seed of the random choices.
    pub seed: u64,
    /// Shorter measurement: wider errors.
    pub quick: bool,
    /// Whether the files are kept.
    pub keep: bool,
    /// Whether the device may be written.
    pub write_to_device: bool,
    /// The user named no modes, so others may replace them if the file system has no direct access.
    pub may_change_modes: bool,
    /// Notes for the user, printed at the start.
    pub notes: Vec<String>,
}

const CONCURRENCY: [u32; 5] = [1, 4, 16, 64, 256];
const QUICK_CONCURRENCY: [u32; 3] = [1, 16, 64];
const FILES: [u32; 2] = [1, 4];
const MODES: [Mode; 2] = [Mode::Direct, Mode::Fsync];
/// Blocks that a file has at least.
const BLOCKS_MIN: u64 = 2;

impl Plan {
    /// The combinations on a directory or a device, three rounds of a second each. All fields can be changed
    /// afterwards.
    pub fn new(path: &Path, lists: &Lists) -> Result<Self, Error> {
        let access = access(path)?;
        Ok(Plan {
            path: path.to_owned(),
            access,
            cells: lists.cells(access),
            size_bytes: None,
            rounds: 3,
            time: Duration::from_secs(1),
            warmup: Duration::from_millis(250),
            read_share_pct: 50,
            batch_blocks: 64,
            seed: 1,
            quick: false,
            keep: false,
            write_to_device: false,
            may_change_modes: false,
            notes: Vec::new(),
        })
    }

    /// The plan of a command line.
    pub fn from_args(args: &IobenchArgs) -> Result<Self, Error> {
        fn or<T: Copy + PartialEq>(given: &[T], usual: &[T]) -> Vec<T> {
            without_repeats(if given.is_empty() { usual } else { given })
        }
        let mut notes = Vec::new();
        let access = access(&args.path)?;
        let concurrency: &[u32] = if args.quick { &QUICK_CONCURRENCY } else { &CONCURRENCY };
        let lists = Lists {
            workloads: workloads(args, access, &mut notes)?,
            blocks: without_repeats(&args.block),
            concurrency: or(&args.concurrency, concurrency),
            files: or(&args.files, &FILES),
            modes: or(&args.mode, &MODES),
            carriers: without_repeats(&args.carrier),
        };
        let time = Duration::from_secs_f64(args.time.unwrap_or(if args.quick { 0.2 } else { 0.5 }));
        let plan = Plan {
            size_bytes: args.size,
            rounds: args.rounds.unwrap_or(if args.quick { 2 } else { 3 }),
            time,
            warmup: args.warmup.map_or((time / 4).min(Duration::from_secs(1)), Duration::from_secs_f64),
            read_share_pct: args.read_share,
            batch_blocks: args.batch,
            seed: args.seed,
            quick: args.quick,
            keep: args.keep,
            write_to_device: args.write_to_device.is_some(),
            may_change_modes: args.mode.is_empty(),
            notes,
            ..Plan::new(&args.path, &lists)?
        };
        plan.checked(&lists)
    }

    /// Reports the combinations that are left out; fails if none is left.
    fn checked(mut self, lists: &Lists) -> Result<Self, Error> {
        for &workload in &lists.workloads {
            if self.cells.iter().all(|cell| cell.workload != workload) {
                self.notes.push(format!(
                    "{} is left out: none of --mode {} --as {} applies to it",
                    workload.name(),
                    lists.modes.iter().map(|mode| mode.name()).collect::<Vec<_>>().join(","),
                    lists.carriers.iter().map(|carrier| carrier.name()).collect::<Vec<_>>().join(","),
                ));
            }
        }
        if self.cells.is_empty() {
            let why = self.notes.pop().unwrap_or_else(|| "no workload is given".into());
            return Err(Error::Usage(format!("nothing to measure: {why}")));
        }
        for cell in &self.cells {
            let Some(size) = self.size_bytes else { break };
            let least = u64::from(cell.block_bytes) * u64::from(cell.files.max(1)) * BLOCKS_MIN;
            let block = u64::from(cell.block_bytes);
            if !size.is_multiple_of(block) {
                return Err(Error::Usage(format!(
                    "--size {size} is no multiple of the block of {}: use {}",
                    Bytes(block),
                    size.checked_next_multiple_of(block).unwrap_or(size - size % block)
                )));
            }
            if size < least {
                return Err(Error::Usage(format!(
                    "--size {} is too small for {} blocks of {} in each of {} files: use {} or more",
                    Bytes(size),
                    BLOCKS_MIN,
                    Bytes(cell.block_bytes.into()),
                    cell.files.max(1),
                    Bytes(least)
                )));
            }
        }
        Ok(self)
    }

    /// Replaces direct modes by modes through the page cache, if the user named none.
    pub(super) fn through_the_cache(&mut self) {
        for cell in &mut self.cells {
            cell.mode = cell.mode.through_the_cache(cell.workload);
        }
        self.cells = without_repeats(&self.cells);
    }

    /// Whether anything is written.
    pub(super) fn writes(&self) -> bool {
        self.cells.iter().any(|cell| cell.workload.writes())
    }

    /// Numbers of files that are needed, rising.
    pub(super) fn files(&self) -> Vec<u32> {
        let mut files: Vec<u32> = self.cells.iter().map(|cell| cell.files).collect();
        files.sort_unstable();
        files.dedup();
        files
    }

    /// The largest block size; every file holds a whole number of such blocks.
    pub(super) fn block_bytes_max(&self) -> u32 {
        self.cells.iter().map(|cell| cell.block_bytes).max().unwrap_or(0)
    }

    /// The seed of the random choices of a round of a cell. It differs every time, so that a cache on the way to the
    /// disk does not hold the blocks of the cell or round before.
    pub(super) fn seed_of(&self, cell: &Cell, round: u32) -> u64 {
        let index = self.cells.iter().position(|one| one == cell).unwrap_or(self.cells.len());
        stream(self.seed, u64::from(round) << 32 | index as u64).next_u64()
    }

    /// The number of cells to measure, each round counted.
    pub fn steps_total(&self) -> usize {
        self.cells.len() * self.rounds as usize
    }

    /// The duration of one of them.
    pub fn step_time(&self) -> Duration {
        self.warmup + self.time
    }
}

fn access(path: &Path) -> Result<Access, Error> {
    let cannot = |what: &str| Err(Error::Data(format!("{}: {what}", path.display())));
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(Access::Files),
        Ok(metadata) if metadata.file_type().is_block_device() => Ok(Access::Device),
        Ok(_) => cannot(
            "this is neither a directory nor a block device; name a directory, in which flifo makes files of its own",
        ),
        Err(error) => cannot(&format!("{error}; name a directory that is there, or a block device")),
    }
}

/// Writes destroy a device's content, so they need the device to be named twice.
fn workloads(args: &IobenchArgs, access: Access, notes: &mut Vec<String>) -> Result<Vec<Workload>, Error> {
    let random = [Workload::RandomRead, Workload::RandomWrite, Workload::RandomMixed];
    let usual = if args.advise { &Workload::ALL[..] } else { &random };
    let mut workloads = without_repeats(if args.workload.is_empty() { usual } else { &args.workload });
    match (access, &args.write_to_device) {
        (Access::Files, None) => {}
        (Access::Files, Some(device)) => {
            return Err(Error::Usage(format!(
                "--write-to-device {}: {} is a directory, whose files may be written anyway; leave the option out",
                device.display(),
                args.path.display()
            )));
        }
        (Access::Device, Some(device)) => {
            let real = |path: &Path| path.canonicalize().ok();
            if real(device).is_none() || real(device) != real(&args.path) {
                return Err(Error::Usage(format!(
                    "--write-to-device {} is not {}: name the device that is measured",
                    device.display(),
                    args.path.display()
                )));
            }
        }
        (Access::Device, None) if args.workload.is_empty() => {
            workloads = vec![Workload::RandomRead];
            notes.push("a device is only read unless --write-to-device names it".into());
        }
        (Access::Device, None) => {
            if let Some(workload) = workloads.iter().find(|workload| workload.writes()) {
                return Err(Error::Usage(format!(
                    "{} would destroy what is on {path}: give --write-to-device {path} if its content may be lost, or --workload random-read",
                    workload.name(),
                    path = args.path.display()
                )));
            }
        }
    }
    Ok(workloads)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::commands::cli::{Cli, Command};
    use crate::golden::Cases;

    fn try_plan(line: &str) -> Result<Plan, Error> {
        let words = ["flifo", "iobench", "/tmp"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words).unwrap().command {
            Command::Iobench(args) => Plan::from_args(&args),
            _ => unreachable!("iobench was given"),
        }
    }

    fn plan(line: &str) -> Plan {
        try_plan(line).unwrap()
    }

    #[test]
    fn the_default_takes_a_few_minutes_and_quick_less_than_one() {
        let measured = |plan: &Plan| plan.step_time() * plan.steps_total() as u32;
        assert!(measured(&plan("")) < Duration::from_secs(240), "{:?}", measured(&plan("")));
        // Files of 512 MiB twice, and starting and ending 60 cells twice, have the other half.
        assert!(measured(&plan("--quick")) < Duration::from_secs(33), "{:?}", measured(&plan("--quick")));
    }

    #[test]
    fn no_cell_asks_for_the_places_of_another() {
        let plan = plan("--workload random-read --rounds 3");
        let rounds = || (0..3).flat_map(|round| plan.cells.iter().map(move |cell| (cell, round)));
        let seeds = |plan: &Plan| rounds().map(|(cell, round)| plan.seed_of(cell, round)).collect::<Vec<_>>();
        let of_all = seeds(&plan);
        assert_eq!(of_all.iter().collect::<std::collections::BTreeSet<_>>().len(), plan.steps_total());
        assert_eq!(of_all, seeds(&plan.clone()), "the same seed, the same places");
        assert_ne!(of_all, seeds(&Plan { seed: 2, ..plan.clone() }));
    }

    #[test]
    fn combinations_without_sense_are_left_out() {
        let all = plan(
            "--workload random-read,random-write,log,doublewrite --mode direct,fsync,fdatasync,dsync,buffered \
             --files 8,2 --as threads,io-uring --concurrency 1 --block 4K",
        );
        let count = |cells: &dyn Fn(&&Cell) -> bool| all.cells.iter().filter(cells).count();
        // Reads: direct and buffered, two numbers of files, two carriers.
        assert_eq!(count(&|cell| cell.workload == Workload::RandomRead), 8);
        assert_eq!(count(&|cell| cell.workload == Workload::RandomWrite), 16);
        // A log is in one file only; the steps of a doublewrite do not overlap on a ring.
        assert_eq!(count(&|cell| cell.workload == Workload::Log), 8);
        assert!(all.cells.iter().all(|cell| cell.workload != Workload::Log || cell.files == 2));
        assert_eq!(count(&|cell| cell.workload == Workload::Doublewrite), 8);
        assert_eq!(all.files(), [2, 8]);
    }

    #[test]
    fn neighbours_differ_in_mode_and_files() {
        let plan =
            plan("--workload random-write --mode direct,fsync --files 1,4 --concurrency 1,16 --block 4K");
        let order: Vec<_> =
            plan.cells.iter().map(|cell| (cell.concurrency, cell.mode.name(), cell.files)).collect();
        let one = [("direct", 1), ("direct", 4), ("fsync", 1), ("fsync", 4)];
        let expected: Vec<_> =
            [1, 16].into_iter().flat_map(|n| one.map(|(mode, files)| (n, mode, files))).collect();
        assert_eq!(order, expected);
    }

    #[test]
    fn what_remains_of_nothing_is_refused() {
        let error = try_plan("--workload random-read --mode fsync").unwrap_err();
        assert_eq!(error.exit_code(), crate::support::error::EXIT_USAGE);
        let mut cases = Cases::default();
        cases.add("nothing remains", error);
        let some = plan("--workload random-read,random-write --mode fsync");
        cases.add("some remain", some.notes.join("\n"));
        cases.check("iobench-left-out");
    }

    #[test]
    fn a_size_holds_whole_blocks() {
        let mut cases = Cases::default();
        for line in [
            "--size 1000000 --block 16K",
            "--size 18446744073709551615 --block 4K",
            "--size 16K --files 4 --block 4K",
        ] {
            cases.add(line, try_plan(line).unwrap_err());
        }
        cases.check("iobench-size-errors");
        plan("--size 8M --files 3 --block 4K");
    }

    #[test]
    fn without_direct_access_cells_that_become_the_same_are_one() {
        let mut plan = plan("--workload random-read,random-write --concurrency 1 --files 1 --block 4K");
        plan.through_the_cache();
        let modes: Vec<_> = plan.cells.iter().map(|cell| (cell.workload, cell.mode)).collect();
        assert_eq!(
            modes,
            [
                (Workload::RandomRead, Mode::Buffered),
                (Workload::RandomWrite, Mode::Fdatasync),
                (Workload::RandomWrite, Mode::Fsync)
            ]
        );
    }
}
