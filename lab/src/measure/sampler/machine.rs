//! The description of the machine, for the head of a report.

use std::fs;
use std::path::{Path, PathBuf};

use crate::results::Machine;
use crate::support::mounts::mount_of;

/// Reads the description from the kernel. `data_dir` may not exist yet. Unknown values are `unknown`, or 0.
pub fn machine(data_dir: &Path) -> Machine {
    let known =
        |text: Option<String>| text.filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".into());
    let machine = flifo_record::Machine::detect();
    Machine {
        cpu_model: known(Some(machine.cpu)),
        cores: machine.cores,
        memory_bytes: machine.memory_bytes,
        kernel: machine.kernel,
        file_system: known(file_system(data_dir)),
        flifo_version: env!("CARGO_PKG_VERSION").into(),
    }
}

/// The nearest ancestor that exists, absolute: the data directory is made there.
pub(crate) fn existing(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.ancestors().find_map(|ancestor| ancestor.canonicalize().ok()).unwrap_or(absolute)
}

fn file_system(data_dir: &Path) -> Option<String> {
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mount_of(&mountinfo, &existing(data_dir), None).map(|mount| mount.filesystem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_says_something() {
        let this = machine(Path::new("not/there/yet"));
        assert!(this.cores > 0 && this.memory_bytes > 0, "{this:?}");
        assert!(this.kernel.starts_with("Linux "), "{this:?}");
        assert_ne!(this.file_system, "unknown", "{this:?}");
    }
}
