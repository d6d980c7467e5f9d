//! A connection's endless sequence of statements.
//!
//! (seed, round, connection) determines every statement, except keys beyond the loaded rows, which are assigned to all
//! connections in order. A retried transaction uses other rows, as sysbench's does, but keeps a key that it was about
//! to insert.

use std::sync::Arc;

use super::keys::{Inserted, Zipfian};
use super::rng::{Random, stream};
use super::row::{self, C_BYTES, VALUE_BYTES};
use super::statement::{Kind, Statement};
use super::{Workload, sysbench, ycsb};

/// A workload on a table of a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The statements.
    pub workload: Workload,
    /// Rows that were loaded.
    pub rows: u32,
    /// Rows of a range; at most `rows`.
    pub range: u32,
    /// CPU time of a statement in addition to the engine's, microseconds.
    pub work_us: u16,
}

/// The load of the connections of a cell.
#[derive(Debug, Clone)]
pub struct Load {
    /// The workload.
    pub shape: Shape,
    /// The seed; with `round` and the connection's number it determines the statements.
    pub seed: u64,
    /// The cell's round.
    pub round: u32,
    inserted: Arc<Inserted>,
}

impl Load {
    /// A cell's load, on a table that has the loaded rows and no others.
    pub fn new(shape: Shape, seed: u64, round: u32) -> Self {
        Load { shape, seed, round, inserted: Arc::new(Inserted::beyond(shape.rows)) }
    }

    /// The statements of one connection.
    pub fn script(&self, connection: u32) -> Script {
        let random = stream(self.seed, 1 << 63 | u64::from(self.round) << 32 | u64::from(connection));
        Script {
            shape: self.shape,
            random,
            zipfian: Zipfian::new(self.shape.rows),
            inserted: Arc::clone(&self.inserted),
            transaction: &[],
            step: 0,
            key: 1,
            inserting: None,
            values: [b' '; VALUE_BYTES],
        }
    }
}

/// One connection's endless sequence of statements.
#[derive(Debug)]
pub struct Script {
    shape: Shape,
    random: Random,
    zipfian: Zipfian,
    inserted: Arc<Inserted>,
    /// The statements of the transaction.
    transaction: &'static [Kind],
    /// The place of the next one in it; 0 between two transactions.
    step: usize,
    /// The row of a YCSB operation, or the deleted row to be inserted again.
    key: u32,
    /// A key beyond the loaded rows that this connection was given, and has not inserted for certain.
    inserting: Option<u32>,
    /// The values of the last statement.
    values: [u8; VALUE_BYTES],
}

impl Script {
    /// The next statement; its values are in [`Script::values`].
    #[inline]
    pub fn next_statement(&mut self) -> Statement {
        if self.step == 0 {
            self.begin();
        }
        let kind = self.transaction[self.step];
        self.step = if self.step + 1 == self.transaction.len() { 0 } else { self.step + 1 };
        let count = match kind {
            Kind::ShortScan => self.random.one_to(ycsb::SCAN_ROWS_MAX),
            kind if kind.is_range() => self.shape.range,
            _ => 1,
        };
        let id = self.id(kind, count);
        match kind {
            Kind::UpdateNonIndex => self.values[..C_BYTES].copy_from_slice(&row::random_c(&mut self.random)),
            Kind::Insert => self.values = row::random(&mut self.random, self.shape.rows),
            _ => {}
        }
        Statement { kind, id, count, work_us: self.shape.work_us }
    }

    /// Chooses the next transaction, and its row if there is one for all of it.
    fn begin(&mut self) {
        match self.shape.workload {
            Workload::Ycsb(ycsb) => {
                self.transaction = ycsb.operation(&mut self.random);
                self.key = match ycsb.reads_latest() {
                    true => self.zipfian.latest(&mut self.random, self.inserted.newest()),
                    false => self.zipfian.scrambled(&mut self.random),
                };
            }
            sysbench => {
                self.transaction = sysbench::transaction(sysbench).expect("all others are sysbench's");
            }
        }
    }

