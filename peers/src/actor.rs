//! The operations of a thread.
//!
//! Every operation that writes adds to the counter `k` of its rows, and returns the sum: acknowledged updates must be
//! in the rows afterwards. A conflict is retried at once, with the same rows, within the same operation.

use std::hint::black_box;

use flifo::measure::workload::{Random, Zipfian, stream};

use crate::row;
use crate::store::{Done, Fail, Handle, Txn};
use crate::workload::{LONG_SCAN, SHORT_SCAN, Workload};

/// What became of an operation.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// False if the cell ended before it could happen.
    pub(crate) is_done: bool,
    /// The sum that it added to counters.
    pub(crate) updates: u64,
    /// Tries that failed because another transaction was in the way.
    pub(crate) retries: u64,
}

/// A thread's random choices.
pub(crate) struct Actor {
    workload: Workload,
    rows: u64,
    rng: Random,
    zipfian: Zipfian,
    value: Vec<u8>,
}

impl Actor {
    /// The same `seed`, `round` and `thread` make the same choices for every peer.
    pub(crate) fn new(workload: Workload, rows: u64, seed: u64, round: u32, thread: usize) -> Self {
        Actor {
            workload,
            rows,
            rng: stream(seed, (u64::from(round) + 1) << 32 | thread as u64),
            zipfian: Zipfian::new(u32::try_from(rows).unwrap_or(u32::MAX)),
            value: Vec::with_capacity(row::VALUE_BYTES),
        }
    }

    /// One operation, with its retries until `is_over`.
    pub(crate) fn operation(&mut self, handle: &mut dyn Handle, is_over: &dyn Fn() -> bool) -> Done<Outcome> {
        match self.workload {
            Workload::Load => Err(Fail::Store("a load is no operation".into())),
            Workload::PointGet => {
                let id = self.uniform(self.rows);
                self.get(handle, is_over, id)
            }
            Workload::Range1000 => self.range(handle, is_over),
            Workload::Update => {
                let id = self.uniform(self.rows);
                self.update(handle, is_over, id)
            }
            Workload::HotRows(hot) => {
                let id = self.uniform(hot);
                self.update(handle, is_over, id)
            }
            Workload::ReadWrite => self.read_write(handle, is_over),
            Workload::Ycsb(letter) => self.ycsb(letter, handle, is_over),
        }
    }

    fn ycsb(&mut self, letter: char, handle: &mut dyn Handle, is_over: &dyn Fn() -> bool) -> Done<Outcome> {
        let percent_of_gets = match letter {
            'c' => 100,
            'b' => 95,
            _ => 50,
        };
        let is_get = self.rng.below(100) < percent_of_gets;
        let id = self.zipfian();
        if is_get {
            return self.get(handle, is_over, id);
        }
        if letter == 'f' {
            let read = self.get(handle, is_over, id)?;
            if !read.is_done {
                return Ok(read);
            }
        }
        self.update(handle, is_over, id)
    }

    fn get(&mut self, handle: &mut dyn Handle, is_over: &dyn Fn() -> bool, id: u64) -> Done<Outcome> {
        let value = &mut self.value;
        until_done(is_over, 0, |_| found(handle.get(id, value)?, id, value))
    }

    fn range(&mut self, handle: &mut dyn Handle, is_over: &dyn Fn() -> bool) -> Done<Outcome> {
        let from = self.uniform(self.rows - LONG_SCAN + 1);
        until_done(is_over, 0, |_| {
            let mut scanned = Scanned::default();
            handle.scan(from, LONG_SCAN as usize, &mut |id, value| scanned.row(id, value))?;
            scanned.check(from, LONG_SCAN)
        })
    }

    fn update(&mut self, handle: &mut dyn Handle, is_over: &dyn Fn() -> bool, id: u64) -> Done<Outcome> {
        let (value, rng) = (&mut self.value, &mut self.rng);
        until_done(is_over, 1, |tries| {
            handle.transact(&mut |txn| {
                *tries += 1;
                found(txn.get_for_update(id, value)?, id, value)?;
                row::update_k(value);
                row::update_c(value, rng);
                txn.update(id, value)
            })
        })
    }

    fn read_write(&mut self, handle: &mut dyn Handle, is_over: &dyn Fn() -> bool) -> Done<Outcome> {
        let gets: [u64; 9] = std::array::from_fn(|_| self.uniform(self.rows));
        let scans: [u64; 4] = std::array::from_fn(|_| self.uniform(self.rows - SHORT_SCAN + 1));
        let [updated_k, updated_c, moved] = std::array::from_fn(|_| self.uniform(self.rows));
        let (value, rng) = (&mut self.value, &mut self.rng);
        until_done(is_over, 1, |tries| {
            handle.transact(&mut |txn: &mut dyn Txn| {
                *tries += 1;
                for id in gets {
                    found(txn.get(id, value)?, id, value)?;
                }
                for from in scans {
                    let mut scanned = Scanned::default();
                    txn.scan(from, SHORT_SCAN as usize, &mut |id, value| scanned.row(id, value))?;
                    // Between a delete and its insert a store that reads newest versions may show one row less.
                    scanned.check_ordered(from)?;
                }
                found(txn.get_for_update(updated_k, value)?, updated_k, value)?;
                row::update_k(value);
                txn.update(updated_k, value)?;
                found(txn.get_for_update(updated_c, value)?, updated_c, value)?;
                row::update_c(value, rng);
                txn.update(updated_c, value)?;
                found(txn.get_for_update(moved, value)?, moved, value)?;
                txn.delete(moved)?;
                txn.insert(moved, value)
            })
        })
    }

