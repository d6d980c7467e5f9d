//! `make mysql-try`: a private server with the plugin, and a shell on it. The server ends with the shell.

use std::process::{Command, ExitCode};
use std::thread;

use flifo_mysql::{Error, Installation, PrivateServer, Result};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("flifo-mysql-try: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    // A Ctrl-C is the shell's business. Asked to end, the shell ends first, and then all else as usual.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Error::file("signals"))?;
    let installation = Installation::find().ok_or_else(|| Error::NoServer(Installation::expected_root()))?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut all = vec!["--plugin-load-add=flifo.so"];
    all.extend(arguments.iter().map(String::as_str));
    let server = PrivateServer::start(&installation, &all)?;
    for statement in
        ["CREATE DATABASE test", "CREATE USER app@localhost", "GRANT ALL ON test.* TO app@localhost"]
    {
        server.administer(statement)?;
    }
    let (shell, socket) = (installation.client(), server.socket());
    println!(
        "Load it as an ordinary user, from elsewhere: {} --no-defaults -u app -S {} test",
        shell.display(),
        socket.display()
    );
    println!(
        "Watch it here, as root: SHOW STATUS LIKE 'flifo%'; SHOW PROCESSLIST; SET GLOBAL flifo_thread_concurrency = 4;"
    );
    let mut child = Command::new(&shell)
        .args(["--no-defaults", "--user=root"])
        .arg(format!("--socket={}", socket.display()))
        .arg("test")
        .spawn()
        .map_err(Error::file(&shell))?;
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        thread::spawn(move || {
            for _ in signals.forever().filter(|&signal| signal != SIGINT) {
                let _ = kill_process(pid, Signal::TERM);
            }
        });
    }
    let status = child.wait().map_err(Error::file(shell))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
