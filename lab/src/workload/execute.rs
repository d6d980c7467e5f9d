//! The server's side of a statement: runs it in the engine and builds the reply.
//!
//! The place in admission is held from the statement's begin until its result is complete, sorting
//! included, and given up before the reply leaves.

use std::ops::{Bound, ControlFlow};

use flifo_engine::{Session, Statement as Running, Tree};

use super::row::{self, C_BYTES};
use super::statement::{HEADER_BYTES, Header, Kind, Statement};
use super::work;
use crate::error::Error;

/// The tree that holds the rows.
pub const TABLE: &str = "sbtest";

/// A connection's scratch space, grown once and kept: a statement allocates nothing.
#[derive(Default)]
pub struct Executor {
    reply: Vec<u8>,
    row: Vec<u8>,
    order: Vec<(u64, u32)>,
    sorted: Vec<u8>,
}

impl Executor {
    /// Runs the statement; gives the whole reply and how many rows it has.
    pub fn run(
        &mut self,
        session: &Session,
        tree: &Tree,
        statement: &Statement,
    ) -> Result<(&[u8], u32), Error> {
        self.reply.clear();
        self.reply.resize(HEADER_BYTES, 0);
        let running = session.statement()?;
        work::burn(statement.work_us);
        let rows = match statement.kind {
            Kind::Point => self.point(&running, tree, statement.id)?,
            Kind::SimpleRange => self.range(&running, tree, statement)?,
            Kind::SumRange => self.sum(&running, tree, statement)?,
            Kind::OrderRange => {
                let rows = self.range(&running, tree, statement)?;
                self.sort(rows);
                rows
            }
            Kind::DistinctRange => {
                let rows = self.range(&running, tree, statement)?;
                self.sort(rows);
                self.drop_duplicates()
            }
        };
        drop(running);
        if !statement.expects(rows) {
            return Err(Error::MissingRows { statement: *statement, rows });
        }
        let body_bytes = (self.reply.len() - HEADER_BYTES) as u32;
        self.reply[..HEADER_BYTES].copy_from_slice(&Header { body_bytes, rows: Some(rows) }.encode());
        Ok((&self.reply, rows))
    }

    fn point(&mut self, running: &Running<'_>, tree: &Tree, id: u32) -> Result<u32, Error> {
        self.row.clear();
        if !running.get(tree, &row::key(id), &mut self.row)? {
            return Ok(0);
        }
        self.reply.extend_from_slice(row::c(&self.row).ok_or(Error::NotARow { id })?);
        Ok(1)
    }

    fn range(&mut self, running: &Running<'_>, tree: &Tree, statement: &Statement) -> Result<u32, Error> {
        let reply = &mut self.reply;
        scan(running, tree, statement, |value| match row::c(value) {
            Some(c) => {
                reply.extend_from_slice(c);
                true
            }
            None => false,
        })
    }

    fn sum(&mut self, running: &Running<'_>, tree: &Tree, statement: &Statement) -> Result<u32, Error> {
        let mut sum = 0u64;
        let rows = scan(running, tree, statement, |value| match row::k(value) {
            Some(k) => {
                sum += u64::from(k);
                true
            }
            None => false,
        })?;
        self.reply.extend_from_slice(&sum.to_le_bytes());
        // A row is missing: say so with a count that fits no sum.
        Ok(if rows == statement.count { 1 } else { 0 })
    }

    /// Sorts the c's in the reply. What is sorted is (first eight bytes, place), 12 bytes instead of
    /// 120 to move and mostly one comparison of integers; the rows are moved once, at the end.
    fn sort(&mut self, rows: u32) {
        let body = &self.reply[HEADER_BYTES..];
        let c = |index: u32| &body[index as usize * C_BYTES..][..C_BYTES];
        self.order.clear();
        self.order.extend((0..rows).map(|index| {
            let head = c(index).first_chunk::<8>().map_or(0, |head| u64::from_be_bytes(*head));
            (head, index)
        }));
        self.order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| c(a.1).cmp(c(b.1))));
        self.sorted.clear();
        for &(_, index) in &self.order {
            self.sorted.extend_from_slice(c(index));
        }
        self.reply[HEADER_BYTES..].copy_from_slice(&self.sorted);
    }

    /// Drops the repeated c's of a sorted reply; gives how many are left.
    fn drop_duplicates(&mut self) -> u32 {
        let (rows, _) = self.reply[HEADER_BYTES..].as_chunks_mut::<C_BYTES>();
        let mut kept = usize::from(!rows.is_empty());
        for next in 1..rows.len() {
            if rows[next] != rows[kept - 1] {
                rows[kept] = rows[next];
                kept += 1;
            }
        }
        self.reply.truncate(HEADER_BYTES + kept * C_BYTES);
        kept as u32
    }
}

/// Hands each row of the range to `each`, which says whether it is one.
fn scan(
    running: &Running<'_>,
    tree: &Tree,
    statement: &Statement,
    mut each: impl FnMut(&[u8]) -> bool,
) -> Result<u32, Error> {
    let (first, last) = (row::key(statement.id), row::key(statement.id + (statement.count - 1)));
    let mut rows = 0;
    let mut sound = true;
    running.scan(tree, Bound::Included(&first), Bound::Included(&last), |_, value| {
        rows += 1;
        sound = each(value);
        if sound { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    if sound { Ok(rows) } else { Err(Error::NotARow { id: statement.id + rows - 1 }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executor_with(rows: &[&[u8; C_BYTES]]) -> Executor {
        let mut executor = Executor { reply: vec![0; HEADER_BYTES], ..Executor::default() };
        rows.iter().for_each(|row| executor.reply.extend_from_slice(*row));
        executor
    }

    fn c(text: &str) -> [u8; C_BYTES] {
        let mut bytes = [b' '; C_BYTES];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        bytes
    }

    #[test]
    fn sorting_looks_past_the_first_bytes() {
        let rows = [c("22222222-b"), c("11111111-z"), c("22222222-a"), c("00000000-q")];
        let mut executor = executor_with(&rows.each_ref());
        executor.sort(4);
        let want = [rows[3], rows[1], rows[2], rows[0]].concat();
        assert_eq!(&executor.reply[HEADER_BYTES..], want);
    }

    #[test]
    fn duplicates_are_dropped() {
        let rows = [c("a"), c("a"), c("b"), c("c"), c("c"), c("c")];
        let mut executor = executor_with(&rows.each_ref());
        assert_eq!(executor.drop_duplicates(), 3);
        assert_eq!(&executor.reply[HEADER_BYTES..], [c("a"), c("b"), c("c")].concat());
        assert_eq!(executor_with(&[]).drop_duplicates(), 0);
    }
}
