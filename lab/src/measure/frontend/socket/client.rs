//! The clients' side: one thread drives many connections in a closed loop, without think time.
//!
//! A connection has one request in progress at a time. So a ready socket holds a reply, or a part of one; a request
//! always fits into its send buffer; and edge-triggered events lose nothing, since there is no more to read once the
//! reply is complete. Per statement: a `recv`, a clock, a `send`, and a share of an `epoll_wait`; no allocation.

use std::mem::MaybeUninit;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::measure::frontend::connection_state::ConnectionState;
use crate::measure::frontend::{ClientThread, Job, Shared, WindowCounters};
use crate::measure::workload::Outcome;
use crate::measure::workload::wire::{
    CHANGE_BYTES, HEADER_BYTES, Header, REQUEST_BYTES_MAX, Request, Retry, Status,
};
use crate::support::clock;
use crate::support::error::Error;

/// Bytes read at once; replies larger than this take several reads.
const SCRATCH_BYTES: usize = 256 << 10;
/// Events taken at once.
const EVENTS_MAX: usize = 256;
/// Without any reply for this time, the statements hang.
const HANG_S: u64 = 60;

/// One thread's connections.
pub(super) struct EventLoop {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    scratch: Vec<u8>,
}

struct Connection {
    number: u32,
    socket: OwnedFd,
    /// Of its reply, once the header has come.
    reply: Option<Reply>,
}

/// A partly received reply.
struct Reply {
    status: Status,
    missing_bytes: usize,
    /// The body's first bytes, and all of an error's.
    body: Vec<u8>,
}

impl EventLoop {
    pub(super) fn new(clients: Vec<(u32, OwnedFd)>) -> Result<Self, Error> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|errno| Error::descriptors(0, errno))?;
        let mut connections = Vec::with_capacity(clients.len());
        for (index, (number, socket)) in clients.into_iter().enumerate() {
            epoll::add(&epoll, &socket, EventData::new_u64(index as u64), EventFlags::IN | EventFlags::ET)
                .map_err(|errno| system("cannot watch a socket", errno))?;
            connections.push(Connection { number, socket, reply: None });
        }
        Ok(EventLoop { epoll, connections, scratch: vec![0; SCRATCH_BYTES] })
    }

    /// Handles replies until none is outstanding. `complete` receives each complete reply, sends the next statement,
    /// and returns whether it sent one.
    fn exchange(
        &mut self,
        mut complete: impl FnMut(usize, &mut Connection, Outcome) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let mut outstanding = self.connections.len();
        let patience = Timespec { tv_sec: HANG_S as i64, tv_nsec: 0 };
        let mut events = [MaybeUninit::<Event>::uninit(); EVENTS_MAX];
        while outstanding > 0 {
            let (ready, _) = match epoll::wait(&self.epoll, &mut events, Some(&patience)) {
                Err(Errno::INTR) => continue,
                result => result.map_err(|errno| system("cannot wait for replies", errno))?,
            };
            if ready.is_empty() {
                return Err(Error::Hang { connections: outstanding, seconds: HANG_S });
            }
            for event in ready {
                let index = event.data.u64() as usize;
                let connection = &mut self.connections[index];
                if let Some(outcome) = connection.receive(&mut self.scratch)?
                    && !complete(index, connection, outcome)?
                {
                    outstanding -= 1;
                }
            }
        }
        Ok(())
    }
}

impl ClientThread for EventLoop {
    fn open(&mut self, _shared: &Shared) -> Result<(), Error> {
        for connection in &mut self.connections {
            connection.send(Request::NewSession)?;
        }
        self.exchange(|_, _, _| Ok(false))
    }

