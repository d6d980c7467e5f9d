//! The tables, loaded once: a cold data directory of which every variant gets a copy. It is kept beside the
//! plugin, for the next run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flifo_mariadb::mysql::prelude::Queryable;
use flifo_mariadb::{Ended, Options, PrivateServer, copy_directory, server_version, target_dir};

use crate::sysbench::{self, Target, USER};
use crate::workload::{BIG, tables};
use crate::{Error, Result};

/// Its shutdown writes all pages.
const SHUTDOWN: Duration = Duration::from_secs(300);

/// A loaded data directory that no server uses.
#[derive(Debug, Clone)]
pub(crate) struct Dataset {
    pub(crate) directory: PathBuf,
    /// The size of the big table's file.
    pub(crate) bytes: u64,
}

/// The one with this number of rows, made if it is not there. `say` reports what takes long.
pub(crate) fn dataset(rows: u32, say: impl Fn(&str)) -> Result<Dataset> {
    let folder = target_dir().join("mariadb");
    fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
    let directory = folder.join(format!("sysbench-{:016x}-{rows}", server_version()?));
    if !directory.is_dir() {
        say(&format!("loading {rows} rows, once"));
        let made =
            tempfile::Builder::new().prefix("loading-").tempdir_in(&folder).map_err(Error::file(&folder))?;
        let data = made.path().join("data");
        load(rows, &data)?;
        match fs::rename(&data, &directory) {
            Err(error) if !directory.is_dir() => return Err(Error::file(directory)(error)),
            // Or another run was faster.
            _ => {}
        }
    }
    let table = directory.join(BIG).join("sbtest1.ibd");
    let bytes = table.metadata().map_err(Error::file(&table))?.len();
    Ok(Dataset { directory, bytes })
}

fn load(rows: u32, data: &Path) -> Result<()> {
    let mut server = PrivateServer::start(Options::new().buffer_pool(512 << 20).flush_log_at_commit(2))?;
    let mut root = server.connect()?;
    root.query_drop(format!("CREATE USER {USER}@localhost"))?;
    let socket = server.socket();
    for (database, table_size) in tables(rows) {
        root.query_drop(format!("CREATE DATABASE {database}"))?;
        root.query_drop(format!("GRANT ALL ON {database}.* TO {USER}@localhost"))?;
        sysbench::prepare(Target { socket: &socket, database, script: "oltp_update_index", table_size })?;
        root.query_drop(format!("ANALYZE TABLE {database}.sbtest1"))?;
    }
    drop(root);
    match server.shutdown(SHUTDOWN) {
        Ended::Itself(0) => {}
        ended => return Err(Error::Load(format!("{ended:?}"))),
    }
    Ok(copy_directory(&server.data_dir(), data)?)
}
