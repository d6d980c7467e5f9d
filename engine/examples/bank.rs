//! Transfers between accounts by many threads: every reader always finds the same total.
//!
//! `cargo run --release -p flifo-engine --example bank`

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use flifo_admission::{Admission, Config};
use flifo_engine::row::{Column, ColumnType, Index, Prefix, Schema, desc};
use flifo_engine::{Database, EngineConfig, Error, FlushLog, Isolation, Session, TypedTable};

const ACCOUNTS: u64 = 1_000;
const BRANCHES: u64 = 10;
const OPENING: u64 = 100;
const THREADS: u64 = 64;

type Done<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Done {
    let dir = tempfile::tempdir()?;
    // A commit that survives the end of the process, not that of the power.
    let config = EngineConfig { flush_log_at_trx_commit: FlushLog::Write, ..EngineConfig::default() };
    let db = Database::create(dir.path().join("bank"), config)?;
    let schema = Schema::builder()
        .column(Column::new("number", ColumnType::U64))
        .column(Column::new("branch", ColumnType::U32))
        .column(Column::new("balance", ColumnType::U64))
        .primary_key(["number"])
        .index(Index::new("richest", ["branch".into(), desc("balance")]))
        .build()?;
    let accounts = db.create_typed_table("accounts", schema)?;
    let rows = (0..ACCOUNTS).map(|account| (account, account % BRANCHES, OPENING));
    db.bulk_load_rows(&accounts, rows, |_| {})?;
    let admission = Admission::new(Config::default())?;

    let session = db.session(&admission);
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
        println!("{looks} reads, all the money each time");
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })?;
    let stats = db.stats();
    println!("{transfers} transfers by {THREADS} threads, {} deadlocks", stats.locks.deadlocks);
    let (number, balance) = richest(&session, &accounts, 7)?;
    println!("the richest of branch 7 is account {number}, with {balance}");
    drop(accounts);
    db.close()?;
    Ok(())
}

fn work(session: &Session, accounts: &TypedTable, thread: u64, until: Instant) -> Done<u64> {
    let (mut done, mut n) = (0, thread);
    while Instant::now() < until {
        n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match transfer(session, accounts, (n >> 33) % ACCOUNTS, (n >> 13) % ACCOUNTS, n % 20) {
            Ok(()) => done += 1,
            // Two transactions needed each other's accounts: one starts again.
            Err(Error::Deadlock) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

fn transfer(
    session: &Session,
    accounts: &TypedTable,
    from: u64,
    to: u64,
    amount: u64,
) -> flifo_engine::Result<()> {
    let mut txn = session.begin(Isolation::ReadCommitted);
    let mut enough = false;
    accounts.update_with(&mut txn, from, |row| {
        let balance = row.get("balance")?.as_u64().unwrap_or(0);
        enough = balance >= amount;
        Ok(row.set("balance", if enough { balance - amount } else { balance })?)
    })?;
    if !enough {
        return txn.rollback();
    }
    accounts.update_with(&mut txn, to, |row| {
        let balance = row.get("balance")?.as_u64().unwrap_or(0);
        Ok(row.set("balance", balance + amount)?)
    })?;
    txn.commit()
}

/// The sum over all accounts, as of one moment.
fn total(session: &Session, accounts: &TypedTable) -> flifo_engine::Result<u64> {
    let mut txn = session.begin(Isolation::RepeatableRead);
    accounts.iter(&mut txn, ..)?.map(|row| Ok(row?.get("balance")?.as_u64().unwrap_or(0))).sum()
}

/// Number and balance, from the index alone.
fn richest(session: &Session, accounts: &TypedTable, branch: u32) -> flifo_engine::Result<(u64, u64)> {
    let mut found = (0, 0);
    let mut txn = session.begin(Isolation::RepeatableRead);
    accounts.scan_entries(&mut txn, "richest", Prefix(branch), |entry| {
        let column = |name| entry.get(name).ok().and_then(|value| value.as_u64()).unwrap_or(0);
        found = (column("number"), column("balance"));
        ControlFlow::Break(())
    })?;
    Ok(found)
}
