//! Explains an error of a server, an account or a connection, in one line that says what to do.

use std::io::ErrorKind;

use rustls::{CertificateError, Error as TlsError};

use super::address::{Address, Place};
use super::endpoint::Endpoint;
use super::tls::TlsMode;
use super::wire::{ServerError, WireError};
use crate::support::error::Error;

const TOO_MANY_CONNECTIONS: u16 = 1040;
const DATABASE_ACCESS_DENIED: u16 = 1044;
const NO_DATABASE: u16 = 1049;
const PARSE_ERROR: u16 = 1064;
const HOST_NOT_ALLOWED: u16 = 1130;
const NO_THREAD: u16 = 1135;
const TOO_MANY_USER_CONNECTIONS: [u16; 2] = [1203, 1226];
/// `require_secure_transport`.
const SECURE_TRANSPORT_REQUIRED: u16 = 3159;

/// What went wrong with a connection, or with a statement of preparation or administration.
pub(crate) fn explain(endpoint: &Endpoint, error: WireError) -> Error {
    let address = &endpoint.address;
    match error {
        WireError::Interrupted => Error::Interrupted,
        WireError::Server(error) => refused(endpoint, &error),
        WireError::Denied { error, is_encrypted } => denied(endpoint, &error, is_encrypted),
        WireError::Io(error) => unreachable(address, &error),
        WireError::Tls(error) => tls_failed(endpoint, &error),
        WireError::NoTls => Error::Target(format!(
            "the server at {address} offers no TLS: set its ssl_cert and ssl_key, or use --tls off"
        )),
        WireError::Closed => Error::Target(format!(
            "the server at {address} closed the connection: its error log says why (it may be down)"
        )),
        error => Error::Target(format!("cannot use the server at {address}: {error}")),
    }
}

/// The server lets in under TLS only: this account, or all that come by TCP.
pub(crate) fn requires_tls(endpoint: &Endpoint, error: &ServerError, of_all: bool) -> Error {
    let who = if of_all { "server".into() } else { format!("account '{}'", endpoint.address.user) };
    Error::Target(format!("the {who} requires TLS: use --tls require ({})", message(error)))
}

/// A load's statement that the server does not prepare.
pub(crate) fn not_prepared(sql: &str, error: &ServerError, mode: Option<&str>) -> Error {
    Error::Target(format!(
        "the server cannot prepare '{sql}' in sql_mode '{}': {}",
        mode.unwrap_or("unknown"),
        message(error)
    ))
}

/// A load's statement that the server does not execute.
pub(crate) fn not_executed(sql: &str, connection: u32, error: &ServerError) -> Error {
    let remedy = match error.code {
        PARSE_ERROR => "; the server's sql_mode may change what this means (SELECT @@GLOBAL.sql_mode)",
        _ => "",
    };
    Error::Cell(format!("the server refused '{sql}' on connection {connection}: {}{remedy}", message(error)))
}

fn message(error: &ServerError) -> String {
    format!("{} ({})", error.text, error.code)
}

fn unreachable(address: &Address, error: &std::io::Error) -> Error {
    Error::Target(match (&address.place, error.kind()) {
        (Place::Unix(path), ErrorKind::NotFound) => format!(
            "there is no socket {}: start the server, or name its socket (SELECT @@socket)",
            path.display()
        ),
        (Place::Unix(path), ErrorKind::ConnectionRefused) => {
            format!("no server answers on the socket {}: start it, or name another", path.display())
        }
        (Place::Unix(path), ErrorKind::PermissionDenied) => {
            format!("this user may not use the socket {}: {error}", path.display())
        }
        (Place::Tcp { host, port }, ErrorKind::ConnectionRefused | ErrorKind::TimedOut) => format!(
            "no server answers at {host} port {port} ({error}): start it, or name another address (a server with skip_networking has a socket only)"
        ),
        _ => format!("cannot use the server at {address}: {error}"),
    })
}

