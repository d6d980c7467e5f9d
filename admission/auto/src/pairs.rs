//! Pairs of blocks, one of each arm, and what they decide.

use super::Arm;

/// The limit must do this much more work than no limit, a log ratio. In a comparison both arms pay for the events of a statement; without a
/// limit a server need not.
const GAIN_MIN: f64 = 0.05;
/// Pairs after which a clear result decides, and the distance from [`GAIN_MIN`] that is clear.
const CLEAR_PAIRS: usize = 3;
const CLEAR: f64 = 0.05;
/// Pairs after which the median decides.
const PAIRS: usize = 7;

/// What follows from a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Decision {
    /// Measure this arm next, for the pair under way.
    Measure(Arm),
    /// A pair is complete, and does not decide: the gain of the limit in it, a log ratio.
    Pair(f64),
    /// The comparison is decided.
    Prefer(Arm),
}

/// The pairs of one comparison. Blocks alternate A B B A, so that a steady change of the load cancels out; only the
/// limit follows a collapse.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    /// The arm under measurement, if any.
    arm: Option<Arm>,
    /// The first block of the pair under way.
    first: Option<f64>,
    gains: Vec<f64>,
}

impl Pairs {
    pub(super) fn begin(first: Arm) -> Self {
        Pairs { arm: Some(first), ..Pairs::default() }
    }

    pub(super) fn is_measuring(&self) -> bool {
        self.arm.is_some()
    }

    /// The arm with which the next pair begins: the one measured last.
    pub(super) fn next(&self) -> Arm {
        self.arm.unwrap_or(Arm::Limited)
    }

    /// Begins the next pair with this arm.
    pub(super) fn begin_next_with(&mut self, arm: Arm) {
        self.arm = Some(arm);
    }

    /// Takes the log rate of the arm under measurement.
    pub(super) fn add(&mut self, log_rate: f64) -> Decision {
        let arm = self.next();
        let Some(first) = self.first.take() else {
            self.first = Some(log_rate);
            self.arm = Some(arm.other());
            return Decision::Measure(arm.other());
        };
        let gain = if arm == Arm::Limited { log_rate - first } else { first - log_rate };
        self.gains.push(gain);
        self.decide().map_or(Decision::Pair(gain), Decision::Prefer)
    }

    fn decide(&self) -> Option<Arm> {
        let mut gains = self.gains.clone();
        gains.sort_unstable_by(f64::total_cmp);
        let (least, most) = (gains.first()?, gains.last()?);
        if gains.len() >= CLEAR_PAIRS && *least > GAIN_MIN + CLEAR {
            return Some(Arm::Limited);
        }
        if gains.len() >= CLEAR_PAIRS && *most < GAIN_MIN - CLEAR {
            return Some(Arm::Open);
        }
        (gains.len() >= PAIRS).then(|| prefers(gains[gains.len() / 2]))
    }
}

/// The arm that a gain of the limit speaks for.
pub(super) fn prefers(gain: f64) -> Arm {
    if gain > GAIN_MIN { Arm::Limited } else { Arm::Open }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arm preferred if the limit gains this much in each pair, one after the other, and after how many pairs.
    fn preferred(gains: &[f64]) -> (Arm, usize) {
        let mut pairs = Pairs::begin(Arm::Limited);
        for n in 0.. {
            let gain = gains[n % gains.len()];
            loop {
                let log_rate = if pairs.next() == Arm::Limited { gain } else { 0.0 };
                match pairs.add(log_rate) {
                    Decision::Measure(_) => {}
                    Decision::Pair(measured) => {
                        assert_eq!(measured, gain);
                        break;
                    }
                    Decision::Prefer(arm) => return (arm, n + 1),
                }
            }
        }
        unreachable!("the median decides")
    }

    #[test]
    fn clear_results_decide_early_and_the_median_later() {
        assert_eq!(preferred(&[0.2]), (Arm::Limited, 3));
        assert_eq!(preferred(&[-0.1]), (Arm::Open, 3));
        assert_eq!(preferred(&[0.03]), (Arm::Open, 7), "a tie is no reason for a limit");
        assert_eq!(preferred(&[0.07]), (Arm::Limited, 7));
        assert_eq!(preferred(&[0.5, 0.5, -0.3]), (Arm::Limited, 7), "the median");
    }

    #[test]
    fn blocks_alternate() {
        let mut pairs = Pairs::begin(Arm::Open);
        let mut arms = Vec::new();
        for _ in 0..6 {
            arms.push(pairs.next());
            pairs.add(0.0);
        }
        let (open, limited) = (Arm::Open, Arm::Limited);
        assert_eq!(arms, [open, limited, limited, open, open, limited]);
    }
}
