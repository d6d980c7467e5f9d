//! Rows of records as a Markdown table, with a line above it that says where the figures come from.

use crate::format::{figure, shown_unit, whole};
use crate::{Bounds, Key, Record, Row, Wanted};

/// A longer command is cut; the record has all of it.
const COMMAND_MAX: usize = 70;

/// What a table's rows or columns distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// The load or operation.
    Workload,
    /// Connections, threads or requests.
    Scale,
    /// The setting; of a ratio with its base.
    Variant,
    /// What was measured.
    Figure,
    /// The machine.
    Machine,
    /// The record's name.
    Record,
}

/// Which rows of a record stand where in a table.
#[derive(Clone, Copy)]
pub struct Table {
    /// Which rows are shown.
    pub select: fn(&Key) -> bool,
    /// What the labels at the left distinguish.
    pub rows: &'static [Axis],
    /// What the columns distinguish.
    pub columns: &'static [Axis],
    /// Whether lines above the table say where its figures come from: not if it follows a table of the same records.
    pub has_source: bool,
}

/// One line of a [`list`]: a label and a row of a record.
pub struct Item<'a> {
    /// What the row shows.
    pub label: &'a str,
    /// The record.
    pub record: &'a Record,
    /// The row's key.
    pub key: Key,
}

impl Axis {
    fn of(self, record: &Record, key: &Key) -> String {
        match self {
            Axis::Workload => key.workload.clone(),
            Axis::Scale => key.scale.map_or_else(String::new, |scale| whole(scale.into())),
            Axis::Variant => match &key.base {
                Some(base) if key.variant.is_empty() => format!("/ {base}"),
                Some(base) => format!("{} / {base}", key.variant),
                None => key.variant.clone(),
            },
            Axis::Figure => key.figure.clone(),
            Axis::Machine => record.machine.cpu.clone(),
            Axis::Record => record.bench.clone(),
        }
    }
}

/// The labels of a row or a column on each of its axes.
type Labels = Vec<String>;

impl Table {
    /// Renders the rows that the table selects of all records. The error says what is missing.
    pub fn render(&self, records: &[&Record]) -> Result<String, String> {
        let grid = Grid::new(self, records)?;
        let mut lines = Lines::default();
        if self.has_source {
            lines.sources(&used(&grid.found));
        }
        let targets: Vec<Option<String>> = grid.rows.iter().map(|row| grid.target(row)).collect();
        let has_targets = targets.iter().any(Option::is_some);
        let mut head = grid.label_head();
        if has_targets {
            head.push("target".into());
        }
        let label_columns = head.len();
        head.extend(grid.columns.iter().map(|column| grid.column_head(column)));
        lines.head(&head, label_columns);
        for (row, target) in grid.rows.iter().zip(targets) {
            let mut cells = grid.shown(row);
            if has_targets {
                cells.push(target.unwrap_or_default());
            }
            for column in &grid.columns {
                cells.push(grid.cell(row, column)?);
            }
            lines.row(&cells);
        }
        Ok(lines.text)
    }
}

/// The selected rows of all records, by the labels of the table's rows and columns.
struct Grid<'a> {
    table: &'a Table,
    found: Vec<(&'a Record, &'a Row)>,
    rows: Vec<Labels>,
    columns: Vec<Labels>,
    /// Whether a label axis has a column: not if no row has a label on it.
    is_shown: Vec<bool>,
}

