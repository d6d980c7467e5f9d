//! Lines and tables for a terminal.

use std::fmt::Write as _;

use comfy_table::{Cell as Field, Table};

use super::results::{BlockLayer, IoCell, IoKey, IoLatency, IoResults, IoRound};
use super::view::spread;
use crate::cli::Bytes;
use crate::report::text::{bold, right_aligned, table};
use crate::report::{Style, format};
use crate::statistics::Spread;

/// The concurrency for which the long table has rows: nearest to this, and the last.
const DETAIL_CONCURRENCY: u32 = 16;

/// A cell in a few words.
pub(super) fn name(key: &IoKey) -> String {
    let of = match key.files {
        0 => "device".to_owned(),
        1 => "1 file".to_owned(),
        files => format!("{files} files"),
    };
    let block = Bytes(key.block_bytes.into());
    format!("{} {block} {} on {of}, {} {}", key.workload, key.mode, key.concurrency, carried(key))
}

fn carried(key: &IoKey) -> &str {
    match (key.carrier.as_str(), key.concurrency) {
        ("io-uring", _) => "in flight",
        ("processes", 1) => "process",
        ("threads", 1) => "thread",
        (carrier, _) => carrier,
    }
}

/// The heading of the lines that [`line`] gives, without newline.
pub(super) fn heading(style: Style) -> String {
    let heading = format!(
        "{:<13} {:>5} {:<9} {:>5} {:<9} {:>5} {:>20} {:>8} {:>9} {:>9} {:>7}",
        "workload", "block", "mode", "files", "as", "conc.", "IOPS", "MB/s", "p50 us", "p99 us", "CPU us"
    );
    if style.colour { format!("\x1b[1m{heading}\x1b[0m") } else { heading }
}

/// A cell as one line of fixed columns, without newline: to be printed as each cell finishes.
pub(super) fn line(cell: &IoCell, _style: Style) -> String {
    let key = &cell.key;
    format!(
        "{:<13} {:>5} {:<9} {:>5} {:<9} {:>5} {:>20} {:>8} {:>9} {:>9} {:>7}",
        key.workload,
        Bytes(key.block_bytes.into()).to_string(),
        key.mode,
        files(key),
        key.carrier,
        key.concurrency,
        format::with_spread(spread(cell, |round| Some(round.iops))),
        format::maybe(cell.mb_per_s_median),
        format::maybe(latency(cell, |latency| latency.p50_us)),
        format::maybe(cell.p99_us_median),
        format::maybe(cell.cpu_us_per_io_median),
    )
}

fn files(key: &IoKey) -> String {
    if key.files == 0 { "raw".into() } else { key.files.to_string() }
}

/// Everything that is told at the end of a run.
pub(super) fn report(results: &IoResults, style: Style) -> String {
    let mut text = format!("\n{}\n", storage_line(results));
    let mut workloads: Vec<&str> = results.cells.iter().map(|cell| cell.key.workload.as_str()).collect();
    workloads.dedup();
    for workload in workloads {
        let cells: Vec<&IoCell> = results.cells.iter().filter(|cell| cell.key.workload == workload).collect();
        let _ = writeln!(text, "\n{}", bold(workload, style));
        let _ = writeln!(
            text,
            "I/Os per second by concurrency: median of the rounds, lowest and highest round; MB/s\n{}",
            throughput_table(&cells, style)
        );
        let _ = writeln!(
            text,
            "Latency (us), processor time and context switches of an I/O, and what the disk saw of it\n{}",
            latency_table(&cells, style)
        );
    }
    for cell in &results.cells {
        for failure in &cell.failures {
            let _ = writeln!(
                text,
                "\nNot measured: {}, round {}: {}",
                name(&cell.key),
                failure.round + 1,
                failure.reason
            );
        }
    }
    if results.cells.iter().any(|cell| cell.key.mode == "buffered") {
        text += "\nBuffered reads come from the page cache as it warms, so they grow with the time and with the memory.\n";
    }
    if results.settings.quick {
        text += &format!(
            "\nMeasured in short (--quick): {} rounds of {} s. Differences below the spread shown are none.\n",
            results.settings.rounds, results.settings.round_s
        );
    }
    if results.interrupted {
        text += "\nThe run was interrupted: some cells have fewer rounds, or none.\n";
    }
    text
}

fn storage_line(results: &IoResults) -> String {
    let storage = &results.storage;
    let known =
        |text: &str, what: &str| if text.is_empty() { String::new() } else { format!(", {what}{text}") };
    format!(
        "{}: {} of data{}{}{}{}",
        storage.path,
        Bytes(results.settings.size_bytes),
        known(&storage.filesystem, ""),
        known(&storage.device, "device "),
        known(&storage.device_model, ""),
        known(&storage.scheduler, "scheduler "),
    )
}

