//! The verdict on a claim, from the figures and their spread alone.
//!
//! A claim covers several settings (numbers of processes, block sizes, doublings). In each of them the rounds are above
//! a threshold, below it, or on both sides. A claim about all of them holds if more than half are above and none below;
//! it does not hold if half or more are below. Anything else is inconclusive, with the reason.

use crate::results::claims::Verdict;
use crate::support::statistics::Spread;

/// A ratio in one setting.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    /// `1 to 2 files, 4K, 16 processes`.
    pub(super) name: String,
    pub(super) ratio: Spread,
}

/// The verdict, and the counts that it follows from.
pub(super) fn judge(settings: &[Setting], mark: f64) -> (Verdict, String) {
    if settings.is_empty() {
        return (Verdict::Inconclusive, "it was not measured".into());
    }
    if settings.iter().any(|setting| setting.ratio.count < 2) {
        return (Verdict::Inconclusive, "a single round has no spread: --rounds 3".into());
    }
    let all = settings.len();
    let above = settings.iter().filter(|setting| setting.ratio.min >= mark).count();
    let below: Vec<&Setting> = settings.iter().filter(|setting| setting.ratio.max < mark).collect();
    let between = all - above - below.len();
    let mut counts =
        format!("all rounds above {mark:.2} in {above} of {all} settings, all below in {}", below.len());
    if between > 0 {
        counts += &format!(", on both sides in {between}");
    }
    if let Some(lowest) = below.iter().min_by(|a, b| a.ratio.median.total_cmp(&b.ratio.median)) {
        counts += &format!("; lowest {:.2} ({})", lowest.ratio.median, lowest.name);
    }
    let verdict = if below.is_empty() && 2 * above > all {
        Verdict::Holds
    } else if 2 * below.len() >= all {
        Verdict::DoesNotHold
    } else {
        Verdict::Inconclusive
    };
    (verdict, counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(min: f64, median: f64, max: f64) -> Setting {
        Setting { name: format!("{median}"), ratio: Spread { median, min, max, deviation: 0.0, count: 3 } }
    }

    #[test]
    fn verdicts_by_hand() {
        let (high, low, both) = (setting(1.8, 1.9, 2.0), setting(1.0, 1.1, 1.2), setting(1.2, 1.5, 1.9));
        let verdict =
            |settings: &[&Setting]| judge(&settings.iter().map(|s| (*s).clone()).collect::<Vec<_>>(), 1.41).0;
        assert_eq!(verdict(&[&high, &high]), Verdict::Holds);
        assert_eq!(verdict(&[&high, &high, &both]), Verdict::Holds);
        assert_eq!(verdict(&[&high, &both]), Verdict::Inconclusive, "half is not more than half");
        assert_eq!(verdict(&[&high, &high, &low]), Verdict::Inconclusive, "one counterexample spoils it");
        assert_eq!(verdict(&[&high, &low]), Verdict::DoesNotHold);
        assert_eq!(verdict(&[&low, &both]), Verdict::DoesNotHold);
        assert_eq!(verdict(&[&both]), Verdict::Inconclusive);
        assert_eq!(verdict(&[]), Verdict::Inconclusive);
    }

    #[test]
    fn a_single_round_tells_nothing() {
        let mut one = setting(2.0, 2.0, 2.0);
        one.ratio.count = 1;
        let (verdict, because) = judge(&[one], 1.41);
        assert!(verdict == Verdict::Inconclusive && because.contains("--rounds 3"), "{because}");
    }

    #[test]
    fn the_reason_names_the_worst() {
        let (_, because) =
            judge(&[setting(1.8, 1.9, 2.0), setting(0.7, 0.8, 0.9), setting(1.0, 1.1, 1.2)], 1.41);
        assert_eq!(because, "all rounds above 1.41 in 1 of 3 settings, all below in 2; lowest 0.80 (0.8)");
    }
}
