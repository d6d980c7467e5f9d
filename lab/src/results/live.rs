//! One line of `flifo stat --live`: what a database counted between two readings.

use serde::Serialize;

use super::series::{Point, Reading};

/// The time between two readings, and what was counted in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct LiveLine {
    /// Seconds between the readings.
    pub(crate) elapsed_s: f64,
    /// Capacity of the redo log, bytes.
    pub(crate) redo_capacity_bytes: Option<u64>,
    /// The counts of this time, and the gauges at its end. `at_s` is the age of the open database.
    #[serde(flatten)]
    pub(crate) point: Point,
}

impl LiveLine {
    /// Between two readings, each with the age of the open database in seconds.
    pub(crate) fn between((before, from_s): (&Reading, f64), (after, to_s): (&Reading, f64)) -> Self {
        LiveLine {
            elapsed_s: to_s - from_s,
            redo_capacity_bytes: after.get("redo_capacity_bytes"),
            point: Point { at_s: to_s, ..after.since(before) },
        }
    }

    /// JSON in one line.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain data with string keys is always JSON")
    }
}
