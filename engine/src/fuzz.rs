//! Fuzz targets (`engine/fuzz`, `make fuzz`): every parser of data that comes from a disk, run on arbitrary bytes.
//!
//! A target panics where a parser does, and where an input that the parser accepted breaks a rule that later code
//! relies on. Each target is in the module of its format, with seed inputs. The tests here run all targets on the seeds and on
//! random changes of them, so that targets and code stay in step.

pub(crate) mod input;

pub use crate::db::fuzz::catalog;
pub use crate::db::live::fuzz::live;
pub use crate::disk::fuzz::state;
pub use crate::page::fuzz::page;
pub use crate::redo::fuzz::log;
pub use crate::txn::fuzz::undo;

/// A parser under test.
pub struct Target {
    /// The name that `cargo fuzz run` takes.
    pub name: &'static str,
    /// Runs the parser on arbitrary bytes.
    pub run: fn(&[u8]),
    /// Inputs that reach deep into the parser.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: [Target; 6] = [
    Target { name: "page", run: page, seeds: crate::page::fuzz::seeds },
    Target { name: "log", run: log, seeds: crate::redo::fuzz::seeds },
    Target { name: "catalog", run: catalog, seeds: crate::db::fuzz::seeds },
    Target { name: "live", run: live, seeds: crate::db::live::fuzz::seeds },
    Target { name: "undo", run: undo, seeds: crate::txn::fuzz::seeds },
    Target { name: "state", run: state, seeds: crate::disk::fuzz::seeds },
];

#[cfg(test)]
mod tests {
    use rand_xoshiro::SplitMix64;
    use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

    use super::*;

    /// Cut off, bytes changed, a piece repeated or left out.
    fn change(input: &mut Vec<u8>, random: &mut SplitMix64) {
        for _ in 0..1 + random.next_u64() % 4 {
            let at = (random.next_u64() % (input.len() as u64 + 1)) as usize;
            let end = input.len().min(at + 1 + (random.next_u64() % 40) as usize);
            match random.next_u64() % 8 {
                0 => input.truncate(at),
                1 => input.extend_from_within(at..end),
                2 => drop(input.drain(at..end)),
                _ => {
                    if let Some(byte) = input.get_mut(at) {
                        *byte = if random.next_u64().is_multiple_of(2) {
                            random.next_u64() as u8
                        } else {
                            *byte ^ 1 << (at % 8)
                        };
                    }
                }
            }
        }
    }

    /// The seeds of a target, and what random changes make of them.
    fn eats(name: &str) {
        let target = TARGETS.into_iter().find(|target| target.name == name).expect("there is such a target");
        let inputs = if cfg!(miri) { 10 } else { 1000 };
        let (seeds, mut random) = ((target.seeds)(), SplitMix64::seed_from_u64(1));
        (target.run)(&[]);
        seeds.iter().for_each(|seed| (target.run)(seed));
        for n in 0..inputs {
            let mut input = seeds[n % seeds.len()].clone();
            change(&mut input, &mut random);
            (target.run)(&input);
        }
    }

    #[test]
    fn any_page_and_records_are_eaten() {
        eats("page");
    }

    #[test]
    fn any_log_is_eaten() {
        eats("log");
    }

    #[test]
    fn any_row_of_the_catalog_is_eaten() {
        eats("catalog");
    }

    #[test]
    fn any_version_and_undo_record_is_eaten() {
        eats("undo");
    }

    #[test]
    fn any_live_counters_are_eaten() {
        eats("live");
    }

    #[test]
    fn any_state_is_eaten() {
        eats("state");
    }
}
