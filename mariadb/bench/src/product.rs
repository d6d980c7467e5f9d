//! The kind of server that is measured: what differs between two products that speak the same protocol.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flifo_mariadb::mysql::Conn;
use flifo_mariadb::{Ended, Options, Plugin, PrivateServer, server_version};

use crate::Result;

/// A kind of server. Options are names and values without dashes; an option without a value has an empty one.
pub struct Product {
    pub name: &'static str,
    /// The command that measures it.
    pub command: &'static str,
    /// The record of the matrix.
    pub record: &'static str,
    /// What the matrix measures by default: variants, loads (empty: all), connections (empty: those of the loads).
    pub variants: &'static [&'static str],
    pub loads: &'static [&'static str],
    pub connections: &'static [u32],
    /// The least ratios of the plugin's throughput that the project aims at: load, connections, the variant below, ratio.
    pub wanted: &'static [(&'static str, u32, &'static str, f64)],
    /// What `--quick` takes at most.
    pub quick: Duration,
    /// The option with the size of the redo log.
    pub redo_log_size: &'static str,
    /// Options of all servers; of those with a pool of threads; of those with durable commits.
    pub options: &'static [(&'static str, &'static str)],
    pub pool_options: &'static [(&'static str, &'static str)],
    pub durable_options: &'static [(&'static str, &'static str)],
    /// The table of the status variables.
    pub status_table: &'static str,
    /// Asks for the status variables of these names, a list of literals in upper case, and all of the plugin's. The rows of all results are
    /// a name and a value; before and after the variables there is a row `begun` and a row `ended` with the time of the server's clock.
    pub status_query: fn(names: &str) -> String,
    /// What the session of administration sets, and how it finds its thread of the kernel.
    pub session: &'static str,
    pub thread_query: &'static str,
    /// The numbers of a user's connections, if the server has no KILL USER.
    pub connections_of: Option<fn(user: &str) -> String>,
    pub install: &'static str,
    pub uninstall: &'static str,
    /// The part of a data set's name that tells versions of the server apart.
    pub version: fn() -> Result<String>,
    pub start: fn(&Launch) -> Result<Box<dyn Server>>,
}

impl fmt::Debug for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A private server that runs. Dropping it ends it and removes its files.
pub trait Server {
    /// Opens a connection of a user without a password.
    fn connect(&self, user: &str, database: Option<&str>) -> Result<Conn>;
    fn socket(&self) -> PathBuf;
    /// Its data. Complete once it has ended cleanly.
    fn data_folder(&self) -> PathBuf;
    /// A folder that goes with it, for files of the caller.
    fn scratch(&self) -> PathBuf;
    fn pid(&self) -> u32;
    fn runs(&mut self) -> bool;
    fn error_log(&self) -> String;
    /// Ends it cleanly, or says how it ended.
    fn shutdown(&mut self, bound: Duration) -> std::result::Result<(), String>;
}

/// What a server is started with.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    /// The last one of a name counts.
    pub options: Vec<(String, String)>,
    pub plugin: Plugin,
    /// It begins with a copy of this data directory, instead of an empty one.
    pub data: Option<PathBuf>,
    pub environment: Vec<(String, OsString)>,
}

impl Launch {
    #[must_use]
    pub fn set(mut self, name: &str, value: impl fmt::Display) -> Launch {
        self.options.push((name.to_owned(), value.to_string()));
        self
    }

    #[must_use]
    pub fn set_all<'a>(self, options: impl IntoIterator<Item = &'a (&'a str, &'a str)>) -> Launch {
        options.into_iter().fold(self, |launch, (name, value)| launch.set(name, value))
    }

    #[must_use]
    pub fn plugin(mut self, plugin: Plugin) -> Launch {
        self.plugin = plugin;
        self
    }

    #[must_use]
    pub fn data(mut self, from: &Path) -> Launch {
        self.data = Some(from.to_owned());
        self
    }

    #[must_use]
    pub fn environment(mut self, name: &str, value: impl Into<OsString>) -> Launch {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// The options as arguments.
    pub fn arguments(&self) -> impl Iterator<Item = String> {
        self.options.iter().map(|(name, value)| match value.as_str() {
            "" => format!("--{name}"),
            value => format!("--{name}={value}"),
        })
    }
}

/// The MariaDB of the distribution's packages.
pub static MARIADB: Product = Product {
    name: "MariaDB",
    command: "flifo-mariadb-bench",
    record: "matrix",
    variants: &["stock", "plugin"],
    loads: &[],
    connections: &[],
    wanted: &[],
    quick: Duration::from_secs(15 * 60),
    redo_log_size: "innodb-log-file-size",
    options: &[],
    pool_options: &[("thread-handling", "pool-of-threads")],
    durable_options: &[("innodb-flush-log-at-trx-commit", "1"), ("sync-binlog", "1"), ("log-bin", "binlog")],
    status_table: "information_schema.GLOBAL_STATUS",
    // The parts of a UNION ALL run one after the other.
    status_query: |names| {
        format!(
            "SELECT 'begun', UNIX_TIMESTAMP(SYSDATE(6)) UNION ALL \
             SELECT VARIABLE_NAME, VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS \
             WHERE VARIABLE_NAME IN ({names}) OR VARIABLE_NAME LIKE 'FLIFO%' UNION ALL \
             SELECT 'ended', UNIX_TIMESTAMP(SYSDATE(6))"
        )
    },
    // Administrators bypass admission; in a pool of threads this goes before the others.
    session: "SET SESSION thread_pool_priority = high, wait_timeout = 2000000, time_zone = '+00:00'",
    thread_query: "SELECT TID FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()",
    connections_of: None,
    install: "INSTALL SONAME 'flifo'",
    uninstall: "UNINSTALL SONAME 'flifo'",
    version: || Ok(format!("mariadb/sysbench-{:016x}", server_version()?)),
    start: start_mariadb,
};

fn start_mariadb(launch: &Launch) -> Result<Box<dyn Server>> {
    let mut options = Options::new().plugin(launch.plugin);
    options = launch.arguments().fold(options, Options::argument);
    options =
        launch.environment.iter().fold(options, |options, (name, value)| options.environment(name, value));
    if let Some(data) = &launch.data {
        options = options.data(data);
    }
    Ok(Box::new(PrivateServer::start(options)?))
}

impl Server for PrivateServer {
    fn connect(&self, user: &str, database: Option<&str>) -> Result<Conn> {
        Ok(Conn::new(self.connection(user).db_name(database))?)
    }

    fn socket(&self) -> PathBuf {
        PrivateServer::socket(self)
    }

    fn data_folder(&self) -> PathBuf {
        self.data_dir()
    }

    fn scratch(&self) -> PathBuf {
        PrivateServer::scratch(self)
    }

    fn pid(&self) -> u32 {
        PrivateServer::pid(self)
    }

    fn runs(&mut self) -> bool {
        PrivateServer::runs(self)
    }

    fn error_log(&self) -> String {
        PrivateServer::error_log(self)
    }

    fn shutdown(&mut self, bound: Duration) -> std::result::Result<(), String> {
        match PrivateServer::shutdown(self, bound) {
            Ended::Itself(0) => Ok(()),
            ended => Err(format!("{ended:?}")),
        }
    }
}

/// Connects as the administrator.
pub(crate) fn administer(server: &dyn Server) -> Result<Conn> {
    server.connect("root", None)
}
