//! Lines and tables for a terminal.

use std::fmt::Write as _;

use comfy_table::{Cell as Field, Table};

use super::view::{self, Panel, iops, panels, spread};
use crate::report::table::{bold, right_aligned, table};
use crate::report::{INTERRUPTED, Style};
use crate::results::io::{BlockLayer, IoCell, IoKey, IoLatency, IoResults, IoRound};
use crate::support::format;
use crate::support::size::Bytes;
use crate::support::statistics::Spread;

/// The concurrency for which the long table has rows: nearest to this, and the last.
const DETAIL_CONCURRENCY: u32 = 16;

/// `random-read, 4 files, direct, 16K, with 16 threads`.
pub(crate) fn name(key: &IoKey) -> String {
    format!("{}, {}, {}", key.workload, view::name(key), view::with_carriers(key))
}

/// The heading of the lines that [`line`] gives, without newline.
pub(crate) fn heading(style: Style) -> String {
    let heading = format!(
        "{:<12} {:>5} {:<9} {:>5} {:<9} {:>5} {:>20} {:>8} {:>9} {:>9} {:>7}",
        "workload", "block", "mode", "files", "as", "conc.", "IOPS", "MB/s", "p50 us", "p99 us", "CPU us"
    );
    bold(&heading, style)
}

/// A cell as one line of fixed columns, without newline: to be printed as each cell finishes.
pub(crate) fn line(cell: &IoCell) -> String {
    let key = &cell.key;
    format!(
        "{:<12} {:>5} {:<9} {:>5} {:<9} {:>5} {:>20} {:>8} {:>9} {:>9} {:>7}",
        key.workload,
        view::size(key.block_bytes),
        key.mode,
        files(key),
        key.carrier,
        key.concurrency,
        format::with_spread(iops(cell)),
        format::maybe(cell.mb_per_s_median),
        format::maybe(latency(cell, |latency| latency.p50_us)),
        format::maybe(cell.p99_us_median),
        format::maybe(cell.cpu_us_per_io_median),
    )
}

/// The whole report at the end of a run.
pub(crate) fn report(results: &IoResults, style: Style) -> String {
    let mut text = format!("\n{}\n", described(results));
    for panel in panels(results) {
        let _ = writeln!(text, "\n{}", bold(&panel.heading(), style));
        let _ = writeln!(
            text,
            "I/Os per second by {}: median of the rounds, lowest and highest round; 10^6 bytes per second\n{}",
            panel.counted(),
            throughput_table(&panel, style)
        );
        let _ = writeln!(
            text,
            "Latency (us; of reads and writes the slower), CPU time of an I/O, and the disk's counters\n{}",
            latency_table(&panel, style)
        );
    }
    for cell in &results.cells {
        for failure in &cell.failures {
            let (name, round) = (name(&cell.key), failure.round + 1);
            let _ = writeln!(text, "\nNot measured: {name}, round {round}: {}", failure.reason);
        }
    }
    if results.cells.iter().any(|cell| cell.key.mode == "buffered") {
        text += "\nBuffered reads are those of the page cache as it warms: they grow with the time and the memory.\n";
    }
    if results.settings.quick {
        let settings = &results.settings;
        let _ = writeln!(
            text,
            "\nMeasured in short: {} rounds of {} s; what lies within the spread is no difference.",
            settings.rounds, settings.round_s
        );
    }
    if results.interrupted {
        let _ = writeln!(text, "\n{INTERRUPTED}");
    }
    text
}

/// The storage in a line.
fn described(results: &IoResults) -> String {
    let storage = &results.storage;
    let mut line = format!("{}: {} of data", storage.path, Bytes(results.settings.size_bytes));
    for (what, value) in [
        ("", &storage.filesystem),
        ("device ", &storage.device),
        ("", &storage.device_model),
        ("scheduler ", &storage.scheduler),
        ("write cache ", &storage.write_cache),
    ] {
        if !value.is_empty() {
            let _ = write!(line, ", {what}{value}");
        }
    }
    line
}

fn files(key: &IoKey) -> String {
    if view::is_raw(key) { "raw".into() } else { key.files.to_string() }
}

fn labels(key: &IoKey) -> [String; 3] {
    [view::size(key.block_bytes), key.mode.clone(), files(key)]
}

fn throughput_table(panel: &Panel<'_>, style: Style) -> Table {
    let mut table = table(style);
    let head = ["block", "mode", "files"].map(str::to_owned);
    table.set_header(head.into_iter().chain(panel.concurrency.iter().map(u32::to_string)));
    for curve in &panel.curves {
        let figures = panel.concurrency.iter().map(|&concurrency| {
            let cell = curve.at(concurrency)?;
            Some(format!("{}\n{} MB/s", with_spread(iops(cell)?), format::count(cell.mb_per_s_median?)))
        });
        let figures = figures.map(|figure| figure.unwrap_or_else(|| "-".into()));
        table.add_row(labels(curve.key()).into_iter().chain(figures));
    }
    right_aligned(table, 3)
}

