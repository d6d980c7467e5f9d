//! A process under load is killed (kill -9) again and again, on real files: what was acknowledged is there afterwards.
//!
//! `FLIFO_KILLS` says how often; `make soak` does it 200 times.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::history::{Worker, check};
use common::{config, flush_mode, session};
use flifo_engine::{Database, EngineConfig, FlushLog};

const WORKERS: u64 = 4;
const SEED: u64 = 11;

/// One mode of flushing after the other, from kill to kill.
fn small(kill: u64) -> EngineConfig {
    EngineConfig {
        // Less than the data, so that pages are written all the time; and what a kill leaves needs no sync.
        buffer_pool_bytes: 256 << 10,
        flush_log_at_trx_commit: FlushLog::Write,
        flush_mode: flush_mode(kill),
        ..config()
    }
}

#[test]
fn what_was_acknowledged_survives_every_kill() {
    let kills = std::env::var("FLIFO_KILLS").map_or(8, |kills| kills.parse().expect("a number"));
    let dir = tempfile::tempdir().unwrap();
    let db = Database::create(dir.path(), small(0)).unwrap();
    db.create_tree("t").unwrap();
    db.close().unwrap();
    drop(db);
    let mut done = vec![0; WORKERS as usize];
    for kill in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["goes_on_until_it_is_killed", "--exact", "--ignored", "--nocapture"])
            .env("FLIFO_TEST_DIR", dir.path())
            .env("FLIFO_TEST_KILL", kill.to_string())
            .env("FLIFO_TEST_DONE", done.iter().map(u64::to_string).collect::<Vec<_>>().join(","))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut last = vec![None; WORKERS as usize];
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let numbers: Vec<u64> =
                    line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
                // A line that the kill cut off acknowledges nothing.
                if let (true, [number, done]) =
                    (line.starts_with("done ") && line.ends_with('.'), &numbers[..])
                {
                    last[*number as usize] = Some(*done);
                }
            }
            last
        });
        // From before the recovery's end to long after it.
        std::thread::sleep(Duration::from_millis(20 + kill * 37 % 400));
        child.kill().unwrap();
        child.wait().unwrap();
        for (done, last) in done.iter_mut().zip(reader.join().unwrap()) {
            *done = last.unwrap_or(*done);
        }
        // The one change of each that was under way may have happened.
        let db = Database::open(dir.path(), small(kill + 1)).unwrap();
        let tree = db.tree("t").unwrap();
        done = check(&db, &tree, SEED, &done, 1).iter().map(|worker| worker.done).collect();
        if kill % 3 == 0 {
            db.close().unwrap();
        }
    }
    assert!(done.iter().sum::<u64>() > 0, "nothing was done");
}

#[test]
#[ignore = "the child of what_was_acknowledged_survives_every_kill"]
fn goes_on_until_it_is_killed() {
    let dir = PathBuf::from(std::env::var_os("FLIFO_TEST_DIR").unwrap());
    let done = std::env::var("FLIFO_TEST_DONE").unwrap();
    let kill = std::env::var("FLIFO_TEST_KILL").unwrap().parse().unwrap();
    let db = Database::open(dir, small(kill)).unwrap();
    let tree = db.tree("t").unwrap();
    std::thread::scope(|scope| {
        for (number, done) in done.split(',').enumerate() {
            let (db, tree) = (&db, &tree);
            let mut worker = Worker::after(SEED, number as u64, done.parse().unwrap());
            scope.spawn(move || {
                let session = session(db);
                loop {
                    worker.change(&session, tree).unwrap();
                    // One write a line, so that lines of several workers are not mixed.
                    let line = format!("done {} {} .\n", worker.number, worker.done);
                    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                    std::io::stdout().flush().unwrap();
                }
            });
        }
    });
}