    fn run(&mut self, job: &Job) -> Result<WindowCounters, Error> {
        let mut counters = WindowCounters::new(self.connections.len());
        let mut states = Vec::with_capacity(self.connections.len());
        for (index, connection) in self.connections.iter_mut().enumerate() {
            let who = (connection.number, index);
            let state = ConnectionState::begin(&job.load, &job.window, who, clock::now_ns());
            connection.send(Request::Run(*state.statement(), state.values()))?;
            states.push(state);
        }
        self.exchange(|index, connection, outcome| {
            let state = &mut states[index];
            let goes_on = state.complete(outcome, clock::now_ns(), &mut counters)?;
            if goes_on {
                connection.send(Request::Run(*state.statement(), state.values()))?;
            }
            Ok(goes_on)
        })?;
        Ok(counters)
    }
}

impl Connection {
    #[inline]
    fn send(&mut self, request: Request<'_>) -> Result<(), Error> {
        let mut bytes = [0; REQUEST_BYTES_MAX];
        let bytes = {
            let length = request.encode(&mut bytes);
            &bytes[..length]
        };
        loop {
            match send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) if sent == bytes.len() => return Ok(()),
                Ok(_) => return Err(Error::Protocol("half a request was sent")),
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(Error::ConnectionClosed(self.number)),
                Err(errno) => return Err(system("cannot send a request", errno)),
            }
        }
    }

    /// Reads what there is; the outcome once the reply is complete.
    #[inline]
    fn receive(&mut self, scratch: &mut [u8]) -> Result<Option<Outcome>, Error> {
        loop {
            let bytes = match recv(&self.socket, &mut *scratch, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(Error::ConnectionClosed(self.number)),
                Ok((bytes, _)) => bytes,
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => continue,
                Err(Errno::CONNRESET) => return Err(Error::ConnectionClosed(self.number)),
                Err(errno) => return Err(system("cannot receive a reply", errno)),
            };
            if let Some(outcome) = self.take(&scratch[..bytes])? {
                return Ok(Some(outcome));
            }
        }
    }

    /// Takes the next bytes of the reply; the outcome when it is complete.
    #[inline]
    fn take(&mut self, bytes: &[u8]) -> Result<Option<Outcome>, Error> {
        let (mut reply, bytes) = match self.reply.take() {
            Some(reply) => (reply, bytes),
            None => {
                let (header, bytes) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or_else(torn)?;
                let Header { body_bytes, status } = Header::decode(header);
                (Reply { status, missing_bytes: body_bytes as usize, body: Vec::new() }, bytes)
            }
        };
        reply.missing_bytes = reply.missing_bytes.checked_sub(bytes.len()).ok_or_else(torn)?;
        if reply.missing_bytes == 0 && reply.body.is_empty() {
            return outcome(reply.status, bytes).map(Some);
        }
        if reply.status == Status::Error {
            reply.body.extend_from_slice(bytes);
        }
        if reply.missing_bytes == 0 {
            return outcome(reply.status, &reply.body).map(Some);
        }
        self.reply = Some(reply);
        Ok(None)
    }
}

/// What a reply's body says. A change's is eight bytes; so may a sum be, which its client does not take for one.
fn outcome(status: Status, body: &[u8]) -> Result<Outcome, Error> {
    match status {
        Status::Rows(rows) => {
            let k_change = if body.len() == CHANGE_BYTES { change(body) } else { 0 };
            Ok(Outcome::Done { rows, k_change })
        }
        Status::Retry => match body {
            [code] => Retry::from_code(*code).map(Outcome::Retry).ok_or_else(torn),
            _ => Err(torn()),
        },
        Status::Error => Err(server_error(body)),
    }
}

fn change(body: &[u8]) -> i64 {
    body.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes))
}

/// An error's body: the exit code, then the text.
fn server_error(body: &[u8]) -> Error {
    match body.split_first() {
        Some((&exit_code, text)) => {
            Error::Server { exit_code, text: String::from_utf8_lossy(text).into_owned() }
        }
        None => torn(),
    }
}

fn torn() -> Error {
    Error::Protocol("a reply's bytes do not fit its header")
}

