//! What a scheduler is told: policy, limits, and which waits give up the place.

use std::fmt;
use std::str::FromStr;

/// Who enters when the limit is reached, and who goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// No limit at all: every thread enters at once.
    None,
    /// Strictly in order: a place is handed to the head of the queue, newcomers queue behind.
    Fifo,
    /// The queue is a stack: the last to come is the first to go in.
    Lifo,
    /// FIFO hand-off, but a newcomer enters at once while woken threads do not run yet (2009).
    Flifo,
    /// An exit wakes every queued thread and lets them race: the thundering herd, for comparison.
    Broadcast,
    /// No queue: poll with an adaptive delay, as InnoDB 5.6 to 8 does, for comparison.
    Sleep,
}

impl Policy {
    /// All policies, in the order in which they are documented.
    pub const ALL: [Policy; 6] =
        [Policy::None, Policy::Fifo, Policy::Lifo, Policy::Flifo, Policy::Broadcast, Policy::Sleep];

    /// The name as it is written on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Policy::None => "none",
            Policy::Fifo => "fifo",
            Policy::Lifo => "lifo",
            Policy::Flifo => "flifo",
            Policy::Broadcast => "broadcast",
            Policy::Sleep => "sleep",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = ConfigError;

    fn from_str(s: &str) -> Result<Self, ConfigError> {
        Policy::ALL
            .into_iter()
            .find(|policy| policy.name() == s)
            .ok_or_else(|| ConfigError::UnknownPolicy(s.to_owned()))
    }
}

/// What a thread inside waits for. A wait of a kind in the scheduler's [`WaitMask`] gives up the
/// place for its duration.
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

/// A set of [`WaitKind`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitMask(u8);

impl WaitMask {
    /// Every kind gives up the place.
    pub const ALL: WaitMask = WaitMask(0x7f);
    /// No wait gives up the place.
    pub const NONE: WaitMask = WaitMask(0);

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

/// How a scheduler behaves. `Config::default()` is FLIFO with a limit of twice the processors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Who goes first.
    pub policy: Policy,
    /// Threads inside at a time; 0 means no limit. At most [`Config::THREAD_CONCURRENCY_MAX`].
    pub thread_concurrency: u32,
    /// Engine entries a thread makes on one place before it must ask again; at least 1.
    pub concurrency_tickets: u32,
    /// The waits that give up the place.
    pub wait_mask: WaitMask,
}

impl Config {
    /// The highest `thread_concurrency`: what the state word's field can hold.
    pub const THREAD_CONCURRENCY_MAX: u32 = crate::state::LIMIT_MAX;

    /// Says whether the values are possible; [`crate::Admission::new`] asks this too.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.thread_concurrency > Self::THREAD_CONCURRENCY_MAX {
            return Err(ConfigError::ThreadConcurrency(self.thread_concurrency));
        }
        if self.concurrency_tickets == 0 {
            return Err(ConfigError::Tickets);
        }
        Ok(())
    }
}

impl Default for Config {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        Config {
            policy: Policy::Flifo,
            thread_concurrency: 2 * processors,
            concurrency_tickets: 5000,
            wait_mask: WaitMask::ALL,
        }
    }
}

/// A configuration that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No policy of that name.
    #[error("unknown policy '{0}': use none, fifo, lifo, flifo, broadcast or sleep")]
    UnknownPolicy(String),
    /// The limit does not fit the state word.
    #[error("thread_concurrency {0} is too high: at most {max}", max = Config::THREAD_CONCURRENCY_MAX)]
    ThreadConcurrency(u32),
    /// A place without a ticket lets nobody in.
    #[error("concurrency_tickets must be at least 1")]
    Tickets,
}
