//! Void ranges: pages whose earlier redo records are void, because they were filled afterwards without logging.
//!
//! A bulk load's pages are written once, without the doublewrite area, since nothing refers to them before all of them
//! are synced. A crash may tear them. Then recovery must neither replay nor require the records of their earlier use.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::page::{Lsn, PageNo};

/// Ranges of pages, with the LSN before which their records are void.
#[derive(Debug, Default)]
pub(crate) struct VoidRanges {
    /// By the first page: the end of the range, and the LSN. Ranges do not overlap.
    runs: BTreeMap<u64, (u64, Lsn)>,
}

impl VoidRanges {
    /// Voids the records of these pages before `lsn`; called in the order of the LSNs.
    pub(crate) fn add(&mut self, pages: Range<u64>, lsn: Lsn) {
        if pages.is_empty() {
            return;
        }
        // Existing ranges there are cut, or split in two.
        let begun = self.runs.range(..pages.end).rev();
        let in_the_way: Vec<_> = begun
            .take_while(|&(_, &(end, _))| end > pages.start)
            .map(|(&first, &(end, lsn))| (first..end, lsn))
            .collect();
        for (run, lsn) in in_the_way {
            self.runs.remove(&run.start);
            let left = [run.start..run.end.min(pages.start), run.start.max(pages.end)..run.end];
            left.into_iter().filter(|left| !left.is_empty()).for_each(|left| {
                self.runs.insert(left.start, (left.end, lsn));
            });
        }
        self.runs.insert(pages.start, (pages.end, lsn));
    }

    /// Whether the records of a frame that ends at `end` are void for this page.
    pub(crate) fn is_void(&self, page: PageNo, end: Lsn) -> bool {
        let run = self.runs.range(..=page.0).next_back();
        run.is_some_and(|(_, &(last, lsn))| page.0 < last && end <= lsn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_latest_counts_for_each_page(
            runs in proptest::collection::vec((0_u64..40, 0_u64..12), 0..20),
        ) {
            let (mut void_ranges, mut model) = (VoidRanges::default(), [0; 64]);
            for (index, &(first, pages)) in runs.iter().enumerate() {
                let lsn = 10 * (index as u64 + 1);
                void_ranges.add(first..first + pages, Lsn(lsn));
                model[first as usize..(first + pages) as usize].fill(lsn);
                prop_assert!(void_ranges.runs.values().zip(void_ranges.runs.keys().skip(1)).all(|(run, &next)| run.0 <= next));
            }
            for (page, &lsn) in model.iter().enumerate() {
                for end in 1..220 {
                    prop_assert_eq!(void_ranges.is_void(PageNo(page as u64), Lsn(end)), end <= lsn);
                }
            }
        }
    }
}
