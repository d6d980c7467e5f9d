//! Charts of the page, as plotly's specifications.
//!
//! A colour is written as `$name$`, so that the page can insert the light or the dark one.

use serde_json::{Value, json};

use crate::support::format;
use crate::support::statistics::Spread;

/// One chart with its heading.
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) note: String,
    /// Takes the page's whole width.
    pub(crate) wide: bool,
    /// The reader may switch the y axis between linear and logarithmic.
    pub(crate) switchable: bool,
    pub(crate) spec: Value,
}

/// What a line looks like.
pub(crate) struct LineStyle {
    /// `$name$`.
    pub(crate) colour: String,
    pub(crate) dash: &'static str,
    pub(crate) width: f64,
    pub(crate) symbol: String,
}

/// A line through the medians, with bars from the lowest to the highest round.
pub(crate) fn trace(name: &str, points: &[(u32, Spread)], unit: &str, style: &LineStyle) -> Value {
    let column = |value: fn(&Spread) -> f64| -> Vec<f64> { points.iter().map(|(_, s)| value(s)).collect() };
    let hover: Vec<String> = points
        .iter()
        .map(|(_, s)| {
            let rounds = if s.count == 1 { "1 round".into() } else { format!("{} rounds", s.count) };
            format!(
                "{} {unit} ({} to {}, {rounds})",
                format::count(s.median),
                format::count(s.min),
                format::count(s.max)
            )
        })
        .collect();
    json!({
        "type": "scatter", "mode": "lines+markers", "name": name,
        "x": points.iter().map(|(x, _)| *x).collect::<Vec<_>>(),
        "y": column(|s| s.median),
        "text": hover, "hovertemplate": "%{text}",
        "error_y": {
            "type": "data", "symmetric": false, "thickness": 1.2, "width": 3, "color": style.colour,
            "array": column(|s| s.max - s.median), "arrayminus": column(|s| s.median - s.min),
        },
        "line": {"color": style.colour, "width": style.width, "dash": style.dash},
        "marker": {"color": style.colour, "size": 7, "symbol": style.symbol},
    })
}

/// A chart over `x`, numbers that ascend, on a logarithmic axis.
pub(crate) fn over(x: &[u32], x_title: &str, data: Vec<Value>, y_title: &str, from_zero: bool) -> Value {
    let labels: Vec<String> = x.iter().map(u32::to_string).collect();
    let ends = x.first().zip(x.last());
    let (first, last) = ends.map_or((0.0, 1.0), |(a, b)| (f64::from(*a).log10(), f64::from(*b).log10()));
    json!({
        "data": data,
        "layout": {
            "xaxis": {
                "type": "log", "tickmode": "array", "tickvals": x, "ticktext": labels,
                "range": [first - 0.08, last + 0.08], "title": {"text": x_title},
            },
            "yaxis": {"rangemode": if from_zero { "tozero" } else { "normal" }, "title": {"text": y_title}},
        },
    })
}
