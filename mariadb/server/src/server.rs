//! One private server: started, waited for, asked, ended.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};
use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::datadir::Folder;
use crate::{Error, Options, Plugin, Result, programs, spawn};

/// On a busy machine, and under a sanitizer.
const START: Duration = Duration::from_secs(120);
const END: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(10);
/// The longest path of a socket that the kernel takes.
const SOCKET_PATH: usize = 107;

/// A server of our own. Dropping it ends it and removes its folder.
pub struct PrivateServer {
    child: Child,
    folder: Folder,
    port: Option<u16>,
    /// An open connection for questions, so that they are answered even when nobody else gets in.
    administrator: Mutex<Option<Conn>>,
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit code or signal; 0 is clean.
    Itself(i32),
    /// It did not end in time and was killed.
    Killed,
}

impl PrivateServer {
    /// Starts one and waits until it answers.
    pub fn start(options: Options) -> Result<PrivateServer> {
        spawn::raise_file_limit();
        let folder = Folder::new(options.data.as_deref())?;
        let (child, port) = launch(&folder, &options)?;
        let mut server = PrivateServer { child, folder, port, administrator: Mutex::new(None) };
        server.wait_until_it_answers()?;
        Ok(server)
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let deadline = Instant::now() + START;
        loop {
            // Only its end or the deadline make this an error.
            if let Ok(connection) = self.connect() {
                self.administrator = Mutex::new(Some(connection));
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
            return Err(Error::Start(format!("{why}; the end of its log:\n{}", tail(&self.error_log()))));
        }
    }

    /// Where clients connect.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// Its port on 127.0.0.1, if it was started with [`Options::loopback`].
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Its data. Whole once it has ended clean.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// A folder that goes with the server, for files of the caller.
    pub fn scratch(&self) -> PathBuf {
        self.folder.join("tmp")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How to connect as this user. Connecting sends no statement: one might have to queue.
    pub fn connection(&self, user: &str) -> OptsBuilder {
        OptsBuilder::new()
            .socket(Some(self.socket().to_string_lossy()))
            .user(Some(user))
            // Else the client asks the server for it, and for a socket better than the one it has.
            .max_allowed_packet(Some(16 << 20))
            .prefer_socket(false)
    }

    /// A connection of the administrator's, `root`, whom admission lets pass.
    pub fn connect(&self) -> Result<Conn> {
        Ok(Conn::new(self.connection("root"))?)
    }

    /// A connection of a user without a password, in this database.
    pub fn connect_as(&self, user: &str, database: &str) -> Result<Conn> {
        Ok(Conn::new(self.connection(user).db_name(Some(database)))?)
    }

    /// A global status variable.
    pub fn status(&self, name: &str) -> Result<String> {
        let mut kept = self.administrator.lock().unwrap_or_else(PoisonError::into_inner);
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let row: Option<(String, String)> =
            connection.query_first(format!("SHOW GLOBAL STATUS WHERE Variable_name = '{name}'"))?;
        *kept = Some(connection);
        row.map(|(_, value)| value).ok_or_else(|| Error::NoStatus(name.to_owned()))
    }

    /// A global status variable that is a number.
    pub fn status_number(&self, name: &str) -> Result<u64> {
        let value = self.status(name)?;
        value.parse().map_err(|_| Error::NotNumber { name: name.to_owned(), value })
    }

    /// All that the server has written to its error log.
    pub fn error_log(&self) -> String {
        fs::read(self.folder.join("log"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Whether its process is there.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks it to end, waits that long, then kills it. Its folder stays until it is dropped.
    pub fn shutdown(&mut self, bound: Duration) -> Ended {
        self.signal(Signal::TERM);
        if let Some(ended) = self.wait_for_end(bound) {
            return ended;
        }
        self.signal(Signal::KILL);
        let _ = self.child.wait();
        Ended::Killed
    }

    /// Waits for an end that somebody else asked for.
    pub fn wait_for_end(&mut self, bound: Duration) -> Option<Ended> {
        let deadline = Instant::now() + bound;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                use std::os::unix::process::ExitStatusExt;
                return Some(Ended::Itself(status.code().or(status.signal()).unwrap_or(-1)));
            }
            if Instant::now() >= deadline {
                return None;
            }
            thread::sleep(PAUSE);
        }
    }

    fn signal(&mut self, signal: Signal) {
        // Not once it was waited for: the number may be another's by then.
        if self.runs()
            && let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        self.shutdown(END);
    }
}

fn launch(folder: &Folder, options: &Options) -> Result<(Child, Option<u16>)> {
    let socket = folder.join("socket");
    if socket.as_os_str().len() > SOCKET_PATH {
        return Err(Error::LongPath(socket));
    }
    let mut command = Command::new(programs::server()?);
    command.arg("--no-defaults");
    for (name, value) in [
        ("datadir", "data"),
        ("socket", "socket"),
        ("pid-file", "pid"),
        ("tmpdir", "tmp"),
        ("plugin-dir", "plugin"),
    ] {
        command.arg(format!("--{name}={}", folder.join(value).display()));
    }
    let mut port = None;
    if options.loopback {
        let free = free_port()?;
        command.arg("--bind-address=127.0.0.1").arg(format!("--port={free}"));
        port = Some(free);
    } else {
        command.arg("--skip-networking");
    }
    command.arg("--skip-name-resolve");
    if geteuid().is_root() {
        command.arg("--user=root");
    }
    bring_plugin(&folder.join("plugin"), options.plugin)?;
    if options.plugin == Plugin::Loaded {
        command.arg("--plugin-load-add=flifo.so");
    }
    command.args(&options.arguments).envs(options.environment.iter().map(|(name, value)| (name, value)));
    let log = folder.join("log");
    let file = File::create(&log).map_err(Error::file(&log))?;
    let copy = file.try_clone().map_err(Error::file(&log))?;
    command.stdin(Stdio::null()).stdout(copy).stderr(file);
    let child = spawn::spawn(command).map_err(|error| Error::Start(error.to_string()))?;
    Ok((child, port))
}

/// A copy: what is built next does not change what this server has mapped.
fn bring_plugin(folder: &Path, plugin: Plugin) -> Result<()> {
    fs::create_dir(folder).map_err(Error::file(folder))?;
    if plugin != Plugin::Absent {
        let file = programs::plugin_file()?;
        fs::copy(&file, folder.join("flifo.so")).map_err(Error::file(file))?;
    }
    Ok(())
}

/// Another process may take it first; the server then does not start, and says why.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(Error::file("127.0.0.1"))?;
    Ok(listener.local_addr().map_err(Error::file("127.0.0.1"))?.port())
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
