//! The functions of a connection: the hot path.
//!
//! A ticket runs without `catch_unwind`: it is a load, a test and two stores, and cannot panic.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use crate::handle::{flifo_admission_t, flifo_session_t};
use crate::names::{class_of, put, wait_kind_of};
use crate::scheduler::Scheduler;
use crate::status::{
    FLIFO_NO_SLOT, FLIFO_NO_WAIT, FLIFO_NOT_RUNNING, FLIFO_OK, FLIFO_PANIC, flifo_status_t, guard,
    guard_status,
};
use crate::table::{Call, Guest, insert};

/// Makes a session: one for each connection. It may move between threads, but serves one at a time; a call while
/// another thread is in one returns `FLIFO_IN_USE`.
///
/// A session that stays on the thread that enters first is the fastest. One that moves costs some nanoseconds
/// more with every call from then on.
///
/// `session`: where the handle is put.
///
/// # Safety
/// `session` is null or good.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flifo_session_new(
    admission: flifo_admission_t,
    session: *mut flifo_session_t,
) -> flifo_status_t {
    guard(|| {
        // SAFETY: as the caller promises.
        unsafe { put(session, "session", flifo_session_t { id: 0 }) }?;
        let scheduler = Scheduler::of(admission)?;
        scheduler.add_session()?;
        let guest = Guest { session: scheduler.admission.session(), scheduler: scheduler.clone() };
        let handle = insert(guest).inspect_err(|_| scheduler.remove_session())?;
        // SAFETY: as the caller promises.
        unsafe { put(session, "session", handle) }
    })
}

/// Ends a session. If it is inside it leaves, and its place goes to the next.
///
/// Returns `FLIFO_IN_USE`, and does nothing, while another thread is in a call on it, such as queued in
/// `flifo_enter`: cancel it, and free it when that call is back.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_session_free(session: flifo_session_t) -> flifo_status_t {
    guard(|| {
        let Guest { session, scheduler } = Call::begin(session, false)?.take();
        drop(session);
        scheduler.remove_session();
        Ok(())
    })
}

/// Runs a call on a session.
#[inline(always)]
fn call(
    session: flifo_session_t,
    claim: bool,
    work: impl FnOnce(&Guest) -> flifo_status_t,
) -> flifo_status_t {
    match Call::begin(session, claim) {
        Ok(call) => {
            let status = guard_status(|| work(call.guest()));
            end(call, status)
        }
        Err(failure) => failure,
    }
}

/// Ends a call. A session in which something panicked is ended with it, since nobody knows its state.
#[inline(always)]
fn end(call: Call, status: flifo_status_t) -> flifo_status_t {
    if status == FLIFO_PANIC {
        // What the panic said stays in `flifo_last_error`, unless this panics, too.
        return guard_status(|| {
            let Guest { session, scheduler } = call.take();
            scheduler.remove_session();
            drop(session);
            FLIFO_PANIC
        });
    }
    call.end();
    status
}

/// Runs an entry on a session: at once if it has a ticket.
#[inline(always)]
fn enter(session: flifo_session_t, work: impl FnOnce(&Guest) -> flifo_status_t) -> flifo_status_t {
    match Call::begin(session, true) {
        Ok(call) => {
            let guest = call.guest();
            let status = match guest.session.tickets() {
                0 => guard_status(|| work(guest)),
                _ => guest.session.enter().into(),
            };
            end(call, status)
        }
        Err(failure) => failure,
    }
}

/// Enters: takes a ticket if there is one left, else asks for a place, and queues until it has one. Call it for
/// every engine entry: at the beginning of a statement, and for each row.
///
/// Within a wait that gave up the place it does nothing: the place comes back when the wait ends.
///
/// Returns `FLIFO_TIMEOUT`, `FLIFO_QUEUE_FULL` or `FLIFO_CANCELLED` if it is refused; it is outside then, also
/// if it was inside before and had used its tickets.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_enter(session: flifo_session_t) -> flifo_status_t {
    enter(session, |guest| guest.session.enter().into())
}

