//! Shared by the tests: small databases, and rows whose values follow from their keys.
#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod history;

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use flifo_admission::{Admission, Config};
use flifo_engine::{Database, EngineConfig, FlushMode, Result, Session, Table, Transaction, Tree};

/// Small pages and a small pool, so that little data makes a deep tree and a full pool.
pub(crate) fn config() -> EngineConfig {
    EngineConfig {
        buffer_pool_bytes: 1 << 20,
        buffer_pool_instances: 2,
        data_files: 3,
        page_size: 4096,
        redo_capacity_bytes: 4 << 20,
        log_buffer_bytes: 256 << 10,
        ..EngineConfig::default()
    }
}

/// One mode of flushing after the other.
pub(crate) fn flush_mode(number: u64) -> FlushMode {
    FlushMode::ALL[number as usize % FlushMode::ALL.len()]
}

pub(crate) fn admission() -> Arc<Admission> {
    Admission::new(Config::default()).unwrap()
}

pub(crate) fn session(db: &Database) -> Session {
    db.session(&admission())
}

pub(crate) fn key(row: u64) -> [u8; 8] {
    row.to_be_bytes()
}

/// 100 to 160 bytes that only this row has.
pub(crate) fn value(row: u64) -> Vec<u8> {
    let length = 100 + (row % 61) as usize;
    let mut value = format!("the value of row {row}; ").into_bytes();
    value.resize(length, (row % 251) as u8);
    value
}

pub(crate) fn rows(count: u64) -> impl Iterator<Item = ([u8; 8], Vec<u8>)> {
    (0..count).map(|row| (key(row), value(row)))
}

/// Every row of `0..count` is there with its value, and no other; read one by one, and by a scan.
pub(crate) fn verify(db: &Database, tree: &Tree, count: u64) -> Result<()> {
    verify_some(db, tree, count, 1)
}

/// The same, with every `step`-th row read by itself: debug builds are slow.
pub(crate) fn verify_some(db: &Database, tree: &Tree, count: u64, step: usize) -> Result<()> {
    let session = session(db);
    let statement = session.statement().unwrap();
    let mut found = Vec::new();
    for row in (0..count).step_by(step) {
        assert!(statement.get(tree, &key(row), &mut found)?, "row {row} is not there");
        assert_eq!(found, value(row), "row {row}");
    }
    assert!(!statement.get(tree, &key(count), &mut found)?);
    let mut next = 0;
    statement.scan(tree, Bound::Unbounded, Bound::Unbounded, |found_key, found| {
        assert_eq!(found_key, key(next));
        assert_eq!(found, value(next), "row {next}");
        next += 1;
        ControlFlow::Continue(())
    })?;
    assert_eq!(next, count);
    Ok(())
}

/// The row that the transaction sees.
pub(crate) fn get(txn: &mut Transaction<'_>, table: &Table, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    txn.get(table, key, &mut value).unwrap().then_some(value)
}

/// All rows that the transaction sees.
pub(crate) fn all(txn: &mut Transaction<'_>, table: &Table) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut rows = BTreeMap::new();
    txn.scan(table, Bound::Unbounded, Bound::Unbounded, |key, value| {
        rows.insert(key.to_vec(), value.to_vec());
        ControlFlow::Continue(())
    })
    .unwrap();
    rows
}
