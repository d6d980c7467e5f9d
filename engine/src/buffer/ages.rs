//! Dirty pages by age: how many pages became dirty in which part of the log.
//!
//! The log's capacity is divided into [`PARTS`] parts of equal size. Each instance counts its dirty pages per part
//! ([`AgeCounts`]), in a ring of counters that covers more than two capacities, so that two parts with dirty pages never
//! share a counter. [`Ages`] is the sum over all instances at one moment. It answers how many pages must be written to
//! advance the checkpoint to an LSN, how far a number of pages advances it, and how fast pages must be written, without
//! a look at any page.
//!
//! Counters are changed under the flush list's lock and read without it, so a sum may miss the changes of the moment.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::page::Lsn;

/// Parts of the log's capacity.
const PARTS: u64 = 64;
/// Counters of an instance.
const RING: usize = 2 * PARTS as usize + 2;

/// Dirty pages of one instance, per part of the log in which they became dirty.
pub(super) struct AgeCounts {
    part_bytes: u64,
    counts: Box<[AtomicU32; RING]>,
}

impl AgeCounts {
    /// For a log of this capacity.
    pub(super) fn new(capacity_bytes: u64) -> Self {
        let counts = Box::new(std::array::from_fn(|_| AtomicU32::new(0)));
        AgeCounts { part_bytes: (capacity_bytes / PARTS).max(1), counts }
    }

    fn of(&self, dirty_since: Lsn) -> &AtomicU32 {
        &self.counts[(dirty_since.0 / self.part_bytes) as usize % RING]
    }

    /// A page became dirty at this LSN.
    pub(super) fn add(&self, dirty_since: Lsn) {
        self.of(dirty_since).fetch_add(1, Ordering::Relaxed);
    }

    /// A page that became dirty at this LSN is clean.
    pub(super) fn remove(&self, dirty_since: Lsn) {
        self.of(dirty_since).fetch_sub(1, Ordering::Relaxed);
    }
}

/// The dirty pages of a pool by age, at one moment.
pub(super) struct Ages {
    part_bytes: u64,
    /// No page is older.
    oldest: Lsn,
    /// Pages of each part, from that of the oldest page on.
    counts: [u64; RING],
}

impl Ages {
    /// Starts an empty sum. All pages that are added became dirty at `oldest` or later.
    pub(super) fn since(oldest: Lsn, capacity_bytes: u64) -> Self {
        Ages { part_bytes: (capacity_bytes / PARTS).max(1), oldest, counts: [0; RING] }
    }

    /// Adds the pages of an instance.
    pub(super) fn add(&mut self, of_instance: &AgeCounts) {
        let first = (self.oldest.0 / self.part_bytes) as usize;
        for (at, count) in self.counts.iter_mut().enumerate() {
            let part = (first + at) % RING;
            *count += u64::from(of_instance.counts[part].load(Ordering::Relaxed));
        }
    }

    /// The pages of each part, with the LSN after which they became dirty, and before which.
    fn parts(&self) -> impl Iterator<Item = (Lsn, Lsn, u64)> {
        let first = self.oldest.0 / self.part_bytes;
        let part = move |(at, &pages): (usize, &u64)| {
            let begin = (first + at as u64) * self.part_bytes;
            (Lsn(begin).max(self.oldest), Lsn(begin + self.part_bytes), pages)
        };
        self.counts.iter().enumerate().map(part)
    }

    /// Pages that became dirty before `lsn`. Within a part, its pages count as spread evenly.
    pub(super) fn pages_before(&self, lsn: Lsn) -> u64 {
        let before = |(begin, end, pages): (Lsn, Lsn, u64)| {
            let part = u128::from(lsn.min(end).0.saturating_sub(begin.0)) * u128::from(pages);
            (part / u128::from(end.0 - begin.0)) as u64
        };
        self.parts().map(before).sum()
    }

    /// The LSN before which `pages` became dirty; `end` if fewer are dirty.
    pub(super) fn reach(&self, pages: u64, end: Lsn) -> Lsn {
        let mut left = pages;
        for (begin, part_end, count) in self.parts() {
            if count > left {
                let within = u128::from(part_end.0 - begin.0) * u128::from(left) / u128::from(count);
                return Lsn(begin.0 + within as u64).min(end);
            }
            left -= count;
        }
        end
    }

    /// Pages to be written per byte of new redo, so that no page is left when it is `age_bytes` old: the even rate at
    /// which the parts can be written in time, where the fullest part decides. `next` is the end of the log. A part that
    /// is late is written within `late_bytes` of redo.
    pub(super) fn pages_per_byte(&self, next: Lsn, age_bytes: f64, late_bytes: f64) -> f64 {
        let mut pages = 0;
        let rate = |(_, end, count): (Lsn, Lsn, u64)| {
            pages += count;
            let left_bytes = age_bytes - (next.0 as f64 - end.0 as f64);
            pages as f64 / left_bytes.max(late_bytes)
        };
        self.parts().take_while(|&(begin, ..)| begin < next).map(rate).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 64 * 1000;

    fn ages(oldest: u64, of: &[&AgeCounts]) -> Ages {
        let mut ages = Ages::since(Lsn(oldest), CAPACITY);
        of.iter().for_each(|counts| ages.add(counts));
        ages
    }

    #[test]
    fn pages_of_all_instances_count_up_to_an_lsn_and_back() {
        let [one, two] = [AgeCounts::new(CAPACITY), AgeCounts::new(CAPACITY)];
        (0..10).for_each(|page| one.add(Lsn(200_000 + page * 1000)));
        (0..20).for_each(|page| two.add(Lsn(205_000 + page * 10)));
        let ages = ages(200_000, &[&one, &two]);
        assert_eq!(ages.pages_before(Lsn(0)), 0);
        assert_eq!(ages.pages_before(Lsn(205_000)), 5);
        // Of 21 pages of one part a half.
        assert_eq!(ages.pages_before(Lsn(205_500)), 15);
        assert_eq!(ages.pages_before(Lsn(u64::MAX)), 30);
        let end = Lsn(300_000);
        assert_eq!(ages.reach(0, end), Lsn(200_000));
        assert_eq!(ages.reach(5, end), Lsn(205_000));
        assert_eq!(ages.reach(26, end), Lsn(206_000));
        assert_eq!(ages.reach(30, end), end);
        assert!((0..30).all(|pages| ages.pages_before(ages.reach(pages, end)) <= pages));
        // 30 pages in the first seventh of an age of 42,000; 5 of them are late.
        assert_eq!(ages.pages_per_byte(Lsn(206_000), 42_000.0, 100.0), 26.0 / 42_000.0);
        assert_eq!(ages.pages_per_byte(Lsn(206_000), 1000.0, 500.0), 26.0 / 1000.0);
        assert_eq!(ages.pages_per_byte(Lsn(210_000), 5000.0, 500.0), 26.0 / 1000.0);
    }

    #[test]
    fn a_clean_page_no_longer_counts_and_the_ring_goes_round() {
        let counts = AgeCounts::new(CAPACITY);
        for lsn in (0..10 * CAPACITY).step_by(100) {
            counts.add(Lsn(lsn));
            if let Some(old) = lsn.checked_sub(CAPACITY) {
                counts.remove(Lsn(old));
            }
            let dirty = lsn.min(CAPACITY - 100) / 100 + 1;
            assert_eq!(ages(lsn.saturating_sub(CAPACITY), &[&counts]).pages_before(Lsn(u64::MAX)), dirty);
        }
    }
}
