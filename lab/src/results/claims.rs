//! A published claim beside this machine's figures, and the verdict on it.
//!
//! Only ratios are judged: the CPUs, the server and the decade differ. A verdict follows from the rounds alone: on which
//! side of the mark they are, and how far. Every claim can fail both ways.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::support::statistics::Spread;

/// What the rounds say about a claim.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every round on the published side, and at least half the published size.
    Holds,
    /// Every round on the published side, but a smaller effect.
    HoldsWeaker,
    /// Some rounds are above the mark, some below.
    NoClearDifference,
    /// Every round on the other side.
    DoesNotHold,
    /// A single round has no spread, or settings disagree.
    Inconclusive,
    /// The run has no cells for it.
    #[default]
    NotMeasured,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Verdict; 6] = [
        Verdict::Holds,
        Verdict::HoldsWeaker,
        Verdict::NoClearDifference,
        Verdict::DoesNotHold,
        Verdict::Inconclusive,
        Verdict::NotMeasured,
    ];

    /// The verdict in words, for tables.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Holds => "holds here",
            Verdict::HoldsWeaker => "holds, but weaker",
            Verdict::NoClearDifference => "no clear difference",
            Verdict::DoesNotHold => "does not hold here",
            Verdict::Inconclusive => "inconclusive",
            Verdict::NotMeasured => "not measured",
        }
    }

    /// For a ratio that is published as `published`, above or below 1. Half of an effect is half of its logarithm, so
    /// that it means the same above and below 1.
    pub fn of_ratio(measured: Option<Spread>, published: f64) -> Verdict {
        Self::of_effect(measured, published.ln().signum(), published.ln().abs() / 2.0)
    }

    /// For "more" or "less" without a figure: on which side of 1 the rounds are.
    pub fn of_side(measured: Option<Spread>, is_more: bool) -> Verdict {
        Self::of_effect(measured, if is_more { 1.0 } else { -1.0 }, 0.0)
    }

    fn of_effect(measured: Option<Spread>, side: f64, enough: f64) -> Verdict {
        let Some(measured) = measured else { return Verdict::NotMeasured };
        if measured.count < 2 {
            return Verdict::Inconclusive;
        }
        let (low, high) = (measured.min.ln() * side, measured.max.ln() * side);
        let (nearest, farthest) = (low.min(high), low.max(high));
        if farthest <= 0.0 {
            Verdict::DoesNotHold
        } else if nearest <= 0.0 {
            Verdict::NoClearDifference
        } else if measured.median.ln() * side >= enough {
            Verdict::Holds
        } else {
            Verdict::HoldsWeaker
        }
    }

    /// For "stays constant": the share of the peak that was published is the mark to reach.
    pub fn of_constancy(measured: Option<Spread>, published: f64) -> Verdict {
        match measured {
            None => Verdict::NotMeasured,
            Some(share) if share.count < 2 => Verdict::Inconclusive,
            Some(share) if share.median >= published => Verdict::Holds,
            Some(share) if share.max >= published => Verdict::NoClearDifference,
            Some(_) => Verdict::DoesNotHold,
        }
    }

    /// For "falls to this share of the peak": a last point that is the peak does not fall.
    pub fn of_fall(measured: Option<Spread>, published: f64) -> Verdict {
        match measured {
            Some(share) if share.count > 1 && share.min >= 1.0 => Verdict::DoesNotHold,
            _ => Self::of_ratio(measured, published),
        }
    }

    /// For "hardly changes": the median ratio stays within `factor` of 1, and so do all rounds, or most.
    pub fn of_sameness(measured: Option<Spread>, factor: f64) -> Verdict {
        let is_within = |ratio: f64| ratio.ln().abs() <= factor.ln();
        match measured {
            None => Verdict::NotMeasured,
            Some(ratio) if ratio.count < 2 => Verdict::Inconclusive,
            Some(ratio) if is_within(ratio.min) && is_within(ratio.max) => Verdict::Holds,
            Some(ratio) if is_within(ratio.median) => Verdict::HoldsWeaker,
            Some(ratio) if is_within(ratio.min) || is_within(ratio.max) => Verdict::NoClearDifference,
            Some(_) => Verdict::DoesNotHold,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// A published claim, this run's figures, and the verdict.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Claim {
    /// The claim as published.
    pub claim: String,
    /// What is compared: a ratio in words.
    pub compared: String,
    /// The published ratio; `null` if the source prints no figure.
    pub published: Option<f64>,
    /// The ratio here, median of the rounds or settings; `null` if it was not measured.
    pub here_median: Option<f64>,
    /// The lowest round or setting.
    pub here_low: Option<f64>,
    /// The highest round or setting.
    pub here_high: Option<f64>,
    /// Number of rounds or settings.
    pub here_count: u32,
    /// The verdict: `holds`, `holds-weaker`, `no-clear-difference`, `does-not-hold`, `inconclusive` or `not-measured`.
    #[schemars(with = "String")]
    pub verdict: Verdict,
    /// Why the verdict is so, or what is missing; empty if the figures say it.
    pub because: String,
}

impl Claim {
    /// A claim with this run's figures.
    pub fn new(
        claim: impl Into<String>,
        compared: impl Into<String>,
        published: Option<f64>,
        measured: Option<Spread>,
        verdict: Verdict,
    ) -> Self {
        Claim {
            claim: claim.into(),
            compared: compared.into(),
            published,
            here_median: measured.map(|spread| spread.median),
            here_low: measured.map(|spread| spread.min),
            here_high: measured.map(|spread| spread.max),
            here_count: measured.map_or(0, |spread| spread.count as u32),
            verdict,
            because: String::new(),
        }
    }

    /// The same with a reason.
    #[must_use]
    pub fn because(self, because: impl Into<String>) -> Self {
        Claim { because: because.into(), ..self }
    }

    /// The figures here.
    pub fn measured(&self) -> Option<Spread> {
        Some(Spread {
            median: self.here_median?,
            min: self.here_low?,
            max: self.here_high?,
            deviation: 0.0,
            count: self.here_count as usize,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(min: f64, median: f64, max: f64) -> Option<Spread> {
        Some(Spread { median, min, max, deviation: 0.0, count: 5 })
    }

    #[test]
    fn ratios_by_hand() {
        assert_eq!(Verdict::of_ratio(spread(1.9, 2.0, 2.2), 2.5), Verdict::Holds);
        assert_eq!(Verdict::of_ratio(spread(1.2, 1.3, 1.4), 2.5), Verdict::HoldsWeaker);
        assert_eq!(Verdict::of_ratio(spread(0.9, 1.3, 1.4), 2.5), Verdict::NoClearDifference);
        assert_eq!(Verdict::of_ratio(spread(0.8, 0.9, 1.0), 2.5), Verdict::DoesNotHold);
        assert_eq!(Verdict::of_ratio(None, 2.5), Verdict::NotMeasured);
        // The same effect below 1: 0.28 is 1/3.57, half of it in logarithms is 0.53.
        assert_eq!(Verdict::of_ratio(spread(0.4, 0.5, 0.6), 0.28), Verdict::Holds);
        assert_eq!(Verdict::of_ratio(spread(0.5, 0.6, 0.7), 0.28), Verdict::HoldsWeaker);
        assert_eq!(Verdict::of_ratio(spread(1.1, 1.2, 1.3), 0.28), Verdict::DoesNotHold);
    }

    #[test]
    fn sides_constancy_falls_and_sameness_by_hand() {
        assert_eq!(Verdict::of_side(spread(1.01, 1.1, 1.2), true), Verdict::Holds);
        assert_eq!(Verdict::of_side(spread(1.01, 1.1, 1.2), false), Verdict::DoesNotHold);
        assert_eq!(Verdict::of_side(spread(0.9, 1.1, 1.2), true), Verdict::NoClearDifference);
        assert_eq!(Verdict::of_constancy(spread(0.8, 0.9, 0.95), 0.887), Verdict::Holds);
        assert_eq!(Verdict::of_constancy(spread(0.8, 0.85, 0.95), 0.887), Verdict::NoClearDifference);
        assert_eq!(Verdict::of_constancy(spread(0.7, 0.8, 0.85), 0.887), Verdict::DoesNotHold);
        assert_eq!(Verdict::of_fall(spread(1.0, 1.0, 1.0), 0.387), Verdict::DoesNotHold);
        assert_eq!(Verdict::of_fall(spread(0.3, 0.4, 0.5), 0.387), Verdict::Holds);
        assert_eq!(Verdict::of_sameness(spread(0.9, 1.0, 1.4), 1.5), Verdict::Holds);
        assert_eq!(Verdict::of_sameness(spread(0.5, 1.0, 2.0), 1.5), Verdict::HoldsWeaker);
        assert_eq!(Verdict::of_sameness(spread(1.0, 1.6, 2.0), 1.5), Verdict::NoClearDifference);
        assert_eq!(Verdict::of_sameness(spread(0.25, 0.5, 0.5), 1.5), Verdict::DoesNotHold);
    }

    #[test]
    fn a_single_round_decides_nothing() {
        let one = spread(2.0, 2.0, 2.0).map(|spread| Spread { count: 1, ..spread });
        for verdict in [
            Verdict::of_ratio(one, 2.0),
            Verdict::of_side(one, true),
            Verdict::of_constancy(one, 0.5),
            Verdict::of_fall(one, 0.5),
            Verdict::of_sameness(one, 3.0),
        ] {
            assert_eq!(verdict, Verdict::Inconclusive);
        }
    }

    #[test]
    fn a_claim_keeps_its_figures() {
        let claim = Claim::new("c", "a / b", Some(2.0), spread(1.0, 2.0, 3.0), Verdict::Holds).because("x");
        assert_eq!(claim.measured(), spread(1.0, 2.0, 3.0));
        let json = serde_json::to_string(&claim).unwrap();
        assert_eq!(serde_json::from_str::<Claim>(&json).unwrap(), claim);
        assert!(json.contains("\"holds\""), "{json}");
        assert_eq!(Claim::default().measured(), None);
    }
}
