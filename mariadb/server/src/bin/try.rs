//! `make mariadb-try`: a private server with the plugin, and a shell on it. The server ends with the shell.

use std::process::{Command, ExitCode};
use std::thread;

use flifo_mariadb::mysql::prelude::Queryable;
use flifo_mariadb::{Error, Options, Plugin, PrivateServer, Result, client};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("flifo-mariadb-try: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    // A Ctrl-C is the shell's business. Asked to end, the shell ends first, and then all else as usual.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Error::Signals)?;
    let shell = client()?;
    let arguments = std::env::args().skip(1);
    let options = arguments.fold(Options::new().plugin(Plugin::Loaded), Options::argument);
    let server = PrivateServer::start(options)?;
    prepare(&server)?;

    let socket = server.socket();
    println!("Load it as an ordinary user, from elsewhere: mariadb -u app -S {} test", socket.display());
    println!(
        "Watch it here, as root: SHOW STATUS LIKE 'flifo%'; SHOW PROCESSLIST; SET GLOBAL flifo_thread_concurrency = 4;"
    );
    let mut child = Command::new(&shell)
        .arg("--no-defaults")
        .arg("--user=root")
        .arg(format!("--socket={}", socket.display()))
        .arg("test")
        .spawn()
        .map_err(|source| Error::File { path: shell, source })?;
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        thread::spawn(move || {
            for _ in signals.forever().filter(|&signal| signal != SIGINT) {
                let _ = kill_process(pid, Signal::TERM);
            }
        });
    }
    let status = child.wait().map_err(|source| Error::File { path: "mariadb".into(), source })?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn prepare(server: &PrivateServer) -> Result<()> {
    let mut root = server.connect()?;
    root.query_drop("CREATE DATABASE test")?;
    root.query_drop("CREATE USER app@localhost")?;
    root.query_drop("GRANT ALL ON test.* TO app@localhost")?;
    Ok(())
}
