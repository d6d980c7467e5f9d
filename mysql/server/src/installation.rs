//! Where the server's programs and the plugin are.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flifo_mariadb::target_dir;

use crate::{Error, Result};

/// A folder that `tools/mysql-root` made.
#[derive(Clone, Debug)]
pub struct Installation {
    root: PathBuf,
}

impl Installation {
    /// Returns the folder that `FLIFO_MYSQL_ROOT` names, or `target/mysql-root`; `None` if no server is in it.
    pub fn find() -> Option<Installation> {
        let root = Installation::expected_root();
        root.join("mysqld").is_file().then_some(Installation { root })
    }

    /// Where [`Installation::find`] looks.
    pub fn expected_root() -> PathBuf {
        match env::var_os("FLIFO_MYSQL_ROOT") {
            Some(root) => PathBuf::from(root),
            None => target_dir().join("mysql-root"),
        }
    }

    /// Returns the version of the packages, such as `9.7.4-2`.
    pub fn version(&self) -> Result<String> {
        let file = self.root.join("version");
        Ok(fs::read_to_string(&file).map_err(Error::file(file))?.trim().to_owned())
    }

    /// Returns the `mysql` shell.
    pub fn client(&self) -> PathBuf {
        self.root.join("mysql")
    }

    /// Returns the folder of the programs, for a shell's PATH.
    pub fn folder(&self) -> &Path {
        &self.root
    }

    /// Returns the folder of the server's own plugins.
    pub(crate) fn plugin_folder(&self) -> PathBuf {
        self.root.join("usr/lib/mysql/plugin")
    }

    /// Returns a command that starts the server's program, with the options that every use of it needs.
    pub(crate) fn server(&self) -> Command {
        let mut command = Command::new(self.root.join("mysqld"));
        command.arg("--no-defaults");
        command.arg(format!("--basedir={}", self.root.join("usr").display()));
        command.arg(format!("--lc-messages-dir={}", self.root.join("usr/share/mysql").display()));
        if rustix::process::geteuid().is_root() {
            command.arg("--user=root");
        }
        command
    }

    /// Returns the plugin to install: `FLIFO_MYSQL_PLUGIN`, or what `make mysql` built.
    pub(crate) fn plugin_file() -> Result<PathBuf> {
        let file = match env::var_os("FLIFO_MYSQL_PLUGIN") {
            Some(file) => PathBuf::from(file),
            None => target_dir().join("mysql/flifo.so"),
        };
        if file.is_file() { Ok(file) } else { Err(Error::NoPlugin(file)) }
    }
}
