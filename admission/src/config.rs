//! What a scheduler is configured with: policy, limits, and which waits release the slot.

use std::str::FromStr;
use std::time::Duration;

use flifo_base::cpu_count;

pub use crate::gate::policy::Policy;
use crate::gate::word::LIMIT_MAX;

impl FromStr for Policy {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        let named = Policy::ALL.into_iter().find(|policy| policy.name() == name);
        named.ok_or_else(|| ConfigError::UnknownPolicy(name.to_owned()))
    }
}

/// What a running thread waits for. A wait of a kind in the scheduler's [`WaitMask`] releases the slot for its duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum WaitKind {
    /// A row lock held by another transaction.
    RowLock = 0,
    /// A table or metadata lock.
    TableLock = 1,
    /// A page read from disk.
    Disk = 2,
    /// A client that sends or receives.
    Network = 3,
    /// The redo log's write or sync.
    LogSync = 4,
    /// A sleep the statement asked for.
    Sleep = 5,
    /// Anything else the embedder declares.
    User = 6,
}

impl WaitKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [WaitKind; 7] = [
        WaitKind::RowLock,
        WaitKind::TableLock,
        WaitKind::Disk,
        WaitKind::Network,
        WaitKind::LogSync,
        WaitKind::Sleep,
        WaitKind::User,
    ];

    /// The name as it is printed.
    pub fn name(self) -> &'static str {
        match self {
            WaitKind::RowLock => "row lock",
            WaitKind::TableLock => "table lock",
            WaitKind::Disk => "disk",
            WaitKind::Network => "network",
            WaitKind::LogSync => "log sync",
            WaitKind::Sleep => "sleep",
            WaitKind::User => "user",
        }
    }
}

/// A set of [`WaitKind`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitMask(u8);

impl WaitMask {
    /// Every kind releases the slot.
    pub const ALL: WaitMask = WaitMask(0x7f);
    /// No wait releases the slot.
    pub const NONE: WaitMask = WaitMask(0);

    /// The set whose bit `1 << kind` says that `kind` is in it; `None` if other bits are set.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits & !Self::ALL.0 == 0 { Some(WaitMask(bits)) } else { None }
    }

    /// A bit for each kind in the set, `1 << kind`.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set with `kind` added.
    pub const fn with(self, kind: WaitKind) -> Self {
        WaitMask(self.0 | 1 << kind as u8)
    }

    /// The set with `kind` taken out.
    pub const fn without(self, kind: WaitKind) -> Self {
        WaitMask(self.0 & !(1 << kind as u8))
    }

    /// Whether `kind` is in the set.
    pub const fn contains(self, kind: WaitKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }
}

/// How a scheduler behaves. Everything can be changed at run time with [`crate::Admission::reconfigure`].
///
/// `Config::default()` is the policy [`Policy::Quantum`] with a limit of twice the CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Which thread enters when the limit is reached.
    pub policy: Policy,
    /// Maximum number of threads running at once, at most [`Config::THREAD_CONCURRENCY_MAX`]; 0 = unlimited, not with
    /// [`Config::auto`].
    pub thread_concurrency: u32,
    /// Applies the limit only while it pays: where many threads want to run, and a comparison with no limit shows a gain ([`flifo_auto`]).
    /// The scheduler's thread wakes up twenty times a second for that, even if nothing happens.
    pub auto: bool,
    /// Engine entries on one slot before the session must acquire it anew; at least 1.
    pub concurrency_tickets: u32,
    /// The waits that release the slot.
    pub wait_mask: WaitMask,
    /// Maximum number of disk waits that release their slots at once; a further one keeps its slot, so that no convoy of threads builds
    /// up behind the disk. 0 = unlimited.
    pub io_depth: u32,
    /// Number of sessions in row-lock waits from which sessions without locks get only half as many slots as CPUs, and at least one;
    /// 0 = unlimited. Default: half the CPUs.
    ///
    /// It keeps the queue of a hot row short: each commit there hands the row to a thread that must wake up, and the search for deadlocks
    /// grows with the queue. Waits marked long ([`crate::Session::mark_wait_long`]) do not count.
    pub lock_waiters_max: u32,
    /// Maximum number of sessions in the queue; a further one is refused with [`crate::Refused::QueueFull`], unless it is out of tickets.
    /// 0 = unlimited.
    pub queue_limit: u32,
    /// Maximum time in the queue, twice as long for a session out of tickets; then it is refused with [`crate::Refused::Timeout`].
    pub queue_timeout: Option<Duration>,
    /// Time that a session may run while others queue; then its slot goes to the next one, and the session goes on without a slot.
    ///
    /// When no session has entered or exited for this time, one more waiter is admitted. For undeclared waits and long statements.
    pub stall_limit: Option<Duration>,
    /// Time in the queue after which a session of [`crate::Class::Normal`] is promoted past the first class, with every fourth slot at
    /// most.
    pub promote_after: Duration,
    /// The time slice: how long a session may keep coming back before it queues at the tail ([`Policy::Quantum`]).
    ///
    /// Waits that release the slot, and queueing, do not count. A session that was away for longer is a newcomer. Longer: fewer context
    /// switches, longer waits.
    pub quantum: Duration,
    /// Reserves a free slot for a session that is expected back at once ([`Policy::Quantum`]) while at least eight sessions queue for each
    /// slot. Favours clients on the server's own machine, and slows clients that think. Off by default.
    #[cfg(feature = "reservation")]
    pub reserve_slots: bool,
    /// Whether the scheduler has a thread of its own for what depends on time: the stall limit, deadlines of async tasks, `auto`. The
    /// thread sleeps while no session queues. Without it, call [`crate::Admission::step`] every few milliseconds. Once started it stays until
    /// the scheduler is dropped, also when this becomes false.
    pub watchdog: bool,
}

