//! The threads that play clients: each waits for a command, obeys, reports.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use flifo_admission::Admission;

use super::{Driver, Job, Tally};
use crate::error::Error;

/// What a driver's thread is told.
#[derive(Clone)]
enum Command {
    Open(Arc<Admission>),
    Run(Job),
}

/// What it answers, with its place among the drivers.
type Report = (usize, Result<Option<Tally>, Error>);

/// Drivers, each in a thread of its own.
pub(super) struct Crew {
    members: Vec<Member>,
    reports: Receiver<Report>,
    tids: Vec<u32>,
}

struct Member {
    commands: Sender<Command>,
    thread: JoinHandle<()>,
}

impl Crew {
    /// Starts a thread per driver.
    pub(super) fn start_threads<D: Driver>(
        name: &str,
        stack_bytes: usize,
        drivers: impl IntoIterator<Item = D>,
    ) -> Result<Self, Error> {
        let (report, reports) = channel();
        let (tell_tid, tids) = channel();
        let mut members = Vec::new();
        for (place, mut driver) in drivers.into_iter().enumerate() {
            let (commands, orders) = channel();
            let (report, tell_tid) = (report.clone(), tell_tid.clone());
            let thread = Builder::new()
                .name(format!("{name}-{place}"))
                .stack_size(stack_bytes)
                .spawn(move || {
                    let _ = tell_tid.send(rustix::thread::gettid().as_raw_nonzero().get() as u32);
                    drop(tell_tid);
                    obey(place, &mut driver, &orders, &report);
                })
                .map_err(|source| Error::thread(place as u64, source))?;
            members.push(Member { commands, thread });
        }
        drop(tell_tid);
        Ok(Crew { members, reports, tids: tids.into_iter().collect() })
    }

    /// Kernel ids of the threads.
    pub(super) fn tids(&self) -> &[u32] {
        &self.tids
    }

    /// Gives every connection a new session; returns when all have it.
    pub(super) fn open(&mut self, admission: &Arc<Admission>) -> Result<(), Error> {
        self.tell(&Command::Open(Arc::clone(admission)));
        self.collect().map(|_| ())
    }

    /// Sets all drivers going.
    pub(super) fn start(&mut self, job: &Job) {
        self.tell(&Command::Run(job.clone()));
    }

    /// Waits for all drivers' counts; the sum, connections in the order of the drivers.
    pub(super) fn finish(&mut self) -> Result<Tally, Error> {
        let mut sum = Tally::new(0);
        for tally in self.collect()?.into_iter().flatten() {
            sum.add(tally);
        }
        Ok(sum)
    }

    /// Ends the threads, which wait for a command.
    pub(super) fn close(&mut self) {
        for member in self.members.drain(..) {
            drop(member.commands);
            // A panic was reported as an error when it happened.
            let _ = member.thread.join();
        }
    }

    /// Leaves the threads to themselves: one of them may hang.
    pub(super) fn abandon(&mut self) {
        self.members.clear();
    }

    fn tell(&self, command: &Command) {
        for member in &self.members {
            // Fails only if the thread is gone, and then its report says why.
            let _ = member.commands.send(command.clone());
        }
    }

    /// A report of each; the first error wins, the others are waited for all the same.
    fn collect(&mut self) -> Result<Vec<Option<Tally>>, Error> {
        let mut tallies: Vec<Option<Tally>> = vec![None; self.members.len()];
        let mut first_error = None;
        for _ in 0..self.members.len() {
            let Ok((place, report)) = self.reports.recv() else { break };
            match report {
                Ok(tally) => tallies[place] = tally,
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        first_error.map_or(Ok(tallies), Err)
    }
}

/// A driver's thread: ends when the crew lets go of its commands.
fn obey<D: Driver>(place: usize, driver: &mut D, orders: &Receiver<Command>, report: &Sender<Report>) {
    while let Ok(command) = orders.recv() {
        let outcome = catch_unwind(AssertUnwindSafe(|| match &command {
            Command::Open(admission) => driver.open(admission).map(|()| None),
            Command::Run(job) => driver.run(job).map(Some),
        }))
        .unwrap_or_else(|panic| Err(Error::Panicked(panic_text(panic.as_ref()))));
        if let (Command::Run(job), Err(_)) = (&command, &outcome) {
            // Nobody else need run on.
            job.window.cut();
        }
        if report.send((place, outcome)).is_err() {
            return;
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a word".to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flifo_admission::Config;

    use super::super::Window;
    use super::*;
    use crate::workload::{Shape, Workload};

    enum Fate {
        Counts(u64),
        Fails,
        Panics,
    }

    impl Driver for Fate {
        fn open(&mut self, _admission: &Arc<Admission>) -> Result<(), Error> {
            Ok(())
        }

        fn run(&mut self, _job: &Job) -> Result<Tally, Error> {
            match self {
                Fate::Counts(statements) => Ok(Tally { statements: *statements, ..Tally::new(1) }),
                Fate::Fails => Err(Error::Protocol("as asked")),
                Fate::Panics => panic!("as asked"),
            }
        }
    }

    fn run(fates: Vec<Fate>) -> (Result<Tally, Error>, Arc<Window>) {
        let mut crew = Crew::start_threads("test", 128 << 10, fates).unwrap();
        let admission = Admission::new(Config::default()).unwrap();
        crew.open(&admission).unwrap();
        let window = Arc::new(Window::after(Duration::ZERO, Duration::from_secs(1000)));
        let shape = Shape { workload: Workload::PointSelect, rows: 1, range: 1, work_us: 0 };
        crew.start(&Job { shape, seed: 1, round: 0, window: Arc::clone(&window) });
        let result = crew.finish();
        crew.close();
        (result, window)
    }

    #[test]
    fn counts_add_up() {
        let (tally, _) = run(vec![Fate::Counts(2), Fate::Counts(3)]);
        let tally = tally.unwrap();
        assert_eq!((tally.statements, tally.per_connection.len()), (5, 2));
    }

    #[test]
    fn a_failure_or_a_panic_closes_the_window_for_all() {
        let (tally, window) = run(vec![Fate::Counts(2), Fate::Fails]);
        assert!(matches!(tally, Err(Error::Protocol(_))));
        assert!(window.end_ns() < window.start_ns() + 1_000_000_000_000);
        let (tally, _) = run(vec![Fate::Panics, Fate::Counts(1)]);
        assert!(matches!(tally, Err(Error::Panicked(text)) if text == "as asked"));
    }
}
