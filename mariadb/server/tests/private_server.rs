//! The private server itself, without the plugin.

use std::time::Duration;

use flifo_mariadb::mysql::prelude::Queryable;
use flifo_mariadb::{Ended, Error, Options, PrivateServer};

const BOUND: Duration = Duration::from_secs(60);

#[test]
fn starts_answers_and_ends_clean() {
    let mut server = PrivateServer::start(Options::new().buffer_pool(32 << 20).loopback()).unwrap();
    let mut root = server.connect().unwrap();
    let (pool, most): (u64, u64) =
        root.query_first("SELECT @@innodb_buffer_pool_size, @@max_connections").unwrap().unwrap();
    assert_eq!((pool, most), (32 << 20, 5000));
    root.query_drop("CREATE DATABASE db").unwrap();
    root.query_drop("CREATE USER app@localhost").unwrap();
    root.query_drop("GRANT ALL ON db.* TO app@localhost").unwrap();
    let questions = server.status_number("Questions").unwrap();
    let mut app = server.connect_as("app", "db").unwrap();
    assert_eq!(server.status_number("Questions").unwrap(), questions + 1, "connecting sent a statement");
    let sum: u32 = app.query_first("SELECT 1 + 2").unwrap().unwrap();
    assert_eq!(sum, 3);
    let port: u16 = app.query_first("SELECT @@port").unwrap().unwrap();
    assert_eq!(Some(port), server.port());

    assert!(server.status_number("Threads_connected").unwrap() >= 2);
    assert!(matches!(server.status("Flifo_running"), Err(Error::NoStatus(_))));
    assert!(std::path::Path::new(&format!("/proc/{}", server.pid())).exists());
    assert_eq!(server.shutdown(BOUND), Ended::Itself(0));
    assert!(server.error_log().contains("Shutdown complete"));

    let again = PrivateServer::start(Options::new().data(server.data_dir())).unwrap();
    let databases: Vec<String> = again.connect().unwrap().query("SHOW DATABASES LIKE 'db'").unwrap();
    assert_eq!(databases, ["db"]);
}

#[test]
fn leaves_nothing_behind() {
    let server = PrivateServer::start(Options::new()).unwrap();
    let (pid, folder) = (server.pid(), server.scratch());
    assert!(folder.exists());
    drop(server);
    assert!(!folder.parent().unwrap().exists());
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn says_why_it_does_not_start() {
    let Err(error) = PrivateServer::start(Options::new().argument("--no-such-option")) else {
        panic!("started with an unknown option")
    };
    assert!(error.to_string().contains("no-such-option"), "{error}");
}
