//! FLIFO against FIFO with the published settings, over 1 to 1024 threads.

use super::scale::{Scale, list};
use super::study::{Part, Study};
use crate::report::experiment::flifo_2009::{NAME, PART};
use crate::results::published::Flifo2009;

pub(super) const STUDY: Study = Study { name: NAME, parts };

/// Threads with --quick.
const QUICK: [u32; 6] = [1, 4, 16, 64, 256, 1024];
/// The kernel mutex of the published server: its default was 20 rounds of spinning.
const SPECIMENS: &str = "none,kernel-mutex:20";

fn parts(scale: Scale<'_>) -> Vec<Part> {
    let published = Flifo2009::load();
    let options = format!(
        "--workload read-only --range-size {} --specimen {SPECIMENS} --policy fifo:{},flifo:{} --tickets 500 \
         --threads {} --flush-log-at-trx-commit 2 --doublewrite off {}",
        scale.rows().min(1_000),
        published.original.limit,
        published.flifo.limit,
        list(&scale.doublings(&QUICK)),
        scale.options([0.6, 3.0, 20.0], [3, 3, 3])
    );
    vec![Part::sweep(PART, options)]
}
