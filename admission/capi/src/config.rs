//! The settings as a plain struct that may grow: a caller passes the size of its struct.

use std::time::Duration;

use flifo_admission::{Config, WaitMask};

use crate::names::policy_of;
use crate::status::{Failure, flifo_status_t, guard, invalid};

/// The settings of a scheduler. Fill it with `flifo_config_init`, then change what you need.
///
/// Times are in nanoseconds. The struct may grow at its end. `struct_size` is the size that the program was compiled
/// with: a newer library reads an older struct and keeps the settings it lacks; an older library accepts a newer
/// struct if the fields it does not know are zero.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct flifo_config_t {
    /// `sizeof (flifo_config_t)`; set by `flifo_config_init`.
    pub struct_size: usize,
    /// Which thread enters when the limit is reached: a `flifo_policy_t`. Default: `FLIFO_POLICY_QUANTUM`.
    pub policy: i32,
    /// Maximum number of threads running at once, at most 1023; 0 = unlimited. Default: twice the CPUs.
    ///
    /// With `adaptive`, at least 1.
    pub thread_concurrency: u32,
    /// 1 applies the limit only while it pays: where many threads want to run, and a comparison with no limit shows a
    /// gain. Default: 0.
    pub adaptive: u32,
    /// Engine entries on one slot before the session must acquire it anew; at least 1. Default: 5000.
    pub concurrency_tickets: u32,
    /// The waits that release the slot: bit `1 << kind` for each `flifo_wait_kind_t`. Default: all.
    pub wait_mask: u32,
    /// Maximum number of disk waits that release their slots at once; a further one keeps its slot. 0 = unlimited.
    /// Default: 64.
    pub io_depth: u32,
    /// Number of sessions in row-lock waits from which sessions of the normal class get only half as many slots as
    /// CPUs, and at least one; 0 = unlimited. Default: half the CPUs.
    ///
    /// Waits marked with `flifo_mark_wait_long` do not count.
    pub lock_waiters_max: u32,
    /// Maximum number of sessions in the queue; a further one is refused with `FLIFO_QUEUE_FULL`, unless it is out of tickets.
    /// 0 = unlimited. Default: 0.
    pub queue_limit: u32,
    /// 1 reserves a free slot for a session that is expected back at once, while at least eight sessions queue for each
    /// slot (`FLIFO_POLICY_QUANTUM`). Default: 0.
    ///
    /// Favours clients on the server's own machine, and slows clients that think.
    pub reserve_slots: u32,
    /// 1 gives the scheduler a thread of its own for what depends on time. Default: 1.
    ///
    /// With 0, call `flifo_step` every few milliseconds. The thread stays until the scheduler ends, also if this
    /// becomes 0.
    pub watchdog: u32,
    /// Maximum time in the queue, twice as long for a session out of tickets; then it is refused with `FLIFO_TIMEOUT`.
    /// 0 = no timeout. Default: 0.
    pub queue_timeout_ns: u64,
    /// Time that a session may run while others queue; then its slot is reclaimed. 0 = no limit. Default: 100 ms.
    ///
    /// The session goes on without a slot, and its exit releases none. When no session has entered or exited for that
    /// time, one more waiter is admitted. For undeclared waits and long statements.
    pub stall_limit_ns: u64,
    /// Time in the queue after which a session of the normal class is promoted past the first class, with every
    /// fourth slot at most. Default: 50 ms.
    pub promote_after_ns: u64,
    /// The time slice: how long a session may keep coming back before it queues at the tail
    /// (`FLIFO_POLICY_QUANTUM`); more than 0. Default: 50 us.
    ///
    /// Longer: fewer context switches, longer waits. Waits that release the slot and queueing do not count.
    pub quantum_ns: u64,
}

/// No struct of this interface will be larger; a greater `struct_size` was never initialised.
const STRUCT_BYTES_MAX: usize = 4096;

/// A struct of the interface that begins with its size and may grow at its end.
///
/// # Safety
/// `repr(C)` without padding, every bit pattern is a value, and the first field is the `usize` size.
pub(crate) unsafe trait Growing: Copy {
    /// The size of the struct in the first version of the interface.
    const BYTES_MIN: usize;
}

// SAFETY: integers only; the assertion counts the fields' bytes.
unsafe impl Growing for flifo_config_t {
    const BYTES_MIN: usize = 80;
}
const _: () = assert!(size_of::<flifo_config_t>() == 8 + 10 * 4 + 4 * 8, "padding");

fn check_bytes<T: Growing>(bytes: usize) -> Result<(), Failure> {
    if (T::BYTES_MIN..=STRUCT_BYTES_MAX).contains(&bytes) {
        return Ok(());
    }
    Err(invalid(format!(
        "struct_size {bytes} is not valid: pass the sizeof of the struct, and initialise the struct"
    )))
}

