//! The output files of a command: each is written completely or not at all, and its path keeps its kind.
//!
//! A regular file is replaced: the new content is written to a temporary file, which is then renamed. A symbolic link
//! stays, and the file that it leads to is replaced. A device or a pipe is written to: a rename would replace it by a
//! file, and as root even `/dev/null`. A block device is refused: it may hold a file system.
//!
//! A command with several outputs tries each, even after failures, and then returns the first error, so that a full
//! disk or a closed terminal does not lose the other outputs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::error::{Error, WriteError};

/// Links that are followed, as many as the kernel follows.
const LINKS_MAX: u32 = 40;

/// What a path leads to, and how that is written.
enum Place {
    /// A regular file, or none yet, under the name that is no link.
    Replaced(PathBuf),
    /// A device, a pipe.
    WrittenTo,
}

/// Checks an output path before the measurements begin.
pub fn check_writable(file: &Path) -> Result<(), Error> {
    let may_write = |path: &Path| access(path, Access::WRITE_OK).map_err(io::Error::from);
    let checked = place(file).and_then(|place| match place {
        Place::Replaced(file) => may_write(directory(&file)),
        Place::WrittenTo => may_write(file),
    });
    checked.map_err(|wrong| {
        Error::Usage(format!(
            "cannot write {}: {wrong}; name a file in a directory that exists and is writable",
            file.display()
        ))
    })
}

/// Applies [`check_writable`] to all output files of a command, which must differ from each other.
pub fn check_all_writable<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> Result<(), Error> {
    let files: Vec<&Path> = files.into_iter().map(PathBuf::as_path).collect();
    files.iter().try_for_each(|file| check_writable(file))?;
    check_different(&files)
}

/// Fails if two of the paths lead to one regular file, even a file that does not exist yet.
pub fn check_different(files: &[&Path]) -> Result<(), Error> {
    let mut seen: Vec<PathBuf> = Vec::new();
    for path in files {
        let Ok(Place::Replaced(file)) = place(path) else { continue };
        let Ok(dir) = directory(&file).canonicalize() else { continue };
        let file = dir.join(file.file_name().unwrap_or_default());
        if seen.contains(&file) {
            return Err(Error::Usage(format!("{} is named twice; name a file for each", path.display())));
        }
        seen.push(file);
    }
    Ok(())
}

/// Replaces the whole content of a file: a reader, or a full disk, never sees half of it.
pub fn replace_file(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let written = place(path).and_then(|place| match place {
        Place::Replaced(file) => replace(&file, bytes),
        Place::WrittenTo => OpenOptions::new().write(true).open(path)?.write_all(bytes),
    });
    written.map_err(|source| WriteError { path: path.to_owned(), source })
}

/// Prints a text. A closed reader has read enough and is no error, but a full disk is.
pub fn print(out: &mut dyn Write, text: &str) -> io::Result<()> {
    match out.write_all(text.as_bytes()) {
        // A pipe without a reader; a terminal that has hung up.
        Err(gone) if [Some(Errno::PIPE), Some(Errno::IO)].contains(&Errno::from_io_error(&gone)) => Ok(()),
        printed => printed,
    }
}

fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = file.with_file_name(name);
    let written = File::create(&temporary)
        .and_then(|mut new| new.write_all(bytes).and_then(|()| new.sync_all()))
        .and_then(|()| fs::rename(&temporary, file));
    written.inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

fn place(path: &Path) -> io::Result<Place> {
    // The kernel follows what no name leads to, as /dev/stdout where that is a pipe.
    match fs::metadata(path).map(|found| found.file_type()) {
        Ok(kind) if kind.is_dir() => Err(io::Error::other("it is a directory")),
        Ok(kind) if kind.is_block_device() => Err(io::Error::other("it is a block device")),
        Ok(kind) if !kind.is_file() => Ok(Place::WrittenTo),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => followed(path).map(Place::Replaced),
    }
}

/// Where a path's links end, whether or not there is a file yet.
fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut file = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&file) {
            Ok(target) => file = directory(&file).join(target),
            // A rename would find no directory of that name.
            Err(_) if is_directory_name(&file) => return Err(io::Error::other("it names a directory")),
            Err(_) => return Ok(file),
        }
    }
    Err(Errno::LOOP.into())
}

