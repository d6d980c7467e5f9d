//! The face for threads: sessions with tickets, parking and time around the [`Core`].

use std::cell::Cell;
use std::sync::Arc;

use crate::core::{Core, Entered, Wake};
use crate::delay::SleepDelay;
use crate::metrics::{Counters, Metrics, SAMPLE_EVERY, Snapshot, add};
use crate::parker::Verdict;
use crate::queue::Node;
use crate::state::State;
use crate::sync::Ordering;
use crate::{Config, ConfigError, Policy, WaitKind};

/// A scheduler: shared by all sessions that compete for the same processors.
pub struct Admission {
    config: Config,
    /// Nobody is counted and nobody queues.
    unlimited: bool,
    core: Core,
    delay: SleepDelay,
    metrics: Metrics,
}

impl Admission {
    /// A scheduler with this configuration; an impossible one is an error that says what is allowed.
    pub fn new(config: Config) -> Result<Arc<Self>, ConfigError> {
        config.check()?;
        Ok(Arc::new(Admission {
            unlimited: config.policy == Policy::None || config.thread_concurrency == 0,
            core: Core::new(config.policy, config.thread_concurrency),
            config,
            delay: SleepDelay::new(),
            metrics: Metrics::new(),
        }))
    }

    /// What it was told.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// A handle for one connection.
    ///
    /// # Panics
    /// If 262,143 sessions of this scheduler are alive.
    pub fn session(self: &Arc<Self>) -> Session {
        let (number, counters) = self.metrics.register();
        Session {
            admission: Arc::clone(self),
            node: Node::new(),
            counters,
            number,
            tickets: Cell::new(0),
            tickets_given: Cell::new(0),
            place: Cell::new(Held::No),
            wait_depth: Cell::new(0),
            left_at_depth: Cell::new(0),
            last_seen: Cell::new(self.core.state()),
            entered_at_ns: Cell::new(NOT_SAMPLED),
            // Spread over the sessions, so that many with few entries each are sampled, too.
            until_sample: Cell::new((number % u64::from(SAMPLE_EVERY)) as u32),
        }
    }

    /// Counters, T, P and Q, and histograms of time.
    pub fn snapshot(&self) -> Snapshot {
        self.metrics.snapshot(self.core.state())
    }
}

/// What a session holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// Nothing: it is outside.
    No,
    /// Nothing for now: a wait gave the place up, and its end brings it back.
    Waiting,
    /// It is inside without a limit, and T does not count it.
    Uncounted,
    /// One of the places that T counts.
    Place,
}

const NOT_SAMPLED: u64 = u64::MAX;

/// One connection's handle. It serves one thread at a time (`Send`, not `Sync`).
///
/// Dropping it leaves.
pub struct Session {
    admission: Arc<Admission>,
    node: Arc<Node>,
    counters: Arc<Counters>,
    number: u64,
    /// Entries left on the place it holds; 0 while it holds none.
    tickets: Cell<u32>,
    /// What `tickets` was when it took its place.
    tickets_given: Cell<u32>,
    place: Cell<Held>,
    /// Waits begun and not ended.
    wait_depth: Cell<u32>,
    /// While `Held::Waiting`: the depth of the wait that gave up the place.
    left_at_depth: Cell<u32>,
    /// The state word as this session last saw it: the guess for its next step.
    last_seen: Cell<State>,
    /// When it entered, if this place is one of those whose time is measured.
    entered_at_ns: Cell<u64>,
    /// Places until the next measured one.
    until_sample: Cell<u32>,
}

impl Session {
    /// Enters: takes a ticket if there is one left, else asks for a place, and queues until it has one.
    ///
    /// Call it for every engine entry: at the beginning of a statement and for each row.
    #[inline]
    pub fn enter(&self) {
        match self.tickets.get() {
            0 => self.enter_without_ticket(),
            left => self.tickets.set(left - 1),
        }
    }

