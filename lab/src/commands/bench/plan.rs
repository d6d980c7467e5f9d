//! What is measured, in which order.
//!
//! A round is one pass over everything: numbers of threads, loads, and at each the variants, interleaved (A B C, then
//! C B A). What slows the machine for a while slows neighbours alike, so figures of one round can be paired.

use std::time::Duration;

use flifo_admission::{Config, Policy};

use super::args::{AdmissionArgs, expand};
use crate::commands::common::{turns, without_repeats};
use crate::measure::admission::limiter::{Peer, Specimen, Variant};
use crate::measure::admission::load::Load;
use crate::support::error::Error;

/// One curve: a variant and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The variant.
    pub variant: Variant,
    /// The limit; 0 for a variant without a limit.
    pub concurrency: u32,
}

/// One round of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Competing threads.
    pub threads: u32,
    /// Their load.
    pub load: Load,
    /// The variant and its limit.
    pub setting: Setting,
    /// Counts from 0.
    pub round: u32,
}

/// Everything a run measures.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Numbers of threads, in the order in which they are measured.
    pub threads: Vec<u32>,
    /// Loads.
    pub loads: Vec<Load>,
    /// Variants with their limits, in the order of the first round.
    pub settings: Vec<Setting>,
    /// Rounds.
    pub rounds: u32,
    /// Measured time per step.
    pub time: Duration,
    /// Warm-up time of a step.
    pub settle: Duration,
    /// As `settle`, for an adaptive limit.
    pub search: Duration,
    /// Seed of the threads' random choices.
    pub seed: u64,
    /// Waiters for row locks above which our scheduler admits fewer; 0: unlimited.
    pub lock_waiters_max: u32,
    /// A thread's time slice under `quantum`.
    pub quantum: Duration,
    /// Whether to count running threads.
    pub verify: bool,
}

const LOADS: [Load; 6] =
    [Load::Work(2), Load::Work(20), Load::ContendedMutex, Load::Socket, Load::HotRow, Load::Disk];
const QUICK_LOADS: [Load; 3] = [Load::Work(20), Load::ContendedMutex, Load::HotRow];
const THREADS: [u32; 4] = [16, 256, 1024, 4096];
const QUICK_THREADS: [u32; 2] = [16, 1024];
/// Measured by default. `none` is already a peer; of the specimens only InnoDB's policy.
const POLICIES: [Variant; 4] = [
    Variant::Policy(Policy::Fifo),
    Variant::Policy(Policy::Flifo),
    Variant::Policy(Policy::Quantum),
    Variant::Specimen(Specimen::Sleep),
];

/// The load before an adaptive limit is measured.
const SEARCH: Duration = Duration::from_secs(8);

impl Plan {
    /// The plan of a command line, on a machine with `cpus` CPUs.
    pub fn new(args: &AdmissionArgs, cpus: u32) -> Result<Self, Error> {
        fn or<T: Copy>(given: Vec<T>, full: &[T], quick: &[T], is_quick: bool) -> Vec<T> {
            match (given.is_empty(), is_quick) {
                (true, true) => quick.to_vec(),
                (true, false) => full.to_vec(),
                (false, _) => given,
            }
        }
        let (mut policies, mut peers) = (expand(&args.policy), expand(&args.peer));
        let limits: Vec<Option<u32>> = args.concurrency.iter().map(|limit| limit.threads(cpus)).collect();
        check_limits(&policies, &peers, &limits)?;
        if policies.is_empty() {
            policies = POLICIES.to_vec();
        }
        if peers.is_empty() {
            peers = Peer::ALL.to_vec();
        }
        let time = Duration::from_secs_f64(args.time.unwrap_or(if args.quick { 0.15 } else { 0.4 }));
        Ok(Plan {
            threads: without_repeats(&or(args.threads.clone(), &THREADS, &QUICK_THREADS, args.quick)),
            loads: without_repeats(&or(expand(&args.load), &LOADS, &QUICK_LOADS, args.quick)),
            settings: settings(&policies, &peers, &limits),
            rounds: args.rounds.unwrap_or(if args.quick { 2 } else { 3 }),
            time,
            // All threads ask at the same moment: the burst must have passed before anything is measured.
            settle: (time / 4).clamp(Duration::from_millis(50), Duration::from_millis(500)),
            search: SEARCH,
            seed: args.seed,
            lock_waiters_max: args.lock_waiters.unwrap_or_else(|| Config::default().lock_waiters_max),
            quantum: Duration::from_micros(args.quantum),
            verify: args.verify,
        })
    }

    /// All steps in their order.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::with_capacity(self.steps_total());
        for round in 0..self.rounds {
            for &threads in &self.threads {
                for &load in &self.loads {
                    let step = |setting| Step { threads, load, setting, round };
                    steps.extend(turns(&self.settings, round).into_iter().map(step));
                }
            }
        }
        steps
    }

    /// Warm-up time of a step.
    pub fn settle(&self, step: &Step) -> Duration {
        if step.setting.variant == Variant::Auto { self.search } else { self.settle }
    }

    /// The number of all steps.
    pub fn steps_total(&self) -> usize {
        self.threads.len() * self.loads.len() * self.settings.len() * self.rounds as usize
    }

    /// The highest number of threads.
    pub fn threads_max(&self) -> u32 {
        self.threads.iter().copied().max().unwrap_or(0)
    }
}

fn variants(policies: &[Variant], peers: &[Peer]) -> Vec<Variant> {
    policies.iter().copied().chain(peers.iter().map(|peer| Variant::Peer(*peer))).collect()
}

