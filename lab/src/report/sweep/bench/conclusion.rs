//! The conclusion for a load, in plain sentences computed from the rounds.

use super::{against_best_peer, best_peer, fewest_share, highest, longest_against_fifo, policies};
use crate::report::sweep::analysis::Panel;
use crate::support::format::{compared, count, with_range};

/// Sentences about the highest number of threads.
pub(in crate::report::sweep) fn conclusion(panel: &Panel<'_>) -> String {
    let Some(&threads) = panel.threads.last() else { return String::new() };
    let Some((curve, cell)) = highest(policies(panel).filter(|curve| curve.is_own_policy()), threads) else {
        return best_peer(panel, threads).map_or_else(String::new, |(peer, cell)| {
            format!(
                "With {threads} threads {} does most, {} statements per second.",
                peer.label,
                count(cell.throughput().map_or(0.0, |t| t.median))
            )
        });
    };
    let per_s = count(cell.throughput().map_or(0.0, |t| t.median));
    let mut text = format!(
        "With {threads} threads {} does most of the policies, {per_s} statements per second",
        curve.label
    );
    if let Some(gain) = against_best_peer(panel, curve, threads)
        && let Some((peer, _)) = best_peer(panel, threads)
    {
        text += &format!(": {} (the best peer)", compared(gain, &peer.label));
    }
    text.push('.');
    if let Some(flatness) = curve.flatness_at(threads) {
        let peak = curve.peak().key.threads;
        text += &if peak == threads {
            " That is its peak.".to_owned()
        } else {
            format!(" From its peak at {peak} it keeps {:.0}%.", 100.0 * flatness.median)
        };
    }
    let longest = longest_against_fifo(panel, curve, threads).filter(|_| curve.policy != "fifo");
    let longest = longest.map(|longest| format!("its longest wait is {} times fifo's", with_range(longest)));
    let fewest = cell.spread(fewest_share);
    let fewest =
        fewest.map(|share| format!("its slowest thread gets {:.0}% of the mean", 100.0 * share.median));
    let served = longest.into_iter().chain(fewest).collect::<Vec<_>>().join(", and ");
    if let Some(first) = served.chars().next() {
        text += &format!(" {}{}.", first.to_uppercase(), &served[first.len_utf8()..]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Cases;
    use crate::report::sweep::{analysis, fixture};

    #[test]
    fn sentences_follow_from_the_rounds() {
        let mut results = fixture::bench();
        let mut cases = Cases::default();
        cases.add("policies and peers", conclusion(&analysis::panels(&results)[0]));
        results.cells.retain(|cell| cell.key.target == "peer");
        cases.add("peers alone", conclusion(&analysis::panels(&results)[0]));
        results.cells.retain(|cell| cell.key.policy == "none");
        let panels = analysis::panels(&results);
        assert_eq!(panels.len(), 2);
        cases.add("no limit alone", conclusion(&panels[0]));
        cases.check("bench-conclusions");
    }
}
