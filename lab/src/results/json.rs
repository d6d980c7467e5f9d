//! Writing results as JSON, and the check of what is read.

use serde::Serialize;
use serde_json::{Number, Value};

use super::file::ResultsError;

/// The maximum of any figure of a real machine; higher values in a file are rejected.
const FIGURE_MAX: f64 = 1e18;

/// JSON for people and scripts, with a newline at its end.
pub(crate) fn pretty_json(results: &impl Serialize) -> String {
    let mut json = serde_json::to_string_pretty(results).expect("plain data with string keys is always JSON");
    json.push('\n');
    json
}

/// What no run writes would take a page for its digits, or give the axes of a picture no end: every figure of `results`
/// is 0 or more, and possible. A seed is no figure.
pub(crate) fn check_figures(results: &impl Serialize) -> Result<(), ResultsError> {
    fn impossible<'v>(key: &'v str, value: &'v Value) -> Option<(&'v str, &'v Number)> {
        let is_possible = |figure: &Number| figure.as_f64().is_none_or(|f| (0.0..=FIGURE_MAX).contains(&f));
        match value {
            Value::Number(figure) => (key != "seed" && !is_possible(figure)).then_some((key, figure)),
            Value::Array(values) => values.iter().find_map(|value| impossible(key, value)),
            Value::Object(values) => values.iter().find_map(|(key, value)| impossible(key, value)),
            _ => None,
        }
    }
    match impossible("", &serde_json::to_value(results)?) {
        Some((key, figure)) => Err(ResultsError::Figure(format!("{key} is {figure}, which cannot be"))),
        None => Ok(()),
    }
}
