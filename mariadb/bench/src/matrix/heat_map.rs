//! The picture: loads by connections, a colour for each ratio (SVG). It is opaque, so that it stands on light and dark pages.

use std::fmt::Write as _;

use super::results::Results;
use super::statistics::{Ratio, Verdict};

const MARGIN: u32 = 20;
const TOP: u32 = 92;
const TITLE_WIDTH: u32 = 400;
const CELL: (u32, u32) = (104, 26);
const GAP: u32 = 2;
const PANEL_GAP: u32 = 24;

const PAPER: &str = "#fcfcfd";
const INK: &str = "#1c2430";
const SOFT: &str = "#5b6675";
const GRID: &str = "#e3e7ec";
/// Below, at and above 1. A decided cell is bold too, so that colour never stands alone.
const LOSS: (u8, u8, u8) = (193, 18, 31);
const EQUAL: (u8, u8, u8) = (240, 242, 245);
const GAIN: (u8, u8, u8) = (0, 120, 90);
/// A decided cell has at least this share of its colour.
const DECIDED: f64 = 0.3;
/// From this factor on a colour is full.
const FULL: f64 = 2.0;

/// Draws the heat map, with a panel for each variant except the base. `None` if nothing was measured.
pub fn svg(results: &Results) -> Option<String> {
    let (loads, connections) = (results.loads(), results.connections());
    let variants: Vec<&str> = results.variants.iter().map(|variant| variant.name.as_str()).collect();
    let panels: Vec<&str> = variants.into_iter().filter(|name| *name != results.base).collect();
    if loads.is_empty() || panels.is_empty() {
        return None;
    }
    let panel_width = connections.len() as u32 * CELL.0 + PANEL_GAP;
    let width = (2 * MARGIN + TITLE_WIDTH + panels.len() as u32 * panel_width).max(760);
    let height = TOP + loads.len() as u32 * CELL.1 + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"{PAPER}\"/>\n"
    );
    let mut write = |text: &Text<'_>| _ = writeln!(svg, "{}", text.svg());
    let bold = Text { size: 18, weight: "bold", ..Text::default() };
    write(&Text { at: (MARGIN, 30), text: "MariaDB: throughput by load and connections", ..bold });
    let legend = format!(
        "ratio to {}; bold: the 95% interval is below 0.95 or above 1.05; =: it spans 1; ?: there is none",
        results.base
    );
    write(&Text { at: (MARGIN, 50), text: &legend, fill: SOFT, ..Text::default() });
    for (row, (_, title)) in loads.iter().enumerate() {
        write(&Text { at: (MARGIN, baseline(row)), text: title, ..Text::default() });
    }
    for (number, name) in panels.iter().enumerate() {
        let left = MARGIN + TITLE_WIDTH + number as u32 * panel_width;
        write(&Text { at: (left, TOP - 24), text: name, weight: "bold", ..Text::default() });
        for (column, &n) in connections.iter().enumerate() {
            let middle = left + column as u32 * CELL.0 + CELL.0 / 2;
            let n = n.to_string();
            let head = Text { at: (middle, TOP - 7), text: &n, fill: SOFT, ..Text::default() };
            write(&Text { anchor: "middle", ..head });
        }
    }
    for (number, name) in panels.iter().enumerate() {
        for (row, (load, _)) in loads.iter().enumerate() {
            for (column, &n) in connections.iter().enumerate() {
                let left = MARGIN + TITLE_WIDTH + number as u32 * panel_width + column as u32 * CELL.0;
                svg += &cell((left, TOP + row as u32 * CELL.1), baseline(row), results.ratio(load, n, name));
            }
        }
    }
    svg += "</svg>\n";
    Some(svg)
}

/// Of a row's text.
fn baseline(row: usize) -> u32 {
    TOP + row as u32 * CELL.1 + 17
}

