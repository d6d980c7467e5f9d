//! Limits by threads, read only and read write, with one rollback segment and with 128.

use super::scale::{Scale, list};
use super::study::{Part, Study, Subject, Sweep, Work, half_of_the_cpus};
use crate::report::experiment::thread_concurrency_2009::{HALF_CPUS, NAME, ONE_SEGMENT, SPLIT};

pub(super) const STUDY: Study = Study { name: NAME, parts };

/// The published limits, and smaller ones, since a machine with fewer CPUs may have its optimum there.
const LIMITS: [u32; 7] = [1, 2, 4, 8, 16, 24, 32];
const QUICK_LIMITS: [u32; 5] = [2, 4, 8, 16, 32];
const THREADS: [u32; 6] = [1, 8, 32, 64, 128, 256];
const QUICK: [u32; 3] = [16, 64, 256];

fn parts(scale: Scale<'_>) -> Vec<Part> {
    let options = |threads: &[u32]| {
        format!(
            "--workload read-only,read-write --policy none,fifo --concurrency {} --threads {} \
             --flush-log-at-trx-commit 2 {}",
            list(scale.pick(&QUICK_LIMITS[..], &LIMITS, &LIMITS)),
            list(threads),
            scale.options([0.3, 1.0, 10.0], [2, 3, 3])
        )
    };
    let threads = scale.threads(&QUICK, &THREADS);
    let sweep = |rollback_segments, cpus, threads: &[u32]| {
        let subject = Subject::Engine { rollback_segments };
        Work::Sweep(Sweep { options: options(threads), subject, cpus })
    };
    let mut parts = vec![
        Part { name: ONE_SEGMENT.into(), work: sweep(1, None, &threads) },
        Part { name: SPLIT.into(), work: sweep(128, None, &threads) },
    ];
    // The optimum with most threads is what is compared.
    let most = threads.iter().copied().max().into_iter().collect::<Vec<_>>();
    let half = half_of_the_cpus().filter(|_| scale.pick(false, true, true));
    parts.extend(half.map(|cpus| Part { name: HALF_CPUS.into(), work: sweep(128, Some(cpus), &most) }));
    parts
}
