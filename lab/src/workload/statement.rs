//! A statement, and how it travels: the wire format of the socket front.
//!
//! ```text
//! request (12 bytes)  kind u8, 0, work u16 | id u32 | count u32              little-endian
//! reply header (8)    body bytes u32 | rows u32; rows = 0xffff_ffff: the body is an error, its
//!                     exit code and text
//! reply body          the rows of the result: c's of 120 bytes, or one sum of 8 bytes
//! ```
//! A connection has one request under way at a time, so neither side ever sees two messages at once.

/// Bytes of a request.
pub const REQUEST_BYTES: usize = 12;
/// Bytes of a reply before its body.
pub const HEADER_BYTES: usize = 8;
/// In a reply's `rows`: the body is an error, its exit code (1 byte) and text.
const ROWS_ERROR: u32 = u32::MAX;

/// What a statement asks for.
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
}

/// A request for one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statement {
    /// What is asked for.
    pub kind: Kind,
    /// The row, or the first of the range.
    pub id: u32,
    /// How many ids the range has; 1 for a point.
    pub count: u32,
    /// Processor time besides the engine's, microseconds.
    pub work_us: u16,
}

/// What a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Open a new session under the cell's scheduler; as COM_CHANGE_USER, it keeps the connection.
    NewSession,
    /// Run a statement.
    Run(Statement),
}

impl Statement {
    /// Whether a result of `rows` rows can be right: every range lies inside the table.
    #[inline]
    pub fn expects(&self, rows: u32) -> bool {
        match self.kind {
            Kind::Point | Kind::SumRange => rows == 1,
            Kind::SimpleRange | Kind::OrderRange => rows == self.count,
            Kind::DistinctRange => (1..=self.count).contains(&rows),
        }
    }
}

impl Request {
    /// The request's bytes.
    #[inline]
    pub fn encode(self) -> [u8; REQUEST_BYTES] {
        let (kind, work_us, id, count) = match self {
            Request::NewSession => (0, 0, 0, 0),
            Request::Run(statement) => {
                (statement.kind as u8, statement.work_us, statement.id, statement.count)
            }
        };
        let mut bytes = [0; REQUEST_BYTES];
        bytes[0] = kind;
        bytes[2..4].copy_from_slice(&work_us.to_le_bytes());
        bytes[4..8].copy_from_slice(&id.to_le_bytes());
        bytes[8..12].copy_from_slice(&count.to_le_bytes());
        bytes
    }

    /// What the bytes ask for; `None` if no client of ours sent them.
    #[inline]
    pub fn decode(bytes: &[u8; REQUEST_BYTES]) -> Option<Request> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let kind = match bytes[0] {
            0 => return Some(Request::NewSession),
            1 => Kind::Point,
            2 => Kind::SimpleRange,
            3 => Kind::SumRange,
            4 => Kind::OrderRange,
            5 => Kind::DistinctRange,
            _ => return None,
        };
        let work_us = u16::from_le_bytes([bytes[2], bytes[3]]);
        Some(Request::Run(Statement { kind, id: word(4), count: word(8), work_us }))
    }
}

/// The start of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes after the header.
    pub body_bytes: u32,
    /// Rows in the body; `None`: the body is an error, its exit code (1 byte) and text.
    pub rows: Option<u32>,
}

impl Header {
    /// The header's bytes.
    #[inline]
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[4..].copy_from_slice(&self.rows.unwrap_or(ROWS_ERROR).to_le_bytes());
        bytes
    }

    /// What the first bytes of a reply say.
    #[inline]
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Header {
        let rows = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        Header {
            body_bytes: u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            rows: (rows != ROWS_ERROR).then_some(rows),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_the_wire() {
        let kinds = [Kind::Point, Kind::SimpleRange, Kind::SumRange, Kind::OrderRange, Kind::DistinctRange];
        for kind in kinds {
            let request = Request::Run(Statement { kind, id: 0x0102_0304, count: 1000, work_us: 0x0506 });
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        assert_eq!(Request::decode(&Request::NewSession.encode()), Some(Request::NewSession));
        assert_eq!(Request::decode(&[9; REQUEST_BYTES]), None);
    }

    #[test]
    fn headers_survive_the_wire() {
        for rows in [None, Some(0), Some(1000)] {
            let header = Header { body_bytes: 120_000, rows };
            assert_eq!(Header::decode(&header.encode()), header);
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
    }
}
