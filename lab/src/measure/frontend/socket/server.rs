//! The server's side: a thread per connection that waits for a request, runs it, replies.

use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

use flifo_base::lock;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::measure::frontend::{STACK_BYTES, Shared as OfCell};
use crate::measure::workload::wire::{Header, REQUEST_BYTES_MAX, Request, Status};
use crate::measure::workload::{Executor, Sbtest};
use crate::support::error::Error;
use crate::support::limits::FEWER_THREADS;
use flifo_engine::{Database, Session};

/// Most bytes of a reply in one message, well below a socket's send buffer.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// The server threads of all connections.
pub(crate) struct Servers {
    shared: Option<Arc<Shared>>,
    threads: Vec<JoinHandle<()>>,
}

/// What all server threads know.
struct Shared {
    database: Database,
    table: Sbtest,
    /// What the sessions of the cell that comes next share: new sessions belong to it.
    cell: Mutex<Option<OfCell>>,
}

impl Servers {
    /// No threads, for a front without servers.
    pub(crate) fn none() -> Self {
        Servers { shared: None, threads: Vec::new() }
    }

    pub(super) fn new(database: &Database, table: &Sbtest) -> Self {
        let (database, table) = (database.clone(), table.clone());
        let shared = Arc::new(Shared { database, table, cell: Mutex::new(None) });
        Servers { shared: Some(shared), threads: Vec::new() }
    }

    /// Starts the thread of one connection.
    pub(super) fn serve(&mut self, connection: u32, socket: OwnedFd) -> Result<(), Error> {
        let shared = Arc::clone(self.shared.as_ref().expect("new() made it"));
        let thread = Builder::new()
            .name(format!("server-{connection}"))
            .stack_size(STACK_BYTES)
            .spawn(move || serve(&shared, &socket))
            .map_err(|source| Error::thread(u64::from(connection), source, FEWER_THREADS))?;
        self.threads.push(thread);
        Ok(())
    }

    /// From now on new sessions share `cell`.
    pub(crate) fn share(&self, cell: &OfCell) {
        if let Some(shared) = &self.shared {
            *lock(&shared.cell) = Some(cell.clone());
        }
    }

    /// Waits for the threads; their clients' ends are closed.
    pub(crate) fn close(&mut self) {
        for thread in self.threads.drain(..) {
            // A thread that panicked closed its socket, which its client has reported.
            let _ = thread.join();
        }
    }

    /// Leaves the threads to themselves: one of them may hang.
    pub(crate) fn abandon(&mut self) {
        self.threads.clear();
    }
}

/// A connection, until its client closes.
fn serve(shared: &Shared, socket: &OwnedFd) {
    let mut session = None;
    while let Some(NewSession) = serve_session(shared, session.as_ref(), socket) {
        let cell = lock(&shared.cell).clone();
        session = cell.map(|cell| (shared.database.session(&cell.admission), cell));
        let ready = Header { body_bytes: 0, status: Status::Rows(0) };
        if send_all(socket, &ready.encode()).is_err() {
            return;
        }
    }
}

/// The client requests a new session.
struct NewSession;

/// Serves requests until one for a new session comes. `None`: the client has closed.
fn serve_session(
    shared: &Shared,
    session: Option<&(Session, OfCell)>,
    socket: &OwnedFd,
) -> Option<NewSession> {
    let mut executor =
        session.map(|(session, cell)| Executor::new(session, &shared.table, cell.kernel.as_ref()));
    let mut request = [0; REQUEST_BYTES_MAX];
    loop {
        let bytes = receive(socket, &mut request)?;
        let sent = match (Request::decode(&request[..bytes]), &mut executor) {
            (Some(Request::NewSession), _) => return Some(NewSession),
            (Some(Request::Run(statement, values)), Some(executor)) => {
                match executor.run(&statement, values) {
                    Ok((_, reply)) => send_all(socket, &reply),
                    Err(error) => send_error(socket, &error),
                }
            }
            (Some(Request::Run(..)), None) => {
                send_error(socket, &Error::Protocol("a statement before a session"))
            }
            (None, _) => send_error(socket, &Error::Protocol("a request of unknown kind")),
        };
        // Otherwise the client is gone, and the error has no recipient.
        sent.ok()?;
    }
}

/// Bytes of the next request, which is one message; `None` when the client has closed.
fn receive(socket: &OwnedFd, request: &mut [u8; REQUEST_BYTES_MAX]) -> Option<usize> {
    loop {
        match recv(socket, &mut request[..], RecvFlags::empty()) {
            Ok((0, _)) => return None,
            Ok((bytes, _)) => return Some(bytes),
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

fn send_error(socket: &OwnedFd, error: &Error) -> Result<(), Errno> {
    let text = error.to_string();
    let body_bytes = 1 + text.len() as u32;
    let mut reply = Header { body_bytes, status: Status::Error }.encode().to_vec();
    reply.push(error.exit_code());
    reply.extend_from_slice(text.as_bytes());
    send_all(socket, &reply)
}

/// Sends a reply; waits for the client while the socket's buffer is full.
fn send_all(socket: &OwnedFd, reply: &[u8]) -> Result<(), Errno> {
    for message in reply.chunks(MESSAGE_BYTES_MAX) {
        let mut sent = 0;
        while sent < message.len() {
            match send(socket, &message[sent..], SendFlags::NOSIGNAL) {
                Ok(bytes) => sent += bytes,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    Ok(())
}
