//! The results of `flifo experiment`: JSON, schema 1, explained in `docs/experiments.md`.
//!
//! An experiment is several runs, each with the layout of a sweep, and the study's claims with their verdicts. The rules
//! are those of [`crate::results`]. The claims are written for scripts: a reader judges them again from the runs.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::claims::Claim;
use super::file::{ResultsError, SCHEMA};
use super::json::{check_figures, pretty_json};
use super::machine::Machine;
use super::sweep::Results;
use crate::support::output::replace_file;

/// The value of [`ExperimentResults::kind`].
pub const KIND: &str = "experiment";

/// A study, repeated.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExperimentResults {
    /// Version of the layout, 1. A reader of schema 1 refuses any other.
    pub schema: u32,
    /// `experiment`; a sweep's file lacks this key.
    pub kind: String,
    /// The study's name, such as `flifo-2009`.
    pub experiment: String,
    /// How much of the study was run: `quick`, `default` or `full`.
    pub scale: String,
    /// The command as it was typed.
    pub command_line: String,
    /// Start of the experiment, UTC, as `2026-01-31T12:00:00Z`.
    pub started_at: String,
    /// Seconds from the start to the last cell, loading included.
    pub elapsed_s: f64,
    /// True if the experiment stopped before every cell had all its rounds.
    pub interrupted: bool,
    /// The machine and the program.
    pub machine: Machine,
    /// Its parts, in the order in which they ran.
    pub parts: Vec<Part>,
    /// The study's claims beside the figures here.
    pub claims: Vec<Claim>,
}

/// One run of an experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Part {
    /// The name of the part within its experiment, such as `1 rollback segment`.
    pub name: String,
    /// The run, in the layout of a sweep; its command line repeats this part alone.
    pub run: Option<Results>,
}

impl ExperimentResults {
    /// An experiment without parts.
    pub fn new(experiment: &str, scale: &str, command_line: String, started_at: String) -> Self {
        ExperimentResults {
            schema: SCHEMA,
            kind: KIND.into(),
            experiment: experiment.into(),
            scale: scale.into(),
            command_line,
            started_at,
            ..ExperimentResults::default()
        }
    }

    /// The run of the part with this name.
    pub fn run(&self, part: &str) -> Option<&Results> {
        self.parts.iter().find(|other| other.name == part)?.run.as_ref()
    }

    /// All runs.
    pub fn runs(&self) -> impl Iterator<Item = &Results> {
        self.parts.iter().filter_map(|part| part.run.as_ref())
    }

    /// Pretty JSON with a newline at its end.
    pub fn to_json(&self) -> String {
        pretty_json(self)
    }

    /// Reads what [`ExperimentResults::to_json`] wrote, in this or another version.
    pub fn from_json(json: &str) -> Result<Self, ResultsError> {
        let mut experiment: ExperimentResults = serde_json::from_str(json)?;
        if experiment.schema != SCHEMA {
            return Err(ResultsError::Schema(experiment.schema));
        }
        check_figures(&experiment)?;
        for run in experiment.parts.iter_mut().filter_map(|part| part.run.as_mut()) {
            *run = Results::from_json(&run.to_json())?;
        }
        Ok(experiment)
    }

    /// Writes the complete file.
    pub fn save(&self, path: &Path) -> Result<(), ResultsError> {
        Ok(replace_file(path, self.to_json().as_bytes())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{CellKey, Round, Settings};

    fn experiment() -> ExperimentResults {
        let mut run =
            Results::new(Machine::default(), Settings::default(), "flifo sweep".into(), "then".into());
        let key = CellKey { target: "engine".into(), threads: 1, ..CellKey::default() };
        run.cell_mut(&key).push(Round { throughput_per_s: 5.0, ..Round::default() });
        let mut experiment = ExperimentResults::new("flifo-2009", "quick", "flifo".into(), "now".into());
        experiment.parts.push(Part { name: "a".into(), run: Some(run) });
        experiment
    }

    #[test]
    fn what_is_saved_is_read_back_and_summaries_are_computed() {
        let saved = experiment();
        assert!(ExperimentResults::from_json(&saved.to_json()).unwrap() == saved);
        let spoilt =
            saved.to_json().replace("\"throughput_median_per_s\": 5.0", "\"throughput_median_per_s\": 9.0");
        assert_ne!(spoilt, saved.to_json());
        assert!(ExperimentResults::from_json(&spoilt).unwrap() == saved, "computed, not believed");
        assert_eq!(saved.run("a").unwrap().cells.len(), 1);
        assert!(saved.run("b").is_none());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let json = |from: &str, to: &str| {
            let text = experiment().to_json().replace(from, to);
            assert_ne!(text, experiment().to_json(), "{from}");
            ExperimentResults::from_json(&text)
        };
        assert!(matches!(json("\"schema\": 1", "\"schema\": 2"), Err(ResultsError::Schema(2))));
        assert!(json("\"threads\": 1", "\"threads\": 0").is_err());
        assert!(json("\"elapsed_s\": 0.0", "\"elapsed_s\": -1.0").is_err());
    }
}