/// Writes the part of the caller's struct that both sides know, and zeroes the rest.
///
/// # Safety
/// `to` is null or has room for `bytes`.
pub(crate) unsafe fn write_struct<T: Growing>(value: &T, to: *mut T, bytes: usize) -> Result<(), Failure> {
    if to.is_null() {
        return Err(invalid("the struct to fill is null"));
    }
    check_bytes::<T>(bytes)?;
    // SAFETY: there is room for `bytes`, and the copy is no longer than the value.
    unsafe {
        to.cast::<u8>().write_bytes(0, bytes);
        to.cast::<u8>().copy_from_nonoverlapping(std::ptr::from_ref(value).cast(), bytes.min(size_of::<T>()));
        to.cast::<usize>().write_unaligned(bytes);
    }
    Ok(())
}

/// Reads the caller's struct over `base`, whose values remain beyond the end of the caller's struct.
///
/// # Safety
/// `from` is null, or points to a struct of the size in its first field.
unsafe fn read_struct<T: Growing>(from: *const T, base: T) -> Result<T, Failure> {
    if from.is_null() {
        return Err(invalid("config is null: initialise one with flifo_config_init"));
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { from.cast::<usize>().read_unaligned() };
    check_bytes::<T>(bytes)?;
    let known = bytes.min(size_of::<T>());
    // SAFETY: the struct has the size in its first field.
    let unknown_is_zero = (known..bytes).all(|at| unsafe { from.cast::<u8>().add(at).read() } == 0);
    if !unknown_is_zero {
        return Err(invalid(
            "the struct has settings that this library does not know: install a newer libflifo",
        ));
    }
    let mut value = base;
    // SAFETY: both have `known` bytes, and every bit pattern is a value.
    unsafe { std::ptr::from_mut(&mut value).cast::<u8>().copy_from_nonoverlapping(from.cast(), known) };
    Ok(value)
}

fn in_ns(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}

fn unless_zero(ns: u64) -> Option<Duration> {
    (ns != 0).then(|| Duration::from_nanos(ns))
}

fn switch(name: &str, value: u32) -> Result<bool, Failure> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(invalid(format!("{name} must be 0 or 1, not {other}"))),
    }
}

impl From<&Config> for flifo_config_t {
    fn from(config: &Config) -> Self {
        flifo_config_t {
            struct_size: size_of::<flifo_config_t>(),
            policy: config.policy as i32,
            thread_concurrency: config.thread_concurrency,
            adaptive: config.auto.into(),
            concurrency_tickets: config.concurrency_tickets,
            wait_mask: config.wait_mask.bits().into(),
            io_depth: config.io_depth,
            lock_waiters_max: config.lock_waiters_max,
            queue_limit: config.queue_limit,
            reserve_slots: config.reserve_slots.into(),
            watchdog: config.watchdog.into(),
            queue_timeout_ns: config.queue_timeout.map_or(0, in_ns),
            stall_limit_ns: config.stall_limit.map_or(0, in_ns),
            promote_after_ns: in_ns(config.promote_after),
            quantum_ns: in_ns(config.quantum),
        }
    }
}

impl flifo_config_t {
    /// Returns the settings, over `base`, whose values remain for settings that C does not have.
    fn over(&self, base: &Config) -> Result<Config, Failure> {
        let mask = u8::try_from(self.wait_mask).ok().and_then(WaitMask::from_bits);
        let wait_mask = mask.ok_or_else(|| {
            invalid(format!(
                "wait_mask {:#x} has bits beyond FLIFO_WAIT_MASK_ALL: use a bit for each FLIFO_WAIT_*",
                self.wait_mask
            ))
        })?;
        let reserve_slots = switch("reserve_slots", self.reserve_slots)?;
        let watchdog = switch("watchdog", self.watchdog)?;
        let auto = switch("adaptive", self.adaptive)?;
        // The Rust crate may have settings that C does not have yet.
        #[allow(clippy::needless_update)]
        let config = Config {
            policy: policy_of(self.policy)?,
            thread_concurrency: self.thread_concurrency,
            auto,
            concurrency_tickets: self.concurrency_tickets,
            wait_mask,
            io_depth: self.io_depth,
            lock_waiters_max: self.lock_waiters_max,
            queue_limit: self.queue_limit,
            queue_timeout: unless_zero(self.queue_timeout_ns),
            stall_limit: unless_zero(self.stall_limit_ns),
            promote_after: Duration::from_nanos(self.promote_after_ns),
            quantum: Duration::from_nanos(self.quantum_ns),
            reserve_slots,
            watchdog,
            ..base.clone()
        };
        config.check().map_err(invalid)?;
        Ok(config)
    }
}

