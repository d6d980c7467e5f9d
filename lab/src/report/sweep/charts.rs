//! The charts of a sweep, as plotly's specifications.

use serde_json::{Value, json};

use super::analysis::{Curve, Panel, bound, ratio, throughput};
use super::lines::{line, of_figure, spec, switches, symbol, wakes};
use super::{bench, changes, kinds, server};
use crate::report::chart::Chart;
use crate::results::published::{Flifo2009, PublishedCurve};
use crate::results::{Cell, Round};
use crate::support::statistics::Spread;

/// All charts of a panel, the headline first.
pub(super) fn charts(panel: &Panel<'_>, published: &Flifo2009) -> Vec<Chart> {
    if panel.is_bench() {
        return bench::charts::charts(panel);
    }
    let mut charts = vec![headline(panel)];
    if panel.is_reading() {
        charts.extend(shape(panel, published));
    }
    charts.extend(latencies(panel));
    if panel.has_transactions() {
        let note = "Transactions of several statements per second; median of the rounds, bars from the lowest to the highest.";
        charts.extend(of_figure(panel, "Transactions", note, "transactions per second", |r| {
            Some(r.transactions_per_s)
        }));
    }
    if kinds::are_in(panel) {
        charts.extend(kinds::charts(panel));
    }
    if panel.is_server() {
        charts.extend(server::charts(panel));
    }
    if changes::are_in(panel) {
        charts.extend(changes::charts(panel));
    }
    charts.push(switches(panel));
    charts.extend(wakes(panel));
    charts.extend(gain(panel));
    charts.extend(panel.curves.iter().map(|curve| processors(panel, curve)));
    charts
}

fn headline(panel: &Panel<'_>) -> Chart {
    let trace = |curve| line(curve, "statements/s", Cell::throughput);
    Chart {
        title: "Throughput".into(),
        note: "Statements per second; median of the rounds, bars from the lowest to the highest round."
            .into(),
        wide: true,
        switchable: true,
        spec: spec(panel, panel.curves.iter().map(trace).collect(), "statements per second", true),
    }
}

/// The measured and the published curve, each against its own peak.
fn shape(panel: &Panel<'_>, published: &Flifo2009) -> Option<Chart> {
    let pairs = [("fifo", &published.original), ("flifo", &published.flifo)];
    let mut traces = Vec::new();
    for (policy, curve) in pairs {
        let Some(own_curve) = panel.best(policy) else { continue };
        let peak = own_curve.peak().throughput()?.median;
        let scaled = |cell: &Cell| {
            cell.throughput().map(|t| Spread {
                median: t.median / peak,
                min: t.min / peak,
                max: t.max / peak,
                ..t
            })
        };
        traces.push(line(own_curve, "of its peak", scaled));
        traces.push(published_line(policy, curve, published));
    }
    (!traces.is_empty()).then(|| Chart {
        title: format!("Beside the published curve ({})", published.year),
        note: format!(
            "Each line as a share of its own peak. Dashed and pale: {}, {}, {}. Numbers of threads as assumed: the source prints eleven values and no axis.",
            published.source, published.year, published.server
        ),
        wide: true,
        switchable: false,
        spec: spec(panel, traces, "share of its own peak", true),
    })
}

fn published_line(policy: &str, curve: &PublishedCurve, published: &Flifo2009) -> Value {
    let peak = curve.peak_per_s();
    let y: Vec<f64> = curve.transactions_per_s.iter().map(|per_s| per_s / peak).collect();
    let name = format!("{}: {}", published.year, curve.label);
    json!({
        "type": "scatter", "mode": "lines+markers", "name": name, "x": published.threads, "y": y, "opacity": 0.7,
        "customdata": curve.transactions_per_s,
        "hovertemplate": "%{y:.2f} of its peak (%{customdata} transactions/s)",
        "line": {"color": format!("${policy}$"), "width": 1.5, "dash": "dash"},
        "marker": {"color": format!("${policy}$"), "size": 5, "symbol": format!("{}-open", symbol(policy))},
    })
}

fn latencies(panel: &Panel<'_>) -> Vec<Chart> {
    type Figure = fn(&Round) -> Option<f64>;
    let percentiles: [(&str, &str, Figure); 4] = [
        ("Latency, median", "Half took less.", |r| r.p50_ms),
        ("Latency, 95%", "One in twenty took longer.", |r| r.p95_ms),
        ("Latency, 99%", "One in a hundred took longer.", |r| r.p99_ms),
        ("Latency, longest", "The longest of each round: shows starvation.", |r| r.max_ms),
    ];
    let chart = |(title, note, figure): (&str, &str, Figure)| {
        let traces = panel.curves.iter().map(|curve| line(curve, "ms", |cell| cell.spread(figure))).collect();
        let mut spec = spec(panel, traces, "ms", false);
        spec["layout"]["yaxis"]["type"] = "log".into();
        let note = format!("Of a {}, queueing included. {note}", panel.timed());
        Chart { title: title.into(), note, wide: false, switchable: false, spec }
    };
    percentiles.into_iter().map(chart).collect()
}

