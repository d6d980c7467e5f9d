//! Ending a session's queueing from another thread.

use flifo_admission::Canceller;

use crate::handle::{Kind, Table, flifo_canceller_t, flifo_session_t};
use crate::names::put;
use crate::status::{flifo_status_t, guard};
use crate::table::Call;

static CANCELLERS: Table<Canceller> = Table::new(Kind::Canceller, "canceller", "cancellers");

/// Makes a canceller: it ends the session's queueing from another thread, as KILL does.
///
/// Make it where the session is made, and keep it where the killer finds it. It may outlive the session and the
/// scheduler.
///
/// `canceller`: receives the handle.
///
/// Returns `FLIFO_TOO_MANY` if there are 2^20 cancellers.
///
/// # Safety
/// `canceller` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flifo_canceller_new(
    session: flifo_session_t,
    canceller: *mut flifo_canceller_t,
) -> flifo_status_t {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { put(canceller, "canceller", flifo_canceller_t { id: 0 }) }?;
        let call = Call::begin(session, false)?;
        let made = call.session().canceller();
        call.end();
        let id = CANCELLERS.insert(made)?;
        // SAFETY: the caller's promise.
        unsafe { put(canceller, "canceller", flifo_canceller_t { id }) }
    })
}

/// Cancels: the session's `flifo_enter` returns `FLIFO_CANCELLED` if it is queued now, or when it would queue next.
///
/// A running session goes on. Call it from any thread at any time, also while the session is in use or is freed.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_cancel(canceller: flifo_canceller_t) -> flifo_status_t {
    guard(|| CANCELLERS.get(canceller.id).map(|canceller| canceller.cancel()))
}

/// Frees a canceller. A cancellation that it has made stays in effect.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_canceller_free(canceller: flifo_canceller_t) -> flifo_status_t {
    guard(|| CANCELLERS.remove(canceller.id).map(drop))
}
