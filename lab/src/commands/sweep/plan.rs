//! The plan: what is measured, in which order.
//!
//! A round is one pass over everything: all numbers of connections, and at each the settings in turn
//! (A B C, then C B A). What slows the machine for a while slows neighbours alike, so that figures of one round
//! can be paired, also across numbers of connections.

use std::time::Duration;

use flifo_admission::{Config, Policy, WaitKind, WaitMask};

use super::args::{PolicyLimit, SweepArgs, TABLE_SIZE};
use crate::commands::common::{step_in_words, turns, without_repeats};
use crate::commands::steps::Steps;
use crate::measure::setting::{Limiter, Setting};
use crate::measure::workload::kernel::Specimen;
use crate::measure::workload::{Workload, stream};
use crate::support::error::Error;

/// One round of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Connections.
    pub threads: u32,
    /// The workload.
    pub workload: Workload,
    /// What the server's side does in addition.
    pub specimen: Option<Specimen>,
    /// The setting.
    pub setting: Setting,
    /// Counts from 0.
    pub round: u32,
    /// Its place in the round, from 0.
    pub place: u32,
}

impl Step {
    /// The seed of its statements: it differs at each position of a round, so that a step does not find the keys in
    /// memory that the step before has read.
    pub fn seed(&self, seed: u64) -> u64 {
        stream(seed, 1 << 62 | u64::from(self.place)).next_u64()
    }
}

/// Everything a sweep measures.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Numbers of connections, in the order in which they are measured.
    pub threads: Vec<u32>,
    /// Workloads.
    pub workloads: Vec<Workload>,
    /// Each workload with what the server's side does in addition, in the order in which they are measured.
    pub loads: Vec<(Workload, Option<Specimen>)>,
    /// Settings, in the order of the first round.
    pub settings: Vec<Setting>,
    /// Engine entries on one slot.
    pub tickets: u32,
    /// A session's time slice under `quantum`.
    pub quantum: Duration,
    /// Rounds.
    pub rounds: u32,
    /// Measured time per step.
    pub time: Duration,
    /// Warm-up time of a step.
    pub settle: Duration,
    /// Rows of a range, if given; the default for read-only is 1000, or the table's size if that is less.
    pub range_size: u32,
    /// Rows of a range of read-write, whose default is sysbench's, smaller one.
    pub read_write_range_size: u32,
    /// CPU time of a statement in addition to the engine's, microseconds.
    pub statement_work_us: u16,
}

/// Default rows of a range.
const RANGE_SIZE: u32 = 1_000;
const READ_WRITE_RANGE_SIZE: u32 = 100;
/// Rows of the workload that collapses, in a sweep without a choice.
const HOT_ROWS: u32 = 100;
const QUICK_THREADS: [u32; 5] = [1, 4, 16, 128, 1024];

impl Plan {
    /// The plan of a command line.
    pub fn new(args: &SweepArgs) -> Result<Self, Error> {
        let doublings = || (0..=10).map(|power| 1 << power).collect();
        let threads = match (&args.threads[..], args.quick) {
            ([], true) => QUICK_THREADS.to_vec(),
            ([], false) => doublings(),
            (given, _) => without_repeats(given),
        };
        match args.target {
            None => check_engine(args)?,
            Some(_) => check_server(args)?,
        }
        let time = Duration::from_secs_f64(args.time.unwrap_or(match (args.target.is_some(), args.quick) {
            (false, true) => 0.2,
            (false, false) => 1.0,
            (true, true) => 1.0,
            (true, false) => 5.0,
        }));
        // The start is a burst, which must have passed before anything is measured. Where it ends in a collapse
        // it takes seconds to pass.
        let settle = match args.warmup {
            Some(seconds) => Duration::from_secs_f64(seconds),
            None if args.target.is_some() => {
                (time / 2).clamp(Duration::from_millis(300), Duration::from_secs(3))
            }
            None => (time / 8).clamp(Duration::from_millis(100), Duration::from_millis(500)),
        };
        let loads = loads(args);
        let workloads: Vec<Workload> = loads.iter().map(|(workload, _)| *workload).collect();
        let plan = Plan {
            threads,
            workloads: without_repeats(&workloads),
            loads,
            settings: settings(&args.policy, &args.concurrency, &args.leave_on_read),
            tickets: args.tickets,
            quantum: Duration::from_micros(args.quantum),
            rounds: args.rounds,
            time,
            settle,
            range_size: args.range_size.unwrap_or(RANGE_SIZE),
            read_write_range_size: args.range_size.unwrap_or(READ_WRITE_RANGE_SIZE),
            statement_work_us: args.statement_work,
        };
        // The size of a table that a server has already is known later.
        match args.table_size.or(args.target.is_none().then_some(TABLE_SIZE)) {
            Some(rows) => plan.fitted(rows, args.range_size.is_some()),
            None => Ok(plan),
        }
    }

