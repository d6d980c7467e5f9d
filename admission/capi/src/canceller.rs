//! Ending a session's queueing from another thread.

use flifo_admission::Canceller;

use crate::handle::{Kind, Table, flifo_canceller_t, flifo_session_t};
use crate::names::put;
use crate::status::{flifo_status_t, guard};
use crate::table::Call;

static CANCELLERS: Table<Canceller> = Table::new(Kind::Canceller, "canceller", "cancellers");

/// Makes what ends this session's queueing from another thread, as KILL does. Make it where the session is made,
/// and keep it where the killer finds it. It may outlive the session, and the scheduler.
///
/// `canceller`: where the handle is put.
///
/// # Safety
/// `canceller` is null or good.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flifo_canceller_new(
    session: flifo_session_t,
    canceller: *mut flifo_canceller_t,
) -> flifo_status_t {
    guard(|| {
        // SAFETY: as the caller promises.
        unsafe { put(canceller, "canceller", flifo_canceller_t { id: 0 }) }?;
        let call = Call::begin(session, false)?;
        let made = call.guest().session.canceller();
        call.end();
        let id = CANCELLERS.insert(made)?;
        // SAFETY: as the caller promises.
        unsafe { put(canceller, "canceller", flifo_canceller_t { id }) }
    })
}

/// Cancels: the session's `flifo_enter` returns `FLIFO_CANCELLED`, if it is queued now or when it would queue
/// next. A session that is inside stays. From any thread, at any time, also while the session is used or freed.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_cancel(canceller: flifo_canceller_t) -> flifo_status_t {
    guard(|| CANCELLERS.get(canceller.id).map(|canceller| canceller.cancel()))
}

/// Frees a canceller. What it has cancelled stays so.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_canceller_free(canceller: flifo_canceller_t) -> flifo_status_t {
    guard(|| CANCELLERS.remove(canceller.id).map(drop))
}
