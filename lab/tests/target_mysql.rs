//! `flifo sweep --target` on a real MySQL server, which `tools/mysql-root` fetches.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use flifo_mysql::mysql::prelude::Queryable;
use flifo_mysql::{Installation, PrivateServer};
use serde_json::Value;

/// The server, unless it or the plugin cannot be had here.
fn server(arguments: &[&str]) -> Option<PrivateServer> {
    let is_required = std::env::var_os("FLIFO_REQUIRE_MYSQL").is_some();
    let Some(installation) = Installation::find() else {
        let root = Installation::expected_root();
        assert!(!is_required, "there is no MySQL server in {}", root.display());
        eprintln!("not tested: there is no MySQL server in {0}: run tools/mysql-root {0}", root.display());
        return None;
    };
    match PrivateServer::start(&installation, arguments) {
        Ok(server) => Some(server),
        Err(error @ flifo_mysql::Error::NoPlugin(_)) => {
            assert!(!is_required, "{error}");
            eprintln!("not tested: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn sweep(target: &str, arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flifo"));
    command.args(["sweep", "--rows", "200", "--threads", "2", "--rounds", "1", "--time", "0.1"]);
    let output = command.args(["--target", target]).args(arguments).stdin(Stdio::null()).output().unwrap();
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The first login of an account sends its password, by TLS, by the socket, or encrypted with the server's key; later ones only prove it.
#[test]
fn every_way_to_log_in() {
    let port = free_port();
    let Some(server) = server(&[&format!("--port={port}"), "--bind-address=127.0.0.1"]) else { return };
    let socket = server.socket();
    let by_socket = |user: &str, password: &str| {
        format!("unix:{}?user={user}&password={password}&db=sbtest", socket.display())
    };
    let by_tcp = |user: &str, password: &str| format!("mysql://{user}:{password}@127.0.0.1:{port}/sbtest");
    server.administer("CREATE DATABASE sbtest").unwrap();
    for plugin in ["caching_sha2_password", "sha256_password"] {
        for way in ["socket", "tls", "rsa"] {
            let user = format!("{way}_{plugin}");
            for host in ["localhost", "127.0.0.1"] {
                let account = format!("{user}@{host}");
                server
                    .administer(&format!("CREATE USER {account} IDENTIFIED WITH {plugin} BY 'se:cr@t'"))
                    .unwrap();
                server.administer(&format!("GRANT ALL ON sbtest.* TO {account}")).unwrap();
            }
            let (target, tls) = match way {
                "socket" => (by_socket(&user, "se%3acr%40t"), "off"),
                "tls" => (by_tcp(&user, "se%3acr%40t"), "require"),
                _ => (by_tcp(&user, "se%3acr%40t"), "off"),
            };
            for time in ["the first time", "again"] {
                let done = sweep(&target, &["--policy", "none", "--tls", tls]);
                assert_eq!(done, Ok(()), "{user}, {time}");
            }
            let wrong = target.replace("se%3acr%40t", "other");
            let error = sweep(&wrong, &["--policy", "none", "--tls", tls]).unwrap_err();
            assert!(error.contains(&format!("user '{user}'")) && error.contains("1045"), "{error}");
        }
    }
    server.administer("CREATE USER open@localhost").unwrap();
    server.administer("GRANT ALL ON sbtest.* TO open@localhost").unwrap();
    assert_eq!(sweep(&by_socket("open", ""), &["--policy", "none"]), Ok(()), "without a password");
    server.administer("CREATE USER secure@'127.0.0.1' IDENTIFIED BY 'x' REQUIRE SSL").unwrap();
    server.administer("GRANT ALL ON sbtest.* TO secure@'127.0.0.1'").unwrap();
    let error = sweep(&by_tcp("secure", "x"), &["--policy", "none", "--tls", "off"]).unwrap_err();
    assert!(error.contains("use --tls require"), "{error}");
    assert_eq!(sweep(&by_tcp("secure", "x"), &["--policy", "none"]), Ok(()), "TLS by default");
}

const LIMITS: &str =
    "SELECT CONCAT_WS(' ', @@innodb_thread_concurrency, @@flifo_policy, @@flifo_thread_concurrency)";

fn limits(server: &PrivateServer) -> String {
    server.connect("root").unwrap().query_first(LIMITS).unwrap().unwrap()
}

#[test]
fn innodb_s_limit_beside_the_plugin_s() {
    let Some(server) = server(&["--innodb-thread-concurrency=5"]) else { return };
    for statement in
        ["CREATE DATABASE sbtest", "CREATE USER app@localhost", "GRANT ALL ON sbtest.* TO app@localhost"]
    {
        server.administer(statement).unwrap();
    }
    let (app, root) = ["app", "root"]
        .map(|user| format!("unix:{}?user={user}&password=", server.socket().display()))
        .into();
    let error = sweep(&app, &["--policy", "innodb,quantum"]).unwrap_err();
    assert!(error.contains("INSTALL PLUGIN flifo SONAME 'flifo.so'"), "{error}");
    server.install_plugin().unwrap();
    server.administer("SET GLOBAL flifo_policy = 'fifo', GLOBAL flifo_thread_concurrency = '7'").unwrap();
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("out.json");
    let done = sweep(
        &app,
        &[
            "--admin-target",
            &root,
            "--policy",
            "none,innodb,quantum",
            "--concurrency",
            "3,auto",
            "--workload",
            "hot-rows-2,read-write",
            "--json",
            &json.display().to_string(),
        ],
    );
    assert_eq!(done, Ok(()));
    assert_eq!(limits(&server), "5 fifo 7", "put back");
    let cells = cells(&json);
    let settings: Vec<(&str, u64)> = cells
        .iter()
        .filter(|cell| cell["workload"] == "hot-rows-2")
        .map(|cell| (cell["policy"].as_str().unwrap(), cell["concurrency"].as_u64().unwrap()))
        .collect();
    assert_eq!(settings, [("none", 0), ("innodb", 3), ("quantum", 3), ("auto", 0)]);
    for cell in &cells {
        let switches = &cell["context_switches_median_per_s"];
        assert!(
            switches.as_f64().is_some_and(|per_s| per_s > 0.0),
            "the server's process is not known: {cell}"
        );
    }
    // An account without the privilege gets an error, and nothing changes.
    let error = sweep(&app, &["--policy", "innodb"]).unwrap_err();
    assert!(error.contains("user 'app' may not change the server's settings"), "{error}");
    assert_eq!(limits(&server), "5 fifo 7");
}

/// The study of 2011 was of a server's own limit.
#[test]
fn the_kernel_mutex_study_measures_a_live_server_too() {
    let Some(server) = server(&["--innodb-thread-concurrency=5"]) else { return };
    for statement in [
        "CREATE DATABASE sbtest",
        "CREATE USER app@localhost IDENTIFIED BY 'se:cr@t'",
        "GRANT ALL ON sbtest.* TO app@localhost",
    ] {
        server.administer(statement).unwrap();
    }
    let address = |account: &str| format!("unix:{}?{account}", server.socket().display());
    let temp = tempfile::tempdir().unwrap();
    let (data, json) = (temp.path().join("data"), temp.path().join("out.json"));
    let output = Command::new(env!("CARGO_BIN_EXE_flifo"))
        .args([
            "experiment",
            "kernel-mutex-2011",
            "--quick",
            "--threads",
            "4,8",
            "--time",
            "0.1",
            "--rounds",
            "2",
        ])
        .args(["--rows", "1000", "--data"])
        .arg(&data)
        .arg("--json")
        .arg(&json)
        .args([
            "--target",
            &address("user=app&password=se%3acr%40t"),
            "--admin-target",
            &address("user=root"),
        ])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        text.contains("live server: limit") && text.contains("Statements per second, live server"),
        "{text}"
    );
    let results: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let run = &results["parts"][2]["run"];
    assert_eq!(run["cells"].as_array().unwrap().len(), 2 * 6, "no limit, and the five of the study");
    let line = run["command_line"].as_str().unwrap();
    assert!(
        line.contains("--policy none,innodb") && line.contains("user=app") && !line.contains("cr"),
        "{line}"
    );
    assert_eq!(limit_of_innodb(&server), 5, "put back");
}

fn limit_of_innodb(server: &PrivateServer) -> u64 {
    server.connect("root").unwrap().query_first("SELECT @@innodb_thread_concurrency").unwrap().unwrap()
}

fn cells(json: &Path) -> Vec<Value> {
    let json: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    json["cells"].as_array().unwrap().clone()
}
