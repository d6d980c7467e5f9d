//! How many buckets the kernel has for this process's futexes.
//!
//! Since Linux 6.17 a process has a hash of futexes of its own, of 16 buckets at first; the kernel adds some as threads do,
//! but few where there are few CPUs: none on two, however many threads (`PR_FUTEX_HASH(2const)`). A wake looks for
//! the one sleeper among all those of its bucket, whose entries are cold, and holds the bucket's lock all the time. With
//! a thousand threads in the queue that is 32 entries on average, some 2 us. So the hash grows with the queue.
//!
//! Kernels before have one hash for all processes, of 256 buckets for each CPU, and need nothing.

use std::process;
use std::sync::Mutex;

/// So many sleepers find room in whatever the kernel gives.
const SLEEPERS_MIN: u32 = 64;
/// Buckets (64 bytes each) for each that sleeps: the queue may grow to four times its length before it is asked again.
const BUCKETS_PER_SLEEPER: u32 = 4;
/// The fewest that are asked for, 256 KiB: plenty, since the kernel adds none by itself once it was asked.
const BUCKETS_MIN: u32 = 1 << 12;
/// The most that are asked for: 4 MiB.
const BUCKETS_MAX: u32 = 1 << 16;

/// A process, and for how many sleepers there is room in it, or no more to be had: the hash is the process's, not a scheduler's. A
/// child of fork has its parent's note, but a hash of its own, as small as any at first.
static ROOM_FOR: Mutex<(u32, u32)> = Mutex::new((0, SLEEPERS_MIN));

/// Sees to it that there are as many buckets as `sleepers`, if the kernel can. May sleep for some milliseconds.
pub(crate) fn make_room(sleepers: u32) {
    if sleepers <= SLEEPERS_MIN {
        return;
    }
    // Not waited for: another watchdog's step may hold it, which sees to it as well. Or this is the child of a
    // process that held it at the fork: then the hash stays as it is.
    let Ok(mut noted) = ROOM_FOR.try_lock() else { return };
    let (this, (noted_by, noted_room)) = (process::id(), *noted);
    let room_for = if noted_by == this { noted_room } else { SLEEPERS_MIN };
    if sleepers > room_for {
        *noted = (this, grow(sleepers));
    }
}

/// For how many there is room now; all that will ever ask, if there cannot be more.
fn grow(sleepers: u32) -> u32 {
    let wanted =
        sleepers.saturating_mul(BUCKETS_PER_SLEEPER).clamp(BUCKETS_MIN, BUCKETS_MAX).next_power_of_two();
    // `None`: an older kernel. 0: the process has chosen the hash that all share.
    let Some(now @ 1..) = prctl(PR_FUTEX_HASH_GET_SLOTS, 0) else { return u32::MAX };
    if now < wanted {
        // Refused, for want of memory or of permission, it stays as it is until the queue is longer still.
        let _ = prctl(PR_FUTEX_HASH_SET_SLOTS, wanted.into());
    }
    if wanted == BUCKETS_MAX { u32::MAX } else { now.max(wanted) }
}

// Of linux/prctl.h; the libraries do not have them yet.
const PR_FUTEX_HASH: libc::c_int = 78;
const PR_FUTEX_HASH_SET_SLOTS: libc::c_ulong = 1;
const PR_FUTEX_HASH_GET_SLOTS: libc::c_ulong = 2;

fn prctl(what: libc::c_ulong, argument: libc::c_ulong) -> Option<u32> {
    const NONE: libc::c_ulong = 0;
    // SAFETY: with this option all arguments are numbers, and no memory of ours is read or written. The kernel moves those
    // who sleep to the new hash.
    let answer = unsafe { libc::prctl(PR_FUTEX_HASH, what, argument, NONE, NONE) };
    answer.try_into().ok()
}
