//! The adapter for benches that are scripts: rounds as text become rows.
//!
//! A line is a figure of a round, with a tab between its six parts: workload, connections (or threads, requests; may be
//! empty), figure (empty: throughput), variant, unit, value. The n-th line of a variant pairs with the n-th of the base.

use crate::{Key, Row, statistics::Spread};

/// All values of one key, in the order of their rounds.
struct Series {
    key: Key,
    unit: String,
    values: Vec<f64>,
}

/// A row for each figure, and the paired ratio of each variant to the base. The error names the line.
pub fn rows(text: &str, base: &str) -> Result<Vec<Row>, String> {
    let mut all: Vec<Series> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let (key, unit, value) = parsed(line).map_err(|problem| format!("line {}: {problem}", number + 1))?;
        match all.iter_mut().find(|series| series.key == key) {
            Some(series) => series.values.push(value),
            None => all.push(Series { key, unit, values: vec![value] }),
        }
    }
    let spread = |series: &Series| {
        let spread = Spread::of(series.values.iter().copied())?;
        Some(series.key.clone().spread(spread, series.unit.clone()))
    };
    let ratio = |series: &Series| {
        let key = Key { variant: base.to_owned(), ..series.key.clone() };
        let other = all.iter().find(|other| other.key == key && series.key.variant != base)?;
        let ratios = series.values.iter().zip(&other.values).map(|(value, base)| value / base);
        series.key.clone().relative_to(base).paired(ratios)
    };
    Ok(all.iter().filter_map(ratio).chain(all.iter().filter_map(spread)).collect())
}

fn parsed(line: &str) -> Result<(Key, String, f64), String> {
    let parts: Vec<&str> = line.split('\t').collect();
    let [workload, scale, figure, variant, unit, value] = parts[..] else {
        return Err(format!("{} parts, and a figure has six, with tabs between them", parts.len()));
    };
    let scale = match scale {
        "" => None,
        number => Some(number.parse().map_err(|_| format!("{number:?} is no number of clients"))?),
    };
    let value = value.parse().map_err(|_| format!("{value:?} is no figure"))?;
    let key = Key { scale, ..Key::of(workload).figure(figure).variant(variant) };
    Ok((key, unit.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_pair_in_their_order() {
        let lines: Vec<String> = [(10.0, 20.0), (30.0, 30.0), (5.0, 20.0)]
            .iter()
            .map(|(base, own)| format!("w\t16\t\tfio\tIOPS\t{base}\nw\t16\t\tflifo\tIOPS\t{own}"))
            .collect();
        let rows = rows(&lines.join("\n"), "fio").unwrap();
        let found: Vec<_> = rows.iter().map(|row| (row.key.variant.as_str(), row.median, row.n)).collect();
        assert_eq!(
            found,
            [("flifo", Some(2.0), Some(3)), ("fio", Some(10.0), Some(3)), ("flifo", Some(20.0), Some(3))]
        );
        assert_eq!((rows[0].low, rows[0].high, rows[0].unit.as_str()), (Some(1.0), Some(4.0), "ratio"));
    }

    #[test]
    fn what_is_no_round_is_named() {
        let problem = |text: &str| rows(text, "fio").unwrap_err();
        assert_eq!(
            problem("w\t1\t\tfio\tIOPS\t1\nw\t1"),
            "line 2: 2 parts, and a figure has six, with tabs between them"
        );
        assert_eq!(problem("w\tmany\t\tfio\tIOPS\t1"), "line 1: \"many\" is no number of clients");
        assert_eq!(problem("w\t1\t\tfio\tIOPS\tfast"), "line 1: \"fast\" is no figure");
    }
}
