//! One reply, read out of bytes that come in pieces of any size.
//!
//! ```text
//! First --OK--> done            First --error--> done            First --n columns--> Columns
//! Columns --end--> Rows         Rows --row--> Rows               Rows --end or error--> done
//! ```
//! Rows are counted and skipped. Only a packet that is cut in two by the end of a piece is copied.

use mysql_common::constants::StatusFlags;

use super::errors::{ServerError, WireError};
use super::{HEADER_BYTES, length_encoded};

const OK: u8 = 0x00;
const LOCAL_INFILE: u8 = 0xfb;
const END: u8 = 0xfe;
const ERROR: u8 = 0xff;
/// A packet that begins as an end does and is longer is a row.
const END_BYTES_MAX: usize = 8;
/// The maximum packet in a reply to the lab's statements; a longer one is invalid.
const PACKET_BYTES_MAX: usize = 1 << 20;

/// What a complete reply says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Done, without rows.
    Ok,
    /// So many rows.
    Rows(u32),
    /// The server's refusal.
    Error(ServerError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    First,
    Columns(u64),
    Rows(u32),
}

/// A reply on its way.
#[derive(Debug)]
pub(crate) struct Reply {
    stage: Stage,
    /// A packet that is not complete yet.
    partial: Vec<u8>,
}

impl Reply {
    pub(crate) fn new() -> Self {
        Reply { stage: Stage::First, partial: Vec::new() }
    }

    /// Takes the next bytes; the outcome once the reply is complete, and then the next reply begins.
    #[inline]
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Result<Option<Outcome>, WireError> {
        if !self.partial.is_empty() {
            bytes = match self.complete(bytes) {
                Some(rest) => rest,
                None => return Ok(None),
            };
            let packet = std::mem::take(&mut self.partial);
            let outcome = self.packet(&packet[HEADER_BYTES..])?;
            // The buffer is used again.
            self.partial = packet;
            self.partial.clear();
            if outcome.is_some() {
                return ended(outcome, bytes);
            }
        }
        while let Some(total) = packet_bytes(bytes)?.filter(|total| *total <= bytes.len()) {
            let outcome = self.packet(&bytes[HEADER_BYTES..total])?;
            bytes = &bytes[total..];
            if outcome.is_some() {
                return ended(outcome, bytes);
            }
        }
        self.partial.extend_from_slice(bytes);
        Ok(None)
    }

    /// Adds what the partial packet lacks; the bytes after it, or `None` if it lacks more.
    fn complete<'b>(&mut self, mut bytes: &'b [u8]) -> Option<&'b [u8]> {
        let mut fill = |partial: &mut Vec<u8>, expected: usize| {
            let (head, rest) = bytes.split_at(bytes.len().min(expected.saturating_sub(partial.len())));
            partial.extend_from_slice(head);
            bytes = rest;
            partial.len() >= expected
        };
        if !fill(&mut self.partial, HEADER_BYTES) {
            return None;
        }
        let total = HEADER_BYTES + body_bytes(&self.partial);
        fill(&mut self.partial, total).then_some(bytes)
    }

    #[inline]
    fn packet(&mut self, body: &[u8]) -> Result<Option<Outcome>, WireError> {
        let first = *body.first().ok_or(WireError::Protocol("an empty packet"))?;
        let is_end = first == END && body.len() <= END_BYTES_MAX;
        self.stage = match (self.stage, first) {
            (_, ERROR) => {
                let error = ServerError::parse(body)?;
                self.stage = Stage::First;
                return Ok(Some(Outcome::Error(error)));
            }
            (Stage::First, OK) => return Ok(Some(Outcome::Ok)),
            (Stage::First, LOCAL_INFILE) => return Err(WireError::Protocol("a request for a file")),
            (Stage::First, _) => match length_encoded(body) {
                Some((columns, [])) if columns > 0 => Stage::Columns(columns),
                _ => return Err(WireError::Protocol("a reply that begins as none does")),
            },
            (Stage::Columns(0), _) if is_end => Stage::Rows(0),
            (Stage::Columns(0), _) => return Err(WireError::Protocol("more columns than were announced")),
            (Stage::Columns(left), _) => Stage::Columns(left - 1),
            (Stage::Rows(rows), _) if is_end => {
                let status = body.get(3..5).map_or(0, |flags| u16::from_le_bytes([flags[0], flags[1]]));
                if status & StatusFlags::SERVER_MORE_RESULTS_EXISTS.bits() != 0 {
                    return Err(WireError::Protocol("more results than statements"));
                }
                self.stage = Stage::First;
                return Ok(Some(Outcome::Rows(rows)));
            }
            (Stage::Rows(rows), _) => Stage::Rows(rows + 1),
        };
        Ok(None)
    }
}

