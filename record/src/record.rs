//! The schema of `figures/*.json`: one bench, one machine, one run.
//!
//! Keys may be added. A key that is renamed or dropped needs a new [`SCHEMA`], and all files are converted.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::claims::Claim;
use crate::machine::Machine;
use crate::statistics::{Interval, Spread, Verdict};
use crate::{Error, Result};

/// The version of the layout.
pub const SCHEMA: u32 = 1;

/// Everything that one run of a bench recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The bench's name, which is the file's without `.json`.
    pub bench: String,
    /// The command that repeats the run.
    pub command: String,
    /// The commit that was measured, as `git describe --always --dirty` names it; `None` if unknown.
    pub commit: Option<String>,
    /// When the run began, UTC, as `2026-01-31T12:00:00Z`; `None` if unknown.
    pub date: Option<String>,
    /// The machine that was measured.
    pub machine: Machine,
    /// What [`Key::scale`] counts.
    pub scale: Scale,
    /// What else describes the run: versions, sizes, distributions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// The figures, in the order in which tables show them.
    pub rows: Vec<Row>,
    /// The figures to reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Target>,
    /// The claims of a published study, with their verdicts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
    /// What a reader of the figures should know, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What the number of a row's clients counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Connections of clients.
    #[default]
    Connections,
    /// Threads that call a library.
    Threads,
    /// I/Os in progress.
    Requests,
}

impl Scale {
    /// `connections`, `threads`, `requests`.
    pub fn name(self) -> &'static str {
        match self {
            Scale::Connections => "connections",
            Scale::Threads => "threads",
            Scale::Requests => "requests",
        }
    }
}

/// What identifies a figure within a record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The load, or the operation.
    pub workload: String,
    /// Connections, threads or requests at once ([`Record::scale`]); `None` if the figure has no such number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<u32>,
    /// The setting that was compared: a policy, a store, a plugin; empty if there is one setting only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
    /// What was measured; empty: throughput, or the time of the operation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub figure: String,
    /// For a ratio, the variant that divides; the rounds of both are paired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

/// One figure, with its spread over the rounds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What was measured.
    #[serde(flatten)]
    pub key: Key,
    /// The median of the rounds; `None` if only the ends are known.
    #[serde(with = "number")]
    pub median: Option<f64>,
    /// The lower end, see [`Bounds`].
    #[serde(with = "number")]
    pub low: Option<f64>,
    /// The upper end.
    #[serde(with = "number")]
    pub high: Option<f64>,
    /// What `low` and `high` are.
    pub bounds: Bounds,
    /// Rounds, or pairs of rounds; `None` if unknown.
    pub n: Option<u32>,
    /// The unit of the three figures; `ratio` for a ratio.
    pub unit: String,
}

/// The meaning of a row's two ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bounds {
    /// The lowest and the highest round.
    #[default]
    #[serde(rename = "range")]
    Range,
    /// The 95% interval of the median.
    #[serde(rename = "95%")]
    Interval95,
}

/// A figure to reach.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// The row that is judged.
    #[serde(flatten)]
    pub key: Key,
    /// What the row's median should be.
    pub wanted: Wanted,
}

/// A bound on a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wanted {
    /// This or more.
    AtLeast(f64),
    /// More than this.
    MoreThan(f64),
    /// This or less.
    AtMost(f64),
    /// Less than this.
    LessThan(f64),
}

impl Wanted {
    /// Whether a figure reaches the target.
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Wanted::AtLeast(bound) => value >= bound,
            Wanted::MoreThan(bound) => value > bound,
            Wanted::AtMost(bound) => value <= bound,
            Wanted::LessThan(bound) => value < bound,
        }
    }

    /// The bound, and its sign as in `>= 0.95`.
    pub fn parts(self) -> (&'static str, f64) {
        match self {
            Wanted::AtLeast(bound) => (">=", bound),
            Wanted::MoreThan(bound) => (">", bound),
            Wanted::AtMost(bound) => ("<=", bound),
            Wanted::LessThan(bound) => ("<", bound),
        }
    }

    /// `>= 0.95`, `< 1`.
    pub fn text(self) -> String {
        let (sign, bound) = self.parts();
        format!("{sign} {bound}")
    }
}

