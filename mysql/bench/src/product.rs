//! MySQL as a product of the bench.

use std::path::PathBuf;
use std::time::Duration;

use flifo_mariadb::Plugin;
use flifo_mariadb_bench::product::{Launch, Product, Server};
use flifo_mariadb_bench::{Error, Result};
use flifo_mysql::mysql::Conn;
use flifo_mysql::{Installation, Options, PrivateServer};

/// The MySQL 9.7 that `tools/mysql-root` fetches.
pub(crate) static MYSQL: Product = Product {
    name: "MySQL",
    command: "flifo-mysql-bench",
    record: "mysql",
    variants: &["stock", "innodb=stock:innodb-thread-concurrency=8", "pool", "plugin"],
    loads: &["point-select", "read-write", "update-index", "hot-rows-100", "durable", "durable-transaction"],
    connections: &[16, 256, 1024],
    wanted: &[
        ("hot-rows-100", 1024, "stock", 1.7),
        ("hot-rows-100", 1024, "pool", 1.2),
        ("read-write", 1024, "stock", 1.2),
        ("read-write", 1024, "pool", 1.2),
        ("update-index", 1024, "stock", 0.95),
        ("point-select", 1024, "stock", 0.95),
        ("hot-rows-100", 16, "stock", 0.93),
        ("read-write", 16, "stock", 0.93),
        ("update-index", 16, "stock", 0.93),
        ("point-select", 16, "stock", 0.93),
        ("durable", 16, "stock", 0.95),
        ("durable", 256, "stock", 0.95),
        ("durable", 1024, "stock", 0.95),
        ("durable-transaction", 16, "stock", 0.95),
        ("durable-transaction", 256, "stock", 0.95),
        ("durable-transaction", 1024, "stock", 0.95),
    ],
    quick: Duration::from_secs(10 * 60),
    redo_log_size: "innodb-redo-log-capacity",
    // As in MariaDB, whose binary log is closed by default.
    options: &[("skip-log-bin", "")],
    pool_options: &[("plugin-load-add", "thread_pool.so")],
    durable_options: &[("innodb-flush-log-at-trx-commit", "1"), ("sync-binlog", "1"), ("log-bin", "binlog")],
    status_table: "performance_schema.global_status",
    // The tables of the performance schema have no Com_ counters.
    status_query: |names| {
        format!(
            "SELECT 'begun', UNIX_TIMESTAMP(SYSDATE(6)); \
             SHOW GLOBAL STATUS WHERE VARIABLE_NAME IN ({names}) OR VARIABLE_NAME LIKE 'FLIFO%'; \
             SELECT 'INNODB_HISTORY_LIST_LENGTH', `COUNT` FROM information_schema.INNODB_METRICS \
             WHERE NAME = 'trx_rseg_history_len'; \
             SELECT 'ended', UNIX_TIMESTAMP(SYSDATE(6))"
        )
    },
    session: "SET SESSION wait_timeout = 2000000, time_zone = '+00:00'",
    thread_query: "SELECT THREAD_OS_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()",
    connections_of: Some(|user| {
        format!("SELECT PROCESSLIST_ID FROM performance_schema.threads WHERE PROCESSLIST_USER = '{user}'")
    }),
    install: "INSTALL PLUGIN flifo SONAME 'flifo.so'",
    uninstall: "UNINSTALL PLUGIN flifo",
    version: || {
        let version = installation()?.version().map_err(failed)?;
        Ok(format!("mysql/sysbench-{version}"))
    },
    start,
};

fn installation() -> Result<Installation> {
    Installation::find().ok_or_else(|| {
        let root = Installation::expected_root();
        Error::Usage(format!("there is no MySQL server in {0}: run tools/mysql-root {0}", root.display()))
    })
}

fn failed(error: flifo_mysql::Error) -> Error {
    Error::Other(error.to_string())
}

/// The plugin lies in the plugin folder of each server.
fn start(launch: &Launch) -> Result<Box<dyn Server>> {
    let mut options = Options::new().arguments(launch.arguments());
    if launch.plugin == Plugin::Loaded {
        options = options.arguments(["--plugin-load-add=flifo.so"]);
    }
    options =
        launch.environment.iter().fold(options, |options, (name, value)| options.environment(name, value));
    if let Some(data) = &launch.data {
        options = options.data(data);
    }
    let server = PrivateServer::start_with(&installation()?, &options).map_err(failed)?;
    Ok(Box::new(Private(server)))
}

struct Private(PrivateServer);

impl Server for Private {
    fn connect(&self, user: &str, database: Option<&str>) -> Result<Conn> {
        let mut client = self.0.connect(user).map_err(failed)?;
        if let Some(database) = database {
            client.select_db(database)?;
        }
        Ok(client)
    }

    fn socket(&self) -> PathBuf {
        self.0.socket()
    }

    fn data_folder(&self) -> PathBuf {
        self.0.data_folder()
    }

    fn scratch(&self) -> PathBuf {
        self.0.scratch()
    }

    fn pid(&self) -> u32 {
        self.0.pid()
    }

    fn runs(&mut self) -> bool {
        self.0.runs()
    }

    fn error_log(&self) -> String {
        self.0.error_log()
    }

    fn shutdown(&mut self, _bound: Duration) -> std::result::Result<(), String> {
        if self.0.shutdown() { Ok(()) } else { Err("it did not end cleanly".into()) }
    }
}

#[cfg(test)]
mod tests {
    use flifo_mariadb_bench::matrix::loads::Load;

    use super::*;

    #[test]
    fn what_is_wanted_is_measured() {
        for name in MYSQL.loads {
            assert!(Load::named(name).is_some(), "{name}");
        }
        for (load, connections, base, _) in MYSQL.wanted {
            assert!(MYSQL.loads.contains(load) && MYSQL.connections.contains(connections), "{load}");
            assert!(MYSQL.variants.contains(base), "{base}");
        }
    }
}
