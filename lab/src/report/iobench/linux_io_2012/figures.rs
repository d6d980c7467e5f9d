//! The study's figures and this run's. They are not compared directly, since the disk and the kernel differ. Each is
//! also shown as a share of the reads of its own raw device, which can be compared.

use crate::report::iobench::view::{best, iops, is_raw, spread};
use crate::results::io::{IoCell, IoResults};
use crate::results::published::linux_io_2012::LinuxIo2012;
use crate::support::statistics::Spread;

/// A published figure and this run's.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) published: f64,
    pub(super) here: Option<Spread>,
    /// Of the raw device's 4K reads, there and here; of MB/s there is none.
    pub(super) published_share: Option<f64>,
    pub(super) here_share: Option<f64>,
}

/// All of them, in the order of the study.
pub(super) fn figures(results: &IoResults, study: &LinuxIo2012) -> Vec<Figure> {
    let here = |wanted: Wanted| wanted.best_of(results);
    let base = here(Wanted { workload: "random-read", raw: true, block: Some(4096), processes: None });
    let base_here = base.and_then(iops).map(|spread| spread.median);
    let base_there = study.raw_device_max_iops.read_4k;
    let figure = |name: &str, published: f64, wanted: Wanted| {
        let here = here(wanted).and_then(iops);
        Figure {
            name: name.into(),
            published,
            here,
            published_share: Some(published / base_there),
            here_share: here.zip(base_here).map(|(here, base)| here.median / base),
        }
    };
    let raw = |workload, block| Wanted { workload, raw: true, block: Some(block), processes: None };
    let file = |workload, block, processes| Wanted { workload, raw: false, block: Some(block), processes };
    let iops_there = &study.raw_device_max_iops;
    let (ext4, xfs) = (&study.one_file_ext4, &study.one_file_xfs);
    let (read, write, mixed) = ("random-read", "random-write", "random-mixed");
    let mut all = vec![
        figure("raw device, reads at 4K", iops_there.read_4k, raw(read, 4096)),
        figure("raw device, reads at 16K", iops_there.read_16k, raw(read, 16_384)),
        figure("raw device, writes at 4K", iops_there.write_4k, raw(write, 4096)),
        figure("raw device, writes at 16K", iops_there.write_16k, raw(write, 16_384)),
        figure("raw device, mixed at 4K", iops_there.mixed_4k, raw(mixed, 4096)),
        figure("raw device, mixed at 16K", iops_there.mixed_16k, raw(mixed, 16_384)),
        figure("one ext4 file, reads at 4K", ext4.read_4k, file(read, 4096, None)),
        figure("one ext4 file, reads at 16K", ext4.read_16k, file(read, 16_384, None)),
        figure("one ext4 file, direct writes at 4K", ext4.write_direct_4k, file(write, 4096, None)),
        figure("one ext4 file, direct writes at 16K", ext4.write_direct_16k, file(write, 16_384, None)),
        figure(
            "one xfs file, writes at 4K, 4 processes",
            xfs.write_4k_4_processes,
            file(write, 4096, Some(4)),
        ),
        figure(
            "one xfs file, writes at 4K, 16 processes",
            xfs.write_4k_16_processes,
            file(write, 4096, Some(16)),
        ),
    ];
    // This run's figures are of the present file system; a published figure of another one has no counterpart.
    let filesystem = &results.storage.filesystem;
    for figure in all.iter_mut().filter(|figure| figure.name.starts_with("one ")) {
        if figure.name.split(' ').nth(1) != Some(filesystem) {
            (figure.here, figure.here_share) = (None, None);
        }
    }
    let megabytes = &study.raw_device_max_mb_s;
    for (workload, published) in [(read, megabytes.read), (write, megabytes.write), (mixed, megabytes.mixed)]
    {
        let cell = here(Wanted { workload, raw: true, block: None, processes: None });
        all.push(Figure {
            name: format!("raw device, {} MB/s", workload.trim_start_matches("random-")),
            published,
            here: cell.and_then(|cell| spread(cell, |round| Some(round.mb_per_s))),
            published_share: None,
            here_share: None,
        });
    }
    all
}

/// Selects this run's cells for a figure.
#[derive(Clone, Copy)]
struct Wanted {
    workload: &'static str,
    /// The raw device, or one file with direct access.
    raw: bool,
    /// `None`: whichever moves most bytes.
    block: Option<u32>,
    processes: Option<u32>,
}

impl Wanted {
    fn best_of(self, results: &IoResults) -> Option<&IoCell> {
        let cells = results.cells.iter().filter(|cell| {
            let key = &cell.key;
            let access =
                if self.raw { is_raw(key) } else { !is_raw(key) && key.files == 1 && key.mode == "direct" };
            access
                && key.workload == self.workload
                && self.block.is_none_or(|block| block == key.block_bytes)
                && self.processes.is_none_or(|processes| processes == key.concurrency)
        });
        if self.block.is_some() {
            return best(cells);
        }
        let megabytes = |cell: &IoCell| spread(cell, |round| Some(round.mb_per_s)).map_or(0.0, |s| s.median);
        cells.max_by(|a, b| megabytes(a).total_cmp(&megabytes(b)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::iobench::fixture;

    fn named<'a>(figures: &'a [Figure], name: &str) -> &'a Figure {
        figures.iter().find(|figure| figure.name == name).unwrap()
    }

    #[test]
    fn shares_are_of_the_own_device() {
        let results = fixture::study("ext4");
        let figures = figures(&results, &LinuxIo2012::load());
        assert_eq!(figures.len(), 15);
        let one = named(&figures, "one ext4 file, direct writes at 4K");
        assert_eq!(one.published_share, Some(0.15));
        let reads = named(&figures, "raw device, reads at 4K");
        assert_eq!((reads.published_share, reads.here_share), (Some(1.0), Some(1.0)));
        assert!(
            (one.here_share.unwrap() - one.here.unwrap().median / reads.here.unwrap().median).abs() < 1e-12
        );
        assert!(
            named(&figures, "raw device, writes at 4K").here.is_none(),
            "the fixture's device was only read"
        );
        assert!(named(&figures, "raw device, read MB/s").here.is_some());
    }

    #[test]
    fn one_file_of_another_file_system_is_not_set_beside() {
        let study = LinuxIo2012::load();
        let xfs = fixture::study("xfs");
        let figures = figures(&xfs, &study);
        assert!(named(&figures, "one ext4 file, reads at 4K").here.is_none());
        assert!(named(&figures, "one xfs file, writes at 4K, 16 processes").here.is_some());
    }
}
