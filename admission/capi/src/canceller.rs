//! What another thread does to a session: ends its queueing, lends its place.

use flifo_admission::Canceller;

use crate::handle::{Kind, Table, flifo_canceller_t, flifo_session_t};
use crate::names::put;
use crate::status::flifo_status_t::FLIFO_NOT_INSIDE;
use crate::status::{flifo_status_t, guard, guard_status};
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

/// The session is inside, and its thread was seen asleep: the next in the queue has its place until `flifo_take_back_place`, or
/// until the session leaves. The session itself is told nothing, and goes on when it wakes. From another thread than the session's.
///
/// Returns `FLIFO_NOT_INSIDE`, and does nothing, if it holds no place that can be lent (`flifo_set_lendable`), or it is lent.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_lend_place(canceller: flifo_canceller_t) -> flifo_status_t {
    change(canceller, Canceller::lend_place)
}

/// The session whose place is lent runs again: its place is its own, past the limit. From another thread than the session's.
///
/// Returns `FLIFO_NOT_INSIDE`, and does nothing, if its place is not lent.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_take_back_place(canceller: flifo_canceller_t) -> flifo_status_t {
    change(canceller, Canceller::take_back_place)
}

/// Does this to the session's place, if that is possible.
fn change(canceller: flifo_canceller_t, change: impl FnOnce(&Canceller) -> bool) -> flifo_status_t {
    guard_status(|| match CANCELLERS.get(canceller.id) {
        Ok(canceller) => flifo_status_t::if_not(change(&canceller), FLIFO_NOT_INSIDE),
        Err(failure) => failure,
    })
}

/// Frees a canceller. What it has cancelled stays so.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_canceller_free(canceller: flifo_canceller_t) -> flifo_status_t {
    guard(|| CANCELLERS.remove(canceller.id).map(drop))
}
