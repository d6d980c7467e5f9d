//! A server and the way to reach it.

use super::address::Address;
use super::tls::{Tls, TlsArgs};
use crate::support::error::Error;

/// An address, and how connections to it are encrypted.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: Address,
    pub(crate) tls: Tls,
}

impl Endpoint {
    pub(crate) fn new(address: &Address, args: &TlsArgs) -> Result<Self, Error> {
        Ok(Endpoint { address: address.clone(), tls: Tls::new(args, &address.place)? })
    }

    /// The same over connections that must be encrypted.
    pub(crate) fn encrypted(&self) -> Self {
        Endpoint { address: self.address.clone(), tls: self.tls.required() }
    }
}
