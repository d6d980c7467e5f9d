//! The storage under a path: file system, disk, and the disk's own description.
//!
//! From `/proc/self/mountinfo` to the device number, from there through `/sys/dev/block` to the whole disk. No call
//! here fails: unknown values stay empty.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, major, minor};

use crate::measure::sampler::existing;
use crate::results::io::Storage;
use crate::support::mounts::{Mount, mount_of};

/// `STATX_WRITE_ATOMIC`, Linux 6.11.
const WRITE_ATOMIC: u32 = 0x0001_0000;

/// Describes the storage under `path`, a directory, file or block device that may not exist yet. `file` is an open file
/// on it, if there is one: only a file reports the size of its atomic writes.
pub fn describe(path: &Path, file: Option<&File>) -> Storage {
    let mut storage = Storage { path: path.display().to_string(), ..Storage::default() };
    let below = Below::of(path);
    if let Some(mount) = &below.mount {
        storage.filesystem.clone_from(&mount.filesystem);
        storage.mount_options.clone_from(&mount.options);
    }
    let atomic = file.map_or_else(|| below.raw.as_deref().and_then(atomic_by_path), atomic_of_file);
    if let Some((min, max)) = atomic {
        storage.atomic_write_min_bytes = Some(min);
        storage.atomic_write_max_bytes = Some(max);
    }
    if let Some(disk) = &below.disk {
        describe_disk(disk, &mut storage);
    }
    storage
}

/// What carries a path.
struct Below {
    /// `None` for a block device.
    mount: Option<Mount>,
    /// The path, if it is a block device itself.
    raw: Option<PathBuf>,
    /// The whole disk's directory under `/sys/devices`; none for memory, a network, an overlay.
    disk: Option<PathBuf>,
}

impl Below {
    fn of(path: &Path) -> Below {
        let path = existing(path);
        if let Some(device) = block_device(&path) {
            return Below { mount: None, raw: Some(path), disk: whole_disk(&device) };
        }
        let id = statx(&path, StatxFlags::MNT_ID).map(|stat| stat.stx_mnt_id);
        let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mount = mount_of(&mountinfo, &path, id);
        let disk = mount.as_ref().and_then(|mount| {
            // Btrfs makes its own device numbers up; the mounted device is a disk all the same.
            whole_disk(&mount.device).or_else(|| whole_disk(&block_device(Path::new(&mount.source))?))
        });
        Below { mount, raw: None, disk }
    }
}

/// `MAJOR:MINOR` of a block device's node.
fn block_device(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    let device = metadata.rdev();
    metadata.file_type().is_block_device().then(|| format!("{}:{}", major(device), minor(device)))
}

/// A partition's directory lies in its disk's, and says that it is one.
fn whole_disk(device: &str) -> Option<PathBuf> {
    let found = fs::canonicalize(Path::new("/sys/dev/block").join(device)).ok()?;
    if found.join("partition").exists() { found.parent().map(Path::to_owned) } else { Some(found) }
}

fn name(disk: &Path) -> Option<String> {
    Some(disk.file_name()?.to_string_lossy().into_owned())
}

fn describe_disk(disk: &Path, storage: &mut Storage) {
    let text = |attribute: &str| {
        fs::read_to_string(disk.join(attribute)).map(|text| text.trim().to_owned()).unwrap_or_default()
    };
    let number = |attribute: &str| text(attribute).parse::<u64>().ok();
    storage.device = name(disk).unwrap_or_default();
    storage.device_model = model(disk, text);
    // The size is in units of 512 bytes, whatever the disk's own are.
    storage.device_bytes = number("size").map(|sectors| sectors * 512);
    storage.scheduler = chosen(&text("queue/scheduler"));
    storage.rotational = number("queue/rotational").map(|flag| flag != 0);
    storage.write_cache = text("queue/write_cache");
    storage.requests_max = number("queue/nr_requests");
    storage.logical_block_bytes = number("queue/logical_block_size");
    storage.physical_block_bytes = number("queue/physical_block_size");
}

/// Vendor and model if known; otherwise the disk's components.
fn model(disk: &Path, text: impl Fn(&str) -> String) -> String {
    let model = text("device/model");
    if !model.is_empty() {
        // A virtio or PCI vendor is a bare number, and says nothing.
        let vendor = Some(text("device/vendor")).filter(|vendor| !vendor.starts_with("0x"));
        return format!("{} {model}", vendor.unwrap_or_default()).trim().to_owned();
    }
    for (attribute, what) in
        [("loop/backing_file", "loop over"), ("dm/name", "device mapper"), ("md/level", "md")]
    {
        let value = text(attribute);
        if !value.is_empty() {
            return format!("{what} {value}");
        }
    }
    let driver = fs::canonicalize(disk.join("device/driver")).ok();
    driver.and_then(|driver| name(&driver)).unwrap_or_default()
}

