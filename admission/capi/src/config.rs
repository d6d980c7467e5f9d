//! The settings as a plain struct, and how it may grow: a caller says how large its struct is.

use std::time::Duration;

use flifo_admission::{AutoLimit, Config, WaitMask};

use crate::names::policy_of;
use crate::status::{Failure, flifo_status_t, guard, invalid};

/// How a scheduler behaves. Fill it with `flifo_config_init`, then change what you want. Times in nanoseconds.
///
/// The struct may grow at its end. `struct_size` says what the program was compiled with: a newer library takes
/// an older struct, and leaves what it does not mention as it is; an older library takes a newer struct if all
/// that it does not know is zero.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct flifo_config_t {
    /// `sizeof (flifo_config_t)`; set by `flifo_config_init`.
    pub struct_size: usize,
    /// Who goes first: a `flifo_policy_t`.
    pub policy: i32,
    /// Threads inside at a time, at most 1023; 0: no limit.
    pub thread_concurrency: u32,
    /// With `auto_ceiling`: the lowest limit that is tried.
    pub auto_floor: u32,
    /// Not 0: the limit finds itself between `auto_floor` and this, and begins at `thread_concurrency`, brought between
    /// the two.
    pub auto_ceiling: u32,
    /// Engine entries a thread makes on one place before it must ask again; at least 1.
    pub concurrency_tickets: u32,
    /// The waits that give up the place: bit `1 << kind` for each `flifo_wait_kind_t`.
    pub wait_mask: u32,
    /// Disk waits that give up their places at a time; 0: any number.
    pub io_depth: u32,
    /// When so many sessions wait for row locks, but for those that call `flifo_wait_is_long`, others than those of the
    /// first class get as many places as half the processors; 0: any number. Half the processors unless set.
    pub lock_waiters_max: u32,
    /// Sessions in the queue at a time; one more is refused with `FLIFO_QUEUE_FULL`. 0: any number.
    pub queue_limit: u32,
    /// 1: the scheduler has a thread of its own for what depends on time alone. 0: call `flifo_step` every few
    /// milliseconds. From 1 to 0 at run time: the thread stays, and goes on, until the scheduler ends.
    pub watchdog: u32,
    /// So long a session waits in the queue at most; then it is refused with `FLIFO_TIMEOUT`. 0: for ever.
    pub queue_timeout_ns: u64,
    /// When the head of the queue has waited so long, newcomers overtake it no more. 0: never.
    pub tau_ns: u64,
    /// When somebody waits and nobody has entered or left for so long, one more is let in. 0: never.
    pub stall_after_ns: u64,
    /// After so long in the queue a session of the normal class is promoted past the first class.
    pub promote_after_ns: u64,
    /// Time inside after which a session goes to the queue's tail (`FLIFO_POLICY_QUANTUM`).
    pub quantum_ns: u64,
    /// Time between two changes of the set of threads inside (`FLIFO_POLICY_LEASE`).
    pub lease_ns: u64,
    /// Newcomers that may overtake the queue for each session that is served from it (`FLIFO_POLICY_QUANTUM`);
    /// 0: any number.
    pub overtakes_max: u64,
    /// When in at least so many of 100 places there is a wait for a disk, in 500 a second for each processor at least, the limit is
    /// lifted to 128 for each processor, until it is in fewer than half as many; not where somebody would queue still, where places
    /// wait for row locks, with `auto_ceiling` or `io_depth`. 0: never.
    pub disk_bound_percent: u64,
    /// 1: a place may wait for its session, which left within its turn (`FLIFO_POLICY_QUANTUM`), although others queue, at least eight for
    /// each place; the scheduler finds out by trials whether more is done so. Not with `auto_ceiling`. 0: it goes to the next.
    pub anticipate: u64,
}

/// No struct of ours will ever be larger; a `struct_size` above was never set.
const STRUCT_BYTES_MAX: usize = 4096;

/// A struct of the interface that begins with its size and may be cut or grow at the end.
///
/// # Safety
/// `repr(C)` without padding, every pattern of bits is a value, and the first field is the `usize` size.
pub(crate) unsafe trait Growing: Copy {
    /// The size of the struct in the first version of the interface.
    const BYTES_MIN: usize;
}

// SAFETY: integers only; the assertion counts the fields' bytes.
unsafe impl Growing for flifo_config_t {
    const BYTES_MIN: usize = 104;
}
const _: () = assert!(size_of::<flifo_config_t>() == 8 + 10 * 4 + 9 * 8, "padding");

