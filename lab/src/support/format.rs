//! Formatting of figures.

pub use flifo_record::format::{count, whole};

use super::statistics::Spread;

/// `1 cell`, `2 cells`.
pub fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
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

/// `1.31 (1.28 to 1.35)`.
pub fn with_range(spread: Spread) -> String {
    if spread.count < 2 {
        return format!("{:.2} (one round)", spread.median);
    }
    format!("{:.2} ({:.2} to {:.2})", spread.median, spread.min, spread.max)
}

/// `1.31 (1.28 to 1.35) times as fast as fifo`, or that the rounds do not agree on which is faster.
pub fn compared(gain: Spread, other: &str) -> String {
    let range = with_range(gain);
    let doubt =
        if gain.count > 1 && gain.min <= 1.0 && gain.max >= 1.0 { " (no clear difference)" } else { "" };
    format!("{range} times as fast as {other}{doubt}")
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
    fn a_figure_that_is_missing_is_a_dash() {
        assert_eq!((maybe(None), maybe(Some(12.345))), ("-".into(), "12.3".into()));
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