    fn id(&mut self, kind: Kind, count: u32) -> u32 {
        let rows = self.shape.rows;
        match (self.shape.workload, kind) {
            (_, Kind::Begin | Kind::Commit | Kind::Rollback) => 0,
            (Workload::ReadWrite, Kind::Delete) => {
                self.key = self.random.one_to(rows);
                self.key
            }
            (Workload::ReadWrite, Kind::Insert) => self.key,
            (_, Kind::Insert) => *self.inserting.get_or_insert_with(|| self.inserted.next_key()),
            (Workload::Ycsb(_), _) => self.key,
            (Workload::HotRows(hot), _) | (Workload::HotTransaction(hot), Kind::UpdateIndex) => {
                self.random.one_to(hot.min(rows))
            }
            _ => self.random.one_to(rows - count + 1),
        }
    }

    /// The values of the last statement of [`Script::next_statement`].
    #[inline]
    pub fn values(&self, statement: &Statement) -> &[u8] {
        &self.values[..statement.kind.values_bytes()]
    }

    /// Records that a statement has certainly taken effect.
    #[inline]
    pub fn acknowledge(&mut self, statement: &Statement) {
        if self.inserting == Some(statement.id) && statement.kind == Kind::Insert {
            self.inserting = None;
            self.inserted.acknowledge(statement.id);
        }
    }

    /// Whether the last statement of [`Script::next_statement`] was the last of its transaction.
    #[inline]
    pub fn transaction_ended(&self) -> bool {
        self.step == 0
    }

