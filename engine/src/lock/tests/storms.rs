//! Many threads at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::super::*;

fn assert_drained(table: &LockTable) {
    let stats = table.stats();
    assert_eq!((stats.locks, stats.waiting), (0, 0));
    assert!(table.owners.is_empty());
    assert!(table.shards.iter().all(|shard| lock(&shard.0).objects().next().is_none()));
}

/// What a lock protects. The counter is changed by a load and a store, so that a second writer loses an update.
#[derive(Default)]
struct Row {
    readers: AtomicI64,
    writers: AtomicI64,
    changes: AtomicU64,
}

impl Row {
    fn use_it(&self, exclusive: bool) {
        let relaxed = Ordering::Relaxed;
        if exclusive {
            assert_eq!((self.writers.fetch_add(1, relaxed), self.readers.load(relaxed)), (0, 0));
            let changes = self.changes.load(relaxed);
            thread::yield_now();
            self.changes.store(changes + 1, relaxed);
            assert_eq!((self.writers.fetch_sub(1, relaxed), self.readers.load(relaxed)), (1, 0));
        } else {
            self.readers.fetch_add(1, relaxed);
            assert_eq!(self.writers.load(relaxed), 0);
            thread::yield_now();
            assert_eq!(self.writers.load(relaxed), 0);
            self.readers.fetch_sub(1, relaxed);
        }
    }
}

const THREADS: u64 = 64;
const ROWS: usize = 10;
const TRANSACTIONS: u64 = 150;

struct Storm {
    table: Arc<LockTable>,
    rows: [Row; ROWS],
    /// The transaction of each thread, for the one that kills.
    running: [AtomicU64; THREADS as usize],
    written: AtomicU64,
    victims: AtomicU64,
    next_id: AtomicU64,
}

