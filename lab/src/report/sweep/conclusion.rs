//! Conclusions in plain sentences, computed from the figures.

use super::analysis::{Panel, ratio, switches_per_statement, throughput};
use super::{bench, server};
use crate::support::format::{compared, count, with_range};

/// The conclusion of a panel in one or two sentences.
pub(crate) fn conclusion(panel: &Panel<'_>) -> String {
    if panel.is_bench() {
        return bench::conclusion(panel);
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
    use crate::golden::Cases;
    use crate::support::statistics::Spread;

    #[test]
    fn sentences_follow_from_the_rounds() {
        let mut results = fixture::results();
        let mut cases = Cases::default();
        cases.add("all policies", conclusion(&analysis::panels(&results)[0]));
        results.cells.retain(|cell| cell.key.policy == "none");
        cases.add("without flifo", conclusion(&analysis::panels(&results)[0]));
        cases.add("rounds on both sides", compared(Spread::of([0.9, 1.0, 1.1]).unwrap(), "fifo"));
        cases.add("rounds on one side", compared(Spread::of([0.8, 0.9]).unwrap(), "fifo"));
        cases.check("sweep-conclusions");
    }
}
