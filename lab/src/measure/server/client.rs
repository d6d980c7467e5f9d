//! The clients of a server: a few threads, each an event loop that drives many connections in a closed loop.
//!
//! A connection has one request in progress, as in the socket frontend, so a ready socket holds a reply, or a part of
//! one, and edge-triggered events lose nothing. Per statement: a `recv`, a clock, a `send`, a share of an `epoll_wait`.
//! Under TLS a request is encrypted before the `send`, and a reply decrypted after the `recv`.
//!
//! Statements continue until [`Job::stop`] is set, after the window has closed and the server's counters were read, so
//! both ends of the window see the full load. A connection inside a transaction then rolls it back, so that no cell
//! leaves locks to the next.
//!
//! ```text
//! Running --rows, OK--> Running (next statement)         Running --stop, transaction open--> RollingBack
//! Running --error that passes--> Running (alone), RollingBack (inside a transaction)
//! RollingBack --OK--> Running (a new transaction), done when stopped
//! RollingBack --error that passes--> RollingBack
//! ```
//! Failure: any other error, a lost connection, or a wrong number of rows ends the cell for all connections.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::explain::not_executed;
use super::refusals::Refusals;
use super::script::{Script, Shape, has_transactions};
use super::statement::{Call, Sql};
use super::tls::Channel;
use super::wire::{self, Outcome, Reply, WireError};
use crate::measure::frontend::{Window, WindowCounters};
use crate::measure::thread_group::Driver;
use crate::support::error::Error;
use crate::support::{clock, interrupt};

/// Bytes read at once.
const SCRATCH_BYTES: usize = 256 << 10;
/// Events taken at once.
const EVENTS_MAX: usize = 256;
/// Without any reply for this time, the statements hang. A lock wait may last 50 s by default.
const HANG_S: u64 = 75;
/// The maximum wait for replies after Ctrl-C, whose figures are not needed.
const FAREWELL_S: u64 = 3;
/// Why most connections are lost.
const CLOSED: &str = "the server closed it";
/// How often a wait looks for a stop.
const SLICE_NS: i64 = 100_000_000;

/// The job of all connections for one cell.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) shape: Shape,
    /// With `round` and the connection's number, what fixes the statements.
    pub(crate) seed: u64,
    pub(crate) round: u32,
    /// What counts.
    pub(crate) window: Arc<Window>,
    /// Statements are sent until it is set.
    pub(crate) stop: Arc<AtomicBool>,
}

/// Counts of one window.
#[derive(Debug, Clone)]
pub(crate) struct Counts {
    pub(crate) counters: WindowCounters,
    pub(crate) refusals: Refusals,
}

/// A connection after the login, with its statements prepared.
pub(crate) struct Opened {
    pub(crate) number: u32,
    /// Its number at the server.
    pub(crate) id: u32,
    pub(crate) socket: OwnedFd,
    /// Its TLS; `None` without.
    pub(crate) channel: Option<Box<Channel>>,
    /// The prepared statements by their kind; those without one go as text.
    pub(crate) prepared: [Option<u32>; Sql::COUNT],
}

struct Connection {
    opened: Opened,
    reply: Reply,
    state: State,
    /// When its transaction began.
    begun_ns: u64,
}

#[derive(Clone, Copy)]
enum State {
    Running(Call),
    RollingBack,
}

/// One thread's connections.
pub(crate) struct EventLoop {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    scratch: Scratch,
    request: Vec<u8>,
}

/// What all connections of a thread read into.
struct Scratch {
    received: Vec<u8>,
    /// What records carry.
    opened: Vec<u8>,
}

const NOTHING: Call = Call { sql: Sql::Begin, values: super::statement::Values::None };