impl Key {
    /// The key of a workload without scale, variant, figure and base.
    pub fn of(workload: impl Into<String>) -> Key {
        Key { workload: workload.into(), ..Key::default() }
    }

    /// The same at a number of connections, threads or requests.
    #[must_use]
    pub fn at(self, scale: u32) -> Key {
        Key { scale: Some(scale), ..self }
    }

    /// The same of a variant.
    #[must_use]
    pub fn variant(self, variant: impl Into<String>) -> Key {
        Key { variant: variant.into(), ..self }
    }

    /// Another figure of the same.
    #[must_use]
    pub fn figure(self, figure: impl Into<String>) -> Key {
        Key { figure: figure.into(), ..self }
    }

    /// The ratio of the same to a base.
    #[must_use]
    pub fn relative_to(self, base: impl Into<String>) -> Key {
        Key { base: Some(base.into()), ..self }
    }

    /// The row of a spread: the median, the lowest and the highest round.
    pub fn spread(self, spread: Spread, unit: impl Into<String>) -> Row {
        Row {
            key: self,
            median: Some(spread.median),
            low: Some(spread.min),
            high: Some(spread.max),
            bounds: Bounds::Range,
            n: u32::try_from(spread.count).ok(),
            unit: unit.into(),
        }
    }

    /// The row of a paired ratio: its median and 95% interval; the lowest and the highest ratio if there are too few
    /// rounds for an interval. `None` if no round has both sides.
    pub fn paired(self, ratios: impl IntoIterator<Item = f64>) -> Option<Row> {
        let interval = Interval::of(ratios)?;
        let (bounds, (low, high)) = match interval.bounds {
            Some(ends) => (Bounds::Interval95, ends),
            None => (Bounds::Range, interval.range),
        };
        Some(Row {
            key: self,
            median: Some(interval.median),
            low: Some(low),
            high: Some(high),
            bounds,
            n: u32::try_from(interval.count).ok(),
            unit: "ratio".into(),
        })
    }
}

impl Row {
    /// Whether the row is a paired ratio.
    pub fn is_ratio(&self) -> bool {
        self.key.base.is_some()
    }

    /// What the 95% interval of the ratio shows.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(self.low.zip(self.high).filter(|_| self.is_ratio() && self.bounds == Bounds::Interval95))
    }

    /// Whether both ends are known and lie on the two sides of 1, so that the ratio shows no difference.
    pub fn spans_one(&self) -> bool {
        self.is_ratio() && self.low.zip(self.high).is_some_and(|(low, high)| low <= 1.0 && high >= 1.0)
    }
}

impl Target {
    /// Whether the row reaches the target: its median, or the worse end where there is no median.
    pub fn is_met(&self, row: &Row) -> bool {
        let values = row.median.map_or([row.low, row.high], |median| [Some(median), None]);
        values.into_iter().flatten().all(|value| self.wanted.is_met(value))
    }
}

impl Record {
    /// A record of a run that begins now on this machine, without rows.
    pub fn begin(bench: &str, command: impl Into<String>, scale: Scale) -> Record {
        Record {
            schema: SCHEMA,
            bench: bench.into(),
            command: command.into(),
            commit: crate::place::commit(),
            date: Some(crate::date::utc_now()),
            machine: Machine::detect(),
            scale,
            ..Record::default()
        }
    }

    /// The row of this key.
    pub fn row(&self, key: &Key) -> Option<&Row> {
        self.rows.iter().find(|row| row.key == *key)
    }

    /// The target of this key.
    pub fn target(&self, key: &Key) -> Option<&Target> {
        self.targets.iter().find(|target| target.key == *key)
    }

    /// Adds a target if the record has a row of its key.
    pub fn want(&mut self, key: Key, wanted: Wanted) {
        if self.row(&key).is_some() {
            self.targets.push(Target { key, wanted });
        }
    }

