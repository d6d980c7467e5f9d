//! The workloads by name, and their operations.

use std::fmt;
use std::str::FromStr;

/// Rows of a scan of `range-1000`.
pub(crate) const LONG_SCAN: u64 = 1_000;
/// Rows of a scan of `read-write`.
pub(crate) const SHORT_SCAN: u64 = 100;
/// Fewer rows have no range of 1000.
pub(crate) const ROWS_MIN: u64 = 2 * LONG_SCAN;

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Rows into an empty database, until they are durable.
    Load,
    /// One row.
    PointGet,
    /// 1000 rows from a random one.
    Range1000,
    /// One row read and changed, committed.
    Update,
    /// sysbench's transaction: 10 gets, 4 scans of 100, 2 updates, a delete and an insert.
    ReadWrite,
    /// `Update`, of one of the first rows.
    HotRows(u64),
    /// YCSB's core workload of that letter, keys by a scrambled Zipf distribution.
    Ycsb(char),
}

impl Workload {
    pub(crate) const DEFAULT: [Workload; 11] = [
        Workload::Load,
        Workload::PointGet,
        Workload::Range1000,
        Workload::Update,
        Workload::ReadWrite,
        Workload::HotRows(1),
        Workload::HotRows(100),
        Workload::Ycsb('a'),
        Workload::Ycsb('b'),
        Workload::Ycsb('c'),
        Workload::Ycsb('f'),
    ];

    /// What `--quick` measures.
    pub(crate) const QUICK: [Workload; 6] = [
        Workload::Load,
        Workload::PointGet,
        Workload::Update,
        Workload::ReadWrite,
        Workload::HotRows(1),
        Workload::Ycsb('a'),
    ];

    /// Whether it changes rows.
    pub(crate) fn writes(self) -> bool {
        !matches!(self, Workload::Load | Workload::PointGet | Workload::Range1000 | Workload::Ycsb('c'))
    }

    /// Whether its transactions scan.
    pub(crate) fn scans_in_transaction(self) -> bool {
        self == Workload::ReadWrite
    }

    /// The counted unit.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Workload::Load => "rows/s",
            Workload::Range1000 => "scans/s",
            Workload::ReadWrite => "transactions/s",
            Workload::PointGet => "gets/s",
            Workload::Update | Workload::HotRows(_) => "updates/s",
            Workload::Ycsb(_) => "operations/s",
        }
    }

    /// One line about what an operation is.
    pub(crate) fn describe(self) -> String {
        match self {
            Workload::Load => "all rows into an empty database, ascending, until they are durable".into(),
            Workload::PointGet => "one row by a random key".into(),
            Workload::Range1000 => "1000 rows from a random key".into(),
            Workload::Update => "one random row read for update, changed, committed".into(),
            Workload::ReadWrite => {
                "one transaction over random keys: 10 gets, 4 scans of 100 rows, 2 updates, a \
                                    delete and an insert of one row (the tenth get reads it for update)"
                    .into()
            }
            Workload::HotRows(1) => "the first row read for update, changed, committed".into(),
            Workload::HotRows(n) => {
                format!("a random one of the first {n} rows read for update, changed, committed")
            }
            Workload::Ycsb('a') => "half gets, half updates; Zipf 0.99, scrambled".into(),
            Workload::Ycsb('b') => "95% gets, 5% updates; Zipf 0.99, scrambled".into(),
            Workload::Ycsb('c') => "gets; Zipf 0.99, scrambled".into(),
            Workload::Ycsb(_) => {
                "half gets, half a get and then an update of the row; Zipf 0.99, scrambled".into()
            }
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Workload::Load => f.pad("load"),
            Workload::PointGet => f.pad("point-get"),
            Workload::Range1000 => f.pad("range-1000"),
            Workload::Update => f.pad("update"),
            Workload::ReadWrite => f.pad("read-write"),
            Workload::HotRows(n) => f.pad(&format!("hot-rows-{n}")),
            Workload::Ycsb(letter) => f.pad(&format!("ycsb-{letter}")),
        }
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(rows) = text.strip_prefix("hot-rows-") {
            return match rows.parse() {
                Ok(rows @ 1..=1_000) => Ok(Workload::HotRows(rows)),
                _ => Err("hot-rows-N takes a number from 1 to 1000, as in hot-rows-100".into()),
            };
        }
        Self::DEFAULT.into_iter().find(|workload| workload.to_string() == text).ok_or_else(|| {
            let names: Vec<String> = Self::DEFAULT.iter().map(ToString::to_string).collect();
            format!("unknown workload '{text}': use {} or hot-rows-N", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for workload in Workload::DEFAULT {
            assert_eq!(workload.to_string().parse(), Ok(workload));
        }
        assert_eq!("hot-rows-7".parse(), Ok(Workload::HotRows(7)));
        assert!("hot-rows-0".parse::<Workload>().unwrap_err().contains("1 to 1000"));
        let told = "fast".parse::<Workload>().unwrap_err();
        assert!(told.contains("read-write") && !told.contains("all"), "{told}");
    }
}
