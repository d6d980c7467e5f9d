//! What goes wrong between client and server.

use std::io;

use mysql_common::io::ParseBuf;
use mysql_common::packets::ErrPacket;

use super::CAPABILITIES;

/// Why two sides no longer talk.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    /// The connection failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The server closed it.
    #[error("the server closed the connection")]
    Closed,
    /// Bytes that make no sense.
    #[error("the server sent {0}")]
    Protocol(&'static str),
    /// No answer in time.
    #[error("no answer within {0} s")]
    Silence(u64),
    /// Ctrl-C while it waited.
    #[error("interrupted")]
    Interrupted,
    /// The server says no.
    #[error("{} ({})", .0.text, .0.code)]
    Server(ServerError),
    /// The server does not let the account in.
    #[error("{} ({})", .error.text, .error.code)]
    Denied {
        error: ServerError,
        /// Whether it was asked under TLS.
        is_encrypted: bool,
    },
    /// TLS must be, and the server offers none.
    #[error("the server offers no TLS")]
    NoTls,
    /// TLS failed.
    #[error("{0}")]
    Tls(#[from] rustls::Error),
}

/// A server's error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerError {
    pub(crate) code: u16,
    pub(crate) text: String,
}

impl ServerError {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, WireError> {
        let packet: ErrPacket<'_> =
            ParseBuf(body).parse(CAPABILITIES).map_err(|_| WireError::Protocol("an error without a code"))?;
        match packet {
            ErrPacket::Error(error) => {
                Ok(ServerError { code: error.error_code(), text: one_line(&error.message_str()) })
            }
            ErrPacket::Progress(_) => Err(WireError::Protocol("an unrequested progress report")),
        }
    }
}

/// Reduces a server's text to one line.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
