//! Published figures, as data with their source, for comparison with a run's.

pub mod linux_io_2012;

use serde::Deserialize;

pub(crate) const FIGURES: &str = include_str!("../../../published/results.toml");

/// The curve that motivates this project: FLIFO against the unmodified server.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flifo2009 {
    pub source: String,
    pub year: u32,
    pub server: String,
    pub workload: String,
    /// Facts that the source does not state.
    pub unsaid: Vec<String>,
    pub threads: Vec<u32>,
    pub flifo: PublishedCurve,
    pub original: PublishedCurve,
}

/// One line of the published picture, and a line of vmstat.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedCurve {
    pub label: String,
    pub transactions_per_s: Vec<f64>,
    pub context_switches_per_s: f64,
    pub run_queue: u32,
    pub cpu_user: f64,
    pub cpu_system: f64,
    pub cpu_idle: f64,
}

/// Why the published figures cannot be used; only a change of the file can cause it.
#[derive(Debug, thiserror::Error)]
pub enum PublishedError {
    #[error("lab/published/results.toml: {0}")]
    Toml(#[from] toml::de::Error),
    #[error("lab/published/results.toml: {0}")]
    Invalid(String),
}

impl Flifo2009 {
    /// The figures included in the program.
    pub fn load() -> Self {
        Self::parse(FIGURES).expect("a test reads the file that was compiled in")
    }

    fn parse(text: &str) -> Result<Self, PublishedError> {
        #[derive(Deserialize)]
        struct File {
            #[serde(rename = "flifo-2009")]
            flifo_2009: Flifo2009,
        }
        let file: File = toml::from_str(text)?;
        file.flifo_2009.validated()
    }

    fn validated(self) -> Result<Self, PublishedError> {
        let invalid = |what: String| Err(PublishedError::Invalid(what));
        if self.threads.is_empty() || !self.threads.is_sorted_by(|a, b| a < b) {
            return invalid("flifo-2009.threads must ascend".into());
        }
        for (name, curve) in [("flifo", &self.flifo), ("original", &self.original)] {
            if curve.transactions_per_s.len() != self.threads.len() {
                return invalid(format!("flifo-2009.{name}: one figure for each number of threads"));
            }
            let mut figures = curve.transactions_per_s.iter().chain([&curve.context_switches_per_s]);
            if !figures.all(|figure| figure.is_finite() && *figure > 0.0) {
                return invalid(format!("flifo-2009.{name}: every figure must be positive"));
            }
            let cpu = curve.cpu_user + curve.cpu_system + curve.cpu_idle;
            if (cpu - 100.0).abs() > 1.0 {
                return invalid(format!("flifo-2009.{name}: CPU shares add up to {cpu}, not to 100"));
            }
        }
        Ok(self)
    }
}

impl PublishedCurve {
    /// Highest throughput.
    pub fn peak_per_s(&self) -> f64 {
        self.transactions_per_s.iter().copied().fold(f64::MIN, f64::max)
    }

    /// Throughput at the last point.
    pub fn last_per_s(&self) -> f64 {
        self.transactions_per_s[self.transactions_per_s.len() - 1]
    }

    /// Throughput at the last point against the peak.
    pub fn flatness(&self) -> f64 {
        self.last_per_s() / self.peak_per_s()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Cases;

    #[test]
    fn the_file_carried_is_sound_and_says_what_was_printed() {
        let published = Flifo2009::parse(FIGURES).unwrap();
        let ratio = published.flifo.last_per_s() / published.original.last_per_s();
        assert_eq!(format!("{ratio:.1}"), "2.5");
        assert_eq!(format!("{:.3}", published.flifo.flatness()), "0.887");
        assert_eq!(format!("{:.3}", published.original.flatness()), "0.387");
    }

    #[test]
    fn a_spoilt_file_is_refused_with_the_reason() {
        let spoil = |from: &str, to: &str| {
            let text = FIGURES.replacen(from, to, 1);
            assert_ne!(text, FIGURES);
            Flifo2009::parse(&text).unwrap_err().to_string()
        };
        let mut cases = Cases::default();
        cases.add("a figure is missing", spoil("186.22, ", ""));
        cases.add("a figure is negative", spoil("186.22", "-1.0"));
        cases.add("threads descend", spoil("[1, 2,", "[2, 1,"));
        cases.add("CPU shares", spoil("cpu_idle = 8", "cpu_idle = 80"));
        cases.add("an unknown key", spoil("source =", "sauce =").lines().last().unwrap_or_default());
        cases.check("published-errors");
    }
}