/// Reads the caller's settings over `base`.
///
/// # Safety
/// As [`read_struct`].
pub(crate) unsafe fn read_config(from: *const flifo_config_t, base: &Config) -> Result<Config, Failure> {
    // SAFETY: the caller's promise.
    unsafe { read_struct(from, flifo_config_t::from(base)) }?.over(base)
}

/// Fills a struct with the default settings: policy quantum, a limit of twice the CPUs.
///
/// `config`: the struct. `struct_size`: `sizeof (flifo_config_t)`.
///
/// # Safety
/// `config` is null or has room for `struct_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flifo_config_init(
    config: *mut flifo_config_t,
    struct_size: usize,
) -> flifo_status_t {
    // SAFETY: the caller's promise.
    guard(|| unsafe { write_struct(&flifo_config_t::from(&Config::default()), config, struct_size) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{FLIFO_INVALID, FLIFO_OK};
    use std::mem::MaybeUninit;

    /// The struct of a later version of the library.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Later {
        known: flifo_config_t,
        added: u64,
    }

    fn defaults() -> flifo_config_t {
        let mut config = MaybeUninit::uninit();
        // SAFETY: there is room.
        assert_eq!(unsafe { flifo_config_init(config.as_mut_ptr(), size_of::<flifo_config_t>()) }, FLIFO_OK);
        // SAFETY: filled.
        unsafe { config.assume_init() }
    }

    fn read(config: &flifo_config_t) -> Result<Config, Failure> {
        // SAFETY: a whole struct.
        unsafe { read_config(config, &Config::default()) }
    }

    #[test]
    fn defaults_go_through_c_unchanged() {
        assert_eq!(read(&defaults()), Ok(Config::default()));
        assert_eq!(size_of::<flifo_config_t>(), flifo_config_t::BYTES_MIN, "no field was added so far");
    }

    #[test]
    fn a_newer_caller_may_not_use_new_settings() {
        let mut later = Later { known: defaults(), added: 0 };
        later.known.struct_size = size_of::<Later>();
        // SAFETY: the struct has the size in its first field.
        let read =
            |later: &Later| unsafe { read_config(std::ptr::from_ref(later).cast(), &Config::default()) };
        assert!(read(&later).is_ok());
        later.added = 1;
        assert_eq!(read(&later), Err(FLIFO_INVALID));
        // SAFETY: there is room.
        let status = unsafe { flifo_config_init((&raw mut later).cast(), size_of::<Later>()) };
        assert_eq!((status, later.added, later.known.struct_size), (FLIFO_OK, 0, size_of::<Later>()));
    }

    #[test]
    fn an_older_caller_keeps_the_settings_it_lacks() {
        #[derive(Clone, Copy, PartialEq, Debug)]
        #[repr(C)]
        struct Grown {
            struct_size: usize,
            old: u64,
            new: u64,
        }
        // SAFETY: integers without padding.
        unsafe impl Growing for Grown {
            const BYTES_MIN: usize = 16;
        }
        let from = Grown { struct_size: 16, old: 1, new: 2 };
        // SAFETY: the struct has at least the size in its first field.
        let read = unsafe { read_struct(&from, Grown { struct_size: 24, old: 8, new: 9 }) };
        assert_eq!(read, Ok(Grown { struct_size: 16, old: 1, new: 9 }));
        let mut to = Grown { struct_size: 0, old: 0, new: 7 };
        // SAFETY: there is room for 16 bytes.
        unsafe { write_struct(&Grown { struct_size: 24, old: 8, new: 9 }, &mut to, 16) }.unwrap();
        assert_eq!(to, Grown { struct_size: 16, old: 8, new: 7 }, "nothing beyond 16 bytes is touched");
    }

    #[test]
    fn impossible_settings_are_refused() {
        let changed = |change: fn(&mut flifo_config_t)| {
            let mut config = defaults();
            change(&mut config);
            read(&config)
        };
        for wrong in [
            (|config| config.struct_size = 0) as fn(&mut flifo_config_t),
            |config| config.struct_size = flifo_config_t::BYTES_MIN - 1,
            |config| config.struct_size = usize::MAX,
            |config| config.policy = 4,
            |config| config.policy = -1,
            |config| config.thread_concurrency = 1024,
            |config| config.concurrency_tickets = 0,
            |config| config.wait_mask = 0x80,
            |config| config.wait_mask = 0x100,
            |config| config.watchdog = 2,
            |config| config.adaptive = 2,
            |config| (config.adaptive, config.thread_concurrency) = (1, 0),
            |config| config.quantum_ns = 0,
            |config| config.reserve_slots = 2,
        ] {
            assert_eq!(changed(wrong), Err(FLIFO_INVALID));
        }
        assert!(changed(|config| config.adaptive = 1).unwrap().auto);
    }
}
