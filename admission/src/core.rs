//! The scheduler itself: the state word and the queue. Free of parking and of time: every step returns at
//! once and says whom to wake, so that threads, async tasks and model checkers run the same code.
//!
//! # Protocol
//!
//! The word changes by compare-and-swap, each step one transition of [`State`]. Q changes only under the
//! queue's lock, together with the list, so Q is the list's length whenever the lock is free.
//!
//! - *No lost wake-up.* A thread joins under the lock, with a swap from a word that does not admit it. A
//!   place given back before that swap makes it fail, and the thread looks again; a place given back
//!   after it finds Q > 0 and is handed on.
//! - *No idle place.* A place is given back (T - 1) only from a word with Q = 0 or T > L.
//! - *Wakes happen after unlocking*, so that the woken thread does not run into the lock.
//!
//! Lock order: the queue's lock is the only one here, and nothing is called while it is held.

use std::sync::Arc;

use crate::Policy;
use crate::queue::{Node, Queue};
use crate::state::{ONE_PENDING, ONE_PLACE, ONE_QUEUED, State};
use crate::sync::{AtomicU64, CacheAligned, Mutex, Ordering, lock};

/// How a thread came in without queueing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entered {
    /// There was a free place.
    AtOnce,
    /// All places were out, but fewer than L threads were really running.
    Lifo,
}

/// Whom the caller must wake now.
#[must_use]
pub(crate) enum Wake {
    Nobody,
    /// It holds a place, and is pending until it calls [`Core::started`].
    Granted(Arc<Node>),
    /// They hold nothing and may try again.
    Retry(Queue),
}

pub(crate) struct Core {
    policy: Policy,
    /// See [`crate::state`] for its bits and the invariants between them.
    state: CacheAligned<AtomicU64>,
    queue: CacheAligned<Mutex<Queue>>,
}

impl Core {
    pub(crate) fn new(policy: Policy, limit: u32) -> Self {
        Core {
            policy,
            state: CacheAligned(AtomicU64::new(State::idle(policy, limit).0)),
            queue: CacheAligned(Mutex::new(Queue::new())),
        }
    }

    pub(crate) fn state(&self) -> State {
        State(self.state.0.load(Ordering::Relaxed))
    }

    /// Enters if the policy lets a newcomer in now.
    ///
    /// `guess` is what the caller believes the word to be, such as what it last saw: a right guess saves
    /// the load, which would stall behind the caller's previous swap; a wrong one costs a failed swap.
    #[inline]
    pub(crate) fn try_enter(&self, guess: State) -> Option<(Entered, State)> {
        let mut old = if guess.admits() { guess } else { self.state() };
        while old.admits() {
            match self.swap(old, old.entered()) {
                Ok(new) => return Some((how(old), new)),
                Err(seen) => old = seen,
            }
        }
        None
    }

    /// Joins the queue, or enters after all if a place became free meanwhile. The caller has prepared the
    /// node's parker, and parks when this returns `Err`.
    pub(crate) fn join(&self, node: &Arc<Node>) -> Result<(Entered, State), State> {
        let mut queue = lock(&self.queue.0);
        let mut old = self.state();
        loop {
            let admitted = old.admits();
            let new = if admitted { old.entered() } else { old.joined() };
            match self.swap(old, new) {
                Ok(new) if admitted => return Ok((how(old), new)),
                Ok(new) => {
                    queue.push_back(node);
                    return Err(new);
                }
                Err(seen) => old = seen,
            }
        }
    }

    /// Gives the place back, if nobody is to be woken: the word as it is then, else `None`, and
    /// [`Core::leave_and_wake`] is to be called. For `guess` see [`Core::try_enter`]; the caller's own
    /// place must be in it.
    #[inline]
    pub(crate) fn try_leave(&self, guess: State) -> Option<State> {
        let mut old = guess;
        while !self.must_wake(old) {
            match self.swap(old, old.left()) {
                Ok(new) => return Some(new),
                Err(seen) => old = seen,
            }
        }
        None
    }

    /// Leaves: hands the place on, or gives it back if nobody is to be woken after all.
    #[cold]
    pub(crate) fn leave_and_wake(&self) -> (Wake, State) {
        let mut queue = lock(&self.queue.0);
        let mut old = self.state();
        let new = loop {
            let wakes = self.must_wake(old);
            let new = match self.policy {
                _ if !wakes => old.left(),
                Policy::Broadcast => old.left_and_dispersed(),
                _ => old.handed_on(),
            };
            match self.swap(old, new) {
                Ok(new) if !wakes => return (Wake::Nobody, new),
                Ok(new) => break new,
                Err(seen) => old = seen,
            }
        };
        let next = match self.policy {
            Policy::Broadcast => return (Wake::Retry(std::mem::replace(&mut *queue, Queue::new())), new),
            Policy::Lifo => queue.pop_back(),
            _ => queue.pop_front(),
        };
        (Wake::Granted(next.expect("Q > 0 under the lock, so the list has a node")), new)
    }

    /// A woken thread runs: it is pending no more. Its first step after waking.
    pub(crate) fn started(&self) -> State {
        State(self.state.0.fetch_sub(ONE_PENDING, Ordering::AcqRel)).started()
    }

    /// Enters whatever the word says: the end of a wait, where blocking could deadlock the caller. The
    /// overshoot is repaid by exits, since an exit above L hands nothing on.
    pub(crate) fn enter_by_force(&self) -> State {
        State(self.state.0.fetch_add(ONE_PLACE, Ordering::AcqRel)).entered()
    }

    /// Whether a thread that is inside and out of tickets may simply take new ones: nobody waits.
    #[inline]
    pub(crate) fn may_stay(&self) -> bool {
        let state = self.state();
        state.queued() == 0 && state.places() <= state.limit()
    }

    /// One more thread polls (`sleep` has no list, so Q needs no lock there).
    pub(crate) fn poll_begin(&self) -> State {
        State(self.state.0.fetch_add(ONE_QUEUED, Ordering::Relaxed)).joined()
    }

    /// One thread less polls; says how many are left.
    pub(crate) fn poll_end(&self) -> u32 {
        State(self.state.0.fetch_sub(ONE_QUEUED, Ordering::Relaxed)).queued() - 1
    }

    #[inline]
    fn must_wake(&self, state: State) -> bool {
        state.queued() > 0
            && match self.policy {
                Policy::Sleep | Policy::None => false,
                Policy::Broadcast => true,
                Policy::Fifo | Policy::Lifo | Policy::Flifo => state.hands_on(),
            }
    }

    /// Acquire: what earlier holders of places did is visible. Release: what this one did will be.
    #[inline]
    fn swap(&self, old: State, new: State) -> Result<State, State> {
        self.state
            .0
            .compare_exchange_weak(old.0, new.0, Ordering::AcqRel, Ordering::Relaxed)
            .map(|_| new)
            .map_err(State)
    }
}

fn how(before: State) -> Entered {
    if before.places() < before.limit() { Entered::AtOnce } else { Entered::Lifo }
}
