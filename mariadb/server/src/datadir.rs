//! Folders of private servers: a data directory is installed once per server version, then copied.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::programs;
use crate::{Error, Result};

const PREFIX: &str = "flifo-mariadb-";
const OWNER: &str = "owner";

/// A private server's folder, removed with this. The lock shows that a process still needs it.
pub(crate) struct Folder {
    directory: TempDir,
    _owner: File,
}

impl Folder {
    /// With a copy of this data directory, or of a fresh one.
    pub(crate) fn new(data: Option<&Path>) -> Result<Folder> {
        let parent = std::env::temp_dir();
        remove_leftovers(&parent);
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir().map_err(Error::file(&parent))?;
        // Locked before it has the name that others look for.
        let (path, named) = (directory.path().join("lock"), directory.path().join(OWNER));
        let owner = File::create(&path).map_err(Error::file(&path))?;
        owner.lock().and_then(|()| fs::rename(&path, named)).map_err(Error::file(&path))?;
        let folder = Folder { directory, _owner: owner };
        fs::create_dir(folder.join("tmp")).map_err(Error::file(folder.join("tmp")))?;
        match data {
            Some(data) => copy_directory(data, &folder.join("data"))?,
            None => copy_directory(&template()?, &folder.join("data"))?,
        }
        Ok(folder)
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// Folders whose process was killed before it could remove them.
fn remove_leftovers(parent: &Path) {
    let Ok(entries) = parent.read_dir() else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // Without the file it is just being made, or is somebody else's.
        let Ok(owner) = File::open(entry.path().join(OWNER)) else { continue };
        if owner.try_lock().is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A freshly installed data directory; made under another name and moved, so that it is there whole or not at all.
fn template() -> Result<PathBuf> {
    let folder = programs::target_dir().join("mariadb");
    fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
    let template = folder.join(format!("datadir-{:016x}", server_version()?));
    if template.is_dir() {
        return Ok(template);
    }
    let made =
        tempfile::Builder::new().prefix("making-").tempdir_in(&folder).map_err(Error::file(&folder))?;
    let data = made.path().join("data");
    install(&data)?;
    match fs::rename(&data, &template) {
        Err(error) if !template.is_dir() => Err(Error::file(template)(error)),
        // Or another process was faster.
        _ => Ok(template),
    }
}

/// A number for the server that is installed here: it changes with its file.
pub fn server_version() -> Result<u64> {
    let server = programs::server()?;
    let file = server.metadata().map_err(Error::file(&server))?;
    let mut hasher = DefaultHasher::new();
    (&server, file.len(), file.modified().ok()).hash(&mut hasher);
    Ok(hasher.finish())
}

fn install(data: &Path) -> Result<()> {
    let mut command = Command::new(programs::installer()?);
    command.arg("--no-defaults").arg(format!("--datadir={}", data.display()));
    if rustix::process::geteuid().is_root() {
        command.arg("--user=root");
    }
    command.args([
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        "--force",
        "--innodb-log-file-size=16M",
    ]);
    // A server that starts removes the temporary tables that it finds there: also those of another one.
    let own = data.parent().expect("it is made in a folder of its own");
    let output = command
        .env("TMPDIR", own)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Error::Install(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().find(|line| line.contains("ERROR")).or(said.lines().last());
    Err(Error::Install(line.unwrap_or("it said nothing").trim().to_owned()))
}

/// Copies a directory to a path that does not exist yet.
pub fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    fn each(from: &Path, to: &Path) -> io::Result<()> {
        fs::create_dir(to)?;
        for entry in from.read_dir()? {
            let entry = entry?;
            let target = to.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                each(&entry.path(), &target)?;
            } else {
                fs::copy(entry.path(), target)?;
            }
        }
        Ok(())
    }
    each(from, to).map_err(Error::file(to))
}
