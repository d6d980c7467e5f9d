//! The socket frontend: per connection a server thread and a local socket pair; a few event-loop threads drive the
//! client ends.
//!
//! Both choices were measured, on two CPUs with statements of 2 us, 16 to 1024 connections, policy none, CPU time of
//! client and server together per statement, medians of four interleaved runs:
//!
//! | | point-select, 16 | 256 | 1024 | read-only, 256 |
//! |---|---|---|---|---|
//! | SEQPACKET, one client thread | 12.3 us | 14.4 us | 19.4 us | 33.2 us |
//! | SEQPACKET, two | 12.5 us | 13.2 us | 18.2 us | 33.7 us |
//! | STREAM, one | 13.0 us | 16.8 us | 20.3 us | 35.9 us |
//! | STREAM, two | 11.5 us | 16.9 us | 21.8 us | 39.6 us |
//!
//! So the frontend uses SEQPACKET, which also keeps a request whole. Two client threads save nothing, and a client
//! thread that loses its CPU for a while delays its half of the connections: the variation over connections was 0.07 to
//! 0.22 with two, 0.01 to 0.02 with one. A client thread takes some 5 us a statement, so that one is enough for four
//! CPUs.

mod client;
mod server;

use flifo_base::cpu_count;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::Clients;
use crate::measure::thread_group::ThreadGroup;
use crate::measure::workload::Sbtest;
use crate::support::error::Error;
use client::EventLoop;
use flifo_engine::Database;
pub(super) use server::Servers;

/// Most event-loop threads that drive clients, on machines of any size.
const CLIENT_THREADS_MAX: usize = 16;
/// Stack of an event-loop thread.
const STACK_BYTES: usize = 256 << 10;

/// Event-loop threads that drive the clients on this machine.
pub(crate) fn client_threads() -> usize {
    (cpu_count() / 4).clamp(1, CLIENT_THREADS_MAX)
}

/// Opens `connections` connections: their servers, and the threads that drive their clients.
pub(super) fn open(
    connections: u32,
    database: &Database,
    table: &Sbtest,
) -> Result<(Servers, Clients), Error> {
    let loops = client_threads().min(connections as usize);
    let mut servers = Servers::new(database, table);
    let mut clients: Vec<Vec<_>> = (0..loops).map(|_| Vec::new()).collect();
    for connection in 0..connections {
        let (client, server) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(|errno| Error::descriptors(2 * u64::from(connection), errno))?;
        servers.serve(connection, server)?;
        clients[connection as usize % loops].push((connection, client));
    }
    let drivers: Vec<EventLoop> = clients.into_iter().map(EventLoop::new).collect::<Result<_, Error>>()?;
    Ok((servers, ThreadGroup::start_threads("client", STACK_BYTES, drivers)?))
}