    /// The plan for a table of `rows` rows.
    pub fn fitted(mut self, rows: u32, is_range_given: bool) -> Result<Self, Error> {
        if is_range_given && self.range_size > rows {
            return Err(Error::Usage(format!(
                "a range of {} rows does not fit a table of {rows}; use a smaller --range-size",
                self.range_size
            )));
        }
        self.range_size = self.range_size.min(rows);
        self.read_write_range_size = self.read_write_range_size.min(rows);
        let hot = |workload: &Workload| matches!(workload, Workload::HotRows(hot) | Workload::HotTransaction(hot) if *hot > rows);
        match self.workloads.iter().find(|workload| hot(workload)) {
            Some(workload) => Err(Error::Usage(format!("{workload} does not fit a table of {rows} rows"))),
            None => Ok(self),
        }
    }

    /// Rows of a range in a workload.
    pub fn range_of(&self, workload: Workload) -> u32 {
        if workload == Workload::ReadWrite { self.read_write_range_size } else { self.range_size }
    }

    /// All steps in their order.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::with_capacity(self.steps_total());
        for round in 0..self.rounds {
            let mut place = 0;
            for &threads in &self.threads {
                for &(workload, specimen) in &self.loads {
                    for setting in turns(&self.settings, round) {
                        steps.push(Step { threads, workload, specimen, setting, round, place });
                        place += 1;
                    }
                }
            }
        }
        steps
    }

    /// The number of all steps.
    pub fn steps_total(&self) -> usize {
        self.threads.len() * self.loads.len() * self.settings.len() * self.rounds as usize
    }

    /// The highest number of connections.
    pub fn threads_max(&self) -> u32 {
        self.threads.iter().copied().max().unwrap_or(0)
    }

    /// A scheduler's configuration for the setting.
    pub fn admission(&self, setting: &Setting) -> Config {
        let all = WaitMask::ALL;
        Config {
            policy: setting.limiter.policy(),
            thread_concurrency: setting.concurrency,
            concurrency_tickets: self.tickets,
            quantum: self.quantum,
            wait_mask: if setting.leave_on_read { all } else { all.without(WaitKind::Disk) },
            ..Config::default()
        }
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
        let specimen = step.specimen.map_or(String::new(), |specimen| format!(", {specimen}"));
        let what = format!("{}{specimen} {}", step.workload, step.setting.policy_name());
        let connections = (step.threads, "connection");
        step_in_words(&what, step.setting.concurrency, connections, (step.round, self.rounds))
    }
}

