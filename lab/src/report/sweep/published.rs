//! The published figures, compared with this machine's.
//!
//! Only ratios are compared: the CPUs, the server and the decade differ. The rounds alone decide whether a claim holds:
//! on which side of "no difference" they are, and how far.

use super::analysis::{Curve, Panel, ratio, switches_per_s, switches_per_statement, throughput};
use crate::results::claims::Verdict;
use crate::results::published::Flifo2009;
use crate::support::format::with_range;
use crate::support::statistics::Spread;

/// Fewer connections than these say nothing about a claim on many: with 64 the published server that collapses is still
/// at its peak.
const MANY_CONNECTIONS: u32 = 128;

/// A published claim and this run's figures.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) claim: &'static str,
    /// `None` if the source prints no such figure.
    pub(crate) published: Option<f64>,
    pub(crate) measured: Option<Spread>,
    pub(crate) verdict: Option<Verdict>,
    /// The verdict in plain words, or what is missing.
    pub(crate) reason: &'static str,
    /// The comparison in a sentence.
    pub(crate) sentence: String,
}

/// Compares a panel with the published curve. Empty if the panel has neither `flifo` nor `fifo`.
pub(crate) fn compare(panel: &Panel<'_>, published: &Flifo2009) -> Vec<Comparison> {
    // The published curve is of a database, not of a load alone, and of reads.
    if panel.is_bench() || !panel.is_reading() {
        return Vec::new();
    }
    let flifo = panel.best("flifo");
    let fifo = flifo.map_or_else(|| panel.best("fifo"), |curve| panel.reference(curve, "fifo"));
    if flifo.is_none() && fifo.is_none() {
        return Vec::new();
    }
    let is_many = |threads: &u32| *threads >= MANY_CONNECTIONS;
    let threads = flifo.zip(fifo).and_then(|(a, b)| panel.last_common(a, b)).filter(is_many);
    let at_last = |figure| {
        let (flifo, fifo) = flifo.zip(fifo)?;
        let threads = threads?;
        ratio(flifo.at(threads)?, fifo.at(threads)?, figure)
    };
    let last = threads.map_or(String::new(), |threads| format!(" (with {threads} connections here)"));
    let flatness = |curve: Option<&Curve<'_>>| {
        curve.filter(|curve| is_many(&curve.last().key.threads)).and_then(Curve::flatness)
    };
    vec![
        gain(at_last(throughput), published, &last),
        flat(flatness(flifo), published),
        falling(flatness(fifo), published),
        fewer_switches(at_last(switches_per_s), published, &last),
        switches_each(at_last(switches_per_statement), &last),
    ]
}

// Why no verdict is given.
const ONE_ROUND: &str = "a single round has no spread: --rounds 3";
const NOT_BOTH: &str = "not measured here: it takes flifo and fifo with 128 connections or more";
const NO_FLIFO: &str =
    "not measured here: it takes flifo with 128 connections or more, and with fewer, 8 at least";
const NO_FIFO: &str =
    "not measured here: it takes fifo with 128 connections or more, and with fewer, 8 at least";

fn gain(measured: Option<Spread>, published: &Flifo2009, last: &str) -> Comparison {
    let figure = published.flifo.last_per_s() / published.original.last_per_s();
    let verdict = Verdict::of_ratio(measured, figure);
    let tail = match verdict {
        Verdict::Holds => "FLIFO is clearly faster here too",
        Verdict::HoldsWeaker => "FLIFO is faster here too, by less",
        Verdict::NoClearDifference => "the rounds here show no clear difference",
        Verdict::DoesNotHold => "FLIFO is not faster here",
        Verdict::Inconclusive => ONE_ROUND,
        Verdict::NotMeasured => NOT_BOTH,
    };
    Comparison {
        claim: "throughput, flifo / fifo, most connections",
        published: Some(figure),
        measured,
        verdict: Some(verdict),
        reason: tail,
        sentence: sentence(
            format!("FLIFO does {figure:.2} times FIFO's work as published{last}"),
            measured,
            tail,
        ),
    }
}

fn flat(measured: Option<Spread>, published: &Flifo2009) -> Comparison {
    let figure = published.flifo.flatness();
    let verdict = Verdict::of_constancy(measured, figure);
    let tail = match verdict {
        Verdict::Holds | Verdict::HoldsWeaker => "it stays level here too",
        Verdict::NoClearDifference => "some rounds reach the published mark and some do not",
        Verdict::DoesNotHold => "it keeps less of its peak here",
        Verdict::Inconclusive => ONE_ROUND,
        Verdict::NotMeasured => NO_FLIFO,
    };
    Comparison {
        claim: "flifo, last point / peak",
        published: Some(figure),
        measured,
        verdict: Some(verdict),
        reason: tail,
        sentence: sentence(format!("FLIFO keeps {figure:.2} of its peak as published"), measured, tail),
    }
}

fn falling(measured: Option<Spread>, published: &Flifo2009) -> Comparison {
    let figure = published.original.flatness();
    let verdict = Verdict::of_fall(measured, figure);
    let tail = match verdict {
        Verdict::Holds => "it collapses here too",
        Verdict::HoldsWeaker => "it falls here too, by less",
        Verdict::NoClearDifference => "some rounds fall and some do not",
        Verdict::DoesNotHold => "it does not fall here",
        Verdict::Inconclusive => ONE_ROUND,
        Verdict::NotMeasured => NO_FIFO,
    };
    Comparison {
        claim: "fifo, last point / peak",
        published: Some(figure),
        measured,
        verdict: Some(verdict),
        reason: tail,
        sentence: sentence(format!("FIFO falls to {figure:.2} of its peak as published"), measured, tail),
    }
}

