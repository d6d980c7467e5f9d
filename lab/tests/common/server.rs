//! A private MariaDB for a test: its own directory, a socket and no port unless asked for, ended with the test.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use tempfile::TempDir;

/// An installed program, wherever the distribution puts it.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    places.map(|place| place.join(name)).find(|path| path.is_file())
}

/// Whether there is a server to start. Continuous integration sets `FLIFO_REQUIRE_MARIADB`.
pub(crate) fn is_installed() -> bool {
    let found = ["mariadbd", "mariadb-install-db", "mariadb"].iter().all(|name| program(name).is_some());
    assert!(
        found || std::env::var_os("FLIFO_REQUIRE_MARIADB").is_none(),
        "mariadb-server and mariadb-client are not installed"
    );
    if !found {
        eprintln!("not tested: mariadb-server and mariadb-client are not installed");
    }
    found
}

/// A running server, whose root has no password, with the user `app` (password `se:cr@t`) and its database
/// `sbtest`.
pub(crate) struct Server {
    child: Child,
    dir: TempDir,
}

impl Server {
    /// Starts one with further options.
    pub(crate) fn start(options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        // A server that starts removes the temporary tables that it finds there: also those of another one.
        let own_tmpdir = dir.path().join("tmp");
        fs::create_dir(&own_tmpdir).unwrap();
        let is_root = rustix::process::getuid().is_root();
        let as_user = if is_root { &["--user=root"][..] } else { &[] };
        let mut install = Command::new(program("mariadb-install-db").unwrap());
        install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
        install.env("TMPDIR", &own_tmpdir);
        install.args(as_user).arg(format!("--datadir={}", data.display()));
        let installed = install.stdin(Stdio::null()).output().unwrap();
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));

        let log = File::create(dir.path().join("log")).unwrap();
        let mut server = Command::new(program("mariadbd").unwrap());
        server.arg("--no-defaults").args(as_user).arg(format!("--datadir={}", data.display()));
        server.arg(format!("--socket={}", dir.path().join("s").display()));
        server.arg(format!("--tmpdir={}", own_tmpdir.display()));
        server.arg(format!("--pid-file={}", dir.path().join("pid").display()));
        server.args([
            "--innodb-buffer-pool-size=64M",
            "--innodb-log-file-size=32M",
            "--performance-schema=OFF",
        ]);
        server.args(["--innodb-flush-log-at-trx-commit=2", "--innodb-lock-wait-timeout=5"]);
        if !options.iter().any(|option| option.starts_with("--port")) {
            server.arg("--skip-networking");
        }
        server.args(options).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        // SAFETY: the closure makes one system call and touches no memory that the fork shares.
        unsafe {
            // A test that is killed leaves no server behind.
            server.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
        }
        let mut server = Server { child: server.spawn().unwrap(), dir };
        server.wait();
        server.sql("CREATE DATABASE sbtest; CREATE USER app@'%' IDENTIFIED BY 'se:cr@t', app@localhost IDENTIFIED BY 'se:cr@t'; GRANT ALL ON sbtest.* TO app@'%', app@localhost");
        server
    }

    fn wait(&mut self) {
        let patience = Instant::now() + Duration::from_secs(120);
        let mut ping = self.client("SELECT 1");
        while !ping.output().unwrap().status.success() {
            let log = || fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            assert!(self.child.try_wait().unwrap().is_none(), "the server has ended:\n{}", log());
            assert!(Instant::now() < patience, "the server does not answer:\n{}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn client(&self, sql: &str) -> Command {
        let mut client = Command::new(program("mariadb").unwrap());
        client.args(["--no-defaults", "--user=root", "--batch", "--skip-column-names", "--execute", sql]);
        // What the server counts of TLS is a sweep's.
        client.arg("--skip-ssl");
        client.arg(format!("--socket={}", self.socket().display())).stdin(Stdio::null());
        client
    }

    /// Runs statements as root; what they print.
    pub(crate) fn sql(&self, sql: &str) -> String {
        let output = self.client(sql).output().unwrap();
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    /// The server's address for the user `app`.
    pub(crate) fn app(&self) -> String {
        format!("unix:{}?user=app&password=se%3acr%40t", self.socket().display())
    }

    /// The server's address for a user without a password.
    pub(crate) fn by_socket(&self, user: &str) -> String {
        format!("unix:{}?user={user}", self.socket().display())
    }

    /// The server's address for root.
    pub(crate) fn root(&self) -> String {
        format!("unix:{}?user=root", self.socket().display())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The plugin, if it was built: `make mariadb`. Its directory, and a name that INSTALL SONAME takes.
pub(crate) fn plugin() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_BIN_EXE_flifo")).parent()?.parent()?.join("mariadb/flifo.so");
    if !built.is_file() {
        eprintln!("not tested: the plugin is not built (make mariadb)");
        return None;
    }
    assert_eq!(built.file_name(), Some(OsStr::new("flifo.so")));
    built.parent().map(Path::to_owned)
}
