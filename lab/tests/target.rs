//! The real binary measures a real server: all workloads, the server's own count, bad input, lost connections, Ctrl-C,
//! and interleaved policies with the plugin.

mod common;
#[path = "common/server.rs"]
mod server;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{fails, flifo, one_line, results, succeeds};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use server::Server;

const ALL: [&str; 6] =
    ["point-select", "read-only", "update-index", "update-non-index", "hot-rows-3", "read-write"];

/// A short sweep of the server without a limit.
fn sweep(server: &Server, more: &[&str]) -> Command {
    let mut command = flifo();
    command.args(["sweep", "--rows", "2000", "--rounds", "1", "--time", "0.3", "--warmup", "0.1"]);
    command.args(["--policy", "none", "--target", &server.app(), "--admin-target", &server.root()]);
    command.args(more);
    command
}

fn cells(json: &Value) -> &Vec<Value> {
    json["cells"].as_array().unwrap()
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no number {key} in {value}"))
}

/// The table is as it was: a read-write transaction that was cut off took its row with it.
fn check_table(server: &Server, rows: u32) {
    let found =
        server.sql("SELECT COUNT(*), MIN(id), MAX(id) FROM sbtest.sbtest1; CHECK TABLE sbtest.sbtest1");
    assert!(found.starts_with(&format!("{rows}\t1\t{rows}\n")) && found.ends_with("OK"), "{found}");
}

#[test]
fn all_workloads_over_both_protocols() {
    if !server::is_installed() {
        return;
    }
    let server = Server::start(&[]);
    let temp = tempfile::tempdir().unwrap();
    for protocol in ["prepared", "text"] {
        let file = |end: &str| temp.path().join(format!("{protocol}.{end}"));
        let mut command = sweep(&server, &["--protocol", protocol, "--threads", "1,7", "--workload"]);
        command.arg(ALL.join(",")).args(["--range-size", "50"]);
        command.arg("--json").arg(file("json")).arg("--html").arg(file("html")).arg("--svg").arg(file("svg"));
        assert_eq!(succeeds(&mut command), "");
        let saved = std::fs::read_to_string(file("json")).unwrap();
        assert!(!saved.contains("se:cr@t") && !saved.contains("se%3acr"), "a password was written");
        check_cells(&results(&file("json")), protocol);
        assert!(std::fs::read_to_string(file("html")).unwrap().contains("server µs/st"));
        check_table(&server, 2000);
    }
    // What it found it used: the rows are those of the seed, with updates on top.
    assert_eq!(
        server.sql("SELECT TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_NAME='sbtest1'"),
        "made by flifo"
    );
    let shape = server.sql("SHOW CREATE TABLE sbtest.sbtest1");
    assert!(
        shape.contains("`k` int") && shape.contains("KEY `k_1` (`k`)") && shape.contains("char(120)"),
        "{shape}"
    );
    // Goodbyes are said: no connection was counted as aborted.
    let aborted = server.sql("SHOW GLOBAL STATUS LIKE 'Aborted_clients'");
    assert_eq!(aborted, "Aborted_clients\t0");
    // Nothing is held once it is over.
    wait_until("all transactions are over", || {
        server.sql("SELECT COUNT(*) FROM information_schema.INNODB_TRX") == "0"
    });
}

fn check_cells(json: &Value, protocol: &str) {
    let mut seen = Vec::new();
    for cell in cells(json) {
        assert_eq!((cell["target"].as_str(), cell["front"].as_str()), (Some("server"), Some(protocol)));
        assert_eq!(cell["failures"], serde_json::json!([]));
        let round = &cell["rounds"][0];
        let (statements, transactions) = (number(round, "statements"), number(round, "transactions"));
        let each = match cell["workload"].as_str().unwrap() {
            "read-only" => 14.0,
            "read-write" => 20.0,
            _ => 1.0,
        };
        let threads = number(cell, "threads");
        assert!((statements / each - transactions).abs() <= threads, "{round}");
        // A machine busy with other things may leave a short window without a reply.
        if transactions > 0.0 {
            check_server_s_count(cell["workload"].as_str().unwrap(), round);
            assert!(number(round, "p50_ms") <= number(round, "max_ms"));
        }
        seen.push(format!("{} {threads}", cell["workload"].as_str().unwrap()));
    }
    let expected: Vec<String> =
        [1, 7].iter().flat_map(|threads| ALL.map(|workload| format!("{workload} {threads}"))).collect();
    assert_eq!(seen, expected);
    let settings = &json["settings"];
    assert!(settings["server_version"].as_str().unwrap().contains("MariaDB"), "{settings}");
    let variables: Vec<&str> =
        settings["server_variables"].as_array().unwrap().iter().filter_map(|v| v["name"].as_str()).collect();
    for name in ["innodb_flush_log_at_trx_commit", "innodb_buffer_pool_size", "thread_handling"] {
        assert!(variables.contains(&name), "{variables:?}");
    }
}

