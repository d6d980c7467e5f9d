//! One private server: started, waited for, asked, ended.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flifo_mariadb::mysql::prelude::Queryable;
use flifo_mariadb::mysql::{Conn, OptsBuilder};
use flifo_mariadb::{raise_file_limit, spawn};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{Error, Installation, Options, Result, datadir};

/// On a busy machine.
const START: Duration = Duration::from_secs(120);
const END: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(20);
/// Only against a hang.
const ANSWER: Duration = Duration::from_secs(60);

/// A server of our own. Dropping it ends it and removes its folder.
pub struct PrivateServer {
    child: Child,
    folder: TempDir,
}

impl PrivateServer {
    /// Starts a server with these further arguments, as [`PrivateServer::start_with`] does.
    pub fn start(installation: &Installation, arguments: &[&str]) -> Result<PrivateServer> {
        PrivateServer::start_with(installation, &Options::new().arguments(arguments.iter().copied()))
    }

    /// Starts a server and waits until it answers. The plugin and those of the server's packages lie in its plugin folder and are not
    /// installed.
    pub fn start_with(installation: &Installation, options: &Options) -> Result<PrivateServer> {
        raise_file_limit();
        let parent = std::env::temp_dir();
        let folder =
            tempfile::Builder::new().prefix("flifo-mysql-").tempdir().map_err(Error::file(parent))?;
        for name in ["plugin", "tmp"] {
            let path = folder.path().join(name);
            fs::create_dir(&path).map_err(Error::file(path))?;
        }
        // A copy: a later build does not change what this server has mapped.
        let plugin = Installation::plugin_file()?;
        fs::copy(&plugin, folder.path().join("plugin/flifo.so")).map_err(Error::file(plugin))?;
        link_all(&installation.plugin_folder(), &folder.path().join("plugin"))?;
        let data = folder.path().join("data");
        match &options.data {
            Some(from) => datadir::copy(from, &data)?,
            None => datadir::make(installation, &data)?,
        }
        let child = launch(installation.server(), folder.path(), options)?;
        let mut server = PrivateServer { child, folder };
        server.wait_until_it_answers()?;
        Ok(server)
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let deadline = Instant::now() + START;
        loop {
            // Only its end or the deadline make this an error.
            if self.connect("root").is_ok() {
                return Ok(());
            }
            let why = match self.child.try_wait().map_err(Error::file("wait"))? {
                Some(status) => status.to_string(),
                None if Instant::now() >= deadline => "it does not answer".to_owned(),
                None => {
                    thread::sleep(PAUSE);
                    continue;
                }
            };
            return Err(Error::Start(format!("{why}; its log:\n{}", self.error_log())));
        }
    }

    /// Opens a connection of a user without a password. The plugin serves a connection until it closes, so close it before UNINSTALL is
    /// to take effect. An answer that does not come within a minute is an error.
    pub fn connect(&self, user: &str) -> Result<Conn> {
        let options = OptsBuilder::new()
            .socket(Some(self.socket().to_string_lossy()))
            .user(Some(user))
            // Otherwise the client sends a statement for it, which would queue.
            .max_allowed_packet(Some(16 << 20))
            .prefer_socket(false)
            .read_timeout(Some(ANSWER));
        Ok(Conn::new(options)?)
    }

    /// Runs a statement as the administrator, on a connection of its own.
    pub fn administer(&self, statement: &str) -> Result<()> {
        Ok(self.connect("root")?.query_drop(statement)?)
    }

    /// Installs the plugin.
    pub fn install_plugin(&self) -> Result<()> {
        self.administer("INSTALL PLUGIN flifo SONAME 'flifo.so'")
    }

    /// Returns a global status variable.
    pub fn status(&self, name: &str) -> Result<String> {
        let row: Option<(String, String)> =
            self.connect("root")?.query_first(format!("SHOW GLOBAL STATUS LIKE '{name}'"))?;
        row.map(|(_, value)| value).ok_or_else(|| Error::NoStatus(name.to_owned()))
    }

    /// Returns a global status variable that is a number.
    pub fn status_number(&self, name: &str) -> Result<u64> {
        let value = self.status(name)?;
        value.parse().map_err(|_| Error::NotNumber { name: name.to_owned(), value })
    }

    /// Where clients connect.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// The server's data. Complete once the server has ended cleanly.
    pub fn data_folder(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The folder from which the server loads plugins.
    pub fn plugin_folder(&self) -> PathBuf {
        self.folder.path().join("plugin")
    }

    /// A folder that goes with the server, for files of the caller.
    pub fn scratch(&self) -> PathBuf {
        self.folder.path().join("tmp")
    }

    /// Returns everything that the server has written to its error log.
    pub fn error_log(&self) -> String {
        let log = fs::read(self.folder.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// The server's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether its process is there.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends the server and returns whether it ended cleanly within two minutes; then it is killed.
    pub fn shutdown(&mut self) -> bool {
        // Not once it was waited for: another process may have its number by then.
        if matches!(self.child.try_wait(), Ok(None))
            && let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process(pid, Signal::TERM);
        }
        self.wait_for_end()
    }

    /// Waits for an end that another has asked for, and returns the same.
    pub fn wait_for_end(&mut self) -> bool {
        let deadline = Instant::now() + END;
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.success();
            }
            thread::sleep(PAUSE);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        false
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// The server's own plugins, beside ours.
fn link_all(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).map_err(Error::file(from))? {
        let entry = entry.map_err(Error::file(from))?;
        let link = to.join(entry.file_name());
        symlink(entry.path(), &link).map_err(Error::file(link))?;
    }
    Ok(())
}

fn launch(mut command: Command, folder: &Path, options: &Options) -> Result<Child> {
    for (name, value) in [
        ("datadir", "data"),
        ("socket", "socket"),
        ("pid-file", "pid"),
        ("tmpdir", "tmp"),
        ("plugin-dir", "plugin"),
    ] {
        command.arg(format!("--{name}={}", folder.join(value).display()));
    }
    // A port is the caller's to ask for.
    if !options.arguments.iter().any(|argument| argument.starts_with("--port")) {
        command.arg("--skip-networking");
    }
    command.args(["--mysqlx=OFF", "--secure-file-priv=", "--max-connections=3000"]);
    command.args(["--innodb-buffer-pool-size=64M", "--innodb-redo-log-capacity=16M"]);
    command.args(&options.arguments);
    if let Some(library) = std::env::var_os("FLIFO_SANITIZER") {
        // For a plugin that was built with AddressSanitizer. The server's own leaks are its own.
        command.env("LD_PRELOAD", library);
        command.env("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=1:handle_segv=2:disable_coredump=1");
    }
    command.envs(options.environment.iter().map(|(name, value)| (name, value)));
    let log = folder.join("log");
    let file = File::create(&log).map_err(Error::file(&log))?;
    let copy = file.try_clone().map_err(Error::file(&log))?;
    command.stdin(Stdio::null()).stdout(copy).stderr(file);
    spawn(command).map_err(|error| Error::Start(error.to_string()))
}
