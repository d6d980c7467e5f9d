//! Conclusions in plain sentences, computed from the figures.

use super::analysis::{Panel, ratio, switches_per_statement, throughput};
use super::format::count;
use super::{server, versus};
use crate::published::with_range;
use crate::statistics::Spread;

/// The conclusion of a panel in one or two sentences.
pub fn conclusion(panel: &Panel<'_>) -> String {
    if panel.is_bench() {
        return versus::conclusion(panel);
    }
    if panel.is_server() {
        return server::conclusion(panel).unwrap_or_else(|| without_flifo(panel));
    }
    let Some(flifo) = panel.best("flifo") else {
        return without_flifo(panel);
    };
    let limit = flifo.concurrency;
    let mut threads = flifo.last().key.threads;
    let (mut gains, mut switches) = (Vec::new(), None);
    if let Some(fifo) = panel.reference(flifo, "fifo")
        && let Some(common) = panel.last_common(flifo, fifo)
        && let Some((a, b)) = flifo.at(common).zip(fifo.at(common))
    {
        threads = common;
        gains.extend(ratio(a, b, throughput).map(|gain| compared(gain, "fifo")));
        switches = ratio(a, b, switches_per_statement);
    }
    let none = panel.reference(flifo, "none").and_then(|none| none.at(threads));
    if let Some((a, b)) = flifo.at(threads).zip(none) {
        gains.extend(ratio(a, b, throughput).map(|gain| compared(gain, "no limit")));
    }
    let mut text = String::new();
    if !gains.is_empty() {
        text = format!("With {threads} connections, flifo (limit {limit}) is {}", gains.join(" and "));
        if let Some(share) = switches {
            text += &format!(", with {} of fifo's context switches per statement", with_range(share));
        }
        text.push('.');
    }
    let peak = flifo.peak();
    if let Some(flatness) = flifo.flatness() {
        if !text.is_empty() {
            text.push(' ');
        }
        text += &if peak.key.threads == flifo.last().key.threads {
            format!("Its peak is its last point, {} connections.", peak.key.threads)
        } else {
            let share = 100.0 * flatness.median;
            format!("From its peak at {} connections it keeps {share:.0}%.", peak.key.threads)
        };
    }
    if text.is_empty() {
        let at_last = flifo.last().throughput().map_or(0.0, |t| t.median);
        text = format!("With {threads} connections, flifo does {} statements per second.", count(at_last));
    }
    text
}

/// `1.31 (1.28 to 1.35) times as fast as fifo`, or that the rounds do not agree on which is faster.
pub(super) fn compared(gain: Spread, other: &str) -> String {
    let range = with_range(gain);
    let doubt =
        if gain.count > 1 && gain.min <= 1.0 && gain.max >= 1.0 { " (no clear difference)" } else { "" };
    format!("{range} times as fast as {other}{doubt}")
}

fn without_flifo(panel: &Panel<'_>) -> String {
    let fastest = panel.curves.iter().max_by(|a, b| {
        let peak = |c: &super::analysis::Curve<'_>| c.peak().throughput().map_or(0.0, |t| t.median);
        peak(a).total_cmp(&peak(b))
    });
    fastest.map_or_else(String::new, |curve| {
        let peak = curve.peak();
        let per_s = count(peak.throughput().map_or(0.0, |t| t.median));
        format!(
            "The highest is {} with {per_s} statements per second at {} connections.",
            curve.label, peak.key.threads
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::{analysis, fixture};
    use super::*;

    #[test]
    fn the_sentence_follows_from_the_rounds() {
        let results = fixture::results();
        let panels = analysis::panels(&results);
        let text = conclusion(&panels[0]);
        assert!(text.starts_with("With 1024 connections, flifo (limit 4) is 1."), "{text}");
        assert!(text.contains("times as fast as fifo and 1."), "{text}");
        assert!(text.contains("times as fast as no limit, with 0.4"), "{text}");
        assert!(text.ends_with("From its peak at 256 connections it keeps 100%."), "{text}");
    }

    #[test]
    fn rounds_on_both_sides_are_told() {
        assert!(
            compared(Spread::of([0.9, 1.0, 1.1]).unwrap(), "fifo").ends_with("as fifo (no clear difference)")
        );
        assert!(compared(Spread::of([0.8, 0.9]).unwrap(), "fifo").ends_with("times as fast as fifo"));
    }

    #[test]
    fn without_flifo_the_highest_is_named() {
        let mut results = fixture::results();
        results.cells.retain(|cell| cell.key.policy == "none");
        let panels = analysis::panels(&results);
        assert!(conclusion(&panels[0]).starts_with("The highest is none with "));
    }
}