fn check_bytes<T: Growing>(bytes: usize) -> Result<(), Failure> {
    if (T::BYTES_MIN..=STRUCT_BYTES_MAX).contains(&bytes) {
        return Ok(());
    }
    Err(invalid(format!(
        "struct_size {bytes} is impossible: give the sizeof of the struct, and initialise it"
    )))
}

/// Overwrites the part of the caller's struct that both sides know; what is beyond becomes zero.
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

/// Reads the caller's struct over `base`, whose values stay where the caller's struct ends.
///
/// # Safety
/// `from` is null, or points to a struct as long as its first field says.
unsafe fn read_struct<T: Growing>(from: *const T, base: T) -> Result<T, Failure> {
    if from.is_null() {
        return Err(invalid("config is null: initialise one with flifo_config_init"));
    }
    // SAFETY: as the caller promises.
    let bytes = unsafe { from.cast::<usize>().read_unaligned() };
    check_bytes::<T>(bytes)?;
    let known = bytes.min(size_of::<T>());
    // SAFETY: the struct is so long, as its first field says.
    let unknown_is_zero = (known..bytes).all(|at| unsafe { from.cast::<u8>().add(at).read() } == 0);
    if !unknown_is_zero {
        return Err(invalid("the struct has settings that this library is too old to know"));
    }
    let mut value = base;
    // SAFETY: both are so long, and every pattern of bits is a value.
    unsafe { std::ptr::from_mut(&mut value).cast::<u8>().copy_from_nonoverlapping(from.cast(), known) };
    Ok(value)
}

fn in_ns(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}

fn unless_zero(ns: u64) -> Option<Duration> {
    (ns != 0).then(|| Duration::from_nanos(ns))
}

impl From<&Config> for flifo_config_t {
    fn from(config: &Config) -> Self {
        let auto = config.auto.unwrap_or(AutoLimit { floor: 0, ceiling: 0 });
        flifo_config_t {
            struct_size: size_of::<flifo_config_t>(),
            policy: config.policy as i32,
            thread_concurrency: config.thread_concurrency,
            auto_floor: auto.floor,
            auto_ceiling: auto.ceiling,
            concurrency_tickets: config.concurrency_tickets,
            wait_mask: config.wait_mask.bits().into(),
            io_depth: config.io_depth,
            lock_waiters_max: config.lock_waiters_max,
            queue_limit: config.queue_limit,
            watchdog: config.watchdog.into(),
            queue_timeout_ns: config.queue_timeout.map_or(0, in_ns),
            tau_ns: config.tau.map_or(0, in_ns),
            stall_after_ns: config.stall_after.map_or(0, in_ns),
            promote_after_ns: in_ns(config.promote_after),
            quantum_ns: in_ns(config.quantum),
            lease_ns: in_ns(config.lease),
            overtakes_max: config.overtakes_max.into(),
            disk_bound_percent: config.disk_bound_percent.into(),
            anticipate: config.anticipate.into(),
        }
    }
}

impl flifo_config_t {
    /// The settings, over `base`: what C cannot say stays as it is there.
    fn over(&self, base: &Config) -> Result<Config, Failure> {
        let mask = u8::try_from(self.wait_mask).ok().and_then(WaitMask::from_bits);
        let wait_mask = mask.ok_or_else(|| {
            invalid(format!("wait_mask {:#x} has bits beyond FLIFO_WAIT_MASK_ALL", self.wait_mask))
        })?;
        let watchdog = match self.watchdog {
            0 => false,
            1 => true,
            other => return Err(invalid(format!("watchdog must be 0 or 1, not {other}"))),
        };
        let anticipate = match self.anticipate {
            0 => false,
            1 => true,
            other => return Err(invalid(format!("anticipate must be 0 or 1, not {other}"))),
        };
        if self.auto_ceiling == 0 && self.auto_floor != 0 {
            return Err(invalid("auto_floor without auto_ceiling: set both, or none"));
        }
        let auto = AutoLimit { floor: self.auto_floor, ceiling: self.auto_ceiling };
        // The scheduler may have settings that C cannot say yet.
        #[allow(clippy::needless_update)]
        let config = Config {
            policy: policy_of(self.policy)?,
            thread_concurrency: self.thread_concurrency,
            auto: (auto.ceiling != 0).then_some(auto),
            concurrency_tickets: self.concurrency_tickets,
            wait_mask,
            io_depth: self.io_depth,
            lock_waiters_max: self.lock_waiters_max,
            queue_limit: self.queue_limit,
            queue_timeout: unless_zero(self.queue_timeout_ns),
            tau: unless_zero(self.tau_ns),
            stall_after: unless_zero(self.stall_after_ns),
            promote_after: Duration::from_nanos(self.promote_after_ns),
            quantum: Duration::from_nanos(self.quantum_ns),
            lease: Duration::from_nanos(self.lease_ns),
            overtakes_max: self.overtakes_max.try_into().unwrap_or(u32::MAX),
            disk_bound_percent: self.disk_bound_percent.try_into().unwrap_or(u32::MAX),
            anticipate,
            watchdog,
            ..base.clone()
        };
        config.check().map_err(invalid)?;
        Ok(config)
    }
}

