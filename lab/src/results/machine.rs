//! The machine of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The machine and the program, so that figures can be compared later.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Machine {
    /// Model of the CPU as the kernel names it; `unknown` if it does not.
    pub cpu_model: String,
    /// CPUs that this process may use.
    pub cores: u32,
    /// Memory of the machine, bytes.
    pub memory_bytes: u64,
    /// System and release.
    pub kernel: String,
    /// Type of the file system that holds the data, such as `ext4`.
    pub file_system: String,
    /// Version of the program.
    pub flifo_version: String,
}
