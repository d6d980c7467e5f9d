//! The kernel mutex: limits by threads, and the rounds of spinning.

use super::scale::{Scale, list};
use super::study::{Part, Study};
use crate::report::experiment::kernel_mutex_2011::{LIMITS, NAME, SPINS};
use crate::results::published::kernel_mutex_2011::KernelMutex2011;

pub(super) const STUDY: Study = Study { name: NAME, parts };

/// Threads with --quick.
const QUICK: [u32; 5] = [1, 16, 64, 256, 1024];
/// Threads over which the rounds of spinning are compared.
const SPIN_THREADS: [u32; 5] = [16, 64, 256, 512, 1024];
const QUICK_SPIN_THREADS: [u32; 3] = [16, 256, 1024];

fn parts(scale: Scale<'_>) -> Vec<Part> {
    let published = KernelMutex2011::load();
    let limits = list(&published.at_256_threads.concurrency[1..]);
    let common = "--workload point-select --flush-log-at-trx-commit 2";
    let by_limit = format!(
        "{common} --specimen kernel-mutex --policy none,fifo --concurrency {limits} --threads {} {}",
        list(&scale.doublings(&QUICK)),
        scale.options([0.4, 2.0, 20.0], [3, 3, 3])
    );
    let by_spins = format!(
        "{common} --specimen kernel-mutex:0,kernel-mutex:30,kernel-mutex:200,kernel-futex --policy none,fifo:8 \
         --threads {} {}",
        list(&scale.threads(&QUICK_SPIN_THREADS, &SPIN_THREADS)),
        scale.options([0.4, 2.0, 20.0], [3, 3, 3])
    );
    vec![Part::sweep(LIMITS, by_limit), Part::sweep(SPINS, by_spins)]
}
