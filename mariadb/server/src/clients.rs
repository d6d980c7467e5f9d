//! What clients of a server's tests do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use mysql::Conn;
use mysql::prelude::Queryable;

/// Runs a statement and reads all results: an error may come after the first row.
pub fn run(client: &mut Conn, statement: &str) -> mysql::Result<()> {
    let mut results = client.query_iter(statement)?;
    while let Some(rows) = results.iter() {
        for row in rows {
            row?;
        }
    }
    Ok(())
}

/// Runs a statement as a prepared one of the binary protocol, and reads all results.
pub fn execute(client: &mut Conn, statement: &str) -> mysql::Result<()> {
    let mut results = client.exec_iter(statement, ())?;
    while let Some(rows) = results.iter() {
        for row in rows {
            row?;
        }
    }
    Ok(())
}

/// Number and text of the server's error; 0 if there is none.
///
/// # Panics
/// If the error is not the server's.
#[track_caller]
pub fn error_of<T>(result: mysql::Result<T>) -> (u16, String) {
    match result {
        Ok(_) => (0, String::new()),
        Err(mysql::Error::MySqlError(error)) => (error.code, error.message),
        Err(other) => panic!("not an answer of the server: {other}"),
    }
}

/// The number alone of [`error_of`].
#[track_caller]
pub fn code<T>(result: mysql::Result<T>) -> u16 {
    error_of(result).0
}

/// Runs `size` threads of `each`, which end once the flag is set, beside `work`. The flag is set when `work` ends or panics.
pub fn crowd<R>(size: usize, each: impl Fn(usize, &AtomicBool) + Sync, work: impl FnOnce() -> R) -> R {
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    let (each, stop) = (&each, &stop);
    thread::scope(|scope| {
        let _end = Stop(stop);
        for number in 0..size {
            scope.spawn(move || each(number, stop));
        }
        work()
    })
}