    fn uniform(&mut self, below: u64) -> u64 {
        self.rng.below(below)
    }

    /// A popular row more often; the popular ones lie scattered.
    fn zipfian(&mut self) -> u64 {
        u64::from(self.zipfian.scrambled(&mut self.rng)) - 1
    }
}

/// Tries until it happens, it fails, or the cell is over. `attempt` counts its tries where the store itself may try
/// again; else each call is one.
fn until_done(
    is_over: &dyn Fn() -> bool,
    updates: u64,
    mut attempt: impl FnMut(&mut u64) -> Done,
) -> Done<Outcome> {
    let mut retries = 0;
    loop {
        let mut tries = 0;
        match attempt(&mut tries) {
            Ok(()) => {
                return Ok(Outcome { is_done: true, updates, retries: retries + tries.saturating_sub(1) });
            }
            Err(Fail::Conflict) => retries += tries.max(1),
            Err(fail) => return Err(fail),
        }
        if is_over() {
            return Ok(Outcome { is_done: false, updates: 0, retries });
        }
    }
}

/// A row must be there, and be a row.
fn found(is_there: bool, id: u64, value: &[u8]) -> Done {
    match is_there && value.len() == row::VALUE_BYTES {
        true => Ok(()),
        false => Err(Fail::Store(format!("row {id} is not there, or is no row ({} bytes)", value.len()))),
    }
}

/// What came of a scan.
#[derive(Debug, Default)]
pub(crate) struct Scanned {
    pub(crate) rows: u64,
    first: Option<u64>,
    last: Option<u64>,
    is_disordered: bool,
    /// The sum of their counters: what happened to them.
    pub(crate) updates: u64,
    /// See [`row::sum`].
    sum: u64,
}

impl Scanned {
    /// Takes a row.
    #[inline]
    pub(crate) fn row(&mut self, id: u64, value: &[u8]) {
        self.is_disordered |= self.last.is_some_and(|last| last >= id);
        self.first.get_or_insert(id);
        self.last = Some(id);
        self.rows += 1;
        self.sum = self.sum.wrapping_add(row::sum(value));
        match row::updates(value) {
            Some(updates) => self.updates += updates,
            None => self.is_disordered = true,
        }
    }

    /// Checks that these are exactly `rows` rows from `from` on.
    pub(crate) fn check(&self, from: u64, rows: u64) -> Done {
        let is_whole = self.rows == rows && self.last == Some(from + rows - 1);
        if is_whole { self.check_ordered(from) } else { Err(self.wrong(from)) }
    }

    fn check_ordered(&self, from: u64) -> Done {
        black_box(self.sum);
        let is_right = !self.is_disordered && self.first.is_some_and(|first| first >= from);
        if is_right { Ok(()) } else { Err(self.wrong(from)) }
    }

    fn wrong(&self, from: u64) -> Fail {
        Fail::Store(format!(
            "a scan from {from} gave {} rows, {:?} to {:?}{}",
            self.rows,
            self.first,
            self.last,
            if self.is_disordered { ", not in order or not rows of the bench" } else { "" }
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_are_tried_again_and_counted_until_it_is_over() {
        let mut left = 3;
        let outcome = until_done(&|| false, 1, |_| {
            left -= 1;
            if left > 0 { Err(Fail::Conflict) } else { Ok(()) }
        });
        assert_eq!(outcome.unwrap(), Outcome { is_done: true, updates: 1, retries: 2 });
        let outcome = until_done(&|| true, 1, |_| Err(Fail::Conflict));
        assert_eq!(outcome.unwrap(), Outcome { is_done: false, updates: 0, retries: 1 });
        // A store that tries again by itself calls the work more than once.
        let outcome = until_done(&|| false, 1, |tries| {
            *tries += 4;
            Ok(())
        });
        assert_eq!(outcome.unwrap().retries, 3);
    }

    #[test]
    fn scans_are_checked() {
        let value = row::value(1, 1);
        let scanned = |ids: &[u64]| {
            let mut scanned = Scanned::default();
            ids.iter().for_each(|id| scanned.row(*id, &value));
            scanned
        };
        assert!(scanned(&[3, 4, 5]).check(3, 3).is_ok());
        assert!(scanned(&[3, 5, 6]).check(3, 3).is_err());
        assert!(scanned(&[3, 5, 4]).check_ordered(3).is_err());
        assert!(scanned(&[2]).check_ordered(3).is_err());
        let mut short = Scanned::default();
        short.row(1, b"short");
        assert!(short.check_ordered(1).is_err());
    }
}
