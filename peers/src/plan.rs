//! The plan: what is measured, in which order.
//!
//! A round is one pass over all numbers of threads and workloads, with the peers interleaved (A B C, then C B A): a
//! temporary slowdown of the machine affects neighbours alike, so figures of one round pair.

use std::time::Duration;

use flifo::commands::common::{turns, without_repeats};
use flifo::support::error::Error;
use flifo::support::size::Bytes;

use crate::args::Args;
use crate::store::{Driver, Durability, Settings};
use crate::stores;
use crate::workload::{ROWS_MIN, Workload};

/// Cache for each row, bytes: 196 of its own, the store's overhead, older versions.
const CACHE_PER_ROW: u64 = 512;
const CACHE_MIN: u64 = 64 << 20;

/// One round of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) workload: Workload,
    pub(crate) threads: u32,
    /// Its place among the plan's peers.
    pub(crate) peer: usize,
    /// Counts from 0.
    pub(crate) round: u32,
}

/// Everything a run measures.
pub(crate) struct Plan {
    pub(crate) peers: Vec<Driver>,
    pub(crate) workloads: Vec<Workload>,
    pub(crate) threads: Vec<u32>,
    pub(crate) rounds: u32,
    pub(crate) time: Duration,
    /// Run before a window is measured.
    pub(crate) warmup: Duration,
    /// For threads that are in a store when their cell is over.
    pub(crate) patience: Duration,
    pub(crate) rows: u64,
    pub(crate) seed: u64,
    pub(crate) settings: Settings,
}

/// A cell that cannot be had, and why.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct LeftOut {
    pub(crate) peer: String,
    /// Workloads, by name.
    pub(crate) workloads: Vec<String>,
    pub(crate) why: String,
}

impl Plan {
    pub(crate) fn new(args: &Args, processors: u32) -> Result<Self, Error> {
        let or = |given: &[Workload], otherwise: &[Workload]| match given.is_empty() {
            true => otherwise.to_vec(),
            false => without_repeats(given),
        };
        let workloads = match args.quick {
            true => or(&args.workloads, &Workload::QUICK),
            false => or(&args.workloads, &Workload::DEFAULT),
        };
        let threads = match (args.threads.is_empty(), args.quick) {
            (false, _) => without_repeats(&args.threads),
            (true, true) => vec![1, 16],
            (true, false) => vec![1, 16, 256, 1024],
        };
        let rows = args.rows.unwrap_or(if args.quick { 100_000 } else { 1_000_000 });
        if rows < ROWS_MIN {
            return Err(Error::Usage(format!(
                "--rows must be at least {ROWS_MIN}, for a range of 1000 rows"
            )));
        }
        let cache_bytes = args.cache.unwrap_or((rows * CACHE_PER_ROW).max(CACHE_MIN));
        if cache_bytes < CACHE_MIN {
            return Err(Error::Usage(format!("--cache must be at least {}", Bytes(CACHE_MIN))));
        }
        let time = Duration::from_secs_f64(args.time.unwrap_or(if args.quick { 0.3 } else { 1.0 }));
        Ok(Plan {
            peers: peers(&args.peers),
            workloads,
            rounds: args.rounds.unwrap_or(if args.quick { 2 } else { 5 }),
            time,
            warmup: (time / 5).max(Duration::from_millis(50)),
            patience: Duration::from_secs_f64(args.patience),
            rows,
            seed: args.seed,
            settings: Settings {
                durability: args.durability,
                cache_bytes,
                threads: threads.iter().copied().max().unwrap_or(1),
                policy: args.policy,
                thread_concurrency: args.thread_concurrency.unwrap_or(2 * processors),
            },
            threads,
        })
    }

