//! The socket front: per connection a server thread and a local socket pair; the client ends are
//! driven by a few event-loop threads.
//!
//! CHOICES

mod client;
mod server;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::crew::Crew;
use crate::engine::{Database, Tree};
use crate::error::Error;
use client::EventLoop;
pub(super) use server::Servers;

/// Event-loop threads that play the clients.
pub(super) const CLIENT_THREADS: usize = 1;
/// Stack of an event-loop thread.
const STACK_BYTES: usize = 256 << 10;

/// Opens `connections` connections: their servers, and the threads that play their clients.
pub(super) fn open(connections: u32, database: &Database, table: &Tree) -> Result<(Servers, Crew), Error> {
    let client_threads: usize = std::env::var("CT").map_or(CLIENT_THREADS, |v| v.parse().unwrap());
    let kind = if std::env::var("ST").is_ok() { SocketType::STREAM } else { SocketType::SEQPACKET };
    let loops = client_threads.min(connections as usize);
    let mut servers = Servers::new(database, table);
    let mut clients: Vec<Vec<_>> = (0..loops).map(|_| Vec::new()).collect();
    for connection in 0..connections {
        let (client, server) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
            .map_err(|errno| Error::descriptors(2 * u64::from(connection), errno))?;
        servers.serve(connection, server)?;
        clients[connection as usize % loops].push((connection, client));
    }
    let drivers: Vec<EventLoop> = clients.into_iter().map(EventLoop::new).collect::<Result<_, Error>>()?;
    Ok((servers, Crew::start_threads("client", STACK_BYTES, drivers)?))
}
