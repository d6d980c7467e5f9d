//! CPU time of the layers that an embedded engine does not have: parsing, optimising, building rows. A server spends it
//! while it holds the slot, and `--statement-work` simulates that.
//!
//! It is a fixed amount of arithmetic, not a wait for a clock: a thread that loses its CPU midway has as much left to
//! do when it runs again.

use std::hint::black_box;
use std::sync::OnceLock;

use super::rng::stream;
use crate::support::clock;

static STEPS_PER_US: OnceLock<u64> = OnceLock::new();

/// Does `work_us` microseconds of work, at the speed measured at the first call.
#[inline]
pub fn burn(work_us: u16) {
    if work_us > 0 {
        steps(*STEPS_PER_US.get_or_init(calibrate) * u64::from(work_us));
    }
}

/// Does `work_ns` nanoseconds of work, as [`burn`] does.
#[inline]
pub fn burn_ns(work_ns: u64) {
    steps(*STEPS_PER_US.get_or_init(calibrate) * work_ns / 1_000);
}

/// Measures the speed now, rather than in the first statement.
pub fn prepare() {
    STEPS_PER_US.get_or_init(calibrate);
}

fn steps(count: u64) {
    let mut rng = stream(1, 2);
    let sum = (0..count).fold(0u64, |sum, _| sum.wrapping_add(rng.next_u64()));
    black_box(sum);
}

/// The best of many short runs: whatever disturbs makes a run slower, never faster.
fn calibrate() -> u64 {
    const STEPS: u64 = 50_000;
    let fastest_ns = (0..50).map(|_| {
        let begun_ns = clock::now_ns();
        steps(STEPS);
        clock::now_ns() - begun_ns
    });
    (STEPS * 1_000 / fastest_ns.min().unwrap_or(1).max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_does_some_work_in_a_microsecond() {
        prepare();
        let per_us = *STEPS_PER_US.get().unwrap();
        assert!((1..100_000).contains(&per_us), "{per_us}");
        burn(0);
        burn(10);
        burn_ns(0);
        burn_ns(1_500);
    }
}
