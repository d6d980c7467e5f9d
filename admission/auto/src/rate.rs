//! Whether the rate of work has changed since the arm in force was chosen.

/// A change beyond this factor counts, if two blocks in succession show it.
const FACTOR: f64 = 1.4;
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
}

impl Rate {
    /// Forgets the reference: another arm is in force, or another unit of work.
    pub(super) fn forget(&mut self) {
        *self = Rate::default();
    }

    /// Takes a block of the arm in force.
    pub(super) fn add(&mut self, log_rate: f64) -> Change {
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
        let repeats = change == self.last;
        self.last = change;
        if repeats { change } else { Change::None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_blocks_in_succession_make_a_change() {
        let mut rate = Rate::default();
        let mut changes = |rates: &[f64]| rates.iter().map(|x| rate.add(x.ln())).collect::<Vec<_>>();
        let none = Change::None;
        assert_eq!(changes(&[100.0, 120.0, 50.0, 110.0, 50.0]), [none; 5]);
        assert_eq!(changes(&[50.0, 160.0, 160.0]), [Change::Fell, none, Change::Rose]);
    }
}