fn cell((left, top): (u32, u32), baseline: u32, ratio: Option<&Ratio>) -> String {
    let (width, height) = (CELL.0 - GAP, CELL.1 - GAP);
    let Some(ratio) = ratio else {
        return format!(
            "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" fill=\"none\" stroke=\"{GRID}\"/>\n"
        );
    };
    let (r, g, b) = colour(ratio.median, ratio.verdict);
    let is_decided = matches!(ratio.verdict, Verdict::Red | Verdict::Green);
    let mark = match ratio.verdict {
        Verdict::Equal => " =",
        Verdict::Unknown => " ?",
        Verdict::Red | Verdict::Green | Verdict::Between => "",
    };
    let text = Text {
        at: (left + width / 2, baseline),
        text: &format!("{:.2}{mark}", ratio.median),
        weight: if is_decided { "bold" } else { "normal" },
        anchor: "middle",
        fill: if is_dark((r, g, b)) { "#ffffff" } else { INK },
        ..Text::default()
    };
    format!(
        "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" fill=\"#{r:02x}{g:02x}{b:02x}\"/>\n{}\n",
        text.svg()
    )
}

/// Red has its full colour at a half, green at a double. A cell whose interval spans 1 has none.
fn colour(ratio: f64, verdict: Verdict) -> (u8, u8, u8) {
    let share = (ratio.max(1e-9).ln() / FULL.ln()).abs().min(1.0);
    let share = match verdict {
        Verdict::Red | Verdict::Green => share.max(DECIDED),
        Verdict::Between => share.min(DECIDED),
        Verdict::Equal | Verdict::Unknown => 0.0,
    };
    let end = if ratio < 1.0 { LOSS } else { GAIN };
    let mix = |from: u8, to: u8| (f64::from(from) + (f64::from(to) - f64::from(from)) * share).round() as u8;
    (mix(EQUAL.0, end.0), mix(EQUAL.1, end.1), mix(EQUAL.2, end.2))
}

fn is_dark((r, g, b): (u8, u8, u8)) -> bool {
    0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b) < 140.0
}

#[derive(Clone, Copy)]
struct Text<'a> {
    at: (u32, u32),
    text: &'a str,
    size: u32,
    weight: &'static str,
    anchor: &'static str,
    fill: &'static str,
}

impl Default for Text<'_> {
    fn default() -> Self {
        Text { at: (0, 0), text: "", size: 13, weight: "normal", anchor: "start", fill: INK }
    }
}

impl Text<'_> {
    fn svg(&self) -> String {
        let Text { at: (x, y), text, size, weight, anchor, fill } = self;
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        format!(
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" font-weight=\"{weight}\" text-anchor=\"{anchor}\" \
             fill=\"{fill}\">{text}</text>"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::results;
    use super::*;

    #[test]
    fn the_picture_has_every_cell() {
        let mut results = results();
        let svg = svg(&results).unwrap();
        // The paper; three loads at two numbers of connections, two of which were not measured.
        assert_eq!(svg.matches("<rect ").count(), 1 + 6, "{svg}");
        assert_eq!(svg.matches("fill=\"none\"").count(), 2, "{svg}");
        for target in
            [">1.00 =<", ">0.80<", ">1.20<", ">0.90 ?<", ">1024<", ">plugin<", "point select beside a dump"]
        {
            assert!(svg.contains(target), "{target} is missing in\n{svg}");
        }
        assert_eq!(svg.matches("<text ").count(), svg.matches("</text>").count());
        results.cells.clear();
        assert_eq!(super::svg(&results), None);
    }

    #[test]
    fn colours_follow_the_verdict() {
        let red = [0.1, 0.5].map(|ratio| colour(ratio, Verdict::Red));
        let green = [2.0, 9.0, f64::INFINITY].map(|ratio| colour(ratio, Verdict::Green));
        assert_eq!((red, green), ([LOSS; 2], [GAIN; 3]));
        assert_eq!(colour(0.5, Verdict::Equal), EQUAL);
        let (slight, strong) = (colour(0.9, Verdict::Red), colour(0.6, Verdict::Red));
        assert!(slight.1 > strong.1 && slight != EQUAL, "{slight:?} {strong:?}");
        assert_ne!(colour(0.97, Verdict::Between), EQUAL);
    }

    #[test]
    fn text_is_escaped() {
        let text = Text { text: "a < b & c", ..Text::default() };
        assert!(text.svg().contains("a &lt; b &amp; c"));
    }
}
