//! The headline as a still picture (SVG), for a README: opaque, so that it fits light and dark pages.

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::analysis::{Curve, Panel, panels};
use crate::report::ReportError;
use crate::report::palette::neutral;
use crate::results::{Cell, Results};
use crate::support::format;
use crate::support::statistics::Spread;

const SIZE: (u32, u32) = (900, 480);
const PAPER: RGBColor = RGBColor(252, 252, 253);
const INK: RGBColor = RGBColor(28, 36, 48);
const SOFT: RGBColor = RGBColor(91, 102, 117);
const GRID: RGBColor = RGBColor(227, 231, 236);
/// Width of a character of the labels at the lines, a little more than most.
const LABEL_CHARACTER_PX: u32 = 8;
/// Labels at the lines keep this distance.
const LABEL_STEP_PX: i32 = 18;

type Drawing<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Panels that a picture shows, one above the other.
const PANELS_MAX: usize = 2;

/// Throughput against connections, of the run's first panels: a line per policy through the medians, and a
/// band from the lowest to the highest round.
pub(crate) fn svg(results: &Results) -> Result<String, ReportError> {
    let panels = panels(results);
    of_panels(&panels[..panels.len().min(PANELS_MAX)], results)
}

/// A picture for each load and limit of a bench, with its file's name. Both axes are logarithmic: between
/// the best and the worst lie factors, not differences.
pub(super) fn of_loads(results: &Results) -> Result<Vec<(String, String)>, ReportError> {
    let panels = panels(results);
    if panels.is_empty() {
        return Err(ReportError::Empty);
    }
    let limits: Vec<Option<u32>> = panels.iter().map(|panel| panel.limit).collect();
    let several = limits.iter().any(|limit| *limit != limits[0]);
    let picture = |panel: &Panel<'_>| {
        let limit = panel.limit.filter(|_| several).map_or(String::new(), |limit| format!("-{limit}"));
        let picture = of_panels(std::slice::from_ref(panel), results)?;
        Ok((format!("{}{limit}.svg", panel.workload), picture))
    };
    panels.iter().map(picture).collect()
}

