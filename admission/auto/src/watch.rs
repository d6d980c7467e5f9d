//! The change detector: has the work done at the held limit changed for good?
//!
//! Page's two-sided cumulative sum over windows of half a second and more: the log rate's deviation from its
//! reference, in units of its own scatter, minus an allowance, added up and never below zero. Deviations are
//! clipped, so that one burst of stolen CPU time, however deep, does not raise the alarm alone.
//!
//! Source: E. S. Page, "Continuous inspection schemes", Biometrika 41 (1954). Clipping as in P. J. Huber,
//! "Robust estimation of a location parameter", Annals of Mathematical Statistics 35 (1964).

use super::meter::Block;

const WINDOW_NS: u64 = 500_000_000;
/// Slots taken that a window should hold, if it comes within [`WINDOW_NS_MAX`].
const WINDOW_PLACES: u64 = 40;
const WINDOW_NS_MAX: u64 = 2_000_000_000;
/// Windows whose median and scatter are the first reference.
const REFERENCE: usize = 8;
/// Deviations count up to this many units of scatter.
const CLIP: f64 = 3.0;
/// The allowance per window, units of scatter.
const ALLOWANCE: f64 = 0.75;
/// The sum that is an alarm: four windows of the deepest deviation.
const ALARM: f64 = 8.0;
/// Scatter is never taken for less: a change below 3 % is none.
const SCATTER_MIN: f64 = 0.02;
/// The weight of a new window in the reference and in its scatter.
const FORGET: f64 = 1.0 / 64.0;

#[derive(Debug, Default)]
pub(super) struct Watch {
    work: u64,
    slots: u64,
    span_ns: u64,
    first: Vec<f64>,
    reference: f64,
    scatter: f64,
    above: f64,
    below: f64,
}

impl Watch {
    /// Begins anew, for another limit or after an alarm.
    pub(super) fn reset(&mut self) {
        self.first.clear();
        (self.work, self.slots, self.span_ns) = (0, 0, 0);
        (self.above, self.below) = (0.0, 0.0);
    }

    /// Takes a block measured at the held limit; whether it raises the alarm.
    pub(super) fn add(&mut self, block: &Block) -> bool {
        self.work = self.work.saturating_add(block.work);
        self.slots = self.slots.saturating_add(block.slots);
        self.span_ns = self.span_ns.saturating_add(block.span_ns);
        let full = self.span_ns >= WINDOW_NS && self.slots >= WINDOW_PLACES || self.span_ns >= WINDOW_NS_MAX;
        if !full {
            return false;
        }
        let window = Block { work: self.work, slots: self.slots, span_ns: self.span_ns, ..*block };
        (self.work, self.slots, self.span_ns) = (0, 0, 0);
        self.window(window.log_rate())
    }

    fn window(&mut self, log_rate: f64) -> bool {
        if self.first.len() < REFERENCE {
            self.first.push(log_rate);
            if self.first.len() == REFERENCE {
                self.reference = median(&mut self.first.clone());
                let mut off: Vec<f64> = self.first.iter().map(|x| (x - self.reference).abs()).collect();
                // 1.4826 makes the median deviation a standard deviation; a third more, as eight are few.
                self.scatter = (median(&mut off) * 1.4826 * 1.33).max(SCATTER_MIN);
            }
            return false;
        }
        let deviation = ((log_rate - self.reference) / self.scatter).clamp(-CLIP, CLIP);
        self.above = (self.above + deviation - ALLOWANCE).max(0.0);
        self.below = (self.below - deviation - ALLOWANCE).max(0.0);
        // The mean absolute deviation of a normal scatter is 0.8 of its standard deviation.
        self.reference += FORGET * deviation * self.scatter;
        self.scatter += FORGET * (deviation.abs() * 1.25 - 1.0) * self.scatter;
        self.scatter = self.scatter.max(SCATTER_MIN);
        self.above.max(self.below) > ALARM
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let (last, half) = (values.len() - 1, values.len() / 2);
    (values[half] + values[last - half]) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(work: u64) -> Block {
        Block { work, slots: work, span_ns: WINDOW_NS, running: 0.0, demand: 0.0 }
    }

    #[test]
    fn sees_a_change_and_no_single_burst() {
        let mut watch = Watch::default();
        let steady = |i: u64| block(1000 + i % 7 * 3);
        assert!((0..200).all(|i| !watch.add(&steady(i))), "steady");
        assert!((0..200).all(|i| !watch.add(&if i % 20 < 2 { block(500) } else { steady(i) })), "bursts");
        assert!((0..100).all(|i| !watch.add(&steady(i))), "steady again");
        let windows = (0..20).position(|i| watch.add(&block(1500 + i)));
        assert!(windows.is_some_and(|n| n < 12), "alarm after {windows:?} windows");
    }
}
