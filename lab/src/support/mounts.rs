//! `/proc/self/mountinfo`: the file system of a path.
//!
//! Parsed by hand: `procfs` 0.18 leaves the kernel's escapes in paths (its issue 262), loses the order of options, and
//! rejects a list with one line that it does not understand.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// One line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) id: u64,
    /// Of the file system's device, as `254:1`; its major number is 0 where the kernel made it up.
    pub(crate) device: String,
    pub(crate) point: PathBuf,
    /// `ext4`, `xfs`, `tmpfs`.
    pub(crate) filesystem: String,
    /// The mounted device, as `/dev/vda1`.
    pub(crate) source: String,
    /// Options of the mount point, then those of the file system that differ from them.
    pub(crate) options: String,
}

/// The mount that `path` is on, which must be absolute and without symbolic links. `id` is what the kernel itself
/// says (`statx`); without it the deepest mount above the path, and of two on one point the later one, which
/// hides the other.
pub(crate) fn mount_of(mountinfo: &str, path: &Path, id: Option<u64>) -> Option<Mount> {
    let mounts: Vec<Mount> = mounts(mountinfo).collect();
    let reported = mounts.iter().find(|mount| Some(mount.id) == id);
    let deepest = || {
        let above = mounts.iter().filter(|mount| path.starts_with(&mount.point));
        above.max_by_key(|mount| mount.point.components().count())
    };
    reported.or_else(deepest).cloned()
}

pub(crate) fn mounts(mountinfo: &str) -> impl Iterator<Item = Mount> {
    mountinfo.lines().filter_map(parse)
}

/// `27 1 254:0 /root /point rw,relatime shared:1 - ext4 /dev/root rw,discard`; the optional fields before the dash
/// are any number.
fn parse(line: &str) -> Option<Mount> {
    let (mount, filesystem) = line.split_once(" - ")?;
    let mut mount = mount.split(' ');
    let id = mount.next()?.parse().ok()?;
    let device = mount.nth(1)?.to_owned();
    let point = PathBuf::from(unescape(mount.nth(1)?));
    let mut options = mount.next()?.to_owned();
    let mut filesystem = filesystem.split(' ');
    let kind = filesystem.next()?.to_owned();
    let source = unescape(filesystem.next()?).to_string_lossy().into_owned();
    for option in filesystem.next().unwrap_or_default().split(',') {
        if !option.is_empty() && !options.split(',').any(|known| known == option) {
            options = format!("{options},{option}");
        }
    }
    Some(Mount { id, device, point, filesystem: kind, source, options })
}

/// The kernel writes blanks, tabs, newlines, backslashes and `#` as a backslash and three octal digits.
fn unescape(text: &str) -> OsString {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let octal = (bytes[at] == b'\\').then(|| text.get(at + 1..at + 4)).flatten();
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                at += 4;
            }
            None => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    OsString::from_vec(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
        27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw,discard\n\
        30 27 0:30 / /srv/my\\040data rw,noatime - xfs /dev/vdb rw,attr2\n\
        31 27 0:31 / /srv/my rw - tmpfs tmpfs rw\n\
        32 27 0:32 / / rw - btrfs /dev/vdc rw\n\
        33 27 254:0 /home/data /srv/bind rw master:1 propagate_from:2 - ext4 /dev/root rw\n\
        half a line\n";

    #[test]
    fn the_deepest_mount_counts_and_of_two_the_later() {
        let kind = |path: &str| mount_of(MOUNTS, Path::new(path), None).unwrap().filesystem;
        assert_eq!(kind("/srv/my data/flifo"), "xfs");
        assert_eq!(kind("/srv/my/flifo"), "tmpfs");
        assert_eq!(kind("/srv/mystery"), "btrfs", "a name's beginning is no parent");
        assert_eq!(mount_of("", Path::new("/"), None), None);
    }

    #[test]
    fn what_the_kernel_says_counts_more() {
        let mount = mount_of(MOUNTS, Path::new("/srv/mystery"), Some(27)).unwrap();
        assert_eq!((mount.filesystem.as_str(), mount.device.as_str()), ("ext4", "254:0"));
        let unknown = mount_of(MOUNTS, Path::new("/srv/mystery"), Some(99)).unwrap();
        assert_eq!(unknown.filesystem, "btrfs", "an id that is not in the list is no reason to give up");
    }

    #[test]
    fn a_bind_mount_is_on_the_device_below() {
        let mount = mount_of(MOUNTS, Path::new("/srv/bind/x"), None).unwrap();
        assert_eq!((mount.device.as_str(), mount.filesystem.as_str()), ("254:0", "ext4"));
        assert_eq!(mount.options, "rw");
        assert_eq!(mount_of(MOUNTS, Path::new("/srv/my data"), None).unwrap().options, "rw,noatime,attr2");
    }

    #[test]
    fn a_device_is_found_by_its_number() {
        let point =
            |number: &str| mounts(MOUNTS).find(|mount| mount.device == number).map(|mount| mount.point);
        assert_eq!(point("0:30").as_deref(), Some(Path::new("/srv/my data")));
        assert_eq!(point("0:3"), None);
    }

    #[test]
    fn escapes() {
        assert_eq!(unescape("a\\040b\\134\\012"), "a b\\\n");
        assert_eq!(unescape("end\\"), "end\\");
        assert_eq!(unescape("\\04"), "\\04");
        assert_eq!(unescape("\\09z\\ö"), "\\09z\\ö");
    }
}
