//! The page's charts of a panel: a line per number of files, mode and block size.

use serde_json::{Value, json};

use super::view::{Curve, Panel, count_of_files, is_raw, requests_per_io, size, spread};
use crate::report::chart::{Chart, LineStyle, over, trace};
use crate::results::io::{IoCell, IoKey, IoRound};
use crate::support::statistics::Spread;

const COLOURS: [&str; 6] = ["$first$", "$second$", "$third$", "$fourth$", "$fifth$", "$sixth$"];
const MARKS: [&str; 4] = ["circle", "square-open", "triangle-up", "diamond-open"];
/// Maximum number of lines with the legend above the chart; with more, it is next to the chart.
const LEGEND_ABOVE_MAX: usize = 4;

/// All charts of a panel, that of I/Os per second first.
pub(super) fn charts(panel: &Panel<'_>) -> Vec<Chart> {
    type Figure = fn(&IoRound) -> Option<f64>;
    let styles = LineStyles::of(panel);
    let mut charts = vec![iops(panel, &styles)];
    let small: [(&str, &str, &str, &str, bool, Figure); 4] = [
        ("MB/s", "10^6 bytes per second, reads and writes.", "MB per second", "MB/s", true, |r| {
            Some(r.mb_per_s)
        }),
        (
            "Latency, 99%",
            "One I/O in a hundred took longer; of reads and writes the slower. A write with its sync.",
            "µs",
            "µs",
            false,
            IoRound::p99_us,
        ),
        ("CPU time per I/O", "User and system time of the workers.", "µs per I/O", "µs", true, |r| {
            Some(r.cpu_us_per_io)
        }),
        (
            "At the disk for each I/O",
            "Requests that reached the disk, flushes too. Above 1: journal, metadata, flushes. Below: merged.",
            "requests per I/O",
            "requests",
            true,
            requests_per_io,
        ),
    ];
    for (title, note, y_title, unit, from_zero, figure) in small {
        let traces = styles.traces(panel, unit, |cell| spread(cell, figure));
        if traces.is_empty() {
            continue;
        }
        let mut spec = over(&panel.concurrency, panel.counted(), traces, y_title, from_zero);
        spec["layout"]["showlegend"] = false.into();
        if !from_zero {
            spec["layout"]["yaxis"]["type"] = "log".into();
        }
        charts.push(Chart {
            title: title.into(),
            note: format!("{note} Lines as above."),
            wide: false,
            switchable: false,
            spec,
        });
    }
    charts
}

fn iops(panel: &Panel<'_>, styles: &LineStyles) -> Chart {
    let traces = styles.traces(panel, "IOPS", super::view::iops);
    let many = traces.len() > LEGEND_ABOVE_MAX;
    let mut spec = over(&panel.concurrency, panel.counted(), traces, "I/Os per second", true);
    if many {
        spec["layout"]["legend"] = json!({"orientation": "v", "x": 1.02, "y": 1, "yanchor": "top"});
    }
    Chart {
        title: format!("IOPS, {}", panel.heading()),
        note: format!(
            "I/Os per second as the application sees them; median of the rounds, bars from the lowest to the highest. {}",
            styles.explained()
        ),
        wide: true,
        switchable: true,
        spec,
    }
}

/// The style of a line: the colour shows the number of files, the stroke the mode, the mark the block size.
struct LineStyles {
    files: Vec<u32>,
    modes: Vec<String>,
    blocks: Vec<u32>,
    has_raw: bool,
}

impl LineStyles {
    fn of(panel: &Panel<'_>) -> LineStyles {
        let mut files = panel.distinct(|key| if is_raw(key) { 0 } else { key.files });
        files.retain(|files| *files > 0);
        LineStyles {
            files,
            modes: panel.distinct(|key| key.mode.clone()),
            blocks: panel.distinct(|key| key.block_bytes),
            has_raw: panel.curves.iter().any(|curve| is_raw(curve.key())),
        }
    }

