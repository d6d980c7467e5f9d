//! The study's published figures.

use serde::Deserialize;

use super::{FIGURES, PublishedError, Title, check_claims, check_positive, study};

const NAME: &str = "linux-io-2012";

/// "MySQL Performance: Linux I/O and Fusion-io", 2012.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinuxIo2012 {
    pub title: Title,
    pub server: String,
    pub tool: String,
    pub io_processes: Vec<u32>,
    pub block_sizes: Vec<u32>,
    pub workloads: Vec<String>,
    pub access: Vec<String>,
    pub file_modes: Vec<String>,
    pub filesystems: Vec<String>,
    pub claims: Vec<String>,
    pub raw_device_max_iops: RawIops,
    pub raw_device_max_mb_s: RawMegabytes,
    pub one_file_ext4: OneFileExt4,
    pub one_file_xfs: OneFileXfs,
}

/// Highest I/Os per second of the raw device.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawIops {
    pub read_4k: f64,
    pub read_16k: f64,
    pub write_4k: f64,
    pub write_16k: f64,
    pub mixed_4k: f64,
    pub mixed_16k: f64,
}

/// Highest MB per second of the raw device.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawMegabytes {
    pub read: f64,
    pub write: f64,
    pub mixed: f64,
}

/// Highest I/Os per second of one file on ext4.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneFileExt4 {
    pub read_4k: f64,
    pub read_16k: f64,
    pub write_direct_4k: f64,
    pub write_direct_16k: f64,
}

/// I/Os per second of one file on XFS.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneFileXfs {
    pub write_4k_4_processes: f64,
    pub write_4k_16_processes: f64,
}

impl LinuxIo2012 {
    /// The figures included in the program.
    pub fn load() -> Self {
        Self::parse(FIGURES).expect("a test reads the file that was compiled in")
    }

    fn parse(text: &str) -> Result<Self, PublishedError> {
        let study: LinuxIo2012 = study(text, NAME)?;
        let (raw, ext4, xfs) = (&study.raw_device_max_iops, &study.one_file_ext4, &study.one_file_xfs);
        let figures = [
            raw.read_4k,
            raw.read_16k,
            raw.write_4k,
            raw.write_16k,
            raw.mixed_4k,
            raw.mixed_16k,
            study.raw_device_max_mb_s.read,
            study.raw_device_max_mb_s.write,
            study.raw_device_max_mb_s.mixed,
            ext4.read_4k,
            ext4.read_16k,
            ext4.write_direct_4k,
            ext4.write_direct_16k,
            xfs.write_4k_4_processes,
            xfs.write_4k_16_processes,
        ];
        check_positive(NAME, &figures)?;
        check_claims(NAME, &study.claims, 3)?;
        Ok(study)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Cases;

    #[test]
    fn the_file_carried_is_sound() {
        let study = LinuxIo2012::parse(FIGURES).unwrap();
        assert_eq!(study.io_processes, [1, 4, 16, 64, 128, 256]);
        assert_eq!(study.one_file_ext4.write_direct_4k, 15_000.0);
    }

    #[test]
    fn a_spoilt_file_is_refused_with_the_reason() {
        let spoil = |from: &str, to: &str| {
            let text = FIGURES.replacen(from, to, 1);
            assert_ne!(text, FIGURES);
            LinuxIo2012::parse(&text).unwrap_err().to_string()
        };
        let mut cases = Cases::default();
        cases.add("negative", spoil("write_4k_4_processes = 40000", "write_4k_4_processes = -1"));
        let unknown = spoil("write_direct_16k", "write_direkt_16k");
        cases.add("an unknown key", unknown.lines().next().unwrap_or_default());
        cases.add("four claims", spoil("  \"8 files come", "  \"a\", \"8 files come"));
        cases.check("published-errors-linux-io-2012");
    }
}
