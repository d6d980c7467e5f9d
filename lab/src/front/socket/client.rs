//! The clients' side: one thread drives many connections in a closed loop, without think time.
//!
//! A connection has one request under way at a time. So a socket that is ready holds (a part of) one
//! reply, a request always fits into its send buffer, and edge-triggered events lose nothing: there is
//! no more to read once the reply is complete. Per statement: a `recv`, a clock, a `send`, and a share
//! of an `epoll_wait`; no allocation.

use std::mem::MaybeUninit;
use std::sync::Arc;

use flifo_admission::Admission;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::clock;
use crate::error::Error;
use crate::front::{Job, Player, Tally};
use crate::workload::Script;
use crate::workload::statement::{HEADER_BYTES, Header, Kind, Request, Statement};

/// Bytes read at once; replies larger than this take several reads.
const SCRATCH_BYTES: usize = 256 << 10;
/// Events taken at once.
const EVENTS_MAX: usize = 256;
/// Without any reply for so long, the statements hang.
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
    statement: Statement,
    /// When its transaction began.
    begun_ns: u64,
    /// Bytes of its reply that have not come yet, once the header has.
    missing_bytes: Option<usize>,
    /// What of an error's body has come.
    error: Option<Vec<u8>>,
}

impl EventLoop {
    pub(super) fn new(clients: Vec<(u32, OwnedFd)>) -> Result<Self, Error> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|errno| Error::descriptors(0, errno))?;
        let nothing = Statement { kind: Kind::Point, id: 0, count: 1, work_us: 0 };
        let mut connections = Vec::with_capacity(clients.len());
        for (index, (number, socket)) in clients.into_iter().enumerate() {
            epoll::add(&epoll, &socket, EventData::new_u64(index as u64), EventFlags::IN | EventFlags::ET)
                .map_err(|errno| system("cannot watch a socket", errno))?;
            let connection = Connection {
                number,
                socket,
                statement: nothing,
                begun_ns: 0,
                missing_bytes: None,
                error: None,
            };
            connections.push(connection);
        }
        Ok(EventLoop { epoll, connections, scratch: vec![0; SCRATCH_BYTES] })
    }

    /// Handles replies until none is outstanding. `complete` is told of each complete reply and says
    /// what to send next.
    fn exchange(
        &mut self,
        mut complete: impl FnMut(usize, &mut Connection) -> Option<Request>,
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
                if connection.receive(&mut self.scratch)? {
                    match complete(index, connection) {
                        Some(request) => connection.send(request)?,
                        None => outstanding -= 1,
                    }
                }
            }
        }
        Ok(())
    }
}

impl Player for EventLoop {
    fn open(&mut self, _admission: &Arc<Admission>) -> Result<(), Error> {
        for connection in &mut self.connections {
            connection.send(Request::NewSession)?;
        }
        self.exchange(|_, _| None)
    }

    fn run(&mut self, job: &Job) -> Result<Tally, Error> {
        let window = &*job.window;
        let mut tally = Tally::new(self.connections.len());
        let script = |connection: &Connection| Script::new(job.shape, job.seed, job.round, connection.number);
        let mut scripts: Vec<Script> = self.connections.iter().map(script).collect();
        for (connection, script) in self.connections.iter_mut().zip(&mut scripts) {
            connection.begun_ns = clock::now_ns();
            connection.statement = script.next_statement();
            connection.send(Request::Run(connection.statement))?;
        }
        self.exchange(|index, connection| {
            let now_ns = clock::now_ns();
            let script = &mut scripts[index];
            let ended = script.transaction_ended();
            tally.reply(window, now_ns, index, ended.then_some(connection.begun_ns));
            if now_ns >= window.end_ns() {
                tally.unanswered(window, connection.begun_ns);
                return None;
            }
            if ended {
                connection.begun_ns = now_ns;
            }
            connection.statement = script.next_statement();
            Some(Request::Run(connection.statement))
        })?;
        Ok(tally)
    }
}

