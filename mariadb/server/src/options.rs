use std::ffi::OsString;
use std::path::PathBuf;

/// What a private server is started with.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) plugin: Plugin,
    pub(crate) loopback: bool,
    pub(crate) data: Option<PathBuf>,
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(String, OsString)>,
}

/// How the server meets the plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plugin {
    /// Not at all.
    #[default]
    Absent,
    /// It lies in the server's plugin folder, for `INSTALL SONAME 'flifo'`.
    AtHand,
    /// Loaded at start.
    Loaded,
}

impl Default for Options {
    fn default() -> Options {
        Options::new()
    }
}

impl Options {
    /// A stock server: 64 MB of buffer pool, room for 5,000 connections, each commit synced.
    pub fn new() -> Options {
        let (arguments, environment) = (Vec::new(), Vec::new());
        Options { plugin: Plugin::Absent, loopback: false, data: None, arguments, environment }
            .set("innodb-buffer-pool-size", "64M")
            .set("innodb-log-file-size", "16M")
            .set("max-connections", "5000")
            .set("open-files-limit", "20000")
            // Eight instances, each of which may open two files a table.
            .set("table-open-cache", "800")
            .set("back-log", "4000")
    }

    #[must_use]
    pub fn plugin(mut self, plugin: Plugin) -> Options {
        self.plugin = plugin;
        self
    }

    /// Listens on a free port of 127.0.0.1, too.
    #[must_use]
    pub fn loopback(mut self) -> Options {
        self.loopback = true;
        self
    }

    /// Begins with a copy of this data directory, which a server has left cleanly, instead of an empty one.
    #[must_use]
    pub fn data(mut self, from: impl Into<PathBuf>) -> Options {
        self.data = Some(from.into());
        self
    }

    /// One of the server's options, without its dashes. The last one of a name counts.
    #[must_use]
    pub fn set(self, name: &str, value: impl std::fmt::Display) -> Options {
        self.argument(format!("--{name}={value}"))
    }

    /// An argument as it is.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Options {
        self.arguments.push(argument.into());
        self
    }

    #[must_use]
    pub fn buffer_pool(self, bytes: u64) -> Options {
        self.set("innodb-buffer-pool-size", bytes)
    }

    #[must_use]
    pub fn flush_log_at_commit(self, how: u8) -> Options {
        self.set("innodb-flush-log-at-trx-commit", how)
    }

    /// A variable of the server's environment.
    #[must_use]
    pub fn environment(mut self, name: &str, value: impl Into<OsString>) -> Options {
        self.environment.push((name.to_owned(), value.into()));
        self
    }
}
