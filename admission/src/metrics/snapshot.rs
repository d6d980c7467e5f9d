//! What the embedder sees of a scheduler.

use std::time::Duration;

use histogram::Histogram;

use super::histograms::{Times, difference};
use crate::{Policy, WaitKind};

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
    /// Entries that found a free place, or new tickets for the place they held.
    pub entered_at_once: u64,
    /// Entries on a ticket. Counted when the place is left, or its tickets are renewed.
    pub entered_by_ticket: u64,
    /// Entries of newcomers past the limit, while woken threads did not run yet (`flifo`).
    pub entered_by_lifo: u64,
    /// Entries after queueing (or polling, `sleep`).
    pub entered_from_queue: u64,
    /// Entries that asked nobody: ends of waits, and those past the limit.
    pub entered_by_force: u64,
    /// Exits that handed their place to a queued thread.
    pub handed_on: u64,
    /// Entries at once on a place that had waited for the session since it left ([`crate::Config::anticipate`]).
    pub anticipated: u64,
    /// Entries refused because the queue timeout or the caller's deadline had passed.
    pub refused_by_timeout: u64,
    /// Entries refused because the queue was full.
    pub refused_queue_full: u64,
    /// Entries that were cancelled.
    pub cancelled: u64,
    /// Threads admitted past the limit because nothing moved.
    pub stalls_broken: u64,
    /// Sessions that went before the first class because of their age.
    pub promoted: u64,
    /// Entries that queued while they owed others for long turns ([`Policy::Quantum`]): others passed them, if any came.
    pub queued_owing: u64,
    /// Sessions now in waits for row locks that gave up their places, but for those whose wait is a long one.
    pub lock_waiters: u32,
    /// Sessions now in waits for disks that gave up their places.
    pub disk_waits: u32,
    /// T: places out now, to threads running inside or woken to run, and those that wait for their sessions.
    pub inside: u32,
    /// P: threads woken now that do not run yet.
    pub pending: u32,
    /// Q: threads queued now.
    pub queued: u32,
    /// The highest T since the scheduler was made, also in a difference of two snapshots. It counts places that processors
    /// keep, too, which [`Snapshot::inside`] does not: one that is left while nobody misses it stays with its processor for the
    /// next thread there.
    pub inside_max: u32,
    /// The highest P since the scheduler was made, also in a difference of two snapshots.
    pub pending_max: u32,
    /// The highest Q since the scheduler was made, also in a difference of two snapshots.
    pub queued_max: u32,
    /// Time from joining the queue to running inside, ns, of every entry that queued.
    pub queued_ns: Histogram,
    /// The same, ns, of those that went on then with a turn that had been cut short ([`Policy::Quantum`]). They queue before those who
    /// wait for a turn, mostly for a moment.
    pub resumed_ns: Histogram,
    /// W: time from being handed a place to running, ns, of every hand-off.
    pub woken_to_running_ns: Histogram,
    /// S: time from entering to leaving, ns, of one place in 64.
    pub inside_ns: Histogram,
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
            entered_at_once: left(self.entered_at_once, earlier.entered_at_once),
            entered_by_ticket: left(self.entered_by_ticket, earlier.entered_by_ticket),
            entered_by_lifo: left(self.entered_by_lifo, earlier.entered_by_lifo),
            entered_from_queue: left(self.entered_from_queue, earlier.entered_from_queue),
            entered_by_force: left(self.entered_by_force, earlier.entered_by_force),
            handed_on: left(self.handed_on, earlier.handed_on),
            anticipated: left(self.anticipated, earlier.anticipated),
            refused_by_timeout: left(self.refused_by_timeout, earlier.refused_by_timeout),
            refused_queue_full: left(self.refused_queue_full, earlier.refused_queue_full),
            cancelled: left(self.cancelled, earlier.cancelled),
            stalls_broken: left(self.stalls_broken, earlier.stalls_broken),
            promoted: left(self.promoted, earlier.promoted),
            queued_owing: left(self.queued_owing, earlier.queued_owing),
            wait_ns: std::array::from_fn(|kind| difference(&self.wait_ns[kind], &earlier.wait_ns[kind])),
            queued_ns: difference(&self.queued_ns, &earlier.queued_ns),
            resumed_ns: difference(&self.resumed_ns, &earlier.resumed_ns),
            woken_to_running_ns: difference(&self.woken_to_running_ns, &earlier.woken_to_running_ns),
            inside_ns: difference(&self.inside_ns, &earlier.inside_ns),
            ..self.clone()
        }
    }

    /// Entries of all kinds.
    pub fn entries(&self) -> u64 {
        self.places_taken() + self.entered_by_ticket
    }

    /// Entries that took a place: all but those by ticket.
    pub fn places_taken(&self) -> u64 {
        self.entered_at_once + self.entered_by_lifo + self.entered_from_queue + self.entered_by_force
    }

    /// Entries that were not let in, for whatever reason.
    pub fn refused(&self) -> u64 {
        self.refused_by_timeout + self.refused_queue_full + self.cancelled
    }

    /// One of its counters as a rate over [`Snapshot::elapsed`]; 0 if no time has passed.
    pub fn per_second(&self, count: u64) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
    }

    /// Time from joining the queue to running inside; `None` if nobody queued.
    pub fn queue_wait(&self) -> Option<Times> {
        Times::of(&self.queued_ns)
    }

    /// Of that, the time of those that went on then with a turn that had been cut short; `None` if nobody did.
    pub fn resumed_wait(&self) -> Option<Times> {
        Times::of(&self.resumed_ns)
    }

    /// W: time from being handed a place to running; `None` if no place was handed on.
    pub fn woken_to_running(&self) -> Option<Times> {
        Times::of(&self.woken_to_running_ns)
    }

    /// S: time from entering to leaving, of one place in 64; `None` if none was timed yet.
    pub fn time_inside(&self) -> Option<Times> {
        Times::of(&self.inside_ns)
    }

    /// Time of the outermost waits of this kind; `None` if there were none.
    pub fn wait(&self, kind: WaitKind) -> Option<Times> {
        Times::of(&self.wait_ns[kind as usize])
    }

    /// 1 + W/S, of the medians: about what a policy that lets newcomers in while woken threads start up
    /// ([`Policy::Flifo`], [`Policy::Quantum`]) can gain over strict FIFO.
    pub fn gain_over_fifo_max(&self) -> Option<f64> {
        let (w, s) = (self.woken_to_running()?, self.time_inside()?);
        (s.p50_ns > 0).then(|| 1.0 + w.p50_ns as f64 / s.p50_ns as f64)
    }
}