    /// Begins a new transaction, regardless of the old one.
    pub fn begin_again(&mut self) {
        self.step = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::ycsb::Ycsb;
    use super::*;

    const SHAPE: Shape = Shape { workload: Workload::ReadOnly, rows: 5_000, range: 1_000, work_us: 0 };

    fn script(workload: Workload) -> Script {
        Load::new(Shape { workload, ..SHAPE }, 1, 0).script(0)
    }

    fn transaction(script: &mut Script) -> Vec<Statement> {
        let mut statements = Vec::new();
        loop {
            statements.push(script.next_statement());
            if script.transaction_ended() {
                return statements;
            }
        }
    }

    fn kinds(statements: &[Statement]) -> Vec<Kind> {
        statements.iter().map(|statement| statement.kind).collect()
    }

    #[test]
    fn transactions_have_sysbench_s_shape() {
        let mut script = script(Workload::ReadOnly);
        for _ in 0..3 {
            let kinds = kinds(&transaction(&mut script));
            assert_eq!(kinds, sysbench::READ_ONLY);
            assert_eq!(kinds.iter().filter(|&&kind| kind == Kind::Point).count(), 10);
        }
    }

    #[test]
    fn a_hot_transaction_updates_a_hot_row_and_reads_any() {
        let mut script = script(Workload::HotTransaction(3));
        let mut highest = 0;
        for _ in 0..50 {
            let statements = transaction(&mut script);
            let kinds = kinds(&statements);
            assert_eq!(kinds, [Kind::Begin, Kind::UpdateIndex, Kind::Point, Kind::Commit]);
            assert!((1..=3).contains(&statements[1].id));
            highest = highest.max(statements[2].id);
        }
        assert!(highest > 1_000, "{highest}");
    }

    #[test]
    fn what_read_write_deletes_comes_back() {
        let mut script = script(Workload::ReadWrite);
        for _ in 0..50 {
            let statements = transaction(&mut script);
            assert_eq!(kinds(&statements), sysbench::READ_WRITE);
            assert_eq!(statements[17].id, statements[18].id);
            assert_eq!(script.values(&statements[18]).len(), VALUE_BYTES);
        }
    }

    #[test]
    fn single_statements_are_transactions() {
        for (workload, kind) in [
            (Workload::PointSelect, Kind::Point),
            (Workload::UpdateIndex, Kind::UpdateIndex),
            (Workload::UpdateNonIndex, Kind::UpdateNonIndex),
            (Workload::HotRows(3), Kind::UpdateIndex),
            (Workload::Insert, Kind::Insert),
        ] {
            let mut script = script(workload);
            for _ in 0..10 {
                assert_eq!(kinds(&transaction(&mut script)), [kind], "{workload}");
            }
        }
    }

    #[test]
    fn statements_stay_inside_the_table() {
        for workload in
            [Workload::ReadOnly, Workload::ReadWrite, Workload::Ycsb(Ycsb::A), Workload::Ycsb(Ycsb::F)]
        {
            let mut script = script(workload);
            for _ in 0..5_000 {
                let statement = script.next_statement();
                let last = statement.id + statement.count - 1;
                assert!(
                    last <= SHAPE.rows && (statement.id >= 1 || statement.kind.is_control()),
                    "{statement:?}"
                );
            }
        }
        let mut whole = Load::new(Shape { range: 5_000, ..SHAPE }, 3, 0).script(9);
        assert!((0..14).map(|_| whole.next_statement()).filter(|s| s.count > 1).all(|s| s.id == 1));
    }

    #[test]
    fn hot_rows_are_the_first_ones() {
        let mut hot = script(Workload::HotRows(3));
        let ids: Vec<u32> = (0..100).map(|_| hot.next_statement().id).collect();
        assert!((1..=3).all(|id| ids.contains(&id)) && ids.iter().all(|id| *id <= 3), "{ids:?}");
    }

    #[test]
    fn inserted_keys_are_each_connection_s_own_and_kept_until_they_are_in() {
        let load = Load::new(Shape { workload: Workload::Insert, ..SHAPE }, 1, 0);
        let (mut a, mut b) = (load.script(0), load.script(1));
        let (first, second) = (a.next_statement(), b.next_statement());
        assert_eq!((first.id, second.id), (5_001, 5_002));
        a.begin_again();
        assert_eq!(a.next_statement().id, 5_001, "it was not inserted");
        a.acknowledge(&first);
        assert_eq!(a.next_statement().id, 5_003);
        assert_eq!(load.inserted.newest(), 5_001);
    }

    #[test]
    fn the_latest_rows_are_those_that_were_inserted() {
        let load = Load::new(Shape { workload: Workload::Ycsb(Ycsb::D), ..SHAPE }, 1, 0);
        let mut script = load.script(0);
        let (mut inserted, mut newest_read) = (0, 0);
        for _ in 0..10_000 {
            let statement = script.next_statement();
            if statement.kind == Kind::Insert {
                inserted += 1;
                assert_eq!(statement.id, SHAPE.rows + inserted);
                script.acknowledge(&statement);
            } else {
                assert!(statement.id <= SHAPE.rows + inserted);
                newest_read = newest_read.max(statement.id);
            }
        }
        assert!(newest_read > SHAPE.rows + inserted - 50, "{newest_read}");
    }

    #[test]
    fn a_read_modify_write_is_of_one_row() {
        let mut script = script(Workload::Ycsb(Ycsb::F));
        let both = (0..200).map(|_| transaction(&mut script)).filter(|statements| statements.len() == 2);
        assert!(both.into_iter().all(|statements| statements[0].id == statements[1].id));
    }

    #[test]
    fn a_transaction_begun_again_begins_with_its_first_statement() {
        let mut script = script(Workload::ReadWrite);
        (0..7).for_each(|_| {
            script.next_statement();
        });
        assert!(!script.transaction_ended());
        script.begin_again();
        assert_eq!(transaction(&mut script).len(), 20);
    }

    #[test]
    fn the_same_seed_gives_the_same_statements() {
        let take = |workload, seed, round, connection| -> Vec<Statement> {
            let mut script = Load::new(Shape { workload, ..SHAPE }, seed, round).script(connection);
            (0..50).map(|_| script.next_statement()).collect()
        };
        for workload in [Workload::ReadOnly, Workload::ReadWrite, Workload::Ycsb(Ycsb::B)] {
            let first = take(workload, 1, 2, 3);
            assert_eq!(first, take(workload, 1, 2, 3));
            assert_ne!(first, take(workload, 1, 2, 4));
            assert_ne!(first, take(workload, 1, 3, 3));
            assert_ne!(first, take(workload, 2, 2, 3));
        }
    }
}
