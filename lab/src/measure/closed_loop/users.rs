//! The threads of the users, and the loop that each runs.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::End;
use super::counts::{Account, Counts};
use crate::measure::frontend::{STACK_BYTES, Window};
use crate::measure::thread_group::{Driver, ThreadGroup};
use crate::measure::workload::wire::Retry;
use crate::support::clock;
use crate::support::error::Error;

/// A pausing user looks for the window's end this often.
const PAUSE_SLICE_NS: u64 = 50_000_000;

/// One user: what it needs from cell to cell.
pub(crate) trait User: Send + 'static {
    /// What all users do in a cell.
    type Load: Clone + Send + 'static;
    /// Runs transactions until the window closes.
    fn run(&mut self, load: &Self::Load, window: &Window) -> Result<Counts, Error>;
}

/// A user's transactions.
pub(crate) trait Work {
    /// Draws the next input; returns how long the user pauses before its transaction.
    fn draw(&mut self) -> Duration;
    /// The kind of the drawn transaction, from 0.
    fn kind(&self) -> usize;
    /// Runs the drawn transaction once: it has ended, or was rolled back and may run again.
    fn attempt(&mut self) -> Result<Attempt, Error>;
    /// What the drawn transaction has added once it has committed.
    fn added(&self) -> Account;
    /// The statements since the last call.
    fn take_statements(&mut self) -> u64;
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    Ended(End),
    Again(Retry),
}

/// Runs a user's transactions, of that many kinds, until the window closes.
pub(crate) fn run(work: &mut impl Work, window: &Window, kinds: usize) -> Result<Counts, Error> {
    let mut counts = Counts::new(1, kinds);
    while pause(work.draw(), window) {
        let begun_ns = clock::now_ns();
        let mut retries = 0;
        let end = loop {
            match work.attempt()? {
                Attempt::Ended(end) => break end,
                Attempt::Again(why) => {
                    retries += 1;
                    let now_ns = clock::now_ns();
                    counts.all.retries.note(window, now_ns, why);
                    if now_ns >= window.end_ns() {
                        counts.all.unanswered(window, begun_ns);
                        return Ok(counts);
                    }
                }
            }
        };
        if end == End::Committed {
            counts.account = counts.account.plus(work.added());
        }
        let now_ns = clock::now_ns();
        counts.ended(window, now_ns, (work.kind(), end), (begun_ns, work.take_statements(), retries));
        if now_ns >= window.end_ns() {
            counts.all.unanswered(window, begun_ns);
        }
    }
    Ok(counts)
}

/// Pauses; returns whether the window is still open.
fn pause(time: Duration, window: &Window) -> bool {
    let until_ns = clock::now_ns() + clock::ns(time);
    loop {
        let now_ns = clock::now_ns();
        if now_ns >= window.end_ns() {
            return false;
        }
        if now_ns >= until_ns {
            return true;
        }
        thread::sleep(Duration::from_nanos((until_ns - now_ns).min(PAUSE_SLICE_NS)));
    }
}

/// Users, a thread each.
pub(crate) struct Group<U: User> {
    group: ThreadGroup<Order<U::Load>, Counts>,
    kinds: usize,
    is_broken: bool,
}

impl<U: User> Group<U> {
    /// Starts the threads of users whose transactions are of that many kinds.
    pub(crate) fn open(users: impl IntoIterator<Item = U>, kinds: usize) -> Result<Self, Error> {
        let group = ThreadGroup::start_threads("user", STACK_BYTES, users.into_iter().map(Member))?;
        Ok(Group { group, kinds, is_broken: false })
    }

    /// Starts a cell. The window opens after `settle` and stays open for `time`.
    pub(crate) fn begin(&self, load: U::Load, (settle, time): (Duration, Duration)) -> Arc<Window> {
        let window = Arc::new(Window::after(settle, time));
        self.group.send(&Order { load, window: Arc::clone(&window) });
        window
    }

    /// Waits for the last transaction; returns the sum of all counters, with users in their order.
    pub(crate) fn finish(&mut self) -> Result<Counts, Error> {
        let finished = self.group.collect();
        self.is_broken |= finished.is_err();
        let mut sum = Counts::new(0, self.kinds);
        finished?.into_iter().for_each(|counts| sum.add(counts));
        Ok(sum)
    }

