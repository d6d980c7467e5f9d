//! The study's claims, compared with a run's cells. Only ratios are compared: the disks, the kernel and the decade
//! differ.

use super::verdict::{Setting, judge};
use crate::report::iobench::view::{Curve, best, iops, is_raw, panels, ratio, size};
use crate::results::claims::{Claim, Verdict};
use crate::results::io::{IoCell, IoKey, IoResults};
use crate::results::published::linux_io_2012::LinuxIo2012;
use crate::support::statistics::Spread;

/// Half of a doubling, in logarithms: what `nearly doubles` must reach.
const DOUBLES: f64 = std::f64::consts::SQRT_2;
/// What `comes close` must reach.
const CLOSE: f64 = 0.8;
/// The study's first number of processes that can contend for a file.
const PROCESSES_MIN: u32 = 4;
/// The share of the highest write rate from which on a cell cannot double.
const ROOM: f64 = 0.5;

/// Every claim, in the order of the study.
pub(crate) fn compare(results: &IoResults, study: &LinuxIo2012) -> Vec<Claim> {
    let run = Run::of(results);
    // Two of the three say two things each.
    let parts = |index: usize| study.claims[index].split_once("; ").unwrap_or((&study.claims[index], ""));
    let ((near, least), (several, one)) = (parts(1), parts(2));
    let xfs = &study.one_file_xfs;
    vec![
        run.doublings(study.claims[0].clone()),
        run.near_the_device(near.into()),
        run.four_are_the_least(format!("of files {least}")),
        run.direct_over_several_files(several.into()),
        run.fsync_of_one_file(one.into()),
        run.one_xfs_file(xfs.write_4k_16_processes / xfs.write_4k_4_processes),
    ]
}

/// A run, sorted.
struct Run<'a> {
    filesystem: &'a str,
    curves: Vec<Curve<'a>>,
}

impl<'a> Run<'a> {
    fn of(results: &'a IoResults) -> Self {
        let curves = panels(results).into_iter().flat_map(|panel| panel.curves).collect();
        Run { filesystem: &results.storage.filesystem, curves }
    }