fn system(what: &str, errno: Errno) -> Error {
    Error::System { what: what.into(), source: errno.into(), advice: "try again with fewer --threads" }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn connected() -> (Connection, OwnedFd) {
        let (socket, server) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        (Connection { number: 7, socket, reply: None }, server)
    }

    fn message(server: &OwnedFd, header: Option<Header>, body: &[u8]) {
        let mut bytes = header.map_or(Vec::new(), |header| header.encode().to_vec());
        bytes.extend_from_slice(body);
        assert_eq!(send(server, &bytes, SendFlags::empty()), Ok(bytes.len()));
    }

    fn header(body_bytes: u32, status: Status) -> Option<Header> {
        Some(Header { body_bytes, status })
    }

    #[test]
    fn a_reply_may_come_in_parts() {
        let (mut connection, server) = connected();
        let mut scratch = vec![0; 4096];
        assert_eq!(connection.receive(&mut scratch).unwrap(), None, "nothing has come");
        for _ in 0..2 {
            message(&server, header(1200, Status::Rows(10)), &[b'1'; 500]);
            assert_eq!(connection.receive(&mut scratch).unwrap(), None);
            message(&server, None, &[b'2'; 500]);
            assert_eq!(connection.receive(&mut scratch).unwrap(), None);
            message(&server, None, &[b'3'; 200]);
            let whole = Some(Outcome::Done { rows: 10, k_change: 0 });
            assert_eq!(connection.receive(&mut scratch).unwrap(), whole);
        }
        message(&server, header(6, Status::Error), b"\x03oo");
        assert_eq!(connection.receive(&mut scratch).unwrap(), None);
        message(&server, None, b"ps!");
        let error = connection.receive(&mut scratch).unwrap_err();
        assert_eq!((error.exit_code(), error.to_string().as_str()), (3, "oops!"));
    }

    #[test]
    fn changes_and_retries_are_told() {
        let (mut connection, server) = connected();
        let mut scratch = vec![0; 4096];
        message(&server, header(8, Status::Rows(1)), &(-5_i64).to_le_bytes());
        let changed = Some(Outcome::Done { rows: 1, k_change: -5 });
        assert_eq!(connection.receive(&mut scratch).unwrap(), changed);
        message(&server, header(1, Status::Retry), &[Retry::WriteConflict as u8]);
        let again = Some(Outcome::Retry(Retry::WriteConflict));
        assert_eq!(connection.receive(&mut scratch).unwrap(), again);
        message(&server, header(0, Status::Rows(0)), &[]);
        let nothing = Some(Outcome::Done { rows: 0, k_change: 0 });
        assert_eq!(connection.receive(&mut scratch).unwrap(), nothing);
    }

    #[test]
    fn wrong_replies_are_errors() {
        let mut scratch = vec![0; 4096];
        let (mut connection, server) = connected();
        message(&server, header(10, Status::Rows(10)), &[0; 11]);
        assert!(matches!(connection.receive(&mut scratch), Err(Error::Protocol(_))));

        let (mut connection, server) = connected();
        message(&server, header(1, Status::Retry), &[99]);
        assert!(matches!(connection.receive(&mut scratch), Err(Error::Protocol(_))));

        let (mut connection, server) = connected();
        message(&server, header(5, Status::Error), b"\x03oops");
        let error = connection.receive(&mut scratch).unwrap_err();
        assert_eq!((error.exit_code(), error.to_string().as_str()), (3, "oops"));

        let (mut connection, server) = connected();
        drop(server);
        assert!(matches!(connection.receive(&mut scratch), Err(Error::ConnectionClosed(7))));
    }

    #[test]
    fn a_client_without_a_server_says_so() {
        let (mut connection, server) = connected();
        drop(server);
        assert!(matches!(connection.send(Request::NewSession), Err(Error::ConnectionClosed(7))));
    }
}