fn denied(endpoint: &Endpoint, error: &ServerError, is_encrypted: bool) -> Error {
    let also = match (is_encrypted, endpoint.tls.has_certificate) {
        (true, true) => "; the account may require another certificate than that of --ssl-cert",
        (true, false) => "; an account with REQUIRE X509 needs --ssl-cert and --ssl-key, too",
        (false, _) => " (the server offers no TLS, so accounts with REQUIRE SSL cannot log in)",
    };
    Error::Target(format!(
        "the server refuses user '{}': {}; check the name and the password in the address, or the environment's MYSQL_PWD{also}",
        endpoint.address.user,
        message(error)
    ))
}

fn refused(endpoint: &Endpoint, error: &ServerError) -> Error {
    let Address { user, database, .. } = &endpoint.address;
    let message = message(error);
    match error.code {
        SECURE_TRANSPORT_REQUIRED if endpoint.tls.mode == TlsMode::Off => requires_tls(endpoint, error, true),
        SECURE_TRANSPORT_REQUIRED => Error::Target(format!(
            "the server requires TLS and offers none: set its ssl_cert and ssl_key, or use its socket ({message})"
        )),
        NO_DATABASE => Error::Target(format!(
            "the server has no database '{database}': CREATE DATABASE `{database}`, or name another in the address"
        )),
        DATABASE_ACCESS_DENIED => Error::Target(format!(
            "user '{user}' may not use the database '{database}': GRANT ALL ON `{database}`.* to it, or name another"
        )),
        HOST_NOT_ALLOWED => {
            Error::Target(format!("the server accepts no connections from this host: {message}"))
        }
        TOO_MANY_CONNECTIONS => too_many(&message),
        NO_THREAD => Error::Limits(format!(
            "the server cannot start another thread: {message}; use fewer --threads, or raise its limits (ulimit -u, cgroup pids.max)"
        )),
        code if TOO_MANY_USER_CONNECTIONS.contains(&code) => {
            Error::Limits(format!("{message}; use fewer --threads, or raise max_user_connections"))
        }
        _ => Error::Target(format!("the server refuses: {message}")),
    }
}

/// The server is full.
fn too_many(message: &str) -> Error {
    Error::Limits(format!(
        "the server takes no more connections ({message}): SET GLOBAL max_connections higher, or use fewer --threads"
    ))
}

fn tls_failed(endpoint: &Endpoint, error: &TlsError) -> Error {
    use CertificateError as C;
    let address = &endpoint.address;
    Error::Target(match error {
        TlsError::InvalidCertificate(C::UnknownIssuer) => format!(
            "the certificate of the server at {address} is not from a CA that is trusted here: name the file of its CA with --ssl-ca"
        ),
        TlsError::InvalidCertificate(wrong @ (C::NotValidForName | C::NotValidForNameContext { .. })) => {
            format!(
                "the server's certificate is not for the host of {address} ({}): use a host that is, or leave out --ssl-verify-server-cert",
                names(wrong)
            )
        }
        TlsError::InvalidCertificate(wrong) => format!(
            "the certificate of the server at {address} cannot be verified: {wrong}; renew it, or leave out --ssl-ca and --ssl-verify-server-cert"
        ),
        TlsError::AlertReceived(alert) if endpoint.tls.has_certificate => format!(
            "the server at {address} ends TLS ({alert:?}): check that its ssl_ca issued the certificate of --ssl-cert"
        ),
        other => format!(
            "no TLS with the server at {address}: {other}; its error log may say why, and --tls off goes without"
        ),
    })
}

/// The names that a certificate is for.
fn names(wrong: &CertificateError) -> String {
    match wrong {
        CertificateError::NotValidForNameContext { presented, .. } if !presented.is_empty() => {
            format!("it is for {}", presented.join(", "))
        }
        _ => "it has no alternative name".to_owned(),
    }
}
