//! `flifo bench peers`: runs `flifo-peers`, a separate build (RocksDB takes long, and needs libclang).

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::error::Error;

const PROGRAM: &str = "flifo-peers";

/// Executes `flifo-peers` in this process: its output, its exit code, its Ctrl-C. Returns only on failure.
pub fn peers(options: &[OsString]) -> Result<Infallible, Error> {
    let own_dir = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(program) = find(own_dir.as_deref(), &path) else {
        return Err(Error::Usage(format!(
            "{PROGRAM} is neither in this program's directory nor in PATH; build it with 'make peers' in the sources"
        )));
    };
    let source = Command::new(&program).args(options).exec();
    Err(Error::System {
        what: format!("cannot run {}", program.display()),
        source,
        advice: "build it again with 'make peers'",
    })
}

/// Finds the program in this program's directory, or in one of the directories of `path`.
fn find(own_dir: Option<&Path>, path: &OsStr) -> Option<PathBuf> {
    let dirs = own_dir.map(Path::to_owned).into_iter().chain(std::env::split_paths(path));
    dirs.map(|dir| dir.join(PROGRAM))
        .find(|program| program.is_file() && rustix::fs::access(program, rustix::fs::Access::EXEC_OK).is_ok())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn found_beside_before_path_and_only_if_it_runs() {
        let temp = tempfile::tempdir().unwrap();
        let dirs = ["a", "b", "c"].map(|name| temp.path().join(name));
        for dir in &dirs {
            fs::create_dir(dir).unwrap();
        }
        let path = std::env::join_paths(&dirs[1..]).unwrap();
        assert_eq!(find(Some(&dirs[0]), &path), None);
        let put = |dir: &Path, mode| {
            fs::write(dir.join(PROGRAM), "").unwrap();
            fs::set_permissions(dir.join(PROGRAM), fs::Permissions::from_mode(mode)).unwrap();
        };
        put(&dirs[1], 0o644);
        put(&dirs[2], 0o755);
        assert_eq!(find(Some(&dirs[0]), &path), Some(dirs[2].join(PROGRAM)));
        put(&dirs[0], 0o755);
        assert_eq!(find(Some(&dirs[0]), &path), Some(dirs[0].join(PROGRAM)));
        assert_eq!(find(None, OsStr::new("")), None);
    }
}
