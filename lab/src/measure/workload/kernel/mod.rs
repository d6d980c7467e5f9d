//! The kernel mutex: a specimen of InnoDB before 5.6, kept for the studies of that time. No default uses it.
//!
//! InnoDB 5.5 had one mutex over its list of transactions, its read views and its table of row locks. A statement took
//! it several times, and so does the server's side of a statement here, on the statement's slot:
//!
//! | when | what it does under the mutex |
//! |---|---|
//! | a transaction begins, also that of a single statement | puts the transaction into the list |
//! | the first read of a transaction | walks the list and copies the ids: the read view |
//! | a row is changed | walks the queue of the row's page for a conflict, appends the request, held or waiting |
//! | commit and rollback | takes its requests out of their queues, grants those that need not wait longer, removes the transaction from the list |
//!
//! The list links objects of a kilobyte, as InnoDB's does (`list`): a read view costs a cache miss for each open
//! transaction, under the mutex. A page's queue has the requests for all its rows (`queue`): with n waiters each commit
//! walks it up to n times.
//!
//! A transaction waits there for its first row, in the order of the queue. The wait releases its slot and counts among
//! the waits for row locks, as the engine's own. The transaction holds nothing then, and so has no part in a deadlock. For
//! further rows the engine's row locks decide alone.
//!
//! | specimen | the mutex |
//! |---|---|
//! | `kernel-mutex:N` | `sync_array`: N rounds of spinning, then a wait whose end is a broadcast; 30 rounds are InnoDB's default |
//! | `kernel-futex` | the standard library's: a futex, one waiter woken by each release |
//!
//! Lock order: the mutex is a leaf. No thread waits, or enters the engine, while it holds the mutex. A row's lock is taken
//! before the engine's, and given up after the engine's commit.

mod list;
mod queue;
mod sync_array;

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard};

use flifo_base::lock;
use list::{List, Place};
pub use queue::Grant;
use queue::Queue;
use sync_array::SyncArray;

/// Rounds of spinning by default: innodb_sync_spin_loops.
const SPINS: u32 = 30;
const SPINS_MAX: u32 = 10_000;
/// Queues of row locks; pages share them.
const QUEUES: usize = 1_024;
/// Rows of a page: 16 KiB of some 230 bytes each.
const PAGE_ROWS: u32 = 70;

/// A specimen of the server's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Specimen {
    /// The kernel mutex as a sync array.
    KernelMutex {
        /// Rounds of spinning before a thread waits.
        spins: u32,
    },
    /// The kernel mutex as a plain futex mutex.
    KernelFutex,
}

impl Specimen {
    /// The kernel mutex with InnoDB's default.
    pub const KERNEL_MUTEX: Specimen = Specimen::KernelMutex { spins: SPINS };

    /// What all connections of a cell share.
    pub fn kernel(self) -> Arc<Kernel> {
        let mutex = match self {
            Specimen::KernelMutex { spins } => KernelLock::Array(SyncArray::new(spins)),
            Specimen::KernelFutex => KernelLock::Futex,
        };
        let state = State {
            next_id: 1,
            active: List::default(),
            queues: (0..QUEUES).map(|_| Queue::default()).collect(),
        };
        Arc::new(Kernel { mutex, state: Mutex::new(state) })
    }
}

impl FromStr for Specimen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "kernel-futex" {
            return Ok(Specimen::KernelFutex);
        }
        let spins = match text.strip_prefix("kernel-mutex") {
            Some("") => Some(SPINS),
            Some(rest) => rest.strip_prefix([':', '-']).and_then(|spins| spins.parse().ok()),
            None => return Err("a specimen is none, kernel-mutex, kernel-mutex:SPINS or kernel-futex".into()),
        };
        match spins {
            Some(spins) if spins <= SPINS_MAX => Ok(Specimen::KernelMutex { spins }),
            _ => {
                Err(format!("kernel-mutex takes 0 to {SPINS_MAX} rounds of spinning, as in kernel-mutex:30"))
            }
        }
    }
}

/// The name in results: `kernel-mutex-30`, `kernel-futex`.
impl fmt::Display for Specimen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Specimen::KernelMutex { spins } => write!(f, "kernel-mutex-{spins}"),
            Specimen::KernelFutex => f.write_str("kernel-futex"),
        }
    }
}

/// The mutex, and what it protects.
pub struct Kernel {
    mutex: KernelLock,
    /// Of the array's, only the holder takes this lock: it is free then, and takes a few nanoseconds.
    state: Mutex<State>,
}

enum KernelLock {
    Array(SyncArray),
    /// The lock of `state` itself.
    Futex,
}

struct State {
    next_id: u64,
    /// The active transactions.
    active: List,
    /// The requests for locks of the rows of a page, by a hash of the page.
    queues: Vec<Queue>,
}

/// The held mutex. The array is released after the state.
struct Held<'k> {
    state: Option<MutexGuard<'k, State>>,
    array: Option<&'k SyncArray>,
}

impl Held<'_> {
    fn state(&mut self) -> &mut State {
        self.state.as_mut().expect("it is dropped at the end only")
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.state = None;
        if let Some(array) = self.array {
            array.release();
        }
    }
}

impl Kernel {
    fn lock(&self) -> Held<'_> {
        let array = match &self.mutex {
            KernelLock::Array(array) => {
                array.acquire();
                Some(array)
            }
            KernelLock::Futex => None,
        };
        Held { state: Some(lock(&self.state)), array }
    }
}

