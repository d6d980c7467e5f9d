//! Counters and times as a plain struct, and as a line of text.

use std::ffi::c_char;

use flifo_admission::histogram::{Bucket, Histogram};
use flifo_admission::{Snapshot, Times, WaitKind};

use crate::config::{Growing, write_struct};
use crate::handle::flifo_admission_t;
use crate::names::put;
use crate::scheduler::Scheduler;
use crate::status::{flifo_status_t, guard, invalid};

/// Times of one kind since the scheduler was made, in nanoseconds, each true to 2%; all 0 if there were none. What took
/// longer than 2^42 ns (73 minutes) counts as that.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct flifo_times_t {
    /// How many were measured.
    pub count: u64,
    /// Their mean.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// 95% were no longer.
    pub p95_ns: u64,
    /// 99% were no longer.
    pub p99_ns: u64,
    /// 99.9% were no longer.
    pub p999_ns: u64,
    /// The longest; at most 2^42 ns, 73 minutes.
    pub max_ns: u64,
}

/// Room for kinds of wait that are added later.
pub const FLIFO_WAIT_KINDS_MAX: usize = 16;

/// What a scheduler did, and what it is doing. Counters and times are cumulative since it was made.
///
/// The struct may grow at its end; `flifo_snapshot` is told its size.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct flifo_snapshot_t {
    /// What `flifo_snapshot` was told.
    pub struct_size: usize,
    /// The policy now: a `flifo_policy_t`.
    pub policy: i32,
    /// The limit now; 0: none.
    pub thread_concurrency: u32,
    /// Places out now, to threads running inside or woken to run.
    pub inside: u32,
    /// Threads woken now that do not run yet.
    pub pending: u32,
    /// Threads queued now.
    pub queued: u32,
    /// Sessions now in waits for row locks that gave up their places, but for those whose wait is a long one.
    pub lock_waiters: u32,
    /// Sessions now in waits for disks that gave up their places.
    pub disk_waits: u32,
    /// The most places out so far, those included that processors keep for their next threads.
    pub inside_max: u32,
    /// The highest `pending` so far.
    pub pending_max: u32,
    /// The highest `queued` so far.
    pub queued_max: u32,
    /// Entries that found a free place, or new tickets for the place they held.
    pub entered_at_once: u64,
    /// Entries on a ticket, counted when the place is left.
    pub entered_by_ticket: u64,
    /// Entries of newcomers past the limit, while woken threads did not run yet.
    pub entered_by_lifo: u64,
    /// Entries after queueing.
    pub entered_from_queue: u64,
    /// Entries that asked nobody: ends of waits, and those past the limit.
    pub entered_by_force: u64,
    /// Exits that handed their place to a queued thread.
    pub handed_on: u64,
    /// Entries refused because the queue timeout or the call's own had passed.
    pub refused_by_timeout: u64,
    /// Entries refused because the queue was full.
    pub refused_queue_full: u64,
    /// Entries that were cancelled.
    pub cancelled: u64,
    /// Threads let in past the limit because nothing moved.
    pub stalls_broken: u64,
    /// Sessions that went before the first class because of their age.
    pub promoted: u64,
    /// The time that counters and times cover: since the scheduler was made, in nanoseconds.
    pub elapsed_ns: u64,
    /// From joining the queue to running inside, of every entry that queued.
    pub queued_times: flifo_times_t,
    /// From being handed a place to running, of every hand-off.
    pub woken_to_running_times: flifo_times_t,
    /// From entering to leaving, of one place in 64.
    pub inside_times: flifo_times_t,
    /// The outermost waits, by `flifo_wait_kind_t`; the first `FLIFO_WAIT_KINDS` are used.
    pub wait_times: [flifo_times_t; FLIFO_WAIT_KINDS_MAX],
    /// Entries that queued while they owed others for long turns (`FLIFO_POLICY_QUANTUM`): others passed them, if any came.
    pub queued_owing: u64,
    /// Entries at once on a place that had waited for the session since it left (`anticipate`).
    pub anticipated: u64,
    /// Of `queued_times`, those of entries that went on then with a turn that had been cut short (`FLIFO_POLICY_QUANTUM`).
    pub resumed_times: flifo_times_t,
}

// SAFETY: integers only; the assertion counts the fields' bytes.
unsafe impl Growing for flifo_snapshot_t {
    const BYTES_MIN: usize = 1208;
}
const _: () = assert!(
    size_of::<flifo_snapshot_t>() == 8 + 10 * 4 + 14 * 8 + (4 + FLIFO_WAIT_KINDS_MAX) * 7 * 8,
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
            inside: snapshot.inside,
            pending: snapshot.pending,
            queued: snapshot.queued,
            lock_waiters: snapshot.lock_waiters,
            disk_waits: snapshot.disk_waits,
            inside_max: snapshot.inside_max,
            pending_max: snapshot.pending_max,
            queued_max: snapshot.queued_max,
            entered_at_once: snapshot.entered_at_once,
            entered_by_ticket: snapshot.entered_by_ticket,
            entered_by_lifo: snapshot.entered_by_lifo,
            entered_from_queue: snapshot.entered_from_queue,
            entered_by_force: snapshot.entered_by_force,
            handed_on: snapshot.handed_on,
            refused_by_timeout: snapshot.refused_by_timeout,
            refused_queue_full: snapshot.refused_queue_full,
            cancelled: snapshot.cancelled,
            stalls_broken: snapshot.stalls_broken,
            promoted: snapshot.promoted,
            elapsed_ns: snapshot.elapsed.as_nanos().try_into().unwrap_or(u64::MAX),
            queued_times: times(&snapshot.queued_ns),
            woken_to_running_times: times(&snapshot.woken_to_running_ns),
            inside_times: times(&snapshot.inside_ns),
            wait_times,
            queued_owing: snapshot.queued_owing,
            anticipated: snapshot.anticipated,
            resumed_times: times(&snapshot.resumed_ns),
        }
    }
}

/// Fills a struct with counters, with how many are inside and queued now, and with times.
///
/// It costs some ten microseconds and disturbs nobody.
///
/// `snapshot`: the struct. `struct_size`: give `sizeof (flifo_snapshot_t)`, or `sizeof *snapshot`.
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
        // SAFETY: as the caller promises.
        unsafe { write_struct(&now, snapshot, struct_size) }
    })
}

/// Writes one line of text, `key=value` pairs for a log, that says what a scheduler did and is doing. Times are in
/// microseconds. Keys keep their meaning; a key whose value is not known is left out.
///
/// `buffer`: where it is put, always ended by NUL; may be null if `size` is 0. `size`: the bytes there; a longer
/// text is cut. `length`: where the length of the whole text is put, without its NUL; may be null.
///
/// # Safety
/// `buffer` has room for `size` bytes; `length` is null or good.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flifo_status_text(
    admission: flifo_admission_t,
    buffer: *mut c_char,
    size: usize,
    length: *mut usize,
) -> flifo_status_t {
    guard(|| {
        if buffer.is_null() && size != 0 {
            return Err(invalid("buffer is null, but its size is not 0"));
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
            // SAFETY: as the caller promises.
            false => unsafe { put(length, "length", text.len()) },
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_histogram() {
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
        assert_eq!(std::mem::offset_of!(flifo_snapshot_t, queued_owing), flifo_snapshot_t::BYTES_MIN);
    }
}
