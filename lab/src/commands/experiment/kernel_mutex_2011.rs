//! The kernel mutex: limits by threads, and the rounds of spinning; a live server's limits by threads.

use super::args::{KernelMutexArgs, ServerArgs};
use super::scale::{Scale, list};
use super::study::{self, Part, Study, Subject};
use crate::commands::common::Ended;
use crate::report::experiment::kernel_mutex_2011::{LIMITS, NAME, SERVER, SPINS};
use crate::results::published::kernel_mutex_2011::KernelMutex2011;
use crate::support::error::Error;

pub(super) const STUDY: Study = Study { name: NAME, parts };

/// Threads with --quick.
const QUICK: [u32; 5] = [1, 16, 64, 256, 1024];
/// Threads over which the rounds of spinning are compared.
const SPIN_THREADS: [u32; 5] = [16, 64, 256, 512, 1024];
const QUICK_SPIN_THREADS: [u32; 3] = [16, 256, 1024];

/// Runs `flifo experiment kernel-mutex-2011`.
pub(super) fn run(args: &KernelMutexArgs) -> Result<Ended, Error> {
    let scale = Scale::of(&args.study.scale);
    let mut parts = parts(scale);
    if args.server.target.is_some() {
        parts.push(server_part(scale, &args.server));
    }
    study::run_parts(NAME, parts, &args.study)
}

/// The published limits, without 0 for none.
fn limits() -> String {
    list(&KernelMutex2011::load().at_256_threads.concurrency[1..])
}

/// A live server's own limit, as in the study.
fn server_part(scale: Scale<'_>, server: &ServerArgs) -> Part {
    let options = format!(
        "--workload point-select --policy none,innodb --concurrency {} --threads {} {}",
        limits(),
        list(&scale.doublings(&QUICK)),
        scale.server_options([0.5, 3.0, 20.0], [3, 3, 3])
    );
    Part::of(SERVER, options, Subject::Server(Box::new(server.clone())))
}

fn parts(scale: Scale<'_>) -> Vec<Part> {
    let limits = limits();
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
