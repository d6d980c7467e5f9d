//! The requests of the connections.
//!
//! `point-select` is one statement a transaction. `read-only` is sysbench's OLTP read-only transaction without BEGIN
//! and COMMIT: ten point selects, a simple range, a sum range, an ordered range and a distinct range, each a request
//! and a reply of its own. `read-write` puts BEGIN before these, and an update of `k` (indexed), one of `c` (not
//! indexed), the deletion and insertion of one row, and COMMIT behind them. `update-index`, `update-non-index` and
//! `insert` are transactions of one such statement; `hot-rows-N` is `update-index` in one of the first N rows, and
//! `hot-transaction-N` the same between BEGIN and a point select, COMMIT. `ycsb-a` to `ycsb-f` are YCSB's core workloads
//! (`ycsb`).
//!
//! | module | holds |
//! |---|---|
//! | `statement`, `wire` | a statement; how it and its reply travel |
//! | `row`, `rng`, `keys` | a row's values, random numbers, the choice of rows |
//! | `sysbench`, `ycsb`, `script` | transactions, and a connection's endless sequence of them |
//! | `table`, `execute` | the table in the engine; the server's side of a statement |
//! | `kernel` | a specimen: the kernel mutex of InnoDB before 5.6 |
//! | `work` | CPU time of the layers that an embedded engine does not have |

use std::fmt;
use std::str::FromStr;

mod execute;
pub mod kernel;
mod keys;
mod rng;
pub mod row;
mod script;
pub mod statement;
mod sysbench;
mod table;
pub mod wire;
pub mod work;
mod ycsb;

pub(crate) use execute::can_be_retried;
pub use execute::{Executor, Outcome, Reply};
pub use keys::Zipfian;
pub use rng::{Random, stream};
pub use script::{Load, Script, Shape};
pub(crate) use table::without_limit;
pub use table::{Sbtest, Totals};
pub use ycsb::Ycsb;

/// The statements of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Workload {
    /// One row by its id; every statement is a transaction.
    PointSelect,
    /// sysbench's OLTP read-only transaction: 10 point selects and 4 ranges.
    ReadOnly,
    /// sysbench's OLTP read-write transaction, with BEGIN and COMMIT.
    ReadWrite,
    /// An update of the indexed column.
    UpdateIndex,
    /// An update of a column without an index.
    UpdateNonIndex,
    /// A row with a new id, higher than all before.
    Insert,
    /// An update of the indexed column in one of this many rows.
    HotRows(u32),
    /// BEGIN, an update of the indexed column in one of this many rows, a point select, COMMIT.
    HotTransaction(u32),
    /// One of YCSB's.
    Ycsb(Ycsb),
}

/// What a command line may ask for, for messages.
const WORKLOADS: &str = "point-select, read-only, read-write, update-index, update-non-index, insert, hot-rows-N, hot-transaction-N, ycsb-a to ycsb-f";
/// More rows than this are not hot.
const HOT_ROWS_MAX: u32 = 1_000_000;

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        type Hot = fn(u32) -> Workload;
        let hot: [(&str, Hot); 2] =
            [("hot-rows", Workload::HotRows), ("hot-transaction", Workload::HotTransaction)];
        if let Some((name, workload)) = hot.into_iter().find(|(name, _)| text.starts_with(name)) {
            let rows = text[name.len()..].strip_prefix(['-', ':']).and_then(|rows| rows.parse().ok());
            return match rows {
                Some(rows) if (1..=HOT_ROWS_MAX).contains(&rows) => Ok(workload(rows)),
                _ => Err(format!("{name} takes a number of rows from 1 to {HOT_ROWS_MAX}, as in {name}-100")),
            };
        }
        let ycsb = text.strip_prefix("ycsb-");
        if let Some(ycsb) = ycsb.and_then(|letter| Ycsb::ALL.into_iter().find(|ycsb| ycsb.letter() == letter))
        {
            return Ok(Workload::Ycsb(ycsb));
        }
        match text {
            "point-select" => Ok(Workload::PointSelect),
            "read-only" => Ok(Workload::ReadOnly),
            "read-write" => Ok(Workload::ReadWrite),
            "update-index" => Ok(Workload::UpdateIndex),
            "update-non-index" => Ok(Workload::UpdateNonIndex),
            "insert" => Ok(Workload::Insert),
            _ => Err(format!("a workload is one of {WORKLOADS}")),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Workload::PointSelect => f.write_str("point-select"),
            Workload::ReadOnly => f.write_str("read-only"),
            Workload::ReadWrite => f.write_str("read-write"),
            Workload::UpdateIndex => f.write_str("update-index"),
            Workload::UpdateNonIndex => f.write_str("update-non-index"),
            Workload::Insert => f.write_str("insert"),
            Workload::HotRows(rows) => write!(f, "hot-rows-{rows}"),
            Workload::HotTransaction(rows) => write!(f, "hot-transaction-{rows}"),
            Workload::Ycsb(ycsb) => ycsb.fmt(f),
        }
    }
}

impl Workload {
    /// Whether it reads ranges of a size that can be chosen.
    pub fn has_ranges(self) -> bool {
        matches!(self, Workload::ReadOnly | Workload::ReadWrite)
    }

    /// Whether it changes rows.
    pub fn writes(self) -> bool {
        !matches!(self, Workload::PointSelect | Workload::ReadOnly | Workload::Ycsb(Ycsb::C))
    }

    /// Whether it adds rows beyond the loaded ones.
    pub fn grows(self) -> bool {
        match self {
            Workload::Insert => true,
            Workload::Ycsb(ycsb) => ycsb.inserts(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in WORKLOADS.split(", ").filter(|name| !name.contains(" to ") && !name.ends_with("-N")) {
            assert_eq!(name.parse::<Workload>().unwrap().to_string(), name);
        }
        for letter in 'a'..='f' {
            let name = format!("ycsb-{letter}");
            assert_eq!(name.parse::<Workload>().unwrap().to_string(), name);
        }
        assert_eq!("hot-transaction-7".parse(), Ok(Workload::HotTransaction(7)));
        assert_eq!(Workload::HotTransaction(7).to_string().parse(), Ok(Workload::HotTransaction(7)));
        assert_eq!("hot-rows:7".parse(), Ok(Workload::HotRows(7)));
        assert_eq!(Workload::HotRows(7).to_string().parse(), Ok(Workload::HotRows(7)));
        for wrong in [
            "",
            "write",
            "hot-rows",
            "hot-rows-",
            "hot-rows-0",
            "hot-rows-x",
            "hot-rows9",
            "hot-transaction",
            "hot-transaction-0",
            "hot-rows-1000001",
            "ycsb",
            "ycsb-g",
            "ycsb-ab",
        ] {
            assert!(wrong.parse::<Workload>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn who_writes_and_who_grows() {
        let all = WORKLOADS.split(", ").filter_map(|name| name.parse::<Workload>().ok());
        let writing: Vec<String> = all.filter(|w| w.writes()).map(|w| w.to_string()).collect();
        assert_eq!(writing, ["read-write", "update-index", "update-non-index", "insert"]);
        let grows = |name: &str| name.parse::<Workload>().unwrap().grows();
        assert!(
            grows("insert") && grows("ycsb-d") && grows("ycsb-e") && !grows("ycsb-a") && !grows("read-write")
        );
    }
}
