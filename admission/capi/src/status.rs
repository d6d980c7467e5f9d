//! Return codes, texts of errors, and the wall that no panic passes.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use flifo_admission::Refused;

/// What came of a call. Everything but `FLIFO_OK` means that the call did nothing, except where it says so, and that
/// an entry that finds no place (`FLIFO_TIMEOUT` to `FLIFO_NO_SLOT`) leaves the session outside: one that was
/// inside, and out of tickets, has lost its place.
///
/// The first group is for a program to act upon; the second tells of a mistake in the program.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum flifo_status_t {
    /// Done; or: yes.
    FLIFO_OK = 0,
    /// Refused: no place was free in time, by `queue_timeout_ns` or the call's own timeout.
    FLIFO_TIMEOUT = 1,
    /// Refused: no place is free, and `queue_limit` sessions wait already.
    FLIFO_QUEUE_FULL = 2,
    /// Refused: a canceller was used. The cancellation is consumed.
    FLIFO_CANCELLED = 3,
    /// `flifo_try_enter` found no free place. The session is not inside.
    FLIFO_NO_SLOT = 4,
    /// The session is not inside: an exit without an enter, or `flifo_is_running` says no.
    FLIFO_NOT_RUNNING = 5,
    /// The end of a wait that did not begin.
    FLIFO_NO_WAIT = 6,
    /// An argument is impossible; `flifo_last_error()` says which, and what is allowed.
    FLIFO_INVALID = 7,
    /// The handle is not, or is no longer, one of this kind: freed, freed twice, or never made.
    FLIFO_DEAD_HANDLE = 8,
    /// Another thread is in a call on this session (it may be queued in it). Sessions may move between
    /// threads, but serve one at a time.
    FLIFO_IN_USE = 9,
    /// There are as many sessions, schedulers or cancellers as there can be; `flifo_last_error()` says how many.
    FLIFO_TOO_MANY = 10,
    /// A defect of this library was caught; `flifo_last_error()` has its text. If the call was one on a session,
    /// the session has left and ended: its handle is dead.
    FLIFO_PANIC = 11,
}

pub(crate) use flifo_status_t::*;

impl flifo_status_t {
    const ALL: [flifo_status_t; 12] = [
        FLIFO_OK,
        FLIFO_TIMEOUT,
        FLIFO_QUEUE_FULL,
        FLIFO_CANCELLED,
        FLIFO_NO_SLOT,
        FLIFO_NOT_RUNNING,
        FLIFO_NO_WAIT,
        FLIFO_INVALID,
        FLIFO_DEAD_HANDLE,
        FLIFO_IN_USE,
        FLIFO_TOO_MANY,
        FLIFO_PANIC,
    ];

    fn text(self) -> &'static std::ffi::CStr {
        match self {
            FLIFO_OK => c"no error",
            FLIFO_TIMEOUT => c"no slot became free before the queue timeout",
            FLIFO_QUEUE_FULL => c"no slot is free and the queue is full",
            FLIFO_CANCELLED => c"queueing was cancelled",
            FLIFO_NO_SLOT => c"no slot is free",
            FLIFO_NOT_RUNNING => c"the session is not running",
            FLIFO_NO_WAIT => c"no wait has begun that could end",
            FLIFO_INVALID => c"an argument is impossible: flifo_last_error() says which",
            FLIFO_DEAD_HANDLE => c"the handle was freed, or is not one of this kind",
            FLIFO_IN_USE => c"another thread is in a call on this session",
            FLIFO_TOO_MANY => c"there are too many of these: flifo_last_error() says how many there may be",
            FLIFO_PANIC => c"a defect of libflifo was caught: flifo_last_error() has its text",
        }
    }

    /// `FLIFO_OK` if so, else `no`.
    pub(crate) fn if_not(ok: bool, no: flifo_status_t) -> flifo_status_t {
        if ok { FLIFO_OK } else { no }
    }
}

impl From<Result<(), Refused>> for flifo_status_t {
    #[inline]
    fn from(result: Result<(), Refused>) -> Self {
        match result {
            Ok(()) => FLIFO_OK,
            Err(Refused::Timeout) => FLIFO_TIMEOUT,
            Err(Refused::QueueFull) => FLIFO_QUEUE_FULL,
            Err(Refused::Cancelled) => FLIFO_CANCELLED,
        }
    }
}

