//! The SQL of the workloads, as in sysbench's OLTP tests, as text and with parameters.

use std::io::Write as _;

use mysql_common::value::Value;

use super::wire;
use crate::measure::workload::row::{C_BYTES, PAD_BYTES};

/// The table, named as sysbench names its first.
pub(crate) const TABLE: &str = "sbtest1";

/// A statement without its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sql {
    Point,
    SimpleRange,
    SumRange,
    OrderRange,
    DistinctRange,
    UpdateIndex,
    UpdateNonIndex,
    Delete,
    Insert,
    Begin,
    Commit,
}

impl Sql {
    pub(crate) const COUNT: usize = Sql::Commit as usize + 1;

    /// With question marks for its values.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Sql::Point => "SELECT c FROM sbtest1 WHERE id=?",
            Sql::SimpleRange => "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?",
            Sql::SumRange => "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ? AND ?",
            Sql::OrderRange => "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
            Sql::DistinctRange => "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
            Sql::UpdateIndex => "UPDATE sbtest1 SET k=k+1 WHERE id=?",
            Sql::UpdateNonIndex => "UPDATE sbtest1 SET c=? WHERE id=?",
            Sql::Delete => "DELETE FROM sbtest1 WHERE id=?",
            Sql::Insert => "INSERT INTO sbtest1 (id, k, c, pad) VALUES (?, ?, ?, ?)",
            // BEGIN, as sysbench has it, begins a block in sql_mode=ORACLE.
            Sql::Begin => "START TRANSACTION",
            Sql::Commit => "COMMIT",
        }
    }
}

/// The values of a column `c` and of a column `pad`, without the space that ends them in the table.
pub(crate) type C = [u8; C_BYTES - 1];
pub(crate) type Pad = [u8; PAD_BYTES - 1];

/// A statement with its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) sql: Sql,
    pub(crate) values: Values,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    None,
    Id(u32),
    /// The first id, and the number of ids.
    Range(u32, u32),
    CAndId(C, u32),
    Row {
        id: u32,
        k: u32,
        c: C,
        pad: Pad,
    },
}

impl Call {
    /// Whether a result of `rows` rows can be right: a range lies inside the table, which has no other writers.
    #[inline]
    pub(crate) fn expects(&self, rows: u32) -> bool {
        match (self.sql, self.values) {
            (Sql::SumRange, _) => rows == 1,
            (Sql::DistinctRange, Values::Range(_, count)) => (1..=count).contains(&rows),
            (_, Values::Range(_, count)) => rows == count,
            _ => rows == 1,
        }
    }

    /// Appends the request for its execution as a prepared statement.
    #[inline]
    pub(crate) fn execute(&self, statement: u32, request: &mut Vec<u8>) {
        let number = |number: u32| Value::Int(number.into());
        let text = |text: &[u8]| Value::Bytes(text.to_vec());
        match &self.values {
            Values::None => wire::execute(request, statement, &[]),
            Values::Id(id) => wire::execute(request, statement, &[number(*id)]),
            Values::Range(first, count) => {
                wire::execute(request, statement, &[number(*first), number(*first + (*count - 1))]);
            }
            Values::CAndId(c, id) => wire::execute(request, statement, &[text(c), number(*id)]),
            Values::Row { id, k, c, pad } => {
                wire::execute(request, statement, &[number(*id), number(*k), text(c), text(pad)]);
            }
        }
    }

    /// Appends the request for it as text.
    #[inline]
    pub(crate) fn query(&self, request: &mut Vec<u8>) {
        wire::query(request, |body| self.write(body));
    }

    /// The statement with its values in the places of the question marks.
    fn write(&self, body: &mut Vec<u8>) {
        let mut pieces = self.sql.text().split('?');
        let mut piece = |body: &mut Vec<u8>| body.extend_from_slice(pieces.next().unwrap_or("").as_bytes());
        // Writing into memory cannot fail.
        let number = |body: &mut Vec<u8>, number: u32| {
            let _ = write!(body, "{number}");
        };
        let text = |body: &mut Vec<u8>, text: &[u8]| {
            body.push(b'\'');
            body.extend_from_slice(text);
            body.push(b'\'');
        };
        piece(body);
        match &self.values {
            Values::None => return,
            Values::Id(id) => number(body, *id),
            Values::Range(first, count) => {
                number(body, *first);
                piece(body);
                number(body, *first + (*count - 1));
            }
            Values::CAndId(c, id) => {
                text(body, c);
                piece(body);
                number(body, *id);
            }
            Values::Row { id, k, c, pad } => {
                number(body, *id);
                piece(body);
                number(body, *k);
                piece(body);
                text(body, c);
                piece(body);
                text(body, pad);
            }
        }
        piece(body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(sql: Sql, values: Values) -> String {
        let mut body = Vec::new();
        Call { sql, values }.write(&mut body);
        String::from_utf8(body).unwrap()
    }

    #[test]
    fn statements_as_text() {
        assert_eq!(text(Sql::Point, Values::Id(7)), "SELECT c FROM sbtest1 WHERE id=7");
        assert_eq!(text(Sql::Begin, Values::None), "START TRANSACTION");
        assert_eq!(
            text(Sql::DistinctRange, Values::Range(5, 100)),
            "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN 5 AND 104 ORDER BY c"
        );
        let (c, pad) = ([b'1'; 119], [b'2'; 59]);
        let row = text(Sql::Insert, Values::Row { id: 3, k: 4, c, pad });
        assert!(row.starts_with("INSERT INTO sbtest1 (id, k, c, pad) VALUES (3, 4, '111"), "{row}");
        assert!(row.ends_with("222')"), "{row}");
        assert!(text(Sql::UpdateNonIndex, Values::CAndId(c, 9)).ends_with("1' WHERE id=9"));
    }

    #[test]
    fn results_are_checked_by_their_number_of_rows() {
        let range = |sql| Call { sql, values: Values::Range(1, 10) };
        assert!(range(Sql::SimpleRange).expects(10) && !range(Sql::OrderRange).expects(9));
        assert!(range(Sql::SumRange).expects(1) && !range(Sql::SumRange).expects(10));
        assert!(range(Sql::DistinctRange).expects(3) && !range(Sql::DistinctRange).expects(0));
        let point = Call { sql: Sql::Point, values: Values::Id(1) };
        assert!(point.expects(1) && !point.expects(0));
    }

    #[test]
    fn every_statement_names_the_table() {
        for sql in [Sql::Point, Sql::SimpleRange, Sql::UpdateIndex, Sql::Delete, Sql::Insert] {
            assert!(sql.text().contains(TABLE));
        }
    }
}
