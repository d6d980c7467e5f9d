//! Claims of a published study beside a machine's figures, and the table that shows them.

use serde::{Deserialize, Serialize};

use crate::Record;
use crate::table::Lines;

/// What the blocks and records of studies begin with: `experiment-flifo-2009`.
pub(crate) const PREFIX: &str = "experiment-";

/// A published claim, the figures here, and the verdict.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The claim as published.
    pub claim: String,
    /// What is compared: a ratio in words.
    pub compared: String,
    /// The published ratio; `None` if the source prints no figure.
    pub published: Option<f64>,
    /// The ratio here, median of the rounds or settings; `None` if it was not measured.
    pub median: Option<f64>,
    /// The lowest.
    pub low: Option<f64>,
    /// The highest.
    pub high: Option<f64>,
    /// Rounds or settings.
    pub n: Option<u32>,
    /// The verdict in words.
    pub verdict: String,
}

impl Claim {
    /// `1.31 (1.28 to 1.35)`, or a dash.
    fn here(&self) -> String {
        match (self.median, self.low.zip(self.high)) {
            (Some(median), Some((low, high))) if self.n.is_some_and(|n| n > 1) => {
                format!("{median:.2} ({low:.2} to {high:.2})")
            }
            (Some(median), _) => format!("{median:.2}"),
            (None, _) => "-".into(),
        }
    }
}

/// The table of a study's record: a row for each comparison, under its claim.
pub(crate) fn render(record: &Record) -> String {
    let mut lines = Lines::default();
    lines.sources(&[(record, Vec::new())]);
    lines.row(&["claim", "compared", "published", "here", "verdict"].map(str::to_owned));
    lines.rule("|---|---|--:|--:|---|");
    let mut last = "";
    for claim in &record.claims {
        // A claim with several comparisons is written once.
        let text = if claim.claim == last { String::new() } else { claim.claim.clone() };
        last = &claim.claim;
        let published = claim.published.map_or("-".into(), |ratio| format!("{ratio:.2}"));
        lines.row(&[text, claim.compared.clone(), published, claim.here(), claim.verdict.clone()]);
    }
    lines.text
}

/// What stands in the block of a study without a record.
pub(crate) fn not_recorded(study: &str) -> String {
    format!("Not recorded yet: `flifo experiment {study} --record`.\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scale;

    #[test]
    fn a_claim_stands_once_over_its_comparisons() {
        let mut record = Record::begin("experiment-x", "flifo experiment x", Scale::Threads);
        let claim = |compared: &str, n| Claim {
            claim: "more | less".into(),
            compared: compared.into(),
            published: Some(2.5),
            median: Some(1.5),
            low: Some(1.0),
            high: Some(2.0),
            n,
            verdict: "holds here".into(),
        };
        record.claims = vec![claim("a / b", Some(3)), claim("c / d", Some(1)), Claim::default()];
        let text = render(&record);
        assert!(text.contains("`flifo experiment x`"), "{text}");
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).skip(2).collect();
        assert_eq!(rows[0], "| more \\| less | a / b | 2.50 | 1.50 (1.00 to 2.00) | holds here |");
        assert_eq!(rows[1], "| | c / d | 2.50 | 1.50 | holds here |");
        assert_eq!(rows[2], "| | | - | - | |");
    }

    #[test]
    fn a_study_without_a_record_says_how_to_make_one() {
        assert!(not_recorded("x").contains("`flifo experiment x --record`"));
    }
}