/// As `flifo_enter`, but waits in the queue no longer than `timeout_ns` nanoseconds; 0 does not wait.
///
/// Returns `FLIFO_TIMEOUT` then.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_enter_until(session: flifo_session_t, timeout_ns: u64) -> flifo_status_t {
    enter(session, |guest| match Instant::now().checked_add(Duration::from_nanos(timeout_ns)) {
        Some(deadline) => guest.session.enter_until(deadline).into(),
        None => guest.session.enter().into(),
    })
}

/// Enters if that is possible at once.
///
/// Returns `FLIFO_NO_SLOT` if it is not: it is outside then, also if it was inside before and had used its tickets
/// while others wait. Within a wait that gave up the place it does nothing, and returns the same: the place comes back
/// when the wait ends.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_try_enter(session: flifo_session_t) -> flifo_status_t {
    enter(session, |guest| flifo_status_t::if_not(guest.session.try_enter(), FLIFO_NO_SLOT))
}

/// Enters whatever the limit says; exits repay the overshoot. For a session that those inside wait for, such as
/// the holder of a row lock: if it queued behind them, nobody would ever leave.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_enter_forced(session: flifo_session_t) -> flifo_status_t {
    call(session, true, |guest| {
        guest.session.enter_forced();
        FLIFO_OK
    })
}

/// Leaves: hands the place to the head of the queue, or gives it back. Call it at the end of a statement, before
/// its reply is sent. Within a wait it gives up what the wait would bring back.
///
/// Returns `FLIFO_NOT_RUNNING`, and does nothing, without an enter before.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_exit(session: flifo_session_t) -> flifo_status_t {
    call(session, false, |guest| {
        let session = &guest.session;
        if !session.is_running() && !session.is_waiting() {
            return FLIFO_NOT_RUNNING;
        }
        session.exit();
        FLIFO_OK
    })
}

/// As `flifo_exit`, for a session that will not be back at once: whatever it might keep of its turn goes to the next in
/// the queue. For one that is about to wait for others, and declares no wait.
///
/// Returns `FLIFO_NOT_RUNNING` without an enter before; if a place waits for the session then (`anticipate`), that goes to the next all the same.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_exit_ending_slice(session: flifo_session_t) -> flifo_status_t {
    call(session, false, |guest| {
        let session = &guest.session;
        let is_in = session.is_running() || session.is_waiting();
        // Also outside: a place may wait for it.
        session.exit_ending_slice();
        flifo_status_t::if_not(is_in, FLIFO_NOT_RUNNING)
    })
}

/// Whether a session is inside: `FLIFO_OK` if so, else `FLIFO_NOT_RUNNING`.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_is_running(session: flifo_session_t) -> flifo_status_t {
    call(session, false, |guest| flifo_status_t::if_not(guest.session.is_running(), FLIFO_NOT_RUNNING))
}

/// Begins a wait: gives up the place, if the settings say so for this kind. Waits nest; the outermost one that
/// gives up the place takes it back. Outside it only counts.
///
/// `kind`: a `flifo_wait_kind_t`.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_wait_begin(session: flifo_session_t, kind: c_int) -> flifo_status_t {
    call(session, false, |guest| match wait_kind_of(kind) {
        Ok(kind) => {
            guest.session.wait_begin(kind);
            FLIFO_OK
        }
        Err(failure) => failure,
    })
}

/// The wait for a row lock that goes on is a long one: the session stands behind others that wait for the same
/// lock, or its holder takes its time. It does not count for lock_waiters_max any more.
///
/// Returns `FLIFO_NO_WAIT`, and does nothing, without a `flifo_wait_begin` before.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_mark_wait_long(session: flifo_session_t) -> flifo_status_t {
    call(session, false, |guest| match guest.session.wait_depth() {
        0 => FLIFO_NO_WAIT,
        _ => {
            guest.session.mark_wait_long();
            FLIFO_OK
        }
    })
}

