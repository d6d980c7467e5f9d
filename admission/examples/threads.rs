//! 64 threads, four places: `cargo run --release -p flifo-admission --example threads`.
//!
//! Each thread makes short statements, as the connections of a server do; one in ten waits for a disk. The
//! scheduler prints a line each half second, and at the end the block that says how it went. What to look
//! at: `inside` is near the limit however long the queue is; W is the time a woken thread needs to run, S
//! the time a statement is inside; the sum of `entries` tells what was done.

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
        session.enter()?; // A ticket for each row: it costs next to nothing.
        (0..100).for_each(|column| _ = black_box((row ^ column).wrapping_mul(0x100_0000_01b3)));
    }
    if n.is_multiple_of(10) {
        session.wait_begin(WaitKind::Disk);
        thread::sleep(Duration::from_micros(100));
        session.wait_end(WaitKind::Disk);
    }
    Ok(())
}
