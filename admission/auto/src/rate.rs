//! Whether the rate of work has changed since the arm in force was chosen.

use super::Arm;

/// A change beyond this factor counts, if several blocks in succession show it.
const FACTOR: f64 = 1.4;
/// Each change after which the arm stayed multiplies the factor, up to this one: the load is uneven. A collapse is deeper.
const FACTOR_MAX: f64 = 4.0;
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
    /// Changes since the arm in force was chosen: how uneven the load is.
    changes: u32,
}

impl Rate {
    /// Forgets the reference: the next block is the new one.
    pub(super) fn forget(&mut self) {
        *self = Rate { changes: self.changes, ..Rate::default() };
    }

    /// Long enough without a change: smaller ones count again.
    pub(super) fn narrow(&mut self) {
        self.changes = self.changes.saturating_sub(1);
    }

    fn least_change(&self) -> f64 {
        (f64::from(self.changes + 1) * FACTOR.ln()).min(FACTOR_MAX.ln())
    }

    /// Takes a block of the arm in force.
    pub(super) fn add(&mut self, arm: Arm, log_rate: f64) -> Change {
        let least = self.least_change();
        let Some(reference) = &mut self.reference else {
            self.reference = Some(log_rate);
            return Change::None;
        };
        let change = match log_rate - *reference {
            gain if gain > least => Change::Rose,
            gain if gain < -least => Change::Fell,
            gain => {
                *reference += gain / BLOCKS;
                Change::None
            }
        };
        self.repeats = if change == self.last { self.repeats + 1 } else { 1 };
        self.last = change;
        let needed = if arm == Arm::Open { REPEATS_OPEN } else { REPEATS_LIMITED };
        if change == Change::None || self.repeats < needed {
            return Change::None;
        }
        self.changes += 1;
        change
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
        assert_eq!(changes(&[50.0]), [Change::Fell]);
        assert_eq!(changes(&[160.0, 160.0]), [none, none], "now it must be of twice as much");
        assert_eq!(changes(&[400.0, 400.0]), [none, Change::Rose]);
        assert_eq!(changes(&[20.0, 20.0]), [none, Change::Fell], "a collapse always counts");
        let mut rate = Rate::default();
        rate.add(Arm::Limited, 0.0);
        let after = (1..20).find(|_| rate.add(Arm::Limited, -1.0) == Change::Fell);
        assert_eq!(after, Some(REPEATS_LIMITED));
    }
}