/// The server has counted what was asked, and only that.
fn check_server_s_count(workload: &str, round: &Value) {
    let per_s = |kind: &str| number(round, &format!("server_{kind}_per_s"));
    // The server is this machine's: its process was found.
    for key in [
        "server_cpu_us_per_statement",
        "server_context_switches_per_statement",
        "client_cpu_us_per_statement",
    ] {
        assert!(round[key].as_f64().is_none_or(|figure| figure >= 0.0), "{round}");
    }
    let elapsed_s = number(round, "server_elapsed_s");
    // On a machine busy with other things the two readings may have little between them: then shares say nothing.
    if per_s("statements") * elapsed_s < 500.0 {
        return;
    }
    assert!(number(round, "server_cpu_us_per_statement") >= 0.0, "{round}");
    // The shares are exact except for the transactions in progress at the two readings. The counters are read with a
    // SHOW, which is no select.
    let (reads, updates) = match workload {
        "point-select" | "read-only" => (1.0, 0.0),
        "read-write" => (0.7, 0.1),
        _ => (0.0, 1.0),
    };
    for (kind, share) in [("selects", reads), ("updates", updates)] {
        assert!((per_s(kind) / per_s("statements") - share).abs() < 0.3, "{workload}, {kind}: {round}");
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < patience, "timed out: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn bad_input_is_one_line() {
    if !server::is_installed() {
        return;
    }
    let server = Server::start(&["--max-connections=20", "--max-prepared-stmt-count=30"]);
    let socket = server.socket();
    let socket = socket.display();
    let refused = |target: &str, more: &[&str], code: i32, words: &[&str]| {
        let mut command = flifo();
        command.args(["sweep", "--policy", "none", "--rows", "100", "--time", "0.1", "--rounds", "1"]);
        let threads: &[&str] = if more.contains(&"--threads") { &[] } else { &["--threads", "1"] };
        fails(command.args(threads).args(["--target", target]).args(more), code, words);
    };
    let app = server.app();

    refused("localhost", &[], 2, &["mysql://user[:password]@host[:port]/database"]);
    refused("unix:/nowhere/at/all", &[], 5, &["/nowhere/at/all", "@@socket"]);
    refused("mysql://app@127.0.0.1:1/sbtest", &[], 5, &["127.0.0.1 port 1", "skip_networking"]);
    refused("mysql://app@192.0.2.1/sbtest", &[], 2, &["not on this machine", "--allow-remote"]);
    refused(&app, &["--admin-target", "mysql://app@192.0.2.1/sbtest"], 2, &["--allow-remote"]);
    refused(&format!("unix:{socket}?user=app&password=wrong"), &[], 5, &["user 'app'", "1045", "MYSQL_PWD"]);
    refused(&format!("unix:{socket}?user=nobody&password=x"), &[], 5, &["user 'nobody'"]);
    refused(
        &format!("unix:{socket}?user=root&db=nothing"),
        &[],
        5,
        &["no database 'nothing'", "CREATE DATABASE"],
    );
    refused(&format!("{app}&db=mysql"), &[], 5, &["may not use the database 'mysql'", "GRANT"]);
    refused(&app, &["--threads", "30"], 4, &["takes 20 connections", "SET GLOBAL max_connections = 31"]);
    refused(
        &app,
        &["--threads", "16", "--workload", "read-write"],
        4,
        &["max_prepared_stmt_count = 176", "--protocol text"],
    );
    let mut without_plugin = flifo();
    without_plugin.args(["sweep", "--policy", "none,flifo", "--target", &app]);
    fails(&mut without_plugin, 5, &["policy flifo", "INSTALL SONAME 'flifo'", "--policy none"]);
    fails(flifo().args(["sweep", "--policy", "innodb", "--target", &app]), 5, &["leave it out"]);
    fails(flifo().args(["sweep", "--policy", "innodb"]), 2, &["policy innodb", "--target"]);
    let adaptive = ["sweep", "--policy", "innodb", "--concurrency", "auto", "--target", &app];
    fails(flifo().args(adaptive), 2, &["InnoDB's limit is a number"]);
    refused(&app, &["--front", "direct"], 2, &["--front", "--target"]);
    refused(&app, &["--data", "x"], 2, &["--data"]);
    fails(flifo().args(["sweep", "--protocol", "text"]), 2, &["--target"]);
    let of_the_engine = ["sweep", "--target", "unix:/nowhere.sock", "--workload", "point-select,ycsb-a"];
    fails(flifo().args(of_the_engine), 2, &["ycsb-a is for the embedded engine"]);
    let redo = ["sweep", "--target", "unix:/nowhere.sock", "--redo-capacity", "1G"];
    fails(flifo().args(redo), 2, &["cannot be used with"]);

    // Somebody else's tables are left alone.
    assert_eq!(server.sql("SHOW TABLES IN sbtest"), "", "a wrong line touches nothing");
    let made = |sql: &str| server.sql(&format!("USE sbtest; DROP TABLE IF EXISTS sbtest1; {sql}"));
    const COLUMNS: &str = "id INT PRIMARY KEY, k INT NOT NULL, c CHAR(120), pad CHAR(60)";
    made("CREATE TABLE sbtest1 (id INT PRIMARY KEY, thesis TEXT)");
    refused(&app, &[], 5, &["sbtest1", "columns", "another database"]);
    made(&format!("CREATE TABLE sbtest1 ({COLUMNS}, KEY (k)) ENGINE=MyISAM"));
    refused(&app, &[], 5, &["MyISAM"]);
    made(&format!("CREATE TABLE sbtest1 ({COLUMNS})"));
    refused(&app, &[], 5, &["k has no index", "CREATE INDEX"]);
    made(&format!(
        "CREATE TABLE sbtest1 ({COLUMNS}, KEY (k)); INSERT INTO sbtest1 VALUES (1,1,'',''), (3,1,'','')"
    ));
    refused(&app, &[], 5, &["gaps"]);
    made(&format!(
        "CREATE TABLE sbtest1 ({COLUMNS}, KEY (k)); INSERT INTO sbtest1 VALUES (1,1,'',''), (2,1,'','')"
    ));
    refused(&app, &[], 5, &["it has 2 rows, not 100", "--rows 2"]);
    assert_eq!(server.sql("SELECT COUNT(*) FROM sbtest.sbtest1"), "2");
    made("CREATE VIEW sbtest1 AS SELECT 1 AS id");
    refused(&app, &[], 5, &["VIEW"]);
    server.sql("USE sbtest; DROP VIEW sbtest1; CREATE USER reader@localhost; GRANT SELECT ON sbtest.* TO reader@localhost");
    refused(
        &format!("unix:{socket}?user=reader"),
        &[],
        5,
        &["cannot prepare sbtest1", "CREATE command denied"],
    );

    // A few descriptors of this process.
    let mut few = Command::new("sh");
    few.arg("-c").arg("ulimit -n 150 && exec \"$0\" \"$@\"").arg(env!("CARGO_BIN_EXE_flifo"));
    few.args(["sweep", "--policy", "none", "--threads", "1000", "--target", &app]).stdin(Stdio::null());
    fails(&mut few, 4, &["ulimit -n", "--threads"]);
}

#[test]
fn sysbench_s_table_is_used_as_it_is_and_a_cut_off_load_goes_on() {
    if !server::is_installed() {
        return;
    }
    let server = Server::start(&["--port=0"]);
    // As sysbench makes it.
    server.sql(
        "USE sbtest; CREATE TABLE sbtest1 (id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id)); INSERT INTO sbtest1 (k, c, pad) SELECT seq, 'c', 'pad' FROM seq_1_to_500; CREATE INDEX k_1 ON sbtest1(k)",
    );
    let used = |more: &[&str]| {
        let mut command = flifo();
        command.args(["sweep", "--policy", "none", "--threads", "2", "--time", "0.1", "--rounds", "1"]);
        // One account for everything: without the plugin no privilege is asked for.
        succeeds(command.args(["--target", &server.app()]).args(more))
    };
    assert_eq!(used(&["--workload", "read-only"]), "");
    assert_eq!(
        server.sql(
            "SELECT TABLE_COMMENT, TABLE_ROWS > 0 FROM information_schema.TABLES WHERE TABLE_NAME='sbtest1'"
        ),
        "\t1"
    );

    // An interrupted load, an empty table, and a load interrupted by Ctrl-C.
    server.sql("USE sbtest; DROP TABLE sbtest1; CREATE TABLE sbtest1 (id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id)) COMMENT='flifo: loading'; INSERT INTO sbtest1 (k) VALUES (1), (1), (1)");
    let said = used(&["--rows", "1500"]);
    assert!(said.contains("cut off at 3 rows: going on there") && said.lines().count() == 1, "{said}");
    check_table(&server, 1500);
    server.sql("DROP TABLE sbtest.sbtest1");
    let mut long = flifo();
    long.args([
        "sweep",
        "--policy",
        "none",
        "--threads",
        "1",
        "--rows",
        "5000000",
        "--target",
        &server.app(),
    ]);
    let child = long.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the load has begun", || !server.sql("SHOW TABLES IN sbtest").is_empty());
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    // The server ends a statement whose client is gone, and only then sees that it is.
    let connections = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = 'sbtest'";
    wait_until("the load's connection is gone", || server.sql(connections) == "0");
    let loaded: u32 = server.sql("SELECT COUNT(*) FROM sbtest.sbtest1").parse().unwrap();
    let said = used(&["--rows", &(loaded + 10).to_string()]);
    assert!(said.contains("going on there"), "{said}");
    check_table(&server, loaded + 10);
}

#[test]
fn a_server_by_its_port() {
    if !server::is_installed() {
        return;
    }
    // The kernel finds a free port; between this and the server's start hardly anybody takes it.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Server::start(&[&format!("--port={port}"), "--bind-address=127.0.0.1"]);
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("out.json");
    let mut command = flifo();
    command.args([
        "sweep",
        "--rows",
        "500",
        "--rounds",
        "1",
        "--time",
        "0.2",
        "--threads",
        "3",
        "--policy",
        "none",
    ]);
    command.args(["--target", &format!("mysql://app@127.0.0.1:{port}/sbtest"), "--workload", "read-write"]);
    succeeds(command.env("MYSQL_PWD", "se:cr@t").arg("--json").arg(&json));
    let json = results(&json);
    let round = &cells(&json)[0]["rounds"][0];
    assert!(
        number(round, "server_cpu_us_per_statement") >= 0.0,
        "the process was found by its pid file: {round}"
    );
    drop(server);
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// A long sweep, once it measures; its lines go on.
fn running(server: &Server, json: &Path, more: &[&str]) -> Child {
    let mut command = flifo();
    command.args(["sweep", "--rows", "2000", "--warmup", "0.1", "--rounds", "1", "--target", &server.app()]);
    command.args(["--admin-target", &server.root()]).args(more).arg("--json").arg(json);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut heading = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut heading).unwrap();
    assert!(heading.contains("workload"), "{heading}");
    child
}

#[test]
fn a_lost_connection_ends_its_cell_and_not_the_run() {
    if !server::is_installed() {
        return;
    }
    let server = Server::start(&[]);
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("out.json");
    let more = ["--policy", "none", "--threads", "5", "--time", "4", "--workload", "read-write,point-select"];
    let child = running(&server, &json, &more);
    let app = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER='app' LIMIT 1";
    let count = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER='app'";
    wait_until("the connections are open", || server.sql(count) == "5");
    // Statements that are interrupted are tried again; a connection that is killed is gone.
    server.sql(&format!("KILL QUERY {}", server.sql(app)));
    thread::sleep(Duration::from_millis(300));
    server.sql(&format!("KILL CONNECTION {}", server.sql(app)));
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains(" none, 5 connections") && said.contains("was lost"), "{said}");
    assert!(said.lines().last().unwrap().contains("1 of 2 rounds failed"), "{said}");
    let json = results(&json);
    let count =
        |key: &str| -> usize { cells(&json).iter().map(|cell| cell[key].as_array().unwrap().len()).sum() };
    assert_eq!((count("failures"), count("rounds")), (1, 1), "the other cell was measured");
    check_table(&server, 2000);
}