impl EventLoop {
    pub(crate) fn new(opened: Vec<Opened>) -> Result<Self, Error> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|errno| Error::descriptors(0, errno))?;
        let mut connections = Vec::with_capacity(opened.len());
        for (index, opened) in opened.into_iter().enumerate() {
            let flags = EventFlags::IN | EventFlags::ET;
            epoll::add(&epoll, &opened.socket, EventData::new_u64(index as u64), flags)
                .map_err(|errno| system("cannot watch a socket", errno))?;
            let state = State::Running(NOTHING);
            connections.push(Connection { opened, reply: Reply::new(), state, begun_ns: 0 });
        }
        let scratch = Scratch { received: vec![0; SCRATCH_BYTES], opened: Vec::new() };
        Ok(EventLoop { epoll, connections, scratch, request: Vec::new() })
    }

    fn run(&mut self, job: &Job) -> Result<Counts, Error> {
        let mut run = Run::new(job, &self.connections);
        for (index, connection) in self.connections.iter_mut().enumerate() {
            connection.begun_ns = clock::now_ns();
            run.next(index, connection, &mut self.request);
            connection.send(&self.request)?;
        }
        let mut outstanding = self.connections.len();
        let mut heard_ns = clock::now_ns();
        let mut events = [MaybeUninit::<Event>::uninit(); EVENTS_MAX];
        while outstanding > 0 {
            let slice = Timespec { tv_sec: 0, tv_nsec: SLICE_NS };
            let (ready, _) = match epoll::wait(&self.epoll, &mut events, Some(&slice)) {
                Err(Errno::INTR) => continue,
                result => result.map_err(|errno| system("cannot wait for replies", errno))?,
            };
            if ready.is_empty() {
                still_waiting(outstanding, heard_ns, job)?;
                continue;
            }
            for event in ready {
                let index = event.data.u64() as usize;
                let connection = &mut self.connections[index];
                let Some(outcome) = connection.receive(&mut self.scratch)? else { continue };
                heard_ns = clock::now_ns();
                if run.complete(index, connection, outcome, heard_ns, &mut self.request)? {
                    connection.send(&self.request)?;
                } else {
                    outstanding -= 1;
                }
            }
        }
        Ok(run.counts)
    }
}

/// An error if the awaited reply will hardly come, or is no longer needed.
fn still_waiting(connections: usize, heard_ns: u64, job: &Job) -> Result<(), Error> {
    let silent_ns = clock::now_ns().saturating_sub(heard_ns);
    if silent_ns > HANG_S * 1_000_000_000 {
        return Err(Error::Cell(format!("{connections} connections got no reply for {HANG_S} s")));
    }
    let is_over = job.stop.load(Ordering::Relaxed) && interrupt::is_requested();
    if is_over && silent_ns > FAREWELL_S * 1_000_000_000 {
        return Err(Error::Interrupted);
    }
    Ok(())
}

impl Driver for EventLoop {
    type Order = Job;
    type Report = Counts;

    fn execute(&mut self, job: &Job) -> Result<Counts, Error> {
        self.run(job)
    }

    fn failed(job: &Job) {
        job.window.cut();
        job.stop.store(true, Ordering::Relaxed);
    }
}

/// Says goodbye on all connections, so that the server counts no aborted clients.
impl Drop for EventLoop {
    fn drop(&mut self) {
        let goodbye = super::session::goodbye();
        for connection in &mut self.connections {
            let _ = connection.send(&goodbye);
        }
    }
}

/// One cell as one thread runs it.
struct Run<'a> {
    job: &'a Job,
    scripts: Vec<Script>,
    counts: Counts,
    has_transactions: bool,
}

impl<'a> Run<'a> {
    fn new(job: &'a Job, connections: &[Connection]) -> Self {
        let script =
            |connection: &Connection| Script::new(job.shape, job.seed, job.round, connection.opened.number);
        Run {
            job,
            scripts: connections.iter().map(script).collect(),
            counts: Counts {
                counters: WindowCounters::new(connections.len()),
                refusals: Refusals::default(),
            },
            has_transactions: has_transactions(job.shape.workload),
        }
    }

    /// Writes the request for the connection's next statement.
    #[inline]
    fn next(&mut self, index: usize, connection: &mut Connection, request: &mut Vec<u8>) {
        let call = self.scripts[index].next_call();
        request.clear();
        match connection.opened.prepared[call.sql as usize] {
            Some(statement) => call.execute(statement, request),
            None => call.query(request),
        }
        connection.state = State::Running(call);
    }

