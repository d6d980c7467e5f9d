//! Schedulers: making them, changing their settings, freeing them.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use flifo_admission::{Admission, Config};

use crate::config::{flifo_config_t, read_config, write_struct};
use crate::handle::{Kind, Table, flifo_admission_t};
use crate::names::{auto_state, put};
use crate::status::{FLIFO_TOO_MANY, Failure, fail, flifo_status_t, guard, invalid};

/// `Admission::session` panics if there are more.
const SESSIONS_MAX: u32 = Admission::SESSIONS_MAX;

/// A scheduler, and the number of its sessions.
pub(crate) struct Scheduler {
    pub(crate) admission: Arc<Admission>,
    /// Live sessions. It only bounds a number, so relaxed.
    sessions: AtomicU32,
}

static SCHEDULERS: Table<Arc<Scheduler>> = Table::new(Kind::Admission, "admission", "schedulers");

impl Scheduler {
    fn new(admission: Arc<Admission>) -> Self {
        Scheduler { admission, sessions: AtomicU32::new(0) }
    }

    /// Returns the scheduler of a handle.
    pub(crate) fn of(handle: flifo_admission_t) -> Result<Arc<Self>, Failure> {
        SCHEDULERS.get(handle.id)
    }

    /// Counts one more session; fails if the scheduler has the maximum number.
    pub(crate) fn add_session(&self) -> Result<(), Failure> {
        let one_more = |sessions: u32| (sessions < SESSIONS_MAX).then_some(sessions + 1);
        match self.sessions.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(()),
            Err(_) => Err(fail(
                FLIFO_TOO_MANY,
                &format!("a scheduler can have {SESSIONS_MAX} sessions at a time: free some"),
            )),
        }
    }

    pub(crate) fn remove_session(&self) {
        self.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Makes a scheduler.
///
/// `config`: its settings; null = the defaults. `admission`: receives the handle.
///
/// Returns `FLIFO_INVALID` for settings that are not valid, and if its watchdog thread cannot be started;
/// `FLIFO_TOO_MANY` if there are 2^20 schedulers.
///
/// # Safety
/// `config` is null or points to `config->struct_size` bytes; `admission` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flifo_admission_new(
    config: *const flifo_config_t,
    admission: *mut flifo_admission_t,
) -> flifo_status_t {
    guard(|| {
        // First, so that a null pointer leaves no scheduler behind.
        // SAFETY: the caller's promise.
        unsafe { put(admission, "admission", flifo_admission_t { id: 0 }) }?;
        let config = match config.is_null() {
            true => Config::default(),
            // SAFETY: the caller's promise.
            false => unsafe { read_config(config, &Config::default()) }?,
        };
        let scheduler = Scheduler::new(Admission::new(config).map_err(invalid)?);
        let id = SCHEDULERS.insert(Arc::new(scheduler))?;
        // SAFETY: the caller's promise.
        unsafe { put(admission, "admission", flifo_admission_t { id }) }
    })
}

/// Frees the handle of a scheduler. Its live sessions go on as before; the scheduler ends with the last of them.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_admission_free(admission: flifo_admission_t) -> flifo_status_t {
    guard(|| SCHEDULERS.remove(admission.id).map(drop))
}

/// Changes all settings at run time. Begin with the struct from `flifo_admission_config`.
///
/// A higher limit admits as many as now fit; a lower limit takes effect as threads exit. When the policy changes, or the
/// limit becomes 0, every thread in the queue tries again. Settings beyond the end of an older program's struct remain.
/// With `adaptive`, the controller begins again only if `thread_concurrency` differs from before.
///
/// Returns `FLIFO_INVALID` for settings that are not valid, and if the watchdog thread cannot be started.
///
/// # Safety
/// `config` is null or points to `config->struct_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flifo_reconfigure(
    admission: flifo_admission_t,
    config: *const flifo_config_t,
) -> flifo_status_t {
    guard(|| {
        let scheduler = Scheduler::of(admission)?;
        // SAFETY: the caller's promise.
        let config = unsafe { read_config(config, &scheduler.admission.config()) }?;
        scheduler.admission.reconfigure(config).map_err(invalid)
    })
}

/// Changes the limit alone.
///
/// With `adaptive` the controller begins again with this limit, also if it is the limit set last.
///
/// `thread_concurrency`: at most 1023; 0 = unlimited.
///
/// Returns `FLIFO_INVALID` for a higher limit.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_set_thread_concurrency(
    admission: flifo_admission_t,
    thread_concurrency: u32,
) -> flifo_status_t {
    guard(|| Scheduler::of(admission)?.admission.set_thread_concurrency(thread_concurrency).map_err(invalid))
}

/// Reports what an adaptive limit does now.
///
/// `state`: receives a `flifo_auto_state_t`. `is_dormant`: receives 1 while no limit is in force and none is about to be
/// measured, so that entries need no more than to be counted (`flifo_enter_uncounted`), else 0. Either may be null.
///
/// # Safety
/// `state` and `is_dormant` are null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flifo_auto_state(
    admission: flifo_admission_t,
    state: *mut c_int,
    is_dormant: *mut c_int,
) -> flifo_status_t {
    guard(|| {
        let scheduler = Scheduler::of(admission)?;
        // SAFETY: the caller's promise.
        if let Some(state) = unsafe { state.as_mut() } {
            *state = auto_state(scheduler.admission.auto_state()) as c_int;
        }
        // SAFETY: the caller's promise.
        if let Some(is_dormant) = unsafe { is_dormant.as_mut() } {
            *is_dormant = scheduler.admission.is_dormant().into();
        }
        Ok(())
    })
}

/// Fills a struct with the current settings.
///
/// With `adaptive`, `flifo_snapshot` returns the limit in force now, and `flifo_auto_state` whether it is.
///
/// `config`: the struct. `struct_size`: `sizeof (flifo_config_t)`.
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
        // SAFETY: the caller's promise.
        unsafe { write_struct(&now, config, struct_size) }
    })
}

/// Does the work that depends on time, for a scheduler without a watchdog. Call it every few milliseconds.
///
/// It reclaims slots and breaks stalls (`stall_limit_ns`), releases reserved slots whose time is over, and adapts the
/// limit. Call it from one thread.
#[unsafe(no_mangle)]
pub extern "C" fn flifo_step(admission: flifo_admission_t) -> flifo_status_t {
    guard(|| Scheduler::of(admission).map(|scheduler| scheduler.admission.step(Instant::now())))
}
