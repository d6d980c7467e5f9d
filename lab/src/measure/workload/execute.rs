//! The server's side of a statement: runs it in the engine and builds the reply.
//!
//! The slot in admission is held from the statement's begin until its result is complete, including sorting and the
//! commit of a single statement, and released before the reply is sent.
//!
//! # Transactions
//! BEGIN opens one under repeatable read, COMMIT and ROLLBACK end it. A statement outside is a transaction of its own.
//! Reads run under repeatable read, too. Writes run under read committed: they read only the row that they change, so
//! that after a wait for another's commit they continue with the new version; under repeatable read each wait would end
//! in a write conflict.
//!
//! With a [specimen](super::kernel) the statement also takes a kernel mutex: at the beginning of a transaction, at its
//! first read, for each changed row, and at its end.
//!
//! After a deadlock, a write conflict or a timeout the transaction is rolled back at once, and the client retries it.

use std::ops::Deref;
use std::sync::Arc;

use flifo_engine::{
    Error as EngineError, Isolation, Scratch as PooledScratch, ScratchPool, Session, Transaction,
};

use super::kernel::{Kernel, KernelTransaction};
use super::row::{self, C_BYTES};
use super::statement::{Kind, Statement};
use super::table::Sbtest;
use super::wire::{HEADER_BYTES, Header, Retry, Status};
use super::work;
use crate::support::error::Error;

/// How a statement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// With a result.
    Done {
        /// Rows of the result, or changed rows.
        rows: u32,
        /// How much it changed the sum of all `k`.
        k_change: i64,
    },
    /// The transaction was rolled back and can be run again.
    Retry(Retry),
}

/// A connection at the server: its transaction, if one is open.
pub struct Executor<'s> {
    session: &'s Session,
    table: &'s Sbtest,
    open: Option<Transaction<'s>>,
    /// The specimen's part; `None` without one.
    kernel: Option<KernelTransaction>,
}

/// What a statement builds its reply in. A slot in admission comes with one, so there are about as many as statements
/// run at a time, whatever the number of connections.
#[derive(Default)]
struct Scratch {
    reply: Vec<u8>,
    order: Vec<(u64, u32)>,
    sorted: Vec<u8>,
}

static SCRATCH: ScratchPool<Scratch> = ScratchPool::new();

/// The whole reply to a statement; when it is dropped, its memory is another's.
pub struct Reply(PooledScratch<'static, Scratch>);

impl Deref for Reply {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0.reply
    }
}

impl<'s> Executor<'s> {
    /// For a session; with a kernel mutex if the cell has that specimen.
    pub fn new(session: &'s Session, table: &'s Sbtest, kernel: Option<&Arc<Kernel>>) -> Self {
        Executor { session, table, open: None, kernel: kernel.map(KernelTransaction::new) }
    }

    /// Runs the statement with its values, and builds the reply.
    pub fn run(&mut self, statement: &Statement, values: &[u8]) -> Result<(Outcome, Reply), Error> {
        let (outcome, mut scratch) = match self.execute(statement, values) {
            Ok(done) => done,
            Err(error) => {
                // Whatever it was, it is over with the transaction.
                self.open = None;
                self.end_in_kernel();
                (Outcome::Retry(can_be_retried(error)?), Scratch::take())
            }
        };
        let reply = &mut scratch.reply;
        let status = match outcome {
            Outcome::Done { rows, .. } if !statement.expects(rows) => {
                return Err(Error::MissingRows { statement: format!("{statement:?}"), rows });
            }
            Outcome::Done { rows, k_change } => {
                if statement.kind.writes() {
                    reply.extend_from_slice(&k_change.to_le_bytes());
                }
                Status::Rows(rows)
            }
            Outcome::Retry(retry) => {
                reply.push(retry as u8);
                Status::Retry
            }
        };
        let body_bytes = (reply.len() - HEADER_BYTES) as u32;
        reply[..HEADER_BYTES].copy_from_slice(&Header { body_bytes, status }.encode());
        Ok((outcome, Reply(scratch)))
    }

    fn execute(
        &mut self,
        statement: &Statement,
        values: &[u8],
    ) -> Result<(Outcome, PooledScratch<'static, Scratch>), Error> {
        if statement.kind.is_control() {
            return Ok((self.control(statement)?, Scratch::take()));
        }
        if let Some(txn) = &mut self.open {
            let _place = txn.statement()?;
            enter_kernel(&mut self.kernel, statement, self.session);
            let mut scratch = Scratch::take();
            let outcome = scratch.change_or_read(self.table, txn, statement, values)?;
            return Ok((outcome, scratch));
        }
        let isolation =
            if statement.kind.writes() { Isolation::ReadCommitted } else { Isolation::RepeatableRead };
        let mut txn = self.session.begin(isolation);
        let _place = txn.statement()?;
        self.begin_in_kernel();
        enter_kernel(&mut self.kernel, statement, self.session);
        let mut scratch = Scratch::take();
        let outcome = scratch.change_or_read(self.table, &mut txn, statement, values)?;
        txn.commit()?;
        self.end_in_kernel();
        Ok((outcome, scratch))
    }

    fn begin_in_kernel(&mut self) {
        if let Some(kernel) = &mut self.kernel {
            kernel.begin();
        }
    }

    fn end_in_kernel(&mut self) {
        if let Some(kernel) = &mut self.kernel {
            kernel.end();
        }
    }

