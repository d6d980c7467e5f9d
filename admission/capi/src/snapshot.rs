//! Counters and times as a plain struct and as a line of text.

use std::ffi::c_char;

use flifo_admission::histogram::{Bucket, Histogram};
use flifo_admission::{Snapshot, Times, WaitKind};

use crate::config::{Growing, write_struct};
use crate::handle::flifo_admission_t;
use crate::names::put;
use crate::scheduler::Scheduler;
use crate::status::{flifo_status_t, guard, invalid};

/// Times of one kind since the scheduler was made, in nanoseconds, each exact to 2%; all 0 if there were none.
///
/// A time above 2^42 ns (73 minutes) counts as 2^42 ns.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct flifo_times_t {
    /// Number of measured times.
    pub count: u64,
    /// The mean.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 95th percentile.
    pub p95_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p999_ns: u64,
    /// The longest; at most 2^42 ns.
    pub max_ns: u64,
}

/// Number of elements of `wait_times`; leaves room for kinds of wait that are added later.
pub const FLIFO_WAIT_KINDS_MAX: usize = 16;

/// What a scheduler did and what it is doing. Counters and times are cumulative since it was made.
///
/// The struct may grow at its end; the caller passes its size to `flifo_snapshot`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct flifo_snapshot_t {
    /// The size that the caller passed to `flifo_snapshot`.
    pub struct_size: usize,
    /// The policy now: a `flifo_policy_t`.
    pub policy: i32,
    /// The limit now; 0 = unlimited.
    pub thread_concurrency: u32,
    /// Slots out now, to running and pending threads, and reserved ones.
    pub running: u32,
    /// Pending threads now: handed a slot, not running yet.
    pub pending: u32,
    /// Threads queued now.
    pub queued: u32,
    /// Sessions now in row-lock waits that released their slots, except those whose wait is marked long.
    pub lock_waiters: u32,
    /// Sessions now in disk waits that released their slots.
    pub disk_waits: u32,
    /// The most slots out so far. Unlike `running` it counts free slots cached on CPUs.
    pub running_max: u32,
    /// The highest `pending` so far.
    pub pending_max: u32,
    /// The highest `queued` so far.
    pub queued_max: u32,
    /// Entries that found a free slot, or took new tickets for the slot they held.
    pub admitted_at_once: u64,
    /// Entries on a ticket. Counted when the slot is released or its tickets are renewed.
    pub admitted_by_ticket: u64,
    /// Entries of newcomers above the limit, while woken threads were pending.
    pub admitted_by_barging: u64,
    /// Entries after queueing.
    pub admitted_from_queue: u64,
    /// Forced entries: ends of waits, and `flifo_enter_forced`.
    pub admitted_by_force: u64,
    /// Exits that handed their slot off to a queued thread.
    pub handed_off: u64,
    /// Entries on a slot that was reserved for the session (`reserve_slots`).
    pub reserved: u64,
    /// Entries refused because the queue timeout or the call's own timeout had passed.
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
    /// Entries that queued with a deficit (`FLIFO_POLICY_QUANTUM`): others passed them, if any came.
    pub queued_with_deficit: u64,
    /// The time that counters and times cover: since the scheduler was made, in nanoseconds.
    pub elapsed_ns: u64,
    /// From joining the queue to running, of every entry that queued.
    pub queued_times: flifo_times_t,
    /// The part of `queued_times` that belongs to entries that resumed a time slice (`FLIFO_POLICY_QUANTUM`).
    pub resumed_times: flifo_times_t,
    /// From being handed a slot to running, of every hand-off.
    pub woken_to_running_times: flifo_times_t,
    /// From entering to exiting, of one stay in 64.
    pub running_times: flifo_times_t,
    /// The outermost waits, by `flifo_wait_kind_t`; the first `FLIFO_WAIT_KINDS` elements are used.
    pub wait_times: [flifo_times_t; FLIFO_WAIT_KINDS_MAX],
}

// SAFETY: integers only; the assertion counts the fields' bytes.
unsafe impl Growing for flifo_snapshot_t {
    const BYTES_MIN: usize = 1288;
}
const _: () = assert!(
    size_of::<flifo_snapshot_t>() == 8 + 10 * 4 + 15 * 8 + (4 + FLIFO_WAIT_KINDS_MAX) * 7 * 8,
    "padding"
);
const _: () = assert!(WaitKind::ALL.len() <= FLIFO_WAIT_KINDS_MAX);

fn times(histogram: &Histogram) -> flifo_times_t {
    let Some(times) = Times::of(histogram) else { return flifo_times_t::default() };
    let middle = |bucket: &Bucket| bucket.start() + (bucket.end() - bucket.start()) / 2;
    let sum =
        histogram.iter().map(|bucket| u128::from(middle(&bucket)) * u128::from(bucket.count())).sum::<u128>();
    let p999 = histogram.quantile_bucket(0.999).ok().flatten();
    flifo_times_t {
        count: times.count,
        mean_ns: (sum / u128::from(times.count)) as u64,
        p50_ns: times.p50_ns,
        p95_ns: times.p95_ns,
        p99_ns: times.p99_ns,
        p999_ns: p999.map_or(times.max_ns, |bucket| middle(&bucket)),
        max_ns: times.max_ns,
    }
}

