//! The requests of a connection to a server, statement by statement.
//!
//! The statements are those of sysbench's tests, with uniform keys (`--rand-type=uniform`) and ranges that lie inside
//! the table. (seed, round, connection) determines every statement of the endless sequence; a retried transaction uses
//! other rows, as sysbench's does.

use super::statement::{Call, Sql, Values};
use crate::measure::workload::row::digit_groups;
use crate::measure::workload::{Random, Workload, stream};

const READS: [Sql; 14] = {
    let mut reads = [Sql::Point; 14];
    reads[10] = Sql::SimpleRange;
    reads[11] = Sql::SumRange;
    reads[12] = Sql::OrderRange;
    reads[13] = Sql::DistinctRange;
    reads
};

const READ_WRITE: [Sql; 20] = {
    let mut all = [Sql::Begin; 20];
    let mut next = 0;
    while next < READS.len() {
        all[1 + next] = READS[next];
        next += 1;
    }
    all[15] = Sql::UpdateIndex;
    all[16] = Sql::UpdateNonIndex;
    all[17] = Sql::Delete;
    all[18] = Sql::Insert;
    all[19] = Sql::Commit;
    all
};

/// A workload on a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) workload: Workload,
    /// Rows in the table.
    pub(crate) rows: u32,
    /// Rows of a range; at most `rows`.
    pub(crate) range: u32,
}

/// The statements of a transaction, in their order.
pub(crate) fn statements(workload: Workload) -> &'static [Sql] {
    match workload {
        Workload::PointSelect => &[Sql::Point],
        Workload::ReadOnly => &READS,
        Workload::UpdateIndex | Workload::HotRows(_) => &[Sql::UpdateIndex],
        Workload::UpdateNonIndex => &[Sql::UpdateNonIndex],
        Workload::ReadWrite => &READ_WRITE,
        Workload::Insert | Workload::HotTransaction(_) | Workload::Ycsb(_) => {
            unreachable!("a plan gives a server what it can serve")
        }
    }
}

/// Whether a transaction of it stays open between two statements.
pub(crate) fn has_transactions(workload: Workload) -> bool {
    workload == Workload::ReadWrite
}

/// One connection's endless sequence of statements.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    shape: Shape,
    random: Random,
    step: usize,
    /// What the transaction deletes, it inserts again.
    deleted: u32,
}

impl Script {
    pub(crate) fn new(shape: Shape, seed: u64, round: u32, connection: u32) -> Self {
        let random = stream(seed, 1 << 63 | u64::from(round) << 32 | u64::from(connection));
        Script { shape, random, step: 0, deleted: 1 }
    }

    /// The next statement.
    #[inline]
    pub(crate) fn next_call(&mut self) -> Call {
        let all = statements(self.shape.workload);
        let sql = all[self.step];
        self.step = if self.step + 1 == all.len() { 0 } else { self.step + 1 };
        let values = self.values(sql);
        Call { sql, values }
    }

    fn values(&mut self, sql: Sql) -> Values {
        let rows = match self.shape.workload {
            Workload::HotRows(hot) => hot.min(self.shape.rows),
            _ => self.shape.rows,
        };
        match sql {
            Sql::Begin | Sql::Commit => Values::None,
            Sql::Point | Sql::UpdateIndex => Values::Id(self.random.one_to(rows)),
            Sql::SimpleRange | Sql::SumRange | Sql::OrderRange | Sql::DistinctRange => {
                let count = self.shape.range;
                Values::Range(self.random.one_to(rows - count + 1), count)
            }
            Sql::UpdateNonIndex => {
                let c = digits(&mut self.random);
                Values::CAndId(c, self.random.one_to(rows))
            }
            Sql::Delete => {
                self.deleted = self.random.one_to(rows);
                Values::Id(self.deleted)
            }
            Sql::Insert => Values::Row {
                id: self.deleted,
                k: self.random.one_to(rows),
                c: digits(&mut self.random),
                pad: digits(&mut self.random),
            },
        }
    }

    /// Whether the statement that [`Script::next_call`] gave last was the last of its transaction.
    #[inline]
    pub(crate) fn transaction_ended(&self) -> bool {
        self.step == 0
    }

    /// Begins a new transaction, whatever became of the old one.
    pub(crate) fn begin_again(&mut self) {
        self.step = 0;
    }
}

fn digits<const BYTES: usize>(random: &mut Random) -> [u8; BYTES] {
    let mut text = [0; BYTES];
    digit_groups(random, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(workload: Workload) -> Script {
        Script::new(Shape { workload, rows: 500, range: 100 }, 1, 0, 0)
    }

    fn transaction(script: &mut Script) -> Vec<Call> {
        let mut calls = Vec::new();
        loop {
            calls.push(script.next_call());
            if script.transaction_ended() {
                return calls;
            }
        }
    }

    #[test]
    fn read_write_has_sysbench_s_shape() {
        let mut script = script(Workload::ReadWrite);
        for _ in 0..50 {
            let calls = transaction(&mut script);
            assert_eq!(calls.len(), 20);
            assert_eq!((calls[0].sql, calls[19].sql), (Sql::Begin, Sql::Commit));
            assert_eq!(calls.iter().filter(|call| call.sql == Sql::Point).count(), 10);
            let (Values::Id(deleted), Values::Row { id, .. }) = (calls[17].values, calls[18].values) else {
                panic!("{calls:?}");
            };
            assert_eq!(deleted, id, "what is deleted comes back");
        }
    }

    #[test]
    fn hot_rows_are_the_first_ones() {
        let mut hot = script(Workload::HotRows(3));
        let ids: Vec<Values> = (0..100).map(|_| hot.next_call().values).collect();
        for id in 1..=3 {
            assert!(ids.contains(&Values::Id(id)));
        }
        assert!(ids.iter().all(|id| matches!(id, Values::Id(1..=3))));
    }

    #[test]
    fn ranges_lie_inside_the_table() {
        let mut script = script(Workload::ReadOnly);
        for _ in 0..1_000 {
            match script.next_call().values {
                Values::Range(first, count) => assert!(first >= 1 && first + count - 1 <= 500),
                Values::Id(id) => assert!((1..=500).contains(&id)),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_transaction_begun_again_begins_with_its_first_statement() {
        let mut script = script(Workload::ReadWrite);
        (0..7).for_each(|_| {
            script.next_call();
        });
        assert!(!script.transaction_ended());
        script.begin_again();
        assert_eq!(transaction(&mut script).len(), 20);
    }

    #[test]
    fn the_same_seed_gives_the_same_statements() {
        let take = |seed, round, connection| -> Vec<Call> {
            let shape = Shape { workload: Workload::ReadWrite, rows: 500, range: 100 };
            let mut script = Script::new(shape, seed, round, connection);
            (0..60).map(|_| script.next_call()).collect()
        };
        assert_eq!(take(1, 2, 3), take(1, 2, 3));
        assert_ne!(take(1, 2, 3), take(1, 2, 4));
        assert_ne!(take(1, 2, 3), take(1, 3, 3));
    }
}