/// What tells a row from another.
fn row_of(key: &IoKey) -> IoKey {
    IoKey { concurrency: 0, ..key.clone() }
}

fn rows(cells: &[&IoCell]) -> Vec<IoKey> {
    let mut rows: Vec<IoKey> = cells.iter().map(|cell| row_of(&cell.key)).collect();
    rows.sort();
    rows.dedup();
    rows
}

fn concurrencies(cells: &[&IoCell]) -> Vec<u32> {
    let mut all: Vec<u32> = cells.iter().map(|cell| cell.key.concurrency).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn labels(key: &IoKey) -> [String; 4] {
    [Bytes(key.block_bytes.into()).to_string(), key.mode.clone(), files(key), key.carrier.clone()]
}

fn throughput_table(cells: &[&IoCell], style: Style) -> Table {
    let mut table = table(style);
    let columns = concurrencies(cells);
    let head = ["block", "mode", "files", "as"].map(str::to_owned);
    table.set_header(head.into_iter().chain(columns.iter().map(u32::to_string)));
    for row in rows(cells) {
        let figures = columns.iter().map(|&concurrency| {
            let key = IoKey { concurrency, ..row.clone() };
            let cell = cells.iter().find(|cell| cell.key == key);
            match cell.and_then(|cell| spread(cell, |round| Some(round.iops)).zip(cell.mb_per_s_median)) {
                Some((iops, mb_per_s)) => format!("{}\n{} MB/s", with_spread(iops), format::count(mb_per_s)),
                None => "-".into(),
            }
        });
        table.add_row(labels(&row).into_iter().chain(figures));
    }
    right_aligned(table, 4)
}

/// `12,345 -3+4%`.
fn with_spread(spread: Spread) -> String {
    if spread.count < 2 || spread.median == 0.0 {
        return format::count(spread.median);
    }
    let off = |value: f64| 100.0 * (value / spread.median - 1.0);
    format!("{} -{:.0}+{:.0}%", format::count(spread.median), -off(spread.min), off(spread.max))
}

fn latency_table(cells: &[&IoCell], style: Style) -> Table {
    let mut table = table(style);
    table.set_header([
        "block",
        "mode",
        "files",
        "as",
        "conc.",
        "p50",
        "p95",
        "p99",
        "p99.9",
        "max",
        "CPU us",
        "switches",
        "disk IOPS",
        "flushes/s",
        "busy",
    ]);
    let columns = concurrencies(cells);
    let near = columns.iter().copied().min_by_key(|concurrency| concurrency.abs_diff(DETAIL_CONCURRENCY));
    let mut detail: Vec<u32> = near.into_iter().chain(columns.last().copied()).collect();
    detail.dedup();
    for row in rows(cells) {
        for &concurrency in &detail {
            let key = IoKey { concurrency, ..row.clone() };
            let Some(cell) = cells.iter().find(|cell| cell.key == key && !cell.rounds.is_empty()) else {
                continue;
            };
            let latency = |figure: fn(&IoLatency) -> f64| format::maybe(latency(cell, figure));
            let disk = |figure: fn(&IoRound, &BlockLayer) -> f64| {
                spread(cell, |round| Some(figure(round, round.block_layer.as_ref()?)))
                    .map(|spread| spread.median)
            };
            let per_io =
                |round: &IoRound| round.context_switches as f64 / (round.reads + round.writes).max(1) as f64;
            let figures = [
                concurrency.to_string(),
                latency(|latency| latency.p50_us),
                latency(|latency| latency.p95_us),
                latency(|latency| latency.p99_us),
                latency(|latency| latency.p99_9_us),
                format::maybe(spread(cell, longest).map(|spread| spread.max)),
                format::maybe(cell.cpu_us_per_io_median),
                format::maybe(spread(cell, |round| Some(per_io(round))).map(|spread| spread.median)),
                format::maybe(disk(|round, disk| (disk.reads + disk.writes) as f64 / round.elapsed_s)),
                format::maybe(disk(|round, disk| disk.flushes as f64 / round.elapsed_s)),
                format::percent(disk(|_, disk| disk.busy_pct)),
            ];
            table.add_row(labels(&row).into_iter().chain(figures).map(Field::new));
        }
    }
    right_aligned(table, 4)
}

/// Of reads and writes the slower, median of the rounds.
fn latency(cell: &IoCell, figure: fn(&IoLatency) -> f64) -> Option<f64> {
    let slower = |round: &IoRound| {
        let both = [round.read_latency, round.write_latency];
        both.iter().flatten().map(figure).reduce(f64::max)
    };
    spread(cell, slower).map(|spread| spread.median)
}

fn longest(round: &IoRound) -> Option<f64> {
    let both = [round.read_latency, round.write_latency];
    both.iter().flatten().map(|latency| latency.max_us).reduce(f64::max)
}
