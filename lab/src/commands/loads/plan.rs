//! The plan of a load: users and settings, interleaved as in a sweep.

use std::time::Duration;

use flifo_admission::{Admission, Config};

use super::args::LoadArgs;
use crate::commands::common::{step_in_words, turns, without_repeats};
use crate::commands::steps::Steps;
use crate::commands::sweep::args::PolicyLimit;
use crate::commands::sweep::plan::settings;
use crate::measure::setting::{Limiter, Setting};
use crate::measure::workload::stream;
use crate::support::error::Error;

/// One round of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Users.
    pub users: u32,
    /// The setting.
    pub setting: Setting,
    /// Counts from 0.
    pub round: u32,
    /// Its place in the round, from 0.
    pub place: u32,
}

impl Step {
    /// The seed of its inputs, which differ at each place of a round.
    pub fn seed(&self, seed: u64) -> u64 {
        stream(seed, 1 << 61 | u64::from(self.place)).next_u64()
    }

    /// A new scheduler with its setting.
    pub(crate) fn admission(&self) -> Result<std::sync::Arc<Admission>, Error> {
        let config = Config {
            policy: self.setting.limiter.policy(),
            thread_concurrency: self.setting.concurrency,
            ..Config::default()
        };
        Admission::new(config).map_err(|error| Error::Usage(error.to_string()))
    }
}

/// Everything a run measures.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The workload's name.
    pub workload: &'static str,
    /// Numbers of users, in the order in which they are measured.
    pub users: Vec<u32>,
    /// Settings, in the order of the first round.
    pub settings: Vec<Setting>,
    /// Rounds.
    pub rounds: u32,
    /// Measured time per step.
    pub time: Duration,
    /// Load before each window.
    pub settle: Duration,
}

impl Plan {
    /// The plan of a command line.
    pub fn new(workload: &'static str, args: &LoadArgs) -> Result<Self, Error> {
        if args.target.is_none() {
            check_engine(args)?;
        }
        let policies: Vec<PolicyLimit> = args
            .policy
            .iter()
            .map(|&policy| PolicyLimit { policy: Limiter::Flifo(policy), limit: None })
            .collect();
        Ok(Plan {
            workload,
            users: without_repeats(&args.users),
            settings: settings(&policies, &args.concurrency, &[true]),
            rounds: args.rounds,
            time: Duration::from_secs_f64(args.time),
            settle: Duration::from_secs_f64(args.warmup),
        })
    }

    /// All steps in their order: the settings in turn at each number of users.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::with_capacity(self.steps_total());
        for round in 0..self.rounds {
            let mut place = 0;
            for &users in &self.users {
                for setting in turns(&self.settings, round) {
                    steps.push(Step { users, setting, round, place });
                    place += 1;
                }
            }
        }
        steps
    }

    /// The number of all steps.
    pub fn steps_total(&self) -> usize {
        self.users.len() * self.settings.len() * self.rounds as usize
    }

    /// The highest number of users.
    pub fn users_max(&self) -> u32 {
        self.users.iter().copied().max().unwrap_or(0)
    }
}

impl Steps for Plan {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        Plan::steps(self)
    }

    fn step_time(&self) -> Duration {
        self.settle + self.time
    }

    fn rounds(&self) -> u32 {
        self.rounds
    }

    fn round_of(step: &Step) -> u32 {
        step.round
    }

    fn described(&self, step: &Step) -> String {
        let what = format!("{} {}", self.workload, step.setting.policy_name());
        step_in_words(&what, step.setting.concurrency, (step.users, "user"), (step.round, self.rounds))
    }
}

/// What the embedded engine cannot do.
fn check_engine(args: &LoadArgs) -> Result<(), Error> {
    if args.concurrency.contains(&0) {
        return Err(Error::Usage("--concurrency auto needs a server (--target)".into()));
    }
    // Not clap's `requires`, which is ignored next to an option that excludes --target.
    let of_servers = [
        ("--admin-target", args.admin_target.is_some()),
        ("--protocol", args.protocol.is_some()),
        ("--allow-remote", args.allow_remote),
    ];
    let given = of_servers.iter().filter(|(_, is_given)| *is_given).map(|(option, _)| *option);
    match given.chain(args.tls.given()).next() {
        Some(option) => Err(Error::Usage(format!("{option} is for a server: add --target, or leave it out"))),
        None => Ok(()),
    }
}