#[test]
fn a_server_that_goes_away_ends_the_run_with_one_line() {
    if !server::is_installed() {
        return;
    }
    let server = Server::start(&[]);
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("out.json");
    let child = running(&server, &json, &["--policy", "none", "--threads", "5,6", "--time", "1"]);
    server.signal(Signal::KILL);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.lines().all(|line| line.starts_with("flifo: ")), "{said}");
    assert!(said.contains("server"), "{said}");
}

#[test]
fn what_cannot_be_saved_is_told_beside_what_ended_the_run() {
    if !server::is_installed() {
        return;
    }
    let server = Server::start(&[]);
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("results");
    std::fs::create_dir(&dir).unwrap();
    let more = ["--policy", "none", "--workload", "point-select", "--threads", "3,4,5", "--time", "1"];
    let mut child = running(&server, &dir.join("out.json"), &more);
    // The first cell's row: from then on there is something to save.
    let mut row = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut row).unwrap();
    assert!(row.contains("point-select"), "{row}");
    std::fs::remove_dir(&dir).unwrap();
    server.signal(Signal::KILL);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    let line = said.lines().find(|line| line.contains("out.json"));
    assert!(line.is_some_and(|line| line.contains("cannot write")), "{said}");
}

#[test]
fn errors_that_pass_are_counted_and_leave_no_gap() {
    if !server::is_installed() {
        return;
    }
    // Few rows and many transactions: deadlocks; a lock that is held: timeouts.
    let server = Server::start(&["--innodb-lock-wait-timeout=1"]);
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("out.json");
    let mut command = sweep(&server, &["--workload", "read-write", "--threads", "24", "--json"]);
    command.arg(&json).args(["--range-size", "2", "--client-threads", "3"]);
    // The last of an option given twice would be an error: a line of its own.
    let mut own = flifo();
    let arguments: Vec<_> =
        command.get_args().map(|word| if word == "2000" { "12".as_ref() } else { word }).collect();
    let arguments: Vec<_> =
        arguments.into_iter().map(|word| if word == "0.3" { "3".as_ref() } else { word }).collect();
    let said = succeeds(own.args(arguments));
    assert_eq!(said, "");
    let json = results(&json);
    let round = &cells(&json)[0]["rounds"][0];
    let refused = number(round, "deadlocks") + number(round, "lock_wait_timeouts");
    assert!(refused > 0.0 && number(round, "transactions") > 0.0, "{round}");
    check_table(&server, 12);
}

