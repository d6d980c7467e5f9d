//! Figures as text.

use crate::record::Row;

/// `61,312`; below 100 with decimals for two or three significant figures.
pub fn count(value: f64) -> String {
    match value.abs() {
        v if !v.is_finite() => "-".into(),
        v if v >= 99.95 => grouped(value),
        v if v >= 9.995 => format!("{value:.1}"),
        0.0 => "0".into(),
        v if v < 0.0995 => format!("{value:.3}"),
        _ => format!("{value:.2}"),
    }
}

/// A whole number: `16`, `1,024`.
pub fn whole(value: u64) -> String {
    grouped(value as f64)
}

/// Thousands set apart by commas.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

/// The unit in which a row is shown, and how many of the row's units it has: nanoseconds become microseconds,
/// milliseconds or seconds.
pub fn shown_unit(row: &Row) -> (&str, f64) {
    let value = row.median.or(row.high).unwrap_or(0.0);
    match row.unit.as_str() {
        "ns" if value >= 1e9 => ("s", 1e9),
        "ns" if value >= 1e6 => ("ms", 1e6),
        "ns" if value >= 1e3 => ("us", 1e3),
        "ratio" => ("", 1.0),
        unit => (unit, 1.0),
    }
}

/// A row's figure, without its unit. `1.55 (1.44 to 1.88)`; with `=` if the interval of a ratio spans 1; `13.1 to 13.5`
/// where there is no median.
pub fn figure(row: &Row) -> String {
    let (_, divisor) = shown_unit(row);
    let one = |value: f64| match value / divisor {
        value if row.is_ratio() && value < 9.995 => format!("{value:.2}"),
        value if value == f64::INFINITY => "inf".into(),
        value if value.fract() == 0.0 => grouped(value),
        value => count(value),
    };
    let ends = row.low.zip(row.high).map(|(low, high)| format!("{} to {}", one(low), one(high)));
    let mut text = match (row.median.map(one), ends) {
        (Some(median), Some(ends)) if row.is_ratio() => format!("{median} ({ends})"),
        (Some(median), _) => median,
        (None, Some(ends)) => ends,
        (None, None) => "-".into(),
    };
    if row.spans_one() {
        text += " =";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Key;

    #[test]
    fn counts() {
        assert_eq!(count(1_234_567.4), "1,234,567");
        assert_eq!(
            (count(999.6), count(100.0), count(-4200.0)),
            ("1,000".into(), "100".into(), "-4,200".into())
        );
        assert_eq!((count(99.99), count(12.345), count(0.5)), ("100".into(), "12.3".into(), "0.50".into()));
        assert_eq!((count(0.0), count(0.0318)), ("0".into(), "0.032".into()));
        assert_eq!(count(f64::NAN), "-");
        assert_eq!((whole(16), whole(1024)), ("16".into(), "1,024".into()));
    }

    #[test]
    fn a_ratio_whose_interval_spans_one_has_a_mark() {
        let ratio = |ends: (f64, f64), median: f64| Row {
            key: Key::of("w").relative_to("stock"),
            median: Some(median),
            low: Some(ends.0),
            high: Some(ends.1),
            ..Row::default()
        };
        assert_eq!(figure(&ratio((0.9, 1.1), 1.02)), "1.02 (0.90 to 1.10) =");
        assert_eq!(figure(&ratio((1.0, 1.1), 1.02)), "1.02 (1.00 to 1.10) =");
        assert_eq!(figure(&ratio((1.01, 1.1), 1.02)), "1.02 (1.01 to 1.10)");
        assert_eq!(figure(&ratio((0.8, 0.99), 0.9)), "0.90 (0.80 to 0.99)");
        assert_eq!(figure(&ratio((2.48, f64::INFINITY), 20.685)), "20.7 (2.48 to inf)");
    }

    #[test]
    fn other_figures_have_no_mark() {
        let row = Row { median: Some(61_312.4), low: Some(0.5), high: Some(70_000.0), ..Row::default() };
        assert_eq!(figure(&row), "61,312");
        assert_eq!(
            figure(&Row { median: None, low: Some(13.1), high: Some(13.5), ..row.clone() }),
            "13.1 to 13.5"
        );
        assert_eq!(figure(&Row::default()), "-");
        let time = Row { median: Some(20_800.0), low: None, high: None, unit: "ns".into(), ..row };
        assert_eq!((figure(&time).as_str(), shown_unit(&time).0), ("20.8", "us"));
        let alone = Row { key: Key::of("w").relative_to("a"), median: Some(0.93), ..Row::default() };
        assert_eq!(figure(&alone), "0.93");
    }
}
