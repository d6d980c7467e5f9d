//! The tables, loaded once: a cold data directory of which every variant gets a copy. It is kept beside the
//! plugin, for the next run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flifo_mariadb::mysql::prelude::Queryable;
use flifo_mariadb::{copy_directory, target_dir};

use crate::product::{Launch, Product, administer};
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
pub(crate) fn dataset(product: &Product, rows: u32, say: impl Fn(&str)) -> Result<Dataset> {
    let directory = target_dir().join(format!("{}-{rows}", (product.version)()?));
    let folder = directory.parent().map_or_else(target_dir, Path::to_owned);
    fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
    if !directory.is_dir() {
        say(&format!("loading {rows} rows, once"));
        let made =
            tempfile::Builder::new().prefix("loading-").tempdir_in(&folder).map_err(Error::file(&folder))?;
        let data = made.path().join("data");
        load(product, rows, &data)?;
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

fn load(product: &Product, rows: u32, data: &Path) -> Result<()> {
    let launch = Launch::default()
        .set_all(product.options)
        .set("innodb-buffer-pool-size", "512M")
        .set("innodb-flush-log-at-trx-commit", 2);
    let mut server = (product.start)(&launch)?;
    let mut root = administer(&*server)?;
    root.query_drop(format!("CREATE USER {USER}@localhost"))?;
    let socket = server.socket();
    for (database, table_size) in tables(rows) {
        root.query_drop(format!("CREATE DATABASE {database}"))?;
        root.query_drop(format!("GRANT ALL ON {database}.* TO {USER}@localhost"))?;
        sysbench::prepare(Target { socket: &socket, database, script: "oltp_update_index", table_size })?;
        root.query_drop(format!("ANALYZE TABLE {database}.sbtest1"))?;
    }
    drop(root);
    server.shutdown(SHUTDOWN).map_err(Error::Load)?;
    Ok(copy_directory(&server.data_folder(), data)?)
}