    fn curve(&self, workload: &str, mode: &str, block_bytes: u32, files: u32) -> Option<&Curve<'a>> {
        self.curves.iter().find(|curve| {
            let key = curve.key();
            !is_raw(key)
                && (key.workload.as_str(), key.mode.as_str(), key.block_bytes, key.files)
                    == (workload, mode, block_bytes, files)
        })
    }

    fn raw(&self, workload: &str, block_bytes: u32) -> Option<&'a IoCell> {
        let of_device = self.curves.iter().filter(|curve| {
            let key = curve.key();
            is_raw(key) && key.workload == workload && key.block_bytes == block_bytes
        });
        best(of_device.map(|curve| curve.peak()))
    }

    /// Where both curves were measured, with `PROCESSES_MIN` or more.
    fn compared(&self, above: Option<&Curve<'a>>, below: Option<&Curve<'a>>, what: &str) -> Vec<Setting> {
        let (Some(above), Some(below)) = (above, below) else { return Vec::new() };
        let pairs = above.cells.iter().filter(|cell| cell.key.concurrency >= PROCESSES_MIN);
        pairs
            .filter_map(|cell| {
                let ratio = ratio(cell, below.at(cell.key.concurrency)?)?;
                Some(Setting { name: format!("{what}{}", place(&cell.key)), ratio })
            })
            .collect()
    }

    /// From one file to two always; further only while there is room on the disk, and as many processes as files.
    fn doublings(&self, claim: String) -> Claim {
        let mut settings = Vec::new();
        for block in [4096, 16_384] {
            let room = self.most_writes(block) * ROOM;
            for (fewer, more) in [(1, 2), (2, 4), (4, 8)] {
                let (fewer, more) = (self.direct_writes(block, fewer), self.direct_writes(block, more));
                let (Some(fewer), Some(more)) = (fewer, more) else { continue };
                let (from, to) = (fewer.key().files, more.key().files);
                let has_room = |cell: &IoCell| from == 1 || median_iops(cell) <= room;
                let cells = more.cells.iter().filter(|cell| cell.key.concurrency >= to.max(PROCESSES_MIN));
                let found = cells.filter_map(|cell| {
                    let below = fewer.at(cell.key.concurrency).filter(|below| has_room(below))?;
                    let name = format!("{from} to {to} files, {}", place(&cell.key));
                    Some(Setting { name, ratio: ratio(cell, below)? })
                });
                settings.extend(found);
            }
        }
        let found = judge(&settings, DOUBLES);
        self.on(&["ext4"], claim, "direct writes, twice the files / the files", Some(2.0), settings, found)
    }

    fn direct_writes(&self, block_bytes: u32, files: u32) -> Option<&Curve<'a>> {
        self.curve("random-write", "direct", block_bytes, files)
    }

    /// The most that any number of files, or the device itself, wrote.
    fn most_writes(&self, block_bytes: u32) -> f64 {
        let curves = self.curves.iter().filter(|curve| {
            let key = curve.key();
            (key.workload.as_str(), key.mode.as_str(), key.block_bytes)
                == ("random-write", "direct", block_bytes)
        });
        best(curves.map(|curve| curve.peak())).map_or(0.0, median_iops)
    }

    fn near_the_device(&self, claim: String) -> Claim {
        let mut settings = Vec::new();
        let mut written = false;
        for workload in ["random-read", "random-write", "random-mixed"] {
            for block in [4096, 16_384] {
                let files = self.curve(workload, "direct", block, 8).map(|curve| curve.peak());
                let Some((files, raw)) = files.zip(self.raw(workload, block)) else { continue };
                let Some(ratio) = ratio(files, raw) else { continue };
                written |= workload != "random-read";
                settings.push(Setting { name: format!("{workload}, {}", size(block)), ratio });
            }
        }
        let what = "8 files / the raw device, highest of each";
        let found = if settings.is_empty() {
            (Verdict::Inconclusive, "the raw device was not measured: --device names it".into())
        } else {
            let (verdict, counts) = judge(&settings, CLOSE);
            match (written, verdict) {
                // The study is about writes; reads alone can refute nearness, not show it.
                (false, Verdict::Holds) => (
                    Verdict::Inconclusive,
                    format!("the device was only read: it holds for reads ({counts})"),
                ),
                _ => (verdict, counts),
            }
        };
        self.on(&["ext4", "xfs"], claim, what, None, settings, found)
    }

    /// Against 8 files where the raw device was not written: 4 do as much, and 2 do not.
    fn four_are_the_least(&self, claim: String) -> Claim {
        let peak = |files| self.direct_writes(16_384, files).map(|curve| curve.peak());
        let most = self.raw("random-write", 16_384).or_else(|| peak(8));
        let against = |files: u32| -> Option<Spread> { ratio(peak(files)?, most?) };
        let setting = |files: u32, ratio| Setting { name: format!("{files} files, 16K"), ratio };
        let what = "direct writes at 16K, 4 files / the raw device, or 8 files";
        let (four, two) = (against(4), against(2));
        let settings: Vec<Setting> = four.map(|ratio| setting(4, ratio)).into_iter().collect();
        let found = match (four, two) {
            (Some(four), Some(two)) => {
                let near = judge(&settings, CLOSE).0;
                let far = judge(&[setting(2, two)], CLOSE).0;
                let verdict = match (near, far) {
                    (Verdict::Holds, Verdict::DoesNotHold) => Verdict::Holds,
                    (Verdict::DoesNotHold, _) | (_, Verdict::Holds) => Verdict::DoesNotHold,
                    _ => Verdict::Inconclusive,
                };
                let reach = |spread: Spread| crate::support::format::with_range(spread);
                (verdict, format!("4 files reach {}, 2 reach {}; close is {CLOSE}", reach(four), reach(two)))
            }
            _ => (Verdict::Inconclusive, "it takes 2, 4 and 8 files at 16K".into()),
        };
        self.on(&["xfs"], claim, what, None, settings, found)
    }

    fn direct_over_several_files(&self, claim: String) -> Claim {
        let mut settings = Vec::new();
        for workload in ["random-write", "random-mixed"] {
            for block in [4096, 16_384] {
                for files in [2, 4, 8] {
                    let curve = |mode| self.curve(workload, mode, block, files);
                    let what = format!("{workload}, {files} files, ");
                    settings.extend(self.compared(curve("direct"), curve("fsync"), &what));
                }
            }
        }
        let found = judge(&settings, 1.0);
        self.on(&["ext4", "xfs"], claim, "several files, direct / write+fsync", None, settings, found)
    }

    fn fsync_of_one_file(&self, claim: String) -> Claim {
        let mut settings = Vec::new();
        for block in [4096, 16_384] {
            let curve = |mode| self.curve("random-write", mode, block, 1);
            settings.extend(self.compared(curve("fsync"), curve("direct"), "1 file, "));
        }
        let found = judge(&settings, 1.0);
        self.on(&["ext4"], claim, "one file, write+fsync / direct", None, settings, found)
    }

    /// Not in words in the study, but in its figures.
    fn one_xfs_file(&self, published: f64) -> Claim {
        let curve = self.direct_writes(4096, 1);
        let falls = curve.and_then(|curve| ratio(curve.at(16)?, curve.at(4)?));
        let settings: Vec<Setting> =
            falls.map(|ratio| Setting { name: "1 file, 4K".into(), ratio }).into_iter().collect();
        // The threshold is half of the published drop, on a logarithmic scale; values below it count as a drop.
        let mark = published.sqrt();
        let (verdict, counts) = judge(&settings, mark);
        let verdict = match verdict {
            Verdict::Holds => Verdict::DoesNotHold,
            Verdict::DoesNotHold => Verdict::Holds,
            told => told,
        };
        let claim = format!(
            "(from the figures) one xfs file: 4K writes fall to {published:.2} from 4 to 16 processes"
        );
        let what = "one file, direct writes at 4K, 16 processes / 4";
        self.on(&["xfs"], claim, what, Some(published), settings, (verdict, counts))
    }

    /// A claim about other file systems is inconclusive here, whatever the ratio is.
    fn on(
        &self,
        filesystems: &[&str],
        claim: String,
        ratio: &'static str,
        published: Option<f64>,
        settings: Vec<Setting>,
        (mut verdict, mut because): (Verdict, String),
    ) -> Claim {
        if !filesystems.contains(&self.filesystem) {
            let here = if self.filesystem.is_empty() { "unknown" } else { self.filesystem };
            because = format!(
                "the claim is about {}, and the file system here is {here}; on it: {because}",
                filesystems.join(" and ")
            );
            verdict = Verdict::Inconclusive;
        }
        let measured = Spread::of(settings.iter().map(|setting| setting.ratio.median));
        Claim::new(claim, ratio, published, measured, verdict).because(because)
    }
}

fn median_iops(cell: &IoCell) -> f64 {
    iops(cell).map_or(0.0, |spread| spread.median)
}

/// `4K, 16 processes`.
fn place(key: &IoKey) -> String {
    format!("{}, {} {}", size(key.block_bytes), key.concurrency, key.carrier)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
