//! 2000 tasks, eight places: `cargo run --release -p flifo-admission --example tokio`.
//!
//! Each task makes statements: some work that the limit is for, and the reply, which is a wait. One statement
//! in five has less patience than the queue is long: its future is dropped where it stands, in the queue or
//! inside. What to look at: no more than eight were inside, nothing is left inside or queued at the end, and
//! `Wait, network` says how long the replies took. Replies come back by force, past the limit; here each has
//! nothing left to do then, and leaves.

use std::time::Duration;

use flifo_admission::{Admission, Config, Policy, Refused, Session, WaitKind};
use tokio::time::{sleep, timeout};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = Config { policy: Policy::Fifo, thread_concurrency: 8, ..Config::default() };
    let admission = Admission::new(config)?;
    let mut tasks = Vec::new();
    for n in 0..2000u32 {
        let mut session = admission.session();
        tasks.push(tokio::spawn(async move {
            let mut in_time = 0;
            for turn in n..n + 5 {
                let patience = Duration::from_millis(if turn % 5 == 0 { 5 } else { 60_000 });
                // An error of `timeout` is impatience, one within is a refusal of the scheduler's.
                in_time += u32::from(matches!(timeout(patience, statement(&mut session)).await, Ok(Ok(()))));
            }
            in_time
        }));
    }
    let mut in_time = 0;
    for task in tasks {
        in_time += task.await?;
    }
    println!("{in_time} of 10000 statements were made in time");
    println!("{}", admission.snapshot());
    Ok(())
}

async fn statement(session: &mut Session) -> Result<(), Refused> {
    let mut place = session.slot_async().await?;
    for _row in 0..10 {
        place.enter_async().await?; // A ticket for each row: it costs next to nothing.
    }
    sleep(Duration::from_millis(1)).await; // The work: not declared as a wait, so it keeps the place.
    place.wait_for(WaitKind::Network, sleep(Duration::from_millis(1))).await;
    Ok(())
}
