//! One run of sysbench: started, read, and ended within bounds, also on errors.

mod output;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use flifo::support::interrupt;
use flifo_mariadb::spawn;
use rustix::process::{Pid, Signal, kill_process};

pub(crate) use output::Report;

use crate::{Error, Result};

/// For a thousand connections on a busy machine.
const START: Duration = Duration::from_secs(60);
/// After the time that it was given: statements that still wait for their locks end first.
const END: Duration = Duration::from_secs(90);
/// A million rows take 10 s or 20.
const PREPARE: Duration = Duration::from_secs(3600);

/// The account that the load uses: an ordinary one, for admission lets administrators pass.
pub(crate) const USER: &str = "app";

/// Which script, on which table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) socket: &'a Path,
    pub(crate) database: &'a str,
    pub(crate) script: &'a str,
    pub(crate) table_size: u32,
}

/// How it is loaded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drive<'a> {
    pub(crate) connections: u32,
    pub(crate) time_s: u32,
    /// From then on it reports anew; 0 for a single report.
    pub(crate) skip_s: u32,
    pub(crate) distribution: &'a str,
    pub(crate) options: &'a [&'a str],
    /// Statements as text.
    pub(crate) text: bool,
    /// Mean time between two transactions, in microseconds.
    pub(crate) think_us: u32,
    /// Where it finds the certificates of `--mysql-ssl`, which it names without a folder.
    pub(crate) certificates: Option<&'a Path>,
}

/// A running sysbench, or another client that runs beside it. Dropping it kills it.
pub(crate) struct Load {
    child: Child,
    lines: Receiver<String>,
    output: String,
}

/// What `sysbench --version` says.
pub(crate) fn version() -> Result<String> {
    let output = Command::new("sysbench").arg("--version").output().map_err(|_| Error::NoSysbench)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Makes a table and fills it.
pub(crate) fn prepare(target: Target<'_>) -> Result<()> {
    let mut command = command(target);
    command.arg("prepare");
    let mut load = Load::spawn(command)?;
    load.hear("prepare its table", PREPARE, |_| false)?;
    load.check()
}

impl Load {
    /// Starts it and waits until all its connections are there and begin.
    pub(crate) fn start(target: Target<'_>, drive: Drive<'_>) -> Result<Load> {
        let thinking = thinking_script(target.socket);
        let mut command = if drive.think_us == 0 {
            command(target)
        } else {
            fs::write(&thinking, THINKING).map_err(Error::file(&thinking))?;
            let script =
                thinking.to_str().ok_or_else(|| Error::Usage("the data's path must be UTF-8".into()))?;
            let mut command = command(Target { script, ..target });
            command.env("FLIFO_SCRIPT", target.script).env("FLIFO_THINK_US", drive.think_us.to_string());
            command
        };
        command
            .arg(format!("--threads={}", drive.connections))
            .arg(format!("--time={}", drive.time_s))
            .arg(format!("--rand-type={}", drive.distribution))
            .arg(format!("--db-ps-mode={}", if drive.text { "disable" } else { "auto" }))
            .args(drive.options);
        if let Some(folder) = drive.certificates {
            command.arg("--mysql-ssl=on").current_dir(folder);
        }
        if drive.skip_s > 0 {
            command.arg(format!("--report-checkpoints={}", drive.skip_s));
        }
        command.arg("run");
        let mut load = Load::spawn(command)?;
        if load.hear("connect", START, |line| line == "Threads started!")? {
            return Ok(load);
        }
        load.check()?;
        Err(Error::Sysbench("it ended before it began".into()))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An error if it has ended, though nobody asked it to.
    pub(crate) fn still_runs(&mut self) -> Result<()> {
        self.output.extend(self.lines.try_iter().flat_map(|line| [line, "\n".to_owned()]));
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            _ => Err(Error::Sysbench(
                output::complaint(&self.output).unwrap_or("it has ended before it should").to_owned(),
            )),
        }
    }

    /// Stops the process, or continues it.
    pub(crate) fn signal(&self, signal: Signal) {
        // It was not waited for: the number is its own, or nobody's.
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits for its end and report.
    pub(crate) fn finish(mut self) -> Result<Report> {
        self.hear("end", END, |_| false)?;
        self.check()?;
        Report::parse(&self.output).ok_or_else(|| Error::Sysbench("it ended without its report".into()))
    }

    fn spawn(mut command: Command) -> Result<Load> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Load::of(spawn(command).map_err(|_| Error::NoSysbench)?))
    }

    /// Starts the `mariadb` client on a server's socket, as [`USER`]. It executes `statements` again and again and drops
    /// their rows; it ends at the first error.
    pub(crate) fn statements(socket: &Path, statements: &str) -> Result<Load> {
        let mut command = Command::new(flifo_mariadb::client()?);
        command
            .args(["--no-defaults", "--batch", "--quick", "--local-infile=1"])
            .arg(format!("--socket={}", socket.display()))
            .arg(format!("--user={USER}"));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = spawn(command).map_err(Error::file("mariadb"))?;
        if let Some(mut pipe) = child.stdin.take() {
            let line = format!("{statements}\n");
            // Ends with the client, which closes the pipe.
            thread::spawn(move || while pipe.write_all(line.as_bytes()).is_ok() {});
        }
        Ok(Load::of(child))
    }

    fn of(mut child: Child) -> Load {
        let (sender, lines) = mpsc::channel();
        read_lines(child.stdout.take(), sender.clone());
        read_lines(child.stderr.take(), sender);
        Load { child, lines, output: String::new() }
    }

    /// Collects what it prints, up to a line that is target. False if it ended first.
    fn hear(&mut self, what: &'static str, bound: Duration, target: fn(&str) -> bool) -> Result<bool> {
        const SLICE: Duration = Duration::from_millis(50);
        let deadline = Instant::now() + bound;
        loop {
            match self.lines.recv_timeout(SLICE) {
                Ok(line) => {
                    let found = target(&line);
                    self.output += &line;
                    self.output.push('\n');
                    if found {
                        return Ok(true);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
                Err(RecvTimeoutError::Timeout) if Instant::now() > deadline => {
                    return Err(Error::Slow { what, seconds: bound.as_secs() });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if interrupt::is_requested() {
                return Err(Error::Interrupted);
            }
        }
    }

    /// After it closed its output.
    fn check(&mut self) -> Result<()> {
        let status = self.child.wait().map_err(Error::file("sysbench"))?;
        if status.success() {
            return Ok(());
        }
        Err(Error::Sysbench(
            output::complaint(&self.output).unwrap_or("it failed and said nothing").to_owned(),
        ))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // Ended already, mostly.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A script whose clients think after each transaction of another script.
const THINKING: &str = include_str!("thinking.lua");

/// Where that script is put: beside the server's socket.
fn thinking_script(socket: &Path) -> PathBuf {
    socket.with_file_name("thinking.lua")
}

fn command(target: Target<'_>) -> Command {
    let mut command = Command::new("sysbench");
    command
        .arg(target.script)
        .arg("--db-driver=mysql")
        .arg(format!("--mysql-socket={}", target.socket.display()))
        .arg(format!("--mysql-user={USER}"))
        .arg(format!("--mysql-db={}", target.database))
        .arg(format!("--table-size={}", target.table_size));
    command
}

fn read_lines(pipe: Option<impl Read + Send + 'static>, sender: Sender<String>) {
    let Some(pipe) = pipe else { return };
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(std::result::Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
}
