//! Ctrl-C: the first asks for an orderly end, the second ends the process at once.
//!
//! Everything that waits for long waits here, so that an interrupt ends the wait.

use std::process;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::clock;
use crate::error::{EXIT_INTERRUPTED, Error};

static INTERRUPTED: Mutex<bool> = Mutex::new(false);
static ASKED: Condvar = Condvar::new();

/// Takes SIGINT and SIGTERM, and SIGHUP unless it is ignored, as `nohup` leaves it.
pub fn install() -> Result<(), Error> {
    let was_ignored = ignore_hangups();
    let taken = ctrlc::set_handler(|| {
        let mut interrupted = INTERRUPTED.lock().unwrap_or_else(PoisonError::into_inner);
        if *interrupted {
            process::exit(i32::from(EXIT_INTERRUPTED));
        }
        *interrupted = true;
        ASKED.notify_all();
    });
    // The handler's library takes all three.
    if was_ignored {
        ignore_hangups();
    }
    taken.map_err(|error| Error::System {
        what: "cannot take Ctrl-C".into(),
        source: std::io::Error::other(error),
        advice: "start flifo from a shell",
    })
}

/// Ignores SIGHUP; whether it was ignored already.
fn ignore_hangups() -> bool {
    // SAFETY: no handler of ours is put in, and nobody else changes this signal's meanwhile.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) == libc::SIG_IGN }
}

/// Whether the first Ctrl-C has come.
pub fn is_asked() -> bool {
    *INTERRUPTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sleeps until the clock shows what `until_ns` says now; asked again every 10 ms, for it may change.
/// True if Ctrl-C came.
pub fn sleep_until(mut until_ns: impl FnMut() -> u64) -> bool {
    // As often as fio looks after its jobs, for comparison with it: where the kernel stops the tick whenever a processor
    // idles, a timer that is near spares it that, and so a lone process some microseconds of each I/O.
    const SLICE: Duration = Duration::from_millis(10);
    let mut interrupted = INTERRUPTED.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let left = Duration::from_nanos(until_ns().saturating_sub(clock::now_ns()));
        if *interrupted || left.is_zero() {
            return *interrupted;
        }
        let waited = ASKED.wait_timeout(interrupted, left.min(SLICE));
        interrupted = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}
