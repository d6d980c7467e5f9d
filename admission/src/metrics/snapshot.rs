//! What the embedder sees of a scheduler.

use std::time::Duration;

use histogram::Histogram;

use super::histograms::{Times, difference};
use crate::config::{Policy, WaitKind};

/// What a scheduler did and what it is doing. Counters and histograms are cumulative since it was made.
///
/// It prints itself: `{}` is a block of text to read, [`Snapshot::line`] a line for a log.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Snapshot {
    /// The time that counters and histograms cover: since the scheduler was made, or since the earlier
    /// snapshot ([`Snapshot::since`]).
    pub elapsed: Duration,
    /// The policy now.
    pub policy: Policy,
    /// L: the limit now; 0: none.
    pub thread_concurrency: u32,
    /// Entries that found a free slot, or took new tickets for the slot they held.
    pub admitted_at_once: u64,
    /// Entries on a ticket. Counted when the slot is released, or its tickets are renewed.
    pub admitted_by_ticket: u64,
    /// Entries of newcomers above the limit, while woken threads were pending.
    pub admitted_by_barging: u64,
    /// Entries after queueing.
    pub admitted_from_queue: u64,
    /// Forced entries: ends of waits, and lock holders.
    pub admitted_by_force: u64,
    /// Exits that handed their slot off to a queued thread.
    pub handed_off: u64,
    /// Entries on a slot that was reserved for the session (feature `reservation`).
    pub reserved: u64,
    /// Entries refused because the queue timeout or the caller's deadline had passed.
    pub refused_by_timeout: u64,
    /// Entries refused because the queue was full.
    pub refused_queue_full: u64,
    /// Entries that were cancelled.
    pub cancelled: u64,
    /// Threads admitted above the limit because no session entered or exited for the stall limit.
    pub stalls_broken: u64,
    /// Slots reclaimed from sessions that ran for the stall limit while others queued.
    pub slots_reclaimed: u64,
    /// Sessions that went before the first class because of their age.
    pub promoted: u64,
    /// Entries that queued with a deficit ([`Policy::Quantum`]): others passed them, if any came.
    pub queued_with_deficit: u64,
    /// Sessions now in row-lock waits that released their slots, except those whose wait is marked long.
    pub lock_waiters: u32,
    /// Sessions now in disk waits that released their slots.
    pub disk_waits: u32,
    /// T: slots out now, to running and pending threads, and reserved ones.
    pub running: u32,
    /// P: pending threads now: handed a slot, not running yet.
    pub pending: u32,
    /// Q: threads queued now.
    pub queued: u32,
    /// The highest T since the scheduler was made, free slots parked on CPUs included; in a difference of two snapshots, too.
    pub running_max: u32,
    /// The highest P, likewise.
    pub pending_max: u32,
    /// The highest Q, likewise.
    pub queued_max: u32,
    /// Time from joining the queue to running, ns, of every entry that queued.
    pub queued_ns: Histogram,
    /// The same, ns, of sessions that resumed a time slice ([`Policy::Quantum`]). They queue before those that wait for a new slice.
    pub resumed_ns: Histogram,
    /// W: time from being handed a slot to running, ns, of every hand-off.
    pub woken_to_running_ns: Histogram,
    /// S: time from entering to exiting, ns, of one stay in 64.
    pub running_ns: Histogram,
    /// Time of the outermost waits, ns, by [`WaitKind`].
    pub wait_ns: [Histogram; WaitKind::ALL.len()],
}

impl Snapshot {
    /// What happened after `earlier`, a snapshot of the same scheduler: counters, histograms and the time
    /// they cover are differences; the T, P, Q of now and the maxima stay. Nothing happened after a later one.
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        let left = u64::saturating_sub;
        Snapshot {
            elapsed: self.elapsed.saturating_sub(earlier.elapsed),
            admitted_at_once: left(self.admitted_at_once, earlier.admitted_at_once),
            admitted_by_ticket: left(self.admitted_by_ticket, earlier.admitted_by_ticket),
            admitted_by_barging: left(self.admitted_by_barging, earlier.admitted_by_barging),
            admitted_from_queue: left(self.admitted_from_queue, earlier.admitted_from_queue),
            admitted_by_force: left(self.admitted_by_force, earlier.admitted_by_force),
            handed_off: left(self.handed_off, earlier.handed_off),
            reserved: left(self.reserved, earlier.reserved),
            refused_by_timeout: left(self.refused_by_timeout, earlier.refused_by_timeout),
            refused_queue_full: left(self.refused_queue_full, earlier.refused_queue_full),
            cancelled: left(self.cancelled, earlier.cancelled),
            stalls_broken: left(self.stalls_broken, earlier.stalls_broken),
            slots_reclaimed: left(self.slots_reclaimed, earlier.slots_reclaimed),
            promoted: left(self.promoted, earlier.promoted),
            queued_with_deficit: left(self.queued_with_deficit, earlier.queued_with_deficit),
            wait_ns: std::array::from_fn(|kind| difference(&self.wait_ns[kind], &earlier.wait_ns[kind])),
            queued_ns: difference(&self.queued_ns, &earlier.queued_ns),
            resumed_ns: difference(&self.resumed_ns, &earlier.resumed_ns),
            woken_to_running_ns: difference(&self.woken_to_running_ns, &earlier.woken_to_running_ns),
            running_ns: difference(&self.running_ns, &earlier.running_ns),
            ..self.clone()
        }
    }

    /// Entries of all kinds.
    pub fn entries(&self) -> u64 {
        self.admitted_at_once
            + self.admitted_by_barging
            + self.admitted_from_queue
            + self.admitted_by_force
            + self.admitted_by_ticket
    }

    /// Entries that were refused, for any reason.
    pub fn refused(&self) -> u64 {
        self.refused_by_timeout + self.refused_queue_full + self.cancelled
    }

    /// One of its counters as a rate over [`Snapshot::elapsed`]; 0 if no time has passed.
    pub fn per_second(&self, count: u64) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
    }

    /// Time from joining the queue to running; `None` if no session queued.
    pub fn queue_wait(&self) -> Option<Times> {
        Times::of(&self.queued_ns)
    }

    /// The same, of sessions that resumed a time slice; `None` if there were none.
    pub fn resumed_wait(&self) -> Option<Times> {
        Times::of(&self.resumed_ns)
    }

    /// W: time from being handed a slot to running; `None` if no slot was handed off.
    pub fn woken_to_running(&self) -> Option<Times> {
        Times::of(&self.woken_to_running_ns)
    }

    /// S: time from entering to exiting, of one stay in 64; `None` if none was timed yet.
    pub fn time_running(&self) -> Option<Times> {
        Times::of(&self.running_ns)
    }

    /// Time of the outermost waits of this kind; `None` if there were none.
    pub fn wait(&self, kind: WaitKind) -> Option<Times> {
        Times::of(&self.wait_ns[kind as usize])
    }

    /// 1 + W/S, of the medians: about what a policy that lets newcomers run while woken threads are pending ([`Policy::Flifo`],
    /// [`Policy::Quantum`]) can gain over strict FIFO.
    pub fn gain_over_fifo_max(&self) -> Option<f64> {
        let (w, s) = (self.woken_to_running()?, self.time_running()?);
        (s.p50_ns > 0).then(|| 1.0 + w.p50_ns as f64 / s.p50_ns as f64)
    }
}
