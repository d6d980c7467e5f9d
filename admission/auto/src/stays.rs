//! How long threads stay on their slots.
//!
//! Where short statements run among long ones, a change of the limit shows in two steps. Short statements take the new slots at once, or
//! leave them first; long ones follow only as they end and begin. Until then a larger limit does more statements than it will, and a
//! smaller one fewer. So a block is counted only after the long stays of before have left.

use super::Sample;

/// Classes of length: up to a microsecond, up to two, up to four and so on.
const CLASSES: usize = 32;
/// The share of the time on slots that may be in longer stays than those waited for.
const LONGER: f64 = 0.05;
/// Stays that are this many times as long as the mean are long. Stays of one kind, of exponential length, spend a twentieth of their time
/// in stays of five times the mean.
const LONG: f64 = 7.0;
/// Stays that must have been seen.
const SEEN_MIN: f64 = 128.0;
/// Stays after which those seen so far count for half.
const SEEN_MAX: f64 = 4096.0;
/// Slots taken, after which the mean of the stays is known.
const CLASSED_MIN: u64 = 64;

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

/// The last stays, by length relative to what was the mean then: all stays are longer under a larger limit. A class is
/// a power of two, and the middle one is that of the mean.
#[derive(Debug)]
pub(super) struct Recent {
    classes: [f64; 2 * CLASSES],
    /// What was seen when stays were classed last, and the time on slots since, ns.
    from: Sample,
    on_slots_ns: f64,
}

impl Recent {
    pub(super) fn new() -> Self {
        Recent { classes: [0.0; 2 * CLASSES], from: Sample::default(), on_slots_ns: 0.0 }
    }

    /// Takes what is seen; `last` is what was seen before.
    pub(super) fn add(&mut self, sample: &Sample, last: &Sample) {
        let passed_ns = sample.now_ns.saturating_sub(last.now_ns) as f64;
        self.on_slots_ns += passed_ns * f64::from(last.running);
        let slots = sample.slots.saturating_sub(self.from.slots);
        if slots < CLASSED_MIN {
            return;
        }
        let first = CLASSES - class((self.on_slots_ns / slots as f64) as u64);
        let (now, before) = (&sample.stays.0, &self.from.stays.0);
        for (count, (now, before)) in self.classes[first..].iter_mut().zip(now.iter().zip(before)) {
            *count += now.saturating_sub(*before) as f64;
        }
        if self.seen() > SEEN_MAX {
            self.classes.iter_mut().for_each(|count| *count /= 2.0);
        }
        (self.from, self.on_slots_ns) = (*sample, 0.0);
    }

    fn seen(&self) -> f64 {
        self.classes.iter().sum()
    }

    /// The length of the long stays, in means, if some are long.
    pub(super) fn long(&self) -> Option<f64> {
        // The middle of a class is three quarters of its upper bound.
        let times = self.classes.iter().enumerate().map(|(class, count)| {
            let length_max = 2f64.powi(class as i32 - CLASSES as i32);
            (length_max, 0.75 * length_max * count)
        });
        let all: f64 = times.clone().map(|(_, time)| time).sum();
        let mut longer = LONGER * all;
        let (length_max, time) = times.rev().find(|(_, time)| {
            let is_it = longer < *time;
            longer -= if is_it { 0.0 } else { *time };
            is_it
        })?;
        // Within a class, as if the time were spread evenly over its lengths.
        let long = length_max * (1.0 - 0.5 * longer / time) / (all / self.seen());
        (self.seen() >= SEEN_MIN && long >= LONG).then_some(long)
    }
}
