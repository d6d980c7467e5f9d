//! The rules, one per setting.

use super::Advice;
use crate::report::iobench::view::{
    Curve, Panel, best, count_of_files, iops, is_raw, name, panels, ratio, size, spread, with_carriers,
};
use crate::results::io::{IoCell, IoResults, IoRound};
use crate::support::format::{count, with_spread};
use crate::support::statistics::Spread;

/// InnoDB's page, and the engine's.
const PAGE_BYTES: u32 = 16_384;
/// The smallest that either has.
const PAGE_BYTES_MIN: u32 = 4096;
/// The share of the best that counts as equally good.
const ENOUGH: f64 = 0.95;
/// I/Os that one of InnoDB's I/O threads keeps in flight with native AIO.
const IN_FLIGHT_PER_THREAD: u32 = 256;
/// InnoDB's default of `innodb_read_io_threads` and `innodb_write_io_threads`.
const IO_THREADS: u32 = 4;
/// The share of the sustained writes for ordinary flushing.
const SHARE: f64 = 0.5;
const ATOMIC_SHARE: f64 = 0.75;
/// The least that InnoDB takes for `innodb_io_capacity`.
const IO_CAPACITY_MIN: f64 = 100.0;

/// A run, sorted for the rules.
pub(super) struct Evidence<'a> {
    results: &'a IoResults,
    panels: Vec<Panel<'a>>,
    /// The block size that stands for the page.
    page_bytes: u32,
}

/// Where writes do best: what the later rules look at.
#[derive(Clone, Copy)]
struct Choice<'a> {
    files: u32,
    mode: &'a str,
}

impl<'a> Evidence<'a> {
    pub(super) fn of(results: &'a IoResults) -> Self {
        let panels = panels(results);
        let random = panels.iter().filter(|panel| panel.workload.starts_with("random"));
        let sizes: Vec<u32> = random.flat_map(|panel| panel.distinct(|key| key.block_bytes)).collect();
        // The page's own or the nearest below; a larger block says less of pages the larger it is.
        let (small, large): (Vec<u32>, Vec<u32>) = sizes.into_iter().partition(|size| *size <= PAGE_BYTES);
        let page_bytes = small.into_iter().max().or(large.into_iter().min()).unwrap_or(PAGE_BYTES);
        Evidence { results, panels, page_bytes }
    }

    pub(super) fn all(&self) -> Vec<Advice> {
        let files = self.files();
        let flush_method = self.flush_method(files);
        let choice = files.zip(self.mode_of_choice(files)).map(|(files, mode)| Choice { files, mode });
        vec![
            self.data_files(),
            flush_method,
            self.page_size(),
            self.io_depth("random-read", "io_depth", "innodb_read_io_threads"),
            self.io_depth("random-write", "io_depth (writes)", "innodb_write_io_threads"),
            self.io_capacity_max(choice),
            self.io_capacity(choice),
            self.log(),
            self.doublewrite(choice),
        ]
    }