/// Why a call did nothing, within this crate.
pub(crate) type Failure = flifo_status_t;

const TEXT_BYTES: usize = 512;

thread_local! {
    /// The text of this thread's last failure, ended by NUL. An array, so that nothing is to be freed when the
    /// thread ends, and that a pointer to it stays good till then.
    static LAST_ERROR: RefCell<[u8; TEXT_BYTES]> = const { RefCell::new([0; TEXT_BYTES]) };
}

/// Notes the text of a failure, and hands the failure on.
#[cold]
pub(crate) fn fail(status: Failure, text: &str) -> Failure {
    LAST_ERROR.with(|last| {
        let mut last = last.borrow_mut();
        let text = text.replace('\0', "?");
        let end = text.floor_char_boundary(TEXT_BYTES - 1);
        last[..end].copy_from_slice(&text.as_bytes()[..end]);
        last[end] = 0;
    });
    status
}

/// An impossible argument.
#[cold]
pub(crate) fn invalid(text: impl std::fmt::Display) -> Failure {
    fail(FLIFO_INVALID, &text.to_string())
}

/// What exactly was wrong with the last call of this thread that returned `FLIFO_INVALID`, `FLIFO_TOO_MANY` or
/// `FLIFO_PANIC`; empty if there was none. Never null. The text is good until this thread's next such call;
/// copy it to keep it.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_last_error() -> *const c_char {
    LAST_ERROR.with(|last| last.as_ptr().cast::<c_char>().cast_const())
}

/// One line that says what a status means; for a number that is no status, that. Never null, never to be freed.
///
/// `status`: a `flifo_status_t`.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_error_message(status: c_int) -> *const c_char {
    let known = flifo_status_t::ALL.into_iter().find(|known| *known as c_int == status);
    known.map_or(c"unknown status: is the library newer than the header?", flifo_status_t::text).as_ptr()
}

/// Runs a call; a panic in it ends here.
#[inline]
pub(crate) fn guard(call: impl FnOnce() -> Result<(), Failure>) -> flifo_status_t {
    guard_status(|| match call() {
        Ok(()) => FLIFO_OK,
        Err(failure) => failure,
    })
}

/// As [`guard`], for a call that has its status.
#[inline]
pub(crate) fn guard_status(call: impl FnOnce() -> flifo_status_t) -> flifo_status_t {
    // Unwind safe: what a panic may leave in an odd state is the library's own, and each of its critical
    // sections is sound at every step.
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(caught)
}

#[cold]
fn caught(panic: Box<dyn Any + Send>) -> flifo_status_t {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let status = fail(FLIFO_PANIC, text.as_deref().unwrap_or("a panic without a text"));
    // Dropping what was thrown could panic again.
    std::mem::forget(panic);
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn last_error() -> String {
        // SAFETY: this thread's text, ended by NUL.
        unsafe { CStr::from_ptr(flifo_last_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_becomes_a_status_with_its_text() {
        assert_eq!(guard(|| panic!("thrown {}", 1)), FLIFO_PANIC);
        assert_eq!(last_error(), "thrown 1");
        assert_eq!(guard(|| std::panic::panic_any(7)), FLIFO_PANIC);
        assert_eq!(last_error(), "a panic without a text");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(invalid("é".repeat(TEXT_BYTES)), FLIFO_INVALID);
        assert_eq!(last_error(), "é".repeat((TEXT_BYTES - 1) / 2));
        invalid("short");
        assert_eq!(last_error(), "short");
        std::thread::spawn(|| assert_eq!(last_error(), "", "each thread has its own")).join().unwrap();
    }

    #[test]
    fn every_status_has_its_text() {
        // SAFETY: these texts are literals.
        let text = |status| unsafe { CStr::from_ptr(flifo_error_message(status)) }.to_str().unwrap();
        for (n, status) in flifo_status_t::ALL.into_iter().enumerate() {
            assert_eq!(status as usize, n);
            assert_eq!(text(n as c_int), status.text().to_str().unwrap());
        }
        assert!(text(-1).contains("unknown status") && text(99).contains("unknown status"));
    }
}