impl<'a> Grid<'a> {
    fn new(table: &'a Table, records: &[&'a Record]) -> Result<Grid<'a>, String> {
        let of_record = |record: &&'a Record| {
            let record: &'a Record = record;
            record.rows.iter().map(move |row| (record, row))
        };
        let selected = |(_, row): &(&Record, &Row)| (table.select)(&row.key);
        let found: Vec<(&Record, &Row)> = records.iter().flat_map(of_record).filter(selected).collect();
        if found.is_empty() {
            let names: Vec<&str> = records.iter().map(|record| record.bench.as_str()).collect();
            return Err(format!("{} has no row for this table", names.join(", ")));
        }
        let rows = unique(found.iter().map(|found| labels(table.rows, found)));
        let mut columns = unique(found.iter().map(|found| labels(table.columns, found)));
        if table.columns == [Axis::Scale] {
            columns.sort_by_key(|labels| labels[0].replace(',', "").parse::<u32>().unwrap_or(0));
        }
        let has_label = |at: usize| rows.iter().any(|labels| !labels[at].is_empty());
        let is_shown = (0..table.rows.len()).map(has_label).collect();
        Ok(Grid { table, found, rows, columns, is_shown })
    }

    /// The unit of all figures, if they have the same one.
    fn unit(&self) -> Option<&str> {
        common_unit(self.found.iter().map(|(_, row)| *row))
    }

    /// The unit of all figures of a column, if they have the same one.
    fn column_unit(&self, column: &Labels) -> Option<&str> {
        let here = self.found.iter().filter(|found| labels(self.table.columns, found) == *column);
        self.unit().or_else(|| common_unit(here.map(|(_, row)| *row)))
    }

    /// The first target of a row's figures.
    fn target(&self, row: &Labels) -> Option<String> {
        let mut of_row = self.found.iter().filter(|found| labels(self.table.rows, found) == *row);
        of_row.find_map(|(record, row)| Some(target_text(record.target(&row.key)?.wanted, row)))
    }

    /// The labels of a row on the axes that have a column.
    fn shown(&self, labels: &[String]) -> Labels {
        let shown = labels.iter().zip(&self.is_shown).filter(|(_, is_shown)| **is_shown);
        shown.map(|(label, _)| label.clone()).collect()
    }

    /// The headings of the labels; the first one has the unit, and what the columns count.
    fn label_head(&self) -> Labels {
        let scale = self.found[0].0.scale;
        let heading =
            |axis: &Axis| if *axis == Axis::Scale { scale.name().to_owned() } else { String::new() };
        let mut head = self.shown(&self.table.rows.iter().map(heading).collect::<Labels>());
        let is_by_scale = self.table.columns == [Axis::Scale];
        let by = if is_by_scale { format!("by {}", scale.name()) } else { String::new() };
        if let Some(first) = head.first_mut() {
            *first = joined(&[self.unit().unwrap_or_default().to_owned(), by]);
        }
        head
    }

    fn column_head(&self, column: &Labels) -> String {
        match (self.table.columns, self.column_unit(column)) {
            ([], _) => "figure".into(),
            (_, Some(unit)) if self.unit().is_none() => joined(column) + ", " + unit,
            _ => joined(column),
        }
    }

    fn cell(&self, row: &Labels, column: &Labels) -> Result<String, String> {
        let mut here = self.found.iter().filter(|found| {
            labels(self.table.rows, found) == *row && labels(self.table.columns, found) == *column
        });
        match (here.next(), here.next()) {
            (None, _) => Ok(String::new()),
            (Some((record, row)), None) => Ok(cell(record, row, self.column_unit(column).is_none())),
            (Some((_, row)), Some(_)) => Err(format!("two figures in one cell: {}", row.key)),
        }
    }
}

fn labels(axes: &[Axis], (record, row): &(&Record, &Row)) -> Labels {
    axes.iter().map(|axis| axis.of(record, &row.key)).collect()
}

/// A table of single rows, out of several records. The error names a row that is missing.
pub fn list(items: &[Item<'_>]) -> Result<String, String> {
    let mut found = Vec::new();
    for item in items {
        let row = item.record.row(&item.key);
        let row = row.ok_or_else(|| format!("figures/{}.json has no row {}", item.record.bench, item.key))?;
        found.push((item.record, row));
    }
    let mut table = Lines::default();
    table.head(&["", "at", "relative to", "figure", "CPU"].map(str::to_owned), 3);
    for (item, (record, row)) in items.iter().zip(found) {
        let at = row.key.scale.map_or_else(String::new, |scale| {
            let name = record.scale.name();
            let name = if scale == 1 { name.trim_end_matches('s') } else { name };
            format!("{} {name}", whole(scale.into()))
        });
        let base = row.key.base.clone().unwrap_or_default();
        table.row(&[item.label.to_owned(), at, base, cell(record, row, true), record.machine.cpu.clone()]);
    }
    Ok(table.text)
}

/// The records behind the rows, with the rows of each.
fn used<'a>(found: &[(&'a Record, &'a Row)]) -> Vec<(&'a Record, Vec<&'a Row>)> {
    let mut used: Vec<(&Record, Vec<&Row>)> = Vec::new();
    for (record, row) in found {
        match used.iter_mut().find(|(other, _)| std::ptr::eq(*other, *record)) {
            Some((_, rows)) => rows.push(row),
            None => used.push((record, vec![row])),
        }
    }
    used
}

/// `**1.18 (1.11 to 1.20)** ns`: bold if it misses its target.
fn cell(record: &Record, row: &Row, with_unit: bool) -> String {
    let mut text = figure(row);
    if record.target(&row.key).is_some_and(|target| !target.is_met(row)) {
        text = format!("**{text}**");
    }
    let (unit, _) = shown_unit(row);
    if with_unit && !unit.is_empty() { format!("{text} {unit}") } else { text }
}