/// Ends a wait. Never blocks, since the caller may hold latches: if the wait gave up the place, this forces its
/// way back in past the limit, with one ticket. Exits repay the overshoot.
///
/// `kind`: as `flifo_wait_begin` had it.
///
/// Returns `FLIFO_NO_WAIT`, and does nothing, without a `flifo_wait_begin` before.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_wait_end(session: flifo_session_t, kind: c_int) -> flifo_status_t {
    call(session, false, |guest| match wait_kind_of(kind) {
        Ok(_) if guest.session.wait_depth() == 0 => FLIFO_NO_WAIT,
        Ok(kind) => {
            guest.session.wait_end(kind);
            FLIFO_OK
        }
        Err(failure) => failure,
    })
}

/// As `flifo_wait_end`, but queues when the limit is reached, before those of the normal class and behind holders
/// of locks that came before. Only where the caller holds nothing that others may wait for: no latch, no mutex.
///
/// Returns `FLIFO_TIMEOUT`, `FLIFO_QUEUE_FULL` or `FLIFO_CANCELLED` if it is refused: the wait is over then, and
/// the session is outside.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_wait_end_may_queue(session: flifo_session_t, kind: c_int) -> flifo_status_t {
    call(session, false, |guest| match wait_kind_of(kind) {
        Ok(_) if guest.session.wait_depth() == 0 => FLIFO_NO_WAIT,
        Ok(kind) => guest.session.wait_end_may_queue(kind).into(),
        Err(failure) => failure,
    })
}

/// Says whether the session holds locks for which others may wait. It counts from its next entry, and at its next
/// exit: one that holds locks goes on with its turn, others make room for those who do.
///
/// `class_`: a `flifo_class_t`.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_set_class(session: flifo_session_t, class_: c_int) -> flifo_status_t {
    call(session, false, |guest| match class_of(class_) {
        Ok(class) => {
            guest.session.set_class(class);
            FLIFO_OK
        }
        Err(failure) => failure,
    })
}

/// Says whether the session is within a transaction, one that has begun and is not over. Under `FLIFO_POLICY_QUANTUM` its turn
/// then goes on until the transaction is over, for up to eight quanta: one that is cut in two waits for two
/// turns. Whoever never ends one has up to eight times the time of others; if its turns are timed, and it uses the processors for more than four quanta of one, it owes that.
///
/// `in_transaction`: 0 if not.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_set_in_transaction(
    session: flifo_session_t,
    in_transaction: c_int,
) -> flifo_status_t {
    call(session, false, |guest| {
        guest.session.set_in_transaction(in_transaction != 0);
        FLIFO_OK
    })
}

