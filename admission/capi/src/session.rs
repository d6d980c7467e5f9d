//! The functions of a connection: the hot path.
//!
//! An entry on a ticket runs without `catch_unwind`: it is a load, a test and two stores, and cannot panic.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use flifo_admission::Session;

use crate::handle::{flifo_admission_t, flifo_session_t};
use crate::names::{class_of, put, wait_kind_of};
use crate::scheduler::Scheduler;
use crate::status::{
    FLIFO_NO_SLOT, FLIFO_NO_WAIT, FLIFO_NOT_RUNNING, FLIFO_OK, FLIFO_PANIC, flifo_status_t, guard,
    guard_status,
};
use crate::table::{CSession, Call, insert};

/// Makes a session. Make one for each connection.
///
/// A session may move between threads, but serves one at a time: a call while another thread is in a call on it
/// returns `FLIFO_IN_USE`. A session that stays on the thread that enters first is the fastest; each call on a
/// session that has moved costs some nanoseconds more.
///
/// `session`: receives the handle.
///
/// Returns `FLIFO_TOO_MANY` if the scheduler has 130,815 sessions.
///
/// # Safety
/// `session` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flifo_session_new(
    admission: flifo_admission_t,
    session: *mut flifo_session_t,
) -> flifo_status_t {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { put(session, "session", flifo_session_t { id: 0 }) }?;
        let scheduler = Scheduler::of(admission)?;
        scheduler.add_session()?;
        let made = CSession { session: scheduler.admission.session(), scheduler: scheduler.clone() };
        let handle = insert(made).inspect_err(|_| scheduler.remove_session())?;
        // SAFETY: the caller's promise.
        unsafe { put(session, "session", handle) }
    })
}

/// Frees a session. A running session exits first.
///
/// Returns `FLIFO_IN_USE`, and does nothing, while another thread is in a call on it, such as queued in
/// `flifo_enter`: cancel that call, and free the session after it has returned.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_session_free(session: flifo_session_t) -> flifo_status_t {
    guard(|| {
        let CSession { session, scheduler } = Call::begin(session, false)?.take();
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
    work: impl FnOnce(&Session) -> flifo_status_t,
) -> flifo_status_t {
    match Call::begin(session, claim) {
        Ok(call) => {
            let status = guard_status(|| work(call.session()));
            end(call, status)
        }
        Err(failure) => failure,
    }
}

/// Ends a call. Frees a session in which something panicked, since its state is unknown.
#[inline(always)]
fn end(call: Call, status: flifo_status_t) -> flifo_status_t {
    if status == FLIFO_PANIC {
        // The panic's text stays in `flifo_last_error`, unless the drop panics, too.
        return guard_status(|| {
            let CSession { session, scheduler } = call.take();
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
fn enter(session: flifo_session_t, work: impl FnOnce(&Session) -> flifo_status_t) -> flifo_status_t {
    match Call::begin(session, true) {
        Ok(call) => {
            let session = call.session();
            let status = match session.tickets() {
                0 => guard_status(|| work(session)),
                _ => session.enter().into(),
            };
            end(call, status)
        }
        Err(failure) => failure,
    }
}

/// Enters: takes a ticket if there is one left, else acquires a slot, and queues until it has one.
///
/// Call it for every engine entry: at the beginning of a statement and for each row. While a wait has released the
/// slot it does nothing; the end of the wait acquires the slot again.
///
/// Returns `FLIFO_TIMEOUT`, `FLIFO_QUEUE_FULL` or `FLIFO_CANCELLED` if it is refused. The session is not running
/// then, also if it was running before and had used its tickets.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_enter(session: flifo_session_t) -> flifo_status_t {
    enter(session, |session| session.enter().into())
}

/// Enters like `flifo_enter`, but queues for at most `timeout_ns` nanoseconds; 0 does not queue.
///
/// Returns `FLIFO_TIMEOUT` when that time has passed.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_enter_until(session: flifo_session_t, timeout_ns: u64) -> flifo_status_t {
    enter(session, |session| match Instant::now().checked_add(Duration::from_nanos(timeout_ns)) {
        Some(deadline) => session.enter_until(deadline).into(),
        None => session.enter().into(),
    })
}

/// Enters if that is possible without queueing.
///
/// Returns `FLIFO_NO_SLOT` if not. The session is not running then, also if it was running before and had used its
/// tickets. While a wait has released the slot it does nothing and returns `FLIFO_NO_SLOT`.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_try_enter(session: flifo_session_t) -> flifo_status_t {
    enter(session, |session| flifo_status_t::if_not(session.try_enter(), FLIFO_NO_SLOT))
}

/// Enters without queueing, above the limit if need be; exits repay the overshoot.
///
/// For a session that running threads wait for, such as the holder of a row lock: if it queued behind them, none of
/// them would exit.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_enter_forced(session: flifo_session_t) -> flifo_status_t {
    call(session, true, |session| {
        session.enter_forced();
        FLIFO_OK
    })
}

/// Exits: hands the slot off to the head of the queue, or releases it.
///
/// Call it at the end of a statement, before its reply is sent. While a wait has released the slot, the end of that
/// wait acquires none.
///
/// Returns `FLIFO_NOT_RUNNING`, and does nothing, if the session has not entered.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_exit(session: flifo_session_t) -> flifo_status_t {
    call(session, false, |session| {
        let has_entered = has_entered(session);
        session.exit();
        flifo_status_t::if_not(has_entered, FLIFO_NOT_RUNNING)
    })
}

