//! The state of one connection's client in a cell, for every frontend.
//!
//! ```text
//! running --rows--> running (next statement), done after the window's end
//! running --retry--> running (a new transaction; its time continues), done after the window's end
//! running --rows, a transaction open, after the window's end--> rolling back --rows--> done
//! ```
//! So no cell leaves locks to the next, and acknowledged changes are known exactly ([`WindowCounters::changes`]).

use super::{Window, WindowCounters};
use crate::measure::workload::statement::{Kind, Statement};
use crate::measure::workload::{Load, Outcome, Script, Totals};
use crate::support::error::Error;

/// A client between two statements.
pub(super) struct ConnectionState<'w> {
    window: &'w Window,
    /// Its number within its counters.
    place: usize,
    script: Script,
    statement: Statement,
    /// When its transaction began.
    begun_ns: u64,
    /// Within BEGIN and COMMIT.
    is_open: bool,
    /// What the open transaction has changed.
    changed: Totals,
}

impl<'w> ConnectionState<'w> {
    /// The client of `connection`, which is `place` in its counters, with its first statement to be sent now.
    pub(super) fn begin(
        load: &Load,
        window: &'w Window,
        (connection, place): (u32, usize),
        now_ns: u64,
    ) -> Self {
        let mut script = load.script(connection);
        let statement = script.next_statement();
        let changed = Totals::default();
        ConnectionState { window, place, script, statement, begun_ns: now_ns, is_open: false, changed }
    }

    /// The statement to send, or in progress.
    #[inline]
    pub(super) fn statement(&self) -> &Statement {
        &self.statement
    }

    /// Its values.
    #[inline]
    pub(super) fn values(&self) -> &[u8] {
        self.script.values(&self.statement)
    }

    /// Takes note of the statement's outcome; true if there is another to be sent.
    #[inline]
    pub(super) fn complete(
        &mut self,
        outcome: Outcome,
        now_ns: u64,
        counters: &mut WindowCounters,
    ) -> Result<bool, Error> {
        let ended = match outcome {
            Outcome::Done { rows, k_change } => {
                if !self.statement.expects(rows) {
                    return Err(Error::MissingRows { statement: format!("{:?}", self.statement), rows });
                }
                self.done(k_change, now_ns, counters)
            }
            Outcome::Retry(why) => {
                counters.retries.note(self.window, now_ns, why);
                self.script.begin_again();
                (self.is_open, self.changed) = (false, Totals::default());
                false
            }
        };
        if now_ns >= self.window.end_ns() {
            return Ok(self.finish_open(counters));
        }
        if ended {
            self.begun_ns = now_ns;
        }
        self.statement = self.script.next_statement();
        Ok(true)
    }

    /// Records a finished statement; returns whether it ended its transaction.
    #[inline]
    fn done(&mut self, k_change: i64, now_ns: u64, counters: &mut WindowCounters) -> bool {
        let kind = self.statement.kind;
        if kind == Kind::Rollback {
            (self.is_open, self.changed) = (false, Totals::default());
            return false;
        }
        self.script.acknowledge(&self.statement);
        let ended = self.script.transaction_ended();
        counters.reply(self.window, now_ns, self.place, ended.then_some(self.begun_ns));
        // Only a change's reply says how much.
        let sum_k = if kind.writes() { k_change } else { 0 };
        self.changed = self.changed.plus(Totals { rows: kind.rows_added(), sum_k });
        self.is_open = (self.is_open || kind == Kind::Begin) && kind != Kind::Commit;
        if !self.is_open {
            counters.changes = counters.changes.plus(std::mem::take(&mut self.changed));
        }
        ended
    }

