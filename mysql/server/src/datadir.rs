//! Data directories: initialized once per version of the server, then copied.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use flifo_mariadb::{copy_directory, target_dir};

use crate::{Error, Installation, Result};

/// Makes `to` a data directory of an administrator without a password.
pub(crate) fn make(installation: &Installation, to: &Path) -> Result<()> {
    copy(&template(installation)?, to)?;
    // The server makes itself another identity: a replica refuses a source with its own.
    let identity = to.join("auto.cnf");
    match fs::remove_file(&identity) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::file(identity)(error)),
        _ => Ok(()),
    }
}

/// Makes `to` a copy of a data directory that no server uses.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    Ok(copy_directory(from, to)?)
}

/// A freshly initialized data directory; made under another name and renamed, so that it is complete or absent.
fn template(installation: &Installation) -> Result<PathBuf> {
    let folder = target_dir().join("mysql");
    fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
    let template = folder.join(format!("datadir-{}", installation.version()?));
    if template.is_dir() {
        return Ok(template);
    }
    let made =
        tempfile::Builder::new().prefix("making-").tempdir_in(&folder).map_err(Error::file(&folder))?;
    let data = made.path().join("data");
    initialize(installation, &data)?;
    match fs::rename(&data, &template) {
        Err(error) if !template.is_dir() => Err(Error::file(template)(error)),
        // Or another process was faster.
        _ => Ok(template),
    }
}

fn initialize(installation: &Installation, data: &Path) -> Result<()> {
    let output = installation
        .server()
        .args(["--initialize-insecure", "--innodb-redo-log-capacity=16M", "--skip-log-bin"])
        .arg(format!("--datadir={}", data.display()))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Error::Initialize(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find(|line| line.contains("[ERROR]")).or(said.lines().last());
    Err(Error::Initialize(line.unwrap_or("it printed nothing").trim().to_owned()))
}
