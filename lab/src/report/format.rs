//! Formatting of figures.

use crate::statistics::Spread;

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

/// `61,312`, for whole numbers.
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

/// A figure that may not have been measured.
pub fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), count)
}

/// Percent without decimals.
pub fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.0}%"))
}

/// `61,312 -2% +3%`: the median, and the distance of the lowest and the highest round from it.
pub fn with_spread(spread: Option<Spread>) -> String {
    let Some(spread) = spread else {
        return "-".into();
    };
    if spread.count < 2 || spread.median == 0.0 {
        return count(spread.median);
    }
    // Never below 0, so that no minus zero is printed.
    let (below, above) = (1.0 - spread.min / spread.median, spread.max / spread.median - 1.0);
    format!("{} -{:.0}% +{:.0}%", count(spread.median), 100.0 * below, 100.0 * above)
}

/// `1.31 1.28..1.35`.
pub fn ratio(spread: Option<Spread>) -> String {
    match spread {
        None => "-".into(),
        Some(spread) if spread.count < 2 => format!("{:.2}", spread.median),
        Some(spread) => format!("{:.2} {:.2}..{:.2}", spread.median, spread.min, spread.max),
    }
}

/// `8.0 GiB`, `128 MiB`.
pub fn bytes(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 40 => format!("{:.1} TiB", b as f64 / (1u64 << 40) as f64),
        b if b >= 1 << 30 => format!("{:.1} GiB", b as f64 / f64::from(1 << 30)),
        b if b >= 1 << 20 => format!("{:.0} MiB", b as f64 / f64::from(1 << 20)),
        b => format!("{:.0} KiB", b as f64 / 1024.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        assert_eq!(count(1_234_567.4), "1,234,567");
        assert_eq!((whole(18), whole(61_312)), ("18".into(), "61,312".into()));
        assert_eq!(
            (count(999.6), count(100.0), count(-4200.0)),
            ("1,000".into(), "100".into(), "-4,200".into())
        );
        assert_eq!((count(99.99), count(12.345), count(0.5)), ("100".into(), "12.3".into(), "0.50".into()));
        assert_eq!((count(0.0), count(0.0318)), ("0".into(), "0.032".into()));
        assert_eq!((count(f64::NAN), maybe(None)), ("-".into(), "-".into()));
    }

    #[test]
    fn spreads() {
        assert_eq!(with_spread(Spread::of([98.0, 100.0, 200.0, 100.0, 103.0])), "100 -2% +100%");
        assert_eq!(with_spread(Spread::of([5.0])), "5.00");
        assert_eq!(with_spread(Spread::of([100.0, 100.0])), "100 -0% +0%");
        assert_eq!(ratio(Spread::of([1.0, 2.0, 4.0])), "2.00 1.00..4.00");
    }

    #[test]
    fn sizes() {
        assert_eq!(
            (bytes(1 << 30), bytes(150 << 20), bytes(16_384)),
            ("1.0 GiB".into(), "150 MiB".into(), "16 KiB".into())
        );
    }
}
