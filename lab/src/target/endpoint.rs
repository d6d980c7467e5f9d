//! A server and the way to reach it.

use super::address::Address;
use super::tls::{Tls, TlsArgs};
use crate::error::Error;

/// An address, and how connections to it are encrypted.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    pub(super) address: Address,
    pub(super) tls: Tls,
}

impl Endpoint {
    pub(super) fn new(address: &Address, args: &TlsArgs) -> Result<Self, Error> {
        Ok(Endpoint { address: address.clone(), tls: Tls::new(args, &address.place)? })
    }

    /// The same over connections that must be encrypted.
    pub(super) fn encrypted(&self) -> Self {
        Endpoint { address: self.address.clone(), tls: self.tls.required() }
    }
}
