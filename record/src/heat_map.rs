//! A heat map: workloads by connections, a colour for each ratio (SVG). It is opaque, so that it fits light and dark pages.

use std::fmt::Write as _;

use crate::format::whole;
use crate::statistics::Verdict;
use crate::{Key, Record, Row};

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

/// Draws the throughput relative to the base, with a panel for each variant. `None` without such a row.
pub fn svg(record: &Record, title: &str) -> Option<String> {
    let is_drawn = |key: &Key| key.base.is_some() && key.figure.is_empty() && key.scale.is_some();
    let keys: Vec<&Key> = record.rows.iter().map(|row| &row.key).filter(|key| is_drawn(key)).collect();
    let workloads = unique(keys.iter().map(|key| key.workload.as_str()));
    let panels = unique(keys.iter().map(|key| key.variant.as_str()));
    let mut scales = unique(keys.iter().filter_map(|key| key.scale));
    scales.sort_unstable();
    let base = keys.first()?.base.as_deref()?;
    let panel_width = scales.len() as u32 * CELL.0 + PANEL_GAP;
    let width = (2 * MARGIN + TITLE_WIDTH + panels.len() as u32 * panel_width).max(760);
    let height = TOP + workloads.len() as u32 * CELL.1 + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"{PAPER}\"/>\n"
    );
    let mut write = |text: &Text<'_>| _ = writeln!(svg, "{}", text.svg());
    let bold = Text { size: 18, weight: "bold", ..Text::default() };
    write(&Text { at: (MARGIN, 30), text: title, ..bold });
    let legend = format!(
        "ratio to {base}; bold: the 95% interval is below 0.95 or above 1.05; =: it spans 1; ?: there is none"
    );
    write(&Text { at: (MARGIN, 50), text: &legend, fill: SOFT, ..Text::default() });
    for (row, workload) in workloads.iter().enumerate() {
        write(&Text { at: (MARGIN, baseline(row)), text: workload, ..Text::default() });
    }
    for (number, name) in panels.iter().enumerate() {
        let left = MARGIN + TITLE_WIDTH + number as u32 * panel_width;
        write(&Text { at: (left, TOP - 24), text: name, weight: "bold", ..Text::default() });
        for (column, &scale) in scales.iter().enumerate() {
            let middle = left + column as u32 * CELL.0 + CELL.0 / 2;
            let scale = whole(scale.into());
            let head = Text { at: (middle, TOP - 7), text: &scale, fill: SOFT, ..Text::default() };
            write(&Text { anchor: "middle", ..head });
        }
    }
    for (number, panel) in panels.iter().enumerate() {
        for (row, workload) in workloads.iter().enumerate() {
            for (column, &scale) in scales.iter().enumerate() {
                let left = MARGIN + TITLE_WIDTH + number as u32 * panel_width + column as u32 * CELL.0;
                let key = Key::of(*workload).at(scale).variant(*panel).relative_to(base);
                svg += &cell((left, TOP + row as u32 * CELL.1), baseline(row), record.row(&key));
            }
        }
    }
    svg += "</svg>\n";
    Some(svg)
}

fn unique<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut unique = Vec::new();
    for item in all {
        if !unique.contains(&item) {
            unique.push(item);
        }
    }
    unique
}

/// Of a row's text.
fn baseline(row: usize) -> u32 {
    TOP + row as u32 * CELL.1 + 17
}

fn cell((left, top): (u32, u32), baseline: u32, row: Option<&Row>) -> String {
    let (width, height) = (CELL.0 - GAP, CELL.1 - GAP);
    let Some((row, median)) = row.and_then(|row| Some((row, row.median?))) else {
        return format!(
            "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" fill=\"none\" stroke=\"{GRID}\"/>\n"
        );
    };
    let verdict = row.verdict();
    let (r, g, b) = colour(median, verdict);
    let is_decided = matches!(verdict, Verdict::Loss | Verdict::Gain);
    let mark = match verdict {
        Verdict::Equal => " =",
        Verdict::Unknown => " ?",
        Verdict::Loss | Verdict::Gain | Verdict::Between => "",
    };
    let text = Text {
        at: (left + width / 2, baseline),
        text: &format!("{median:.2}{mark}"),
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
        Verdict::Loss | Verdict::Gain => share.max(DECIDED),
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
    use super::*;

    fn record() -> Record {
        let key = |workload: &str, scale| Key::of(workload).at(scale).variant("plugin").relative_to("stock");
        let rounds = |ratio: f64, count: usize| vec![ratio; count];
        let rows = [
            key("point select", 16).paired(rounds(1.0, 10)),
            key("clients think", 16).paired(rounds(0.8, 10)),
            key("a < b & c", 16).paired(rounds(1.2, 10)),
            key("a < b & c", 1024).paired(rounds(0.9, 3)),
            Some(Row { key: Key::of("throughput").at(16).variant("plugin"), ..Row::default() }),
        ];
        Record { rows: rows.into_iter().flatten().collect(), ..Record::default() }
    }

    #[test]
    fn the_picture_has_every_cell() {
        let svg = svg(&record(), "title").unwrap();
        // The paper; three loads at two numbers of connections, two of which were not measured.
        assert_eq!(svg.matches("<rect ").count(), 1 + 6, "{svg}");
        assert_eq!(svg.matches("fill=\"none\"").count(), 2, "{svg}");
        for expected in
            [">1.00 =<", ">0.80<", ">1.20<", ">0.90 ?<", ">1,024<", ">plugin<", "a &lt; b &amp; c"]
        {
            assert!(svg.contains(expected), "{expected} is missing in\n{svg}");
        }
        assert_eq!(svg.matches("<text ").count(), svg.matches("</text>").count());
        assert_eq!(super::svg(&Record::default(), "title"), None);
    }

    #[test]
    fn colours_follow_the_verdict() {
        let loss = [0.1, 0.5].map(|ratio| colour(ratio, Verdict::Loss));
        let gain = [2.0, 9.0, f64::INFINITY].map(|ratio| colour(ratio, Verdict::Gain));
        assert_eq!((loss, gain), ([LOSS; 2], [GAIN; 3]));
        assert_eq!(colour(0.5, Verdict::Equal), EQUAL);
        let (slight, strong) = (colour(0.9, Verdict::Loss), colour(0.6, Verdict::Loss));
        assert!(slight.1 > strong.1 && slight != EQUAL, "{slight:?} {strong:?}");
        assert_ne!(colour(0.97, Verdict::Between), EQUAL);
    }
}
