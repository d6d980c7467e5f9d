//! The slot of a thread that uses several sessions: in a callback, or together with a statement.
//!
//! A session that queued while its thread holds a slot in another session would wait for its own thread. So a thread has at most one
//! slot of a scheduler, and its sessions pass it on:
//!
//! | event | what happens to the slot |
//! |---|---|
//! | a session enters, and another of the thread has the slot | it goes to the session that enters |
//! | the same, and its tickets are used up by such entries | it is released; the session that enters queues |
//! | the session exits | it goes back |
//! | the session exits after a wait that released the slot | it is released; the other session acquires one at its next ticket |
//! | a session enters, and no other of the thread has a slot | it acquires a slot |
//! | the scheduler has no stall limit, so that no slot can be taken | the session that enters does so by force |
//!
//! Each thread lists its sessions that have entered. Only the thread itself uses the list, and a slot changes hands by the atomic
//! steps of [`SharedSlot`]. A guard that is leaked leaves its session in the list. That does no harm: without a slot it has none to share.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use flifo_admission::{Session, SharedSlot};
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::process::{Process, ProcessOwned};

/// A callback that has lost its slot to the stall rule waits for others, it seems. So many callbacks after it run without a slot.
const CALLBACKS_OUTSIDE: u32 = 64;

thread_local! {
    /// The sessions of this thread that have entered and not exited.
    static ENTERED: RefCell<Vec<Arc<Peer>>> = const { RefCell::new(Vec::new()) };
}

/// A session as the other sessions of its thread see it.
///
/// The atomics are relaxed: one thread uses them. They are atomics because the list of a thread keeps a session whose guard was
/// leaked, wherever that session goes.
struct Peer {
    slot: SharedSlot,
    /// The scheduler's address.
    scheduler: usize,
    /// How many sessions may still enter on the slot.
    tickets: AtomicU32,
    /// [`OWN`], [`SHARED`] or [`LOST`].
    state: AtomicU8,
}

/// The session has its slot, or lost it to the stall rule.
const OWN: u8 = 0;
/// Another session of the thread has it.
const SHARED: u8 = 1;
/// The session that ran on this slot has released it; the next ticket acquires a new one.
const LOST: u8 = 2;

impl Peer {
    fn is(&self, state: u8) -> bool {
        self.state.load(Ordering::Relaxed) == state
    }

    fn set(&self, state: u8) {
        self.state.store(state, Ordering::Relaxed);
    }

    /// Takes one of the tickets. Returns whether there was one.
    fn take_ticket(&self) -> bool {
        let left = self.tickets.load(Ordering::Relaxed);
        self.tickets.store(left.saturating_sub(1), Ordering::Relaxed);
        left != 0
    }
}

/// A session under admission, and its entries: of a statement, of its operations, and of operations in their callbacks.
pub(crate) struct Entries {
    session: ProcessOwned<Session>,
    peer: Arc<Peer>,
    /// The list's reference, while the session is not in the list: so an entry counts no reference.
    unlisted: Cell<Option<Arc<Peer>>>,
    /// The session whose slot this one uses.
    host: Cell<Option<Arc<Peer>>>,
    /// How many [`Entered`] exist.
    depth: Cell<u32>,
    /// A wait has released the slot since it entered.
    has_waited: Cell<bool>,
    /// How many of the next callbacks run without a slot.
    callbacks_outside: Cell<u32>,
}

/// An entry of a session; the last one's drop exits.
#[must_use = "the session may release its slot when this is dropped"]
pub(crate) struct Entered<'a>(&'a Entries);

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        let entries = self.0;
        entries.depth.set(entries.depth.get() - 1);
        // A child that was forked in a callback has no slot.
        if entries.depth.get() == 0 && entries.session.is_here() {
            entries.end();
        }
    }
}

impl Entries {
    pub(crate) fn new(session: Session) -> Self {
        let peer = Arc::new(Peer {
            slot: session.shared_slot(),
            scheduler: Arc::as_ptr(session.admission()).addr(),
            tickets: AtomicU32::new(0),
            state: AtomicU8::new(OWN),
        });
        Entries {
            session: ProcessOwned::new(Process::current(), session),
            unlisted: Cell::new(Some(Arc::clone(&peer))),
            peer,
            host: Cell::default(),
            depth: Cell::default(),
            has_waited: Cell::default(),
            callbacks_outside: Cell::default(),
        }
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Enters: on the slot of its thread, or it acquires one. Within an entry this takes a ticket.
    pub(crate) fn enter(&self) -> Result<Entered<'_>> {
        self.check_process()?;
        if self.depth.get() != 0 {
            self.take_ticket()?;
        } else if !self.enter_shared(false) {
            self.session.enter()?;
        }
        Ok(self.entered())
    }

