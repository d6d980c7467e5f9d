//! The protocol between client and server, as far as a load needs it, over `mysql_common`'s codecs.
//!
//! ```text
//! packet   length u24, number u8 | body                                             little-endian
//! request  one packet, number 0: a command byte and what belongs to it
//! reply    OK | error | columns n, n definitions, end, rows.., end or error
//! ```
//! A connection has one request in progress at a time. Under TLS everything except the greeting and the request for TLS
//! travels in records. Not requested, so never received: compression, several results of one request, cursors, `LOAD
//! DATA LOCAL`.

mod errors;
mod handshake;
mod reply;
mod stream;

use mysql_common::constants::{CapabilityFlags, Command};
use mysql_common::packets::ComStmtExecuteRequestBuilder;
use mysql_common::proto::MySerialize;
use mysql_common::value::Value;

pub(super) use errors::{ServerError, WireError};
pub(super) use handshake::{Greeting, log_in};
pub(super) use reply::{Outcome, Reply};
pub(super) use stream::Link;

/// Bytes of a packet before its body.
pub(super) const HEADER_BYTES: usize = 4;
/// A longer body would take several packets; no request here comes near.
const BODY_BYTES_MAX: usize = (1 << 24) - 2;

/// What both sides must be able to do. Not CLIENT_DEPRECATE_EOF: with it an end of rows and a row could look
/// alike at first sight.
pub(super) const CAPABILITIES: CapabilityFlags = CapabilityFlags::CLIENT_PROTOCOL_41
    .union(CapabilityFlags::CLIENT_SECURE_CONNECTION)
    .union(CapabilityFlags::CLIENT_LONG_PASSWORD)
    .union(CapabilityFlags::CLIENT_TRANSACTIONS)
    .union(CapabilityFlags::CLIENT_PLUGIN_AUTH);

/// Appends a packet whose body `fill` writes.
#[inline]
pub(super) fn packet(buffer: &mut Vec<u8>, number: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; HEADER_BYTES]);
    fill(buffer);
    let bytes = buffer.len() - start - HEADER_BYTES;
    assert!(bytes <= BODY_BYTES_MAX, "a request of {bytes} bytes");
    buffer[start..start + 3].copy_from_slice(&(bytes as u32).to_le_bytes()[..3]);
    buffer[start + 3] = number;
}

/// Appends a statement as text.
#[inline]
pub(super) fn query(buffer: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    packet(buffer, 0, |buffer| {
        buffer.push(Command::COM_QUERY as u8);
        fill(buffer);
    });
}

/// Appends a request to prepare a statement.
pub(super) fn prepare(buffer: &mut Vec<u8>, sql: &str) {
    packet(buffer, 0, |buffer| {
        buffer.push(Command::COM_STMT_PREPARE as u8);
        buffer.extend_from_slice(sql.as_bytes());
    });
}

/// Appends an execution of a prepared statement.
#[inline]
pub(super) fn execute(buffer: &mut Vec<u8>, statement: u32, parameters: &[Value]) {
    let (request, _) = ComStmtExecuteRequestBuilder::new(statement).build(parameters);
    packet(buffer, 0, |buffer| request.serialize(buffer));
}

/// The next length-encoded integer of a packet's body, and the rest.
#[inline]
pub(super) fn length_encoded(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut rest = mysql_common::io::ParseBuf(bytes);
    let value = rest.checked_eat_lenenc_int()?;
    Some((value, rest.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_carry_their_length() {
        let mut buffer = Vec::new();
        query(&mut buffer, |body| body.extend_from_slice(b"BEGIN"));
        assert_eq!(buffer, b"\x06\0\0\0\x03BEGIN");
        prepare(&mut buffer, "COMMIT");
        assert_eq!(&buffer[10..], b"\x07\0\0\0\x16COMMIT");
    }

    #[test]
    fn an_execution_by_hand() {
        let mut buffer = Vec::new();
        execute(&mut buffer, 7, &[Value::Int(5), Value::Bytes(b"ab".to_vec())]);
        let expected: &[u8] = &[
            0x17, 7, 0, 0, 0, 0, 1, 0, 0, 0, // command, statement, no cursor, once
            0, 1, 8, 0, 0xfd, 0, // nothing is null; types follow: a longlong, a string
            5, 0, 0, 0, 0, 0, 0, 0, 2, b'a', b'b',
        ];
        assert_eq!(&buffer[HEADER_BYTES..], expected);
        assert_eq!(usize::from(buffer[0]), expected.len());
    }
}