    /// Kernel ids of the threads.
    pub(crate) fn tids(&self) -> &[u32] {
        self.group.tids()
    }
}

impl<U: User> Drop for Group<U> {
    fn drop(&mut self) {
        match self.is_broken {
            true => self.group.abandon(),
            false => self.group.close(),
        }
    }
}

/// A cell, as a user gets it.
#[derive(Clone)]
struct Order<L> {
    load: L,
    window: Arc<Window>,
}

struct Member<U>(U);

impl<U: User> Driver for Member<U> {
    type Order = Order<U::Load>;
    type Report = Counts;

    fn execute(&mut self, order: &Self::Order) -> Result<Counts, Error> {
        self.0.run(&order.load, &order.window)
    }

    fn failed(order: &Self::Order) {
        order.window.cut();
    }
}

#[cfg(test)]
mod tests {
    use super::super::KindCounts;
    use super::*;

    /// Every third attempt succeeds, and every tenth transaction rolls back.
    struct Thirds {
        drawn: usize,
        attempts: u32,
    }

    impl Work for Thirds {
        fn draw(&mut self) -> Duration {
            self.drawn += 1;
            Duration::ZERO
        }

        fn kind(&self) -> usize {
            self.drawn % 2
        }

        fn attempt(&mut self) -> Result<Attempt, Error> {
            self.attempts += 1;
            Ok(match (self.attempts % 3, self.drawn % 10) {
                (0, 0) => Attempt::Ended(End::RolledBack),
                (0, _) => Attempt::Ended(End::Committed),
                _ => Attempt::Again(Retry::Deadlock),
            })
        }

        fn added(&self) -> Account {
            Account { orders: 1, paid_cents: 2 }
        }

        fn take_statements(&mut self) -> u64 {
            5
        }
    }

    #[test]
    fn transactions_are_counted_by_kind_and_retried_to_their_end() {
        let window = Window::after(Duration::ZERO, Duration::from_millis(100));
        let counts = run(&mut Thirds { drawn: 0, attempts: 0 }, &window, 2).unwrap();
        let ended: u64 = counts.kinds.iter().map(KindCounts::ended).sum();
        assert!(ended > 0 && ended == counts.all.transactions);
        assert_eq!(counts.all.statements, 5 * ended);
        let retries: u64 = counts.kinds.iter().map(|kind| kind.retries).sum();
        assert_eq!(retries, 2 * ended);
        // A transaction may commit after the window.
        let committed: u64 = counts.kinds.iter().map(|kind| kind.committed).sum();
        assert!((0..=1).contains(&(counts.account.orders - committed as i64)));
        assert_eq!(counts.account.paid_cents, 2 * counts.account.orders);
        // Those that roll back are of kind 0: each tenth.
        assert_eq!(counts.kinds[1].rolled_back, 0);
        assert!(counts.kinds[0].rolled_back > 0);
    }

    #[test]
    fn a_pause_ends_with_the_window() {
        let window = Window::after(Duration::ZERO, Duration::from_millis(20));
        assert!(pause(Duration::from_millis(1), &window));
        assert!(!pause(Duration::from_secs(3_600), &window));
    }

    struct Fails;

    impl User for Fails {
        type Load = u32;

        fn run(&mut self, load: &u32, window: &Window) -> Result<Counts, Error> {
            match load {
                0 => Ok(Counts::new(1, 1)),
                _ => {
                    // Another one's failure closes the window.
                    while *load == 2 && clock::now_ns() < window.end_ns() {
                        thread::sleep(Duration::from_millis(1));
                    }
                    Err(Error::Protocol("as asked"))
                }
            }
        }
    }

    #[test]
    fn an_error_closes_the_window() {
        let mut group = Group::open([Fails, Fails], 1).unwrap();
        let window = group.begin(1, (Duration::ZERO, Duration::from_secs(3_600)));
        assert!(matches!(group.finish(), Err(Error::Protocol(_))));
        assert!(window.end_ns() < window.start_ns() + 3_600_000_000_000);
        let mut group = Group::open([Fails], 1).unwrap();
        group.begin(0, (Duration::ZERO, Duration::ZERO));
        assert_eq!(group.finish().unwrap().all.transactions, 0);
        assert_eq!(group.tids().len(), 1);
    }
}
