//! The page's charts of a load.

use serde_json::json;

use super::{against_best_peer, fewest_share, longest_us, policies};
use crate::report::chart::Chart;
use crate::report::sweep::analysis::{Curve, Panel};
use crate::report::sweep::lines::{line, spec, switches, wakes};
use crate::results::{Cell, Round};

/// All charts of a panel, the headline first.
pub(in crate::report::sweep) fn charts(panel: &Panel<'_>) -> Vec<Chart> {
    let mut charts = vec![headline(panel)];
    charts.extend(against(panel));
    charts.push(waits(
        panel,
        "Longest wait",
        "From requesting a slot to running; threads that still wait at the end count.",
        longest_us,
    ));
    charts.push(waits(
        panel,
        "Wait, 99%",
        "From requesting a slot to running; one in a hundred took longer.",
        |r| r.entry.enter_p99_us,
    ));
    charts.push(fewest(panel));
    charts.push(switches(panel));
    charts.extend(wakes(panel));
    charts
}

fn headline(panel: &Panel<'_>) -> Chart {
    let traces = panel.curves.iter().map(|curve| line(curve, "statements/s", Cell::throughput)).collect();
    let mut spec = spec(panel, traces, "statements per second", false);
    spec["layout"]["yaxis"]["type"] = "log".into();
    Chart {
        title: "Throughput".into(),
        note: "Statements per second, both axes logarithmic; median of the rounds, bars from the lowest to the highest round. Solid: policies. Dotted: what a user would pick instead.".into(),
        wide: true,
        switchable: false,
        spec,
    }
}

fn against(panel: &Panel<'_>) -> Option<Chart> {
    let trace = |curve: &Curve<'_>| {
        line(curve, "times the best peer", |cell| against_best_peer(panel, curve, cell.key.threads))
    };
    let traces: Vec<_> = policies(panel).map(trace).collect();
    let is_empty = traces.iter().all(|trace| trace["y"].as_array().is_none_or(Vec::is_empty));
    let mut spec = spec(panel, traces, "ratio", false);
    spec["layout"]["shapes"] = json!([{
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1,
        "line": {"color": "$muted$", "width": 1},
    }]);
    (!is_empty).then(|| Chart {
        title: "Against the best peer".into(),
        note: "At each number of threads the peer that does most there, round by round.".into(),
        wide: false,
        switchable: false,
        spec,
    })
}

fn waits(panel: &Panel<'_>, title: &str, note: &str, figure: fn(&Round) -> Option<f64>) -> Chart {
    let ms = move |cell: &Cell| cell.spread(|round| figure(round).map(|us| us / 1e3));
    let traces = panel.curves.iter().map(|curve| line(curve, "ms", ms)).collect();
    let mut spec = spec(panel, traces, "ms", false);
    spec["layout"]["yaxis"]["type"] = "log".into();
    Chart { title: title.into(), note: note.into(), wide: false, switchable: false, spec }
}

fn fewest(panel: &Panel<'_>) -> Chart {
    let traces = panel
        .curves
        .iter()
        .map(|curve| line(curve, "of the mean", |cell| cell.spread(fewest_share)))
        .collect();
    Chart {
        title: "The thread that gets fewest".into(),
        note: "Its statements as a share of the mean: 1 is even, 0 is a thread that got nothing.".into(),
        wide: false,
        switchable: false,
        spec: spec(panel, traces, "share of the mean", true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sweep::{analysis, fixture};

    #[test]
    fn every_chart_has_points_and_logarithmic_axes_where_said() {
        let results = fixture::bench();
        let panels = analysis::panels(&results);
        let charts = charts(&panels[0]);
        assert_eq!(charts.len(), 7);
        for chart in &charts {
            assert_eq!(chart.spec["layout"]["xaxis"]["type"], "log", "{}", chart.title);
            assert_eq!(chart.spec["layout"]["xaxis"]["title"]["text"], "threads");
            for trace in chart.spec["data"].as_array().unwrap() {
                assert!(!trace["y"].as_array().unwrap().is_empty(), "{}: {trace}", chart.title);
            }
        }
        assert_eq!(charts[0].spec["layout"]["yaxis"]["type"], "log");
        let colours = charts[0].spec["data"].as_array().unwrap();
        assert_eq!(colours[3]["line"]["color"], "$mutexcondvar$");
        assert_eq!(
            (colours[1]["line"]["dash"].as_str(), colours[3]["line"]["dash"].as_str()),
            (Some("solid"), Some("dot"))
        );
    }

    #[test]
    fn without_peers_there_is_nothing_to_be_against() {
        let mut results = fixture::bench();
        results.cells.retain(|cell| cell.key.target != "peer");
        let panels = analysis::panels(&results);
        assert!(charts(&panels[0]).iter().all(|chart| chart.title != "Against the best peer"));
    }
}