    /// Takes note of a reply; true if `request` shall be sent now, false if the connection is done.
    #[inline]
    fn complete(
        &mut self,
        index: usize,
        connection: &mut Connection,
        outcome: Outcome,
        now_ns: u64,
        request: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        let stopped = self.job.stop.load(Ordering::Relaxed);
        let ended = match (connection.state, outcome) {
            (State::Running(call), outcome @ (Outcome::Ok | Outcome::Rows(_))) => {
                if let Outcome::Rows(rows) = outcome
                    && !call.expects(rows)
                {
                    return Err(wrong_rows(call.sql, rows));
                }
                let ended = self.scripts[index].transaction_ended();
                let begun_ns = ended.then_some(connection.begun_ns);
                self.counts.counters.reply(&self.job.window, now_ns, index, begun_ns);
                ended
            }
            (State::Running(call), Outcome::Error(error)) => {
                if !self.counts.refusals.note(&self.job.window, now_ns, &error) {
                    return Err(connection.refused(call.sql.text(), &error));
                }
                if self.has_transactions {
                    return Ok(connection.roll_back(request));
                }
                // A retry: its time continues.
                self.scripts[index].begin_again();
                false
            }
            (State::RollingBack, Outcome::Ok) => {
                self.scripts[index].begin_again();
                false
            }
            (State::RollingBack, Outcome::Error(error)) => {
                if !self.counts.refusals.note(&self.job.window, now_ns, &error) {
                    return Err(connection.refused("ROLLBACK", &error));
                }
                return Ok(connection.roll_back(request));
            }
            (State::RollingBack, Outcome::Rows(_)) => return Err(wrong_rows(Sql::Commit, 0)),
        };
        if now_ns >= self.job.window.end_ns() {
            self.counts.counters.unanswered(&self.job.window, connection.begun_ns);
        }
        if stopped {
            let is_open = self.has_transactions && !self.scripts[index].transaction_ended();
            return Ok(is_open && connection.roll_back(request));
        }
        if ended {
            connection.begun_ns = now_ns;
        }
        self.next(index, connection, request);
        Ok(true)
    }
}

impl Connection {
    /// Writes the request for a rollback. True, for it shall be sent.
    fn roll_back(&mut self, request: &mut Vec<u8>) -> bool {
        request.clear();
        wire::query(request, |body| body.extend_from_slice(b"ROLLBACK"));
        self.state = State::RollingBack;
        true
    }

    fn refused(&self, sql: &str, error: &wire::ServerError) -> Error {
        not_executed(sql, self.opened.id, error)
    }

    #[inline]
    fn send(&mut self, request: &[u8]) -> Result<(), Error> {
        let Opened { id, socket, channel, .. } = &mut self.opened;
        let bytes = match channel {
            Some(channel) => channel.seal(request).map_err(|error| lost(*id, &error.to_string()))?,
            None => request,
        };
        loop {
            match send(&*socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) if sent == bytes.len() => return Ok(()),
                // One request is under way at a time, so the buffer was empty.
                Ok(_) | Err(Errno::AGAIN) => return Err(lost(*id, "half a request was sent")),
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(lost(*id, CLOSED)),
                Err(errno) => return Err(lost(*id, &errno.to_string())),
            }
        }
    }

    /// Reads what there is; the outcome once the reply is complete.
    #[inline]
    fn receive(&mut self, scratch: &mut Scratch) -> Result<Option<Outcome>, Error> {
        let id = self.opened.id;
        loop {
            let bytes = match recv(&self.opened.socket, &mut scratch.received[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(lost(id, CLOSED)),
                Ok((bytes, _)) => bytes,
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => continue,
                Err(Errno::CONNRESET) => return Err(lost(id, CLOSED)),
                Err(errno) => return Err(lost(id, &errno.to_string())),
            };
            let outcome = self.take(&scratch.received[..bytes], &mut scratch.opened);
            match outcome.map_err(|error| lost(id, &error.to_string()))? {
                Some(outcome) => return Ok(Some(outcome)),
                // A short read has emptied the socket: more comes with an event of its own.
                None if bytes < scratch.received.len() => return Ok(None),
                None => {}
            }
        }
    }

    /// Processes received bytes; returns the outcome once the reply is complete.
    #[inline]
    fn take(&mut self, received: &[u8], opened: &mut Vec<u8>) -> Result<Option<Outcome>, WireError> {
        let Some(channel) = &mut self.opened.channel else { return self.reply.take(received) };
        opened.clear();
        channel.open(received, opened)?;
        // Records of TLS itself carry nothing.
        if opened.is_empty() { Ok(None) } else { self.reply.take(opened) }
    }
}

fn lost(id: u32, why: &str) -> Error {
    Error::Cell(format!("connection {id} was lost: {why}"))
}

fn wrong_rows(sql: Sql, rows: u32) -> Error {
    Error::Cell(format!(
        "'{}' found the wrong number of rows ({rows}): the table was changed by somebody else, or has gaps",
        sql.text()
    ))
}

fn system(what: &str, errno: Errno) -> Error {
    Error::System { what: what.into(), source: errno.into(), advice: "try again with fewer --threads" }
}