fn of_panels(panels: &[Panel<'_>], results: &Results) -> Result<String, ReportError> {
    if panels.is_empty() {
        return Err(ReportError::Empty);
    }
    let mut picture = String::new();
    draw_all(panels, results, &mut picture).map_err(|error| ReportError::Draw(error.to_string()))?;
    Ok(picture)
}

fn draw_all(
    panels: &[Panel<'_>],
    results: &Results,
    picture: &mut String,
) -> Result<(), Box<dyn std::error::Error>> {
    let size = (SIZE.0, SIZE.1 * panels.len() as u32);
    let root = SVGBackend::with_string(picture, size).into_drawing_area();
    root.fill(&PAPER)?;
    for (panel, area) in panels.iter().zip(root.split_evenly((panels.len(), 1))) {
        draw(panel, results, &area)?;
    }
    root.present()?;
    Ok(())
}

/// The position of a figure on the y axis.
fn height(panel: &Panel<'_>, per_s: f64) -> f64 {
    if panel.is_bench() { per_s.max(1.0).log10() } else { per_s }
}

/// The axis' ends: from 0, or from half the lowest to twice the highest.
fn y_range(panel: &Panel<'_>) -> std::ops::Range<f64> {
    let throughputs = || panel.curves.iter().flat_map(|c| &c.cells).filter_map(|c| c.throughput());
    let top = throughputs().map(|t| t.max).fold(1.0, f64::max);
    if !panel.is_bench() {
        return 0.0..top * 1.08;
    }
    let bottom = throughputs().map(|t| t.min).fold(top, f64::min);
    height(panel, bottom / 1.3)..height(panel, top * 1.3).max(height(panel, bottom) + 0.5)
}

fn draw(panel: &Panel<'_>, results: &Results, root: &Drawing<'_>) -> Result<(), Box<dyn std::error::Error>> {
    headings(root, panel, results)?;
    let power = |threads: Option<&u32>| threads.map_or(0.0, |threads| f64::from(*threads).log2());
    let (first, last) = (power(panel.threads.first()), power(panel.threads.last()));
    let mut chart = ChartBuilder::on(root)
        .margin_left(14)
        .margin_right(labels_px(panel))
        .margin_top(74)
        .margin_bottom(10)
        .x_label_area_size(44)
        .y_label_area_size(66)
        .build_cartesian_2d(first - 0.15..last.max(first + 1.0) + 0.05, y_range(panel))?;
    let label = ("sans-serif", 13).into_font().color(&SOFT);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(SOFT)
        .label_style(label.clone())
        .axis_desc_style(label)
        .x_labels((last - first) as usize + 2)
        .y_labels(6)
        .x_label_formatter(&|power| power_label(*power))
        .y_label_formatter(&|height| y_label(panel, *height))
        .x_desc(format!("{} (each step doubles)", panel.counted()))
        .y_desc("statements per second")
        .draw()?;
    for curve in &panel.curves {
        draw_curve(&mut chart, panel, curve)?;
    }
    labels(root, &chart, panel)
}

/// Whole powers of two only; the axis may have steps between.
fn power_label(power: f64) -> String {
    if power < 0.0 || (power - power.round()).abs() > 1e-6 {
        return String::new();
    }
    format!("{:.0}", power.exp2())
}

fn y_label(panel: &Panel<'_>, height: f64) -> String {
    match height {
        0.0 if !panel.is_bench() => "0".into(),
        per_s if !panel.is_bench() => format::count(per_s),
        power => format::count(two_digits(10f64.powf(power))),
    }
}

/// Rounded, which is enough for an axis: the error is less than a pixel.
fn two_digits(value: f64) -> f64 {
    let unit = 10f64.powf(value.log10().floor() - 1.0);
    (value / unit).round() * unit
}

fn headings(
    root: &Drawing<'_>,
    panel: &Panel<'_>,
    results: &Results,
) -> Result<(), Box<dyn std::error::Error>> {
    let title = ("sans-serif", 20).into_font().style(FontStyle::Bold).color(&INK);
    root.draw(&Text::new(format!("Throughput against {}", panel.counted()), (20, 18), title))?;
    let machine = &results.machine;
    let rounds = panel.curves.iter().flat_map(|c| &c.cells).map(|c| c.rounds.len()).max().unwrap_or(0);
    let work = match results.settings.statement_work_us {
        0 => String::new(),
        work_us => format!(", statements of {work_us} us"),
    };
    let below = format!(
        "{}{work}; {} cores, {}; median of {rounds} rounds, {} from lowest to highest{}",
        panel.heading(),
        machine.cores,
        machine.cpu_model,
        if panel.is_bench() { "bars" } else { "band" },
        if panel.is_bench() { "; dashed: what a user would pick instead" } else { "" }
    );
    root.draw(&Text::new(below, (20, 46), ("sans-serif", 13).into_font().color(&SOFT)))?;
    Ok(())
}

fn points(curve: &Curve<'_>) -> Vec<(f64, Spread)> {
    let point = |cell: &&Cell| Some((f64::from(cell.key.threads).log2(), cell.throughput()?));
    curve.cells.iter().filter_map(point).collect()
}

fn draw_curve(
    chart: &mut Chart<'_>,
    panel: &Panel<'_>,
    curve: &Curve<'_>,
) -> Result<(), Box<dyn std::error::Error>> {
    let (r, g, b) = neutral(curve.policy);
    let colour = RGBColor(r, g, b);
    let points = points(curve);
    let medians: Vec<(f64, f64)> = points.iter().map(|(x, t)| (*x, height(panel, t.median))).collect();
    let ends = |t: &Spread| (height(panel, t.min), height(panel, t.max));
    if panel.is_bench() {
        // A dozen bands would hide each other.
        let bar = |(x, t): &(f64, Spread)| {
            let (low, high) = ends(t);
            PathElement::new(vec![(*x, low), (*x, high)], colour.mix(0.6))
        };
        chart.draw_series(points.iter().map(bar))?;
    } else {
        let upper = points.iter().map(|(x, t)| (*x, ends(t).1));
        let lower = points.iter().rev().map(|(x, t)| (*x, ends(t).0));
        let band: Vec<_> = upper.chain(lower).collect();
        chart.draw_series([Polygon::new(band, colour.mix(0.16).filled())])?;
    }
    let width = if ["flifo", "quantum"].contains(&curve.policy) { 3 } else { 2 };
    if curve.is_peer() {
        chart.draw_series(DashedLineSeries::new(medians.clone(), 5, 4, colour.stroke_width(width)))?;
    } else {
        chart.draw_series(LineSeries::new(medians.clone(), colour.stroke_width(width)))?;
    }
    chart.draw_series(medians.into_iter().map(|point| Circle::new(point, 4, colour.filled())))?;
    Ok(())
}

fn label_text(curve: &Curve<'_>, last: Spread) -> String {
    format!("{} {}", curve.label, format::count(last.median))
}

/// Room on the right for the labels.
fn labels_px(panel: &Panel<'_>) -> u32 {
    let texts = panel.curves.iter().filter_map(|c| Some(label_text(c, c.last().throughput()?)));
    let longest = texts.map(|text| text.chars().count() as u32).max().unwrap_or(0);
    (longest * LABEL_CHARACTER_PX + 10).min(SIZE.0 / 3)
}

/// Names the lines at their right ends, pushed apart where they would overlap.
fn labels(
    root: &Drawing<'_>,
    chart: &Chart<'_>,
    panel: &Panel<'_>,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut ends: Vec<(i32, i32, &Curve<'_>, Spread)> = panel
        .curves
        .iter()
        .filter_map(|curve| {
            let (x, last) = *points(curve).last()?;
            let (x_px, y_px) = chart.plotting_area().map_coordinate(&(x, height(panel, last.median)));
            // The coordinates are the whole picture's.
            let (left_px, top_px) = root.get_base_pixel();
            Some((x_px - left_px, y_px - top_px, curve, last))
        })
        .collect();
    ends.sort_by_key(|(_, y_px, ..)| *y_px);
    let heights = apart(&ends.iter().map(|(_, y_px, ..)| *y_px).collect::<Vec<_>>(), SIZE.1 as i32 - 20);
    for ((x_px, _, curve, last), y_px) in ends.into_iter().zip(heights) {
        let (r, g, b) = neutral(curve.policy);
        let style = ("sans-serif", 14)
            .into_font()
            .style(FontStyle::Bold)
            .color(&RGBColor(r, g, b))
            .pos(Pos::new(HPos::Left, VPos::Center));
        let text = label_text(curve, last);
        root.draw(&Text::new(text, (x_px + 10, y_px), style))?;
    }
    Ok(())
}

/// Heights that ascend, pushed apart downwards, and up again from the bottom.
fn apart(wanted_px: &[i32], bottom_px: i32) -> Vec<i32> {
    let mut heights = wanted_px.to_vec();
    for index in 1..heights.len() {
        heights[index] = heights[index].max(heights[index - 1] + LABEL_STEP_PX);
    }
    let mut limit_px = bottom_px;
    for height in heights.iter_mut().rev() {
        *height = (*height).min(limit_px);
        limit_px = *height - LABEL_STEP_PX;
    }
    heights
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sweep::{analysis, fixture};

    #[test]
    fn the_picture_names_its_lines_axes_and_machine() {
        let results = fixture::results();
        let picture = svg(&results).unwrap();
        for expected in [
            "connections",
            "statements per second",
            "Throughput",
            "Made-up CPU",
            "1024",
            "#0072B2",
            "#D55E00",
        ] {
            assert!(picture.contains(expected), "{expected} is missing");
        }
        let panels = analysis::panels(&results);
        assert_eq!(panels.len(), 2, "both are in the picture");
        for curve in panels.iter().flat_map(|panel| &panel.curves) {
            let end = format::count(curve.last().throughput().unwrap().median);
            assert!(picture.contains(&format!("{} {end}", curve.label)), "{}", curve.label);
        }
        assert!(picture.matches("<polyline").count() >= 3);
        assert_eq!(picture.matches("<polygon").count(), 2 * 3);
        // A mark for each point: three policies at eleven numbers of connections.
        assert_eq!(picture.matches("<circle").count(), 2 * 33);
        assert!(picture.contains("height=\"960\""), "{}", &picture[..200]);
        assert!(!picture.contains("href"), "a picture loads nothing");
    }

    #[test]
    fn one_point_is_drawn_and_none_is_an_error() {
        let mut results = fixture::results();
        results.cells.truncate(1);
        assert_eq!(svg(&results).unwrap().matches("<circle").count(), 1);
        results.cells.clear();
        assert!(matches!(svg(&results), Err(ReportError::Empty)));
    }

    #[test]
    fn a_bench_has_a_picture_for_each_load_and_limit() {
        let mut results = fixture::bench();
        let names = |results: &Results| -> Vec<String> {
            of_loads(results).unwrap().into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(&results), ["work-20-4.svg", "work-20-8.svg", "hot-row-4.svg", "hot-row-8.svg"]);
        results.cells.retain(|cell| cell.key.concurrency != 8);
        assert_eq!(names(&results), ["work-20.svg", "hot-row.svg"]);
        let (_, picture) = of_loads(&results).unwrap().remove(0);
        for expected in ["threads (each step doubles)", "work-20, limit 4", "no limit ", "mutex-condvar "] {
            assert!(picture.contains(expected), "{expected} is missing");
        }
        assert_eq!((picture.matches("<circle").count(), picture.matches("<polygon").count()), (5 * 4, 0));
        results.cells.clear();
        assert!(matches!(of_loads(&results), Err(ReportError::Empty)));
    }

    #[test]
    fn labels_are_pushed_apart_and_stay_on_the_picture() {
        assert_eq!(apart(&[10, 12, 100], 400), [10, 28, 100]);
        assert_eq!(apart(&[380, 390, 395], 400), [364, 382, 400]);
        assert_eq!((two_digits(15_849.0), two_digits(0.123)), (16_000.0, 0.12));
    }

    #[test]
    fn axis_labels_are_whole_powers() {
        assert_eq!((power_label(10.0), power_label(0.0)), ("1024".into(), "1".into()));
        assert_eq!((power_label(0.5), power_label(-1.0)), (String::new(), String::new()));
    }
}