fn fewer_switches(measured: Option<Spread>, published: &Flifo2009, last: &str) -> Comparison {
    let figure =
        published.flifo.vmstat.context_switches_per_s / published.original.vmstat.context_switches_per_s;
    let verdict = Verdict::of_ratio(measured, figure);
    let tail = match verdict {
        Verdict::Holds => "the machine switches far less here too",
        Verdict::HoldsWeaker => "it switches less here too, by a smaller step",
        Verdict::NoClearDifference => "the rounds here show no clear difference",
        Verdict::DoesNotHold => "it does not switch less in a second here",
        Verdict::Inconclusive => ONE_ROUND,
        Verdict::NotMeasured => NOT_BOTH,
    };
    Comparison {
        claim: "context switches per second, flifo / fifo",
        published: Some(figure),
        measured,
        verdict: Some(verdict),
        reason: tail,
        sentence: sentence(
            format!("Context switches per second are {figure:.2} of FIFO's as published{last}"),
            measured,
            tail,
        ),
    }
}

fn switches_each(measured: Option<Spread>, last: &str) -> Comparison {
    Comparison {
        claim: "context switches per statement, flifo / fifo",
        published: None,
        measured,
        verdict: None,
        reason: "",
        sentence: match measured {
            Some(share) => format!(
                "Per statement FLIFO needs {} of FIFO's context switches{last}; no such figure was published.",
                with_range(share)
            ),
            None => "Context switches per statement were not measured for both here.".into(),
        },
    }
}

fn sentence(published: String, measured: Option<Spread>, tail: &str) -> String {
    match measured {
        Some(spread) => format!("{published}, {} here: {tail}.", with_range(spread)),
        None => format!("{published}; {tail}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sweep::{analysis, fixture};

    fn spread(min: f64, median: f64, max: f64) -> Option<Spread> {
        Some(Spread { median, min, max, deviation: 0.0, count: 5 })
    }

    #[test]
    fn a_run_without_fifo_says_so() {
        let mut results = fixture::results();
        results.cells.retain(|cell| cell.key.policy != "fifo");
        let panels = analysis::panels(&results);
        let comparisons = compare(&panels[0], &Flifo2009::load());
        assert_eq!(comparisons[0].verdict, Some(Verdict::NotMeasured));
        let sentence = &comparisons[0].sentence;
        assert!(
            sentence.ends_with("not measured here: it takes flifo and fifo with 128 connections or more."),
            "{sentence}"
        );
        assert_eq!(comparisons[1].verdict, Some(Verdict::Holds));
    }

    /// The verdicts of a run with this many of the made-up run's rounds, and with these connections only.
    fn verdicts(threads: &[u32], rounds: usize) -> Vec<Verdict> {
        let mut results = fixture::results();
        results.cells.retain(|cell| threads.contains(&cell.key.threads));
        results.cells.iter_mut().for_each(|cell| cell.rounds.truncate(rounds));
        let panels = analysis::panels(&results);
        compare(&panels[0], &Flifo2009::load()).iter().filter_map(|comparison| comparison.verdict).collect()
    }

    #[test]
    fn few_connections_or_a_single_usable_point_give_no_verdict() {
        let none = [Verdict::NotMeasured; 4];
        for few in [&[1][..], &[8], &[1, 8], &[1, 2, 4], &[8, 16, 64]] {
            assert_eq!(verdicts(few, 5), none, "{few:?}");
        }
        // A peak sought among one point is that point: nothing is known of a fall.
        for one in [&[1024][..], &[1, 1024], &[1, 4, 128]] {
            let verdicts = verdicts(one, 5);
            assert_eq!(verdicts[1..3], none[..2], "{one:?}");
            assert!(![verdicts[0], verdicts[3]].contains(&Verdict::NotMeasured), "{one:?}");
        }
        assert!(!verdicts(&[16, 1024], 5).contains(&Verdict::NotMeasured));
        let published = Flifo2009::load();
        let fallen = published.threads.iter().zip(&published.original.transactions_per_s);
        let (at, _) = fallen.max_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap();
        assert!(*at < MANY_CONNECTIONS, "the published peak is at {at}");
        assert!(
            [NOT_BOTH, NO_FLIFO, NO_FIFO].iter().all(|why| why.contains(&format!(" {MANY_CONNECTIONS} ")))
        );
    }

    #[test]
    fn a_single_round_gives_no_verdict() {
        assert_eq!(verdicts(&[16, 1024], 1), [Verdict::Inconclusive; 4]);
        assert!(!verdicts(&[16, 1024], 2).contains(&Verdict::Inconclusive));
        let mut one = spread(1.0, 1.0, 1.0).unwrap();
        one.count = 1;
        let level = falling(Some(one), &Flifo2009::load());
        assert_eq!(level.verdict, Some(Verdict::Inconclusive));
        assert!(level.sentence.ends_with("1.00 (one round) here: a single round has no spread: --rounds 3."));
    }
}
