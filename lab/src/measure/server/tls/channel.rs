//! One connection's TLS: requests become records, records become replies. It does no I/O.

use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Error};

/// A connection under TLS.
pub(crate) struct Channel {
    connection: ClientConnection,
    sealed: Vec<u8>,
}

impl Channel {
    pub(super) fn new(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, Error> {
        let mut connection = ClientConnection::new(config, name)?;
        // A request is as long as it is.
        connection.set_buffer_limit(None);
        Ok(Channel { connection, sealed: Vec::new() })
    }

    /// Whether the two sides have not agreed yet.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// The records of a request, and before it what TLS itself has to send.
    #[inline]
    pub(crate) fn seal(&mut self, request: &[u8]) -> Result<&[u8], Error> {
        if !request.is_empty() {
            self.connection.writer().write_all(request).map_err(general)?;
        }
        self.sealed.clear();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.sealed).map_err(general)?;
        }
        Ok(&self.sealed)
    }

    /// Takes records, whole or in pieces, and appends their content to `plain`.
    #[inline]
    pub(crate) fn open(&mut self, mut sealed: &[u8], plain: &mut Vec<u8>) -> Result<(), Error> {
        while !sealed.is_empty() {
            // Nothing counts after the server's farewell.
            if self.connection.read_tls(&mut sealed).map_err(general)? == 0 {
                return Ok(());
            }
            let carried = self.connection.process_new_packets()?.plaintext_bytes_to_read();
            let start = plain.len();
            plain.resize(start + carried, 0);
            self.connection.reader().read_exact(&mut plain[start..]).map_err(general)?;
        }
        Ok(())
    }
}

/// Buffers that are read and written in memory fail only if TLS itself does.
fn general(error: std::io::Error) -> Error {
    Error::General(error.to_string())
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").finish_non_exhaustive()
    }
}
