//! The description of the machine, for the head of a report.

use std::fs;
use std::path::{Path, PathBuf};

use flifo_base::cpu_count;
use procfs::{CpuInfo, Current, Meminfo};

use crate::results::Machine;
use crate::support::mounts::mount_of;

/// Reads the description from the kernel. `data_dir` may not exist yet. Unknown values are `unknown`, or 0.
pub fn machine(data_dir: &Path) -> Machine {
    let known = |text: Option<String>| text.unwrap_or_else(|| "unknown".into());
    let kernel = rustix::system::uname();
    let kernel = format!("{} {}", kernel.sysname().to_string_lossy(), kernel.release().to_string_lossy());
    Machine {
        cpu_model: known(CpuInfo::current().ok().and_then(|cpus| model_of(&cpus))),
        cores: cpu_count() as u32,
        memory_bytes: Meminfo::current().map_or(0, |memory| memory.mem_total),
        kernel,
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

/// x86 says `model name`; ARM has none, and some others say `cpu`.
fn model_of(cpus: &CpuInfo) -> Option<String> {
    let model = cpus.get_field(0, "model name").or_else(|| cpus.get_field(0, "cpu"))?;
    Some(model.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use procfs::FromRead;

    use super::*;

    #[test]
    fn the_model_of_a_processor() {
        let model = |cpuinfo: &str| model_of(&CpuInfo::from_read(cpuinfo.as_bytes()).unwrap());
        let two =
            "processor\t: 0\nmodel name\t: Some(R)  CPU @ 2.50GHz\n\nprocessor\t: 1\nmodel name\t: Other\n";
        assert_eq!(model(two).as_deref(), Some("Some(R) CPU @ 2.50GHz"));
        assert_eq!(model("processor\t: 0\nBogoMIPS\t: 50\n"), None);
    }

    #[test]
    fn this_machine_says_something() {
        let this = machine(Path::new("not/there/yet"));
        assert!(this.cores > 0 && this.memory_bytes > 0, "{this:?}");
        assert!(this.kernel.starts_with("Linux "), "{this:?}");
        assert_ne!(this.file_system, "unknown", "{this:?}");
    }
}