/// One request is under way at a time: nothing follows its reply.
#[inline]
fn ended(outcome: Option<Outcome>, rest: &[u8]) -> Result<Option<Outcome>, WireError> {
    if rest.is_empty() { Ok(outcome) } else { Err(WireError::Protocol("bytes after a reply's end")) }
}

/// Bytes of the packet at the front, its header included; `None` without a whole header.
#[inline]
fn packet_bytes(bytes: &[u8]) -> Result<Option<usize>, WireError> {
    if bytes.len() < HEADER_BYTES {
        return Ok(None);
    }
    match body_bytes(bytes) {
        body if body > PACKET_BYTES_MAX => Err(WireError::Protocol("a packet of more than a mebibyte")),
        body => Ok(Some(HEADER_BYTES + body)),
    }
}

#[inline]
fn body_bytes(header: &[u8]) -> usize {
    u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(bodies: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, body) in bodies.iter().enumerate() {
            super::super::packet(&mut bytes, number as u8 + 1, |buffer| buffer.extend_from_slice(body));
        }
        bytes
    }

    const OK_BODY: &[u8] = &[0, 1, 0, 2, 0, 0, 0];
    const END_BODY: &[u8] = &[0xfe, 0, 0, 2, 0];
    const ERROR_BODY: &[u8] = b"\xff\xbd\x04#40001Deadlock\nfound";

    fn result(rows: usize) -> Vec<u8> {
        // A row that begins like an end packet is distinguished by its length.
        let row = [&[0xfe][..], &[b'x'; 120]].concat();
        let mut bodies: Vec<&[u8]> = vec![&[1], b"a definition", END_BODY];
        bodies.extend(std::iter::repeat_n(&row[..], rows));
        bodies.push(END_BODY);
        packets(&bodies)
    }

    fn deadlock() -> Outcome {
        Outcome::Error(ServerError { code: 1213, text: "Deadlock found".into() })
    }

    #[test]
    fn a_reply_in_pieces_of_every_size_is_the_same_reply() {
        let cases = [
            (packets(&[OK_BODY]), Outcome::Ok),
            (packets(&[ERROR_BODY]), deadlock()),
            (packets(&[&[1], b"definition", END_BODY, b"\0row", ERROR_BODY]), deadlock()),
            (result(0), Outcome::Rows(0)),
            (result(5), Outcome::Rows(5)),
        ];
        for (bytes, expected) in cases {
            for size in 1..=bytes.len() {
                let mut reply = Reply::new();
                // Twice: a complete reply leaves nothing behind.
                for _ in 0..2 {
                    let mut last = None;
                    for piece in bytes.chunks(size) {
                        assert_eq!(last, None, "complete before its end");
                        last = reply.take(piece).unwrap();
                    }
                    assert_eq!(last.as_ref(), Some(&expected), "pieces of {size}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        let wrong = [
            packets(&[&[]]),
            packets(&[&[0xfb, b'f']]),
            packets(&[&[1, 1]]),
            packets(&[OK_BODY, OK_BODY]),
            packets(&[&[1], b"one", b"two"]),
            packets(&[&[1], b"one", END_BODY, &[0xfe, 0, 0, 8, 0]]),
            packets(&[&[0xff]]),
            vec![0, 0, 0x20, 1],
        ];
        for bytes in wrong {
            assert!(matches!(Reply::new().take(&bytes), Err(WireError::Protocol(_))), "{bytes:?}");
        }
    }
}
