//! YCSB's core workloads, on the table of the other workloads.
//!
//! A to E are those of Cooper et al., Benchmarking Cloud Serving Systems with YCSB, SoCC 2010, table 2; F is the core
//! package's. The differences: a row has `k`, `c` and `pad` (184 bytes), not ten fields of 100; a read takes its `c`,
//! an update replaces it. An operation is a transaction; each statement commits by itself, as in YCSB's own clients, so
//! a read-modify-write is a read and an update of the same row.

use std::fmt;

use super::rng::Random;
use super::statement::Kind;

/// One of the core workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ycsb {
    /// Update heavy: half reads, half updates.
    A,
    /// Read mostly: 95 of 100 are reads, the others updates.
    B,
    /// Reads only.
    C,
    /// Read latest: 95 of 100 are reads of the latest inserts, the others insert.
    D,
    /// Short ranges: 95 of 100 are scans of 1 to 100 rows, the others insert.
    E,
    /// Half reads, half read-modify-writes.
    F,
}

/// Most rows of a short scan; their number is uniform.
pub(super) const SCAN_ROWS_MAX: u32 = 100;

impl Ycsb {
    pub(super) const ALL: [Ycsb; 6] = [Ycsb::A, Ycsb::B, Ycsb::C, Ycsb::D, Ycsb::E, Ycsb::F];

    /// The letter in its name.
    pub(super) fn letter(self) -> &'static str {
        match self {
            Ycsb::A => "a",
            Ycsb::B => "b",
            Ycsb::C => "c",
            Ycsb::D => "d",
            Ycsb::E => "e",
            Ycsb::F => "f",
        }
    }

    /// Whether it adds rows.
    pub(super) fn inserts(self) -> bool {
        matches!(self, Ycsb::D | Ycsb::E)
    }

    /// Whether its reads prefer the latest inserts.
    pub(super) fn reads_latest(self) -> bool {
        self == Ycsb::D
    }

    /// The next operation's statements.
    pub(super) fn operation(self, random: &mut Random) -> &'static [Kind] {
        let (percent, common, other): (u32, &[Kind], &[Kind]) = match self {
            Ycsb::A => (50, &[Kind::Point], &[Kind::UpdateNonIndex]),
            Ycsb::B => (95, &[Kind::Point], &[Kind::UpdateNonIndex]),
            Ycsb::C => (100, &[Kind::Point], &[]),
            Ycsb::D => (95, &[Kind::Point], &[Kind::Insert]),
            Ycsb::E => (95, &[Kind::ShortScan], &[Kind::Insert]),
            Ycsb::F => (50, &[Kind::Point], &[Kind::Point, Kind::UpdateNonIndex]),
        };
        if random.one_to(100) <= percent { common } else { other }
    }
}

impl fmt::Display for Ycsb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ycsb-{}", self.letter())
    }
}

#[cfg(test)]
mod tests {
    use super::super::rng::stream;
    use super::*;

    #[test]
    fn the_mixes_are_the_published_ones() {
        let share = |ycsb: Ycsb, kinds: &[Kind]| {
            let mut random = stream(7, 1);
            (0..20_000).filter(|_| ycsb.operation(&mut random) == kinds).count() as f64 / 20_000.0
        };
        for (ycsb, kinds, want) in [
            (Ycsb::A, &[Kind::UpdateNonIndex][..], 0.5),
            (Ycsb::B, &[Kind::UpdateNonIndex], 0.05),
            (Ycsb::C, &[Kind::Point], 1.0),
            (Ycsb::D, &[Kind::Insert], 0.05),
            (Ycsb::E, &[Kind::ShortScan], 0.95),
            (Ycsb::F, &[Kind::Point, Kind::UpdateNonIndex], 0.5),
        ] {
            let found = share(ycsb, kinds);
            assert!((found - want).abs() < 0.02, "{ycsb}: {found}");
        }
    }
}
