//! Loop devices and file systems on them, for the duration of a test.
//!
//! The test's thread has its own mount namespace, and a loop device is set to release its file after the last close. So
//! nothing outlives the test's process, however it ends.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Runs a program of the system; what it printed, or what went wrong.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// A program of the system that may be where only root looks.
pub(crate) fn program(name: &str) -> Command {
    let places = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(|place| Path::new(place).join(name));
    Command::new(places.into_iter().find(|path| path.is_file()).unwrap_or_else(|| name.into()))
}

/// Takes a mount namespace for this thread and what it starts. Says why, where that or a loop device is not allowed.
pub(crate) fn is_allowed() -> bool {
    let why = || -> Result<(), String> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root has loop devices and mounts".into());
        }
        // SAFETY: of the thread nothing but its mounts and its working directory becomes its own; no descriptor does.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.map_err(|errno| format!("no namespace: {errno}"))?;
        run(program("mount").args(["--make-rprivate", "/"]))?;
        let temp = tempfile::tempdir().unwrap();
        let device = Loop::try_new(&temp.path().join("image"), 64 << 20, &[])?;
        run(program("mkfs.ext4").arg("-q").arg(device.path()))?;
        run(program("mount").arg(device.path()).arg(temp.path()))?;
        run(program("umount").arg(temp.path()))?;
        ["mkfs.xfs", "sfdisk", "setpriv"]
            .iter()
            .try_for_each(|name| run(program(name).arg(version_of(name))).map(drop))
    };
    match why() {
        Ok(()) => true,
        Err(why) => {
            eprintln!("not tested: {why}");
            false
        }
    }
}

fn version_of(name: &str) -> &'static str {
    if name == "mkfs.xfs" { "-V" } else { "--version" }
}

/// A loop device over a file of its own, without a block of it written.
pub(crate) struct Loop {
    path: PathBuf,
    /// As long as it is open the device is.
    _open: File,
}

impl Loop {
    pub(crate) fn new(image: &Path, bytes: u64) -> Self {
        Self::try_new(image, bytes, &[]).unwrap()
    }

    /// One whose partitions the kernel looks for.
    pub(crate) fn with_partitions(image: &Path, bytes: u64) -> Self {
        Self::try_new(image, bytes, &["--partscan"]).unwrap()
    }

    fn try_new(image: &Path, bytes: u64, options: &[&str]) -> Result<Self, String> {
        File::create(image).and_then(|file| file.set_len(bytes)).map_err(|error| error.to_string())?;
        let path =
            PathBuf::from(run(program("losetup").args(["--find", "--show"]).args(options).arg(image))?);
        let open = File::open(&path);
        // Of a device that is open this means: when it is closed.
        run(program("losetup").arg("--detach").arg(&path))?;
        Ok(Loop { _open: open.map_err(|error| error.to_string())?, path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// As `/sys/block` has it.
    pub(crate) fn name(&self) -> &str {
        self.path.file_name().unwrap().to_str().unwrap()
    }

    /// Since it was made.
    pub(crate) fn written_bytes(&self) -> u64 {
        let counters = std::fs::read_to_string(format!("/sys/block/{}/stat", self.name())).unwrap();
        512 * counters.split_whitespace().nth(6).unwrap().parse::<u64>().unwrap()
    }
}

/// A file system that is mounted.
pub(crate) struct Mount(PathBuf);

impl Mount {
    /// A new one of that type.
    pub(crate) fn make(kind: &str, options: &[&str], device: &Loop, point: &Path) -> Result<Self, String> {
        run(program(&format!("mkfs.{kind}")).arg("-q").args(options).arg(device.path()))?;
        Mount::new(&["-t", kind], device.path(), point)
    }

    /// A tmpfs of that size.
    pub(crate) fn memory(size: &str, point: &Path) -> Self {
        Mount::new(&["-t", "tmpfs", "-o", &format!("size={size}")], Path::new("tmpfs"), point).unwrap()
    }

    fn new(options: &[&str], what: &Path, point: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(point).unwrap();
        run(program("mount").args(options).arg(what).arg(point))?;
        Ok(Mount(point.to_owned()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Fails if anybody has still a file open in it.
    pub(crate) fn unmount(self) -> Result<(), String> {
        let unmounted = run(program("umount").arg(&self.0)).map(drop);
        if unmounted.is_ok() {
            std::mem::forget(self);
        }
        unmounted
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = run(program("umount").arg("--lazy").arg(&self.0));
    }
}
