//! 2000 tasks, eight slots: `cargo run --release -p flifo-admission --example tokio`.
//!
//! Each task runs statements: some work that the limit is for, and the reply, which is a wait. One statement in five has a timeout
//! shorter than the queue: its future is dropped in the queue or while it runs. What to look at: few more than eight run at once,
//! nothing runs or queues at the end, and `Wait, network` shows the times of the replies. After a reply a statement enters by
//! force, above the limit; here it has no more to do and exits.

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
            for number in n..n + 5 {
                let patience = Duration::from_millis(if number % 5 == 0 { 5 } else { 60_000 });
                // The outer error is the timeout, the inner one a refusal by the scheduler.
                in_time += u32::from(matches!(timeout(patience, statement(&mut session)).await, Ok(Ok(()))));
            }
            in_time
        }));
    }
    let mut in_time = 0;
    for task in tasks {
        in_time += task.await?;
    }
    println!("{in_time} of 10000 statements ran in time");
    println!("{}", admission.snapshot());
    Ok(())
}

async fn statement(session: &mut Session) -> Result<(), Refused> {
    let mut slot = session.slot_async().await?;
    for _row in 0..10 {
        slot.enter_async().await?; // A ticket for each row: about a nanosecond.
    }
    sleep(Duration::from_millis(1)).await; // The work: not declared as a wait, so it keeps the slot.
    slot.wait_for(WaitKind::Network, sleep(Duration::from_millis(1))).await;
    Ok(())
}