    /// All steps in their order.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let loads = self.workloads.contains(&Workload::Load);
        for round in 0..self.rounds {
            let peers = turns(&(0..self.peers.len()).collect::<Vec<_>>(), round);
            if loads {
                steps.extend(peers.iter().map(|&peer| Step {
                    workload: Workload::Load,
                    threads: 1,
                    peer,
                    round,
                }));
            }
            for &threads in &self.threads {
                for &workload in self.workloads.iter().filter(|workload| **workload != Workload::Load) {
                    let step = |peer| Step { workload, threads, peer, round };
                    let can = |peer: &usize| self.left_out(*peer, workload).is_none();
                    steps.extend(peers.iter().copied().filter(can).map(step));
                }
            }
        }
        steps
    }

    /// Why a peer is not measured under a workload. What does not write is, whatever the durability.
    pub(crate) fn left_out(&self, peer: usize, workload: Workload) -> Option<&'static str> {
        let about = self.peers[peer].about;
        let scans = about.no_scans.filter(|_| workload.scans_in_transaction());
        let setting = about.setting(self.settings.durability).err().filter(|_| workload.writes());
        setting.or(scans)
    }

    /// All that is left out.
    pub(crate) fn all_left_out(&self) -> Vec<LeftOut> {
        let mut all: Vec<LeftOut> = Vec::new();
        for (peer, driver) in self.peers.iter().enumerate() {
            for &workload in &self.workloads {
                let Some(why) = self.left_out(peer, workload) else { continue };
                match all.iter_mut().find(|left| left.peer == driver.about.name && left.why == why) {
                    Some(left) => left.workloads.push(workload.to_string()),
                    None => all.push(LeftOut {
                        peer: driver.about.name.into(),
                        workloads: vec![workload.to_string()],
                        why: why.into(),
                    }),
                }
            }
        }
        all
    }

    /// How a peer is opened: with another durability where it is only read.
    pub(crate) fn settings_of(&self, peer: usize) -> Settings {
        let mut settings = self.settings;
        if self.peers[peer].about.setting(settings.durability).is_err() {
            settings.durability = Durability::Synced;
        }
        settings
    }
}

fn peers(names: &[String]) -> Vec<Driver> {
    let is_named = |driver: &&Driver| names.is_empty() || names.iter().any(|name| *name == driver.about.name);
    stores::ALL.iter().filter(is_named).copied().collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn plan(line: &str) -> Plan {
        let args = Args::try_parse_from(["flifo-peers"].into_iter().chain(line.split_whitespace())).unwrap();
        Plan::new(&args, 2).unwrap()
    }

    #[test]
    fn peers_take_turns_at_each_cell_of_a_round() {
        let plan = plan("--peers flifo,lmdb --workloads load,update,point-get --threads 1,4 --rounds 2");
        let steps = plan.steps();
        assert_eq!(steps.len(), 2 * (2 + 2 * 2 * 2));
        let turns: Vec<usize> = steps.iter().map(|step| step.peer).collect();
        assert_eq!(turns, [[0, 1].repeat(5), [1, 0].repeat(5)].concat());
        assert!(steps.iter().filter(|step| step.workload == Workload::Load).all(|step| step.threads == 1));
        assert_eq!((steps[9].round, steps[10].round), (0, 1));
    }

    #[test]
    fn what_has_no_such_setting_is_read_and_not_written() {
        let plan =
            plan("--peers flifo,redb,sled --durability written --workloads point-get,update,read-write");
        let measured = |workload| plan.steps().iter().filter(|step| step.workload == workload).count();
        assert_eq!((measured(Workload::PointGet), measured(Workload::Update)), (3 * 4 * 5, 4 * 5));
        let left_out = plan.all_left_out();
        let of = |peer: &str| {
            left_out.iter().filter(|left| left.peer == peer).flat_map(|left| &left.workloads).count()
        };
        assert_eq!((of("flifo"), of("redb"), of("sled")), (0, 2, 2));
        assert_eq!(plan.settings_of(1).durability, Durability::Synced);
        assert_eq!(plan.settings_of(0).durability, Durability::Written);
    }

    #[test]
    fn no_durability_is_empty() {
        for durability in ["none", "written", "synced"] {
            let plan = plan(&format!("--durability {durability} --workloads update"));
            assert!(plan.steps().iter().any(|step| step.peer == 0), "{durability}");
        }
    }
}
