//! Row locks as InnoDB keeps them, for the load `hot-row`: one mutex over all locks, a queue per row, and a
//! deadlock search that walks the queue while it holds that mutex.
//!
//! In InnoDB 5.6 a transaction that must wait for a lock first checks whether its wait would close a cycle: it follows the
//! locks ahead of it in the queue, to the transactions that hold them or wait for them, with `lock_sys->mutex` held. On a
//! hot row each waiter waits for all waiters ahead, so the search visits each of them, and until it ends no thread can
//! acquire or release any lock. Here no wait can close a cycle (a statement locks one row), so only the cost of the search
//! is kept: [`VISIT_NS`] of work per waiter. InnoDB's search costs more, since it may visit a queue again from each of its
//! members.
//!
//! A released lock goes to the first of its queue, which is woken after the mutex is unlocked.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, Thread};

use flifo_admission::WaitKind;
use flifo_base::lock;

use crate::measure::admission::limiter::Limiter;
use crate::measure::workload::Random;
use crate::measure::workload::work::burn_ns;

/// Rows that are locked; row 0 is the hot one.
const ROWS: usize = 8;
/// Work to visit one waiter in the search: a lock and a transaction that are in no cache.
const VISIT_NS: u64 = 20;

/// All row locks.
#[derive(Default)]
pub(crate) struct LockSystem {
    rows: Mutex<[Row; ROWS]>,
}

#[derive(Default)]
struct Row {
    is_held: bool,
    queue: VecDeque<(Arc<AtomicBool>, Thread)>,
}

/// A thread's position in a queue.
///
/// `granted` is set with release by the thread that releases the lock, and read with acquire by the thread that waits.
#[derive(Default)]
pub(crate) struct Waiter {
    granted: Arc<AtomicBool>,
}

impl LockSystem {
    /// The row of a statement: the hot one for half of them.
    pub(super) fn choose(random: &mut Random) -> usize {
        let draw = random.one_to(2 * (ROWS as u32 - 1)) as usize;
        draw.saturating_sub(ROWS - 1)
    }

    /// Acquires the row's lock. While another thread holds it, the thread waits in the row's queue without its slot.
    pub(super) fn lock<L: Limiter>(&self, row: usize, waiter: &Waiter, limiter: &L) {
        {
            let mut rows = lock(&self.rows);
            let row = &mut rows[row];
            if !row.is_held {
                row.is_held = true;
                return;
            }
            // The holder, and all present waiters.
            burn_ns(VISIT_NS * (1 + row.queue.len() as u64));
            // Relaxed: the mutex orders it before the grant.
            waiter.granted.store(false, Ordering::Relaxed);
            row.queue.push_back((Arc::clone(&waiter.granted), thread::current()));
        }
        limiter.wait_begin(WaitKind::RowLock);
        while !waiter.granted.load(Ordering::Acquire) {
            thread::park();
        }
        limiter.wait_end(WaitKind::RowLock);
    }

    /// Releases the lock, to the first waiter if there is one.
    pub(super) fn unlock(&self, row: usize) {
        let next = {
            let mut rows = lock(&self.rows);
            let row = &mut rows[row];
            let next = row.queue.pop_front();
            row.is_held = next.is_some();
            next
        };
        if let Some((granted, thread)) = next {
            granted.store(true, Ordering::Release);
            thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::measure::admission::limiter::Unlimited;
    use crate::measure::workload::stream;

    #[test]
    fn half_of_the_statements_want_the_hot_row() {
        let mut random = stream(1, 5);
        let mut counts = [0u32; ROWS];
        (0..14_000).for_each(|_| counts[LockSystem::choose(&mut random)] += 1);
        assert!((6_700..7_300).contains(&counts[0]), "{counts:?}");
        assert!(counts[1..].iter().all(|n| (850..1_150).contains(n)), "{counts:?}");
    }

    #[test]
    fn a_row_is_one_thread_s_at_a_time_and_everybody_gets_it() {
        let locks = LockSystem::default();
        let (inside, done) = (AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let waiter = Waiter::default();
                    for _ in 0..200 {
                        locks.lock(0, &waiter, &Unlimited);
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        locks.unlock(0);
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(done.load(Ordering::Relaxed), 1_600);
    }
}