/// What FLIFO gained over FIFO, under the ceiling that W and S allow.
fn gain(panel: &Panel<'_>) -> Option<Chart> {
    let flifo = panel.best("flifo")?;
    let fifo = panel.reference(flifo, "fifo")?;
    let ratios = |cell: &Cell| ratio(cell, fifo.at(cell.key.threads)?, throughput);
    let mut measured = line(flifo, "times fifo", ratios);
    measured["name"] = "flifo / fifo, measured".into();
    let mut ceiling = line(fifo, "at most", bound);
    ceiling["name"] = "1 + W/S of fifo".into();
    ceiling["line"]["dash"] = "dot".into();
    ceiling["error_y"]["visible"] = false.into();
    // A server does not report W and S.
    let mut traces = vec![measured, ceiling];
    traces.retain(|trace| trace["y"].as_array().is_some_and(|points| !points.is_empty()));
    let mut spec = spec(panel, traces, "ratio", false);
    spec["layout"]["shapes"] = json!([{
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1,
        "line": {"color": "$muted$", "width": 1},
    }]);
    Some(Chart {
        title: "Gain over fifo, and its ceiling".into(),
        note: "Round by round. A hand-off without a wait for the wake-up can gain at most about 1 + W/S."
            .into(),
        wide: false,
        switchable: false,
        spec,
    })
}

fn processors(panel: &Panel<'_>, curve: &Curve<'_>) -> Chart {
    type Figure = fn(&Round) -> Option<f64>;
    let parts: [(&str, Figure); 5] = [
        ("user", |r| r.host.cpu_user),
        ("system", |r| r.host.cpu_system),
        ("iowait", |r| r.host.cpu_iowait),
        ("steal", |r| r.host.cpu_steal),
        ("idle", |r| r.host.cpu_idle),
    ];
    let x: Vec<String> = curve.cells.iter().map(|cell| cell.key.threads.to_string()).collect();
    let medians = |figure: Figure| -> Vec<Option<f64>> {
        curve.cells.iter().map(|cell| cell.spread(figure).map(|spread| spread.median)).collect()
    };
    let mut traces: Vec<Value> = parts
        .into_iter()
        .map(|(name, figure)| {
            json!({
                "type": "bar", "name": name, "x": x, "y": medians(figure),
                "hovertemplate": "%{y:.0f}%", "marker": {"color": format!("${name}$")},
            })
        })
        .collect();
    let sides: [(&str, &str, Figure); 2] = [
        ("server threads", "solid", |r| r.host.cpu_server),
        ("client threads", "dot", |r| r.host.cpu_client),
    ];
    traces.extend(sides.into_iter().map(|(name, dash, figure)| {
        json!({
            "type": "scatter", "mode": "lines+markers", "name": name, "x": x, "y": medians(figure),
            "hovertemplate": "%{y:.0f}%", "line": {"color": "$ink$", "width": 1.5, "dash": dash},
            "marker": {"color": "$ink$", "size": 4},
        })
    }));
    let mut spec = spec(panel, traces, "% of all CPUs", true);
    spec["layout"]["barmode"] = "stack".into();
    spec["layout"]["bargap"] = 0.25.into();
    spec["layout"]["yaxis"]["range"] = json!([0, 100]);
    spec["layout"]["xaxis"]["type"] = "category".into();
    for key in ["tickmode", "tickvals", "ticktext", "range"] {
        if let Some(axis) = spec["layout"]["xaxis"].as_object_mut() {
            axis.remove(key);
        }
    }
    Chart {
        title: format!("Processors, {}", curve.label),
        note: "Medians. Bars: the whole machine. Lines: of it the server's threads and the client's.".into(),
        wide: false,
        switchable: false,
        spec,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sweep::{analysis, fixture};

    #[test]
    fn every_chart_has_points_and_every_policy_one_colour() {
        let results = fixture::results();
        let panels = analysis::panels(&results);
        let charts = charts(&panels[0], &Flifo2009::load());
        assert_eq!(charts.len(), 1 + 1 + 4 + 1 + 1 + 1 + 3);
        for chart in &charts {
            for trace in chart.spec["data"].as_array().unwrap() {
                assert!(!trace["y"].as_array().unwrap().is_empty(), "{}: {trace}", chart.title);
            }
        }
        let headline = &charts[0].spec["data"];
        assert_eq!(headline[2]["line"]["color"], "$flifo$");
        assert_eq!(headline[2]["x"].as_array().unwrap().len(), 11);
        let cell = panels[0].curves[2].last();
        assert_eq!(headline[2]["y"][10].as_f64(), cell.summary.throughput_median_per_s);
        assert_eq!(charts[1].spec["data"][1]["y"].as_array().unwrap()[10].as_f64(), Some(255.04 / 658.71));
    }

    #[test]
    fn a_server_s_charts_have_points_too() {
        let results = fixture::server();
        for panel in analysis::panels(&results) {
            for chart in charts(&panel, &Flifo2009::load()) {
                for trace in chart.spec["data"].as_array().unwrap() {
                    assert!(!trace["y"].as_array().unwrap().is_empty(), "{}: {trace}", chart.title);
                }
            }
        }
    }

    #[test]
    fn what_was_not_measured_is_not_drawn() {
        let mut results = fixture::results();
        results.cells.retain(|cell| cell.key.policy == "none");
        let panels = analysis::panels(&results);
        let titles: Vec<String> =
            charts(&panels[0], &Flifo2009::load()).into_iter().map(|chart| chart.title).collect();
        assert!(
            !titles.iter().any(|title| title.contains("published") || title.contains("Gain")),
            "{titles:?}"
        );
    }
}
