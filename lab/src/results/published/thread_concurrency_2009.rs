//! Which limit is best, and what moves it.

use serde::Deserialize;

use super::{FIGURES, PublishedError, Title, check_claims, invalid, study};

const NAME: &str = "thread-concurrency-2009";

/// "More analysis of InnoDB Thread Concurrency", 2009.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadConcurrency2009 {
    pub title: Title,
    pub server: String,
    /// The limits; 0 is none.
    pub settings: Vec<u32>,
    pub workloads: Vec<String>,
    pub claims: Vec<String>,
}

impl ThreadConcurrency2009 {
    /// The best limit with one rollback segment, as the first claim says.
    pub const BEST: f64 = 16.0;
    /// The best limit once the rollback segment's mutex is split, as the second claim says; and that of the highest
    /// throughput, as the first does.
    pub const BEST_SPLIT: f64 = 24.0;
    /// What the best limit gains over none with 256 threads, as the third claim says.
    pub const GAIN: f64 = 1.15;

    /// The figures included in the program.
    pub fn load() -> Self {
        Self::parse(FIGURES).expect("a test reads the file that was compiled in")
    }

    fn parse(text: &str) -> Result<Self, PublishedError> {
        let study: ThreadConcurrency2009 = study(text, NAME)?;
        if study.settings.first() != Some(&0) || !study.settings.is_sorted_by(|a, b| a < b) {
            return Err(invalid(format!("{NAME}.settings must begin with 0 and ascend")));
        }
        check_claims(NAME, &study.claims, 4)?;
        Ok(study)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_carried_is_sound_and_has_the_figures_of_the_code() {
        let study = ThreadConcurrency2009::parse(FIGURES).unwrap();
        assert_eq!(study.settings, [0, 16, 24, 32]);
        let best = |figure: f64| format!("best setting {figure}");
        assert!(study.claims[0].contains(&best(ThreadConcurrency2009::BEST)), "{}", study.claims[0]);
        assert!(study.claims[1].contains(&best(ThreadConcurrency2009::BEST_SPLIT)), "{}", study.claims[1]);
        assert!(study.claims[2].contains("15%"), "{}", study.claims[2]);
    }

    #[test]
    fn a_spoilt_file_is_refused() {
        let text = FIGURES.replacen("[0, 16,", "[16, 0,", 1);
        assert!(ThreadConcurrency2009::parse(&text).unwrap_err().to_string().contains("ascend"));
    }
}
