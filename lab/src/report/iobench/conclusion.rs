//! A run in a few sentences.

use super::view::{Panel, best, count_of_files, iops, is_raw, name, panels, ratio, size, with_carriers};
use crate::results::io::{IoCell, IoResults};
use crate::support::format::{count, with_range};

/// A conclusion, and its subject.
pub(crate) struct Conclusion {
    pub(crate) about: String,
    pub(crate) sentence: String,
}

/// One for each panel.
pub(crate) fn conclusions(results: &IoResults) -> Vec<Conclusion> {
    let conclude = |panel: &Panel<'_>| Conclusion {
        about: panel.heading(),
        sentence: format!("{}{}", most(panel), files(panel)),
    };
    panels(results).iter().map(conclude).collect()
}

/// `Reads a second, at most: 92,150 at 4K (8 files, direct, with 64 processes); 34,000 at 16K (...).`
fn most(panel: &Panel<'_>) -> String {
    let each: Vec<String> = panel
        .distinct(|key| key.block_bytes)
        .into_iter()
        .filter_map(|block| {
            let curves = panel.curves.iter().filter(|curve| curve.key().block_bytes == block);
            let top = best(curves.map(|curve| curve.peak()))?;
            Some(format!(
                "{} at {} ({}, {})",
                count(median(top)),
                size(block),
                name(&top.key).trim_end_matches(&format!(", {}", size(block))),
                with_carriers(&top.key)
            ))
        })
        .collect();
    let unit = match panel.workload {
        "random-read" => "Reads",
        "random-mixed" => "Reads and writes",
        "log" => "Synced writes",
        "doublewrite" => "Pages",
        _ => "Writes",
    };
    format!("{unit} a second, at most: {}.", each.join("; "))
}

/// What the most files do against the fewest, where the best of them peaks.
fn files(panel: &Panel<'_>) -> String {
    let counts = panel.distinct(|key| if is_raw(key) { 0 } else { key.files });
    let mut counts = counts.into_iter().filter(|files| *files > 0);
    let (Some(fewest), Some(most)) = (counts.next(), counts.next_back()) else { return String::new() };
    let curves = panel.curves.iter().filter(|curve| curve.key().files == most);
    let Some(top) = best(curves.map(|curve| curve.peak())) else { return String::new() };
    let alike = panel.curves.iter().find(|curve| {
        let key = curve.key();
        (key.files, &key.mode, key.block_bytes) == (fewest, &top.key.mode, top.key.block_bytes)
            && !is_raw(key)
    });
    let Some(compared) = alike.and_then(|curve| ratio(top, curve.at(top.key.concurrency)?)) else {
        return String::new();
    };
    if compared.count > 1 && (compared.max < 1.0 || compared.min > 1.0) {
        format!(
            " {} do {} times what {} does there.",
            count_of_files(most),
            with_range(compared),
            count_of_files(fewest)
        )
    } else {
        format!(
            " Between {} and {} no difference is seen there.",
            count_of_files(fewest),
            count_of_files(most)
        )
    }
}

fn median(cell: &IoCell) -> f64 {
    iops(cell).map_or(f64::NAN, |spread| spread.median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Cases;
    use crate::report::iobench::fixture;

    #[test]
    fn the_study_in_sentences() {
        let results = fixture::full();
        let all = conclusions(&results);
        assert_eq!(all.len(), 5);
        let mut cases = Cases::default();
        for conclusion in &all {
            cases.add(&conclusion.about, &conclusion.sentence);
        }
        cases.check("iobench-conclusions");
    }
}
