//! The wire format of the socket frontend, for statements and replies. All numbers are little-endian.
//!
//! ```text
//! request (12 bytes)  kind u8, 0, work u16 | id u32 | count u32; kind 0 opens a new session
//!   values            of an update of c: c (120); of an insert: k, c, pad as in a row's value (184)
//! reply header (8)    body bytes u32 | rows u32
//! reply body          the rows of the result: c's of 120 bytes, or one sum of 8 bytes; of a change: how much it
//!                     changed the sum of all k, i64
//!   rows 0xffff_ffff  an error: its exit code (1 byte) and text
//!   rows 0xffff_fffe  the transaction was rolled back, and can be run again: why (1 byte)
//! ```
//! A connection has one request under way at a time, so neither side ever sees two messages at once. A request is one
//! message; a reply's header and the first bytes of its body come together.

use super::row::VALUE_BYTES;
use super::statement::{Kind, Statement};

/// Bytes of a request before its values.
const STATEMENT_BYTES: usize = 12;
/// Most bytes of a request.
pub const REQUEST_BYTES_MAX: usize = STATEMENT_BYTES + VALUE_BYTES;
/// Bytes of a reply before its body.
pub const HEADER_BYTES: usize = 8;
/// Body of a reply to a change.
pub const CHANGE_BYTES: usize = 8;
const NEW_SESSION: u8 = 0;
const ROWS_ERROR: u32 = u32::MAX;
const ROWS_RETRY: u32 = u32::MAX - 1;

/// A client's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// Open a new session under the cell's scheduler; as COM_CHANGE_USER, it keeps the connection and rolls back what
    /// was open.
    NewSession,
    /// Run a statement with its values.
    Run(Statement, &'a [u8]),
}

impl<'a> Request<'a> {
    /// Writes the request's bytes; returns their number.
    #[inline]
    pub fn encode(self, bytes: &mut [u8; REQUEST_BYTES_MAX]) -> usize {
        let Request::Run(statement, values) = self else {
            bytes[..STATEMENT_BYTES].fill(NEW_SESSION);
            return STATEMENT_BYTES;
        };
        bytes[..2].copy_from_slice(&[statement.kind as u8, 0]);
        bytes[2..4].copy_from_slice(&statement.work_us.to_le_bytes());
        bytes[4..8].copy_from_slice(&statement.id.to_le_bytes());
        bytes[8..12].copy_from_slice(&statement.count.to_le_bytes());
        let length = STATEMENT_BYTES + values.len();
        bytes[STATEMENT_BYTES..length].copy_from_slice(values);
        length
    }

    /// Decodes a request; `None` if the bytes are invalid.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Option<Request<'a>> {
        let (head, values) = bytes.split_first_chunk::<STATEMENT_BYTES>()?;
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if head[0] == NEW_SESSION {
            return values.is_empty().then_some(Request::NewSession);
        }
        let kind = *Kind::ALL.get(usize::from(head[0]) - 1)?;
        let work_us = u16::from_le_bytes([head[2], head[3]]);
        let statement = Statement { kind, id: word(4), count: word(8), work_us };
        let is_possible =
            statement.id.checked_add(statement.count).is_some() && (!kind.is_range() || word(8) > 0);
        (values.len() == kind.values_bytes() && is_possible).then_some(Request::Run(statement, values))
    }
}

/// Why a transaction was rolled back that can be retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Retry {
    /// Transactions waited for each other's rows.
    Deadlock = 1,
    /// A row was locked for too long.
    LockWaitTimeout = 2,
    /// Another transaction has changed a row since this one's snapshot.
    WriteConflict = 3,
}

impl Retry {
    /// Decodes the byte.
    pub fn from_code(code: u8) -> Option<Retry> {
        [Retry::Deadlock, Retry::LockWaitTimeout, Retry::WriteConflict]
            .into_iter()
            .find(|retry| *retry as u8 == code)
    }
}

/// The status of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// A result of this many rows; for a change the number of changed rows.
    Rows(u32),
    /// The transaction was rolled back; why is in the body.
    Retry,
    /// An error, which is in the body: its exit code (1 byte) and text.
    Error,
}

/// The start of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes after the header.
    pub body_bytes: u32,
    /// The status.
    pub status: Status,
}

impl Header {
    /// The header's bytes.
    #[inline]
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let rows = match self.status {
            Status::Rows(rows) => rows,
            Status::Retry => ROWS_RETRY,
            Status::Error => ROWS_ERROR,
        };
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[4..].copy_from_slice(&rows.to_le_bytes());
        bytes
    }

    /// Decodes the start of a reply.
    #[inline]
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Header {
        let status = match u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) {
            ROWS_ERROR => Status::Error,
            ROWS_RETRY => Status::Retry,
            rows => Status::Rows(rows),
        };
        Header { body_bytes: u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]), status }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(request: Request<'_>) -> Vec<u8> {
        let mut bytes = [0; REQUEST_BYTES_MAX];
        let length = request.encode(&mut bytes);
        bytes[..length].to_vec()
    }

    #[test]
    fn requests_survive_the_wire() {
        let values: Vec<u8> = (0..VALUE_BYTES).map(|n| n as u8).collect();
        for kind in Kind::ALL {
            let statement = Statement { kind, id: 0x0102_0304, count: 1000, work_us: 0x0506 };
            let request = Request::Run(statement, &values[..kind.values_bytes()]);
            assert_eq!(Request::decode(&sent(request)), Some(request));
        }
        assert_eq!(Request::decode(&sent(Request::NewSession)), Some(Request::NewSession));
    }

    #[test]
    fn what_no_client_sends_is_not_understood() {
        let statement = Statement { kind: Kind::Insert, id: 1, count: 1, work_us: 0 };
        let mut insert = sent(Request::Run(statement, &[7; VALUE_BYTES]));
        assert!(Request::decode(&insert).is_some());
        assert_eq!(Request::decode(&insert[..insert.len() - 1]), None, "a value is cut off");
        insert[0] = Kind::Delete as u8;
        assert_eq!(Request::decode(&insert), None, "a delete has no values");
        assert_eq!(Request::decode(&[99; 12]), None);
        assert_eq!(Request::decode(&[1; 11]), None);
        assert_eq!(Request::decode(&[0; 13]), None);
        let mut range = sent(Request::Run(Statement { kind: Kind::SumRange, count: 0, ..statement }, &[]));
        assert_eq!(Request::decode(&range), None, "a range without rows");
        range[4..12].fill(0xff);
        assert_eq!(Request::decode(&range), None, "a range beyond all ids");
    }

    #[test]
    fn headers_survive_the_wire() {
        for status in [Status::Rows(0), Status::Rows(1000), Status::Retry, Status::Error] {
            let header = Header { body_bytes: 120_000, status };
            assert_eq!(Header::decode(&header.encode()), header);
        }
        for retry in [Retry::Deadlock, Retry::LockWaitTimeout, Retry::WriteConflict] {
            assert_eq!(Retry::from_code(retry as u8), Some(retry));
        }
        assert_eq!(Retry::from_code(0), None);
    }
}