    /// Curves of a workload over files; a run of a device has none, and then the device's. Of several carriers the one
    /// with most curves.
    fn curves(&self, workload: &str) -> Vec<&Curve<'a>> {
        let of_workload = self.panels.iter().filter(|panel| panel.workload == workload);
        let Some(panel) = of_workload.max_by_key(|panel| panel.curves.len()) else { return Vec::new() };
        let has_files = panel.curves.iter().any(|curve| !is_raw(curve.key()));
        panel.curves.iter().filter(|curve| is_raw(curve.key()) != has_files).collect()
    }

    fn of_page(&self, workload: &str) -> Vec<&Curve<'a>> {
        let mut curves = self.curves(workload);
        curves.retain(|curve| curve.key().block_bytes == self.page_bytes);
        curves
    }

    /// Direct writes over different numbers of files, ascending; of another mode if there are no direct ones.
    fn over_files(&self) -> Vec<&Curve<'a>> {
        let curves = self.of_page("random-write");
        let modes = ["direct", "dsync", "fdatasync", "fsync"];
        let count = |mode: &&&str| curves.iter().filter(|curve| curve.key().mode == **mode).count();
        let several = modes.iter().find(|mode| count(mode) > 1);
        let mode = several.or_else(|| modes.iter().find(|mode| count(mode) > 0)).copied();
        curves.into_iter().filter(|curve| Some(curve.key().mode.as_str()) == mode).collect()
    }

    /// The cells of [`Evidence::over_files`] where the best of them peaks, and which of them is best.
    fn cells_over_files(&self) -> Option<(Vec<&'a IoCell>, &'a IoCell)> {
        let curves = self.over_files();
        let top = best(curves.iter().map(|curve| curve.peak()))?;
        Some((curves.iter().filter_map(|curve| curve.at(top.key.concurrency)).collect(), top))
    }

    /// The fewest files that are as good as the best number, if measured.
    fn files(&self) -> Option<u32> {
        let (cells, top) = self.cells_over_files()?;
        cells.iter().find(|cell| is_enough(cell, top)).map(|cell| cell.key.files)
    }

    fn data_files(&self) -> Advice {
        const NAMES: (&str, &str) = ("data_files", "innodb_file_per_table");
        let hint = "add --workload random-write --mode direct --files 1,2,4,8";
        let Some((cells, top)) = self.cells_over_files().filter(|(cells, _)| cells.len() > 1) else {
            return Advice::not_measured(NAMES.0, NAMES.1, hint);
        };
        let Some(files) = self.files() else { return Advice::not_measured(NAMES.0, NAMES.1, hint) };
        let figures: Vec<String> =
            cells.iter().map(|cell| format!("{} {}", count_of_files(cell.key.files), figure(cell))).collect();
        let seen = if cells.iter().all(|cell| is_enough(cell, top)) {
            "no difference seen, so the fewest do".to_owned()
        } else {
            format!(
                "{} as good as the best",
                if files == 1 { "1 file is".into() } else { format!("{files} files are") }
            )
        };
        let key = &top.key;
        let because = format!(
            "random writes, {}, {}, {}: {} writes/s; {seen}",
            key.mode,
            size(key.block_bytes),
            with_carriers(key),
            figures.join(", "),
        );
        let innodb = if files > 1 { format!("ON, a hot table in {files} partitions") } else { "ON".into() };
        Advice::new(NAMES.0, &files.to_string(), NAMES.1, &innodb, because)
    }

    /// `direct` and the better of the modes that go through the page cache, over `files` where `direct` peaks.
    fn direct_and_synced(&self, files: Option<u32>) -> Option<(&'a IoCell, &'a IoCell)> {
        let mut curves = self.of_page("random-write");
        curves.retain(|curve| Some(curve.key().files) == files && !is_raw(curve.key()));
        let direct = curves.iter().find(|curve| curve.key().mode == "direct")?.peak();
        let synced =
            curves.iter().filter(|curve| ["fsync", "fdatasync"].contains(&curve.key().mode.as_str()));
        Some((direct, best(synced.filter_map(|curve| curve.at(direct.key.concurrency)))?))
    }

    /// The mode that the rules after the flush method look at.
    fn mode_of_choice(&self, files: Option<u32>) -> Option<&'a str> {
        match self.direct_and_synced(files) {
            Some((direct, synced)) if difference(ratio(direct, synced)) == Difference::Less => {
                Some(&synced.key.mode)
            }
            Some((direct, _)) => Some(&direct.key.mode),
            None => self.over_files().first().map(|curve| curve.key().mode.as_str()),
        }
    }

    fn flush_method(&self, files: Option<u32>) -> Advice {
        const NAMES: (&str, &str) = ("flush_method", "innodb_flush_method");
        let Some((direct, synced)) = self.direct_and_synced(files) else {
            let hint = "add --workload random-write --mode direct,fsync";
            return Advice::not_measured(NAMES.0, NAMES.1, hint);
        };
        let compared = ratio(direct, synced);
        let (value, seen) = match difference(compared) {
            Difference::More => {
                ("O_DIRECT", "direct does more, though it leaves the flush to be done once for many")
            }
            Difference::Less => ("fsync", "syncing each write does more even so"),
            Difference::None => {
                ("O_DIRECT", "no difference seen; with O_DIRECT no page is held in the page cache, too")
            }
        };
        let cache = match self.results.storage.write_cache.as_str() {
            "write through" => {
                "the disk says it has no volatile cache, but that was not tested by a power cut"
            }
            "" => "whether the disk has a volatile cache is not known",
            _ => "the disk has a volatile cache, which only a sync empties",
        };
        let because = format!(
            "random writes, {}, {}: direct {}, write+{} {} writes/s ({}): {seen}. O_DIRECT_NO_FSYNC is not advised: {cache}",
            name(&direct.key),
            with_carriers(&direct.key),
            figure(direct),
            synced.key.mode,
            figure(synced),
            times(compared),
        );
        Advice::new(NAMES.0, value, NAMES.1, value, because)
    }

    fn page_size(&self) -> Advice {
        const NAMES: (&str, &str) = ("page_size", "innodb_page_size");
        let Some((small, large)) = self.small_and_large() else {
            let hint = "add --workload random-read --block 4K,16K";
            return Advice::not_measured(NAMES.0, NAMES.1, hint);
        };
        let (few, many) = (size(small.key.block_bytes), size(large.key.block_bytes));
        let compared = ratio(small, large);
        let bytes = f64::from(large.key.block_bytes) / f64::from(small.key.block_bytes);
        let median = compared.map_or(1.0, |spread| spread.median);
        // Half of what the smaller page could gain at most, in logarithms.
        let (value, words) = if difference(compared) == Difference::More && median >= bytes.sqrt() {
            (&few, format!("{few} for rows read one by one from data larger than memory; {many} for scans"))
        } else if difference(compared) == Difference::None {
            (
                &many,
                format!("no difference seen in reads per second, and {many} bring {bytes:.0} times the data"),
            )
        } else {
            (&many, format!("{few} gain less than they lose: each read brings {bytes:.0} times less"))
        };
        let because = format!(
            "random reads, {}: {few} {} reads/s and {} MB/s, {many} {} reads/s and {} MB/s ({}): {words}",
            with_carriers(&small.key),
            figure(small),
            megabytes(small),
            figure(large),
            megabytes(large),
            times(compared),
        );
        Advice::new(NAMES.0, value, NAMES.1, value, because)
    }

    /// Reads of the smallest and of the largest block that a page can be, otherwise alike, where the smallest peaks.
    fn small_and_large(&self) -> Option<(&'a IoCell, &'a IoCell)> {
        let mut curves = self.curves("random-read");
        curves.retain(|curve| (PAGE_BYTES_MIN..=PAGE_BYTES).contains(&curve.key().block_bytes));
        let smallest = curves.iter().map(|curve| curve.key().block_bytes).min()?;
        let of_smallest = curves.iter().filter(|curve| curve.key().block_bytes == smallest);
        let small = best(of_smallest.map(|curve| curve.peak()))?;
        let alike = |curve: &&&Curve<'_>| {
            let key = curve.key();
            (&key.mode, key.files) == (&small.key.mode, small.key.files) && key.block_bytes > smallest
        };
        let large = curves.iter().filter(alike).max_by_key(|curve| curve.key().block_bytes)?;
        Some((small, large.at(small.key.concurrency)?))
    }

    /// The least concurrency that reaches 95% of the best.
    fn io_depth(&self, workload: &str, setting: &'static str, innodb_setting: &'static str) -> Advice {
        let mut curves = self.of_page(workload);
        curves.retain(|curve| curve.key().mode != "buffered" && curve.cells.len() > 1);
        let Some(top) = best(curves.iter().map(|curve| curve.peak())) else {
            let hint = format!("add --workload {workload} --mode direct --concurrency 1,4,16,64,128,256");
            return Advice::not_measured(setting, innodb_setting, &hint);
        };
        let Some(curve) = curves.iter().find(|curve| curve.cells.iter().any(|cell| std::ptr::eq(*cell, top)))
        else {
            return Advice::not_measured(setting, innodb_setting, "the run has no such curve");
        };
        let median = |cell: &IoCell| iops(cell).map_or(0.0, |spread| spread.median);
        let reaches = |cell: &&&IoCell| median(cell) >= ENOUGH * median(top);
        let enough = curve.cells.iter().find(reaches).copied().unwrap_or(top);
        let depth = enough.key.concurrency;
        let last = curve.cells.last().map_or(depth, |cell| cell.key.concurrency);
        let rising = depth == last;
        let figures: Vec<String> = curve
            .cells
            .iter()
            .map(|cell| format!("{}: {}", cell.key.concurrency, count(median(cell))))
            .collect();
        let threads = depth.div_ceil(IN_FLIGHT_PER_THREAD).max(IO_THREADS);
        let tail = if rising {
            format!("; it still rises at the last: add --concurrency {}", last * 2)
        } else {
            String::new()
        };
        let because = format!(
            "{workload}, {}, IOPS by {}: {}; {depth} reach 95% of the best{tail}. {threads} of InnoDB's threads keep {} \
             in flight with native AIO",
            name(&enough.key),
            if enough.key.carrier == "io-uring" { "I/Os in flight" } else { &enough.key.carrier },
            figures.join(", "),
            threads * IN_FLIGHT_PER_THREAD,
        );
        let value = if rising { format!("{depth} or more") } else { depth.to_string() };
        Advice::new(setting, &value, innodb_setting, &threads.to_string(), because)
    }

    /// The best cell of random writes under the chosen settings, and its worst round: the sustained rate.
    fn sustained(&self, choice: Option<Choice<'a>>) -> Option<(&'a IoCell, f64)> {
        let choice = choice?;
        let mut curves = self.of_page("random-write");
        curves.retain(|curve| (curve.key().files, curve.key().mode.as_str()) == (choice.files, choice.mode));
        let cell = best(curves.iter().map(|curve| curve.peak()))?;
        Some((cell, iops(cell)?.min))
    }

    fn io_capacity_max(&self, choice: Option<Choice<'a>>) -> Advice {
        const NAMES: (&str, &str) = ("io_capacity_max", "innodb_io_capacity_max");
        let Some((cell, sustained)) = self.sustained(choice) else {
            return Advice::not_measured(NAMES.0, NAMES.1, "add --workload random-write --mode direct");
        };
        let value = rounded_down(sustained);
        let because = format!(
            "random writes, {}, {}: {} pages/s, {} in the worst round, the rate to rely on; more would only \
             queue, with reads behind them",
            name(&cell.key),
            with_carriers(&cell.key),
            figure(cell),
            count(sustained),
        );
        Advice::new(NAMES.0, &value, NAMES.1, &value, because)
    }

    fn io_capacity(&self, choice: Option<Choice<'a>>) -> Advice {
        const NAMES: (&str, &str) = ("io_capacity", "innodb_io_capacity");
        let Some((_, sustained)) = self.sustained(choice) else {
            return Advice::not_measured(NAMES.0, NAMES.1, "add --workload random-write --mode direct");
        };
        // Half, for the doublewrite writes each page twice; where the device writes pages untorn it need not.
        let share = if self.is_atomic() { ATOMIC_SHARE } else { SHARE };
        let mixed = self.writes_among_reads().map_or_else(String::new, |cell| {
            let writes =
                spread(cell, |round| (round.elapsed_s > 0.0).then(|| round.writes as f64 / round.elapsed_s));
            format!(
                ". Among {}% reads ({}) it does {} writes/s",
                self.results.settings.read_share_pct,
                with_carriers(&cell.key),
                with_spread(writes)
            )
        });
        let without = if self.is_atomic() {
            " (flifo: three quarters, as atomic writes save the second copy)"
        } else {
            ""
        };
        let because = format!(
            "half of io_capacity_max: the doublewrite writes each page twice{without}, and reads and the log need the \
             disk, too{mixed}"
        );
        let (value, innodb) = (rounded_down(sustained * share), rounded_down(sustained * SHARE));
        Advice::new(NAMES.0, &value, NAMES.1, &innodb, because)
    }

    fn writes_among_reads(&self) -> Option<&'a IoCell> {
        best(self.of_page("random-mixed").iter().map(|curve| curve.peak()))
    }

    fn log(&self) -> Advice {
        const NAMES: (&str, &str) = ("flush_log_at_trx_commit", "innodb_flush_log_at_trx_commit");
        let alone = self.curves("log");
        let Some(cell) = best(alone.iter().filter_map(|curve| curve.at(1))) else {
            return Advice::not_measured(NAMES.0, NAMES.1, "add --workload log --concurrency 1");
        };
        let median = |figure: fn(&IoRound) -> Option<f64>| spread(cell, figure).map(|s| s.median);
        let latency = median(|round| round.write_latency.and_then(|l| l.p50_us)).map_or("-".into(), count);
        let because = format!(
            "log, {}, one writer: {} synced writes/s, median {latency} us: the most commits that one \
             connection gets; with sync_binlog = 1 about half. 2 saves the sync, and loses a second of commits with the power",
            name(&cell.key),
            figure(cell),
        );
        Advice::new(NAMES.0, "1", NAMES.1, "1", because)
    }

    fn is_atomic(&self) -> bool {
        self.results.storage.atomic_write_max_bytes.is_some_and(|max| max >= u64::from(self.page_bytes))
    }

    fn doublewrite(&self, choice: Option<Choice<'a>>) -> Advice {
        const NAMES: (&str, &str) = ("doublewrite", "innodb_doublewrite");
        let measured = best(self.of_page("doublewrite").iter().map(|curve| curve.peak()));
        let cost = match (measured, self.sustained(choice)) {
            (Some(cell), Some((plain, _))) => format!(
                "doublewrite, {}, {}: {} pages/s; without it, {}: {} pages/s",
                name(&cell.key),
                with_carriers(&cell.key),
                figure(cell),
                name(&plain.key),
                figure(plain)
            ),
            (Some(cell), None) => {
                format!(
                    "doublewrite, {}, {}: {} pages/s",
                    name(&cell.key),
                    with_carriers(&cell.key),
                    figure(cell)
                )
            }
            (None, _) => "Its cost was not measured: add --workload doublewrite".to_owned(),
        };
        if self.is_atomic() {
            let max = self.results.storage.atomic_write_max_bytes.unwrap_or(0);
            let because = format!(
                "files here can be written untorn up to {} (statx); OFF only in a server that asks for it (RWF_ATOMIC). {cost}",
                size(u32::try_from(max).unwrap_or(u32::MAX)),
            );
            return Advice::new(NAMES.0, "OFF with atomic writes", NAMES.1, "ON", because);
        }
        let because = format!("the kernel reports no atomic write of {} here. {cost}", size(self.page_bytes));
        Advice::new(NAMES.0, "ON", NAMES.1, "ON", because)
    }
}

