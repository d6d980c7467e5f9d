//! 64 threads, four slots: `cargo run --release -p flifo-admission --example threads`.
//!
//! Each thread runs short statements, as the connections of a server do; one statement in ten waits for a disk. The scheduler
//! prints a line each half second, and a block of text at the end. What to look at: `running` is near the limit, whatever the
//! length of the queue; W is the time from waking a thread until it runs, S the time that a statement runs; `entries` is the
//! work done.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use flifo_admission::{Admission, Config, Refused, Session, WaitKind};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let admission = Admission::new(Config { thread_concurrency: 4, ..Config::default() })?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..64 {
            let (session, stop) = (admission.session(), &stop);
            scope.spawn(move || {
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) || statement(&session, n).is_err() {
                        break;
                    }
                }
            });
        }
        let mut last = admission.snapshot();
        for _ in 0..4 {
            thread::sleep(Duration::from_millis(500));
            let now = admission.snapshot();
            println!("{}", now.since(&last).line());
            last = now;
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("{}", admission.snapshot());
    Ok(())
}

fn statement(session: &Session, n: u32) -> Result<(), Refused> {
    let _slot = session.slot()?;
    for row in 0..100u64 {
        session.enter()?; // A ticket for each row: about a nanosecond.
        (0..100).for_each(|column| _ = black_box((row ^ column).wrapping_mul(0x100_0000_01b3)));
    }
    if n.is_multiple_of(10) {
        session.wait_begin(WaitKind::Disk);
        thread::sleep(Duration::from_micros(100));
        session.wait_end(WaitKind::Disk);
    }
    Ok(())
}
