//! The machine of a run.

use serde::{Deserialize, Serialize};

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