impl Config {
    /// The highest `thread_concurrency`: what the state word's field can hold.
    pub const THREAD_CONCURRENCY_MAX: u32 = LIMIT_MAX;

    /// Checks that the values are possible; [`crate::Admission::new`] does this, too.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.thread_concurrency > Self::THREAD_CONCURRENCY_MAX {
            return Err(ConfigError::ThreadConcurrency(self.thread_concurrency));
        }
        if self.concurrency_tickets == 0 {
            return Err(ConfigError::Tickets);
        }
        if self.auto && self.thread_concurrency == 0 {
            return Err(ConfigError::Auto);
        }
        let positive = [("stall_limit", self.stall_limit), ("quantum", Some(self.quantum))];
        match positive.into_iter().find(|(_, time)| *time == Some(Duration::ZERO)) {
            Some((name, _)) => Err(ConfigError::Zero(name)),
            None => Ok(()),
        }
    }

    /// The limit to begin with.
    pub(crate) fn first_limit(&self) -> u32 {
        if self.auto { 0 } else { self.thread_concurrency }
    }
}

/// CPUs this process may use.
pub(crate) fn cpus() -> u32 {
    // Whatever machine a model is checked on.
    if cfg!(any(loom, shuttle)) { 1 } else { cpu_count() as u32 }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            policy: Policy::Quantum,
            thread_concurrency: (2 * cpus()).min(Self::THREAD_CONCURRENCY_MAX),
            auto: false,
            concurrency_tickets: 5000,
            wait_mask: WaitMask::ALL,
            io_depth: 64,
            lock_waiters_max: (cpus() / 2).max(1),
            queue_limit: 0,
            queue_timeout: None,
            stall_limit: Some(Duration::from_millis(100)),
            promote_after: Duration::from_millis(50),
            quantum: Duration::from_micros(50),
            #[cfg(feature = "reservation")]
            reserve_slots: false,
            watchdog: true,
        }
    }
}

/// A configuration that is impossible.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// No policy of that name.
    #[error("unknown policy '{0}': use one of {names}", names = names())]
    UnknownPolicy(String),
    /// The limit does not fit the state word.
    #[error("thread_concurrency {0} is too high: at most {max}", max = Config::THREAD_CONCURRENCY_MAX)]
    ThreadConcurrency(u32),
    /// A slot without a ticket lets nobody in.
    #[error("concurrency_tickets must be at least 1")]
    Tickets,
    /// An adaptive limit that is no limit.
    #[error("auto needs a thread_concurrency of at least 1, the limit to apply while it pays")]
    Auto,
    /// A time that must be longer than 0.
    #[error("{0} must be longer than 0")]
    Zero(&'static str),
    /// The watchdog's thread could not be started.
    #[error("cannot start the watchdog thread: {0}; set watchdog to false and call step()")]
    Watchdog(String),
}

fn names() -> String {
    Policy::ALL.map(Policy::name).join(", ")
}