/// Whether the name can only be a directory's, as `runs/`; [`Path`] takes no note of that.
fn is_directory_name(file: &Path) -> bool {
    let name = file.as_os_str().as_bytes().rsplit(|byte| *byte == b'/').next();
    matches!(name, None | Some(b"" | b"." | b".."))
}

fn directory(file: &Path) -> &Path {
    match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;
    use crate::golden::{Cases, without_path};

    /// Takes nothing.
    pub(crate) struct Fails(pub(crate) Errno);

    impl Write for Fails {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    fn save(path: &Path, text: &str) {
        check_writable(path).unwrap();
        replace_file(path, text.as_bytes()).unwrap();
    }

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn files_that_cannot_be_written_are_found_before_the_run() {
        let temp = tempfile::tempdir().unwrap();
        let mut cases = Cases::default();
        let mut refused = |name: &str| {
            let error = check_writable(&temp.path().join(name)).unwrap_err().to_string();
            cases.add(format!("'{name}'"), without_path(&error, temp.path()));
        };
        assert!(check_writable(&temp.path().join("a.json")).is_ok());
        assert!(check_writable(Path::new("a.json")).is_ok());
        for name in ["no/a.json", "runs/", "runs/.", ""] {
            refused(name);
        }
        symlink("runs/", temp.path().join("to-runs")).unwrap();
        symlink("no/a.json", temp.path().join("astray")).unwrap();
        refused("to-runs");
        refused("astray");
        cases.check("output-errors");
        symlink("ring", temp.path().join("ring")).unwrap();
        assert!(check_writable(&temp.path().join("ring")).is_err());
    }

    #[test]
    fn two_names_of_one_file_are_refused() {
        let temp = tempfile::tempdir().unwrap();
        let path = |name: &str| temp.path().join(name);
        fs::create_dir(path("runs")).unwrap();
        fs::write(path("a"), "").unwrap();
        for (link, target) in [("to-a", "a"), ("to-new", "runs/new"), ("to-runs", "runs")] {
            symlink(target, path(link)).unwrap();
        }
        let mut cases = Cases::default();
        for (one, other) in
            [("a", "a"), ("a", "to-a"), ("a", "runs/../a"), ("runs/new", "to-new"), ("to-new", "to-runs/new")]
        {
            let refused = check_all_writable([&path(one), &path(other)]).unwrap_err().to_string();
            cases.add(format!("{one} and {other}"), without_path(&refused, temp.path()));
        }
        cases.check("output-errors-twice");
        check_all_writable([&path("a"), &path("runs/a"), &path("new")]).unwrap();
        // Two may be thrown away.
        check_all_writable([&PathBuf::from("/dev/null"), &PathBuf::from("/dev/null")]).unwrap();
    }

    #[test]
    fn a_link_stays_and_its_file_is_replaced() {
        let temp = tempfile::tempdir().unwrap();
        let path = |name: &str| temp.path().join(name);
        fs::create_dir(path("runs")).unwrap();
        fs::write(path("runs/old"), "old").unwrap();
        // One leads to a link, one to a file that is not there yet.
        for (link, target) in [("last", "runs/link"), ("runs/link", "old"), ("next", "runs/new")] {
            symlink(target, path(link)).unwrap();
        }
        save(&path("last"), "new");
        save(&path("next"), "first");
        assert_eq!((read(&path("runs/old")), read(&path("runs/new"))), ("new".into(), "first".into()));
        for link in ["last", "runs/link", "next"] {
            assert!(path(link).is_symlink(), "{link}");
        }
        assert_eq!(fs::read_dir(path("runs")).unwrap().count(), 3, "nothing is left beside it");
    }

    #[test]
    fn a_pipe_is_written_to_and_stays() {
        let temp = tempfile::tempdir().unwrap();
        let pipe = temp.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || read(&pipe)
        });
        save(&pipe, "through");
        assert_eq!(reader.join().unwrap(), "through");
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn who_went_away_has_read_enough_and_a_full_disk_has_not() {
        for (errno, is_told) in [(Errno::PIPE, false), (Errno::IO, false), (Errno::NOSPC, true)] {
            assert_eq!(print(&mut Fails(errno), "text").is_err(), is_told, "{errno}");
        }
    }

    #[test]
    fn a_device_stays() {
        let null = Path::new("/dev/null");
        save(null, "nothing");
        assert!(fs::metadata(null).unwrap().file_type().is_char_device());
    }
}