/// The word in brackets: `mq-deadline` of `none [mq-deadline] kyber`.
fn chosen(schedulers: &str) -> String {
    let inside = schedulers.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(schedulers, |(word, _)| word).trim().to_owned()
}

fn statx(path: &Path, requested: StatxFlags) -> Option<Statx> {
    let stat = rustix::fs::statx(CWD, path, AtFlags::empty(), requested).ok()?;
    (stat.stx_mask & requested.bits() != 0).then_some(stat)
}

fn atomic_by_path(path: &Path) -> Option<(u64, u64)> {
    atomic(statx(path, StatxFlags::from_bits_retain(WRITE_ATOMIC))?)
}

fn atomic_of_file(file: &File) -> Option<(u64, u64)> {
    let requested = StatxFlags::from_bits_retain(WRITE_ATOMIC);
    atomic(rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, requested).ok()?)
}

/// Least and most; a kernel that knows the question answers 0 for a file that cannot.
fn atomic(stat: Statx) -> Option<(u64, u64)> {
    let (min, max) = (u64::from(stat.stx_atomic_write_unit_min), u64::from(stat.stx_atomic_write_unit_max));
    (stat.stx_mask & WRITE_ATOMIC != 0 && max > 0).then_some((min, max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_in_force() {
        assert_eq!(chosen("none [mq-deadline] kyber bfq"), "mq-deadline");
        assert_eq!(chosen("[none]"), "none");
        assert_eq!(chosen("none"), "none");
        assert_eq!(chosen(""), "");
    }

    /// A made-up `/sys/devices`, since a machine has one disk of one kind.
    #[test]
    fn disks_of_several_kinds() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("sda/device/model", "MODEL 9  \n");
        put("sda/device/vendor", "ATA     \n");
        put("sda/size", "2048\n");
        put("sda/queue/scheduler", "none [bfq]\n");
        put("sda/queue/rotational", "1\n");
        put("sda/queue/write_cache", "write back\n");
        put("nvme0n1/device/model", "Fast 1TB\n");
        put("nvme0n1/device/vendor", "0x144d\n");
        put("loop3/loop/backing_file", "/var/disk.img\n");
        put("dm-0/dm/name", "vg-data\n");
        put("bare/size", "many\n");
        let described = |disk: &str| {
            let mut storage = Storage::default();
            describe_disk(&dir.path().join(disk), &mut storage);
            storage
        };
        let disk = described("sda");
        assert_eq!((disk.device.as_str(), disk.device_model.as_str()), ("sda", "ATA MODEL 9"));
        assert_eq!((disk.device_bytes, disk.rotational), (Some(1 << 20), Some(true)));
        assert_eq!((disk.scheduler.as_str(), disk.write_cache.as_str()), ("bfq", "write back"));
        assert_eq!(described("nvme0n1").device_model, "Fast 1TB");
        assert_eq!(described("loop3").device_model, "loop over /var/disk.img");
        assert_eq!(described("dm-0").device_model, "device mapper vg-data");
        let bare = described("bare");
        assert_eq!((bare.device_bytes, bare.rotational, bare.device_model.as_str()), (None, None, ""));
    }

    #[test]
    fn this_machine_s_storage_is_sane() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("file")).unwrap();
        let storage = describe(dir.path(), Some(&file));
        assert!(!storage.filesystem.is_empty() && !storage.mount_options.is_empty(), "{storage:?}");
        assert_eq!(describe(&dir.path().join("not/there/yet"), None).filesystem, storage.filesystem);
        if !storage.device.is_empty() {
            assert!(Path::new("/sys/block").join(&storage.device).exists(), "{storage:?}");
            assert!(
                storage.device_bytes.is_some() && storage.logical_block_bytes >= Some(512),
                "{storage:?}"
            );
            assert!(super::super::blocklayer::Counters::read(&storage.device).is_some());
        }
        if let (Some(min), Some(max)) = (storage.atomic_write_min_bytes, storage.atomic_write_max_bytes) {
            assert!(min.is_power_of_two() && min <= max, "{storage:?}");
        }
    }

    #[test]
    fn memory_has_no_disk() {
        let storage = describe(Path::new("/proc"), None);
        assert_eq!((storage.filesystem.as_str(), storage.device.as_str()), ("proc", ""));
        assert_eq!(storage.device_bytes, None);
    }
}