impl Connection {
    #[inline]
    fn send(&mut self, request: Request) -> Result<(), Error> {
        let bytes = request.encode();
        loop {
            match send(&self.socket, &bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) if sent == bytes.len() => return Ok(()),
                Ok(_) => return Err(Error::Protocol("half a request was sent")),
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(Error::ConnectionClosed(self.number)),
                Err(errno) => return Err(system("cannot send a request", errno)),
            }
        }
    }

    /// Reads what there is; true once the reply is complete and sound.
    #[inline]
    fn receive(&mut self, scratch: &mut [u8]) -> Result<bool, Error> {
        loop {
            let bytes = match recv(&self.socket, &mut *scratch, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(Error::ConnectionClosed(self.number)),
                Ok((bytes, _)) => bytes,
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => continue,
                Err(Errno::CONNRESET) => return Err(Error::ConnectionClosed(self.number)),
                Err(errno) => return Err(system("cannot receive a reply", errno)),
            };
            if self.take(&scratch[..bytes])? {
                return Ok(true);
            }
        }
    }

    /// Takes the next bytes of the reply; true when it is complete.
    #[inline]
    fn take(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        let (missing, body) = match self.missing_bytes {
            Some(missing) => (missing, bytes),
            None => {
                let (header, body) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or_else(torn)?;
                let header = Header::decode(header);
                match header.rows {
                    None => self.error = Some(Vec::new()),
                    // The reply to NewSession has no rows, and no statement's has none.
                    Some(rows) if header.body_bytes > 0 && !self.statement.expects(rows) => {
                        return Err(Error::MissingRows { statement: self.statement, rows });
                    }
                    Some(_) => {}
                }
                (header.body_bytes as usize, body)
            }
        };
        if let Some(text) = &mut self.error {
            text.extend_from_slice(body);
        }
        let left = missing.checked_sub(body.len()).ok_or_else(torn)?;
        self.missing_bytes = (left > 0).then_some(left);
        match &self.error {
            Some(body) if left == 0 => Err(server_error(body)),
            _ => Ok(left == 0),
        }
    }
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

    /// A connection that waits for the reply to a range of ten rows, and its server's end.
    fn waiting() -> (Connection, OwnedFd) {
        let (socket, server) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let statement = Statement { kind: Kind::SimpleRange, id: 1, count: 10, work_us: 0 };
        let connection =
            Connection { number: 7, socket, statement, begun_ns: 0, missing_bytes: None, error: None };
        (connection, server)
    }

    fn message(server: &OwnedFd, header: Option<Header>, body: &[u8]) {
        let mut bytes = header.map_or(Vec::new(), |header| header.encode().to_vec());
        bytes.extend_from_slice(body);
        assert_eq!(send(server, &bytes, SendFlags::empty()), Ok(bytes.len()));
    }

    #[test]
    fn a_reply_may_come_in_parts() {
        let (mut connection, server) = waiting();
        let mut scratch = vec![0; 4096];
        assert!(!connection.receive(&mut scratch).unwrap(), "nothing has come");
        for _ in 0..2 {
            message(&server, Some(Header { body_bytes: 1200, rows: Some(10) }), &[b'1'; 500]);
            assert!(!connection.receive(&mut scratch).unwrap());
            message(&server, None, &[b'2'; 500]);
            assert!(!connection.receive(&mut scratch).unwrap());
            message(&server, None, &[b'3'; 200]);
            assert!(connection.receive(&mut scratch).unwrap());
        }
    }

    #[test]
    fn wrong_replies_are_errors() {
        let mut scratch = vec![0; 4096];
        let (mut connection, server) = waiting();
        message(&server, Some(Header { body_bytes: 1080, rows: Some(9) }), &[0; 1080]);
        assert!(matches!(connection.receive(&mut scratch), Err(Error::MissingRows { rows: 9, .. })));

        let (mut connection, server) = waiting();
        message(&server, Some(Header { body_bytes: 10, rows: Some(10) }), &[0; 11]);
        assert!(matches!(connection.receive(&mut scratch), Err(Error::Protocol(_))));

        let (mut connection, server) = waiting();
        message(&server, Some(Header { body_bytes: 5, rows: None }), b"\x03oops");
        let error = connection.receive(&mut scratch).unwrap_err();
        assert_eq!((error.exit_code(), error.to_string().as_str()), (3, "oops"));

        let (mut connection, server) = waiting();
        drop(server);
        assert!(matches!(connection.receive(&mut scratch), Err(Error::ConnectionClosed(7))));
    }

    #[test]
    fn a_client_without_a_server_says_so() {
        let (mut connection, server) = waiting();
        drop(server);
        assert!(matches!(connection.send(Request::NewSession), Err(Error::ConnectionClosed(7))));
    }
}
