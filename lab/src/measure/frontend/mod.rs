//! Frontends: how statements reach the engine.
//!
//! - `socket`: a connection is a server thread of its own and a local socket pair (1:1, as published); a few event-loop
//!   threads drive all clients. A statement is a request and a reply.
//! - `direct`: every client thread calls the engine itself. It shows the engine without the network.
//!
//! Protocol: a [`Frontend`] is created for one number of connections. For each cell [`Frontend::begin`] gives every
//! connection a new session under the cell's scheduler, then all of them begin at once; [`Frontend::finish`] waits for the
//! last reply. A [`Window`] in between selects the statements that count: those whose reply came inside it. The threads
//! that drive the clients are `ClientThread`s in a `ThreadGroup`.
//!
//! Failure: the first error of any thread closes the window for all of them and is returned by [`Frontend::finish`]. After
//! an error a front is dropped without waiting for its server threads, which may hang; the command ends then.

mod connection_state;
mod counters;
mod direct;
mod retries;
mod socket;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flifo_admission::Admission;

use super::thread_group::{Driver, ThreadGroup};
use super::workload::kernel::Kernel;
use super::workload::{Load, Sbtest};
use crate::results::series::interval_ns;
use crate::support::clock;
use crate::support::error::Error;
pub use counters::{LATENCY_NS_MAX, WindowCounters};
use flifo_engine::Database;
pub use retries::Retries;
pub(crate) use socket::client_threads;

/// Stack of a thread that calls the engine, whose call depth is small and bounded; only touched pages cost
/// memory.
pub(crate) const STACK_BYTES: usize = 512 << 10;

/// How statements reach the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum FrontendKind {
    /// A server thread per connection behind a local socket, requests and replies.
    Socket,
    /// Client threads that call the engine themselves.
    Direct,
}

impl FrontendKind {
    /// The name as it is written on a command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            FrontendKind::Socket => "socket",
            FrontendKind::Direct => "direct",
        }
    }

    /// File descriptors that `connections` connections take.
    pub fn descriptors(self, connections: u32) -> u64 {
        match self {
            FrontendKind::Socket => 2 * u64::from(connections) + socket::client_threads() as u64,
            FrontendKind::Direct => 0,
        }
    }

    /// Threads that `connections` connections take.
    pub fn threads(self, connections: u32) -> u64 {
        match self {
            FrontendKind::Socket => u64::from(connections) + socket::client_threads() as u64,
            FrontendKind::Direct => u64::from(connections),
        }
    }
}

/// The time in which a reply counts: `start <= reply < end`.
#[derive(Debug)]
pub struct Window {
    start_ns: u64,
    end_ns: AtomicU64,
    interval_ns: u64,
}

impl Window {
    /// A window that opens after `settle` and lasts for `time`.
    pub fn after(settle: Duration, time: Duration) -> Self {
        let start_ns = clock::now_ns() + clock::ns(settle);
        let time_ns = clock::ns(time);
        let interval_ns = interval_ns(time_ns);
        Window { start_ns, end_ns: AtomicU64::new(start_ns + time_ns), interval_ns }
    }

    /// When it opens.
    #[inline]
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// When it closes; statements are sent until then.
    #[inline]
    pub fn end_ns(&self) -> u64 {
        // Relaxed: the value is all that is passed, and a reply's delay in seeing it costs nothing.
        self.end_ns.load(Ordering::Relaxed)
    }

    /// How long it is to be open.
    pub fn length_ns(&self) -> u64 {
        self.end_ns().saturating_sub(self.start_ns)
    }

    /// Length of an interval of its time series.
    #[inline]
    pub fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    /// Closes the window now, if it is open.
    pub fn cut(&self) {
        self.end_ns.fetch_min(clock::now_ns(), Ordering::Relaxed);
    }
}

/// The job of the drivers for one cell.
#[derive(Clone)]
pub struct Job {
    /// The statements.
    pub load: Load,
    /// The window in which statements count, and after which the drivers stop.
    pub window: Arc<Window>,
}

/// What the sessions of a cell share.
#[derive(Clone)]
pub struct Shared {
    /// The scheduler.
    pub admission: Arc<Admission>,
    /// The kernel mutex of a cell with that specimen.
    pub kernel: Option<Arc<Kernel>>,
}

/// An order to the threads that drive clients.
#[derive(Clone)]
pub enum Order {
    /// A new session for every connection.
    Open(Shared),
    /// A cell.
    Run(Job),
}

/// A thread that drives clients.
trait ClientThread: Send + 'static {
    /// Gives every connection a new session.
    fn open(&mut self, shared: &Shared) -> Result<(), Error>;
    /// Runs statements until the window closes and the last reply is in.
    fn run(&mut self, job: &Job) -> Result<WindowCounters, Error>;
}

impl<P: ClientThread> Driver for P {
    type Order = Order;
    type Report = Option<WindowCounters>;

    fn execute(&mut self, order: &Order) -> Result<Option<WindowCounters>, Error> {
        match order {
            Order::Open(shared) => self.open(shared).map(|()| None),
            Order::Run(job) => self.run(job).map(Some),
        }
    }

    fn failed(order: &Order) {
        if let Order::Run(job) = order {
            job.window.cut();
        }
    }
}

/// The threads that drive clients.
type Clients = ThreadGroup<Order, Option<WindowCounters>>;

/// The connections of one number of threads.
pub struct Frontend {
    group: Clients,
    servers: socket::Servers,
    client_tids: Vec<u32>,
    broken: bool,
}

impl Frontend {
    /// Opens `connections` connections to the table.
    pub fn open(
        kind: FrontendKind,
        connections: u32,
        database: &Database,
        table: &Sbtest,
    ) -> Result<Self, Error> {
        match kind {
            FrontendKind::Socket => {
                let (servers, group) = socket::open(connections, database, table)?;
                let client_tids = group.tids().to_vec();
                Ok(Frontend { group, servers, client_tids, broken: false })
            }
            FrontendKind::Direct => {
                let group = direct::open(connections, database, table)?;
                // Client and server are one thread here: its time counts as the server's.
                let servers = socket::Servers::none();
                Ok(Frontend { group, servers, client_tids: Vec::new(), broken: false })
            }
        }
    }

    /// Kernel ids of the threads that only drive clients.
    pub fn client_tids(&self) -> &[u32] {
        &self.client_tids
    }

    /// Starts a cell: new sessions that share `shared`, then statements on all connections at once. The
    /// window opens after `settle` and stays open for `time`.
    pub fn begin(
        &mut self,
        shared: &Shared,
        load: Load,
        (settle, time): (Duration, Duration),
    ) -> Result<Arc<Window>, Error> {
        self.servers.share(shared);
        self.group.send(&Order::Open(shared.clone()));
        let opened = self.group.collect();
        self.note(opened)?;
        let window = Arc::new(Window::after(settle, time));
        self.group.send(&Order::Run(Job { load, window: Arc::clone(&window) }));
        Ok(window)
    }

    /// Waits for the cell's last reply; returns the sum of all counters, with connections in the order of the client threads.
    pub fn finish(&mut self) -> Result<WindowCounters, Error> {
        let finished = self.group.collect();
        let mut sum = WindowCounters::new(0);
        self.note(finished)?.into_iter().flatten().for_each(|counters| sum.add(counters));
        Ok(sum)
    }

    fn note<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        self.broken |= result.is_err();
        result
    }
}

impl Drop for Frontend {
    fn drop(&mut self) {
        if self.broken {
            self.group.abandon();
            self.servers.abandon();
        } else {
            // The clients first: the end of their sockets ends the servers.
            self.group.close();
            self.servers.close();
        }
    }
}
