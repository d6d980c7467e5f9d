//! Schedulers: making them, changing their settings, freeing them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use flifo_admission::{Admission, Config};

use crate::config::{flifo_config_t, read_config, write_struct};
use crate::handle::{Kind, Table, flifo_admission_t};
use crate::names::put;
use crate::status::{FLIFO_TOO_MANY, Failure, fail, flifo_status_t, guard, invalid};

/// `Admission::session` panics beyond.
const SESSIONS_MAX: u32 = Admission::SESSIONS_MAX;

/// A scheduler as C has it.
pub(crate) struct Scheduler {
    pub(crate) admission: Arc<Admission>,
    /// Sessions that are alive. A bound and no more, so relaxed.
    sessions: AtomicU32,
}

static SCHEDULERS: Table<Arc<Scheduler>> = Table::new(Kind::Admission, "admission", "schedulers");

impl Scheduler {
    fn new(admission: Arc<Admission>) -> Self {
        Scheduler { admission, sessions: AtomicU32::new(0) }
    }

    /// What a handle of C's stands for.
    pub(crate) fn of(handle: flifo_admission_t) -> Result<Arc<Self>, Failure> {
        SCHEDULERS.get(handle.id)
    }

    /// Counts one more session, if there may be one.
    pub(crate) fn add_session(&self) -> Result<(), Failure> {
        let one_more = |sessions: u32| (sessions < SESSIONS_MAX).then_some(sessions + 1);
        match self.sessions.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(()),
            Err(_) => {
                Err(fail(FLIFO_TOO_MANY, &format!("a scheduler can have {SESSIONS_MAX} sessions at a time")))
            }
        }
    }

    pub(crate) fn remove_session(&self) {
        self.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Makes a scheduler.
///
/// `config`: its settings; null: the defaults. `admission`: where the handle is put.
///
/// Returns `FLIFO_INVALID` for impossible settings, and if its watchdog thread cannot be started.
///
/// # Safety
/// The pointers are null or good, and `config->struct_size` is true.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flifo_admission_new(
    config: *const flifo_config_t,
    admission: *mut flifo_admission_t,
) -> flifo_status_t {
    guard(|| {
        // Before anything is made that would have to be taken back.
        // SAFETY: as the caller promises.
        unsafe { put(admission, "admission", flifo_admission_t { id: 0 }) }?;
        let config = match config.is_null() {
            true => Config::default(),
            // SAFETY: as the caller promises.
            false => unsafe { read_config(config, &Config::default()) }?,
        };
        let scheduler = Scheduler::new(Admission::new(config).map_err(invalid)?);
        let id = SCHEDULERS.insert(Arc::new(scheduler))?;
        // SAFETY: as the caller promises.
        unsafe { put(admission, "admission", flifo_admission_t { id }) }
    })
}

/// Gives up the handle of a scheduler. Sessions of it that are alive go on as before; the scheduler ends with the
/// last of them.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_admission_free(admission: flifo_admission_t) -> flifo_status_t {
    guard(|| SCHEDULERS.remove(admission.id).map(drop))
}

/// Changes the settings at run time, all at once. Begin with what `flifo_admission_config` gives.
///
/// A higher limit lets as many in as now fit; a lower one takes effect as threads leave. When the policy changes,
/// or the limit is lifted, everybody in the queue asks again. Settings beyond the end of an older program's
/// struct stay as they are. If the limit finds itself, `thread_concurrency` and the bounds are taken anew only when one
/// of them is another than before.
///
/// Returns `FLIFO_INVALID` for impossible settings, and if the watchdog thread cannot be started.
///
/// # Safety
/// `config` is null or good, and `config->struct_size` is true.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flifo_reconfigure(
    admission: flifo_admission_t,
    config: *const flifo_config_t,
) -> flifo_status_t {
    guard(|| {
        let scheduler = Scheduler::of(admission)?;
        // SAFETY: as the caller promises.
        let config = unsafe { read_config(config, &scheduler.admission.config()) }?;
        scheduler.admission.reconfigure(config).map_err(invalid)
    })
}

/// Changes the limit alone: threads inside at a time, at most 1023; 0: no limit.
///
/// If the limit finds itself (`auto_ceiling`), the search begins again from this one, brought between the bounds: 0 is
/// the lower one. Also if it is the limit that was told last.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_set_thread_concurrency(
    admission: flifo_admission_t,
    thread_concurrency: u32,
) -> flifo_status_t {
    guard(|| Scheduler::of(admission)?.admission.set_thread_concurrency(thread_concurrency).map_err(invalid))
}

/// Fills a struct with the settings as they are now.
///
/// `config`: the struct. `struct_size`: give `sizeof (flifo_config_t)`, or `sizeof *config`.
///
/// # Safety
/// `config` is null or has room for `struct_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flifo_admission_config(
    admission: flifo_admission_t,
    config: *mut flifo_config_t,
    struct_size: usize,
) -> flifo_status_t {
    guard(|| {
        let now = flifo_config_t::from(&Scheduler::of(admission)?.admission.config());
        // SAFETY: as the caller promises.
        unsafe { write_struct(&now, config, struct_size) }
    })
}

/// Does what depends on time alone, for a scheduler without a watchdog: call it every few milliseconds, from any
/// one thread.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_step(admission: flifo_admission_t) -> flifo_status_t {
    guard(|| Scheduler::of(admission).map(|scheduler| scheduler.admission.step(Instant::now())))
}
