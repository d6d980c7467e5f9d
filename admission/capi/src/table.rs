//! Where sessions live: slots that are found without a lock, and never go away.
//!
//! A slot is found by a handle's index: a load of the chunk's address, one of the slot's own handle. Slots are
//! made a chunk at a time, in zeroed memory, and are used again but never freed, so a reference to one is good
//! for ever and an old handle finds at worst somebody else's slot, whose handle differs.
//!
//! A slot's session is touched only between [`Access::acquire`] and [`Access::release`]. Its handle (`id`) is
//! written before anybody can know it, and cleared while the access is held. A caller compares it before it
//! acquires, so as not to disturb another's session, and again before it gets the access, since it may have been
//! freed between. (Its owner need not look again: only a free by another thread could have cleared it, and
//! that takes the ownership away first.)

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use flifo_admission::Session;
use flifo_base::lock;

use crate::access::{Access, Held, Refused};
use crate::handle::{INDEX_BITS, Kind, Numbers, dead, flifo_session_t, generation_of, id, index_of};
use crate::owner::ThreadId;
use crate::scheduler::Scheduler;
use crate::status::{FLIFO_DEAD_HANDLE, FLIFO_IN_USE, Failure};

const CHUNK_SLOTS: usize = 256;
const CHUNKS: usize = (1 << INDEX_BITS) / CHUNK_SLOTS;

/// A session with what C needs to know of it.
pub(crate) struct Guest {
    pub(crate) session: Session,
    pub(crate) scheduler: Arc<Scheduler>,
}

/// All bytes zero: nobody's.
#[repr(align(128))]
struct Slot {
    /// The handle of the session that lives here; 0: none.
    id: AtomicU64,
    access: Access,
    /// Invariant: initialised while `id` is not 0. Touched only by who has the access.
    guest: UnsafeCell<MaybeUninit<Guest>>,
}

// SAFETY: `access` lets one thread at a time to the guest, which is Send.
unsafe impl Sync for Slot {}
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Guest>();
};

/// The first slot of each chunk, once it is made; never changed then.
static SLOTS: [AtomicPtr<Slot>; CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];
static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers::new());

#[inline(always)]
fn slot(id: u64) -> Option<&'static Slot> {
    let index = index_of(id);
    // Acquire: the zeroed slots are visible. The index has INDEX_BITS, so its chunk is within the array.
    let chunk = SLOTS[index / CHUNK_SLOTS].load(Ordering::Acquire);
    // SAFETY: a chunk has CHUNK_SLOTS slots, is never freed, and its slots are only shared.
    (!chunk.is_null()).then(|| unsafe { &*chunk.add(index % CHUNK_SLOTS) })
}

/// The slot, whose chunk is made if it is not there. The caller holds `NUMBERS`.
fn slot_or_new(index: usize) -> &'static Slot {
    let chunk = &SLOTS[index / CHUNK_SLOTS];
    if chunk.load(Ordering::Relaxed).is_null() {
        let layout = Layout::array::<Slot>(CHUNK_SLOTS).expect("a chunk is small");
        // SAFETY: the layout is not empty.
        let made = unsafe { alloc_zeroed(layout) };
        if made.is_null() {
            handle_alloc_error(layout);
        }
        // Release: the zeroed slots are visible to who finds the chunk.
        chunk.store(made.cast(), Ordering::Release);
    }
    slot(index as u64).expect("its chunk is there")
}

/// A session during one call of C's. Given back by [`Call::end`]: a drop would be run by a panic, too, but the
/// panics end inside of it.
pub(crate) struct Call {
    slot: &'static Slot,
    held: Held,
}

impl Call {
    /// Begins a call on a session. `claim`: it serves this thread from now on, so calls from here are to be fast.
    #[inline(always)]
    pub(crate) fn begin(handle: flifo_session_t, claim: bool) -> Result<Self, Failure> {
        let me = ThreadId::mine();
        if let Some(slot) = slot(handle.id)
            // Relaxed: its owner, whom `try_owned` lets pass, has acquired it before.
            && slot.id.load(Ordering::Relaxed) == handle.id
            && let Some(owner) = slot.access.try_owned(me)
        {
            return Ok(Call { slot, held: Held::Owned(owner) });
        }
        Self::begin_slowly(handle, me, claim)
    }

    #[cold]
    #[inline(never)]
    fn begin_slowly(handle: flifo_session_t, me: ThreadId, claim: bool) -> Result<Self, Failure> {
        let lives = |slot: &&Slot| handle.id != 0 && slot.id.load(Ordering::Acquire) == handle.id;
        let slot = slot(handle.id).filter(lives).ok_or_else(|| dead(handle.id, "session"))?;
        match slot.access.acquire(me, claim, || lives(&slot)) {
            Ok(held) => Ok(Call { slot, held }),
            Err(Refused) if lives(&slot) => Err(FLIFO_IN_USE),
            Err(Refused) => Err(FLIFO_DEAD_HANDLE),
        }
    }

    #[inline(always)]
    pub(crate) fn guest(&self) -> &Guest {
        // SAFETY: this call has the access, and `id` was not 0 then, so there is a guest.
        unsafe { (*self.slot.guest.get()).assume_init_ref() }
    }

    #[inline(always)]
    pub(crate) fn end(self) {
        self.slot.access.release(self.held);
    }

    /// Takes the session out, whose handle is dead then.
    pub(crate) fn take(self) -> Guest {
        let id = self.slot.id.swap(0, Ordering::Relaxed);
        // SAFETY: as in `guest`; since `id` is 0 now, nobody takes it twice.
        let guest = unsafe { (*self.slot.guest.get()).assume_init_read() };
        self.slot.access.reset(self.held);
        lock(&NUMBERS).give(index_of(id), generation_of(id));
        guest
    }
}

/// Gives a session its handle.
pub(crate) fn insert(guest: Guest) -> Result<flifo_session_t, Failure> {
    let mut numbers = lock(&NUMBERS);
    let (index, generation) = numbers.take("sessions")?;
    let slot = slot_or_new(index);
    drop(numbers);
    let id = id(Kind::Session, generation, index);
    // SAFETY: `id` is 0, so there is no guest, and nobody gets past `begin` to look; the number was given to
    // this thread alone.
    unsafe { (*slot.guest.get()).write(guest) };
    // Release: who finds the handle finds the guest.
    slot.id.store(id, Ordering::Release);
    Ok(flifo_session_t { id })
}