    fn control(&mut self, statement: &Statement) -> Result<Outcome, Error> {
        match (statement.kind, self.open.take()) {
            (Kind::Begin, None) => {
                let txn = self.session.begin(Isolation::RepeatableRead);
                let _place = txn.statement()?;
                work::burn(statement.work_us);
                self.begin_in_kernel();
                self.open = Some(txn);
            }
            (Kind::Commit, Some(txn)) => {
                let _place = txn.statement()?;
                work::burn(statement.work_us);
                txn.commit()?;
                self.end_in_kernel();
            }
            (Kind::Rollback, open) => {
                if let Some(txn) = open {
                    let _place = txn.statement()?;
                    work::burn(statement.work_us);
                    txn.rollback()?;
                    self.end_in_kernel();
                }
            }
            (Kind::Begin, Some(_)) => return Err(Error::Protocol("BEGIN within a transaction")),
            _ => return Err(Error::Protocol("COMMIT without a transaction")),
        }
        Ok(Outcome::Done { rows: 0, k_change: 0 })
    }
}

/// What a statement does under the kernel mutex before its work.
fn enter_kernel(kernel: &mut Option<KernelTransaction>, statement: &Statement, session: &Session) {
    match kernel {
        Some(kernel) if statement.kind.writes() => {
            if let Some(grant) = kernel.change(statement.id) {
                session.wait_for_lock(|| grant.wait());
            }
        }
        Some(kernel) => kernel.read(),
        None => {}
    }
}

/// Why a client may run its transaction again after the error; any other error stays one.
pub(crate) fn can_be_retried(error: Error) -> Result<Retry, Error> {
    match error {
        Error::Engine(EngineError::Deadlock) => Ok(Retry::Deadlock),
        Error::Engine(EngineError::LockWaitTimeout) => Ok(Retry::LockWaitTimeout),
        Error::Engine(EngineError::WriteConflict) => Ok(Retry::WriteConflict),
        other => Err(other),
    }
}

impl Scratch {
    /// With room for a header, and no more in it.
    fn take() -> PooledScratch<'static, Scratch> {
        let mut scratch = SCRATCH.take();
        scratch.reply.clear();
        scratch.reply.resize(HEADER_BYTES, 0);
        scratch
    }

    fn change_or_read(
        &mut self,
        table: &Sbtest,
        txn: &mut Transaction<'_>,
        statement: &Statement,
        values: &[u8],
    ) -> Result<Outcome, Error> {
        work::burn(statement.work_us);
        let done = |is_there: bool, k_change| Outcome::Done { rows: is_there.into(), k_change };
        let id = statement.id;
        Ok(match statement.kind {
            Kind::UpdateIndex => done(table.increment_k(txn, id)?, 1),
            Kind::UpdateNonIndex => done(table.update_c(txn, id, values)?, 0),
            Kind::Delete => {
                let k = table.delete(txn, id)?;
                done(k.is_some(), -k.map_or(0, i64::from))
            }
            Kind::Insert => done(table.insert(txn, id, values)?, row::k(values).map_or(0, i64::from)),
            _ => Outcome::Done { rows: self.read(table, txn, statement)?, k_change: 0 },
        })
    }

    fn read(
        &mut self,
        table: &Sbtest,
        txn: &mut Transaction<'_>,
        statement: &Statement,
    ) -> Result<u32, Error> {
        let Statement { id, count, .. } = *statement;
        let last = id + (count - 1);
        let reply = &mut self.reply;
        match statement.kind {
            Kind::Point => return table.read_c(txn, id, reply).map(u32::from),
            Kind::SumRange => {
                let mut sum = 0u64;
                let rows = table.scan(txn, (id, last, count), |k, _| sum += u64::from(k))?;
                reply.extend_from_slice(&sum.to_le_bytes());
                // A row is missing: say so with a count that fits no sum.
                return Ok(u32::from(rows == count));
            }
            _ => {}
        }
        let last = if statement.kind == Kind::ShortScan { u32::MAX } else { last };
        let rows = table.scan(txn, (id, last, count), |_, c| reply.extend_from_slice(c))?;
        if matches!(statement.kind, Kind::OrderRange | Kind::DistinctRange) {
            self.sort(rows);
        }
        Ok(if statement.kind == Kind::DistinctRange { self.drop_duplicates() } else { rows })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch_with(rows: &[&[u8; C_BYTES]]) -> Scratch {
        let mut scratch = Scratch { reply: vec![0; HEADER_BYTES], ..Scratch::default() };
        rows.iter().for_each(|row| scratch.reply.extend_from_slice(*row));
        scratch
    }

    fn c(text: &str) -> [u8; C_BYTES] {
        let mut bytes = [b' '; C_BYTES];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        bytes
    }

    #[test]
    fn sorting_looks_past_the_first_bytes() {
        let rows = [c("22222222-b"), c("11111111-z"), c("22222222-a"), c("00000000-q")];
        let mut scratch = scratch_with(&rows.each_ref());
        scratch.sort(4);
        let want = [rows[3], rows[1], rows[2], rows[0]].concat();
        assert_eq!(&scratch.reply[HEADER_BYTES..], want);
    }

    #[test]
    fn duplicates_are_dropped() {
        let rows = [c("a"), c("a"), c("b"), c("c"), c("c"), c("c")];
        let mut scratch = scratch_with(&rows.each_ref());
        assert_eq!(scratch.drop_duplicates(), 3);
        assert_eq!(&scratch.reply[HEADER_BYTES..], [c("a"), c("b"), c("c")].concat());
        assert_eq!(scratch_with(&[]).drop_duplicates(), 0);
    }
}