impl Storm {
    /// Takes a few locks in no order, so that there are deadlocks; waits are cut short here and there.
    fn transaction(&self, random: &mut impl Rng, thread: usize, waiter: &Waiter) {
        let owner = TxnId(self.next_id.fetch_add(1, Ordering::Relaxed));
        self.running[thread].store(owner.0, Ordering::Relaxed);
        for taken in 0..1 + random.next_u32() % 3 {
            let row = random.next_u32() as usize % ROWS;
            let name = row.to_be_bytes();
            let exclusive = random.next_u32().is_multiple_of(2);
            let mode = match (exclusive, random.next_u32() % 2) {
                (true, 0) => LockMode::Exclusive,
                (true, _) => LockMode::NextKeyExclusive,
                (false, 0) => LockMode::Shared,
                (false, _) => LockMode::NextKeyShared,
            };
            let key = LockKey { tree: 1, key: Some(&name) };
            let mut request = Request::new(owner, key, mode);
            request.class = if taken > 0 { Class::First } else { Class::Newcomer };
            request.timeout =
                [None, None, None, Some(Duration::from_micros(300))][random.next_u32() as usize % 4];
            let outcome = self.table.lock(request, waiter);
            assert_eq!(self.table.holds(owner, key, mode), outcome.is_ok(), "{outcome:?}");
            match outcome {
                Ok(_) => {}
                Err(LockError::Deadlock) => {
                    self.victims.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                Err(LockError::Timeout | LockError::Cancelled) => continue,
            }
            // It may have it exclusively from before.
            let exclusive = exclusive || self.table.holds(owner, key, LockMode::Exclusive);
            self.rows[row].use_it(exclusive);
            self.written.fetch_add(u64::from(exclusive), Ordering::Relaxed);
            let insert = Request {
                timeout: Some(Duration::from_micros(200)),
                ..Request::new(owner, key, LockMode::InsertIntention)
            };
            if self.table.lock(insert, waiter) == Err(LockError::Deadlock) {
                break;
            }
        }
        self.table.release_all(owner);
    }
}

#[test]
fn sixty_four_threads_and_ten_rows() {
    let storm = Arc::new(Storm {
        table: Arc::new(LockTable::new(LockConfig {
            shards: 4,
            promote_after: Duration::from_micros(500),
            deadlock_steps_max: 20,
            ..LockConfig::default()
        })),
        rows: Default::default(),
        running: [const { AtomicU64::new(0) }; THREADS as usize],
        written: AtomicU64::new(0),
        victims: AtomicU64::new(0),
        next_id: AtomicU64::new(1),
    });
    let over = Arc::new(AtomicBool::new(false));
    let killer = {
        let (storm, over) = (Arc::clone(&storm), Arc::clone(&over));
        thread::spawn(move || {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(0);
            let mut detector = Detector::new(&storm.table);
            while !over.load(Ordering::Relaxed) {
                let victim = &storm.running[random.next_u32() as usize % THREADS as usize];
                storm.table.cancel(TxnId(victim.load(Ordering::Relaxed)));
                detector.step(Instant::now());
                thread::sleep(Duration::from_micros(500));
            }
        })
    };
    let threads: Vec<_> = (0..THREADS)
        .map(|n| {
            let storm = Arc::clone(&storm);
            thread::spawn(move || {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(n);
                let waiter = Waiter::background();
                for _ in 0..TRANSACTIONS {
                    storm.transaction(&mut random, n as usize, &waiter);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    over.store(true, Ordering::Relaxed);
    killer.join().unwrap();

    let changes: u64 = storm.rows.iter().map(|row| row.changes.load(Ordering::Relaxed)).sum();
    assert_eq!(changes, storm.written.load(Ordering::Relaxed));
    assert!(storm.table.stats().deadlocks >= storm.victims.load(Ordering::Relaxed));
    assert_drained(&storm.table);
}

const CROWD: usize = 1024;

/// Each of a crowd gets the row once, in the order of the queue, and no other is woken for it.
#[test]
fn a_crowd_at_one_row_is_served_in_order() {
    let table = Arc::new(LockTable::new(LockConfig::default()));
    let key = LockKey { tree: 1, key: Some(b"hot") };
    let waits = crate::metrics::Waits::new();
    assert_eq!(
        table.lock(Request::new(TxnId(0), key, LockMode::Exclusive), &Waiter::background()),
        Ok(Granted::AtOnce)
    );
    let served = Arc::new(std::sync::Mutex::new(vec![]));
    let threads: Vec<_> = (1..=CROWD as u64)
        .map(|id| {
            let (table, served) = (Arc::clone(&table), Arc::clone(&served));
            let waiter = Waiter::background().recording(&waits);
            let serve = move || {
                let request = Request::new(TxnId(id), key, LockMode::Exclusive);
                assert_eq!(table.lock(request, &waiter), Ok(Granted::AfterWait));
                served.lock().unwrap().push(id);
                assert_eq!(table.release_all(TxnId(id)), 1);
            };
            thread::Builder::new().stack_size(128 << 10).spawn(serve).unwrap()
        })
        .collect();
    while table.stats().waiting < CROWD as u64 {
        thread::sleep(Duration::from_millis(1));
    }
    let queued: Vec<u64> = {
        let shard = table.shard(table.hash(key));
        let object = shard.objects().next().unwrap();
        object.queue().unwrap().iter().map(|waiting| waiting.owner.0).collect()
    };
    table.release_all(TxnId(0));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(*served.lock().unwrap(), queued);
    let stats = table.stats();
    assert_eq!((stats.waits, stats.deadlocks, stats.timeouts), (CROWD as u64, 0, 0));
    assert_eq!(waits.snapshot().count(WaitReason::RowLock), CROWD as u64);
    assert_drained(&table);
}

/// A crowd at one row, whose holder takes its time, keeps nobody out of admission.
#[test]
fn those_who_wait_behind_others_or_for_long_do_not_count_for_the_bound() {
    let admission = flifo_admission::Admission::new(flifo_admission::Config::default()).unwrap();
    let table = Arc::new(LockTable::new(LockConfig::default()));
    let key = LockKey { tree: 1, key: Some(b"a") };
    table.lock(Request::new(TxnId(0), key, LockMode::Exclusive), &Waiter::background()).unwrap();
    let threads: Vec<_> = (1..=20)
        .map(|id| {
            let (table, waiter) = (Arc::clone(&table), Waiter::session(admission.session()));
            thread::spawn(move || {
                let _slot = waiter.admission().unwrap().slot().unwrap();
                table.lock(Request::new(TxnId(id), key, LockMode::Exclusive), &waiter).unwrap();
                table.release_all(TxnId(id));
            })
        })
        .collect();
    while table.stats().waiting < 20 {
        thread::yield_now();
    }
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while admission.snapshot().lock_waiters > 0 {
        assert!(std::time::Instant::now() < deadline, "its wait is a long one");
        thread::sleep(Duration::from_millis(1));
    }
    table.release_all(TxnId(0));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_drained(&table);
}

/// With one slot, the holder could never release its lock if the waiter kept the slot.
#[test]
fn a_wait_releases_its_slot_in_admission() {
    let config = flifo_admission::Config { thread_concurrency: 1, ..flifo_admission::Config::default() };
    let admission = flifo_admission::Admission::new(config).unwrap();
    let table = Arc::new(LockTable::new(LockConfig::default()));
    let key = LockKey { tree: 1, key: Some(b"a") };
    let holder = Waiter::background();
    table.lock(Request::new(TxnId(1), key, LockMode::Exclusive), &holder).unwrap();
    let waiting = {
        let (table, session) = (Arc::clone(&table), admission.session());
        thread::spawn(move || {
            let waiter = Waiter::session(session);
            let _slot = waiter.admission().unwrap().slot().unwrap();
            table.lock(Request::new(TxnId(2), key, LockMode::Exclusive), &waiter)
        })
    };
    while table.stats().waiting == 0 {
        thread::yield_now();
    }
    let session = admission.session();
    let slot = session.slot().unwrap();
    table.release_all(TxnId(1));
    drop(slot);
    assert_eq!(waiting.join().unwrap(), Ok(Granted::AfterWait));
    table.release_all(TxnId(2));
    assert_drained(&table);
}

/// Writers that end while others make their implicit locks explicit leave none behind.
#[test]
fn no_lock_is_made_for_one_that_has_ended() {
    const ROUNDS: u64 = 2000;
    let table = Arc::new(LockTable::new(LockConfig { owner_slots: 2, ..LockConfig::default() }));
    let active = Arc::new(AtomicU64::new(0));
    let start = Arc::new(Barrier::new(2));
    let key = LockKey { tree: 1, key: Some(b"row") };
    let other = {
        let (table, active, start) = (Arc::clone(&table), Arc::clone(&active), Arc::clone(&start));
        thread::spawn(move || {
            for id in 1..=ROUNDS {
                start.wait();
                table.make_explicit(TxnId(id), key, || active.load(Ordering::Relaxed) == id);
                start.wait();
            }
        })
    };
    for id in 1..=ROUNDS {
        active.store(id, Ordering::Relaxed);
        start.wait();
        active.store(0, Ordering::Relaxed);
        table.release_all(TxnId(id));
        start.wait();
        assert_drained(&table);
    }
    other.join().unwrap();
}
