//! A blocking connection, plain or under TLS: for the handshake, for administration, and for preparing the statements
//! of a load.
//!
//! A long wait checks for Ctrl-C a few times a second.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::errors::WireError;
use super::{BODY_BYTES_MAX, HEADER_BYTES, packet};
use crate::measure::server::address::Place;
use crate::measure::server::tls::{Channel, Tls};
use crate::support::interrupt;

/// How often a wait looks for Ctrl-C.
const SLICE: Duration = Duration::from_millis(200);
/// A server that is there answers a connect within this.
const CONNECT: Duration = Duration::from_secs(10);

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection that waits for its replies.
#[derive(Debug)]
pub(crate) struct Link {
    stream: Stream,
    channel: Option<Box<Channel>>,
    received: Vec<u8>,
    /// How many of `received` were taken.
    taken: usize,
    /// The number of the next packet of an exchange.
    number: u8,
    /// How long a reply may take; `None` for any time.
    pub(crate) patience: Option<Duration>,
    /// Whether Ctrl-C ends a wait.
    pub(crate) heeds_interrupt: bool,
}

impl Link {
    /// Opens a connection, before the login.
    pub(crate) fn open(place: &Place) -> Result<Self, WireError> {
        let stream = match place {
            Place::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
            Place::Tcp { host, port } => Stream::Tcp(connect(host, *port)?),
        };
        match &stream {
            Stream::Tcp(tcp) => {
                tcp.set_nodelay(true)?;
                tcp.set_read_timeout(Some(SLICE))?;
            }
            Stream::Unix(unix) => unix.set_read_timeout(Some(SLICE))?,
        }
        Ok(Link {
            stream,
            channel: None,
            received: Vec::new(),
            taken: 0,
            number: 0,
            patience: Some(CONNECT),
            heeds_interrupt: false,
        })
    }

    /// Sends a request built by one of this module's functions, the first of an exchange.
    pub(crate) fn request(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        self.number = 1;
        self.write(bytes)
    }

    /// Sends a packet of an exchange that is under way.
    pub(crate) fn send(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> Result<(), WireError> {
        let mut bytes = Vec::new();
        packet(&mut bytes, self.number, fill);
        self.number = self.number.wrapping_add(1);
        self.write(&bytes)
    }

    /// Begins TLS with the server at `place`, which awaits it.
    pub(crate) fn encrypt(&mut self, tls: &Tls, place: &Place) -> Result<(), WireError> {
        // What came unencrypted must not pass for a reply that came encrypted.
        if self.received.len() > self.taken {
            return Err(WireError::Protocol("more than its greeting before TLS began"));
        }
        self.channel = Some(Box::new(tls.channel(place)?));
        let begun = Instant::now();
        loop {
            self.write(&[])?;
            if !self.channel.as_ref().is_some_and(|channel| channel.is_handshaking()) {
                return Ok(());
            }
            if let Err(error) = self.read_some(begun) {
                // The server's log then says why, too.
                let _ = self.write(&[]);
                return Err(error);
            }
        }
    }

    /// Whether TLS has begun.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.channel.is_some()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        let bytes = match &mut self.channel {
            Some(channel) => channel.seal(bytes)?,
            None => bytes,
        };
        let written = match &mut self.stream {
            Stream::Tcp(tcp) => tcp.write_all(bytes),
            Stream::Unix(unix) => unix.write_all(bytes),
        };
        written.map_err(|error| match error.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => WireError::Closed,
            _ => WireError::Io(error),
        })
    }

    /// The next packet's body.
    pub(crate) fn receive(&mut self) -> Result<&[u8], WireError> {
        self.received.drain(..self.taken);
        self.taken = 0;
        let begun = Instant::now();
        loop {
            if let Some(header) = self.received.first_chunk::<HEADER_BYTES>() {
                let body = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
                if body > BODY_BYTES_MAX {
                    return Err(WireError::Protocol("a packet of 16 mebibytes"));
                }
                if self.received.len() >= HEADER_BYTES + body {
                    self.number = header[3].wrapping_add(1);
                    self.taken = HEADER_BYTES + body;
                    return Ok(&self.received[HEADER_BYTES..self.taken]);
                }
            }
            self.read_some(begun)?;
        }
    }

    fn read_some(&mut self, begun: Instant) -> Result<(), WireError> {
        let mut piece = [0; 16 << 10];
        let read = match &mut self.stream {
            Stream::Tcp(tcp) => tcp.read(&mut piece),
            Stream::Unix(unix) => unix.read(&mut piece),
        };
        match read {
            Ok(0) => return Err(WireError::Closed),
            Ok(bytes) => match &mut self.channel {
                Some(channel) => channel.open(&piece[..bytes], &mut self.received)?,
                None => self.received.extend_from_slice(&piece[..bytes]),
            },
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => return Err(WireError::Closed),
                _ => return Err(error.into()),
            },
        }
        if self.heeds_interrupt && interrupt::is_requested() {
            return Err(WireError::Interrupted);
        }
        match self.patience {
            Some(patience) if begun.elapsed() > patience => Err(WireError::Silence(patience.as_secs())),
            _ => Ok(()),
        }
    }

    /// The descriptor and its TLS, for an event loop; no request may be in progress.
    pub(crate) fn into_parts(self) -> (OwnedFd, Option<Box<Channel>>) {
        debug_assert_eq!(self.received.len(), self.taken, "a reply was not read");
        let socket = match self.stream {
            Stream::Tcp(tcp) => tcp.into(),
            Stream::Unix(unix) => unix.into(),
        };
        (socket, self.channel)
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Tcp(tcp) => tcp.as_fd(),
            Stream::Unix(unix) => unix.as_fd(),
        }
    }
}

/// The first address of the host that answers.
fn connect(host: &str, port: u16) -> Result<TcpStream, WireError> {
    let addresses = Place::resolve(host, port).map_err(io::Error::other)?;
    let mut failed = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.map_or_else(|| WireError::Io(io::Error::other("no address")), WireError::Io))
}
