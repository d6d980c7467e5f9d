//! Measured and published lines, side by side.

use serde_json::{Value, json};

use crate::report::chart::{Chart, LineStyle, over, trace};
use crate::support::statistics::Spread;

/// Colours of lines that are no policies, in their order.
const COLOURS: [&str; 6] = ["$first$", "$second$", "$third$", "$fourth$", "$fifth$", "$sixth$"];
const SYMBOLS: [&str; 6] = ["square", "triangle-up", "diamond", "circle", "star", "hexagon"];

/// A measured line; lines with the same `place` have the same colour.
pub(super) fn measured(name: &str, points: &[(u32, Spread)], unit: &str, place: usize) -> Value {
    let style = LineStyle {
        colour: COLOURS[place % COLOURS.len()].into(),
        dash: if place < COLOURS.len() { "solid" } else { "dashdot" },
        width: 2.5,
        symbol: SYMBOLS[place % SYMBOLS.len()].into(),
    };
    trace(name, points, unit, &style)
}

/// A published line, dashed and pale, in the colour of the measured line with this `place`.
pub(super) fn published(name: &str, x: &[u32], y: &[f64], place: usize) -> Value {
    let colour = COLOURS[place % COLOURS.len()];
    json!({
        "type": "scatter", "mode": "lines+markers", "name": name, "x": x, "y": y, "opacity": 0.7,
        "hovertemplate": "%{y:.2f}", "line": {"color": colour, "width": 1.5, "dash": "dash"},
        "marker": {"color": colour, "size": 5, "symbol": format!("{}-open", SYMBOLS[place % SYMBOLS.len()])},
    })
}

/// Points as shares of `whole`.
pub(super) fn shares(points: &[(u32, Spread)], whole: f64) -> Vec<(u32, Spread)> {
    let share = |spread: &Spread| Spread {
        median: spread.median / whole,
        min: spread.min / whole,
        max: spread.max / whole,
        ..*spread
    };
    points.iter().map(|(x, spread)| (*x, share(spread))).collect()
}

/// Figures as shares of the highest of `of`.
pub(super) fn of_peak(figures: &[f64], of: &[f64]) -> Vec<f64> {
    let peak = of.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    figures.iter().map(|figure| figure / peak).collect()
}

/// The highest median of several lines.
pub(super) fn peak(lines: &[&[(u32, Spread)]]) -> f64 {
    let medians = lines.iter().flat_map(|line| line.iter().map(|(_, spread)| spread.median));
    medians.fold(f64::MIN_POSITIVE, f64::max)
}

/// A chart over numbers that ascend, on a logarithmic axis.
pub(super) fn chart(
    (title, note): (&str, &str),
    (x, x_title): (&[u32], &str),
    (data, y_title): (Vec<Value>, &str),
    wide: bool,
) -> Chart {
    Chart {
        title: title.into(),
        note: note.into(),
        wide,
        switchable: true,
        spec: over(x, x_title, data, y_title, true),
    }
}