/// Refuses a variant that was named but has no limit to be measured with.
fn check_limits(policies: &[Variant], peers: &[Peer], limits: &[Option<u32>]) -> Result<(), Error> {
    let is_left_out = |one: &Variant| one.is_limited() && *one != Variant::Policy(Policy::Quantum);
    match variants(policies, peers).into_iter().find(is_left_out) {
        Some(variant) if limits.iter().all(Option::is_none) => Err(Error::Usage(format!(
            "--concurrency auto is measured under quantum alone, and {} needs a limit: add one, as in --concurrency auto,2xcores",
            variant.name()
        ))),
        _ => Ok(()),
    }
}

/// A variant without a limit comes once, at the end.
fn settings(policies: &[Variant], peers: &[Peer], limits: &[Option<u32>]) -> Vec<Setting> {
    let variants = variants(policies, peers);
    let mut settings = Vec::new();
    for &concurrency in limits.iter().flatten() {
        let limited = variants.iter().filter(|variant| variant.is_limited());
        settings.extend(limited.map(|&variant| Setting { variant, concurrency }));
    }
    if limits.contains(&None) {
        settings.push(Setting { variant: Variant::Auto, concurrency: 0 });
    }
    let unlimited = variants.iter().filter(|variant| !variant.is_limited());
    settings.extend(unlimited.map(|&variant| Setting { variant, concurrency: 0 }));
    without_repeats(&settings)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::commands::bench::args::BenchCommand;
    use crate::commands::cli::{Cli, Command};

    fn plan(line: &str) -> Plan {
        let words = ["flifo", "bench", "admission"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words).unwrap().command {
            Command::Bench { what: BenchCommand::Admission(args) } => Plan::new(&args, 2).unwrap(),
            _ => unreachable!("bench was given"),
        }
    }

    #[test]
    fn variants_alternate_within_a_round() {
        let plan = plan("--load empty,disk --threads 1,8 --policy fifo --peer futex,none --rounds 2");
        let order: Vec<(u32, u32, &str, &str)> = plan
            .steps()
            .iter()
            .map(|s| (s.round, s.threads, s.load.name(), s.setting.variant.name()))
            .collect();
        let mut expected = Vec::new();
        for (round, turns) in [(0, ["fifo", "futex", "none"]), (1, ["none", "futex", "fifo"])] {
            for threads in [1, 8] {
                for load in ["empty", "disk"] {
                    expected.extend(turns.map(|who| (round, threads, load, who)));
                }
            }
        }
        assert_eq!(order, expected);
        assert_eq!(plan.steps_total(), order.len());
    }

    #[test]
    fn the_default_ends_within_ten_minutes_and_quick_within_one() {
        let measured = |plan: &Plan| (plan.time + plan.settle) * plan.steps_total() as u32;
        // Nine variants; starting and ending threads takes a quarter more.
        let full = plan("");
        let per_variant = measured(&full) / full.settings.len() as u32;
        assert!(per_variant * 9 < Duration::from_secs(420), "{per_variant:?}");
        let quick = plan("--quick");
        assert!(measured(&quick) / quick.settings.len() as u32 * 9 < Duration::from_secs(35));
        assert_eq!((full.threads_max(), full.rounds, quick.rounds), (4096, 3, 2));
    }

    #[test]
    fn the_documented_load_before_a_window_is_what_is_run() {
        let plan = plan("--concurrency auto,2 --policy fifo --peer tokio");
        let before: Vec<Duration> = plan.steps().iter().map(|step| plan.settle(step)).collect();
        assert!(before.contains(&plan.settle) && before.contains(&SEARCH));
        let expected = format!("a cell whose `policy` is `auto` has {} s", SEARCH.as_secs());
        assert!(include_str!("../../../../docs/results.md").contains(&expected), "{expected}");
    }

    #[test]
    fn a_variant_without_a_limit_comes_once() {
        let plan = plan("--policy none,fifo --peer none,tokio --concurrency cores,8,2");
        let of = |variant| plan.settings.iter().filter(|s| s.variant == variant).count();
        assert_eq!(of(Variant::Policy(Policy::None)), 1);
        assert_eq!(of(Variant::Peer(Peer::None)), 1);
        // cores is 2 here.
        assert_eq!(of(Variant::Policy(Policy::Fifo)), 2);
        assert_eq!(of(Variant::Peer(Peer::Tokio)), 2);
    }

    #[test]
    fn the_named_variants_are_measured() {
        let names = |line| plan(line).settings.iter().map(|s| s.variant.name()).collect::<Vec<_>>();
        assert_eq!(names("--concurrency auto"), ["auto", "none"]);
        assert_eq!(names("--concurrency auto --policy quantum,none --peer none"), ["auto", "none", "none"]);
        assert_eq!(names("--concurrency auto,2 --policy fifo --peer tokio"), ["fifo", "tokio", "auto"]);
        assert_eq!(plan("").settings.len(), 4 + 5);
        assert_eq!(names("--policy lifo,broadcast,sleep,lease,summon --peer none").len(), 5 + 1);
        assert_eq!(plan("--policy all --peer none").settings.len(), 9 + 1);
    }

    #[test]
    fn repeats_are_measured_once_and_order_is_kept() {
        let plan = plan("--threads 8,1,8 --load disk,empty,disk --peer futex --policy fifo,fifo");
        assert_eq!((plan.threads, plan.loads), (vec![8, 1], vec![Load::Disk, Load::Empty]));
        assert_eq!(plan.settings.len(), 2);
    }
}
