//! A live MariaDB or MySQL in the embedded engine's place, with the same workloads as SQL,
//! including writes.
//!
//! | module | holds |
//! |---|---|
//! | `address`, `endpoint` | where the server is and as whom; passwords that are never shown |
//! | `tls` | encrypted connections: options, certificates, records |
//! | `wire` | the protocol: handshake, requests, replies |
//! | `session`, `connect`, `explain` | a blocking connection; what to do when there is none |
//! | `statement`, `script` | SQL, and a connection's endless sequence of it |
//! | `statements`, `data_set` | a connection of a load that needs values of results; its tables, found or loaded |
//! | `client`, `clients` | event loops that drive all connections |
//! | `refusals` | errors after which a statement is retried |
//! | `admin` | the plugin's settings, changed between cells and put back |
//! | `counters` | what the server and its process count |
//! | `table` | sysbench's table, found or made |
//!
//! The client is part of the load: on a shared machine, its CPU time is missing at the server. Prototypes of two
//! designs were compared: `mysql_common`'s codecs under event loops of the lab, and `mysql_async` on a current-thread
//! tokio. Prepared point selects on two CPUs, CPU time of the client per statement, interleaved prototypes on a busy
//! machine, so that only the order of magnitude counts:
//!
//! | connections | here, 1 thread | here, 2 | `mysql_async` | sysbench 1.0.20 |
//! |---|---|---|---|---|
//! | 16 | 8 to 17 us | 5 to 10 us | 21 us | 9 to 15 us |
//! | 64 | 10 to 13 us | 7 to 12 us | 17 us | 14 to 21 us |
//! | 256 | 7 to 11 us | 8 to 11 us | 21 us | 22 to 59 us |
//! | 1024 | 10 to 14 us | 8 to 9 us | 22 us | 59 to 73 us |
//!
//! Most of it is the kernel's: a `send` that wakes a server's thread on another CPU. With a client thread on each CPU
//! more of these threads wake on the same CPU. Several threads that share one epoll were no better than threads with
//! their own connections.

pub(crate) mod address;
pub(crate) mod admin;
pub(crate) mod client;
pub(crate) mod clients;
pub(crate) mod connect;
pub(crate) mod counters;
pub(crate) mod data_set;
pub(crate) mod endpoint;
mod explain;
mod refusals;
pub(crate) mod script;
mod session;
pub(crate) mod statement;
pub(crate) mod statements;
pub(crate) mod table;
mod tls;
mod wire;

pub use address::Address;
pub(crate) use address::{without_addresses, without_passwords};
pub(crate) use session::Session;
pub use tls::{TlsArgs, TlsMode};

/// How statements are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Protocol {
    /// As text, parsed each time.
    Text,
    /// Prepared once per connection, then executed.
    #[default]
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