#[test]
fn two_sweeps_do_not_share_a_server() {
    if !server::is_installed() {
        return;
    }
    let server = Server::start(&[]);
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("out.json");
    let child = running(&server, &json, &["--policy", "none", "--threads", "2,3", "--time", "30"]);
    fails(&mut sweep(&server, &["--threads", "1"]), 5, &["another flifo sweep runs on this server"]);
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(one_line(&output).contains("interrupted"), "nothing was measured");
}

/// The plugin's settings that a sweep changes.
fn settings(server: &Server) -> String {
    server.sql("SELECT @@flifo_policy, @@flifo_thread_concurrency")
}

#[test]
fn policies_take_turns_on_one_server() {
    let Some(plugin) = server::is_installed().then(server::plugin).flatten() else { return };
    let server = Server::start(&[&format!("--plugin-dir={}", plugin.display())]);
    server.sql("INSTALL SONAME 'flifo'; SET GLOBAL flifo_policy='flifo', flifo_thread_concurrency='7'");
    let temp = tempfile::tempdir().unwrap();
    let json = temp.path().join("out.json");
    let turns = ["--policy", "none,fifo,quantum", "--concurrency", "2,auto", "--threads", "9"];
    let mut command = flifo();
    command
        .args(["sweep", "--rows", "2000", "--rounds", "2", "--time", "0.3", "--warmup", "0.1"])
        .args(turns);
    command.args([
        "--workload",
        "hot-rows-2,read-write",
        "--target",
        &server.app(),
        "--admin-target",
        &server.root(),
    ]);
    assert_eq!(succeeds(command.arg("--json").arg(&json)), "");
    assert_eq!(settings(&server), "flifo\t7", "put back");
    let json = results(&json);
    let policies: Vec<(&str, u64)> = cells(&json)
        .iter()
        .filter(|cell| cell["workload"] == "hot-rows-2")
        .map(|cell| (cell["policy"].as_str().unwrap(), cell["concurrency"].as_u64().unwrap()))
        .collect();
    assert_eq!(policies, [("none", 0), ("fifo", 2), ("auto-fifo", 0), ("quantum", 2), ("auto", 0)]);
    let entered = |cell: &Value| -> f64 {
        let rounds = cell["rounds"].as_array().unwrap();
        rounds.iter().map(|round| number(round, "admitted")).sum()
    };
    // Without a limit nobody has asked.
    let (free, limited): (Vec<&Value>, Vec<&Value>) =
        cells(&json).iter().partition(|cell| cell["policy"] == "none");
    assert!(free.iter().all(|cell| entered(cell) == 0.0), "{free:?}");
    assert!(limited.iter().map(|cell| entered(cell)).sum::<f64>() > 0.0, "{limited:?}");

    // Accounts without the privilege get an error; accounts that bypass the plugin get a warning; both leave the
    // settings as they are.
    let mut may_not = flifo();
    may_not.args([
        "sweep",
        "--policy",
        "flifo",
        "--rows",
        "2000",
        "--threads",
        "1",
        "--target",
        &server.app(),
    ]);
    fails(&mut may_not, 5, &["user 'app' may not change the server's settings", "--admin-target"]);
    let mut root = flifo();
    root.args([
        "sweep",
        "--policy",
        "flifo",
        "--threads",
        "1",
        "--time",
        "0.1",
        "--rounds",
        "1",
        "--target",
        &server.root(),
    ]);
    let said = succeeds(&mut root);
    assert!(
        said.contains("has CONNECTION ADMIN, SUPER or REPLICATION SLAVE") && said.lines().count() == 1,
        "{said}"
    );
    assert_eq!(settings(&server), "flifo\t7");

    // Ctrl-C puts them back, too.
    let json = temp.path().join("cut.json");
    let child = running(
        &server,
        &json,
        &["--policy", "flifo", "--concurrency", "3", "--threads", "4", "--time", "60"],
    );
    wait_until("the setting is in force", || settings(&server).starts_with("flifo\t3"));
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert_eq!(settings(&server), "flifo\t7", "put back after Ctrl-C");

    // Refused by the plugin: counted, tried again, no gap.
    server.sql("SET GLOBAL flifo_max_queue=2, flifo_queue_timeout=1");
    let json = temp.path().join("refused.json");
    let mut command = flifo();
    command.args([
        "sweep",
        "--rows",
        "2000",
        "--rounds",
        "1",
        "--time",
        "0.5",
        "--policy",
        "fifo",
        "--concurrency",
        "1",
    ]);
    command.args(["--threads", "30", "--workload", "read-write,point-select"]);
    command.args(["--target", &server.app(), "--admin-target", &server.root()]);
    assert_eq!(succeeds(command.arg("--json").arg(&json)), "");
    let json = results(&json);
    let refused = |cell: &Value| {
        number(&cell["rounds"][0], "queue_full_refusals") + number(&cell["rounds"][0], "statement_timeouts")
    };
    assert!(cells(&json).iter().map(refused).sum::<f64>() > 0.0, "{json}");
    check_table(&server, 2000);
    server.sql("UNINSTALL SONAME 'flifo'");
}
