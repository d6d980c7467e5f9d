//! The settings that follow from a measurement.
//!
//! Every advice is based on figures of this run. A setting that was not measured gets no advice, but the option to add.
//! If neither of two settings did better in every round, no difference is claimed.

mod rules;

use std::fmt::Write as _;

use crate::report::Style;
use crate::report::table::table;
use crate::results::io::IoResults;

/// A setting, for flifo's engine and for InnoDB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// The name in flifo.
    pub setting: &'static str,
    /// `None`: this run is inconclusive.
    pub value: Option<String>,
    /// The name in InnoDB.
    pub innodb_setting: &'static str,
    pub innodb_value: Option<String>,
    /// The figures behind the advice; without a value, what to measure.
    pub because: String,
}

impl Advice {
    fn new(
        setting: &'static str,
        value: &str,
        innodb_setting: &'static str,
        innodb: &str,
        because: String,
    ) -> Self {
        let (value, innodb_value) = (Some(value.to_owned()), Some(innodb.to_owned()));
        Advice { setting, value, innodb_setting, innodb_value, because }
    }

    fn not_measured(setting: &'static str, innodb_setting: &'static str, missing: &str) -> Self {
        let because = format!("not measured: {missing}");
        Advice { setting, value: None, innodb_setting, innodb_value: None, because }
    }
}

/// All settings that matter, in the order in which to decide them.
pub fn advise(results: &IoResults) -> Vec<Advice> {
    rules::Evidence::of(results).all()
}

/// What must be said before any advice; nothing for a whole run.
pub(crate) fn caveat(results: &IoResults) -> Option<&'static str> {
    match (results.interrupted, results.settings.quick) {
        (true, _) => Some("The run was interrupted: the advice is based on the measurements so far."),
        (_, true) => {
            Some("Measured in short (--quick): a first guess. Measure longer before you set anything.")
        }
        _ => None,
    }
}

/// The advice for a terminal.
pub fn text(results: &IoResults, style: Style) -> String {
    let mut table = table(style);
    table.set_header(["flifo", "InnoDB", "because"]);
    for advice in advise(results) {
        let set = |name: &str, value: &Option<String>| match value {
            Some(value) => format!("{name}\n= {value}"),
            None => format!("{name}\n-"),
        };
        table.add_row([
            set(advice.setting, &advice.value),
            set(advice.innodb_setting, &advice.innodb_value),
            advice.because,
        ]);
    }
    let mut text = String::from("Advice, and the figures behind it\n");
    if let Some(caveat) = caveat(results) {
        let _ = writeln!(text, "{caveat}");
    }
    let _ = writeln!(text, "{table}");
    text
}
