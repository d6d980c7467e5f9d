//! Time series as a stack of small graphs, one above the other over the same time, as the published studies draw them.
//!
//! Stacks that are to be compared are made by one call: a graph has one scale in all of them, and a reason for waiting has
//! one colour.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::results::{Point, Series};

/// Reasons for waiting that have a line of their own.
const REASONS_MAX: usize = 6;
const COLOURS: [&str; REASONS_MAX] = ["fourth", "first", "third", "second", "fifth", "sixth"];
const DASHES: [&str; REASONS_MAX] = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];

/// One graph of a stack.
pub(crate) struct Graph {
    pub(crate) title: &'static str,
    pub(crate) spec: Value,
}

/// A stack of graphs with its title.
pub(crate) type Stack = (String, Vec<Graph>);

/// A line of a graph over a series' intervals.
struct Line {
    name: String,
    y: Vec<Option<f64>>,
}

/// The lines that a graph has of a series.
type Lines = Box<dyn Fn(&Series) -> Vec<Line>>;

/// A stack of graphs for each of the series.
pub(crate) fn stacks(all: &[&Series]) -> Vec<Vec<Graph>> {
    let reasons = longest_waits(all);
    let graphs: [(&'static str, Lines); 5] = [
        ("Transactions per second", Box::new(transactions)),
        ("Checkpoint age, MiB", Box::new(ages)),
        ("Pages flushed per second", Box::new(flushed)),
        ("Waits per second", Box::new(waits)),
        ("Time waited, seconds of all threads per second", Box::new(move |series| waited(series, &reasons))),
    ];
    let mut stacks: Vec<Vec<Graph>> = all.iter().map(|_| Vec::new()).collect();
    for (title, lines) in graphs {
        let lines: Vec<Vec<Line>> = all.iter().map(|series| lines(series)).collect();
        let points = lines.iter().flatten().flat_map(|line| &line.y).flatten();
        let highest = points.copied().fold(0.0, f64::max);
        // Nothing was counted, or nothing happened.
        if highest <= 0.0 {
            continue;
        }
        for ((stack, series), lines) in stacks.iter_mut().zip(all).zip(lines) {
            stack.push(Graph { title, spec: spec(series, lines, highest) });
        }
    }
    // The time is written below the last one.
    for last in stacks.iter_mut().filter_map(|stack| stack.last_mut()) {
        last.spec["layout"]["xaxis"]["title"]["text"] = "seconds".into();
    }
    stacks
}

/// The reasons for which threads waited longest, over all series.
fn longest_waits(all: &[&Series]) -> Vec<String> {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for (reason, ms) in all.iter().flat_map(|series| &series.points).flat_map(|point| &point.wait_ms) {
        *sums.entry(reason).or_default() += ms;
    }
    let mut reasons: Vec<(&str, f64)> = sums.into_iter().collect();
    reasons.sort_by(|a, b| b.1.total_cmp(&a.1));
    reasons.into_iter().take(REASONS_MAX).map(|(reason, _)| reason.to_owned()).collect()
}

fn transactions(series: &Series) -> Vec<Line> {
    vec![Line { name: "transactions".into(), y: series.transactions_per_s() }]
}

fn ages(series: &Series) -> Vec<Line> {
    let mib = |figure: fn(&Point) -> Option<u64>| {
        series
            .points
            .iter()
            .map(|point| figure(point).map(|bytes| bytes as f64 / f64::from(1 << 20)))
            .collect()
    };
    named([
        ("age", mib(|point| point.log_lsn_checkpoint_age)),
        ("held at", mib(|point| point.log_max_modified_age_async)),
    ])
}

fn flushed(series: &Series) -> Vec<Line> {
    let kinds = named([
        ("adaptive", series.per_s(|point| point.buffer_flush_adaptive_total_pages)),
        ("sync flush", series.per_s(|point| point.buffer_flush_sync_total_pages)),
        ("for free frames", series.per_s(|point| point.buffer_lru_batch_flush_total_pages)),
        ("idle", series.per_s(|point| point.buffer_flush_background_total_pages)),
    ]);
    // A server that does not tell kinds apart, or not all.
    match series.sum(|point| point.buffer_flush_adaptive_total_pages) {
        Some(_) => kinds,
        None => {
            let mut lines = named([("all", series.per_s(|point| point.buffer_pages_written))]);
            lines.extend(kinds);
            lines
        }
    }
}

fn waits(series: &Series) -> Vec<Line> {
    named([
        ("sync flush", series.per_s(|point| point.buffer_flush_sync_waits)),
        ("free frame", series.per_s(|point| point.buffer_pool_wait_free)),
        ("log buffer", series.per_s(|point| point.log_waits)),
    ])
}

fn waited(series: &Series, reasons: &[String]) -> Vec<Line> {
    let line = |reason: &String| {
        let ms = |point: &Point| Some(point.wait_ms.get(reason).copied().unwrap_or(0.0));
        let y = series.points.iter().map(|point| ms(point).map(|ms| ms / 1e3 / series.interval_s)).collect();
        Line { name: reason.replace('_', " "), y }
    };
    reasons.iter().map(line).collect()
}

/// The lines that were measured.
fn named<const N: usize>(lines: [(&str, Vec<Option<f64>>); N]) -> Vec<Line> {
    let measured = lines.into_iter().filter(|(_, y)| y.iter().any(Option::is_some));
    measured.map(|(name, y)| Line { name: name.to_owned(), y }).collect()
}

fn spec(series: &Series, lines: Vec<Line>, highest: f64) -> Value {
    let x: Vec<f64> = series.points.iter().map(|point| point.at_s).collect();
    let has_legend = lines.len() > 1;
    let data: Vec<Value> = lines
        .into_iter()
        .enumerate()
        .map(|(index, line)| {
            let style = json!({
                "color": format!("${}$", COLOURS[index % COLOURS.len()]), "width": 2, "dash": DASHES[index % DASHES.len()],
            });
            let y: Vec<Option<f64>> = line.y.into_iter().map(|y| y.map(rounded)).collect();
            json!({
                "type": "scatter", "mode": if x.len() > 1 { "lines" } else { "markers" }, "name": line.name,
                "x": x, "y": y, "line": style, "marker": {"color": style["color"]},
            })
        })
        .collect();
    json!({
        "data": data,
        "layout": {
            "showlegend": has_legend,
            "xaxis": {"range": [0.0, x.last().copied().unwrap_or(1.0)], "title": {"text": ""}},
            // Equal margins, so that the times of all graphs stand one above the other.
            "yaxis": {
                "range": [0.0, rounded(highest * 1.08)], "automargin": false, "tickformat": "~s", "nticks": 5,
                "title": {"text": ""},
            },
        },
    })
}

/// To four digits: a page has many points.
fn rounded(figure: f64) -> f64 {
    if figure == 0.0 || !figure.is_finite() {
        return 0.0;
    }
    let factor = 10_f64.powi(3 - figure.abs().log10().floor() as i32);
    (figure * factor).round() / factor
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sweep::fixture;

    fn titles(stack: &[Graph]) -> Vec<&'static str> {
        stack.iter().map(|graph| graph.title).collect()
    }

    #[test]
    fn stacks_to_be_compared_have_one_scale_and_the_same_graphs() {
        let calm = fixture::series(1000, 0);
        let stalls = fixture::series(500, 3000);
        let stacks = stacks(&[&calm, &stalls]);
        assert_eq!(titles(&stacks[0]).len(), 5);
        assert_eq!(titles(&stacks[0]), titles(&stacks[1]));
        for (one, other) in stacks[0].iter().zip(&stacks[1]) {
            assert_eq!(one.spec["layout"]["yaxis"], other.spec["layout"]["yaxis"], "{}", one.title);
        }
        let names = |graph: &Graph| -> Vec<String> {
            graph.spec["data"].as_array().unwrap().iter().map(|line| line["name"].to_string()).collect()
        };
        assert_eq!(names(&stacks[0][4]), names(&stacks[1][4]));
        assert_eq!(stacks[1][3].spec["data"][0]["y"][0], 3000.0);
        let below: Vec<_> =
            stacks[0].iter().map(|graph| &graph.spec["layout"]["xaxis"]["title"]["text"]).collect();
        assert_eq!(below, ["", "", "", "", "seconds"]);
    }

    #[test]
    fn what_was_not_counted_has_no_graph_and_no_line() {
        let mut series = fixture::series(1000, 10);
        for point in &mut series.points {
            *point = Point {
                at_s: point.at_s,
                transactions: Some(5),
                buffer_pages_written: Some(7),
                ..Point::default()
            };
        }
        let stacks = stacks(&[&series]);
        assert_eq!(titles(&stacks[0]), ["Transactions per second", "Pages flushed per second"]);
        assert_eq!(stacks[0][1].spec["data"].as_array().unwrap().len(), 1);
        assert_eq!(stacks[0][1].spec["data"][0]["name"], "all");
    }

    #[test]
    fn figures_keep_four_digits() {
        assert_eq!([123_456.0, 0.001_234_56, 0.0, 1.0].map(rounded), [123_500.0, 0.001_235, 0.0, 1.0]);
    }
}
