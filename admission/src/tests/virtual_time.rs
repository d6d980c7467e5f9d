//! Tasks of many sessions in virtual time: the scheduler itself, with a clock that the test moves from event to event. Every run is the
//! same, and hours take no time. There are as many CPUs as threads that run.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use super::tasks::admission_with;
use crate::sync::{Ordering, lock};
use crate::{Admission, Config, Session};

pub(super) const US: u64 = 1_000;
pub(super) const MS: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000_000_000;

/// From being woken to running.
const WAKE_NS: u64 = 30 * US;
/// Between two steps of the scheduler.
const STEP_NS: u64 = 5 * MS;

/// A client's number.
type Id = usize;

/// A scheduler and its clients' clock.
pub(super) struct World {
    pub(super) admission: Arc<Admission>,
    /// When to poll which client. The number in the middle keeps the order of those due at the same time.
    timers: RefCell<BinaryHeap<Reverse<(u64, u64, Id)>>>,
    timers_set: Cell<u64>,
    woken: Arc<Mutex<Vec<Id>>>,
    /// The client that is polled.
    current: Cell<Id>,
}

struct Woken {
    id: Id,
    woken: Arc<Mutex<Vec<Id>>>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        lock(&self.woken).push(self.id);
    }
}

impl World {
    /// With one ticket for each slot.
    pub(super) fn new(config: Config) -> Rc<Self> {
        let admission = admission_with(config);
        admission.metrics.clock_ns.store(1, Ordering::Relaxed);
        Rc::new(World {
            admission,
            timers: RefCell::default(),
            timers_set: Cell::new(0),
            woken: Arc::default(),
            current: Cell::new(0),
        })
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.admission.metrics.now_ns()
    }

    fn poll_at(&self, at_ns: u64, id: Id) {
        let number = self.timers_set.replace(self.timers_set.get() + 1);
        self.timers.borrow_mut().push(Reverse((at_ns, number, id)));
    }

    /// Works or sleeps for that time.
    pub(super) async fn pass(&self, ns: u64) {
        let end_ns = self.now_ns() + ns;
        self.poll_at(end_ns, self.current.get());
        poll_fn(|_| if self.now_ns() < end_ns { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    /// Runs `clients` of these until `end_ns`.
    pub(super) fn run<F: Future<Output = ()> + 'static>(
        self: &Rc<Self>,
        clients: usize,
        client: impl Fn(Rc<World>, Id, Session) -> F,
        end_ns: u64,
    ) {
        let mut futures: Vec<Pin<Box<F>>> =
            (0..clients).map(|id| Box::pin(client(Rc::clone(self), id, self.admission.session()))).collect();
        let wakers: Vec<Waker> =
            (0..clients).map(|id| Arc::new(Woken { id, woken: Arc::clone(&self.woken) }).into()).collect();
        let mut has_ended = vec![false; clients];
        // They come one after the other.
        (0..clients).for_each(|id| self.poll_at(1 + id as u64, id));
        let mut step_at_ns = STEP_NS;
        while let Some(id) = self.next(&mut step_at_ns, end_ns) {
            self.current.set(id);
            if !has_ended[id] {
                has_ended[id] = futures[id].as_mut().poll(&mut Context::from_waker(&wakers[id])).is_ready();
            }
        }
    }

    /// Moves the clock to the next event; the client to poll then.
    fn next(&self, step_at_ns: &mut u64, end_ns: u64) -> Option<Id> {
        let clock_ns = &self.admission.metrics.clock_ns;
        loop {
            let now_ns = self.now_ns();
            for id in std::mem::take(&mut *lock(&self.woken)) {
                self.poll_at(now_ns + WAKE_NS, id);
            }
            let timer = self.timers.borrow().peek().map(|Reverse(timer)| *timer);
            let at_ns = timer.map_or(*step_at_ns, |(at_ns, ..)| at_ns.min(*step_at_ns));
            if at_ns > end_ns {
                return None;
            }
            clock_ns.store(at_ns.max(now_ns), Ordering::Relaxed);
            match timer {
                Some((timer_ns, _, id)) if timer_ns < *step_at_ns => {
                    self.timers.borrow_mut().pop();
                    return Some(id);
                }
                _ => {
                    *step_at_ns += STEP_NS;
                    self.admission
                        .step(self.admission.metrics.instant_of(at_ns).expect("the clock is young"));
                }
            }
        }
    }
}

/// A lock in that world: it goes to those that wait in order.
#[derive(Default)]
pub(super) struct Lock {
    owner: Cell<Option<Id>>,
    waiters: RefCell<VecDeque<Id>>,
}

impl Lock {
    pub(super) async fn acquire(&self, world: &World) {
        let id = world.current.get();
        if self.owner.get().is_none() {
            return self.owner.set(Some(id));
        }
        self.waiters.borrow_mut().push_back(id);
        poll_fn(|_| if self.owner.get() == Some(id) { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    pub(super) fn release(&self, world: &World) {
        let next = self.waiters.borrow_mut().pop_front();
        self.owner.set(next);
        if let Some(id) = next {
            world.poll_at(world.now_ns() + WAKE_NS, id);
        }
    }
}
