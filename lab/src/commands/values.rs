//! Parsers of option values that several commands have.

use std::ops::RangeInclusive;

use flifo_admission::Policy;

/// Parses a number within a range; `what` names the value in the error.
pub(crate) fn number(text: &str, what: &str, possible: RangeInclusive<u32>) -> Result<u32, String> {
    let (least, most) = (possible.start(), possible.end());
    match text.parse::<u32>() {
        Ok(number) if possible.contains(&number) => Ok(number),
        _ => Err(format!("{what} must be a number from {least} to {most}")),
    }
}

/// Parses a number of rounds.
pub fn rounds(text: &str) -> Result<u32, String> {
    number(text, "rounds", 1..=1_000)
}

/// Parses the name of a policy.
pub fn policy(text: &str) -> Result<Policy, String> {
    text.parse().map_err(|error: flifo_admission::ConfigError| error.to_string())
}

/// Parses a time in seconds.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.05..=3_600.0).contains(&seconds) => Ok(seconds),
        _ => Err("seconds must be a number from 0.05 to 3600".into()),
    }
}
