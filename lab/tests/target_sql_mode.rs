//! The real binary measures a real server in every `sql_mode`.

mod common;
#[path = "common/server.rs"]
mod server;

use std::process::Command;

use common::{fails, flifo, results, succeeds};
use server::Server;

/// A short sweep of all statements.
fn sweep(target: &str, more: &[&str]) -> Command {
    let mut command = flifo();
    command.args(["sweep", "--policy", "none", "--rows", "2000", "--time", "0.2", "--warmup", "0.1"]);
    command.args(["--rounds", "1", "--workload", "read-write,update-index", "--target", target]).args(more);
    command
}

#[test]
fn any_sql_mode() {
    if !server::is_installed() {
        return;
    }
    let server = Server::start(&[]);
    let modes = [
        "ORACLE",
        "ANSI",
        "MSSQL",
        "TRADITIONAL,PAD_CHAR_TO_FULL_LENGTH",
        "NO_BACKSLASH_ESCAPES",
        "EMPTY_STRING_IS_NULL",
    ];
    for mode in modes {
        server.sql(&format!("DROP TABLE IF EXISTS sbtest.sbtest1; SET GLOBAL sql_mode='{mode}'"));
        let temp = tempfile::tempdir().unwrap();
        for protocol in ["prepared", "text"] {
            let json = temp.path().join(protocol);
            let more = ["--protocol", protocol, "--threads", "2", "--range-size", "50"];
            let mut command = sweep(&server.app(), &more);
            command.arg("--json").arg(&json);
            assert_eq!(succeeds(&mut command), "", "{mode}");
            let json = results(&json);
            let variables = json["settings"]["server_variables"].as_array().unwrap();
            let shown = variables.iter().find(|variable| variable["name"] == "sql_mode").unwrap();
            let first = mode.split(',').next().unwrap();
            assert!(shown["value"].as_str().unwrap().contains(first), "{shown}");
        }
        assert_eq!(server.sql("SELECT COUNT(*) FROM sbtest.sbtest1"), "2000");
    }
    // A statement that cannot be prepared is named, and the mode with it.
    server.sql("SET GLOBAL sql_mode='ORACLE'; CREATE USER reader; GRANT SELECT ON sbtest.* TO reader");
    let mut command = sweep(&server.by_socket("reader"), &["--threads", "1"]);
    fails(&mut command, 5, &["cannot prepare 'UPDATE sbtest1 SET k=k+1 WHERE id=?'", "ORACLE", "1142"]);
}
