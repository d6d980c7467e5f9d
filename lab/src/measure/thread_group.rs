//! Threads of a measurement: each waits for an order, executes it, and reports.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::support::error::Error;
use crate::support::limits::FEWER_THREADS;

/// The work of a thread.
pub trait Driver: Send + 'static {
    /// The type of an order.
    type Order: Clone + Send + 'static;
    /// The type of a report.
    type Report: Send + 'static;
    /// Executes an order.
    fn execute(&mut self, order: &Self::Order) -> Result<Self::Report, Error>;
    /// Notifies the others that one failed at `order`, so that they stop early.
    fn failed(order: &Self::Order);
}

/// A report, with the driver's position.
type Numbered<R> = (usize, Result<R, Error>);

/// A group of drivers, each in a thread of its own.
pub struct ThreadGroup<O, R> {
    members: Vec<Member<O>>,
    reports: Receiver<Numbered<R>>,
    tids: Vec<u32>,
}

struct Member<O> {
    orders: Sender<O>,
    thread: JoinHandle<()>,
}

impl<O: Clone + Send + 'static, R: Send + 'static> ThreadGroup<O, R> {
    /// Starts a thread per driver.
    pub fn start_threads<D: Driver<Order = O, Report = R>>(
        name: &str,
        stack_bytes: usize,
        drivers: impl IntoIterator<Item = D>,
    ) -> Result<Self, Error> {
        let (report, reports) = channel();
        let (tell_tid, tids) = channel();
        let mut members = Vec::new();
        for (place, mut driver) in drivers.into_iter().enumerate() {
            let (orders, received) = channel();
            let (report, tell_tid) = (report.clone(), tell_tid.clone());
            let thread = Builder::new()
                .name(format!("{name}-{place}"))
                .stack_size(stack_bytes)
                .spawn(move || {
                    let _ = tell_tid.send(rustix::thread::gettid().as_raw_nonzero().get() as u32);
                    drop(tell_tid);
                    execute(place, &mut driver, &received, &report);
                })
                .map_err(|source| Error::thread(place as u64, source, FEWER_THREADS))?;
            members.push(Member { orders, thread });
        }
        drop(tell_tid);
        Ok(ThreadGroup { members, reports, tids: tids.into_iter().collect() })
    }

    /// Kernel ids of the threads.
    pub fn tids(&self) -> &[u32] {
        &self.tids
    }

    /// Sends the same order to all drivers.
    pub fn send(&self, order: &O) {
        for member in &self.members {
            // Fails only if the thread is gone, and then its report says why.
            let _ = member.orders.send(order.clone());
        }
    }

    /// The reports, in the drivers' order. Returns the first error after waiting for the other drivers.
    pub fn collect(&mut self) -> Result<Vec<R>, Error> {
        let mut reports: Vec<Option<R>> = self.members.iter().map(|_| None).collect();
        let mut first_error = None;
        for _ in 0..self.members.len() {
            let Ok((place, report)) = self.reports.recv() else { break };
            match report {
                Ok(report) => reports[place] = Some(report),
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        first_error.map_or_else(|| Ok(reports.into_iter().flatten().collect()), Err)
    }

    /// As [`ThreadGroup::collect`], but waits for at most `patience`; `None` for a driver that has not reported by
    /// then. Such a group takes no further order: [`ThreadGroup::abandon`] it.
    pub fn collect_within(&mut self, patience: Duration) -> Result<Vec<Option<R>>, Error> {
        let until = Instant::now() + patience;
        let mut reports: Vec<Option<R>> = self.members.iter().map(|_| None).collect();
        let mut first_error = None;
        for _ in 0..self.members.len() {
            let left = until.saturating_duration_since(Instant::now());
            let Ok((place, report)) = self.reports.recv_timeout(left) else { break };
            match report {
                Ok(report) => reports[place] = Some(report),
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        first_error.map_or(Ok(reports), Err)
    }

    /// Ends the threads, which wait for an order.
    pub fn close(&mut self) {
        for member in self.members.drain(..) {
            drop(member.orders);
            // A panic was reported as an error when it happened.
            let _ = member.thread.join();
        }
    }

    /// Detaches the threads, one of which may hang.
    pub fn abandon(&mut self) {
        self.members.clear();
    }
}

/// A driver's thread: ends when the group drops its order channel.
fn execute<D: Driver>(
    place: usize,
    driver: &mut D,
    orders: &Receiver<D::Order>,
    report: &Sender<Numbered<D::Report>>,
) {
    while let Ok(order) = orders.recv() {
        let outcome = catch_unwind(AssertUnwindSafe(|| driver.execute(&order)))
            .unwrap_or_else(|panic| Err(Error::Panicked(panic_text(panic.as_ref()))));
        if outcome.is_err() {
            D::failed(&order);
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    enum Fate {
        Counts(u64),
        Fails,
        Panics,
    }

    impl Driver for Fate {
        type Order = Arc<AtomicBool>;
        type Report = u64;

        fn execute(&mut self, _order: &Self::Order) -> Result<u64, Error> {
            match self {
                Fate::Counts(count) => Ok(*count),
                Fate::Fails => Err(Error::Protocol("as asked")),
                Fate::Panics => panic!("as asked"),
            }
        }

        fn failed(order: &Self::Order) {
            order.store(true, Ordering::Relaxed);
        }
    }

    fn run(fates: Vec<Fate>) -> (Result<Vec<u64>, Error>, bool) {
        let mut group = ThreadGroup::start_threads("test", 128 << 10, fates).unwrap();
        let failed = Arc::new(AtomicBool::new(false));
        group.send(&failed);
        let result = group.collect();
        group.close();
        (result, failed.load(Ordering::Relaxed))
    }

    #[test]
    fn reports_come_in_the_drivers_order() {
        let (reports, failed) = run(vec![Fate::Counts(2), Fate::Counts(3)]);
        assert_eq!((reports.unwrap(), failed), (vec![2, 3], false));
    }

    struct Waits(Receiver<()>);

    impl Driver for Waits {
        type Order = ();
        type Report = u64;

        fn execute(&mut self, _order: &()) -> Result<u64, Error> {
            let _ = self.0.recv();
            Ok(1)
        }

        fn failed(_order: &()) {}
    }

    #[test]
    fn who_does_not_report_in_time_is_not_waited_for() {
        let (release, held) = channel();
        let (_, free) = channel();
        let mut group = ThreadGroup::start_threads("test", 128 << 10, [Waits(free), Waits(held)]).unwrap();
        group.send(&());
        let reports = group.collect_within(Duration::from_millis(200)).unwrap();
        assert!(reports[1].is_none(), "{reports:?}");
        drop(release);
        group.abandon();
    }

    #[test]
    fn a_failure_or_a_panic_is_told_to_the_others() {
        let (reports, failed) = run(vec![Fate::Counts(2), Fate::Fails]);
        assert!(matches!(reports, Err(Error::Protocol(_))) && failed);
        let (reports, failed) = run(vec![Fate::Panics, Fate::Counts(1)]);
        assert!(matches!(reports, Err(Error::Panicked(text)) if text == "as asked") && failed);
    }
}