/// `>= 0.95`, `<= 20.0 s`.
fn target_text(wanted: Wanted, row: &Row) -> String {
    if row.is_ratio() {
        return wanted.text();
    }
    let (sign, bound) = wanted.parts();
    let bound = Row { median: Some(bound), low: None, high: None, ..row.clone() };
    format!("{sign} {} {}", figure(&bound), shown_unit(&bound).0).trim_end().to_owned()
}

/// The unit of all figures, if they have the same one; times in nanoseconds are shown in several.
fn common_unit<'a>(mut rows: impl Iterator<Item = &'a Row>) -> Option<&'a str> {
    let unit = rows.next().filter(|row| !row.is_ratio())?.unit.as_str();
    let is_common = !["ns", ""].contains(&unit) && rows.all(|row| !row.is_ratio() && row.unit == unit);
    is_common.then_some(unit)
}

fn unique(all: impl Iterator<Item = Labels>) -> Vec<Labels> {
    let mut unique = Vec::new();
    for labels in all {
        if !unique.contains(&labels) {
            unique.push(labels);
        }
    }
    unique
}

fn joined(labels: &[String]) -> String {
    labels.iter().filter(|label| !label.is_empty()).cloned().collect::<Vec<_>>().join(", ")
}

/// The machine, the date and the commit of a run, its rounds, the meaning of its ends.
fn source(record: &Record, rows: &[&Row]) -> String {
    let mut parts = vec![record.machine.text()];
    parts.extend(record.settings.values().cloned());
    parts.extend(record.date.as_ref().map(|date| date.split('T').next().unwrap_or(date).to_owned()));
    parts.extend(record.commit.as_ref().map(|commit| format!("commit {commit}")));
    parts.extend(rounds(rows));
    let ends = |bounds| rows.iter().any(|row| row.is_ratio() && row.low.is_some() && row.bounds == bounds);
    if ends(Bounds::Interval95) {
        parts.push("95% interval".into());
    }
    if ends(Bounds::Range) {
        parts.push("lowest to highest round".into());
    }
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// The command, or as many of its first words as fit.
fn shortened(command: &str) -> String {
    if command.len() <= COMMAND_MAX {
        return command.to_owned();
    }
    let fits = |end: &usize| *end < COMMAND_MAX;
    let end = command.match_indices(' ').map(|(end, _)| end).take_while(fits).last().unwrap_or(0);
    format!("{} ...", &command[..end])
}

/// `6 rounds`, `5 to 40 rounds`.
fn rounds(rows: &[&Row]) -> Option<String> {
    let numbers = || rows.iter().filter_map(|row| row.n);
    let (least, most) = (numbers().min()?, numbers().max()?);
    Some(match (least, most) {
        (1, 1) => "1 round".into(),
        _ if least == most => format!("{most} rounds"),
        _ => format!("{least} to {most} rounds"),
    })
}

/// A table while it is put together.
#[derive(Default)]
pub(crate) struct Lines {
    pub(crate) text: String,
}

impl Lines {
    /// A line for each record, and an empty one. One command is shown once.
    pub(crate) fn sources(&mut self, sources: &[(&Record, Vec<&Row>)]) {
        let line = |(at, (record, rows)): (usize, &(&Record, Vec<&Row>))| {
            let name = if sources.len() > 1 { format!("{}: ", record.bench) } else { String::new() };
            let is_shown = sources[..at].iter().any(|(other, _)| other.command == record.command);
            let command =
                if is_shown { String::new() } else { format!(": `{}`", shortened(&record.command)) };
            name + &source(record, rows) + &command
        };
        let lines: Vec<String> = sources.iter().enumerate().map(line).collect();
        self.text += &(lines.join("\\\n") + "\n\n");
    }

    /// The last columns, which have figures, are aligned to the right.
    fn head(&mut self, cells: &[String], labels: usize) {
        self.row(cells);
        let rules: Vec<&str> = (0..cells.len()).map(|at| if at < labels { "---" } else { "--:" }).collect();
        self.text += &format!("|{}|\n", rules.join("|"));
    }

    /// The line below the head.
    pub(crate) fn rule(&mut self, rule: &str) {
        self.text += &format!("{rule}\n");
    }

    pub(crate) fn row(&mut self, cells: &[String]) {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        self.text += &format!("| {} |\n", cells.join(" | ")).replace("|  |", "| |").replace("|  |", "| |");
    }
}