impl From<&Snapshot> for flifo_snapshot_t {
    fn from(snapshot: &Snapshot) -> Self {
        let mut wait_times = [flifo_times_t::default(); FLIFO_WAIT_KINDS_MAX];
        for (to, from) in wait_times.iter_mut().zip(&snapshot.wait_ns) {
            *to = times(from);
        }
        flifo_snapshot_t {
            struct_size: size_of::<flifo_snapshot_t>(),
            policy: snapshot.policy as i32,
            thread_concurrency: snapshot.thread_concurrency,
            running: snapshot.running,
            pending: snapshot.pending,
            queued: snapshot.queued,
            lock_waiters: snapshot.lock_waiters,
            disk_waits: snapshot.disk_waits,
            running_max: snapshot.running_max,
            pending_max: snapshot.pending_max,
            queued_max: snapshot.queued_max,
            admitted_at_once: snapshot.admitted_at_once,
            admitted_by_ticket: snapshot.admitted_by_ticket,
            admitted_by_barging: snapshot.admitted_by_barging,
            admitted_from_queue: snapshot.admitted_from_queue,
            admitted_by_force: snapshot.admitted_by_force,
            handed_off: snapshot.handed_off,
            reserved: snapshot.reserved,
            refused_by_timeout: snapshot.refused_by_timeout,
            refused_queue_full: snapshot.refused_queue_full,
            cancelled: snapshot.cancelled,
            stalls_broken: snapshot.stalls_broken,
            slots_reclaimed: snapshot.slots_reclaimed,
            promoted: snapshot.promoted,
            queued_with_deficit: snapshot.queued_with_deficit,
            elapsed_ns: snapshot.elapsed.as_nanos().try_into().unwrap_or(u64::MAX),
            queued_times: times(&snapshot.queued_ns),
            resumed_times: times(&snapshot.resumed_ns),
            woken_to_running_times: times(&snapshot.woken_to_running_ns),
            running_times: times(&snapshot.running_ns),
            wait_times,
        }
    }
}

/// Fills a struct with counters, times, and the numbers of running, pending and queued threads.
///
/// Takes some ten microseconds, and blocks no entry and no exit.
///
/// `snapshot`: the struct. `struct_size`: `sizeof (flifo_snapshot_t)`.
///
/// # Safety
/// `snapshot` is null or has room for `struct_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flifo_snapshot(
    admission: flifo_admission_t,
    snapshot: *mut flifo_snapshot_t,
    struct_size: usize,
) -> flifo_status_t {
    guard(|| {
        let now = flifo_snapshot_t::from(&Scheduler::of(admission)?.admission.snapshot());
        // SAFETY: the caller's promise.
        unsafe { write_struct(&now, snapshot, struct_size) }
    })
}

/// Writes one line of `key=value` pairs for a log: what a scheduler did and what it is doing.
///
/// Times are in microseconds. Keys keep their meaning; a key whose value is not known is left out.
///
/// `buffer`: receives the text, terminated by NUL; may be null if `size` is 0. `size`: the bytes of the buffer; a longer
/// text is cut. `length`: receives the length of the whole text without its NUL; may be null.
///
/// # Safety
/// `buffer` has room for `size` bytes; `length` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flifo_status_text(
    admission: flifo_admission_t,
    buffer: *mut c_char,
    size: usize,
    length: *mut usize,
) -> flifo_status_t {
    guard(|| {
        if buffer.is_null() && size != 0 {
            return Err(invalid("buffer is null, but its size is not 0: pass a buffer, or 0"));
        }
        let text = Scheduler::of(admission)?.admission.snapshot().line();
        if size != 0 {
            let end = text.floor_char_boundary(size - 1);
            // SAFETY: there is room for `size` bytes, of which `end + 1` are written.
            unsafe {
                buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), end);
                buffer.add(end).write(0);
            }
        }
        match length.is_null() {
            true => Ok(()),
            // SAFETY: the caller's promise.
            false => unsafe { put(length, "length", text.len()) },
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_match_the_histogram() {
        let mut histogram = Histogram::new(5, 42).unwrap();
        assert_eq!(times(&histogram), flifo_times_t::default());
        (1..=1000u64).for_each(|us| histogram.increment(us * 1000).unwrap());
        let times = times(&histogram);
        assert_eq!(times.count, 1000);
        let near = |got: u64, expected: u64| got.abs_diff(expected) * 100 <= expected * 4;
        assert!(near(times.mean_ns, 500_500), "{times:?}");
        assert!(near(times.p50_ns, 500_000) && near(times.p95_ns, 950_000), "{times:?}");
        assert!(near(times.p99_ns, 990_000) && near(times.p999_ns, 999_000), "{times:?}");
        assert!(near(times.max_ns, 1_000_000), "{times:?}");
    }

    #[test]
    fn the_struct_has_grown_at_its_end() {
        assert_eq!(size_of::<flifo_snapshot_t>(), flifo_snapshot_t::BYTES_MIN, "no field was added so far");
    }
}