/// What the embedded engine cannot do.
fn check_engine(args: &SweepArgs) -> Result<(), Error> {
    if args.policy.iter().any(|policy| policy.policy == Limiter::Innodb) {
        return Err(Error::Usage(
            "policy innodb is a server's own limit: add --target, or leave it out".into(),
        ));
    }
    if args.concurrency.contains(&0) || args.policy.iter().any(|policy| policy.limit == Some(0)) {
        return Err(Error::Usage(
            "--concurrency auto needs a server (--target); for the scheduler alone: flifo bench admission"
                .into(),
        ));
    }
    // Not clap's `requires`, which is ignored next to an option that excludes --target.
    let of_servers = [
        ("--admin-target", args.admin_target.is_some()),
        ("--protocol", args.protocol.is_some()),
        ("--client-threads", args.client_threads.is_some()),
        ("--allow-remote", args.allow_remote),
    ];
    let given = of_servers.iter().filter(|(_, is_given)| *is_given).map(|(option, _)| *option);
    match given.chain(args.tls.given()).next() {
        Some(option) => Err(Error::Usage(format!("{option} is for a server: add --target, or leave it out"))),
        None => Ok(()),
    }
}

/// Refuses options that do not apply to a server.
fn check_server(args: &SweepArgs) -> Result<(), Error> {
    let is_known = |workload: &&Workload| {
        !matches!(workload, Workload::Insert | Workload::HotTransaction(_) | Workload::Ycsb(_))
    };
    match args.workload.iter().find(|workload| !is_known(workload)) {
        Some(workload) => Err(Error::Usage(format!(
            "{workload} is for the embedded engine, not for a server (--target), so far: leave one of them out"
        ))),
        None if args.policy.iter().any(|policy| policy.policy == Limiter::Innodb)
            && args.concurrency.iter().all(|limit| *limit == 0) =>
        {
            Err(Error::Usage("InnoDB's limit is a number: add one to --concurrency for policy innodb".into()))
        }
        None => Ok(()),
    }
}

/// Every workload without and with every specimen. Without a choice the sweep shows both sides: a load that needs no
/// limit, and transactions on hot rows, which collapse without.
fn loads(args: &SweepArgs) -> Vec<(Workload, Option<Specimen>)> {
    let workloads = match &args.workload[..] {
        [] if args.is_default_load() => {
            let rows = args.table_size.unwrap_or(TABLE_SIZE).min(HOT_ROWS);
            return vec![(Workload::PointSelect, None), (Workload::HotTransaction(rows), None)];
        }
        [] => vec![Workload::PointSelect],
        given => without_repeats(given),
    };
    let specimens: Vec<Option<Specimen>> = match &args.specimen[..] {
        [] => vec![None],
        given => given.iter().map(|specimen| specimen.0).collect(),
    };
    let specimens = without_repeats(&specimens);
    let with = |workload| specimens.iter().map(move |specimen| (workload, *specimen));
    workloads.into_iter().flat_map(with).collect()
}

