//! Where to look next: a pattern search over the logarithm of the limit.
//!
//! From the held limit try one step up; if that does not gain, one down; if neither, halve the step. A move
//! keeps its direction, and gains that repeat double the step. Below the smallest step the search is over:
//! the limit is *settled*, and single probes of random direction and step look after it from then on.
//! (R. Hooke, T. A. Jeeves, "Direct search solution of numerical and statistical problems", J. ACM 8, 1961.)
//!
//! The pattern keeps wide steps until they fail. On a curve that only saturates, the gain of a small step
//! falls below what can be measured long before the gains that are left are small.

use super::trial::Verdict;

/// The first step, ln 2: twice or half the limit.
const STEP: f64 = std::f64::consts::LN_2;
/// The widest step: four times.
const STEP_MAX: f64 = 2.0 * STEP;
/// Steps there are, each half of the one before.
const STEPS: u32 = 4;
/// The smallest step: a fifth more.
const STEP_MIN: f64 = STEP / 4.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Searching,
    /// One comparison, then back to rest unless it gains.
    Probing,
    Settled,
}

#[derive(Debug)]
pub(super) struct Search {
    mode: Mode,
    up: bool,
    step: f64,
    /// The other direction failed at this step, or is where we came from.
    other_failed: bool,
    gains: u32,
    /// Probes since the search was over.
    probes: u32,
    /// Challengers that failed against the held limit: with small limits several steps name the same one.
    failed: Vec<u32>,
    /// What moves to smaller limits may have lost since the last proven gain, a log ratio.
    pub(super) given_away: f64,
}

impl Search {
    pub(super) fn new() -> Self {
        let (mode, failed) = (Mode::Searching, Vec::new());
        Search {
            mode,
            up: true,
            step: STEP,
            other_failed: false,
            gains: 0,
            probes: 0,
            failed,
            given_away: 0.0,
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        self.mode == Mode::Settled
    }

    pub(super) fn is_searching(&self) -> bool {
        self.mode == Mode::Searching
    }

    /// How often the widest step was halved to make this one.
    pub(super) fn halvings(&self) -> u32 {
        (STEP_MAX / self.step).log2().round() as u32
    }

    /// Opens the search again. What was given away stays on the account, or false alarms would add up.
    pub(super) fn reopen(&mut self, up: bool) {
        *self = Search { up, given_away: self.given_away, ..Search::new() };
    }

    /// Begins one probe. Probes go through all steps, the widest first, in one direction and then the other;
    /// `coin` says which is first.
    pub(super) fn probe(&mut self, coin: bool) {
        let probes = self.probes;
        let up = if probes.is_multiple_of(2) { coin } else { !self.up };
        self.reopen(up);
        self.mode = Mode::Probing;
        self.step = STEP_MAX / f64::from(1 << (probes / 2 % STEPS));
        self.probes = probes + 1;
    }

    /// The limit to compare `held` with, between `floor` and `ceiling`; nothing when settled.
    pub(super) fn challenger(&mut self, held: u32, floor: u32, ceiling: u32) -> Option<u32> {
        while self.mode != Mode::Settled {
            let moved = f64::from(held) * if self.up { self.step.exp() } else { (-self.step).exp() };
            let moved = moved.round() as u32;
            let moved = if self.up {
                moved.max(held.saturating_add(1)).min(ceiling)
            } else {
                moved.min(held.saturating_sub(1)).max(floor)
            };
            let ahead = if self.up { moved > held } else { moved < held };
            if ahead && !self.failed.contains(&moved) {
                return Some(moved);
            }
            self.turn();
        }
        None
    }

    /// Takes the verdict on `challenger`; whether it becomes the held limit.
    pub(super) fn judge(&mut self, challenger: u32, verdict: Verdict) -> bool {
        match verdict {
            Verdict::Better(gain) => {
                self.given_away = (self.given_away - gain).max(0.0);
                self.gains += 1;
                if self.gains > 1 {
                    self.step = (2.0 * self.step).min(STEP_MAX);
                }
                self.mode = Mode::Searching;
            }
            Verdict::Smaller(loss) => {
                self.given_away += loss;
                self.gains = 0;
            }
            Verdict::Worse => {
                self.failed.push(challenger);
                self.turn();
                return false;
            }
        }
        self.other_failed = true;
        self.failed.clear();
        true
    }

    fn turn(&mut self) {
        self.gains = 0;
        if self.mode == Mode::Probing {
            self.mode = Mode::Settled;
        } else if !self.other_failed {
            self.up = !self.up;
            self.other_failed = true;
        } else {
            self.step /= 2.0;
            self.other_failed = false;
            if self.step < STEP_MIN * 0.99 {
                self.mode = Mode::Settled;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_while_gains_repeat_and_shrink_at_the_top() {
        let (mut search, mut held, mut tried) = (Search::new(), 4, Vec::new());
        // The nearer to 64 the better.
        let distance = |limit: u32| (f64::from(limit) / 64.0).ln().abs();
        while let Some(challenger) = search.challenger(held, 1, 1000) {
            tried.push(challenger);
            let gain = distance(held) - distance(challenger);
            let verdict = if gain > 0.01 { Verdict::Better(gain) } else { Verdict::Worse };
            if search.judge(challenger, verdict) {
                held = challenger;
            }
        }
        assert_eq!(held, 64);
        assert_eq!(tried, [8, 16, 64, 256, 128, 32, 45, 91, 76, 54], "each limit is tried once");
        assert!(search.is_settled());
    }

    #[test]
    fn probes_take_turns_and_end_at_once() {
        let mut search = Search::new();
        search.mode = Mode::Settled;
        let tried: Vec<_> = (0..8)
            .map(|i| {
                search.probe(i % 4 == 0);
                let challenger = search.challenger(64, 1, 1000).unwrap();
                assert!(!search.judge(challenger, Verdict::Worse) && search.is_settled());
                challenger
            })
            .collect();
        assert_eq!(tried, [256, 16, 32, 128, 91, 45, 54, 76]);
    }

    #[test]
    fn what_is_given_away_stays_on_the_account() {
        let mut search = Search::new();
        assert!(search.judge(4, Verdict::Smaller(0.004)));
        search.reopen(true);
        assert!(search.judge(2, Verdict::Smaller(0.004)));
        assert_eq!(search.given_away, 0.008);
        assert!(search.judge(4, Verdict::Better(0.1)));
        assert_eq!(search.given_away, 0.0);
    }
}