    fn traces(
        &self,
        panel: &Panel<'_>,
        unit: &str,
        figure: impl Fn(&IoCell) -> Option<Spread>,
    ) -> Vec<Value> {
        let points = |curve: &Curve<'_>| -> Vec<(u32, Spread)> {
            curve.cells.iter().filter_map(|cell| Some((cell.key.concurrency, figure(cell)?))).collect()
        };
        let traces = panel.curves.iter().map(|curve| (curve, points(curve)));
        let drawn = traces.filter(|(_, points)| !points.is_empty());
        drawn.map(|(curve, points)| trace(&curve.label(), &points, unit, &self.style(curve.key()))).collect()
    }

    fn style(&self, key: &IoKey) -> LineStyle {
        let rank = |found: Option<usize>| found.unwrap_or(0);
        let files = rank(self.files.iter().position(|files| *files == key.files));
        let block = rank(self.blocks.iter().position(|block| *block == key.block_bytes));
        LineStyle {
            colour: if is_raw(key) { "$muted$" } else { COLOURS[files % COLOURS.len()] }.into(),
            dash: dash(&key.mode),
            width: 2.0,
            symbol: MARKS[block % MARKS.len()].into(),
        }
    }

    fn explained(&self) -> String {
        let mut parts = Vec::new();
        if self.files.len() + usize::from(self.has_raw) > 1 {
            let raw = if self.has_raw { ", grey: the raw device" } else { "" };
            let files: Vec<String> = self.files.iter().map(u32::to_string).collect();
            let last = self.files.last().copied().unwrap_or(1);
            parts.push(format!(
                "Colour: {}{raw}.",
                files.join(", ") + count_of_files(last).trim_start_matches(char::is_numeric)
            ));
        }
        if self.modes.len() > 1 {
            let modes: Vec<String> =
                self.modes.iter().map(|mode| format!("{} {mode}", stroke(dash(mode)))).collect();
            parts.push(format!("Stroke: {}.", modes.join(", ")));
        }
        if self.blocks.len() > 1 {
            let marks = self.blocks.iter().zip(MARKS.iter().cycle());
            let marks: Vec<String> = marks
                .map(|(block, mark)| format!("{} {}", mark.replace("-open", ""), size(*block)))
                .collect();
            parts.push(format!("Mark: {}.", marks.join(", ")));
        }
        parts.join(" ")
    }
}

fn dash(mode: &str) -> &'static str {
    match mode {
        "direct" => "solid",
        "fsync" => "dot",
        "fdatasync" => "dashdot",
        "dsync" => "dash",
        _ => "longdash",
    }
}

fn stroke(dash: &str) -> &str {
    match dash {
        "dot" => "dotted",
        "dashdot" => "dash-dotted",
        "dash" => "dashed",
        "longdash" => "long dashes",
        plain => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::golden;
    use crate::report::iobench::fixture;
    use crate::report::iobench::view::panels;

    #[test]
    fn every_chart_has_every_line_and_every_line_points() {
        let results = fixture::full();
        for panel in panels(&results) {
            let charts = charts(&panel);
            assert_eq!(charts.len(), 5, "{}", panel.workload);
            for chart in &charts {
                let lines = chart.spec["data"].as_array().unwrap();
                assert_eq!(lines.len(), panel.curves.len(), "{}: {}", panel.workload, chart.title);
                for line in lines {
                    assert!(!line["y"].as_array().unwrap().is_empty(), "{}: {line}", chart.title);
                }
            }
        }
    }

    #[test]
    fn no_two_lines_look_alike() {
        let results = fixture::study("ext4");
        for panel in panels(&results) {
            let styles = LineStyles::of(&panel);
            let mut seen: Vec<(String, &str, String)> = Vec::new();
            for curve in &panel.curves {
                let style = styles.style(curve.key());
                let style = (style.colour, style.dash, style.symbol);
                assert!(!seen.contains(&style), "{}: {style:?}", curve.label());
                seen.push(style);
            }
        }
    }

    #[test]
    fn what_was_not_measured_is_not_drawn() {
        let mut results = fixture::study("ext4");
        for round in results.cells.iter_mut().flat_map(|cell| &mut cell.rounds) {
            round.block_layer = None;
        }
        let panels = panels(&results);
        assert!(charts(&panels[0]).iter().all(|chart| !chart.title.starts_with("At the disk")));
    }

    #[test]
    fn the_note_says_what_the_signs_mean() {
        let results = fixture::study("ext4");
        let panels = panels(&results);
        let notes: Vec<String> = panels.iter().map(|panel| charts(panel).swap_remove(0).note).collect();
        golden("iobench-chart-notes", &notes.join("\n"));
    }
}
