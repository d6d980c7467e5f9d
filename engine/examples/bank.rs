//! Transfers between accounts by many threads: whoever looks always finds all the money.
//!
//! `cargo run --release -p flifo-engine --example bank`

use std::ops::{Bound, ControlFlow};
use std::time::{Duration, Instant};

use flifo_admission::{Admission, Config};
use flifo_engine::{Database, EngineConfig, Error, FlushLog, Isolation, Session, Table};

const ACCOUNTS: u64 = 1_000;
const OPENING: u64 = 100;
const THREADS: u64 = 64;

type Done<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Done {
    let dir = tempfile::tempdir()?;
    // A commit that survives the end of the process, not that of the power.
    let config = EngineConfig { flush_log_at_trx_commit: FlushLog::Write, ..EngineConfig::default() };
    let db = Database::create(dir.path().join("bank"), config)?;
    let accounts = db.create_table("accounts")?;
    let admission = Admission::new(Config::default())?;

    let session = db.session(&admission);
    let mut opening = session.begin(Isolation::RepeatableRead);
    for account in 0..ACCOUNTS {
        opening.insert(&accounts, &account.to_be_bytes(), &OPENING.to_le_bytes())?;
    }
    opening.commit()?;

    let until = Instant::now() + Duration::from_secs(2);
    let transfers = std::thread::scope(|scope| -> Done<u64> {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (db, accounts, admission) = (&db, &accounts, &admission);
                scope.spawn(move || work(&db.session(admission), accounts, thread, until))
            })
            .collect();
        let mut looks = 0;
        while Instant::now() < until {
            assert_eq!(total(&session, &accounts)?, ACCOUNTS * OPENING);
            looks += 1;
        }
        println!("{looks} looks, all the money each time");
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })?;
    let stats = db.stats();
    println!("{transfers} transfers by {THREADS} threads, {} deadlocks", stats.locks.deadlocks);
    drop(accounts);
    db.close()?;
    Ok(())
}

fn work(session: &Session, accounts: &Table, thread: u64, until: Instant) -> Done<u64> {
    let (mut done, mut n) = (0, thread);
    while Instant::now() < until {
        n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match transfer(session, accounts, (n >> 33) % ACCOUNTS, (n >> 13) % ACCOUNTS, n % 20) {
            Ok(()) => done += 1,
            // Two wanted each other's accounts: one has to begin again.
            Err(Error::Deadlock) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

fn transfer(
    session: &Session,
    accounts: &Table,
    from: u64,
    to: u64,
    amount: u64,
) -> flifo_engine::Result<()> {
    let mut txn = session.begin(Isolation::ReadCommitted);
    let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
    let mut balance = Vec::new();
    txn.get_for_update(accounts, &from, &mut balance)?;
    let there = number(&balance);
    if there < amount {
        return txn.rollback();
    }
    txn.update(accounts, &from, &(there - amount).to_le_bytes())?;
    txn.get_for_update(accounts, &to, &mut balance)?;
    txn.update(accounts, &to, &(number(&balance) + amount).to_le_bytes())?;
    txn.commit()
}

/// The sum over all accounts, as of one moment.
fn total(session: &Session, accounts: &Table) -> flifo_engine::Result<u64> {
    let mut total = 0;
    session.begin(Isolation::RepeatableRead).scan(
        accounts,
        Bound::Unbounded,
        Bound::Unbounded,
        |_, balance| {
            total += number(balance);
            ControlFlow::Continue(())
        },
    )?;
    Ok(total)
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("a balance has 8 bytes"))
}
