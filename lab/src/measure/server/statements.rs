//! A connection of a load whose transactions need the values of their results: statements with parameters, prepared at
//! their first use or sent as text.

use mysql_common::value::Value;

use super::Protocol;
use super::connect;
use super::endpoint::Endpoint;
use super::explain::not_executed;
use super::session::{Returned, Sent, Session};
use super::wire::{ServerError, WireError};
use crate::measure::workload::wire::Retry;
use crate::support::error::Error;

const LOCK_WAIT_TIMEOUT: u16 = 1205;
const DEADLOCK: u16 = 1213;
/// Record changed since it was read, with MariaDB's `innodb_snapshot_isolation`.
const RECORD_CHANGED: u16 = 1020;

/// A connection with the statements of a load, which are known by their places in a list.
pub(crate) struct Statements {
    session: Session,
    protocol: Protocol,
    /// The texts, with a question mark for each value.
    texts: &'static [&'static str],
    prepared: Vec<Option<u32>>,
    executed: u64,
}

/// Why a statement returned nothing.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The transaction may run again, after a rollback.
    Passes(Retry),
    Lasts(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed::Lasts(error)
    }
}

impl Statements {
    /// Connects and takes the address's database, with transactions at READ COMMITTED.
    pub(crate) fn open(
        endpoint: &Endpoint,
        protocol: Protocol,
        texts: &'static [&'static str],
    ) -> Result<Self, Error> {
        let mut session = connect::open(endpoint)?;
        connect::set_own_mode(&mut session, endpoint)?;
        let level = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
        session.query(level).map_err(|error| connect::explain(endpoint, error))?;
        Ok(Statements { session, protocol, texts, prepared: vec![None; texts.len()], executed: 0 })
    }

    /// The statements since the last call.
    pub(crate) fn take_executed(&mut self) -> u64 {
        std::mem::take(&mut self.executed)
    }

    /// Runs the statement at a place of the list.
    pub(crate) fn run(&mut self, place: usize, values: &[Value]) -> Result<Returned, Failed> {
        self.executed += 1;
        let text = self.texts[place];
        let returned = match self.protocol {
            Protocol::Text => self.session.run(Sent::Text(&with_values(text, values))),
            Protocol::Prepared => {
                self.prepared(place).and_then(|statement| self.session.run(Sent::Prepared(statement, values)))
            }
        };
        returned.map_err(|error| self.failed(text, error))
    }

    /// As [`Statements::run`], for a statement that has one row.
    pub(crate) fn row(&mut self, place: usize, values: &[Value]) -> Result<Option<Vec<Value>>, Failed> {
        self.run(place, values).map(|returned| returned.rows.into_iter().next())
    }

    /// Runs a statement that is neither prepared nor has values, such as COMMIT.
    pub(crate) fn control(&mut self, sql: &'static str) -> Result<(), Failed> {
        self.executed += 1;
        self.session.run(Sent::Text(sql)).map(drop).map_err(|error| self.failed(sql, error))
    }

    fn prepared(&mut self, place: usize) -> Result<u32, WireError> {
        if let Some(statement) = self.prepared[place] {
            return Ok(statement);
        }
        let statement = self.session.prepare(self.texts[place])?;
        self.prepared[place] = Some(statement);
        Ok(statement)
    }

    fn failed(&self, sql: &str, error: WireError) -> Failed {
        let WireError::Server(error) = error else {
            return Failed::Lasts(Error::Cell(format!(
                "connection {}: {error}",
                self.session.greeting.connection
            )));
        };
        match error {
            ServerError { code: DEADLOCK, .. } => Failed::Passes(Retry::Deadlock),
            ServerError { code: LOCK_WAIT_TIMEOUT, .. } => Failed::Passes(Retry::LockWaitTimeout),
            ServerError { code: RECORD_CHANGED, .. } => Failed::Passes(Retry::WriteConflict),
            error => Failed::Lasts(not_executed(sql, self.session.greeting.connection, &error)),
        }
    }
}

impl Drop for Statements {
    fn drop(&mut self) {
        self.session.say_goodbye();
    }
}

/// Makes an enumeration of statements, and `TEXTS`, the list in which each stands at its own place.
macro_rules! statements {
    ($($name:ident: $text:literal;)*) => {
        #[derive(Debug, Clone, Copy)]
        enum Sql { $($name,)* }

        /// The statements, with a question mark for each value.
        pub(crate) const TEXTS: &[&str] = &[$($text,)*];
    };
}
pub(crate) use statements;

/// A statement with its values in the places of the question marks.
fn with_values(text: &str, values: &[Value]) -> String {
    let mut pieces = text.split('?');
    let mut sql = pieces.next().unwrap_or_default().to_owned();
    for (value, piece) in values.iter().zip(pieces) {
        // The texts of a load have neither quotes nor backslashes, whatever the sql_mode takes them for.
        sql += &value.as_sql(true);
        sql += piece;
    }
    sql
}

/// An integer of a result, of either protocol; a decimal in its smallest unit, so that 12.50 is 1250.
pub(crate) fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::UInt(number) => i64::try_from(*number).ok(),
        Value::Bytes(text) => {
            let digits: String =
                text.iter().filter(|byte| **byte != b'.').map(|byte| char::from(*byte)).collect();
            digits.parse().ok()
        }
        _ => None,
    }
}

/// A text of a result.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Bytes(text) => String::from_utf8_lossy(text).into_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_in_the_places_of_the_question_marks() {
        let values = [Value::Int(-3), Value::Bytes(b"it's".to_vec()), Value::NULL];
        assert_eq!(with_values("a = ? AND b = ? AND c = ?", &values), "a = -3 AND b = 'it''s' AND c = NULL");
    }

    #[test]
    fn numbers_are_read_of_both_protocols() {
        let bytes = |text: &str| Value::Bytes(text.into());
        assert_eq!(
            [Value::Int(-5), bytes("-5"), Value::UInt(7)].map(|value| integer(&value)),
            [Some(-5), Some(-5), Some(7)]
        );
        assert_eq!([bytes("12.50"), bytes("-0.07")].map(|value| integer(&value)), [Some(1_250), Some(-7)]);
        assert_eq!([Value::NULL, bytes("x")].map(|value| integer(&value)), [None, None]);
    }
}
