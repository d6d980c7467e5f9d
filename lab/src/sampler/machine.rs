//! The description of the machine, for the head of a report.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::mounts::mount_of;

/// The machine and the program, so that figures can be compared later.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    pub cpu_model: String,
    /// CPUs that this process may use.
    pub cores: u32,
    pub memory_bytes: u64,
    pub kernel: String,
    /// Type of the file system that holds the data directory, such as `ext4`.
    pub file_system: String,
    pub flifo_version: String,
}

impl Machine {
    /// Reads the description from the kernel. `data_dir` may not exist yet. Unknown values are `unknown`, or 0.
    pub fn detect(data_dir: &Path) -> Self {
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
        let machine = Machine::detect(Path::new("not/there/yet"));
        assert!(machine.cores > 0 && machine.memory_bytes > 0, "{machine:?}");
        assert!(machine.kernel.starts_with("Linux "), "{machine:?}");
        assert_ne!(machine.file_system, "unknown", "{machine:?}");
    }
}
