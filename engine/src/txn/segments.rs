//! The choice of a rollback segment.
//!
//! A transaction takes a free segment of the CPU it runs on, always in the same order. So the next transaction finds
//! the last leaf of its undo, and the segment's counters, in that CPU's cache, whichever of a thousand sessions it
//! belongs to. (With round robin, as in InnoDB, every transaction would fetch them from another CPU's cache.) It takes
//! the segment for its first record, not while it waits for its first row. A transaction with records that waits or is
//! idle keeps its segment, and others take the next, so the records of short transactions are not behind its records at
//! purge. If all segments are in use they are shared, except segments that a long transaction blocks.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flifo_base::{CacheAligned, cpu_count, current_cpu};

use super::undo::Segment;
use crate::sync::{Mutex, lock};

/// Segments of a CPU that are tried.
const CANDIDATES: usize = 8;
/// If purge has been blocked at a record of an open transaction for this long, no other transaction uses the segment
/// unless all are in use.
const HELD_UP: Duration = Duration::from_secs(1);

/// The rollback segments of a database.
pub(super) struct Segments<S = Segment> {
    list: Box<[CacheAligned<Used<S>>]>,
    cpus: usize,
    turn: AtomicUsize,
}

/// A segment and its users.
struct Used<S> {
    /// Transactions that have not ended and write here: a hint. Two may have the same one.
    users: AtomicU32,
    /// See [`HELD_UP`]; a hint.
    is_held_up: AtomicBool,
    /// The record that blocks purge, and since when. On its own cache line: purge reads it all the time.
    stands_at: CacheAligned<Mutex<Option<(u64, Instant)>>>,
    segment: S,
}

/// A segment that a transaction uses; its drop ends that.
pub(super) struct SegmentUse<'s, S = Segment>(&'s Used<S>);

impl<S> Segments<S> {
    pub(super) fn new(segments: Vec<S>) -> Self {
        let used = |segment| {
            CacheAligned(Used {
                users: AtomicU32::new(0),
                is_held_up: AtomicBool::new(false),
                stands_at: CacheAligned(Mutex::new(None)),
                segment,
            })
        };
        Segments {
            list: segments.into_iter().map(used).collect(),
            cpus: cpu_count(),
            turn: AtomicUsize::new(0),
        }
    }

    /// For a transaction's first record.
    pub(super) fn take(&self) -> SegmentUse<'_, S> {
        let first = current_cpu() % self.cpus.min(self.list.len());
        let mut own = self.list.iter().skip(first).step_by(self.cpus).take(CANDIDATES);
        let free = own.find(|used| used.users.load(Ordering::Relaxed) == 0);
        // Many wait, or are idle.
        let taken = free.unwrap_or_else(|| self.shared());
        taken.users.fetch_add(1, Ordering::Relaxed);
        SegmentUse(taken)
    }

    /// All, each time from the next one on.
    pub(super) fn rotation(&self) -> impl Iterator<Item = &S> {
        let from = self.turn.fetch_add(1, Ordering::Relaxed);
        (0..self.list.len()).map(move |at| &self.list[from.wrapping_add(at) % self.list.len()].segment)
    }

    /// By turns.
    fn shared(&self) -> &CacheAligned<Used<S>> {
        let next = || &self.list[self.turn.fetch_add(1, Ordering::Relaxed) % self.list.len()];
        let moving =
            (0..self.list.len()).map(|_| next()).find(|used| !used.is_held_up.load(Ordering::Relaxed));
        moving.unwrap_or_else(next)
    }

    /// Notes that purge is blocked at this record of the segment, whose transaction is open; `None`: purge proceeds.
    pub(super) fn note_standstill(&self, index: usize, record: Option<u64>, now: Instant) {
        let used = &self.list[index];
        let mut stands_at = lock(&used.stands_at.0);
        let since = match (*stands_at, record) {
            (Some((before, since)), Some(record)) if before == record => since,
            _ => now,
        };
        *stands_at = record.map(|record| (record, since));
        let is_held_up = record.is_some() && now - since >= HELD_UP;
        if used.is_held_up.load(Ordering::Relaxed) != is_held_up {
            used.is_held_up.store(is_held_up, Ordering::Relaxed);
        }
    }

    /// An unfinished transaction continues to use this segment, until [`Segments::end_use`].
    pub(super) fn begin_use(&self, index: usize) {
        self.list[index].users.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end_use(&self, index: usize) {
        self.list[index].users.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn get(&self, index: usize) -> Option<&S> {
        self.list.get(index).map(|used| &used.segment)
    }

    /// How many transactions use one.
    #[cfg(test)]
    pub(super) fn users(&self) -> u32 {
        self.list.iter().map(|used| used.users.load(Ordering::Relaxed)).sum()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &S> {
        self.list.iter().map(|used| &used.segment)
    }
}

impl<S> Deref for SegmentUse<'_, S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.0.segment
    }
}

impl<S> Drop for SegmentUse<'_, S> {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_goes_on_has_its_segment_to_itself() {
        let segments = Segments::new((0..16 * 128).collect());
        let idle = segments.take();
        for _ in 0..100 {
            assert_ne!(*segments.take(), *idle);
        }
        segments.begin_use(7);
        assert_eq!(segments.users(), 2);
        segments.end_use(7);
        drop(idle);
        assert_eq!(segments.users(), 0);
    }

    #[test]
    fn one_that_is_held_up_is_not_shared() {
        let segments = Segments::new((0..4).collect());
        let held: Vec<_> = (0..20).map(|_| segments.take()).collect();
        let taken = || -> std::collections::BTreeSet<i32> { (0..20).map(|_| *segments.take()).collect() };
        let now = Instant::now();
        segments.note_standstill(2, Some(7), now);
        segments.note_standstill(2, Some(7), now + HELD_UP / 2);
        segments.note_standstill(1, Some(7), now);
        segments.note_standstill(1, Some(8), now + HELD_UP);
        assert_eq!(taken().len(), 4);
        segments.note_standstill(2, Some(7), now + HELD_UP);
        assert_eq!(taken(), [0, 1, 3].into());
        (0..4).for_each(|index| segments.note_standstill(index, Some(9), now));
        (0..4).for_each(|index| segments.note_standstill(index, Some(9), now + HELD_UP));
        assert_eq!(taken().len(), 4, "one has to do");
        (0..3).for_each(|index| segments.note_standstill(index, None, now));
        assert_eq!(taken(), [0, 1, 2].into());
        drop(held);
    }

    #[test]
    fn where_all_are_used_all_are_shared() {
        let segments = Segments::new(vec!["the only one"]);
        let held: Vec<_> = (0..20).map(|_| segments.take()).collect();
        assert_eq!(segments.users(), 20);
        drop(held);
        assert_eq!(segments.users(), 0);
    }
}