    /// Leaves: hands the place to the head of the queue, or gives it back. Does nothing outside.
    ///
    /// Call it at the end of a statement, before its reply is sent.
    #[inline]
    pub fn exit(&self) {
        match self.place.get() {
            Held::No => {}
            Held::Waiting => self.place.set(Held::No),
            Held::Uncounted | Held::Place => self.leave(),
        }
    }

    /// Enters, and leaves when the guard is dropped.
    #[inline]
    pub fn place(&self) -> Place<'_> {
        self.enter();
        Place { session: self }
    }

    /// Whether this session is inside.
    pub fn is_inside(&self) -> bool {
        matches!(self.place.get(), Held::Uncounted | Held::Place)
    }

    /// The scheduler it belongs to.
    pub fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    /// Begins a wait: gives up the place, if [`Config::wait_mask`] has this kind. Waits nest; the
    /// outermost one that gives up the place takes it back.
    pub fn wait_begin(&self, kind: WaitKind) {
        let depth = self.wait_depth.get() + 1;
        self.wait_depth.set(depth);
        if self.is_inside() && self.admission.config.wait_mask.contains(kind) {
            self.leave();
            self.place.set(Held::Waiting);
            self.left_at_depth.set(depth);
        }
    }

    /// Ends a wait. Never blocks, since the caller may hold latches: if the wait gave up the place, this
    /// forces its way back in past the limit, with one ticket; exits repay the overshoot.
    ///
    /// Without a `wait_begin` before it, it does nothing.
    pub fn wait_end(&self, _kind: WaitKind) {
        let depth = self.wait_depth.get();
        if depth != 0 {
            self.wait_depth.set(depth - 1);
        }
        if self.place.get() == Held::Waiting && depth == self.left_at_depth.get() {
            self.enter_by_force();
        }
    }

    #[inline(never)]
    fn enter_without_ticket(&self) {
        match self.place.get() {
            Held::No => self.ask(),
            Held::Waiting => {}
            Held::Uncounted | Held::Place => self.renew(),
        }
    }

    /// Out of tickets on the place it holds: new ones at once if nobody waits, else it asks again.
    #[cold]
    fn renew(&self) {
        if self.admission.unlimited || self.admission.core.may_stay() {
            self.settle_tickets();
            self.give_tickets(self.admission.config.concurrency_tickets);
            add(&self.counters.entered_at_once, 1);
        } else {
            self.leave();
            self.ask();
        }
    }

    /// Asks for a place and comes back with one.
    fn ask(&self) {
        let admission = &*self.admission;
        if admission.unlimited {
            add(&self.counters.entered_at_once, 1);
            return self.take(Held::Uncounted, admission.config.concurrency_tickets);
        }
        let state = match admission.core.try_enter(self.last_seen.get()) {
            Some((how, state)) => {
                self.count(how);
                state
            }
            None if admission.config.policy == Policy::Sleep => self.poll(),
            None => self.queue(),
        };
        self.last_seen.set(state);
        admission.metrics.saw_places(state);
        self.take(Held::Place, admission.config.concurrency_tickets);
    }

    /// Queues until it has a place; the word as it is then.
    #[cold]
    fn queue(&self) -> State {
        let Admission { core, metrics, .. } = &*self.admission;
        let queued_at_ns = metrics.now_ns();
        loop {
            self.node.parker.prepare();
            match core.join(&self.node) {
                Ok((how, state)) => {
                    self.node.parker.cancel();
                    self.count(how);
                    return state;
                }
                Err(state) => metrics.saw_queue(state),
            }
            if self.node.parker.park() == Verdict::Granted {
                let state = core.started();
                let now_ns = metrics.now_ns();
                // Relaxed: the parker's word orders it after the waker's store.
                let granted_at_ns = self.node.granted_at_ns.load(Ordering::Relaxed);
                metrics.woken_to_running(now_ns.saturating_sub(granted_at_ns));
                metrics.queued(now_ns - queued_at_ns);
                add(&self.counters.entered_from_queue, 1);
                return state;
            }
            if let Some((_, state)) = core.try_enter(core.state()) {
                metrics.queued(metrics.now_ns() - queued_at_ns);
                add(&self.counters.entered_from_queue, 1);
                return state;
            }
        }
    }

    /// Sleeps and looks again until it has a place; the word as it is then.
    #[cold]
    fn poll(&self) -> State {
        let Admission { core, metrics, delay, .. } = &*self.admission;
        let queued_at_ns = metrics.now_ns();
        metrics.saw_queue(core.poll_begin());
        let mut sleeps = 0;
        let state = loop {
            std::thread::sleep(delay.before_sleep(sleeps));
            sleeps += 1;
            if let Some((_, state)) = core.try_enter(core.state()) {
                break state;
            }
        };
        delay.entered(sleeps, core.poll_end());
        metrics.queued(metrics.now_ns() - queued_at_ns);
        add(&self.counters.entered_from_queue, 1);
        state
    }

    fn enter_by_force(&self) {
        add(&self.counters.entered_by_force, 1);
        if self.admission.unlimited {
            return self.take(Held::Uncounted, 2);
        }
        let state = self.admission.core.enter_by_force();
        self.last_seen.set(state);
        self.admission.metrics.saw_places(state);
        self.take(Held::Place, 2);
    }

    /// Notes what it holds now. The entry that got it uses one of the tickets.
    #[inline]
    fn take(&self, held: Held, tickets: u32) {
        self.place.set(held);
        self.give_tickets(tickets);
        match self.until_sample.get() {
            0 => {
                self.until_sample.set(SAMPLE_EVERY - 1);
                self.entered_at_ns.set(self.admission.metrics.now_ns());
            }
            left => self.until_sample.set(left - 1),
        }
    }

    #[inline]
    fn leave(&self) {
        self.settle_tickets();
        if self.entered_at_ns.get() != NOT_SAMPLED {
            let entered_at_ns = self.entered_at_ns.replace(NOT_SAMPLED);
            self.admission.metrics.inside(self.admission.metrics.now_ns() - entered_at_ns);
        }
        if self.place.replace(Held::No) == Held::Uncounted {
            return;
        }
        match self.admission.core.try_leave(self.last_seen.get()) {
            Some(state) => self.last_seen.set(state),
            None => self.leave_and_wake(),
        }
    }

    #[cold]
    fn leave_and_wake(&self) {
        let (wake, state) = self.admission.core.leave_and_wake();
        self.last_seen.set(state);
        match wake {
            Wake::Nobody => {}
            Wake::Granted(node) => {
                add(&self.counters.handed_on, 1);
                self.admission.metrics.saw_pending(state);
                node.granted_at_ns.store(self.admission.metrics.now_ns(), Ordering::Relaxed);
                node.parker.wake(Verdict::Granted);
            }
            Wake::Retry(mut queue) => {
                while let Some(node) = queue.pop_front() {
                    node.parker.wake(Verdict::Retry);
                }
            }
        }
    }
}

impl Session {
    #[inline]
    fn give_tickets(&self, tickets: u32) {
        self.tickets_given.set(tickets - 1);
        self.tickets.set(tickets - 1);
    }

    #[inline]
    fn count(&self, how: Entered) {
        match how {
            Entered::AtOnce => add(&self.counters.entered_at_once, 1),
            Entered::Lifo => add(&self.counters.entered_by_lifo, 1),
        }
    }

    /// Counts the tickets used on the place that is left or renewed, and takes the rest away.
    #[inline]
    fn settle_tickets(&self) {
        let used = self.tickets_given.get() - self.tickets.replace(0);
        if used != 0 {
            add(&self.counters.entered_by_ticket, u64::from(used));
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.exit();
        self.admission.metrics.unregister(self.number);
    }
}

/// A place inside, from [`Session::place`]; dropping it leaves.
#[must_use = "the place is given up when this is dropped"]
pub struct Place<'a> {
    session: &'a Session,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.session.exit();
    }
}