    /// Ends an open transaction after the window; returns whether a statement must be sent for that.
    fn finish_open(&mut self, counters: &mut WindowCounters) -> bool {
        if self.statement.kind != Kind::Rollback {
            counters.unanswered(self.window, self.begun_ns);
        }
        if self.is_open {
            self.statement = Statement { kind: Kind::Rollback, id: 0, count: 1, work_us: 0 };
        }
        self.is_open
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::measure::workload::wire::Retry;
    use crate::measure::workload::{Shape, Workload};

    fn load(workload: Workload) -> Load {
        Load::new(Shape { workload, rows: 1_000, range: 100, work_us: 0 }, 1, 0)
    }

    fn done(statement: &Statement, k_change: i64) -> Outcome {
        let rows = match statement.kind {
            kind if kind.is_control() => 0,
            Kind::SumRange => 1,
            _ => statement.count,
        };
        Outcome::Done { rows, k_change }
    }

    #[test]
    fn a_transaction_counts_when_it_is_committed() {
        let window = Window::after(Duration::ZERO, Duration::from_secs(1));
        let mut counters = WindowCounters::new(1);
        let mut state =
            ConnectionState::begin(&load(Workload::ReadWrite), &window, (0, 0), window.start_ns());
        for n in 0..20 {
            assert_eq!(counters.changes, Totals::default(), "nothing is committed");
            let change = if state.statement().kind.writes() { 10 } else { 0 };
            let outcome = done(state.statement(), change);
            assert!(state.complete(outcome, window.start_ns() + n, &mut counters).unwrap());
        }
        assert_eq!(counters.changes, Totals { rows: 0, sum_k: 40 });
        assert_eq!((counters.statements, counters.transactions), (20, 1));
        assert_eq!(state.statement().kind, Kind::Begin);
    }

    #[test]
    fn what_was_rolled_back_does_not_count_and_is_run_again() {
        let window = Window::after(Duration::ZERO, Duration::from_secs(1));
        let mut counters = WindowCounters::new(1);
        let mut state =
            ConnectionState::begin(&load(Workload::ReadWrite), &window, (0, 0), window.start_ns());
        while state.statement().kind != Kind::UpdateNonIndex {
            let outcome = done(state.statement(), 1);
            assert!(state.complete(outcome, window.start_ns(), &mut counters).unwrap());
        }
        assert!(state.complete(Outcome::Retry(Retry::Deadlock), window.start_ns(), &mut counters).unwrap());
        assert_eq!(state.statement().kind, Kind::Begin);
        assert_eq!((counters.changes, counters.transactions), (Totals::default(), 0));
        assert_eq!(counters.retries.figures().deadlocks, Some(1));
    }

    #[test]
    fn an_open_transaction_is_rolled_back_at_the_end() {
        let window = Window::after(Duration::ZERO, Duration::from_secs(1));
        let (mut counters, end) = (WindowCounters::new(1), window.end_ns());
        let mut state =
            ConnectionState::begin(&load(Workload::ReadWrite), &window, (0, 0), window.start_ns());
        let outcome = done(state.statement(), 0);
        assert!(state.complete(outcome, end, &mut counters).unwrap());
        assert_eq!(state.statement().kind, Kind::Rollback);
        let outcome = done(state.statement(), 0);
        assert!(!state.complete(outcome, end + 1, &mut counters).unwrap());

        let mut single =
            ConnectionState::begin(&load(Workload::HotRows(1)), &window, (0, 0), window.start_ns());
        let outcome = done(single.statement(), 1);
        assert!(!single.complete(outcome, end, &mut counters).unwrap());
        assert_eq!(counters.changes.sum_k, 1, "it is committed, if too late to be counted");
        assert_eq!(counters.statements, 0);
    }

    #[test]
    fn a_wrong_number_of_rows_is_an_error() {
        let window = Window::after(Duration::ZERO, Duration::from_secs(1));
        let mut state =
            ConnectionState::begin(&load(Workload::PointSelect), &window, (0, 0), window.start_ns());
        let nothing = Outcome::Done { rows: 0, k_change: 0 };
        assert!(state.complete(nothing, window.start_ns(), &mut WindowCounters::new(1)).is_err());
    }
}