/// What the rounds say of two settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Difference {
    More,
    Less,
    None,
}

/// All rounds must lie on one side; a single round has no spread, and must lie 10% away.
fn difference(compared: Option<Spread>) -> Difference {
    match compared {
        Some(one) if one.count == 1 && (one.median - 1.0).abs() < 0.1 => Difference::None,
        Some(compared) if compared.min > 1.0 => Difference::More,
        Some(compared) if compared.max < 1.0 => Difference::Less,
        _ => Difference::None,
    }
}

/// Whether the cell is within 5% of the best, or indistinguishable from it.
fn is_enough(cell: &IoCell, top: &IoCell) -> bool {
    let compared = ratio(cell, top);
    let near = compared.is_some_and(|spread| spread.median >= ENOUGH);
    near || std::ptr::eq(cell, top) || (compared.is_some() && difference(compared) == Difference::None)
}

fn figure(cell: &IoCell) -> String {
    with_spread(iops(cell))
}

fn megabytes(cell: &IoCell) -> String {
    spread(cell, |round| Some(round.mb_per_s)).map_or("-".into(), |spread| count(spread.median))
}

fn times(compared: Option<Spread>) -> String {
    match compared {
        None => "no rounds in common".into(),
        Some(spread) => format!("{} times", crate::support::format::with_range(spread)),
    }
}

/// Two digits, downwards: more are not known. Never less than InnoDB takes.
fn rounded_down(value: f64) -> String {
    let value = value.max(IO_CAPACITY_MIN);
    let unit = 10f64.powf(value.log10().floor() - 1.0);
    format!("{:.0}", (value / unit).floor() * unit)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
