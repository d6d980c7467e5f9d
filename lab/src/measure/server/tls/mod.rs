//! TLS between this command and a server.
//!
//! | module | holds |
//! |---|---|
//! | `args` | the options of the command line, and their meaning for a place |
//! | `files` | certificates and keys, read from the files of the options |
//! | `verify` | which certificates of a server are accepted |
//! | `channel` | one connection: requests become records, records become replies |
//!
//! A server says in its greeting whether it offers TLS. The client then asks for TLS with a packet of its own, before
//! it names the account. TLS does not protect the greeting, so a connection that must be encrypted ends if the greeting
//! offers no TLS.

mod args;
mod channel;
mod files;
mod verify;

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

pub use args::{TlsArgs, TlsMode};
pub(super) use channel::Channel;

use super::address::Place;
use crate::support::error::Error;

/// How connections to one place are encrypted.
#[derive(Debug, Clone)]
pub(crate) struct Tls {
    pub(super) mode: TlsMode,
    /// Whether the client shows a certificate.
    pub(super) has_certificate: bool,
    config: Arc<ClientConfig>,
}

impl Tls {
    /// Reads the files that the options name.
    pub(super) fn new(args: &TlsArgs, place: &Place) -> Result<Self, Error> {
        let config = Arc::new(files::config(args, place)?);
        Ok(Tls { mode: args.mode(place), has_certificate: args.certificate().is_some(), config })
    }

    /// The same for connections that must be encrypted.
    pub(super) fn required(&self) -> Self {
        Tls { mode: TlsMode::Require, ..self.clone() }
    }

    /// Begins TLS on a new connection to `place`.
    pub(super) fn channel(&self, place: &Place) -> Result<Channel, rustls::Error> {
        let name = match place {
            Place::Tcp { host, .. } => host.clone(),
            Place::Unix(_) => "localhost".into(),
        };
        let name = ServerName::try_from(name)
            .map_err(|_| rustls::Error::General("the host is no name that a certificate can have".into()))?;
        Channel::new(Arc::clone(&self.config), name)
    }
}
