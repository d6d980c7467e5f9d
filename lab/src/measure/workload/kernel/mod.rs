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
//! | commit and rollback | takes its requests out of their queues, looks which waiters could go on, removes the transaction from the list |
//!
//! A page's queue has the locks and the waiting requests of all its rows, in the order in which they came. So with n
//! waiters for the rows of a page each commit walks the queue up to n times: this is what collapses InnoDB on hot rows.
//!
//! The list links objects of a kilobyte, as InnoDB's does ([`list`]): a read view costs a cache miss for each open
//! transaction, under the mutex. The queues are arrays, and cost less than InnoDB's.
//!
//! The engine does all of this without such a mutex; what happens here comes on top, and decides nothing.
//!
//! | specimen | the mutex |
//! |---|---|
//! | `kernel-mutex:N` | [`sync_array`]: N rounds of spinning, then a wait whose end is a broadcast; 30 rounds are InnoDB's default |
//! | `kernel-futex` | the standard library's: a futex, one waiter woken by each release |
//!
//! Lock order: the mutex is a leaf. No thread waits, or enters the engine, while it holds the mutex.

mod list;
mod sync_array;

use std::fmt;
use std::hint::black_box;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard};

use flifo_base::lock;
use list::{List, Place};
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
        let state = State { next_id: 1, active: List::default(), queues: vec![Vec::new(); QUEUES] };
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
    queues: Vec<Vec<Request>>,
}

/// A row lock, held or waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Request {
    owner: u64,
    row: u32,
}

impl Request {
    /// Whether it waits: an earlier request in the queue is for the same row and another's.
    fn waits_in(self, queue: &[Request]) -> bool {
        queue
            .iter()
            .take_while(|earlier| **earlier != self)
            .any(|earlier| earlier.row == self.row && earlier.owner != self.owner)
    }
}

/// How many requests of a queue wait. Each is compared with all before it until a conflict is found.
fn waiters(queue: &[Request]) -> usize {
    queue.iter().filter(|request| request.waits_in(queue)).count()
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
}

impl KernelTransaction {
    /// For a connection without a transaction.
    pub fn new(kernel: &Arc<Kernel>) -> Self {
        let kernel = Arc::clone(kernel);
        KernelTransaction { kernel, id: None, view: Vec::new(), has_view: false, locked: Vec::new() }
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

    /// A change of a row: requests its lock. Whether it waits is the engine's decision.
    pub fn change(&mut self, row: u32) {
        let Some((owner, _)) = self.id else { return };
        let (request, place) = (Request { owner, row }, (row / PAGE_ROWS) as usize % QUEUES);
        let mut held = self.kernel.lock();
        let queue = &mut held.state().queues[place];
        if !queue.contains(&request) {
            black_box(request.waits_in(queue));
            queue.push(request);
            self.locked.push(place);
        }
    }

    /// Commit or rollback.
    pub fn end(&mut self) {
        let Some((id, in_list)) = self.id.take() else { return };
        let mut held = self.kernel.lock();
        let state = held.state();
        for place in self.locked.drain(..) {
            let queue = &mut state.queues[place];
            queue.retain(|request| request.owner != id);
            black_box(waiters(queue));
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
        let locks = || kernel.lock().state().queues.iter().map(Vec::len).sum::<usize>();
        let (mut first, mut second) = (KernelTransaction::new(&kernel), KernelTransaction::new(&kernel));
        // Nothing is open: a read or a change outside of a transaction is none.
        first.read();
        first.change(1);
        first.end();
        assert_eq!((active(), locks()), (vec![], 0));
        first.begin();
        first.begin();
        second.begin();
        assert_eq!(active(), [2, 1], "the latest first");
        second.read();
        first.change(5);
        first.change(5);
        assert_eq!((second.view.clone(), locks()), (vec![2, 1], 1), "a lock is requested once");
        first.end();
        second.read();
        assert_eq!((second.view.clone(), locks()), (vec![2, 1], 0), "a view is kept to the end");
        drop(second);
        assert!(active().is_empty());
    }

    #[test]
    fn requests_for_a_row_wait_in_the_queue_of_its_page() {
        let kernel = Specimen::KernelFutex.kernel();
        let mut transactions: Vec<KernelTransaction> =
            (0..4).map(|_| KernelTransaction::new(&kernel)).collect();
        transactions.iter_mut().for_each(KernelTransaction::begin);
        // Three for one row, one for another row of the page.
        for (transaction, row) in transactions.iter_mut().zip([1, 2, 1, 1]) {
            transaction.change(row);
        }
        let waiting = || waiters(&kernel.lock().state().queues[0]);
        assert_eq!(waiting(), 2);
        transactions[1].end();
        assert_eq!(waiting(), 2, "it held another row");
        transactions[0].end();
        assert_eq!(waiting(), 1);
        transactions[3].end();
        transactions[2].end();
        assert_eq!(waiting(), 0);
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
                            transaction.change(row);
                            transaction.end();
                        }
                    });
                }
            });
            let mut held = kernel.lock();
            let state = held.state();
            assert_eq!((state.next_id, state.active.ids().count()), (1 + 8 * 500, 0), "{specimen}");
            assert!(state.queues.iter().all(Vec::is_empty), "{specimen}");
        }
    }
}