    /// Enters by force. Within an entry this keeps the slot, also without a ticket, or brings one if the entry has lost its own.
    pub(crate) fn enter_forced(&self) -> Entered<'_> {
        let acquires = self.forget_loss() || self.depth.get() == 0;
        if !(acquires && self.enter_shared(true)) {
            self.session.enter_forced();
        }
        self.entered()
    }

    /// A child of fork(2) would wait for threads that it does not have.
    #[inline]
    fn check_process(&self) -> Result<()> {
        if self.session.is_here() { Ok(()) } else { Err(Error::Forked) }
    }

    #[inline]
    fn entered(&self) -> Entered<'_> {
        if self.depth.get() == 0 {
            self.begin();
        }
        self.depth.set(self.depth.get() + 1);
        Entered(self)
    }

    #[inline]
    fn begin(&self) {
        self.peer.set(OWN);
        self.peer.tickets.store(self.session.tickets(), Ordering::Relaxed);
        self.has_waited.set(false);
        let reference = self.unlisted.take().unwrap_or_else(|| Arc::clone(&self.peer));
        // A thread that is ending has no list any more; its sessions do without.
        let _ = ENTERED.try_with(|list| list.borrow_mut().push(reference));
    }

    fn end(&self) {
        let _ = ENTERED.try_with(|list| {
            let mut list = list.borrow_mut();
            let at = list.iter().rposition(|entered| Arc::ptr_eq(entered, &self.peer));
            self.unlisted.set(at.map(|at| list.remove(at)));
        });
        let Some(host) = self.host.take() else { return self.session.exit() };
        if !self.has_waited.get() && self.session.exit_to(&host.slot) {
            host.set(OWN);
        } else {
            self.session.exit();
            host.set(LOST);
        }
    }

    /// Takes a ticket. When the tickets are used up or the slot is lost, enters again.
    #[inline]
    pub(crate) fn take_ticket(&self) -> Result<()> {
        self.check_process()?;
        match self.session.tickets() == 0 || self.peer.is(LOST) {
            true => self.enter_anew(),
            false => Ok(self.session.enter()?),
        }
    }

    #[cold]
    fn enter_anew(&self) -> Result<()> {
        self.forget_loss();
        if !self.enter_shared(false) {
            self.session.enter()?;
        }
        self.peer.tickets.store(self.session.tickets(), Ordering::Relaxed);
        Ok(())
    }

    /// Exits if its slot is lost, so that the next entry acquires one; returns whether it was lost.
    fn forget_loss(&self) -> bool {
        let is_lost = self.peer.is(LOST);
        if is_lost {
            self.peer.set(OWN);
            self.session.exit();
        }
        is_lost
    }

    /// Enters on the slot of another session of this thread. If it returns false, the thread has a slot in no session but this one.
    fn enter_shared(&self, by_force: bool) -> bool {
        let others = self.others();
        !others.is_empty() && self.enter_shared_any(&others, by_force)
    }

    #[cold]
    fn enter_shared_any(&self, others: &[Arc<Peer>], by_force: bool) -> bool {
        let Some(host) = others.iter().find(|other| self.session.enter_on(&other.slot)) else {
            // Without a stall limit, others may have slots that cannot be taken.
            let forces = self.session.admission().config().stall_limit.is_none();
            if forces {
                self.session.enter_forced();
            }
            return forces;
        };
        if !(host.take_ticket() || by_force) {
            self.session.exit();
            host.set(LOST);
            return false;
        }
        host.set(SHARED);
        self.host.set(Some(Arc::clone(host)));
        true
    }

    /// The other sessions of this scheduler in the thread's list, the last one first.
    #[inline]
    fn others(&self) -> SmallVec<[Arc<Peer>; 2]> {
        let others = |list: &RefCell<Vec<Arc<Peer>>>| {
            let mut list = list.borrow_mut();
            // Drops entries of sessions that are gone and whose guards were leaked.
            list.retain(|entered| Arc::strong_count(entered) > 1);
            let is_other = |entered: &&Arc<Peer>| {
                entered.scheduler == self.peer.scheduler && !Arc::ptr_eq(entered, &self.peer)
            };
            list.iter().rev().filter(is_other).cloned().collect()
        };
        ENTERED.try_with(others).unwrap_or_default()
    }

    /// A wait has begun, and may have released the slot.
    pub(crate) fn note_wait(&self) {
        if self.session.is_waiting() {
            self.has_waited.set(true);
        }
    }

    /// Runs an embedder's callback; calls `stalled` if the callback lost its slot to the stall rule. Refused if the
    /// callback ran without a slot, and none is available for the rest of the operation.
    pub(crate) fn call_back<T>(&self, callback: impl FnOnce() -> T, stalled: impl FnOnce()) -> Result<T> {
        if self.callbacks_outside.get() != 0 {
            return self.call_outside(callback);
        }
        let had_slot = !self.session.is_reclaimed();
        let done = callback();
        if had_slot && self.session.is_reclaimed() && self.peer.is(OWN) {
            self.callbacks_outside.set(CALLBACKS_OUTSIDE);
            stalled();
        }
        Ok(done)
    }

    #[cold]
    fn call_outside<T>(&self, callback: impl FnOnce() -> T) -> Result<T> {
        self.callbacks_outside.set(self.callbacks_outside.get() - 1);
        self.session.exit_ending_slice();
        let done = callback();
        self.take_ticket()?;
        Ok(done)
    }
}
