//! A few threads in random and in adversarial (PCT) schedules (shuttle): locks, deadlocks, cancels and timeouts at
//! once; writers without lock objects, which undo some of their changes, beside readers with lock objects; and owners that
//! end before they have read the row they waited for. Shuttle itself detects threads that wait forever.

use std::sync::atomic::{AtomicI64, Ordering};

use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use super::super::*;
use crate::schedules::{adversarial, random};

const THREADS: u64 = 4;
const ROWS: usize = 2;

fn any(n: u64) -> u64 {
    thread_rng().gen_range(0..n)
}

/// Readers count one, writers this much.
const WRITER: i64 = 1 << 32;

fn transaction(table: &LockTable, rows: &[AtomicI64; ROWS], owner: TxnId) {
    let waiter = Waiter::background();
    let mut inside = [0; ROWS];
    for taken in 0..2 {
        let row = any(ROWS as u64) as usize;
        let name = [row as u8];
        let key = LockKey { tree: 0, key: Some(&name) };
        let mode = LockMode::ALL[any(6) as usize];
        let mut request = Request::new(owner, key, mode);
        request.class = if taken > 0 { Class::First } else { Class::Newcomer };
        request.timeout = [None, None, Some(Duration::ZERO), Some(Duration::from_secs(1))][any(4) as usize];
        if any(8) == 0 {
            table.make_explicit(TxnId(any(THREADS)), LockKey { tree: 1, key: None }, || false);
        }
        let outcome = table.lock(request, &waiter);
        if outcome.is_err() {
            assert!(!table.holds(owner, key, mode), "{mode:?}: {outcome:?}");
        }
        match outcome {
            Ok(_) => {}
            Err(LockError::Deadlock) => break,
            Err(_) => continue,
        }
        // Without a look at the table, whose mutex would make it wait for the one that granted.
        let now = inside[row].max(match mode {
            LockMode::Exclusive | LockMode::NextKeyExclusive => WRITER,
            LockMode::Shared | LockMode::NextKeyShared => 1,
            LockMode::Gap | LockMode::InsertIntention => 0,
        });
        let others = rows[row].fetch_add(now - inside[row], Ordering::Relaxed) - inside[row];
        inside[row] = now;
        assert!(now == 0 || others == 0 || (now == 1 && others < WRITER), "{now} beside {others}");
        thread::yield_now();
    }
    for (row, inside) in rows.iter().zip(inside) {
        row.fetch_sub(inside, Ordering::Relaxed);
    }
    table.release_all(owner);
}

fn everything() {
    let steps_max = [1, 200][any(2) as usize];
    let config = LockConfig {
        shards: 2,
        owner_slots: 2,
        promote_after: [Duration::ZERO, Duration::MAX][any(2) as usize],
        // No time passes here.
        turn: Duration::ZERO,
        deadlock_steps_max: steps_max,
        ..LockConfig::default()
    };
    let table = Arc::new(LockTable::new(config));
    let rows: Arc<[AtomicI64; ROWS]> = Arc::default();
    let over = Arc::new(AtomicI64::new(0));
    let mut threads = vec![];
    for n in 0..THREADS {
        let (table, rows, over) = (Arc::clone(&table), Arc::clone(&rows), Arc::clone(&over));
        threads.push(thread::spawn(move || {
            transaction(&table, &rows, TxnId(n));
            transaction(&table, &rows, TxnId(n + THREADS));
            over.fetch_add(1, Ordering::Relaxed);
        }));
    }
    let boss = {
        let (table, over) = (Arc::clone(&table), Arc::clone(&over));
        thread::spawn(move || {
            let mut detector = Detector::new(&table);
            if any(2) == 0 {
                table.cancel(TxnId(any(2 * THREADS)));
            }
            // Left to it is found by it, however late.
            while over.load(Ordering::Relaxed) < THREADS as i64 {
                detector.step(Instant::now());
                thread::yield_now();
            }
        })
    };
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    boss.join().unwrap();
    let stats = table.stats();
    assert_eq!((stats.locks, stats.waiting), (0, 0));
    assert!(table.owners.is_empty());
    assert!(table.shards.iter().all(|shard| lock(&shard.0).objects().next().is_none()));
}

/// A row as the modules above keep it: under its latch, the transaction that wrote it last.
type Row = sync::Mutex<Option<TxnId>>;

/// Writers whose ids in the rows are their locks, and readers with lock objects, by the protocol of the modules above.
struct Rows {
    table: LockTable,
    rows: [Row; ROWS],
    /// By id.
    active: [sync::AtomicU32; 2 * THREADS as usize],
}

