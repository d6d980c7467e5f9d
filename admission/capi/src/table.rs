//! Where sessions live: cells that are found without a lock and are never freed.
//!
//! A handle's index leads to its cell: one load finds the chunk, one load checks the cell's own handle. Cells are
//! allocated a chunk at a time, in zeroed memory, and are reused but never freed. So a reference to a cell stays valid
//! forever, and an old handle leads at worst to the cell of another session, whose handle differs.
//!
//! A cell's session is touched only between [`Access::acquire`] and [`Access::release`]. The handle (`id`) is stored
//! before any caller can know it, and cleared while the access is held. A caller compares it twice: before it
//! acquires, so that it does not disturb another session, and again after it has locked the access, since the session
//! may have been freed in between. The session's owner need not compare again: only a free by another thread can
//! clear the handle, and that thread takes the ownership away first.

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

const CHUNK_CELLS: usize = 256;
const CHUNKS: usize = (1 << INDEX_BITS) / CHUNK_CELLS;

/// A session, and the scheduler that counts it.
pub(crate) struct CSession {
    pub(crate) session: Session,
    pub(crate) scheduler: Arc<Scheduler>,
}

/// Holds one session; all bytes zero: none.
#[repr(align(128))]
struct Cell {
    /// The handle of the session in this cell; 0: none.
    id: AtomicU64,
    access: Access,
    /// Invariant: initialised while `id` is not 0. Touched only by the call that has the access.
    content: UnsafeCell<MaybeUninit<CSession>>,
}

// SAFETY: `access` admits one thread at a time to the content, which is Send.
unsafe impl Sync for Cell {}
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<CSession>();
};

/// The first cell of each chunk; null until the chunk is allocated, then never changed.
static CELLS: [AtomicPtr<Cell>; CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];
static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers::new());

#[inline(always)]
fn cell(id: u64) -> Option<&'static Cell> {
    let index = index_of(id);
    // Acquire: the zeroed cells are visible. The index has INDEX_BITS, so its chunk is within the array.
    let chunk = CELLS[index / CHUNK_CELLS].load(Ordering::Acquire);
    // SAFETY: a chunk has CHUNK_CELLS cells, is never freed, and its cells are only shared.
    (!chunk.is_null()).then(|| unsafe { &*chunk.add(index % CHUNK_CELLS) })
}

/// Returns the cell, after allocating its chunk if necessary. The caller holds `NUMBERS`.
fn cell_or_new(index: usize) -> &'static Cell {
    let chunk = &CELLS[index / CHUNK_CELLS];
    if chunk.load(Ordering::Relaxed).is_null() {
        let layout = Layout::array::<Cell>(CHUNK_CELLS).expect("a chunk is small");
        // SAFETY: the layout is not empty.
        let made = unsafe { alloc_zeroed(layout) };
        if made.is_null() {
            handle_alloc_error(layout);
        }
        // Release: a thread that finds the chunk sees the zeroed cells.
        chunk.store(made.cast(), Ordering::Release);
    }
    cell(index as u64).expect("its chunk is allocated")
}

/// A call from C on a session, from [`Call::begin`] to [`Call::end`] or [`Call::take`].
///
/// Not ended by a drop: a panic within the call is caught before it would drop this.
pub(crate) struct Call {
    cell: &'static Cell,
    held: Held,
}

impl Call {
    /// Begins a call on a session. `claim` makes this thread the owner of a session that has none.
    #[inline(always)]
    pub(crate) fn begin(handle: flifo_session_t, claim: bool) -> Result<Self, Failure> {
        let me = ThreadId::mine();
        if let Some(cell) = cell(handle.id)
            // Relaxed: `try_owned` admits only the session's owner, which has acquired it before.
            && cell.id.load(Ordering::Relaxed) == handle.id
            && let Some(owner) = cell.access.try_owned(me)
        {
            return Ok(Call { cell, held: Held::Owned(owner) });
        }
        Self::begin_slowly(handle, me, claim)
    }

    #[cold]
    #[inline(never)]
    fn begin_slowly(handle: flifo_session_t, me: ThreadId, claim: bool) -> Result<Self, Failure> {
        let lives = |cell: &&Cell| handle.id != 0 && cell.id.load(Ordering::Acquire) == handle.id;
        let cell = cell(handle.id).filter(lives).ok_or_else(|| dead(handle.id, "session"))?;
        match cell.access.acquire(me, claim, || lives(&cell)) {
            Ok(held) => Ok(Call { cell, held }),
            Err(Refused) if lives(&cell) => Err(FLIFO_IN_USE),
            Err(Refused) => Err(FLIFO_DEAD_HANDLE),
        }
    }

    #[inline(always)]
    pub(crate) fn session(&self) -> &Session {
        // SAFETY: this call has the access, and `id` was not 0 when it got it, so the content is initialised.
        unsafe { &(*self.cell.content.get()).assume_init_ref().session }
    }

    #[inline(always)]
    pub(crate) fn end(self) {
        self.cell.access.release(self.held);
    }

    /// Ends the call and takes the session out. Its handle is dead then.
    pub(crate) fn take(self) -> CSession {
        let id = self.cell.id.swap(0, Ordering::Relaxed);
        // SAFETY: as in `session`; `id` is 0 from now on, so the content is read out once.
        let content = unsafe { (*self.cell.content.get()).assume_init_read() };
        self.cell.access.reset(self.held);
        lock(&NUMBERS).give(index_of(id), generation_of(id));
        content
    }
}

/// Puts a session into a free cell and returns its handle.
pub(crate) fn insert(content: CSession) -> Result<flifo_session_t, Failure> {
    let mut numbers = lock(&NUMBERS);
    let (index, generation) = numbers.take("sessions")?;
    let cell = cell_or_new(index);
    drop(numbers);
    let id = id(Kind::Session, generation, index);
    // SAFETY: `id` is 0, so the cell has no content and `begin` lets no call pass; the index was given to this thread
    // alone.
    unsafe { (*cell.content.get()).write(content) };
    // Release: a thread that finds the handle sees the content.
    cell.id.store(id, Ordering::Release);
    Ok(flifo_session_t { id })
}
