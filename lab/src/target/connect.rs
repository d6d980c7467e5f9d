//! Opening connections, and what to do about those that cannot be opened.

use std::io::ErrorKind;
use std::thread;
use std::time::{Duration, Instant};

use super::address::{Address, Place};
use super::session::Session;
use super::statement::Sql;
use super::wire::{ServerError, WireError};
use crate::error::Error;
use crate::interrupt;

const TOO_MANY_CONNECTIONS: u16 = 1040;
const ACCESS_DENIED: u16 = 1045;
const ACCESS_DENIED_WITHOUT_PASSWORD: u16 = 1698;
const DATABASE_ACCESS_DENIED: u16 = 1044;
const NO_DATABASE: u16 = 1049;
const HOST_NOT_ALLOWED: u16 = 1130;
const NO_THREAD: u16 = 1135;
const TOO_MANY_USER_CONNECTIONS: [u16; 2] = [1203, 1226];
/// Statements that cannot be prepared go as text: `BEGIN` in MySQL.
const NOT_TO_BE_PREPARED: u16 = 1295;
const TOO_MANY_PREPARED: u16 = 1461;

/// Connections that were closed a moment ago are still counted for as long as their threads take to end.
const ROOM_WITHIN: Duration = Duration::from_secs(5);

/// Connects and logs in, without a database.
pub(super) fn log_in(address: &Address) -> Result<Session, Error> {
    let begun = Instant::now();
    loop {
        match Session::open(address) {
            Err(WireError::Server(ServerError { code: TOO_MANY_CONNECTIONS, .. }))
                if begun.elapsed() < ROOM_WITHIN && !interrupt::is_asked() =>
            {
                thread::sleep(Duration::from_millis(50));
            }
            result => return result.map_err(|error| explain(address, error)),
        }
    }
}

/// Connects, logs in, and takes the address's database.
pub(super) fn open(address: &Address) -> Result<Session, Error> {
    let mut session = log_in(address)?;
    let taken = session.query(&format!("USE `{}`", address.database));
    taken.and_then(|_| session.query("SET autocommit=1")).map_err(|error| explain(address, error))?;
    Ok(session)
}

/// Prepares `wanted` for a connection of a load; the statements' numbers by their kind.
pub(super) fn prepare(
    address: &Address,
    session: &mut Session,
    wanted: &[Sql],
) -> Result<[Option<u32>; Sql::COUNT], Error> {
    let mut prepared = [None; Sql::COUNT];
    for sql in wanted {
        prepared[*sql as usize] = match session.prepare(sql.text()) {
            Ok(statement) => Some(statement),
            Err(WireError::Server(ServerError { code: NOT_TO_BE_PREPARED, .. })) => None,
            Err(WireError::Server(ServerError { code: TOO_MANY_PREPARED, text })) => {
                return Err(Error::Limits(format!(
                    "{text}; SET GLOBAL max_prepared_stmt_count higher, use --protocol text or fewer --threads"
                )));
            }
            Err(error) => return Err(explain(address, error)),
        };
    }
    Ok(prepared)
}

/// What went wrong with a statement of preparation or administration, in one line.
pub(super) fn explain(address: &Address, error: WireError) -> Error {
    match error {
        WireError::Interrupted => Error::Interrupted,
        WireError::Server(error) => refused(address, &error),
        WireError::Io(error) => unreachable(address, &error),
        WireError::Closed => Error::Target(format!(
            "the server at {address} closed the connection: its error log says why (it may be down)"
        )),
        error => Error::Target(format!("cannot use the server at {address}: {error}")),
    }
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

fn refused(address: &Address, error: &ServerError) -> Error {
    let Address { user, database, .. } = address;
    let told = format!("{} ({})", error.text, error.code);
    match error.code {
        ACCESS_DENIED | ACCESS_DENIED_WITHOUT_PASSWORD => Error::Target(format!(
            "the server refuses user '{user}': {told}; check the name and the password in the address, or the environment's MYSQL_PWD"
        )),
        NO_DATABASE => Error::Target(format!(
            "the server has no database '{database}': CREATE DATABASE `{database}`, or name another in the address"
        )),
        DATABASE_ACCESS_DENIED => Error::Target(format!(
            "user '{user}' may not use the database '{database}': GRANT ALL ON `{database}`.* to it, or name another"
        )),
        HOST_NOT_ALLOWED => Error::Target(format!("the server lets nobody in from here: {told}")),
        TOO_MANY_CONNECTIONS => too_many(&told),
        NO_THREAD => Error::Limits(format!(
            "the server cannot start another thread: {told}; use fewer --threads, or raise its limits (ulimit -u, cgroup pids.max)"
        )),
        code if TOO_MANY_USER_CONNECTIONS.contains(&code) => {
            Error::Limits(format!("{told}; use fewer --threads, or raise max_user_connections"))
        }
        _ => Error::Target(format!("the server refuses: {told}")),
    }
}

/// The server is full.
fn too_many(told: &str) -> Error {
    Error::Limits(format!(
        "the server takes no more connections ({told}): SET GLOBAL max_connections higher, or use fewer --threads"
    ))
}
