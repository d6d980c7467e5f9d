//! `flifo sweep --target`: a live MariaDB or MySQL in the embedded engine's place, with the same workloads as
//! real SQL, and those that write.
//!
//! | module | holds |
//! |---|---|
//! | `address` | where the server is and as whom; passwords that nobody sees |
//! | `wire` | the protocol: handshake, requests, replies |
//! | `session`, `connect` | a blocking connection; what to do when there is none |
//! | `statement`, `script` | SQL, and a connection's endless sequence of it |
//! | `client`, `clients` | event loops that play all connections |
//! | `refusals` | errors after which a statement is tried again |
//! | `admin` | the plugin's settings, changed between cells and put back |
//! | `server` | what the server and its process count |
//! | `table` | sysbench's table, found or made |
//! | `cell`, `run` | one round; all of them |
//!
//! The client is part of the load: on a machine that both share, its processor time is missing at the server.
//! Two ways were measured before this one was taken: `mysql_common`'s codecs under event loops of our own, and
//! `mysql_async` on a current-thread tokio. Point selects on two processors, prepared, processor time of the
//! client per statement, medians of three interleaved runs on a busy machine (the ratios are what counts):
//!
//! | connections | here, 1 thread | here, 2 | `mysql_async` | sysbench 1.0.20 |
//! |---|---|---|---|---|
//! | 16 | 12.5 us | 5.7 us | 21.3 us | 12.1 us |
//! | 64 | 11.6 us | 8.1 us | 17.2 us | 15.4 us |
//! | 256 | 9.9 us | 8.1 us | 20.7 us | 23.8 us |
//! | 1024 | 11.1 us | 8.7 us | 21.7 us | 61.9 us |
//!
//! Most of it is the kernel's: a `send` that wakes a server's thread on another processor. With a client thread
//! on each processor more of them wake on their own. Several threads that share one epoll were no better than
//! each with its own connections.

mod address;
mod admin;
mod cell;
mod client;
mod clients;
mod connect;
mod refusals;
mod run;
mod script;
mod server;
mod session;
mod statement;
mod table;
mod wire;

pub use address::Address;
pub(crate) use address::without_passwords;
pub(crate) use run::sweep;

/// How statements are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Protocol {
    /// As text, parsed each time.
    Text,
    /// Prepared once per connection, then executed.
    Prepared,
}

impl Protocol {
    /// The name as it is written on a command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Text => "text",
            Protocol::Prepared => "prepared",
        }
    }
}
