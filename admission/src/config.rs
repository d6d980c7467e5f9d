//! What a scheduler is told: policy, limits, and which waits give up the place.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Who enters when the limit is reached, and who goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Policy {
    /// No limit at all: every thread enters at once.
    None = 0,
    /// Strictly in order: a place is handed to the head of the queue, newcomers queue behind.
    Fifo = 1,
    /// The queue is a stack: the last to come is the first to go in.
    Lifo = 2,
    /// FIFO hand-off, but a newcomer enters at once while woken threads do not run yet (2009).
    Flifo = 3,
    /// An exit wakes every queued thread and lets them race: the thundering herd, for comparison.
    Broadcast = 4,
    /// No queue: poll with an adaptive delay, as InnoDB 5.6 to 8 does, for comparison.
    Sleep = 5,
    /// The set of threads inside changes by time: a place is handed on once in a [`Config::lease`];
    /// until then those who are in keep coming back.
    Lease = 6,
    /// A place goes to a woken thread only when that thread really runs; newcomers may take it first.
    Summon = 7,
    /// Round robin with a quantum. A session that comes back as soon as it has left keeps coming back at once
    /// for a [`Config::quantum`]; then its place goes to the head of the queue, and itself to the tail. One whose place is taken before that goes on
    /// before those who queue for their turns. One that was away for longer is a newcomer, as under [`Policy::Flifo`]. With a quantum of a millisecond or
    /// longer, a thread that took far more of the processor than others' turns do, since a statement cannot be
    /// interrupted, and was not away for as long since, lets the queue pass so many times more (deficit round robin). A turn in
    /// which a wait for a disk gave the place up goes on past the limit, at most eight times of it, for what is left of it. The default.
    Quantum = 8,
}

impl Policy {
    /// All policies, in the order of their numbers.
    pub const ALL: [Policy; 9] = [
        Policy::None,
        Policy::Fifo,
        Policy::Lifo,
        Policy::Flifo,
        Policy::Broadcast,
        Policy::Sleep,
        Policy::Lease,
        Policy::Summon,
        Policy::Quantum,
    ];

    /// The name as it is written on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Policy::None => "none",
            Policy::Fifo => "fifo",
            Policy::Lifo => "lifo",
            Policy::Flifo => "flifo",
            Policy::Broadcast => "broadcast",
            Policy::Sleep => "sleep",
            Policy::Lease => "lease",
            Policy::Summon => "summon",
            Policy::Quantum => "quantum",
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
    /// Every kind gives up the place.
    pub const ALL: WaitMask = WaitMask(0x7f);
    /// No wait gives up the place.
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

/// Bounds for a limit that finds itself. `AutoLimit::default()` allows every limit there can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoLimit {
    /// The lowest limit tried; at least 1.
    pub floor: u32,
    /// The highest limit tried; at most [`Config::THREAD_CONCURRENCY_MAX`].
    pub ceiling: u32,
}

impl Default for AutoLimit {
    fn default() -> Self {
        AutoLimit { floor: 1, ceiling: Config::THREAD_CONCURRENCY_MAX }
    }
}

