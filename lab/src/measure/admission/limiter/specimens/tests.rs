//! What all specimens hold: no more inside than they say, and no lost wake-up.

use std::sync::Mutex;
use std::thread;

use flifo_admission::WaitKind;
use flifo_base::lock;

use super::*;
use crate::measure::admission::limiter::{Counted, Running};

const THREADS: u32 = 24;
const LIMIT: u32 = 3;

/// Many threads enter and exit `statements` times, with waits inside if `waits`. Returns the most that were inside at a
/// time.
///
/// A lost wake-up leaves a thread asleep, and the test hangs.
fn storm(gate: &Arc<dyn SpecimenGate>, statements: u32, waits: bool) -> u32 {
    let running = Running::default();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (gate, running) = (Arc::clone(gate), &running);
            scope.spawn(move || {
                let limiter = gate.limiter();
                let limiter = Counted { limiter: &limiter, running };
                for statement in 0..statements {
                    limiter.enter();
                    if (thread + statement) % 3 == 0 {
                        thread::yield_now();
                    }
                    if waits && (thread + statement) % 2 == 0 {
                        limiter.wait_begin(WaitKind::Disk);
                        thread::yield_now();
                        limiter.wait_end(WaitKind::Disk);
                    }
                    limiter.exit();
                }
            });
        }
    });
    running.most()
}

/// Few for `sleep`, which polls every 10 ms at first.
fn statements(specimen: Specimen) -> u32 {
    if specimen == Specimen::Sleep { 10 } else { 300 }
}

/// The most that may be inside at a time.
fn most_allowed(specimen: Specimen, limit: u32) -> u32 {
    // Newcomers may run beside threads that were woken and do not run yet.
    if specimen == Specimen::Lease { 2 * limit } else { limit }
}

#[test]
fn no_more_are_inside_than_the_limit_allows() {
    for specimen in Specimen::ALL {
        for limit in [1, LIMIT] {
            let most = storm(&specimen.gate(limit), statements(specimen), false);
            assert!(most <= most_allowed(specimen, limit), "{}: {most} of {limit}", specimen.name());
        }
    }
}

#[test]
fn every_slot_is_free_after_a_storm_with_waits() {
    for specimen in Specimen::ALL {
        let gate = specimen.gate(LIMIT);
        storm(&gate, statements(specimen), true);
        let limiter = gate.limiter();
        (0..LIMIT).for_each(|_| limiter.enter());
    }
}

/// The order in which three threads enter that queued one after the other, while the limit is 1.
fn served<G: SpecimenGate + 'static>(gate: G, waiting: impl Fn(&G) -> usize) -> Vec<usize> {
    let (gate, served) = (Arc::new(gate), Mutex::new(Vec::new()));
    let first = Arc::clone(&gate).limiter();
    first.enter();
    thread::scope(|scope| {
        for thread in 0..3 {
            let (of_thread, served) = (Arc::clone(&gate), &served);
            scope.spawn(move || {
                let limiter = of_thread.limiter();
                limiter.enter();
                lock(served).push(thread);
                limiter.exit();
            });
            while waiting(&gate) <= thread {
                thread::yield_now();
            }
        }
        first.exit();
    });
    served.into_inner().unwrap()
}

#[test]
fn lifo_serves_the_youngest_first_and_the_others_the_oldest() {
    assert_eq!(served(lifo::Gate::new(1), lifo::Gate::waiting), [2, 1, 0]);
    assert_eq!(served(lease::Gate::new(1), lease::Gate::waiting), [0, 1, 2]);
    assert_eq!(served(summon::Gate::new(1), summon::Gate::waiting), [0, 1, 2]);
}

#[test]
fn broadcast_and_sleep_serve_everyone_in_any_order() {
    for mut order in [
        served(broadcast::Gate::new(1), broadcast::Gate::waiting),
        served(sleep::Gate::new(1), sleep::Gate::waiting),
    ] {
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2]);
    }
}
