//! The record of `flifo experiment`: the claims with their verdicts.

use flifo_record::{Claim as Recorded, Record, Scale};

use crate::results::claims::Claim;

/// A run of a study, as its record describes it.
pub(crate) struct Run<'a> {
    pub(crate) command_line: &'a str,
    pub(crate) started_at: &'a str,
    /// How much of the study was run; empty if unknown.
    pub(crate) scale: &'a str,
    pub(crate) claims: &'a [Claim],
}

/// The record of a study's run.
pub(crate) fn of_experiment(run: &Run<'_>) -> Record {
    let mut record = Record::begin("", run.command_line, Scale::Threads);
    record.date = Some(run.started_at.into());
    if !run.scale.is_empty() {
        record.settings.insert("scale".into(), format!("scale {}", run.scale));
    }
    let recorded = |claim: &Claim| Recorded {
        claim: claim.claim.clone(),
        compared: claim.compared.clone(),
        published: claim.published,
        median: claim.here_median,
        low: claim.here_low,
        high: claim.here_high,
        n: Some(claim.here_count).filter(|count| *count > 0),
        verdict: claim.verdict.words().into(),
    };
    record.claims = run.claims.iter().map(recorded).collect();
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::claims::Verdict;
    use crate::support::statistics::Spread;

    #[test]
    fn a_claim_is_recorded_with_its_figures_and_verdict() {
        let measured = Spread::of([1.0, 2.0, 4.0]);
        let claims = [
            Claim::new("more", "a / b", Some(3.0), measured, Verdict::Holds),
            Claim::new("less", "b / a", None, None, Verdict::NotMeasured),
        ];
        let run = Run { command_line: "flifo", started_at: "now", scale: "quick", claims: &claims };
        let record = of_experiment(&run);
        assert_eq!((record.settings["scale"].as_str(), record.command.as_str()), ("scale quick", "flifo"));
        let [more, less] = &record.claims[..] else { panic!("{:?}", record.claims) };
        assert_eq!(
            (more.published, more.median, more.high, more.n),
            (Some(3.0), Some(2.0), Some(4.0), Some(3))
        );
        assert_eq!((more.verdict.as_str(), less.verdict.as_str()), ("holds here", "not measured"));
        assert_eq!((less.median, less.n), (None, None));
    }
}
