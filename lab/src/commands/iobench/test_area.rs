//! The test files or the device of a plan, prepared for use.

use super::plan::{Access, Plan};
use crate::measure::storage::device::Device;
use crate::measure::storage::files::{TestFiles, check_size, usual_size};
use crate::measure::storage::kinds::Mode;
use crate::measure::storage::set::Set;
use crate::support::error::Error;
use crate::support::progress::Progress;
use crate::support::size::Bytes;

/// Test files or a device. The files are removed on drop.
pub(super) struct TestArea {
    place: Place,
    /// Of all files together.
    size_bytes: u64,
    block_bytes: u32,
    /// Numbers of files that are there at the same time.
    groups: Vec<Vec<u32>>,
}

enum Place {
    Files(TestFiles),
    Device(Device),
}

impl TestArea {
    /// Checks the possibilities of the system, and reports the choices. Nothing is written yet.
    pub(super) fn open(plan: &mut Plan, memory_bytes: u64, progress: &Progress) -> Result<Self, Error> {
        if plan.access == Access::Device && plan.writes() && !plan.write_to_device {
            return Err(Error::Usage(format!(
                "{} would be written; allow it with --write-to-device",
                plan.path.display()
            )));
        }
        let place = match plan.access {
            Access::Files => Place::Files(TestFiles::open(&plan.path, plan.keep, progress)?),
            Access::Device => Place::Device(Device::open(&plan.path, plan.writes())?),
        };
        let has_direct = match &place {
            Place::Files(files) => files.has_direct(),
            Place::Device(device) => device.has_direct(),
        };
        if !has_direct {
            without_direct(plan, progress)?;
        }
        let block_bytes = plan.block_bytes_max();
        let (size_bytes, groups) = match &place {
            Place::Files(files) => {
                let space = files.space()?;
                let size = plan.size_bytes.unwrap_or_else(|| usual_size(space, memory_bytes, plan.quick));
                check_size(size, space, &plan.path)?;
                let counts = plan.files();
                let fit_together = size.saturating_mul(counts.len() as u64) <= space.usable();
                let groups =
                    if fit_together { vec![counts] } else { counts.into_iter().map(|n| vec![n]).collect() };
                progress.note(&chosen(plan, size, &groups, space.free));
                (size, groups)
            }
            Place::Device(device) => (device.size(plan.size_bytes, block_bytes)?, vec![vec![0]]),
        };
        Ok(TestArea { place, size_bytes, block_bytes, groups })
    }

    /// Of all files together.
    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Numbers of files that are there at the same time, in the order in which they are.
    pub(super) fn groups(&self) -> Vec<Vec<u32>> {
        self.groups.clone()
    }

    /// Creates the files of a group, after removing those of others.
    pub(super) fn make(&mut self, group: &[u32], progress: &Progress) -> Result<Vec<Set>, Error> {
        let (size, block) = (self.size_bytes, u64::from(self.block_bytes));
        // Whole blocks of every requested size.
        let file_bytes = |files: u32| size / u64::from(files) / block.max(4096) * block.max(4096);
        match &mut self.place {
            Place::Device(device) => Ok(vec![device.set(size)?]),
            Place::Files(test_files) => {
                if let Some(&files) = group.iter().find(|files| file_bytes(**files) == 0) {
                    return Err(Error::Usage(format!(
                        "--size {} leaves nothing for each of {files} files; use a larger one",
                        Bytes(size)
                    )));
                }
                test_files.retain(group, file_bytes)?;
                group.iter().map(|&files| test_files.make(files, file_bytes(files), progress)).collect()
            }
        }
    }
}

/// Uses the page cache instead, unless the user named direct access.
fn without_direct(plan: &mut Plan, progress: &Progress) -> Result<(), Error> {
    let Some(cell) = plan.cells.iter().find(|cell| cell.mode.is_direct()) else { return Ok(()) };
    if !plan.may_change_modes {
        return Err(Error::Data(format!(
            "{}: this file system has no O_DIRECT, which --mode {} needs; use --mode fsync,fdatasync,buffered, or name a directory on a disk",
            plan.path.display(),
            cell.mode.name()
        )));
    }
    plan.through_the_cache();
    progress.note(&format!(
        "{}: this file system has no O_DIRECT; reads are {} and writes {} instead of direct",
        plan.path.display(),
        Mode::Buffered.name(),
        Mode::Fdatasync.name()
    ));
    Ok(())
}

fn chosen(plan: &Plan, size: u64, groups: &[Vec<u32>], free: u64) -> String {
    let sets: usize = groups.iter().map(Vec::len).sum();
    let how = match (sets, groups.len()) {
        (1, _) => "one set of files".to_owned(),
        (sets, 1) => format!("{sets} sets of files side by side"),
        (sets, _) => format!(
            "{sets} sets of files one after another, for there is no room for all: rounds alternate only within a set"
        ),
    };
    let why = if plan.size_bytes.is_some() { "" } else { " (--size chooses another)" };
    let free = if free == u64::MAX { String::new() } else { format!("; {} are free", Bytes(free)) };
    format!("{} of data{why}, {how}{free}", Bytes(size))
}