/// A connection's transaction as the kernel knows it. Dropped, it ends what is open.
pub struct KernelTransaction {
    kernel: Arc<Kernel>,
    /// The open transaction, and its place in the list.
    id: Option<(u64, Place)>,
    /// Its read view; empty until its first read.
    view: Vec<u64>,
    has_view: bool,
    /// The queues in which it has requests.
    locked: Vec<usize>,
    /// Where it waits for a row.
    grant: Arc<Grant>,
}

impl KernelTransaction {
    /// For a connection without a transaction.
    pub fn new(kernel: &Arc<Kernel>) -> Self {
        let kernel = Arc::clone(kernel);
        KernelTransaction {
            kernel,
            id: None,
            view: Vec::new(),
            has_view: false,
            locked: Vec::new(),
            grant: Arc::default(),
        }
    }

    /// Begins a transaction, unless one is open.
    pub fn begin(&mut self) {
        if self.id.is_none() {
            let mut held = self.kernel.lock();
            let state = held.state();
            let id = state.next_id;
            state.next_id += 1;
            self.id = Some((id, state.active.push(id)));
        }
    }

    /// A read: the first of a transaction copies the list.
    pub fn read(&mut self) {
        if self.id.is_some() && !self.has_view {
            let mut held = self.kernel.lock();
            self.view.clear();
            self.view.extend(held.state().active.ids());
            self.has_view = true;
        }
    }

    /// A change of a row: requests its lock. Returns what to wait for if it is the transaction's first and another holds
    /// it.
    #[must_use]
    pub fn change(&mut self, row: u32) -> Option<&Grant> {
        let (owner, _) = self.id?;
        let place = (row / PAGE_ROWS) as usize % QUEUES;
        let is_first = self.locked.is_empty();
        let waits = {
            let mut held = self.kernel.lock();
            let queue = &mut held.state().queues[place];
            if queue.has(owner, row) {
                return None;
            }
            queue.request(owner, row, is_first.then_some(&self.grant))
        };
        self.locked.push(place);
        waits.then_some(&*self.grant)
    }

    /// Commit or rollback.
    pub fn end(&mut self) {
        let Some((id, in_list)) = self.id.take() else { return };
        let mut held = self.kernel.lock();
        let state = held.state();
        for place in self.locked.drain(..) {
            state.queues[place].remove(id);
        }
        state.active.remove(in_list);
        self.has_view = false;
    }
}

impl Drop for KernelTransaction {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["kernel-mutex-0", "kernel-mutex-200", "kernel-futex"] {
            assert_eq!(name.parse::<Specimen>().unwrap().to_string(), name);
        }
        assert_eq!("kernel-mutex".parse(), Ok(Specimen::KERNEL_MUTEX));
        assert_eq!("kernel-mutex:7".parse(), Ok(Specimen::KernelMutex { spins: 7 }));
        for wrong in ["", "kernel", "kernel-mutex:", "kernel-mutex:x", "kernel-mutex:10001", "kernel-futex:1"]
        {
            assert!(wrong.parse::<Specimen>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_transaction_is_in_the_list_until_it_ends() {
        let kernel = Specimen::KERNEL_MUTEX.kernel();
        let active = || kernel.lock().state().active.ids().collect::<Vec<u64>>();
        let locks = || kernel.lock().state().queues.iter().map(Queue::len).sum::<usize>();
        let (mut first, mut second) = (KernelTransaction::new(&kernel), KernelTransaction::new(&kernel));
        // Nothing is open: a read or a change outside of a transaction is none.
        first.read();
        assert!(first.change(1).is_none());
        first.end();
        assert_eq!((active(), locks()), (vec![], 0));
        first.begin();
        first.begin();
        second.begin();
        assert_eq!(active(), [2, 1], "the latest first");
        second.read();
        assert!(first.change(5).is_none() && first.change(5).is_none());
        assert_eq!((second.view.clone(), locks()), (vec![2, 1], 1), "a lock is requested once");
        first.end();
        second.read();
        assert_eq!((second.view.clone(), locks()), (vec![2, 1], 0), "a view is kept to the end");
        drop(second);
        assert!(active().is_empty());
    }

    #[test]
    fn transactions_hold_their_first_row_one_at_a_time() {
        let kernel = Specimen::KERNEL_MUTEX.kernel();
        let (inside, most) = (AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut transaction = KernelTransaction::new(&kernel);
                    for _ in 0..500 {
                        transaction.begin();
                        transaction.change(7).into_iter().for_each(Grant::wait);
                        most.fetch_max(1 + inside.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        transaction.end();
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), 1);
        assert_eq!(kernel.lock().state().queues.iter().map(Queue::len).sum::<usize>(), 0);
    }

    #[test]
    fn every_transaction_of_many_threads_has_an_id_of_its_own() {
        for specimen in [Specimen::KernelMutex { spins: 0 }, Specimen::KERNEL_MUTEX, Specimen::KernelFutex] {
            let kernel = specimen.kernel();
            thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        let mut transaction = KernelTransaction::new(&kernel);
                        for row in 0..500 {
                            transaction.begin();
                            transaction.read();
                            transaction.change(row).into_iter().for_each(Grant::wait);
                            transaction.end();
                        }
                    });
                }
            });
            let mut held = kernel.lock();
            let state = held.state();
            assert_eq!((state.next_id, state.active.ids().count()), (1 + 8 * 500, 0), "{specimen}");
            assert!(state.queues.iter().all(|queue| queue.len() == 0), "{specimen}");
        }
    }
}