/// Policy none has no limit and no slot to release: it comes once. InnoDB's own limit is not adaptive. A policy with a limit
/// of its own has that one.
pub(crate) fn settings(policies: &[PolicyLimit], limits: &[u32], leave_on_read: &[bool]) -> Vec<Setting> {
    let mut settings = Vec::new();
    for &PolicyLimit { policy: limiter, limit } in policies {
        let own = limit.map(|limit| [limit]);
        for &concurrency in own.as_ref().map_or(limits, |own| &own[..]) {
            for &leave_on_read in leave_on_read {
                match limiter {
                    Limiter::Flifo(Policy::None) => {
                        settings.push(Setting { limiter, concurrency: 0, leave_on_read: true });
                    }
                    Limiter::Innodb if concurrency == 0 => {}
                    _ => settings.push(Setting { limiter, concurrency, leave_on_read }),
                }
            }
        }
    }
    without_repeats(&settings)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::commands::cli::{Cli, Command};
    use crate::golden::Cases;

    fn plan(line: &str) -> Result<Plan, Error> {
        let words = ["flifo", "sweep"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words).unwrap().command {
            Command::Sweep(args) => Plan::new(&args),
            _ => unreachable!("sweep was given"),
        }
    }

    #[test]
    fn a_round_is_one_pass_over_everything() {
        let plan = plan("--threads 1,8 --workload point-select --policy none,flifo --rounds 2").unwrap();
        let order: Vec<(u32, u32, &str)> =
            plan.steps().iter().map(|step| (step.round, step.threads, step.setting.limiter.name())).collect();
        let round = |n, a, b| [(n, 1, a), (n, 1, b), (n, 8, a), (n, 8, b)];
        assert_eq!(order, [round(0, "none", "flifo"), round(1, "flifo", "none")].concat());
        assert_eq!(plan.steps_total(), order.len());
    }

    #[test]
    fn no_step_of_a_round_asks_for_the_keys_of_another() {
        let plan = plan("--threads 1,8 --workload point-select,read-only --policy none,fifo,flifo").unwrap();
        let seeds = |seed| plan.steps().iter().map(|step| step.seed(seed)).collect::<Vec<_>>();
        let (round, of_all) = (plan.steps_total() / 3, seeds(1));
        for round in of_all.chunks(round) {
            assert_eq!(round.iter().collect::<std::collections::BTreeSet<_>>().len(), 12);
        }
        assert_eq!(of_all, seeds(1), "the same seed, the same statements");
        assert_ne!(of_all, seeds(2));
    }

    #[test]
    fn the_default_is_the_published_sweep() {
        let plan = plan("").unwrap();
        assert_eq!(plan.threads, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]);
        assert_eq!((plan.rounds, plan.tickets, plan.range_size), (3, 500, 1000));
        // What is measured leaves a minute of five for the load and the rest.
        let measured = (plan.time + plan.settle) * plan.steps_total() as u32;
        assert!(measured < Duration::from_secs(240), "{measured:?}");
    }

    #[test]
    fn quick_leaves_a_third_of_its_time_for_the_load() {
        let plan = plan("--quick").unwrap();
        assert!((plan.time + plan.settle) * (plan.steps_total() as u32) < Duration::from_secs(30));
        assert!(plan.rounds >= 3 && plan.threads_max() == 1024);
    }

    #[test]
    fn policy_none_comes_once_whatever_the_limits() {
        let plan = plan("--policy none,flifo --concurrency 2,4 --leave-on-read yes,no").unwrap();
        let of = |policy| plan.settings.iter().filter(|s| s.limiter == Limiter::Flifo(policy)).count();
        assert_eq!((of(Policy::None), of(Policy::Flifo)), (1, 4));
    }

    #[test]
    fn a_policy_may_have_a_limit_of_its_own() {
        let plan = plan("--policy none,fifo:32,flifo,flifo:16 --concurrency 4").unwrap();
        let settings: Vec<(&str, u32)> =
            plan.settings.iter().map(|setting| (setting.limiter.name(), setting.concurrency)).collect();
        assert_eq!(settings, [("none", 0), ("fifo", 32), ("flifo", 4), ("flifo", 16)]);
        assert!(
            self::plan("--policy flifo:auto").is_err()
                && self::plan("--target unix:/s --policy flifo:auto").is_ok()
        );
        for wrong in ["none:4", "fifo:0", "fifo:", "fast:4", "fifo:4:4"] {
            assert!(Cli::try_parse_from(["flifo", "sweep", "--policy", wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn without_a_choice_the_sweep_shows_a_load_that_collapses_too() {
        let loads = |line: &str| -> Vec<String> {
            let plan = plan(line).unwrap();
            let name = |specimen: Option<Specimen>| specimen.map_or("none".into(), |s| s.to_string());
            plan.loads.iter().map(|(workload, specimen)| format!("{workload} {}", name(*specimen))).collect()
        };
        assert_eq!(loads(""), ["point-select none", "hot-transaction-100 none"]);
        assert_eq!(loads("--workload read-only"), ["read-only none"]);
        assert_eq!(loads("--target unix:/s"), ["point-select none"]);
        assert_eq!(loads("--table-size 10")[1], "hot-transaction-10 none");
        assert_eq!(loads("--specimen kernel-mutex:0,none,kernel-futex").len(), 3);
        assert_eq!(loads("--workload read-write --specimen kernel-futex"), ["read-write kernel-futex"]);
        let plan =
            plan("--threads 1,2 --workload read-only --specimen none,kernel-futex --rounds 1").unwrap();
        assert_eq!(plan.steps().len(), plan.steps_total());
        assert_eq!(plan.steps_total(), 2 * 2 * 3);
    }

    #[test]
    fn innodb_s_own_limit_is_a_number() {
        let plan =
            plan("--target unix:/s --policy none,innodb,quantum --concurrency 8,auto --threads 1").unwrap();
        let settings: Vec<_> = plan.settings.iter().map(|s| (s.policy_name(), s.concurrency)).collect();
        let expected = [("none", 0), ("innodb", 8), ("quantum", 8), ("auto", 0)];
        assert_eq!(settings, expected.map(|(name, limit)| (name.to_owned(), limit)));
    }

    #[test]
    fn leaving_on_a_read_is_the_wait_mask() {
        let plan = plan("--policy fifo --leave-on-read yes,no").unwrap();
        let leaves = |n: usize| plan.admission(&plan.settings[n]).wait_mask.contains(WaitKind::Disk);
        assert!(leaves(0) && !leaves(1));
    }

    #[test]
    fn repeats_are_measured_once_and_order_is_kept() {
        assert_eq!(plan("--threads 8,1,8").unwrap().threads, [8, 1]);
    }

    #[test]
    fn ranges_fit_the_table() {
        assert_eq!(plan("--table-size 10").unwrap().range_size, 10);
        assert!(plan("--table-size 10 --range-size 11").is_err());
    }

    #[test]
    fn what_only_a_server_can_do_needs_one() {
        let mut cases = Cases::default();
        cases.add("--concurrency auto", plan("--concurrency auto").unwrap_err());
        assert!(plan("--target unix:/s --concurrency auto").is_ok());
        for option in [
            "--admin-target unix:/s",
            "--protocol text",
            "--client-threads 2",
            "--allow-remote",
            "--tls require",
            "--ssl-ca f",
            "--ssl-cert f",
            "--ssl-key f",
            "--ssl-verify-server-cert",
        ] {
            let refused = plan(option).unwrap_err().to_string();
            let with_others = plan(&format!("--data d --statement-work 0 {option}")).unwrap_err();
            assert_eq!(with_others.to_string(), refused, "{option}");
            cases.add(option, refused);
            assert!(plan(&format!("--target unix:/s {option}")).is_ok(), "{option}");
        }
        cases.check("sweep-options-of-a-server");
    }

    #[test]
    fn what_only_the_engine_can_do_needs_no_server() {
        let mut cases = Cases::default();
        for workload in ["insert", "hot-transaction-9", "point-select,ycsb-a"] {
            let line = format!("--workload {workload}");
            assert!(plan(&line).is_ok(), "{line}");
            cases.add(&line, plan(&format!("--target unix:/s {line}")).unwrap_err());
        }
        cases.check("sweep-workloads-of-the-engine");
    }

    #[test]
    fn a_server_settles_for_longer() {
        let plan =
            plan("--target unix:/s --workload read-write,read-only --policy flifo --concurrency auto,4")
                .unwrap();
        assert_eq!((plan.time, plan.settle), (Duration::from_secs(5), Duration::from_millis(2_500)));
        let ranges = plan.workloads.iter().map(|workload| plan.range_of(*workload)).collect::<Vec<_>>();
        assert_eq!(ranges, [100, 1_000]);
        let names: Vec<String> = plan.settings.iter().map(Setting::policy_name).collect();
        assert_eq!(names, ["auto-flifo", "flifo"]);
        assert!(plan.clone().fitted(50, true).is_err());
        assert_eq!(plan.fitted(50, false).unwrap().range_size, 50);
    }

    #[test]
    fn hot_rows_are_rows_of_the_table() {
        assert!(plan("--rows 99 --workload hot-rows-100").is_err());
        assert!(plan("--target unix:/s --rows 99 --workload hot-rows-100").is_err());
        assert!(plan("--target unix:/s --rows 100 --workload hot-rows-100").is_ok());
    }
}
