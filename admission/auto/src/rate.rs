//! Whether the rate of work has changed since the arm in force was chosen.

use super::Arm;

/// A change beyond this factor counts, if several blocks in succession show it.
const FACTOR: f64 = 1.4;
/// How many. Without a limit it may be a collapse. With the limit there is no hurry, and a thousand clients in step, such as after a
/// collapse, make the rate of a single block uneven.
const REPEATS_OPEN: u32 = 2;
const REPEATS_LIMITED: u32 = 10;
/// Blocks over which the reference is averaged.
const BLOCKS: f64 = 8.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Change {
    #[default]
    None,
    Rose,
    Fell,
}

/// Works on natural logarithms of rates.
#[derive(Debug, Default)]
pub(super) struct Rate {
    reference: Option<f64>,
    last: Change,
    repeats: u32,
}

impl Rate {
    /// Forgets the reference: another arm is in force, or another unit of work.
    pub(super) fn forget(&mut self) {
        *self = Rate::default();
    }

    /// Takes a block of the arm in force.
    pub(super) fn add(&mut self, arm: Arm, log_rate: f64) -> Change {
        let Some(reference) = &mut self.reference else {
            self.reference = Some(log_rate);
            return Change::None;
        };
        let change = match log_rate - *reference {
            gain if gain > FACTOR.ln() => Change::Rose,
            gain if gain < -FACTOR.ln() => Change::Fell,
            gain => {
                *reference += gain / BLOCKS;
                Change::None
            }
        };
        self.repeats = if change == self.last { self.repeats + 1 } else { 1 };
        self.last = change;
        let needed = if arm == Arm::Open { REPEATS_OPEN } else { REPEATS_LIMITED };
        if self.repeats >= needed { change } else { Change::None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_in_succession_make_a_change() {
        let mut rate = Rate::default();
        let mut changes =
            |rates: &[f64]| rates.iter().map(|x| rate.add(Arm::Open, x.ln())).collect::<Vec<_>>();
        let none = Change::None;
        assert_eq!(changes(&[100.0, 120.0, 50.0, 110.0, 50.0]), [none; 5]);
        assert_eq!(changes(&[50.0, 160.0, 160.0]), [Change::Fell, none, Change::Rose]);
        let mut rate = Rate::default();
        rate.add(Arm::Limited, 0.0);
        let after = (1..20).find(|_| rate.add(Arm::Limited, -1.0) == Change::Fell);
        assert_eq!(after, Some(REPEATS_LIMITED));
    }
}
