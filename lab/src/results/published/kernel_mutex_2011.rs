//! One global mutex, and a limit that keeps most threads away from it.

use serde::Deserialize;

use super::{FIGURES, PublishedError, Title, check_claims, check_curve, invalid, study};

const NAME: &str = "kernel-mutex-2011";

/// "kernel_mutex problem cont. Or triple your throughput", 2011.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelMutex2011 {
    pub title: Title,
    pub server: String,
    pub at_256_threads: ByLimit,
    pub threads: Vec<u32>,
    /// Throughput without a limit, a figure for each number of threads.
    pub concurrency_0: Vec<f64>,
    /// Throughput with a limit of 8, from 8 threads on.
    pub concurrency_8_from_8_threads: Vec<f64>,
    pub claims: Vec<String>,
    /// What comments on the study ask for.
    pub asked_for_by_readers: Vec<String>,
}

/// Throughput by limit at one number of threads; 0 is no limit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByLimit {
    pub concurrency: Vec<u32>,
    pub throughput: Vec<f64>,
}

impl KernelMutex2011 {
    /// The threads of [`KernelMutex2011::at_256_threads`].
    pub const THREADS: u32 = 256;

    /// The figures included in the program.
    pub fn load() -> Self {
        Self::parse(FIGURES).expect("a test reads the file that was compiled in")
    }

    fn parse(text: &str) -> Result<Self, PublishedError> {
        let study: KernelMutex2011 = study(text, NAME)?;
        if !study.threads.is_sorted_by(|a, b| a < b) || !study.threads.contains(&Self::THREADS) {
            return Err(invalid(format!("{NAME}.threads must ascend and contain {}", Self::THREADS)));
        }
        let by_limit = &study.at_256_threads;
        if by_limit.concurrency.first() != Some(&0) || by_limit.concurrency.len() < 2 {
            return Err(invalid(format!("{NAME}.at_256_threads.concurrency must begin with 0")));
        }
        check_curve(&format!("{NAME}.at_256_threads"), &by_limit.throughput, by_limit.concurrency.len())?;
        check_curve(&format!("{NAME}.concurrency_0"), &study.concurrency_0, study.threads.len())?;
        let limited = study.threads.iter().filter(|threads| **threads >= 8).count();
        let name = format!("{NAME}.concurrency_8_from_8_threads");
        check_curve(&name, &study.concurrency_8_from_8_threads, limited)?;
        check_claims(NAME, &study.claims, 3)?;
        Ok(study)
    }

    /// The threads of [`KernelMutex2011::concurrency_8_from_8_threads`].
    pub fn threads_limited(&self) -> &[u32] {
        &self.threads[self.threads.len() - self.concurrency_8_from_8_threads.len()..]
    }

    /// The best limit against none, with 256 threads.
    pub fn gain(&self) -> f64 {
        let figures = &self.at_256_threads.throughput;
        figures.iter().copied().fold(0.0, f64::max) / figures[0]
    }

    /// The last point with the limit against its peak.
    pub fn flatness(&self) -> f64 {
        let figures = &self.concurrency_8_from_8_threads;
        figures[figures.len() - 1] / figures.iter().copied().fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_carried_is_sound_and_says_what_its_claims_say() {
        let study = KernelMutex2011::parse(FIGURES).unwrap();
        assert_eq!(format!("{:.1}", study.gain()), "2.8");
        assert_eq!(format!("{:.2}", study.flatness()), "0.92");
        assert_eq!(study.threads_limited()[0], 8);
        assert!(study.claims[0].starts_with("2.8 times") && study.claims[1].contains("0.92"));
    }

    #[test]
    fn a_spoilt_file_is_refused() {
        let spoilt = |from: &str, to: &str| {
            let text = FIGURES.replacen(from, to, 1);
            assert_ne!(text, FIGURES);
            KernelMutex2011::parse(&text).unwrap_err().to_string()
        };
        assert!(spoilt("11178.34, ", "").contains("concurrency_0"));
        assert!(spoilt("88046.72", "0.0").contains("must be positive"));
        assert!(spoilt("68369.02, 137999.96", "68369.02").contains("at_256_threads"));
    }
}
