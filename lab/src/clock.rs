//! Time as the lab measures it: nanoseconds of the monotonic clock, comparable between threads.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Now. Some 25 ns by way of the vDSO.
#[inline]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A duration in nanoseconds; beyond 584 years it is 584 years.
pub fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
