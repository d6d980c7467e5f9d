//! Opening connections.

use std::thread;
use std::time::{Duration, Instant};

use super::endpoint::Endpoint;
use super::explain;
use super::session::Session;
use super::statement::Sql;
use super::tls::TlsMode;
use super::wire::{ServerError, WireError};
use crate::support::error::Error;
use crate::support::interrupt;

pub(crate) use explain::explain;

const TOO_MANY_CONNECTIONS: u16 = 1040;
/// Statements that cannot be prepared go as text: `START TRANSACTION` in MySQL.
const NOT_TO_BE_PREPARED: u16 = 1295;
const TOO_MANY_PREPARED: u16 = 1461;
/// In which all statements of this command but a load's mean the same, whatever mode the server begins with.
const OWN_MODE: &str = "STRICT_TRANS_TABLES";

/// Connections that were closed a moment ago are still counted for as long as their threads take to end.
const ROOM_WITHIN: Duration = Duration::from_secs(5);

/// Connects and logs in, without a database.
fn log_in(endpoint: &Endpoint) -> Result<Session, Error> {
    let begun = Instant::now();
    loop {
        match Session::open(endpoint) {
            Err(WireError::Server(ServerError { code: TOO_MANY_CONNECTIONS, .. }))
                if begun.elapsed() < ROOM_WITHIN && !interrupt::is_requested() =>
            {
                thread::sleep(Duration::from_millis(50));
            }
            Err(WireError::Denied { error, is_encrypted: false }) if endpoint.tls.mode == TlsMode::Off => {
                return Err(denied_without_tls(endpoint, error));
            }
            result => return result.map_err(|error| explain(endpoint, error)),
        }
    }
}

/// Why the server does not let the account in. It says the same of a wrong password and of a missing TLS, so the
/// client tries TLS.
fn denied_without_tls(endpoint: &Endpoint, error: ServerError) -> Error {
    match Session::open(&endpoint.encrypted()) {
        Ok(mut session) => {
            let of_all = session.value("SELECT @@require_secure_transport").ok().flatten();
            session.say_goodbye();
            explain::requires_tls(endpoint, &error, of_all.as_deref() == Some("1"))
        }
        Err(denied @ WireError::Denied { .. }) => explain(endpoint, denied),
        Err(_) => explain(endpoint, WireError::Denied { error, is_encrypted: false }),
    }
}

/// Connects and logs in for administration.
pub(crate) fn administer(endpoint: &Endpoint) -> Result<Session, Error> {
    let mut session = log_in(endpoint)?;
    set_own_mode(&mut session, endpoint)?;
    Ok(session)
}

/// Connects, logs in, and takes the address's database, for a load: in the server's `sql_mode`.
pub(crate) fn open(endpoint: &Endpoint) -> Result<Session, Error> {
    let mut session = log_in(endpoint)?;
    let taken = session.query(&format!("USE `{}`", endpoint.address.database));
    taken.and_then(|_| session.query("SET autocommit=1")).map_err(|error| explain(endpoint, error))?;
    Ok(session)
}

/// Makes the session independent of the server's `sql_mode`, for statements that are not measured.
pub(crate) fn set_own_mode(session: &mut Session, endpoint: &Endpoint) -> Result<(), Error> {
    let set = session.query(&format!("SET SESSION sql_mode='{OWN_MODE}'"));
    set.map(drop).map_err(|error| explain(endpoint, error))
}

/// Prepares statements for a connection of a load; returns their numbers by kind.
pub(crate) fn prepare(
    endpoint: &Endpoint,
    session: &mut Session,
    requested: &[Sql],
) -> Result<[Option<u32>; Sql::COUNT], Error> {
    let mut prepared = [None; Sql::COUNT];
    for sql in requested {
        prepared[*sql as usize] = match session.prepare(sql.text()) {
            Ok(statement) => Some(statement),
            Err(WireError::Server(ServerError { code: NOT_TO_BE_PREPARED, .. })) => None,
            Err(WireError::Server(ServerError { code: TOO_MANY_PREPARED, text })) => {
                return Err(Error::Limits(format!(
                    "{text}; SET GLOBAL max_prepared_stmt_count higher, use --protocol text or fewer --threads"
                )));
            }
            Err(WireError::Server(error)) => {
                let mode = session.value("SELECT @@sql_mode").ok().flatten();
                return Err(explain::not_prepared(sql.text(), &error, mode.as_deref()));
            }
            Err(error) => return Err(explain(endpoint, error)),
        };
    }
    Ok(prepared)
}
