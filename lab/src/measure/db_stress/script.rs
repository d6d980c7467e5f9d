//! The reads and writes of a user.

use super::population::HISTORY_ROWS;
use crate::measure::workload::{Random, stream};

/// The names of the two kinds of transactions.
pub const KINDS: [&str; 2] = ["read", "write"];

/// The input of a transaction: an object, and rows of its history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    Read { object: u32 },
    Write { object: u32, moved: u32, updated: u32 },
}

impl Input {
    /// Its kind's place in [`KINDS`].
    pub(crate) fn kind(self) -> usize {
        usize::from(matches!(self, Input::Write { .. }))
    }
}

/// What all users of a cell do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScriptOf {
    pub(crate) objects: u32,
    /// Reads for each write; 0: no writes.
    pub(crate) reads_per_write: u32,
    pub(crate) seed: u64,
    pub(crate) round: u32,
}

/// The endless sequence of one user's transactions. Seed, round and user determine it.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) random: Random,
    of: ScriptOf,
    /// Reads until the next write.
    reads_left: u32,
}

impl Script {
    /// The sequence of `user`.
    pub(crate) fn new(of: &ScriptOf, user: u32) -> Self {
        let mut random = stream(of.seed, 1 << 60 | u64::from(of.round) << 32 | u64::from(user));
        // Users do not write all at once.
        let reads_left = random.one_to(of.reads_per_write + 1) - 1;
        Script { random, of: *of, reads_left }
    }

    /// The next input.
    pub(crate) fn next_input(&mut self) -> Input {
        let object = self.random.one_to(self.of.objects);
        if self.of.reads_per_write == 0 {
            return Input::Read { object };
        }
        match self.reads_left.checked_sub(1) {
            Some(left) => {
                self.reads_left = left;
                Input::Read { object }
            }
            None => {
                self.reads_left = self.of.reads_per_write;
                let [moved, updated] = [(); 2].map(|()| self.random.one_to(HISTORY_ROWS));
                Input::Write { object, moved, updated }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_write_has_its_reads() {
        for (reads_per_write, writes) in [(0, 0), (1, 500), (4, 200)] {
            let of = ScriptOf { objects: 10, reads_per_write, seed: 1, round: 0 };
            let mut script = Script::new(&of, 3);
            let found = (0..1_000).filter(|_| script.next_input().kind() == 1).count();
            assert!(found.abs_diff(writes) <= 1, "{reads_per_write}: {found}");
        }
    }
}
