//! Where the server's programs and the plugin are.

use std::env;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// What a user's PATH may lack.
const SYSTEM: &str = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin";

pub(crate) fn server() -> Result<PathBuf> {
    find("mariadbd", "mariadb-server-core")
}

pub(crate) fn installer() -> Result<PathBuf> {
    find("mariadb-install-db", "mariadb-server-core")
}

/// The `mariadb` shell.
pub fn client() -> Result<PathBuf> {
    find("mariadb", "mariadb-client-core")
}

fn find(program: &'static str, package: &'static str) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(env::split_paths(SYSTEM))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
        .ok_or(Error::Missing { program, package })
}

/// Where cargo and make put what they build.
pub fn target_dir() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("."));
    root.join(env::var_os("CARGO_TARGET_DIR").unwrap_or("target".into()))
}

/// The plugin to load: `FLIFO_PLUGIN`, or what `make mariadb` built.
pub fn plugin_file() -> Result<PathBuf> {
    let file = match env::var_os("FLIFO_PLUGIN") {
        Some(file) => PathBuf::from(file),
        None => target_dir().join("mariadb/flifo.so"),
    };
    if file.is_file() { Ok(file) } else { Err(Error::NoPlugin(file)) }
}