/// Takes back a cancellation that found nothing to cancel. Call it where a statement begins, so that one that
/// came too late for the statement before does not hit this one.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_forget_cancel(session: flifo_session_t) -> flifo_status_t {
    call(session, false, |guest| {
        guest.session.forget_cancel();
        FLIFO_OK
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canceller::{flifo_cancel, flifo_canceller_free, flifo_canceller_new};
    use crate::handle::flifo_canceller_t;
    use crate::scheduler::{flifo_admission_free, flifo_admission_new};
    use crate::status::{FLIFO_DEAD_HANDLE, FLIFO_IN_USE, FLIFO_TOO_MANY};
    use std::ptr;

    fn scheduler() -> (flifo_admission_t, std::sync::Arc<Scheduler>) {
        let mut admission = flifo_admission_t { id: 0 };
        // SAFETY: the pointers are good.
        assert_eq!(unsafe { flifo_admission_new(ptr::null(), &mut admission) }, FLIFO_OK);
        (admission, Scheduler::of(admission).unwrap())
    }

    fn session(admission: flifo_admission_t) -> flifo_session_t {
        let mut session = flifo_session_t { id: 0 };
        // SAFETY: the pointer is good.
        assert_eq!(unsafe { flifo_session_new(admission, &mut session) }, FLIFO_OK);
        session
    }

    #[test]
    fn a_session_in_which_something_panicked_leaves_and_is_dead() {
        let (admission, scheduler) = scheduler();
        let session = session(admission);
        assert_eq!(flifo_enter(session), FLIFO_OK);
        assert_eq!(scheduler.admission.snapshot().inside, 1);
        assert_eq!(call(session, false, |_| panic!("a defect")), FLIFO_PANIC);
        assert_eq!(scheduler.admission.snapshot().inside, 0);
        assert_eq!(flifo_exit(session), FLIFO_DEAD_HANDLE);
        assert_eq!(flifo_admission_free(admission), FLIFO_OK);
    }

    #[test]
    fn one_at_a_time_whatever_the_threads_do() {
        let (admission, scheduler) = scheduler();
        let session = session(admission);
        let (inside, refused) = (std::sync::atomic::AtomicU32::new(0), std::sync::atomic::AtomicU32::new(0));
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..20_000 {
                        let status = call(session, n % 2 == 0, |_| {
                            assert_eq!(inside.fetch_add(1, relaxed), 0, "two at a time");
                            inside.fetch_sub(1, relaxed);
                            FLIFO_OK
                        });
                        refused.fetch_add(u32::from(status == FLIFO_IN_USE), relaxed);
                        assert!(status == FLIFO_OK || status == FLIFO_IN_USE, "{status:?}");
                    }
                });
            }
        });
        assert_eq!(flifo_session_free(session), FLIFO_OK);
        assert_eq!(scheduler.admission.snapshot().inside, 0);
        assert_eq!(flifo_admission_free(admission), FLIFO_OK);
    }

    #[test]
    fn frees_and_calls_at_once_are_refused_or_done() {
        let (admission, scheduler) = scheduler();
        for _ in 0..300 {
            let session = session(admission);
            let freed = std::sync::atomic::AtomicU32::new(0);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        for _ in 0..20 {
                            let allowed = [FLIFO_OK, FLIFO_IN_USE, FLIFO_DEAD_HANDLE];
                            assert!(allowed.contains(&flifo_enter(session)));
                            let left = flifo_exit(session);
                            assert!(allowed.contains(&left) || left == FLIFO_NOT_RUNNING);
                        }
                        let done = u32::from(flifo_session_free(session) == FLIFO_OK);
                        freed.fetch_add(done, std::sync::atomic::Ordering::Relaxed);
                    });
                }
            });
            let last = u32::from(flifo_session_free(session) == FLIFO_OK);
            assert_eq!(freed.into_inner() + last, 1, "freed once");
        }
        let snapshot = scheduler.admission.snapshot();
        assert_eq!((snapshot.running, snapshot.queued, snapshot.pending), (0, 0, 0));
        assert_eq!(flifo_admission_free(admission), FLIFO_OK);
    }

    #[test]
    fn a_canceller_outlives_its_session() {
        let (admission, _) = scheduler();
        let session = session(admission);
        let mut canceller = flifo_canceller_t { id: 0 };
        // SAFETY: the pointer is good.
        assert_eq!(unsafe { flifo_canceller_new(session, &mut canceller) }, FLIFO_OK);
        assert_eq!(flifo_session_free(session), FLIFO_OK);
        assert_eq!(flifo_admission_free(admission), FLIFO_OK);
        assert_eq!(flifo_cancel(canceller), FLIFO_OK);
        assert_eq!(flifo_canceller_free(canceller), FLIFO_OK);
        assert_eq!(flifo_cancel(canceller), FLIFO_DEAD_HANDLE);
    }

    #[test]
    fn a_scheduler_has_so_many_sessions_and_says_so() {
        let (admission, scheduler) = scheduler();
        let mut sessions = Vec::new();
        let last = loop {
            let mut session = flifo_session_t { id: 0 };
            // SAFETY: the pointer is good.
            match unsafe { flifo_session_new(admission, &mut session) } {
                FLIFO_OK => sessions.push(session),
                other => break other,
            }
        };
        assert_eq!(last, FLIFO_TOO_MANY);
        assert_eq!(sessions.len(), 130_815, "no panic before");
        assert!(sessions.into_iter().all(|session| flifo_session_free(session) == FLIFO_OK));
        drop(scheduler);
        assert_eq!(flifo_admission_free(admission), FLIFO_OK);
    }
}