    /// Reads a file. Fails if it is no JSON, of another schema, or has figures that cannot be.
    pub fn read(path: &Path) -> Result<Record> {
        let text = fs::read_to_string(path).map_err(Error::read(path))?;
        Record::parse(&text).map_err(|problem| Error::Record { path: path.to_owned(), problem })
    }

    fn parse(text: &str) -> std::result::Result<Record, String> {
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        let head: Head = serde_json::from_str(text).map_err(|error| format!("no record: {error}"))?;
        if head.schema != SCHEMA {
            return Err(format!("schema {}, this version reads schema {SCHEMA}", head.schema));
        }
        let record: Record = serde_json::from_str(text).map_err(|error| format!("no record: {error}"))?;
        record.check()?;
        Ok(record)
    }

    /// What no bench writes: two rows of one key, ends in the wrong order, targets without a row.
    fn check(&self) -> std::result::Result<(), String> {
        for (at, row) in self.rows.iter().enumerate() {
            if self.rows[..at].iter().any(|other| other.key == row.key) {
                return Err(format!("two rows of {}", row.key));
            }
            if row.low.zip(row.high).is_some_and(|(low, high)| low > high) {
                return Err(format!("the row of {} has a low above its high", row.key));
            }
        }
        match self.targets.iter().find(|target| self.row(&target.key).is_none()) {
            Some(target) => Err(format!("a target without a row: {}", target.key)),
            None => Ok(()),
        }
    }

    /// The record as JSON: a line for each row, so that git shows what changed.
    pub fn to_json(&self) -> String {
        let line = |value: &dyn Fn() -> serde_json::Result<String>| {
            value().expect("plain data with string keys is always JSON")
        };
        let head = Record { rows: Vec::new(), targets: Vec::new(), ..self.clone() };
        let mut text = line(&|| serde_json::to_string_pretty(&head));
        let list = |lines: Vec<String>| format!("[\n    {}\n  ]", lines.join(",\n    "));
        if !self.rows.is_empty() {
            let rows = self.rows.iter().map(|row| line(&|| serde_json::to_string(row))).collect();
            text = text.replacen("\"rows\": []", &format!("\"rows\": {}", list(rows)), 1);
        }
        if !self.targets.is_empty() {
            let targets = self.targets.iter().map(|target| line(&|| serde_json::to_string(target))).collect();
            let end = text.rfind('}').expect("an object ends");
            let targets = format!(",\n  \"targets\": {}\n}}", list(targets));
            text.replace_range(text[..end].trim_end().len().., &targets);
        }
        text + "\n"
    }

    /// Replaces the file, as a whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let temporary = path.with_extension(format!("json.{}.tmp", std::process::id()));
        let written = fs::write(&temporary, self.to_json()).and_then(|()| fs::rename(&temporary, path));
        written.map_err(|source| {
            let _ = fs::remove_file(&temporary);
            Error::Write { path: path.to_owned(), source }
        })
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.workload)?;
        for (name, value) in [("variant", &self.variant), ("figure", &self.figure)] {
            if !value.is_empty() {
                write!(f, ", {name} {value:?}")?;
            }
        }
        self.base.iter().try_for_each(|base| write!(f, ", base {base:?}"))?;
        self.scale.iter().try_for_each(|scale| write!(f, ", scale {scale}"))
    }
}

/// A figure that may be unknown (`null`) or infinite (`"inf"`), as where the base did nothing in a round.
mod number {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) if value.is_finite() => serializer.serialize_f64(*value),
            Some(value) if *value == f64::INFINITY => serializer.serialize_str("inf"),
            _ => serializer.serialize_none(),
        }
    }

    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Text(String),
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
        match Option::<Written>::deserialize(deserializer)? {
            None => Ok(None),
            Some(Written::Number(value)) => Ok(Some(value)),
            Some(Written::Text(text)) if text == "inf" => Ok(Some(f64::INFINITY)),
            Some(Written::Text(text)) => Err(D::Error::custom(format!("{text:?} is no figure"))),
        }
    }
}