/// How a scheduler behaves. Everything can be changed at run time with [`crate::Admission::reconfigure`].
///
/// `Config::default()` is the policy [`Policy::Quantum`] with a limit of twice the processors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Who goes first.
    pub policy: Policy,
    /// Threads inside at a time; 0 means no limit. At most [`Config::THREAD_CONCURRENCY_MAX`]. With
    /// [`Config::auto`] the limit to begin with, brought between its bounds.
    pub thread_concurrency: u32,
    /// The limit finds itself between these bounds; `None`: it stays as it is set. Under [`Policy::Sleep`], which has no
    /// queue to tell of, it stays, too.
    pub auto: Option<AutoLimit>,
    /// Engine entries a thread makes on one place before it must ask again; at least 1.
    pub concurrency_tickets: u32,
    /// The waits that give up the place.
    pub wait_mask: WaitMask,
    /// Disk waits that give up their places at a time; one more keeps its place, so that no more reads
    /// pile up on the disks than they do well with. 0: any number.
    pub io_depth: u32,
    /// When in at least so many of 100 places there is a wait for a disk, in 500 a second for each processor at least, the limit is
    /// lifted to 128 for each processor (at most [`Config::THREAD_CONCURRENCY_MAX`]), until half of that is not reached any more: there is
    /// little for a limit to win there. Only where those inside, queued and waiting for disks are more than the limit, and few
    /// enough not to queue then, with a quarter to spare; and where waits for row locks are no more than 2 of 100 places, and those
    /// under way 2 of 100 threads. Not within 5 s after it was set again. 0: never, as unless set; 100 at most. Nor without a
    /// limit, under [`Policy::None`] and [`Policy::Sleep`], with [`Config::auto`] or [`Config::io_depth`], or where [`Config::wait_mask`] has no
    /// [`WaitKind::Disk`]. [`crate::Admission::step`] finds it out, within a second.
    pub disk_bound_percent: u32,
    /// Whether a place may wait for its session, which left within its turn and is about to be back ([`Policy::Quantum`]), although others
    /// queue: at least eight for each place, for 50 ms. [`crate::Admission::step`] finds out by trials whether more is done so, and takes the
    /// places of those who are still away when their turns are over, or after a quantum. With clients on the same machine more is done so, with such that are
    /// far away or think it is not. Not without a limit, nor with [`Config::auto`].
    pub anticipate: bool,
    /// When so many sessions wait for row locks, others than those of [`crate::Class::First`] get as many
    /// places as half the processors, and one at least: where everybody comes to stand in a lock's queue, each commit is a hand-over
    /// to one that has to wake up, and the search for deadlocks costs more the longer the queues are. Those that
    /// call [`crate::Session::wait_is_long`] do not count. 0: any number. Half as many as there are processors
    /// unless set.
    pub lock_waiters_max: u32,
    /// Sessions in the queue at a time; one more is refused with [`crate::Refused::QueueFull`]. 0: any
    /// number.
    pub queue_limit: u32,
    /// So long a session waits in the queue at most; then it is refused with
    /// [`crate::Refused::Timeout`].
    pub queue_timeout: Option<Duration>,
    /// When the head of the queue has waited so long, newcomers overtake it no more until it runs. With a
    /// long queue every head is older than a small tau, and every policy is FIFO then; so `None` by
    /// default.
    pub tau: Option<Duration>,
    /// When somebody waits and nobody has entered or left for so long, one more is admitted past the limit:
    /// those inside wait for something that nobody declared, or were woken and do not run. Not under [`Policy::Sleep`], whose
    /// threads do not queue.
    pub stall_after: Option<Duration>,
    /// After so long in the queue a session of [`crate::Class::Normal`] is promoted past the first class,
    /// with every fourth place at the most.
    pub promote_after: Duration,
    /// How long a session may keep coming back before it goes to the queue's tail, waits that gave its place up, and in the queue, left
    /// out, and how long it must have been away to be a newcomer ([`Policy::Quantum`]). Longer: fewer switches, and
    /// longer waits.
    pub quantum: Duration,
    /// Newcomers that may overtake the queue for each session that is served from it ([`Policy::Quantum`]): its
    /// wait is at most so much longer than in order, plus one, but for those who owe time. 0: any number. Holders of locks are
    /// not counted.
    pub overtakes_max: u32,
    /// Time between two changes of the set of threads inside ([`Policy::Lease`]).
    pub lease: Duration,
    /// Whether the scheduler has a thread of its own for what depends on time alone (tau, the stall
    /// breaker, deadlines of async tasks, `auto`, a limit that is lifted, places that wait). It sleeps while nobody waits and the limit is
    /// not lifted. Without it, call
    /// [`crate::Admission::step`] every few milliseconds. Once there it stays, and goes on, until the scheduler is dropped,
    /// also when this becomes false.
    pub watchdog: bool,
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
        if self.disk_bound_percent > 100 {
            return Err(ConfigError::DiskBound(self.disk_bound_percent));
        }
        if let Some(AutoLimit { floor, ceiling }) = self.auto
            && !(1 <= floor && floor <= ceiling && ceiling <= Self::THREAD_CONCURRENCY_MAX)
        {
            return Err(ConfigError::Auto { floor, ceiling });
        }
        let positive = [
            ("tau", self.tau),
            ("stall_after", self.stall_after),
            ("quantum", Some(self.quantum)),
            ("lease", Some(self.lease)),
        ];
        match positive.into_iter().find(|(_, time)| *time == Some(Duration::ZERO)) {
            Some((name, _)) => Err(ConfigError::Zero(name)),
            None => Ok(()),
        }
    }

    /// The share of places that lifts the limit, if there is one that can be lifted. Not where it bounds the reads as well.
    pub(crate) fn lifts_at_percent(&self) -> u32 {
        let has_limit = self.thread_concurrency != 0 && self.auto.is_none();
        let queues = !matches!(self.policy, Policy::None | Policy::Sleep);
        let reads_outside = self.io_depth == 0 && self.wait_mask.contains(WaitKind::Disk);
        if has_limit && queues && reads_outside { self.disk_bound_percent } else { 0 }
    }

    /// Whether places may wait for their sessions.
    pub(crate) fn anticipates(&self) -> bool {
        let has_limit = self.thread_concurrency != 0 && self.auto.is_none();
        self.anticipate && has_limit && self.policy == Policy::Quantum
    }

    /// The limit to begin with. One that finds itself is never without: nobody would queue, and where nobody queues
    /// nothing is to be found.
    pub(crate) fn first_limit(&self) -> u32 {
        match self.auto {
            Some(AutoLimit { floor, ceiling }) => self.thread_concurrency.clamp(floor, ceiling),
            None => self.thread_concurrency,
        }
    }
}

