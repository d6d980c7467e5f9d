//! Lines of curves, and the charts that sweeps and benches share.

use serde_json::Value;

use super::analysis::{Curve, Panel};
use crate::report::chart::{Chart, LineStyle, over, trace};
use crate::report::palette::colour_name;
use crate::results::{Cell, Round};
use crate::support::statistics::Spread;

/// A small chart of one figure of the rounds; `None` if it was not measured.
pub(super) fn of_figure(
    panel: &Panel<'_>,
    title: &str,
    note: &str,
    unit: &str,
    figure: fn(&Round) -> Option<f64>,
) -> Option<Chart> {
    let measured =
        panel.curves.iter().flat_map(|curve| &curve.cells).any(|cell| cell.spread(figure).is_some());
    let traces = panel.curves.iter().map(|curve| line(curve, unit, |cell| cell.spread(figure))).collect();
    measured.then(|| Chart {
        title: title.into(),
        note: note.into(),
        wide: false,
        switchable: true,
        spec: spec(panel, traces, unit, true),
    })
}

/// Context switches per statement.
pub(super) fn switches(panel: &Panel<'_>) -> Chart {
    let figure = |cell: &Cell| cell.spread(|round| round.context_switches_per_statement);
    let traces = panel.curves.iter().map(|curve| line(curve, "per statement", figure)).collect();
    Chart {
        title: "Context switches per statement".into(),
        note: "Of the whole machine, as vmstat counts them, client included.".into(),
        wide: false,
        switchable: false,
        spec: spec(panel, traces, "switches per statement", true),
    }
}

/// W and S of the policies with waits; `None` for a run without them.
pub(super) fn wakes(panel: &Panel<'_>) -> Option<Chart> {
    let mut traces = Vec::new();
    let is_known = |curve: &&Curve<'_>| {
        curve.cells.iter().any(|cell| cell.summary.woken_to_running_p50_median_us.is_some())
    };
    for curve in
        panel.curves.iter().filter(|curve| curve.policy != "none" && !curve.is_peer()).filter(is_known)
    {
        let mut woken = line(curve, "us", |cell| cell.spread(|r| r.admission.woken_to_running_p50_us));
        woken["name"] = format!("W {}", curve.label).into();
        let mut running = line(curve, "us", |cell| cell.spread(|r| r.admission.running_p50_us));
        running["name"] = format!("S {}", curve.label).into();
        running["line"]["dash"] = "dot".into();
        running["marker"]["symbol"] = format!("{}-open", symbol(curve.policy)).into();
        traces.extend([woken, running]);
    }
    (!traces.is_empty()).then(|| Chart {
        title: "Waking (W) and working (S)".into(),
        note: "Solid, W: from the wake-up to running. Dotted, S: work per slot. Medians.".into(),
        wide: false,
        switchable: false,
        spec: spec(panel, traces, "µs", true),
    })
}

/// A curve with bars from the lowest to the highest round.
pub(super) fn line(curve: &Curve<'_>, unit: &str, figure: impl Fn(&Cell) -> Option<Spread>) -> Value {
    let points: Vec<(u32, Spread)> =
        curve.cells.iter().filter_map(|cell| Some((cell.key.threads, figure(cell)?))).collect();
    let dash =
        if curve.is_peer() { "dot" } else { ["solid", "dashdot", "longdash", "dot"][curve.variant % 4] };
    let style = LineStyle {
        colour: format!("${}$", colour_name(curve.policy)),
        dash,
        width: 2.5,
        symbol: symbol(curve.policy).into(),
    };
    trace(&curve.label, &points, unit, &style)
}

/// A mark in addition to the colour.
pub(super) fn symbol(policy: &str) -> &'static str {
    match policy {
        "flifo" => "circle",
        "fifo" => "square",
        "none" => "diamond",
        "lifo" => "triangle-up",
        "sleep" => "triangle-down",
        "quantum" => "star",
        "innodb" => "triangle-left",
        "lease" => "hexagon",
        "summon" => "pentagon",
        "tokio" => "circle-open",
        "async-lock" => "square-open",
        "mutex-condvar" => "triangle-up-open",
        "futex" => "triangle-down-open",
        _ => "cross",
    }
}

/// The chart of a panel's lines over its numbers of threads.
pub(super) fn spec(panel: &Panel<'_>, data: Vec<Value>, y_title: &str, from_zero: bool) -> Value {
    over(&panel.threads, panel.counted(), data, y_title, from_zero)
}