/// Exits like `flifo_exit`, and ends the time slice.
///
/// For a session that will not be back at once, such as a session that is about to wait for others and declares no
/// wait.
///
/// Returns `FLIFO_NOT_RUNNING` if the session has not entered. A slot that is reserved for it (`reserve_slots`) is
/// released all the same.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_exit_ending_slice(session: flifo_session_t) -> flifo_status_t {
    call(session, false, |session| {
        let has_entered = has_entered(session);
        session.exit_ending_slice();
        flifo_status_t::if_not(has_entered, FLIFO_NOT_RUNNING)
    })
}

fn has_entered(session: &Session) -> bool {
    session.is_running() || session.is_waiting()
}

/// Enters without a slot, which is counted as work, unless a limit is in force. Does nothing unless the session is outside.
///
/// Returns `FLIFO_NO_SLOT` if a limit is in force: the session is outside, and must acquire a slot as others do.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_enter_uncounted(session: flifo_session_t) -> flifo_status_t {
    call(session, true, |session| flifo_status_t::if_not(session.enter_uncounted(), FLIFO_NO_SLOT))
}

/// Checks whether a session is running: returns `FLIFO_OK` if so, else `FLIFO_NOT_RUNNING`.
///
/// A session runs from an entry to its exit, except while a wait has released its slot.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_is_running(session: flifo_session_t) -> flifo_status_t {
    call(session, false, |session| flifo_status_t::if_not(session.is_running(), FLIFO_NOT_RUNNING))
}

/// Begins a wait: releases the slot if `wait_mask` has this kind and `io_depth` allows it.
///
/// Waits nest; the end of the outermost wait that released the slot acquires it again. If the session is not
/// running, the wait is counted and releases nothing.
///
/// `kind`: a `flifo_wait_kind_t`.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_wait_begin(session: flifo_session_t, kind: c_int) -> flifo_status_t {
    call(session, false, |session| match wait_kind_of(kind) {
        Ok(kind) => {
            session.wait_begin(kind);
            FLIFO_OK
        }
        Err(failure) => failure,
    })
}

/// Marks the session's row-lock wait as long: it no longer counts for `lock_waiters_max`.
///
/// For a session that queues behind others for the same lock, or whose lock holder takes its time.
///
/// Returns `FLIFO_NO_WAIT`, and does nothing, if no wait has begun.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_mark_wait_long(session: flifo_session_t) -> flifo_status_t {
    call(session, false, |session| match session.wait_depth() {
        0 => FLIFO_NO_WAIT,
        _ => {
            session.mark_wait_long();
            FLIFO_OK
        }
    })
}

/// Ends a wait without blocking, since the caller may hold latches.
///
/// If the wait released the slot, the session enters by force, with one ticket; exits repay the overshoot.
///
/// `kind`: the value that `flifo_wait_begin` was called with.
///
/// Returns `FLIFO_NO_WAIT`, and does nothing, if no wait has begun.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_wait_end(session: flifo_session_t, kind: c_int) -> flifo_status_t {
    call(session, false, |session| match wait_kind_of(kind) {
        Ok(_) if session.wait_depth() == 0 => FLIFO_NO_WAIT,
        Ok(kind) => {
            session.wait_end(kind);
            FLIFO_OK
        }
        Err(failure) => failure,
    })
}

