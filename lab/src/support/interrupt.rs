//! Ctrl-C: the first requests an orderly end, the second ends the process at once. A hang-up of the terminal requests
//! an orderly end, too, but never ends the process at once.
//!
//! Every long wait goes through this module, so that an interrupt ends it.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use flifo_base::{lock, unpoison};
use rustix::process::{Signal, getpid, kill_process};

use super::clock;
use super::error::{EXIT_INTERRUPTED, Error};

static INTERRUPTED: Mutex<bool> = Mutex::new(false);
static REQUESTED: Condvar = Condvar::new();
/// Whether the end was requested. Once true it stays so; relaxed, since no other data depend on it.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// Takes SIGINT and SIGTERM, and SIGHUP unless it is ignored, as `nohup` leaves it.
pub fn install() -> Result<(), Error> {
    let was_ignored = on_hangup(libc::SIG_IGN) == libc::SIG_IGN;
    let taken = ctrlc::set_handler(|| {
        HAS_BEGUN.store(true, Ordering::Relaxed);
        let mut interrupted = lock(&INTERRUPTED);
        if *interrupted {
            process::exit(i32::from(EXIT_INTERRUPTED));
        }
        *interrupted = true;
        REQUESTED.notify_all();
    });
    // The handler's library takes all three.
    on_hangup(if was_ignored { libc::SIG_IGN } else { hung_up as *const () as libc::sighandler_t });
    taken.map_err(|error| Error::System {
        what: "cannot take Ctrl-C".into(),
        source: std::io::Error::other(error),
        advice: "start flifo from a shell",
    })
}

/// Sets the action at SIGHUP; returns the previous one.
fn on_hangup(action: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: SIG_IGN, or a function of a handler's type that does only what a handler may, for the process's life; no
    // other code changes this signal's action.
    unsafe { libc::signal(libc::SIGHUP, action) }
}

/// A hang-up requests the end, unless that has begun: it comes twice, from the shell to its jobs and from the kernel when
/// the shell is gone. Runs as a signal's handler: an atomic swap and a system call are all it may do.
extern "C" fn hung_up(_: libc::c_int) {
    if !HAS_BEGUN.swap(true, Ordering::Relaxed) {
        // The process is there, and may signal itself.
        let _ = kill_process(getpid(), Signal::TERM);
    }
}

/// Whether the first Ctrl-C has come.
pub fn is_requested() -> bool {
    *lock(&INTERRUPTED)
}

/// Sleeps until the clock reaches the present value of `until_ns`, which is read every 10 ms, since it may change.
/// Returns true if Ctrl-C came.
pub fn sleep_until(mut until_ns: impl FnMut() -> u64) -> bool {
    // As often as fio checks its jobs, for comparable figures: where the kernel stops the tick of an idle CPU, a timer
    // that is near avoids that, which saves a lone process some microseconds of each I/O.
    const SLICE: Duration = Duration::from_millis(10);
    let mut interrupted = lock(&INTERRUPTED);
    loop {
        let left = Duration::from_nanos(until_ns().saturating_sub(clock::now_ns()));
        if *interrupted || left.is_zero() {
            return *interrupted;
        }
        interrupted = unpoison(REQUESTED.wait_timeout(interrupted, left.min(SLICE))).0;
    }
}
