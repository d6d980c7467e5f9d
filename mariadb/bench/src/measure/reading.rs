//! What the server counts, and the moment at which it did.
//!
//! A reading may take long in a server that collapses: the reader queues for a CPU like every thread. So the
//! server notes its own clock before and after it adds up its counters, in the same packet. The middle is taken for the moment, and a wide
//! bracket is read again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use flifo_mariadb::mysql::prelude::Queryable;
use flifo_mariadb::mysql::{Conn, from_row};

use crate::product::Product;

/// A bracket this wide is good enough for a window of seconds.
const BRACKET_US: i64 = 20_000;
/// Another attempt is begun within this time only.
const ATTEMPTS: Duration = Duration::from_millis(200);

/// The server's own number of what purge has still to go through.
const HISTORY: &str = "INNODB_HISTORY_LIST_LENGTH";

/// The counters at one moment, as the server's clock tells it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Reading {
    begun_us: i64,
    ended_us: i64,
    /// Upper case, as the server has it.
    counters: BTreeMap<String, u64>,
}

impl Reading {
    /// The narrowest of a few. `counters` are upper case, without a quote in them.
    pub(crate) fn take(
        admin: &mut Conn,
        product: &Product,
        counters: &[&str],
    ) -> flifo_mariadb::mysql::Result<Reading> {
        let begun = Instant::now();
        let mut best = Reading::ask(admin, product, counters)?;
        while best.width_us() > BRACKET_US && begun.elapsed() < ATTEMPTS {
            let other = Reading::ask(admin, product, counters)?;
            if other.width_us() < best.width_us() {
                best = other;
            }
        }
        Ok(best)
    }

    fn ask(admin: &mut Conn, product: &Product, counters: &[&str]) -> flifo_mariadb::mysql::Result<Reading> {
        let own = ["QUESTIONS", "THREADS_CONNECTED", HISTORY];
        let names: Vec<String> = counters.iter().chain(&own).map(|name| format!("'{name}'")).collect();
        let mut results = admin.query_iter((product.status_query)(&names.join(", ")))?;
        let mut rows = Vec::new();
        while let Some(result) = results.iter() {
            for row in result {
                let row: (String, String) = from_row(row?);
                rows.push(row);
            }
        }
        Ok(Reading::of(rows))
    }

    /// What is no number is left out.
    pub(super) fn of(rows: Vec<(String, String)>) -> Reading {
        let mut reading = Reading::default();
        for (name, value) in rows {
            match name.as_str() {
                "begun" => reading.begun_us = microseconds(&value),
                "ended" => reading.ended_us = microseconds(&value),
                _ => {
                    let name = name.to_ascii_uppercase();
                    value.parse().ok().and_then(|value| reading.counters.insert(name, value));
                }
            }
        }
        reading
    }

    fn width_us(&self) -> i64 {
        self.ended_us - self.begun_us
    }

    /// From the middle of an earlier one to the middle of this.
    pub(crate) fn seconds_since(&self, earlier: &Reading) -> f64 {
        let twice = |reading: &Reading| (reading.begun_us + reading.ended_us) as f64;
        (twice(self) - twice(earlier)) / 2e6
    }

    /// How far the moments may be off, both together, as a share of the time between.
    pub(crate) fn uncertainty_since(&self, earlier: &Reading) -> f64 {
        (self.width_us() + earlier.width_us()) as f64 / 2e6 / self.seconds_since(earlier)
    }

    pub(crate) fn get(&self, name: &str) -> Option<u64> {
        self.counters.get(name).copied()
    }

    pub(crate) fn names(&self, prefix: &str) -> impl Iterator<Item = String> {
        self.counters.keys().filter(move |name| name.starts_with(prefix)).cloned()
    }

    pub(crate) fn counted_since(&self, earlier: &Reading, name: &str) -> u64 {
        self.get(name).unwrap_or(0).saturating_sub(earlier.get(name).unwrap_or(0))
    }

    /// Undo logs that were left for purge since, or, below zero, that it caught up with. `None` if the server does not tell.
    pub(crate) fn history_since(&self, earlier: &Reading) -> Option<i64> {
        Some(self.get(HISTORY)? as i64 - earlier.get(HISTORY)? as i64)
    }
}

/// `1795288367.514655`, to the digit.
fn microseconds(text: &str) -> i64 {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    format!("{seconds}{fraction:0<6.6}").parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(begun: &str, ended: &str, updates: &str) -> Reading {
        let rows = [("begun", begun), ("COM_UPDATE", updates), ("FLIFO_POLICY", "quantum"), ("ended", ended)];
        Reading::of(rows.map(|(name, value)| (name.into(), value.into())).into())
    }

    #[test]
    fn times_and_counts_between_two_readings() {
        let first = reading("1795288367.500000", "1795288367.600000", "1000");
        let last = reading("1795288375.54", "1795288375.560000", "9000");
        assert_eq!(last.seconds_since(&first), 8.0);
        assert!((last.uncertainty_since(&first) - 0.06 / 8.0).abs() < 1e-9);
        assert_eq!(last.counted_since(&first, "COM_UPDATE"), 8000);
        assert_eq!((last.get("FLIFO_POLICY"), last.counted_since(&first, "COM_SELECT")), (None, 0));
    }

    #[test]
    fn history_grows_and_shrinks() {
        let long = Reading::of(vec![(HISTORY.into(), "5000".into())]);
        let short = Reading::of(vec![(HISTORY.into(), "200".into())]);
        assert_eq!((long.history_since(&short), short.history_since(&long)), (Some(4800), Some(-4800)));
        assert_eq!(long.history_since(&Reading::default()), None);
    }

    #[test]
    fn fractions_of_any_length() {
        assert_eq!(microseconds("12.000001"), 12_000_001);
        assert_eq!(microseconds("12.5"), 12_500_000);
        assert_eq!(microseconds("12"), 12_000_000);
        assert_eq!(microseconds("12.1234567"), 12_123_456);
        assert_eq!(microseconds(""), 0);
    }
}