/// Sets whether the session holds locks for which others may wait.
///
/// It takes effect at the next entry and at the next exit: a lock holder goes on with its time slice, others make
/// room for lock holders.
///
/// `class_`: a `flifo_class_t`.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_set_class(session: flifo_session_t, class_: c_int) -> flifo_status_t {
    call(session, false, |session| match class_of(class_) {
        Ok(class) => {
            session.set_class(class);
            FLIFO_OK
        }
        Err(failure) => failure,
    })
}

/// Sets whether the session is within a transaction.
///
/// Under `FLIFO_POLICY_QUANTUM` its time slice then lasts until the transaction ends, for up to eight quanta: a
/// transaction that is cut in two waits for two rotations of the queue while it holds its locks. A session that
/// never ends a transaction gets up to eight times the time of others. If slices are timed, it gets a deficit from
/// four quanta of CPU time on.
///
/// `in_transaction`: 0 = no, any other value = yes.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_set_in_transaction(
    session: flifo_session_t,
    in_transaction: c_int,
) -> flifo_status_t {
    call(session, false, |session| {
        session.set_in_transaction(in_transaction != 0);
        FLIFO_OK
    })
}

/// Takes back a cancellation that found the session neither queued nor about to queue.
///
/// Call it where a statement begins, so that a cancellation that came too late for the statement before does not
/// end this one.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_forget_cancel(session: flifo_session_t) -> flifo_status_t {
    call(session, false, |session| {
        session.forget_cancel();
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
        // SAFETY: the pointers are null or writable.
        assert_eq!(unsafe { flifo_admission_new(ptr::null(), &mut admission) }, FLIFO_OK);
        (admission, Scheduler::of(admission).unwrap())
    }

    fn session(admission: flifo_admission_t) -> flifo_session_t {
        let mut session = flifo_session_t { id: 0 };
        // SAFETY: the pointer is writable.
        assert_eq!(unsafe { flifo_session_new(admission, &mut session) }, FLIFO_OK);
        session
    }

    #[test]
    fn a_session_in_which_something_panicked_exits_and_is_dead() {
        let (admission, scheduler) = scheduler();
        let session = session(admission);
        assert_eq!(flifo_enter(session), FLIFO_OK);
        assert_eq!(scheduler.admission.snapshot().running, 1);
        assert_eq!(call(session, false, |_| panic!("a defect")), FLIFO_PANIC);
        assert_eq!(scheduler.admission.snapshot().running, 0);
        assert_eq!(flifo_exit(session), FLIFO_DEAD_HANDLE);
        assert_eq!(flifo_admission_free(admission), FLIFO_OK);
    }

    #[test]
    fn calls_on_one_session_never_overlap() {
        let (admission, scheduler) = scheduler();
        let session = session(admission);
        let (in_call, refused) = (std::sync::atomic::AtomicU32::new(0), std::sync::atomic::AtomicU32::new(0));
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..20_000 {
                        let status = call(session, n % 2 == 0, |_| {
                            assert_eq!(in_call.fetch_add(1, relaxed), 0, "two at a time");
                            in_call.fetch_sub(1, relaxed);
                            FLIFO_OK
                        });
                        refused.fetch_add(u32::from(status == FLIFO_IN_USE), relaxed);
                        assert!(status == FLIFO_OK || status == FLIFO_IN_USE, "{status:?}");
                    }
                });
            }
        });
        assert_eq!(flifo_session_free(session), FLIFO_OK);
        assert_eq!(scheduler.admission.snapshot().running, 0);
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
                            let exited = flifo_exit(session);
                            assert!(allowed.contains(&exited) || exited == FLIFO_NOT_RUNNING);
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
        // SAFETY: the pointer is writable.
        assert_eq!(unsafe { flifo_canceller_new(session, &mut canceller) }, FLIFO_OK);
        assert_eq!(flifo_session_free(session), FLIFO_OK);
        assert_eq!(flifo_admission_free(admission), FLIFO_OK);
        assert_eq!(flifo_cancel(canceller), FLIFO_OK);
        assert_eq!(flifo_canceller_free(canceller), FLIFO_OK);
        assert_eq!(flifo_cancel(canceller), FLIFO_DEAD_HANDLE);
    }

    #[test]
    fn one_session_too_many_is_refused() {
        let (admission, scheduler) = scheduler();
        let mut sessions = Vec::new();
        let last = loop {
            let mut session = flifo_session_t { id: 0 };
            // SAFETY: the pointer is writable.
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