impl Rows {
    fn is_active(&self, owner: TxnId) -> bool {
        self.active[owner.0 as usize].load(Ordering::SeqCst) == 1
    }

    /// Locks a row, to write it or to read it; who had written it last.
    fn take(&self, owner: TxnId, row: usize, writes: bool) -> Result<Option<TxnId>, LockError> {
        let name = [row as u8];
        let mode = if writes { LockMode::Exclusive } else { LockMode::Shared };
        let mut request = Request::new(owner, LockKey { tree: 0, key: Some(&name) }, mode);
        loop {
            let mut latched = lock(&self.rows[row]);
            let before = *latched;
            let writer = before.filter(|&writer| writer != owner && self.is_active(writer));
            if writer.is_none() {
                let is_own = before == Some(owner);
                let has = match writes {
                    true => is_own || self.table.claim(&request),
                    false => {
                        if is_own {
                            self.table.make_explicit(owner, request.key, || true);
                        }
                        self.table.try_lock(request)
                    }
                };
                if has {
                    if writes {
                        *latched = Some(owner);
                    }
                    return Ok(before);
                }
                assert!(!is_own, "no owner is in the way of the row's writer");
            }
            drop(latched);
            if writer.is_none_or(|writer| self.has_row(writer, row, request.key)) {
                let has_waited = self.table.queue(request, &Waiter::background())? == Granted::AfterWait;
                if has_waited && any(8) == 0 {
                    // As if its look had failed: it ends, and may have been passed.
                    return Err(LockError::Cancelled);
                }
                request.insists |= has_waited;
            }
        }
    }

    /// Whether a writer that was seen in the row is still there, so that others wait for it. It may have undone its change.
    fn has_row(&self, writer: TxnId, row: usize, key: LockKey<'_>) -> bool {
        if self.table.holds(writer, key, LockMode::Exclusive) {
            return true;
        }
        let latched = lock(&self.rows[row]);
        *latched == Some(writer) && self.table.make_explicit(writer, key, || self.is_active(writer))
    }

    fn transaction(&self, owner: TxnId) {
        self.active[owner.0 as usize].store(1, Ordering::SeqCst);
        let mut taken = [None; ROWS];
        for _ in 0..2 {
            let row = any(ROWS as u64) as usize;
            if any(4) == 0 {
                self.table.cancel(TxnId(any(2 * THREADS)));
            }
            let writes = any(3) > 0;
            let before = match self.take(owner, row, writes) {
                Ok(before) => before,
                Err(LockError::Timeout) => unreachable!("it waits without end"),
                Err(LockError::Deadlock | LockError::Cancelled) => break,
            };
            if writes && any(3) == 0 {
                thread::yield_now();
                // What it had of the row before, it has.
                *lock(&self.rows[row]) = before;
            } else {
                taken[row] = Some(if writes { Some(owner) } else { before });
            }
            thread::yield_now();
        }
        for (row, taken) in self.rows.iter().zip(taken) {
            assert!(
                taken.is_none_or(|writer| *lock(row) == writer),
                "somebody wrote what {owner:?} had locked"
            );
        }
        self.active[owner.0 as usize].store(0, Ordering::SeqCst);
        self.table.release_all(owner);
    }
}

fn writers_and_readers() {
    let config = LockConfig {
        shards: 2,
        owner_slots: 2,
        promote_after: [Duration::ZERO, Duration::MAX][any(2) as usize],
        // No time passes here.
        turn: Duration::ZERO,
        ..LockConfig::default()
    };
    let table = LockTable::new(config);
    let rows = std::array::from_fn(|_| sync::Mutex::new(None));
    let active = std::array::from_fn(|_| sync::AtomicU32::new(0));
    let rows = Arc::new(Rows { table, rows, active });
    let threads: Vec<_> = (0..THREADS)
        .map(|n| {
            let rows = Arc::clone(&rows);
            thread::spawn(move || {
                rows.transaction(TxnId(n));
                rows.transaction(TxnId(n + THREADS));
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let stats = rows.table.stats();
    assert_eq!((stats.locks, stats.waiting), (0, 0));
    assert!(rows.table.owners.is_empty());
}

#[test]
fn random_schedules() {
    random(everything);
    random(writers_and_readers);
}

#[test]
fn adversarial_schedules() {
    adversarial(everything);
    adversarial(writers_and_readers);
}
