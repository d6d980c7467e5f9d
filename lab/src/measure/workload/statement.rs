//! A statement: one request of a connection.

use super::row::{C_BYTES, VALUE_BYTES};

/// The kind of a statement. The numbers are those of the wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// `SELECT c FROM sbtest WHERE id = ?`
    Point = 1,
    /// `SELECT c FROM sbtest WHERE id BETWEEN ? AND ?`
    SimpleRange = 2,
    /// `SELECT SUM(k) FROM sbtest WHERE id BETWEEN ? AND ?`
    SumRange = 3,
    /// `SELECT c FROM sbtest WHERE id BETWEEN ? AND ? ORDER BY c`
    OrderRange = 4,
    /// `SELECT DISTINCT c FROM sbtest WHERE id BETWEEN ? AND ? ORDER BY c`
    DistinctRange = 5,
    /// `BEGIN`
    Begin = 6,
    /// `COMMIT`
    Commit = 7,
    /// `ROLLBACK`
    Rollback = 8,
    /// `UPDATE sbtest SET k = k + 1 WHERE id = ?`
    UpdateIndex = 9,
    /// `UPDATE sbtest SET c = ? WHERE id = ?`
    UpdateNonIndex = 10,
    /// `DELETE FROM sbtest WHERE id = ?`
    Delete = 11,
    /// `INSERT INTO sbtest (id, k, c, pad) VALUES (?, ?, ?, ?)`
    Insert = 12,
    /// `SELECT c FROM sbtest WHERE id >= ? ORDER BY id LIMIT ?`
    ShortScan = 13,
}

impl Kind {
    /// All of them, in the order of their numbers, which begin with 1.
    pub const ALL: [Kind; 13] = [
        Kind::Point,
        Kind::SimpleRange,
        Kind::SumRange,
        Kind::OrderRange,
        Kind::DistinctRange,
        Kind::Begin,
        Kind::Commit,
        Kind::Rollback,
        Kind::UpdateIndex,
        Kind::UpdateNonIndex,
        Kind::Delete,
        Kind::Insert,
        Kind::ShortScan,
    ];

    /// Whether it changes rows.
    #[inline]
    pub fn writes(self) -> bool {
        matches!(self, Kind::UpdateIndex | Kind::UpdateNonIndex | Kind::Delete | Kind::Insert)
    }

    /// Whether it controls a transaction, without touching rows.
    #[inline]
    pub fn is_control(self) -> bool {
        matches!(self, Kind::Begin | Kind::Commit | Kind::Rollback)
    }

    /// Whether it reads the rows of a range.
    #[inline]
    pub fn is_range(self) -> bool {
        matches!(
            self,
            Kind::SimpleRange | Kind::SumRange | Kind::OrderRange | Kind::DistinctRange | Kind::ShortScan
        )
    }

    /// Bytes of its values in addition to its row's id: a `c`, or a row's `k`, `c` and `pad`.
    #[inline]
    pub fn values_bytes(self) -> usize {
        match self {
            Kind::UpdateNonIndex => C_BYTES,
            Kind::Insert => VALUE_BYTES,
            _ => 0,
        }
    }

    /// The number of rows that it adds to the table.
    #[inline]
    pub fn rows_added(self) -> i64 {
        match self {
            Kind::Insert => 1,
            Kind::Delete => -1,
            _ => 0,
        }
    }
}

/// A statement without its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statement {
    /// The kind.
    pub kind: Kind,
    /// The row, or the first of the range.
    pub id: u32,
    /// How many ids the range has, or how many rows a short scan takes at most; 1 for a row.
    pub count: u32,
    /// CPU time in addition to the engine's, microseconds.
    pub work_us: u16,
}

impl Statement {
    /// Whether a result of `rows` rows can be right: every range lies inside the table, and rows are deleted only by
    /// transactions that insert them again.
    #[inline]
    pub fn expects(&self, rows: u32) -> bool {
        match self.kind {
            Kind::Begin | Kind::Commit | Kind::Rollback => rows == 0,
            Kind::SimpleRange | Kind::OrderRange => rows == self.count,
            Kind::DistinctRange | Kind::ShortScan => (1..=self.count).contains(&rows),
            _ => rows == 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_numbered_as_they_stand() {
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index + 1);
        }
    }

    #[test]
    fn results_are_checked_by_their_shape() {
        let range = Statement { kind: Kind::OrderRange, id: 1, count: 10, work_us: 0 };
        assert!(range.expects(10) && !range.expects(9));
        let distinct = Statement { kind: Kind::DistinctRange, ..range };
        assert!(distinct.expects(10) && distinct.expects(1) && !distinct.expects(0));
        let sum = Statement { kind: Kind::SumRange, ..range };
        assert!(sum.expects(1) && !sum.expects(10));
        let delete = Statement { kind: Kind::Delete, count: 1, ..range };
        assert!(delete.expects(1) && !delete.expects(0));
        let scan = Statement { kind: Kind::ShortScan, ..range };
        assert!(scan.expects(3) && !scan.expects(11));
    }
}