/// Half the processors, and one at least.
pub(crate) fn half(processors: u32) -> u32 {
    (processors / 2).max(1)
}

/// Processors this process may use.
pub(crate) fn processors() -> u32 {
    if cfg!(any(loom, shuttle)) {
        return 1; // Whatever machine the model is checked on.
    }
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

impl Default for Config {
    fn default() -> Self {
        Config {
            policy: Policy::Quantum,
            thread_concurrency: (2 * processors()).min(Self::THREAD_CONCURRENCY_MAX),
            auto: None,
            concurrency_tickets: 5000,
            wait_mask: WaitMask::ALL,
            io_depth: 0,
            disk_bound_percent: 0,
            anticipate: false,
            lock_waiters_max: half(processors()),
            queue_limit: 0,
            queue_timeout: None,
            tau: None,
            stall_after: Some(Duration::from_millis(100)),
            promote_after: Duration::from_millis(50),
            quantum: Duration::from_micros(50),
            overtakes_max: 2,
            lease: Duration::from_micros(500),
            watchdog: true,
        }
    }
}

/// A configuration that cannot be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// No policy of that name.
    #[error("unknown policy '{0}': use one of {names}", names = names())]
    UnknownPolicy(String),
    /// The limit does not fit the state word.
    #[error("thread_concurrency {0} is too high: at most {max}", max = Config::THREAD_CONCURRENCY_MAX)]
    ThreadConcurrency(u32),
    /// A place without a ticket lets nobody in.
    #[error("concurrency_tickets must be at least 1")]
    Tickets,
    /// A share of places.
    #[error("disk_bound_percent {0} is too high: at most 100")]
    DiskBound(u32),
    /// The bounds of a limit that finds itself.
    #[error("auto needs 1 <= floor <= ceiling <= {max}, not {floor} and {ceiling}", max = Config::THREAD_CONCURRENCY_MAX)]
    Auto {
        /// The lower bound given.
        floor: u32,
        /// The upper bound given.
        ceiling: u32,
    },
    /// A time that must be longer than nothing.
    #[error("{0} must be longer than 0")]
    Zero(&'static str),
    /// A tenant's weight.
    #[error("a tenant's weight must be between {min} and {max}, not {0}", min = crate::Tenant::WEIGHTS.start(), max = crate::Tenant::WEIGHTS.end())]
    Weight(f64),
    /// Too many tenants.
    #[error("at most {max} tenants", max = crate::Tenant::MAX)]
    Tenants,
    /// The watchdog's thread could not be started.
    #[error("cannot start the watchdog thread: {0}; set watchdog to false and call step()")]
    Watchdog(String),
}

fn names() -> String {
    Policy::ALL.map(Policy::name).join(", ")
}
