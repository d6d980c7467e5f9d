//! Connections for the load `socket`: a local socket pair per thread, and event loops that drive the clients,
//! without think time. The sockets and the number of event loops are those of the sweep (`front::socket`). A message is one
//! byte, since only its transfer is measured.
//!
//! A request is `RUN` or `STOP`. A connection has one request under way at a time, so the client that finds
//! the cell over sends `STOP` in place of the next request, and its thread ends.

use std::mem::MaybeUninit;
use std::sync::Mutex;

use flifo_base::lock;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

use crate::measure::frontend::client_threads;
use crate::support::error::Error;

const RUN: u8 = 1;
const STOP: u8 = 0;
/// Events taken at once.
const EVENTS_MAX: usize = 256;
/// Without any reply for this time, the statements hang.
const HANG_S: u64 = 60;

/// Both ends of all connections.
pub(crate) struct Sockets {
    servers: Vec<OwnedFd>,
    /// Each event loop takes its connections when it begins and brings them back.
    clients: Vec<Mutex<Option<Exchange>>>,
}

/// The connections of one event loop.
pub(crate) struct Exchange {
    epoll: OwnedFd,
    clients: Vec<OwnedFd>,
}

/// Returns the number of descriptors of `threads` connections.
pub(super) fn descriptors(threads: u32) -> u64 {
    2 * u64::from(threads) + client_threads() as u64
}

impl Sockets {
    /// Opens a connection for each thread.
    pub(super) fn open(threads: u32) -> Result<Self, Error> {
        let loops = client_threads().min(threads as usize).max(1);
        let mut servers = Vec::with_capacity(threads as usize);
        let mut clients: Vec<Vec<OwnedFd>> = (0..loops).map(|_| Vec::new()).collect();
        for connection in 0..threads {
            let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
            let (client, server) =
                pair.map_err(|errno| Error::descriptors(2 * u64::from(connection), errno))?;
            servers.push(server);
            clients[connection as usize % loops].push(client);
        }
        let exchange = |clients| Ok(Mutex::new(Some(Exchange::new(clients)?)));
        let clients = clients.into_iter().map(exchange).collect::<Result<_, Error>>()?;
        Ok(Sockets { servers, clients })
    }

    /// Returns the number of event loops.
    pub(crate) fn loops(&self) -> usize {
        self.clients.len()
    }

    /// Drives the clients of one event loop until `over`, and until the last one has sent `STOP`.
    pub(crate) fn drive(&self, index: usize, over: impl Fn() -> bool) -> Result<(), Error> {
        let mut kept = lock(&self.clients[index]);
        let exchange = kept.take().expect("a loop that failed is not played again");
        // After an error the sockets are closed, so that no thread waits for a request that never comes.
        exchange.drive(over)?;
        *kept = Some(exchange);
        Ok(())
    }

    /// Waits for the next request of a thread's connection; false to stop.
    #[inline]
    pub(crate) fn receive(&self, thread: usize) -> Result<bool, Error> {
        match read(&self.servers[thread], RecvFlags::empty()) {
            Ok(Some(request)) => Ok(request == RUN),
            Ok(None) | Err(_) => Err(Error::ConnectionClosed(thread as u32)),
        }
    }

    /// Sends the reply.
    #[inline]
    pub(crate) fn reply(&self, thread: usize) -> Result<(), Error> {
        write(&self.servers[thread], RUN).map_err(|errno| system("cannot send a reply", errno))
    }
}

impl Exchange {
    fn new(clients: Vec<OwnedFd>) -> Result<Self, Error> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|errno| Error::descriptors(0, errno))?;
        for (index, client) in clients.iter().enumerate() {
            // Edge-triggered: one reply is under way at a time, and it is read whole.
            let flags = EventFlags::IN | EventFlags::ET;
            epoll::add(&epoll, client, EventData::new_u64(index as u64), flags)
                .map_err(|errno| system("cannot watch a socket", errno))?;
        }
        Ok(Exchange { epoll, clients })
    }

    fn drive(&self, over: impl Fn() -> bool) -> Result<(), Error> {
        let failed = |errno| system("cannot send a request", errno);
        self.clients.iter().try_for_each(|client| write(client, RUN)).map_err(failed)?;
        let patience = Timespec { tv_sec: HANG_S as i64, tv_nsec: 0 };
        let mut outstanding = self.clients.len();
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
                let number = event.data.u64() as usize;
                let client = &self.clients[number];
                match read(client, RecvFlags::DONTWAIT) {
                    Ok(Some(_)) => {}
                    // A wake-up without a reply.
                    Err(Errno::AGAIN) => continue,
                    Ok(None) | Err(_) => return Err(Error::ConnectionClosed(number as u32)),
                }
                let over = over();
                outstanding -= usize::from(over);
                write(client, if over { STOP } else { RUN }).map_err(failed)?;
            }
        }
        Ok(())
    }
}

/// A message; `None` if the other end is closed.
#[inline]
fn read(socket: &OwnedFd, flags: RecvFlags) -> Result<Option<u8>, Errno> {
    let mut message = [STOP];
    loop {
        match recv(socket, &mut message, flags) {
            Ok((0, _)) => return Ok(None),
            Ok(_) => return Ok(Some(message[0])),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

#[inline]
fn write(socket: &OwnedFd, byte: u8) -> Result<(), Errno> {
    loop {
        match send(socket, &[byte], SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            result => return result.map(|_| ()),
        }
    }
}

fn system(what: &str, errno: Errno) -> Error {
    Error::System { what: what.into(), source: errno.into(), advice: "try again with fewer --threads" }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn every_thread_is_asked_and_then_stopped_again_and_again() {
        const THREADS: usize = 5;
        let sockets = Sockets::open(THREADS as u32).unwrap();
        for _ in 0..3 {
            let served: [AtomicU32; THREADS] = Default::default();
            std::thread::scope(|scope| {
                for (thread, served) in served.iter().enumerate() {
                    let sockets = &sockets;
                    scope.spawn(move || {
                        while sockets.receive(thread).unwrap() {
                            served.fetch_add(1, Ordering::Relaxed);
                            sockets.reply(thread).unwrap();
                        }
                    });
                }
                let enough = || served.iter().all(|served| served.load(Ordering::Relaxed) >= 100);
                for index in 0..sockets.loops() {
                    let sockets = &sockets;
                    scope.spawn(move || sockets.drive(index, enough).unwrap());
                }
            });
        }
    }
}
