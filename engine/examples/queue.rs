//! A queue of jobs: producers append, workers take the oldest, and a job whose worker fails returns to the queue.
//!
//! `cargo run --release -p flifo-engine --example queue`

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU64, Ordering};

use flifo_admission::{Admission, Config};
use flifo_engine::{Database, EngineConfig, Isolation, Session, Table};

const JOBS: u64 = 2_000;
const WORKERS: u64 = 8;

type Done<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Done {
    let dir = tempfile::tempdir()?;
    let db = Database::create(dir.path().join("queue"), EngineConfig::default())?;
    let (jobs, results) = (db.create_table("jobs")?, db.create_table("results")?);
    let admission = Admission::new(Config::default())?;
    let (done, failed) = (AtomicU64::new(0), AtomicU64::new(0));

    std::thread::scope(|scope| -> Done {
        let (db, jobs, results, admission) = (&db, &jobs, &results, &admission);
        let (done, failed) = (&done, &failed);
        let mut threads = vec![scope.spawn(move || produce(&db.session(admission), jobs))];
        for worker in 0..WORKERS {
            threads.push(scope.spawn(move || {
                let session = db.session(admission);
                while done.load(Ordering::Relaxed) < JOBS {
                    match work(&session, jobs, results, worker, failed) {
                        Ok(true) => drop(done.fetch_add(1, Ordering::Relaxed)),
                        Ok(false) => std::thread::yield_now(),
                        // Another worker has taken the job, or waits for one that this one has.
                        Err(error) if error.is_retryable() => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Ok(())
            }));
        }
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;

    let mut rows = 0;
    let session = db.session(&admission);
    session.begin(Isolation::RepeatableRead).scan(&results, Bound::Unbounded, Bound::Unbounded, |_, _| {
        rows += 1;
        ControlFlow::Continue(())
    })?;
    assert_eq!(rows, JOBS, "each job was done once");
    println!(
        "{JOBS} jobs done once each by {WORKERS} workers, {} attempts failed",
        failed.load(Ordering::Relaxed)
    );
    drop((session, jobs, results));
    db.close()?;
    Ok(())
}

fn produce(session: &Session, jobs: &Table) -> Done {
    for first in (0..JOBS).step_by(100) {
        let mut txn = session.begin(Isolation::ReadCommitted);
        for job in first..first + 100 {
            txn.insert(jobs, &job.to_be_bytes(), format!("square {job}").as_bytes())?;
        }
        txn.commit()?;
    }
    Ok(())
}

/// Takes the oldest job and does it; false if there is none.
fn work(
    session: &Session,
    jobs: &Table,
    results: &Table,
    worker: u64,
    failed: &AtomicU64,
) -> flifo_engine::Result<bool> {
    let mut txn = session.begin(Isolation::RepeatableRead);
    let mut oldest = None;
    txn.scan(jobs, Bound::Unbounded, Bound::Unbounded, |job, _| {
        oldest = Some(job.to_vec());
        ControlFlow::Break(())
    })?;
    let Some(job) = oldest else { return Ok(false) };
    if !txn.delete(jobs, &job)? {
        return Ok(false);
    }
    let number = u64::from_be_bytes(job[..].try_into().expect("a job's number"));
    if number % 100 == 99 && failed.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
        // The worker gives up: the transaction is dropped, and the job is there for the next one.
        return Ok(false);
    }
    txn.insert(results, &job, format!("{} by worker {worker}", number * number).as_bytes())?;
    txn.commit()?;
    Ok(true)
}
