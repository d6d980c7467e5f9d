//! Time waited, per reason: always on.
//!
//! Every wait of the engine goes through [`crate::Waiter::wait`], which records here how long it took. A wait
//! costs microseconds at least and a record two relaxed additions, so there is nothing to switch off. Hits
//! and other work that does not wait record nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use histogram::{AtomicHistogram, Histogram};

/// Why a thread of the engine waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum WaitReason {
    /// Its own read of a page from disk.
    DiskRead,
    /// A page that another thread is reading.
    PageLoad,
    /// A latch that another thread holds.
    PageLatch,
    /// A free frame, which a page cleaner must make.
    FreeFrame,
    /// A write of pages (background threads, clean close).
    DiskWrite,
    /// A sync of the data files.
    DiskSync,
    /// The redo log, until a commit is durable.
    LogSync,
    /// The redo log, until other threads have completed their frames, or until frames were written to the operating
    /// system.
    LogWrite,
    /// Room in the log buffer.
    RedoBuffer,
    /// Room in the redo log's files, which only a checkpoint makes: a hard stop.
    RedoSpace,
    /// Tokens of the back-pressure, which slows writers down while the redo log is more than 75% full.
    RedoTokens,
    /// A sync flush ([`FlushMode::Sequential`](crate::FlushMode::Sequential)).
    SyncFlush,
    /// A close, until the changes in progress have ended.
    Close,
    /// The catalog, which another thread reads or changes.
    Catalog,
    /// A row lock that another transaction holds or requested before.
    RowLock,
    /// A slot of the pending page; all slots are taken by threads that write or free large values.
    PendingSlot,
    /// What the embedder waits for ([`Session::wait`](crate::Session::wait)).
    Embedder,
}

impl WaitReason {
    /// All reasons, in the order in which they are documented.
    pub const ALL: [WaitReason; 17] = [
        WaitReason::DiskRead,
        WaitReason::PageLoad,
        WaitReason::PageLatch,
        WaitReason::FreeFrame,
        WaitReason::DiskWrite,
        WaitReason::DiskSync,
        WaitReason::LogSync,
        WaitReason::LogWrite,
        WaitReason::RedoBuffer,
        WaitReason::RedoSpace,
        WaitReason::RedoTokens,
        WaitReason::SyncFlush,
        WaitReason::Close,
        WaitReason::Catalog,
        WaitReason::RowLock,
        WaitReason::PendingSlot,
        WaitReason::Embedder,
    ];

    /// The name as reports print it.
    pub fn name(self) -> &'static str {
        match self {
            WaitReason::DiskRead => "disk_read",
            WaitReason::PageLoad => "page_load",
            WaitReason::PageLatch => "page_latch",
            WaitReason::FreeFrame => "free_frame",
            WaitReason::DiskWrite => "disk_write",
            WaitReason::DiskSync => "disk_sync",
            WaitReason::LogSync => "log_sync",
            WaitReason::LogWrite => "log_write",
            WaitReason::RedoBuffer => "redo_buffer",
            WaitReason::RedoSpace => "redo_space",
            WaitReason::RedoTokens => "redo_tokens",
            WaitReason::SyncFlush => "sync_flush",
            WaitReason::Close => "close",
            WaitReason::Catalog => "catalog",
            WaitReason::RowLock => "row_lock",
            WaitReason::PendingSlot => "pending_slot",
            WaitReason::Embedder => "embedder",
        }
    }
}

/// Buckets are at most 1/32 wide, relative to their value.
const GROUPING_POWER: u8 = 5;
/// The longest time that the histogram resolves: 2^40 ns, 18 minutes.
const MAX_VALUE_POWER: u8 = 40;
const WAIT_NS_MAX: u64 = (1 << MAX_VALUE_POWER) - 1;

/// The time waited in one database since it was opened, per [`WaitReason`].
pub struct Waits {
    reasons: [Reason; WaitReason::ALL.len()],
    stalled_callbacks: AtomicU64,
}

struct Reason {
    waits_ns: AtomicHistogram,
    total_ns: AtomicU64,
}

impl Waits {
    /// Nothing waited yet.
    pub fn new() -> Arc<Self> {
        Arc::new(Waits {
            reasons: std::array::from_fn(|_| Reason {
                waits_ns: AtomicHistogram::with_config(&histogram_config()),
                total_ns: AtomicU64::new(0),
            }),
            stalled_callbacks: AtomicU64::new(0),
        })
    }