/// What the caller's struct says, over `base`.
///
/// # Safety
/// As [`read_struct`].
pub(crate) unsafe fn read_config(from: *const flifo_config_t, base: &Config) -> Result<Config, Failure> {
    // SAFETY: as the caller promises.
    unsafe { read_struct(from, flifo_config_t::from(base)) }?.over(base)
}

/// Fills a struct with the default settings: policy quantum, a limit of twice the processors.
///
/// `config`: the struct. `struct_size`: give `sizeof (flifo_config_t)`, or `sizeof *config`.
///
/// # Safety
/// `config` is null or has room for `struct_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flifo_config_init(
    config: *mut flifo_config_t,
    struct_size: usize,
) -> flifo_status_t {
    // SAFETY: as the caller promises.
    guard(|| unsafe { write_struct(&flifo_config_t::from(&Config::default()), config, struct_size) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{FLIFO_INVALID, FLIFO_OK};
    use std::mem::MaybeUninit;

    /// The struct as a library of a later version would have it.
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
        assert_eq!(
            std::mem::offset_of!(flifo_config_t, disk_bound_percent),
            flifo_config_t::BYTES_MIN,
            "what the first version had not"
        );
    }

    #[test]
    fn a_caller_of_the_first_version_leaves_what_came_since() {
        let mut first = defaults();
        first.struct_size = flifo_config_t::BYTES_MIN;
        first.disk_bound_percent = 7;
        first.anticipate = 0;
        let base = Config { disk_bound_percent: 30, anticipate: true, ..Config::default() };
        // SAFETY: longer than its first field says.
        assert_eq!(unsafe { read_config(&first, &base) }, Ok(base));
    }

    #[test]
    fn a_newer_caller_is_fine_as_long_as_it_asks_nothing_new() {
        let mut later = Later { known: defaults(), added: 0 };
        later.known.struct_size = size_of::<Later>();
        // SAFETY: as long as its first field says.
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
    fn an_older_caller_leaves_the_rest_as_it_is() {
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
        // SAFETY: at least as long as its first field says.
        let read = unsafe { read_struct(&from, Grown { struct_size: 24, old: 8, new: 9 }) };
        assert_eq!(read, Ok(Grown { struct_size: 16, old: 1, new: 9 }));
        let mut to = Grown { struct_size: 0, old: 0, new: 7 };
        // SAFETY: there is room for 16 bytes.
        unsafe { write_struct(&Grown { struct_size: 24, old: 8, new: 9 }, &mut to, 16) }.unwrap();
        assert_eq!(to, Grown { struct_size: 16, old: 8, new: 7 }, "nothing beyond 16 bytes is touched");
    }

    #[test]
    fn impossible_settings_are_told() {
        let changed = |change: fn(&mut flifo_config_t)| {
            let mut config = defaults();
            change(&mut config);
            read(&config)
        };
        for wrong in [
            (|config| config.struct_size = 0) as fn(&mut flifo_config_t),
            |config| config.struct_size = 88,
            |config| config.struct_size = usize::MAX,
            |config| config.policy = 9,
            |config| config.policy = -1,
            |config| config.thread_concurrency = 1024,
            |config| config.concurrency_tickets = 0,
            |config| config.wait_mask = 0x80,
            |config| config.wait_mask = 0x100,
            |config| config.watchdog = 2,
            |config| config.auto_floor = 1,
            |config| config.auto_ceiling = 4,
            |config| config.quantum_ns = 0,
            |config| config.disk_bound_percent = 101,
            |config| config.disk_bound_percent = u64::MAX,
            |config| config.anticipate = 2,
        ] {
            assert_eq!(changed(wrong), Err(FLIFO_INVALID));
        }
        let auto = changed(|config| (config.auto_floor, config.auto_ceiling) = (2, 8)).unwrap();
        assert_eq!(auto.auto, Some(AutoLimit { floor: 2, ceiling: 8 }));
    }
}
