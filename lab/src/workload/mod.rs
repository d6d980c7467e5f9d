//! What the connections ask for.
//!
//! `point-select` is one statement a transaction. `read-only` is sysbench's OLTP read-only
//! transaction without BEGIN and COMMIT: ten point selects, a simple range, a sum range, an ordered
//! range and a distinct range, each statement a request and a reply of its own. Keys are uniform.
//! A range always lies inside the table, so that every range costs the same.
//!
//! The others write, which the embedded engine cannot do in transactions yet: they are for a live server
//! (`target`), as sysbench's tests of the same names. `hot-rows-N` is an update of an indexed column in one of
//! the first N rows.

use std::fmt;
use std::str::FromStr;

mod execute;
mod rng;
pub mod row;
pub mod statement;
pub mod work;

pub use execute::{Executor, TABLE};
pub use rng::{Random, stream};
use statement::{Kind, Statement};

/// The statements of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Workload {
    /// One row by its id; every statement is a transaction.
    PointSelect,
    /// sysbench's OLTP read-only transaction: 10 point selects and 4 ranges.
    ReadOnly,
    /// An update of the indexed column.
    UpdateIndex,
    /// An update of a column without an index.
    UpdateNonIndex,
    /// An update of the indexed column in one of so many rows.
    HotRows(u32),
    /// sysbench's OLTP read-write transaction, with BEGIN and COMMIT.
    ReadWrite,
}

/// What a command line may ask for, for messages.
const WORKLOADS: &str =
    "point-select, read-only; with --target also update-index, update-non-index, hot-rows-N, read-write";
/// More rows than this are not hot.
const HOT_ROWS_MAX: u32 = 1_000_000;

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(rows) = text.strip_prefix("hot-rows") {
            let rows = rows.strip_prefix(['-', ':']).and_then(|rows| rows.parse().ok());
            return match rows {
                Some(rows) if (1..=HOT_ROWS_MAX).contains(&rows) => Ok(Workload::HotRows(rows)),
                _ => Err(format!(
                    "hot-rows takes a number of rows from 1 to {HOT_ROWS_MAX}, as in hot-rows-100"
                )),
            };
        }
        match text {
            "point-select" => Ok(Workload::PointSelect),
            "read-only" => Ok(Workload::ReadOnly),
            "update-index" => Ok(Workload::UpdateIndex),
            "update-non-index" => Ok(Workload::UpdateNonIndex),
            "read-write" => Ok(Workload::ReadWrite),
            _ => Err(format!("a workload is one of {WORKLOADS}")),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Workload::PointSelect => f.write_str("point-select"),
            Workload::ReadOnly => f.write_str("read-only"),
            Workload::UpdateIndex => f.write_str("update-index"),
            Workload::UpdateNonIndex => f.write_str("update-non-index"),
            Workload::HotRows(rows) => write!(f, "hot-rows-{rows}"),
            Workload::ReadWrite => f.write_str("read-write"),
        }
    }
}

/// Statements of a read-only transaction, in their order.
const READ_ONLY: [Kind; 14] = {
    let mut kinds = [Kind::Point; 14];
    kinds[10] = Kind::SimpleRange;
    kinds[11] = Kind::SumRange;
    kinds[12] = Kind::OrderRange;
    kinds[13] = Kind::DistinctRange;
    kinds
};

impl Workload {
    /// Whether it reads ranges.
    pub fn has_ranges(self) -> bool {
        matches!(self, Workload::ReadOnly | Workload::ReadWrite)
    }

    /// What the embedded engine can serve: the statements of a transaction.
    pub fn reads(self) -> Option<&'static [Kind]> {
        match self {
            Workload::PointSelect => Some(&READ_ONLY[..1]),
            Workload::ReadOnly => Some(&READ_ONLY),
            _ => None,
        }
    }
}

/// A workload on a table of a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The statements.
    pub workload: Workload,
    /// Rows in the table.
    pub rows: u32,
    /// Rows of a range; at most `rows`.
    pub range: u32,
    /// Processor time of a statement besides the engine's, microseconds.
    pub work_us: u16,
}

