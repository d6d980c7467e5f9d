//! Status codes, error texts, and the catching of panics.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use flifo_admission::Refused;

/// The result of a call. After any status except `FLIFO_OK` the call has done nothing, except where a function's text
/// states otherwise.
///
/// An entry that gets no slot (`FLIFO_TIMEOUT` to `FLIFO_NO_SLOT`) leaves the session not running: a session that was
/// running and had used its tickets has lost its slot. A program acts upon the statuses up to `FLIFO_NO_WAIT`; the later
/// ones report a mistake in the program, or a limit or a defect of the library.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum flifo_status_t {
    /// Success; of a question: yes.
    FLIFO_OK = 0,
    /// Refused: no slot became free within `queue_timeout_ns` or the call's own timeout.
    FLIFO_TIMEOUT = 1,
    /// Refused: no slot is free, and `queue_limit` sessions queue already.
    FLIFO_QUEUE_FULL = 2,
    /// Refused: `flifo_cancel` was called. The cancellation is used up.
    FLIFO_CANCELLED = 3,
    /// `flifo_try_enter` found no free slot. The session is not running.
    FLIFO_NO_SLOT = 4,
    /// The session is not running: an exit without an entry; of `flifo_is_running`: no.
    FLIFO_NOT_RUNNING = 5,
    /// No wait has begun.
    FLIFO_NO_WAIT = 6,
    /// An argument is not valid; `flifo_last_error()` names it and the allowed values.
    FLIFO_INVALID = 7,
    /// The handle is not a live handle of this kind: freed, freed twice, or never made.
    FLIFO_DEAD_HANDLE = 8,
    /// Another thread is in a call on this session, perhaps queued in it. A session serves one thread at a time.
    FLIFO_IN_USE = 9,
    /// The maximum number of sessions, schedulers or cancellers is reached; `flifo_last_error()` gives it.
    FLIFO_TOO_MANY = 10,
    /// A defect of this library was caught; `flifo_last_error()` has its text. If the call was on a session, that
    /// session has exited and its handle is dead.
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
            FLIFO_NO_WAIT => c"no wait has begun",
            FLIFO_INVALID => c"an argument is not valid: flifo_last_error() names it",
            FLIFO_DEAD_HANDLE => c"the handle was freed, or is not a handle of this kind",
            FLIFO_IN_USE => c"another thread is in a call on this session",
            FLIFO_TOO_MANY => c"the maximum number is reached: flifo_last_error() gives it",
            FLIFO_PANIC => c"a defect of libflifo was caught: flifo_last_error() has its text",
        }
    }

    /// Returns `FLIFO_OK` if `ok`, else `no`.
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

/// The status of a call that failed, within this crate.
pub(crate) type Failure = flifo_status_t;

const TEXT_BYTES: usize = 512;

thread_local! {
    /// The text of this thread's last failure, terminated by NUL. An array, so that the thread's end frees nothing and
    /// a pointer to it stays valid until then.
    static LAST_ERROR: RefCell<[u8; TEXT_BYTES]> = const { RefCell::new([0; TEXT_BYTES]) };
}

/// Stores the text of a failure and returns the failure.
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

/// Stores the text of an argument that is not valid and returns `FLIFO_INVALID`.
#[cold]
pub(crate) fn invalid(text: impl std::fmt::Display) -> Failure {
    fail(FLIFO_INVALID, &text.to_string())
}

/// Returns the text of this thread's last failure: `FLIFO_INVALID`, `FLIFO_TOO_MANY` or `FLIFO_PANIC`.
///
/// Empty if there was none; never null. The text is valid until the thread's next failure of that kind, or its end.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_last_error() -> *const c_char {
    LAST_ERROR.with(|last| last.as_ptr().cast::<c_char>().cast_const())
}

/// Returns one line of text that explains a status. Never null, never freed.
///
/// A number that is not a status gives a text that says so.
///
/// `status`: a `flifo_status_t`.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_error_message(status: c_int) -> *const c_char {
    let known = flifo_status_t::ALL.into_iter().find(|known| *known as c_int == status);
    known.map_or(c"unknown status: the library may be newer than the header", flifo_status_t::text).as_ptr()
}

/// Runs a call and catches its panics.
#[inline]
pub(crate) fn guard(call: impl FnOnce() -> Result<(), Failure>) -> flifo_status_t {
    guard_status(|| match call() {
        Ok(()) => FLIFO_OK,
        Err(failure) => failure,
    })
}

/// Runs a call that returns a status, and catches its panics.
#[inline]
pub(crate) fn guard_status(call: impl FnOnce() -> flifo_status_t) -> flifo_status_t {
    // Unwind safe: a panic can interrupt only the library's own critical sections, which are sound at every step.
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(caught)
}

#[cold]
fn caught(panic: Box<dyn Any + Send>) -> flifo_status_t {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let status = fail(FLIFO_PANIC, text.as_deref().unwrap_or("a panic without a text"));
    // Dropping the panic's payload could panic again.
    std::mem::forget(panic);
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn last_error() -> String {
        // SAFETY: this thread's text, terminated by NUL.
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
