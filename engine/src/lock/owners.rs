//! The locks and the wait of each owner: an array of slots, indexed by a hash of the owner's id.
//!
//! Ids are consecutive, so owners of the same time have different slots, and a slot's mutex is rarely contended. The mutex is
//! a leaf: locked under a shard's mutex or alone, with nothing locked under it.
//!
//! Invariants, whenever no shard's mutex is held:
//! - an owner has an entry while it holds a lock or waits, and no longer;
//! - `locks` has each lock that it holds, once; `waiting` is set while a request of its is in a queue.
//!
//! Whenever no slot's mutex is held, `present` has the bit of each owner that has an entry.

use flifo_base::CacheAligned;

use super::TxnId;
use super::sync::{AtomicU64, Mutex, MutexGuard, Ordering, fence, lock};

/// Where a lock is: the shard follows from the hash, the object from its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LockRef {
    pub(super) hash: u64,
    pub(super) id: u64,
}

/// Where a request waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WaitRef {
    pub(super) lock: LockRef,
    pub(super) wait_id: u64,
}

struct Owner {
    id: TxnId,
    locks: Vec<LockRef>,
    waiting: Option<WaitRef>,
}

type Slot = Mutex<Vec<Owner>>;

/// Number of bits of an owner's hash that select its bit in `present`.
const BITS: u32 = 6;

/// Where an owner is found.
struct Place {
    slot: usize,
    bit: u64,
}

pub(super) struct Owners {
    slots: Box<[CacheAligned<Slot>]>,
    /// The `bit`s of all owners in each slot: read without the slot's mutex, changed under it. Apart from the slots, so that
    /// the word that each transaction reads at its end stays cached. Several bits, so that thousands of waiters do not make
    /// every other transaction look into their slots.
    present: Box<[AtomicU64]>,
    shift: u32,
}

impl Owners {
    /// With about `slots` slots, rounded up to a power of two.
    pub(super) fn new(slots: usize) -> Self {
        let slots = slots.clamp(2, 1 << 20).next_power_of_two();
        Owners {
            slots: (0..slots).map(|_| CacheAligned(Slot::default())).collect(),
            present: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            shift: u64::BITS - slots.trailing_zeros(),
        }
    }

    fn place(&self, id: TxnId) -> Place {
        // Fibonacci hashing: consecutive ids go to different slots, whatever the stride.
        let hash = id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Place { slot: (hash >> self.shift) as usize, bit: 1 << ((hash >> (self.shift - BITS)) % (1 << BITS)) }
    }

    fn owners(&self, slot: usize) -> MutexGuard<'_, Vec<Owner>> {
        lock(&self.slots[slot].0)
    }

    /// Publishes the owners in the slot, whose mutex the caller holds, to readers without the mutex.
    fn show(&self, slot: usize, owners: &[Owner]) {
        let present = owners.iter().fold(0, |present, owner| present | self.place(owner.id).bit);
        self.present[slot].store(present, Ordering::Relaxed);
    }

    /// Runs `change` on the owner's entry, which is created for it and removed when it is empty.
    fn change<T>(&self, id: TxnId, change: impl FnOnce(&mut Owner) -> T) -> T {
        let slot = self.place(id).slot;
        let mut owners = self.owners(slot);
        let index = owners.iter().position(|owner| owner.id == id).unwrap_or_else(|| {
            owners.push(Owner { id, locks: Vec::new(), waiting: None });
            self.show(slot, &owners);
            owners.len() - 1
        });
        let changed = change(&mut owners[index]);
        if owners[index].locks.is_empty() && owners[index].waiting.is_none() {
            owners.swap_remove(index);
            self.show(slot, &owners);
        }
        changed
    }

    /// Runs `read` on the owner's entry, if there is one.
    fn read<T>(&self, id: TxnId, read: impl FnOnce(&Owner) -> T) -> Option<T> {
        let owners = self.owners(self.place(id).slot);
        owners.iter().find(|owner| owner.id == id).map(read)
    }

    pub(super) fn add(&self, id: TxnId, at: LockRef) {
        self.change(id, |owner| owner.locks.push(at));
    }

    /// Adds a lock for an owner that another thread says is active, and may not be any more when this looks.
    ///
    /// An owner ends by becoming inactive first and calling [`Self::take`] then, which looks at `present` without the
    /// mutex. Both sides write, pass a fence, and read what the other wrote: so either `take` sees the entry, and waits
    /// for the mutex, or `is_active` sees that the owner is not.
    pub(super) fn add_if(&self, id: TxnId, at: LockRef, is_active: impl FnOnce() -> bool) -> bool {
        self.change(id, |owner| {
            fence(Ordering::SeqCst);
            let active = is_active();
            if active {
                owner.locks.push(at);
            }
            active
        })
    }

    pub(super) fn remove(&self, id: TxnId, at: LockRef) {
        self.change(id, |owner| {
            // From the end: an owner that releases a single lock has usually just acquired it.
            if let Some(index) = owner.locks.iter().rposition(|lock| *lock == at) {
                owner.locks.swap_remove(index);
            }
        });
    }

    /// Takes all locks of an owner. Takes no mutex if there are none, unless an active owner shares slot and bit.
    pub(super) fn take(&self, id: TxnId) -> Vec<LockRef> {
        let Place { slot, bit } = self.place(id);
        // See `add_if`.
        fence(Ordering::SeqCst);
        if self.present[slot].load(Ordering::Relaxed) & bit == 0 {
            return Vec::new();
        }
        let mut owners = self.owners(slot);
        let Some(index) = owners.iter().position(|owner| owner.id == id) else { return Vec::new() };
        debug_assert!(owners[index].waiting.is_none(), "{id:?} releases its locks while it waits for one");
        let taken = owners.swap_remove(index);
        self.show(slot, &owners);
        taken.locks
    }

    /// The owner waits; how many locks it holds.
    pub(super) fn begin_wait(&self, id: TxnId, at: WaitRef) -> usize {
        self.change(id, |owner| {
            debug_assert!(owner.waiting.is_none(), "{id:?} waits twice");
            owner.waiting = Some(at);
            owner.locks.len()
        })
    }

    /// The owner waits no longer; `granted`: it has a lock that it had not before.
    pub(super) fn end_wait(&self, id: TxnId, granted: Option<LockRef>) {
        self.change(id, |owner| {
            owner.waiting = None;
            owner.locks.extend(granted);
        });
    }

    /// The owner waits again for a lock that it was granted and does not hold any more.
    pub(super) fn wait_again(&self, id: TxnId, at: WaitRef) {
        self.change(id, |owner| {
            owner.locks.retain(|lock| *lock != at.lock);
            owner.waiting = Some(at);
        });
    }

    pub(super) fn waiting(&self, id: TxnId) -> Option<WaitRef> {
        self.read(id, |owner| owner.waiting).flatten()
    }

    pub(super) fn locks(&self, id: TxnId) -> usize {
        self.read(id, |owner| owner.locks.len()).unwrap_or(0)
    }

    /// Whether no owner holds or waits for anything.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.slots.iter().all(|slot| lock(&slot.0).is_empty())
    }
}
