//! Figures of published studies, as data with their source, for comparison with a run's.
//!
//! `lab/published/results.toml` has a table for each study, and a module here has its type. A figure is as printed there.

pub mod buffer_pool_instances_2012;
mod flifo_2009;
pub mod kernel_mutex_2011;
pub mod linux_io_2012;
pub mod thread_concurrency_2009;

use serde::Deserialize;
use serde::de::DeserializeOwned;

pub use flifo_2009::{Flifo2009, PublishedCurve, VmStat};

pub(crate) const FIGURES: &str = include_str!("../../../published/results.toml");

/// Why the published figures cannot be used; only a change of the file can cause it.
#[derive(Debug, thiserror::Error)]
pub enum PublishedError {
    #[error("lab/published/results.toml: {0}")]
    Toml(#[from] toml::de::Error),
    #[error("lab/published/results.toml: {0}")]
    Invalid(String),
}

/// The title of a study, with the year of its publication: `NAME (DATE)`, whose date ends with the year.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Title {
    pub name: String,
    pub year: u32,
}

impl TryFrom<String> for Title {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parts = text.rsplit_once(" (").and_then(|(name, date)| Some((name, date.strip_suffix(')')?)));
        let year = parts.and_then(|(_, date)| date.rsplit(' ').next()?.parse().ok());
        match parts.zip(year) {
            Some(((name, _), year)) => Ok(Title { name: name.into(), year }),
            None => Err(format!("a title is 'NAME (DATE)' with a year at its end, not {text:?}")),
        }
    }
}

/// The table of a study in the file's text.
fn study<T: DeserializeOwned>(text: &str, name: &str) -> Result<T, PublishedError> {
    let mut file: toml::Table = toml::from_str(text)?;
    match file.remove(name) {
        Some(study) => Ok(study.try_into()?),
        None => Err(invalid(format!("there is no table {name}"))),
    }
}

fn invalid(what: impl Into<String>) -> PublishedError {
    PublishedError::Invalid(what.into())
}

/// Whether all figures are positive, and as many as `count`.
fn check_curve(name: &str, figures: &[f64], count: usize) -> Result<(), PublishedError> {
    if figures.len() != count {
        return Err(invalid(format!("{name}: one figure for each of {count} points")));
    }
    check_positive(name, figures)
}

fn check_positive(name: &str, figures: &[f64]) -> Result<(), PublishedError> {
    match figures.iter().all(|figure| figure.is_finite() && *figure > 0.0) {
        true => Ok(()),
        false => Err(invalid(format!("{name}: every figure must be positive"))),
    }
}

/// Whether there are as many claims as the code judges.
fn check_claims(name: &str, claims: &[String], count: usize) -> Result<(), PublishedError> {
    match claims.len() == count {
        true => Ok(()),
        false => Err(invalid(format!("{name}.claims: {count}, as the code knows them"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_ends_with_its_year() {
        let title = |text: &str| Title::try_from(text.to_owned());
        assert_eq!(title("A study (14 May 2009)"), Ok(Title { name: "A study".into(), year: 2009 }));
        assert_eq!(title("Or not? (2011)").unwrap().year, 2011);
        for wrong in ["A study", "A study (2009", "A study (May)", ""] {
            assert!(title(wrong).is_err(), "{wrong}");
        }
    }
}