/// `12,345 -3+4%`, in less room than in other tables.
fn with_spread(spread: Spread) -> String {
    if spread.count < 2 || spread.median == 0.0 {
        return format::count(spread.median);
    }
    let off = |value: f64| 100.0 * (value / spread.median - 1.0).abs();
    format!("{} -{:.0}+{:.0}%", format::count(spread.median), off(spread.min), off(spread.max))
}

fn latency_table(panel: &Panel<'_>, style: Style) -> Table {
    let mut table = table(style);
    table.set_header([
        "block",
        "mode",
        "files",
        "conc.",
        "p50",
        "p95",
        "p99",
        "p99.9",
        "max",
        "CPU us",
        "disk IOPS",
        "flushes/s",
    ]);
    for curve in &panel.curves {
        for concurrency in detail(&panel.concurrency) {
            let Some(cell) = curve.at(concurrency) else { continue };
            let figures = std::iter::once(concurrency.to_string()).chain(details(cell));
            table.add_row(labels(curve.key()).into_iter().chain(figures).map(Field::new));
        }
    }
    right_aligned(table, 3)
}

fn detail(concurrency: &[u32]) -> Vec<u32> {
    let near = concurrency.iter().copied().min_by_key(|one| one.abs_diff(DETAIL_CONCURRENCY));
    let mut detail: Vec<u32> = near.into_iter().chain(concurrency.last().copied()).collect();
    detail.dedup();
    detail
}

/// The columns after the concurrency in a row of the long table.
fn details(cell: &IoCell) -> [String; 8] {
    let us = |figure: fn(&IoLatency) -> Option<f64>| format::maybe(latency(cell, figure));
    let disk = |figure: fn(&BlockLayer, f64) -> f64| {
        let of_round = |round: &IoRound| Some(figure(round.block_layer.as_ref()?, round.elapsed_s));
        spread(cell, of_round).map(|spread| spread.median)
    };
    [
        us(|latency| latency.p50_us),
        us(|latency| latency.p95_us),
        us(|latency| latency.p99_us),
        us(|latency| latency.p99_9_us),
        // Of all rounds, not a median: one write that hangs counts.
        format::maybe(
            spread(cell, |round| slower(round, |latency| Some(latency.max_us))).map(|spread| spread.max),
        ),
        format::maybe(cell.cpu_us_per_io_median),
        format::maybe(disk(|disk, elapsed_s| (disk.reads + disk.writes) as f64 / elapsed_s)),
        format::maybe(disk(|disk, elapsed_s| disk.flushes as f64 / elapsed_s)),
    ]
}

/// Median of the rounds.
fn latency(cell: &IoCell, figure: fn(&IoLatency) -> Option<f64>) -> Option<f64> {
    spread(cell, |round| slower(round, figure)).map(|spread| spread.median)
}

/// Of reads and writes the slower.
fn slower(round: &IoRound, figure: fn(&IoLatency) -> Option<f64>) -> Option<f64> {
    [round.read_latency, round.write_latency].iter().flatten().filter_map(figure).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::golden;
    use crate::report::iobench::fixture;

    const PLAIN: Style = Style { colour: false, width: 160 };

    #[test]
    fn the_report_reads_as_its_golden_file() {
        let mut results = fixture::full();
        results.interrupted = true;
        let failed = &mut results.cells[0];
        failed
            .failures
            .push(crate::results::Failure { round: 1, reason: "reading 4096 bytes at 8192".into() });
        golden("iobench-report", &report(&results, PLAIN));
        assert!(report(&results, Style { colour: true, width: 160 }).contains("\x1b[1m"));
    }

    #[test]
    fn lines_stand_under_their_heading() {
        let results = fixture::full();
        let columns = heading(PLAIN).len();
        for cell in &results.cells {
            assert_eq!(line(cell).chars().count(), columns, "{}", line(cell));
        }
        let failed = IoCell { key: results.cells[0].key.clone(), ..IoCell::default() };
        assert!(line(&failed).ends_with('-'));
    }

    #[test]
    fn the_spread_is_told_in_short() {
        assert_eq!(with_spread(Spread::of([980.0, 1000.0, 1030.0]).unwrap()), "1,000 -2+3%");
        assert_eq!(with_spread(Spread::of([5.0]).unwrap()), "5.00");
        assert_eq!((detail(&[1, 4, 64, 256]), detail(&[8])), (vec![4, 256], vec![8]));
    }
}
