//! Temporary errors: the statement, or its transaction, is retried, as sysbench does.

use crate::measure::frontend::Window;
use crate::results::RefusalFigures;

use super::wire::ServerError;

const LOCK_WAIT_TIMEOUT: u16 = 1205;
const DEADLOCK: u16 = 1213;
/// `ER_STATEMENT_TIMEOUT`, the server's `max_statement_time`.
const STATEMENT_TIMEOUT: u16 = 1969;
/// The beginning of the plugin's own texts, which have the code of a lock wait timeout; and what a full queue's contains.
const REFUSED: &str = "flifo:";
const QUEUE_FULL: &str = "flifo_max_queue";
/// Record changed since it was read; query interrupted; and MySQL's statement timeout.
const OTHERS: [u16; 3] = [1020, 1317, 3024];

/// How many of each came inside a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Refusals {
    deadlocks: u64,
    lock_wait_timeouts: u64,
    statement_timeouts: u64,
    queue_full: u64,
    others: u64,
}

impl Refusals {
    /// Whether the error passes; counted if it came inside the window.
    pub(crate) fn note(&mut self, window: &Window, now_ns: u64, error: &ServerError) -> bool {
        let is_refusal = error.text.starts_with(REFUSED);
        let count = match error.code {
            LOCK_WAIT_TIMEOUT if is_refusal && error.text.contains(QUEUE_FULL) => &mut self.queue_full,
            LOCK_WAIT_TIMEOUT if is_refusal => &mut self.statement_timeouts,
            DEADLOCK => &mut self.deadlocks,
            LOCK_WAIT_TIMEOUT => &mut self.lock_wait_timeouts,
            STATEMENT_TIMEOUT => &mut self.statement_timeouts,
            other if OTHERS.contains(&other) => &mut self.others,
            _ => return false,
        };
        *count += u64::from((window.start_ns()..window.end_ns()).contains(&now_ns));
        true
    }

    pub(crate) fn add(&mut self, other: &Refusals) {
        self.deadlocks += other.deadlocks;
        self.lock_wait_timeouts += other.lock_wait_timeouts;
        self.statement_timeouts += other.statement_timeouts;
        self.queue_full += other.queue_full;
        self.others += other.others;
    }

    pub(crate) fn figures(&self) -> RefusalFigures {
        let Refusals { deadlocks, lock_wait_timeouts, statement_timeouts, queue_full, others } = *self;
        RefusalFigures {
            retries: Some(deadlocks + lock_wait_timeouts + statement_timeouts + queue_full + others),
            write_conflicts: None,
            deadlocks: Some(self.deadlocks),
            lock_wait_timeouts: Some(self.lock_wait_timeouts),
            statement_timeouts: Some(self.statement_timeouts),
            queue_full_refusals: Some(self.queue_full),
            other_refusals: Some(self.others),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn errors_that_pass_are_counted_inside_the_window_only() {
        let window = Window::after(Duration::ZERO, Duration::from_secs(1));
        let mut refusals = Refusals::default();
        let error = |code: u16, text: &str| ServerError { code, text: text.into() };
        assert!(refusals.note(&window, window.start_ns(), &error(DEADLOCK, "Deadlock found")));
        assert!(refusals.note(&window, window.end_ns(), &error(DEADLOCK, "Deadlock found")));
        assert!(refusals.note(&window, window.start_ns(), &error(1317, "")));
        let missing = error(1146, "");
        assert!(!refusals.note(&window, window.start_ns(), &missing), "a missing table does not pass");
        let mut sum = refusals;
        sum.add(&refusals);
        let figures = sum.figures();
        assert_eq!(
            (figures.deadlocks, figures.other_refusals, figures.lock_wait_timeouts),
            (Some(2), Some(2), Some(0))
        );
        assert_eq!(figures.retries, Some(4));
        // The plugin's refusals have the code of a lock wait timeout.
        let mut refusals = Refusals::default();
        for text in [
            "Lock wait timeout exceeded; try restarting transaction",
            "flifo: not admitted within 1 ms (flifo_queue_timeout); nothing was executed, try again",
            "flifo: the queue for admission is full (flifo_max_queue = 2); nothing was executed, try again",
        ] {
            assert!(refusals.note(&window, window.start_ns(), &error(LOCK_WAIT_TIMEOUT, text)));
        }
        let figures = refusals.figures();
        assert_eq!(
            (figures.lock_wait_timeouts, figures.statement_timeouts, figures.queue_full_refusals),
            (Some(1), Some(1), Some(1))
        );
    }
}
