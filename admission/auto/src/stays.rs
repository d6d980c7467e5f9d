//! How long threads stay on their slots.
//!
//! Where short statements run among long ones, a change of the limit shows in two steps. Short statements take the new slots at once, or
//! leave them first; long ones follow only as they end and begin. Until then a larger limit does more statements than it will, and a
//! smaller one fewer. So a block is counted only after the long stays of before have left.

/// Classes of length: up to a microsecond, up to two, up to four and so on.
const CLASSES: usize = 32;
/// The share of the time on slots that may be in longer stays than those waited for.
const LONGER: f64 = 0.05;
/// Stays this many times as long as the mean are long ones. Stays that are all of one kind, of exponential length, spend a twentieth of
/// their time in stays of five times the mean.
const LONG: f64 = 8.0;
/// Stays that must have been seen.
const SEEN_MIN: f64 = 32.0;
/// Time after which a stay counts for a third, ns.
const MEMORY_NS: f64 = 60e9;

/// Stays that ended since the start, by length; a sample of them suffices. Collected from pairs of a length in ns and the number of stays
/// of about that length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stays([u64; CLASSES]);

impl Stays {
    #[cfg(test)]
    pub(super) fn add(&mut self, lengths_ns: impl Iterator<Item = u64>) {
        lengths_ns.for_each(|ns| self.0[class(ns)] += 1);
    }
}

impl FromIterator<(u64, u64)> for Stays {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(stays: I) -> Self {
        let mut all = Stays::default();
        for (ns, count) in stays {
            all.0[class(ns)] += count;
        }
        all
    }
}

fn class(ns: u64) -> usize {
    let bits = u64::BITS - (ns >> 10).leading_zeros();
    (bits as usize).min(CLASSES - 1)
}

/// About the length of the stays of a class, ns: the middle of its bounds.
fn length_ns(class: usize) -> f64 {
    768.0 * f64::from(1u32 << class)
}

/// The stays of the last minute or so.
#[derive(Debug, Default)]
pub(super) struct Recent([f64; CLASSES]);

impl Recent {
    /// Takes what has ended in `passed_ns`.
    pub(super) fn add(&mut self, now: &Stays, before: &Stays, passed_ns: u64) {
        let keep = (-(passed_ns as f64) / MEMORY_NS).exp();
        for (recent, (now, before)) in self.0.iter_mut().zip(now.0.iter().zip(&before.0)) {
            *recent = *recent * keep + now.saturating_sub(*before) as f64;
        }
    }

    /// The length of the long stays, ns, if some are long.
    pub(super) fn long_ns(&self) -> Option<f64> {
        let seen: f64 = self.0.iter().sum();
        let times = self.0.iter().enumerate().map(|(class, count)| (length_ns(class), count * length_ns(class)));
        let all_ns: f64 = times.clone().map(|(_, ns)| ns).sum();
        let mut longer_ns = 0.0;
        let (long_ns, _) = times.rev().find(|(_, ns)| {
            longer_ns += ns;
            longer_ns > LONGER * all_ns
        })?;
        (seen >= SEEN_MIN && long_ns >= LONG * all_ns / seen).then_some(long_ns)
    }
}