/// One connection's endless sequence of statements.
#[derive(Debug, Clone)]
pub struct Script {
    shape: Shape,
    rng: Random,
    step: usize,
}

impl Script {
    /// The statements that (seed, round, connection) fixes: every policy of a round meets the same ones.
    pub fn new(shape: Shape, seed: u64, round: u32, connection: u32) -> Self {
        let rng = stream(seed, 1 << 63 | u64::from(round) << 32 | u64::from(connection));
        Script { shape, rng, step: 0 }
    }

    /// The next statement.
    #[inline]
    pub fn next_statement(&mut self) -> Statement {
        let kinds = self.shape.workload.reads().expect("a plan gives the engine what it can serve");
        let kind = kinds[self.step];
        self.step = if self.step + 1 == kinds.len() { 0 } else { self.step + 1 };
        let count = if kind == Kind::Point { 1 } else { self.shape.range };
        let id = self.rng.one_to(self.shape.rows - count + 1);
        Statement { kind, id, count, work_us: self.shape.work_us }
    }

    /// Whether the statement that [`Script::next_statement`] gave last was the last of its transaction.
    #[inline]
    pub fn transaction_ended(&self) -> bool {
        self.step == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in
            ["point-select", "read-only", "update-index", "update-non-index", "hot-rows-100", "read-write"]
        {
            assert_eq!(name.parse::<Workload>().unwrap().to_string(), name);
        }
        assert_eq!("hot-rows:7".parse(), Ok(Workload::HotRows(7)));
        for wrong in [
            "",
            "write",
            "hot-rows",
            "hot-rows-",
            "hot-rows-0",
            "hot-rows-x",
            "hot-rows9",
            "hot-rows-1000001",
        ] {
            assert!(wrong.parse::<Workload>().is_err(), "{wrong}");
        }
    }

    const SHAPE: Shape = Shape { workload: Workload::ReadOnly, rows: 5_000, range: 1_000, work_us: 0 };

    #[test]
    fn read_only_has_sysbench_s_shape() {
        let mut script = Script::new(SHAPE, 1, 0, 0);
        for _ in 0..3 {
            let mut kinds = Vec::new();
            loop {
                kinds.push(script.next_statement().kind);
                if script.transaction_ended() {
                    break;
                }
            }
            assert_eq!(kinds, READ_ONLY);
            assert_eq!(kinds.iter().filter(|&&kind| kind == Kind::Point).count(), 10);
        }
    }

    #[test]
    fn point_select_is_one_statement_a_transaction() {
        let mut script = Script::new(Shape { workload: Workload::PointSelect, ..SHAPE }, 1, 0, 0);
        for _ in 0..10 {
            assert_eq!(script.next_statement().kind, Kind::Point);
            assert!(script.transaction_ended());
        }
    }

    #[test]
    fn statements_stay_inside_the_table() {
        let mut script = Script::new(SHAPE, 3, 0, 9);
        for _ in 0..10_000 {
            let statement = script.next_statement();
            assert!(statement.id >= 1 && statement.id + statement.count - 1 <= SHAPE.rows, "{statement:?}");
        }
        let mut whole = Script::new(Shape { range: 5_000, ..SHAPE }, 3, 0, 9);
        assert!((0..14).map(|_| whole.next_statement()).filter(|s| s.count > 1).all(|s| s.id == 1));
    }

    #[test]
    fn the_same_seed_gives_the_same_statements() {
        let take = |seed, round, connection| -> Vec<Statement> {
            let mut script = Script::new(SHAPE, seed, round, connection);
            (0..50).map(|_| script.next_statement()).collect()
        };
        assert_eq!(take(1, 2, 3), take(1, 2, 3));
        assert_ne!(take(1, 2, 3), take(1, 2, 4));
        assert_ne!(take(1, 2, 3), take(1, 3, 3));
        assert_ne!(take(1, 2, 3), take(2, 2, 3));
    }
}
