//! The lines of `flifo stat --live`, one per interval, as vmstat prints them.

use std::fmt::Write as _;

use crate::results::Point;
use crate::results::live::LiveLine;
use crate::support::format;

/// Reasons for waiting that a line names.
const REASONS_MAX: usize = 3;

type Figure = fn(&LiveLine) -> Option<f64>;

/// A column: its group, its heading, its width, and its figure.
const COLUMNS: [(&str, &str, usize, Figure); 13] = [
    ("", "commit/s", 9, |line| per_s(line, line.point.trx_rw_commits)),
    ("redo log", "age MiB", 8, |line| mib(line.point.log_lsn_checkpoint_age)),
    ("redo log", "age %", 6, age_percent),
    ("redo log", "MiB/s", 7, |line| per_s(line, line.point.os_log_bytes_written).map(|bytes| bytes / MIB)),
    ("pages flushed/s", "adapt", 7, |line| per_s(line, line.point.buffer_flush_adaptive_total_pages)),
    ("pages flushed/s", "sync", 7, |line| per_s(line, line.point.buffer_flush_sync_total_pages)),
    ("pages flushed/s", "free", 7, |line| per_s(line, line.point.buffer_lru_batch_flush_total_pages)),
    ("pages flushed/s", "idle", 7, |line| per_s(line, line.point.buffer_flush_background_total_pages)),
    ("waits/s", "sync", 7, |line| per_s(line, line.point.buffer_flush_sync_waits)),
    ("waits/s", "free", 7, |line| per_s(line, line.point.buffer_pool_wait_free)),
    ("waits/s", "log", 7, |line| per_s(line, line.point.log_waits)),
    ("", "dirty", 8, |line| line.point.buffer_pool_pages_dirty.map(|n| n as f64)),
    ("", "history", 9, |line| line.point.trx_rseg_history_len.map(|n| n as f64)),
];

const MIB: f64 = (1 << 20) as f64;

fn per_s(line: &LiveLine, count: Option<u64>) -> Option<f64> {
    count.filter(|_| line.elapsed_s > 0.0).map(|count| count as f64 / line.elapsed_s)
}

fn mib(bytes: Option<u64>) -> Option<f64> {
    bytes.map(|bytes| bytes as f64 / MIB)
}

fn age_percent(line: &LiveLine) -> Option<f64> {
    let capacity = line.redo_capacity_bytes.filter(|bytes| *bytes > 0)?;
    line.point.log_lsn_checkpoint_age.map(|age| 100.0 * age as f64 / capacity as f64)
}

/// The two lines above the figures.
pub(crate) fn heading() -> String {
    let mut groups = String::new();
    for group in COLUMNS.chunk_by(|one, next| one.0 == next.0 && !one.0.is_empty()) {
        let width: usize = group.iter().map(|(_, _, width, _)| width).sum();
        let (name, dashes) = (group[0].0, width - 1);
        let _ = match name {
            "" => write!(groups, "{name:>width$}"),
            name => write!(groups, " {name:-^dashes$}"),
        };
    }
    let names: String = COLUMNS.iter().map(|(_, name, width, _)| format!("{name:>width$}")).collect();
    format!("{}\n{names}  threads waiting (mean)\n", groups.trim_end())
}

/// The figures of an interval. Behind them, for the reasons for which threads waited longest, how many did on average.
pub(crate) fn line(line: &LiveLine) -> String {
    let mut text = String::new();
    for (.., width, figure) in COLUMNS {
        let figure =
            figure(line).map_or_else(|| "-".to_owned(), |figure| format::whole(figure.round() as u64));
        let _ = write!(text, "{figure:>width$}");
    }
    for (index, (reason, threads)) in longest(&line.point, line.elapsed_s).into_iter().enumerate() {
        let _ = write!(text, "{}{reason} {threads:.2}", if index == 0 { "  " } else { ", " });
    }
    text.push('\n');
    text
}

/// The reasons for which threads waited longest, with how many waited on average.
fn longest(point: &Point, elapsed_s: f64) -> Vec<(&str, f64)> {
    let threads = |ms: f64| ms / 1e3 / elapsed_s.max(1e-9);
    let mut reasons: Vec<(&str, f64)> =
        point.wait_ms.iter().map(|(reason, ms)| (reason.as_str(), threads(*ms))).collect();
    reasons.retain(|(_, threads)| *threads >= 0.005);
    reasons.sort_by(|a, b| b.1.total_cmp(&a.1));
    reasons.truncate(REASONS_MAX);
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::golden;
    use crate::report::sweep::fixture;

    #[test]
    fn lines_stand_below_their_headings() {
        let point = fixture::series(812, 3000).points[9].clone();
        let capacity = Some(128 << 20);
        let busy = LiveLine { elapsed_s: 1.0, redo_capacity_bytes: capacity, point };
        let idle = LiveLine { elapsed_s: 1.0, ..LiveLine::default() };
        golden("stat-live", &format!("{}{}{}", heading(), line(&busy), line(&idle)));
    }
}