    /// Adds one wait. Times beyond 18 minutes count as 18 minutes in the histogram.
    pub fn record(&self, reason: WaitReason, waited: Duration) {
        let waited_ns = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        let of_reason = &self.reasons[reason as usize];
        let recorded = of_reason.waits_ns.increment(waited_ns.min(WAIT_NS_MAX));
        debug_assert!(recorded.is_ok());
        of_reason.total_ns.fetch_add(waited_ns, Ordering::Relaxed);
    }

    /// Counts a callback that has lost its slot to the stall rule. The first one of a database is noted in the log.
    #[cold]
    pub(crate) fn note_stalled_callback(&self) {
        if self.stalled_callbacks.fetch_add(1, Ordering::Relaxed) == 0 {
            log::warn!(
                "a callback held its slot for the stall limit while others queued, and lost it; if it waits for other \
                 threads, let it wait in Session::wait (EngineStats::stalled_callbacks counts them)"
            );
        }
    }

    /// Callbacks that have lost their slot to the stall rule.
    pub(crate) fn stalled_callbacks(&self) -> u64 {
        self.stalled_callbacks.load(Ordering::Relaxed)
    }

    /// The times recorded so far. Waits that end during the call may or may not be included.
    pub fn snapshot(&self) -> WaitsSnapshot {
        let of_reasons = self
            .reasons
            .iter()
            .map(|reason| (reason.waits_ns.load(), reason.total_ns.load(Ordering::Relaxed)))
            .collect();
        WaitsSnapshot { of_reasons }
    }
}

fn histogram_config() -> histogram::Config {
    histogram::Config::new(GROUPING_POWER, MAX_VALUE_POWER).expect("constants that fit each other")
}

/// The time waited up to a point in time, or between two of them.
#[derive(Clone)]
pub struct WaitsSnapshot {
    of_reasons: Vec<(Histogram, u64)>,
}

impl WaitsSnapshot {
    /// The waits for `reason`: how many took how many nanoseconds.
    pub fn waits_ns(&self, reason: WaitReason) -> &Histogram {
        &self.of_reasons[reason as usize].0
    }

    /// The number of waits for `reason`.
    pub fn count(&self, reason: WaitReason) -> u64 {
        self.waits_ns(reason).as_slice().iter().sum()
    }

    /// The sum of the waits for `reason`, nanoseconds.
    pub fn total_ns(&self, reason: WaitReason) -> u64 {
        self.of_reasons[reason as usize].1
    }

    /// The waits after `earlier`, which is a snapshot of the same database.
    pub fn since(&self, earlier: &WaitsSnapshot) -> WaitsSnapshot {
        let of_reasons = self
            .of_reasons
            .iter()
            .zip(&earlier.of_reasons)
            .map(|((waits, total), (waits_before, total_before))| {
                let difference =
                    waits.wrapping_sub(waits_before).expect("all snapshots have one histogram shape");
                (difference, total.wrapping_sub(*total_before))
            })
            .collect();
        WaitsSnapshot { of_reasons }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_holds_what_came_between() {
        let waits = Waits::new();
        waits.record(WaitReason::DiskRead, Duration::from_micros(100));
        let earlier = waits.snapshot();
        waits.record(WaitReason::DiskRead, Duration::from_micros(300));
        waits.record(WaitReason::Catalog, Duration::from_nanos(7));
        let difference = waits.snapshot().since(&earlier);
        assert_eq!(difference.count(WaitReason::DiskRead), 1);
        assert_eq!(difference.total_ns(WaitReason::DiskRead), 300_000);
        assert_eq!(difference.total_ns(WaitReason::Catalog), 7);
        assert_eq!(difference.count(WaitReason::DiskSync), 0);
        let bucket =
            difference.waits_ns(WaitReason::DiskRead).iter().find(|bucket| bucket.count() == 1).unwrap();
        assert!(bucket.start() <= 300_000 && 300_000 <= bucket.end());
    }

    #[test]
    fn an_endless_wait_is_counted_at_the_top() {
        let waits = Waits::new();
        waits.record(WaitReason::PageLatch, Duration::MAX);
        assert_eq!(waits.snapshot().count(WaitReason::PageLatch), 1);
    }

    #[test]
    fn every_reason_has_its_own_place_and_name() {
        for (index, reason) in WaitReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
            assert!(WaitReason::ALL[..index].iter().all(|other| other.name() != reason.name()));
        }
    }
}
