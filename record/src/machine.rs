//! The machine of a run, so that figures can be compared later.

use std::fs;

use flifo_base::cpu_count;
use serde::{Deserialize, Serialize};

/// A machine. Unknown values are empty, or 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The CPU's model, as `/proc/cpuinfo` names it.
    pub cpu: String,
    /// CPUs that the process may use.
    pub cores: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// `Linux 6.18.44`.
    pub kernel: String,
    /// Whether the kernel runs on the hardware itself.
    pub host: Host,
}

/// What the kernel runs on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Host {
    /// A hypervisor.
    #[serde(rename = "virtual machine")]
    Virtual,
    /// Hardware.
    #[serde(rename = "bare metal")]
    Bare,
    /// The system does not report it.
    #[default]
    #[serde(rename = "unknown")]
    Unknown,
}

impl Machine {
    /// Reads the description from the kernel.
    pub fn detect() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (cpus, line) = (read("/proc/cpuinfo"), |path: &str| read(path).trim().to_owned());
        Machine {
            cpu: model(&cpus).unwrap_or_default(),
            cores: cpu_count() as u32,
            memory_bytes: memory_bytes(&read("/proc/meminfo")).unwrap_or(0),
            kernel: format!("{} {}", line("/proc/sys/kernel/ostype"), line("/proc/sys/kernel/osrelease"))
                .trim()
                .to_owned(),
            host: host(&cpus),
        }
    }

    /// `AMD EPYC, 2 CPUs, virtual machine`: what tells machines apart in a table.
    pub fn text(&self) -> String {
        let mut parts = vec![self.cpu.clone()];
        if self.cores > 0 {
            parts.push(format!("{} CPU{}", self.cores, if self.cores == 1 { "" } else { "s" }));
        }
        parts.push(match self.host {
            Host::Virtual => "virtual machine".into(),
            Host::Bare => "bare metal".into(),
            Host::Unknown => String::new(),
        });
        parts.retain(|part| !part.is_empty());
        parts.join(", ")
    }
}

/// The first value of a key of `/proc/cpuinfo`.
fn value<'a>(cpuinfo: &'a str, key: &str) -> Option<&'a str> {
    let pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    pairs.into_iter().find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
}

/// x86 says `model name`; ARM has none, and some others say `cpu`.
fn model(cpuinfo: &str) -> Option<String> {
    let model = value(cpuinfo, "model name").or_else(|| value(cpuinfo, "cpu"))?;
    Some(model.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// x86 has a flag for a hypervisor; without flags it is unknown.
fn host(cpuinfo: &str) -> Host {
    match value(cpuinfo, "flags") {
        Some(flags) if flags.split_whitespace().any(|flag| flag == "hypervisor") => Host::Virtual,
        Some(_) => Host::Bare,
        None => Host::Unknown,
    }
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let kib: u64 = value(meminfo, "MemTotal")?.trim_end_matches("kB").trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_by_its_files() {
        let two = "processor\t: 0\nmodel name\t: Some(R)  CPU @ 2.50GHz\nflags\t\t: fpu hypervisor\n\nprocessor\t: 1\nmodel name\t: Other\n";
        assert_eq!((model(two).as_deref(), host(two)), (Some("Some(R) CPU @ 2.50GHz"), Host::Virtual));
        assert_eq!(host("flags : fpu\n"), Host::Bare);
        let other = "processor\t: 0\nBogoMIPS\t: 50\n";
        assert_eq!((model(other), host(other)), (None, Host::Unknown));
        assert_eq!(memory_bytes("MemTotal:       24684084 kB\nMemFree: 1 kB\n"), Some(24_684_084 << 10));
    }

    #[test]
    fn this_machine_says_something() {
        let machine = Machine::detect();
        assert!(machine.cores > 0 && machine.memory_bytes > 0, "{machine:?}");
        assert!(machine.kernel.starts_with("Linux "), "{machine:?}");
    }

    #[test]
    fn unknown_parts_are_left_out() {
        let machine = Machine { cpu: "Intel Xeon".into(), cores: 2, ..Machine::default() };
        assert_eq!(machine.text(), "Intel Xeon, 2 CPUs");
    }
}
