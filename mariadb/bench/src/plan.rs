//! The command line, and what is measured in which order.

use clap::{Parser, Subcommand, ValueEnum};
use flifo::commands::common::without_repeats;
use serde::Serialize;

use crate::arguments::{OutputArgs, ServerArgs};
use crate::matrix;
use crate::product::MARIADB;
use crate::settings::Settings;
use crate::variant::Variant;
use crate::workload::Workload;
use crate::{Error, Result};

/// Which figures of the issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Seven workloads at 16, 256 and 1024 connections
    Table,
    /// One connection: what asking for admission costs
    Overhead,
    /// Data ten times the buffer pool, 64 connections: whether the disk is kept busy
    SmallPool,
    /// Variants in short alternating slices, 16 connections: resolves a few percent on a host whose speed changes every
    /// second
    Slices,
}

/// What has arguments of its own.
#[derive(Debug, Subcommand)]
pub enum Command {
    Matrix(matrix::Arguments),
}

const EXAMPLES: &str = "Examples:
  flifo-mariadb-bench --record
      The table, in an hour and a quarter, kept in figures/mariadb.json for the pages of the repository
  flifo-mariadb-bench --quick
      The same in some four minutes, with figures that mean little
  flifo-mariadb-bench --workload point-select --connections 1024 \\
      --variant four=plugin:flifo_thread_concurrency=4 --variant fifo=plugin:flifo_policy=fifo
      Settings beside each other in one run
  flifo-mariadb-bench overhead --one-server
      What the plugin costs one connection, in one process that has it in alternation
  flifo-mariadb-bench slices --workload point-select --variant eight=plugin:flifo_thread_concurrency=8
      Slices of less than a second, a hundred of each, in about four minutes
  flifo-mariadb-bench matrix --quick --svg matrix.svg
      Stock beside the plugin under a table of loads, with a heat map (matrix --help)

Exit codes:
  0    done
  1    failed
  2    wrong usage
  130  interrupted with Ctrl-C; what was measured is printed and saved";

/// A stock MariaDB beside one with the flifo plugin and one with a pool of threads, loaded by sysbench.
///
/// Every variant has a server of its own (except with --one-server), new for each round (except with slices), on a copy of the
/// same tables; the others are stopped. A round is one pass over all cells, variants alternating (A B C, C B A).
/// Throughput is what the server itself counts, over a steady window.
#[derive(Debug, Parser)]
#[command(name = "flifo-mariadb-bench", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,

    /// What to measure
    #[arg(value_enum, default_value = "table")]
    pub what: What,

    /// Workloads, a list [default: all; overhead and small-pool have fewer]
    #[arg(long, value_name = "W,..", value_enum, value_delimiter = ',')]
    pub workload: Vec<Workload>,

    /// Connections, a list [default: 16,256,1024, with --quick 16,1024; overhead 1; small-pool 64; slices 16]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4000))]
    pub connections: Vec<u32>,

    #[command(flatten)]
    pub server: ServerArgs,

    /// One server for all variants of a round, into which the plugin is installed for its cells and removed for
    /// others: leaves out what two processes differ by. A later variant pays for what the earlier left, so take an
    /// even number of rounds. Not for a pool of threads
    #[arg(long)]
    pub one_server: bool,

    /// The servers of the first round serve all rounds, so that a server meets one load after the other, as when a load jumps. At the end
    /// no thread may run or queue
    #[arg(long, conflicts_with = "one_server")]
    pub same_servers: bool,

    /// Rounds, of which medians are shown [default: 5; overhead 11; slices 100; with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,

    /// With slices: counted milliseconds of a slice [default: 400]. Many connections need longer: each should complete its
    /// transaction
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(50..=60_000))]
    pub slice: Option<u32>,

    /// With slices: milliseconds at the beginning of a slice that do not count [default: 120]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(0..=60_000))]
    pub settle: Option<u32>,

    /// Seconds of load per cell and round [default: 12; overhead 6; with --quick 3; not with slices]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub time: Option<u32>,

    /// Seconds at the beginning that do not count [default: a third]
    #[arg(long, value_name = "SECONDS")]
    pub skip: Option<u32>,

    /// One short round of a small table
    #[arg(long)]
    pub quick: bool,

    /// Further connections, each with a report that needs a CPU while the load runs
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub reports: u32,

    /// Rows that each report joins with as many, again and again; without it one report is longer than the load
    #[arg(long, value_name = "ROWS", requires = "reports", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub report_rows: Option<u32>,

    /// Further connections, each with transactions that update one of ten rows, and pause after each statement
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=4000))]
    pub transactions: u32,

    /// Length of these pauses in microseconds, as a round trip or the application's work takes
    #[arg(long, value_name = "US", requires = "transactions", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    pub pause: u32,

    /// Statements are sent as text, and not prepared
    #[arg(long)]
    pub text: bool,

    /// Mean time a client thinks after each transaction, in microseconds; exponentially distributed
    #[arg(long, value_name = "US", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    pub think: u32,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// What is measured, in which order.
#[derive(Debug, Clone)]
pub struct Plan {
    pub what: What,
    pub workloads: Vec<Workload>,
    pub connections: Vec<u32>,
    pub variants: Vec<Variant>,
    pub one_server: bool,
    pub same_servers: bool,
    pub rounds: u32,
    pub settings: Settings,
    /// Whether the buffer pool's size is to follow from the data's.
    pub pool_follows_data: bool,
}

impl Plan {
    pub fn of(cli: &Cli) -> Result<Plan> {
        let time_s =
            cli.time.unwrap_or(if cli.quick { 3 } else { if cli.what == What::Overhead { 6 } else { 12 } });
        let skip_s = cli.skip.unwrap_or(if time_s > 1 { time_s.div_ceil(3) } else { 0 });
        if skip_s >= time_s {
            return Err(Error::Usage("--skip leaves no time to measure".into()));
        }
        let rounds = match cli.what {
            _ if cli.quick => 1,
            What::Overhead => 11,
            What::Slices => 100,
            What::Table | What::SmallPool => 5,
        };
        if cli.what == What::Slices {
            if cli.one_server || cli.same_servers || cli.reports + cli.transactions > 0 {
                return Err(Error::Usage(
                    "slices has a server for each variant, and nothing beside its load: leave out --one-server, \
                     --same-servers, --reports and --transactions"
                        .into(),
                ));
            }
            if cli.time.is_some() || cli.skip.is_some() {
                return Err(Error::Usage(
                    "slices has --slice and --settle instead of --time and --skip".into(),
                ));
            }
        } else if cli.slice.is_some() || cli.settle.is_some() {
            return Err(Error::Usage(
                "--slice and --settle are for slices; here are --time and --skip".into(),
            ));
        }
        Ok(Plan {
            what: cli.what,
            workloads: or(&cli.workload, || workloads(cli.what)),
            connections: or(&cli.connections, || connections(cli)),
            variants: variants(cli)?,
            one_server: cli.one_server,
            same_servers: cli.same_servers,
            rounds: cli.rounds.unwrap_or(rounds),
            settings: Settings {
                time_s,
                skip_s,
                slice_ms: (cli.what == What::Slices).then(|| cli.slice.unwrap_or(400)),
                settle_ms: (cli.what == What::Slices).then(|| cli.settle.unwrap_or(120)),
                reports: cli.reports,
                report_rows: cli.report_rows,
                transactions: cli.transactions,
                pause_us: cli.pause,
                text: cli.text,
                think_us: cli.think,
                ..cli.server.settings(&MARIADB, cli.quick)
            },
            pool_follows_data: cli.what == What::SmallPool && cli.server.buffer_pool.is_none(),
        })
    }

    /// Workload and connections, all variants in each.
    pub fn cells(&self) -> Vec<(Workload, u32)> {
        let of = |workload: &Workload| self.connections.iter().map(|n| (*workload, *n)).collect::<Vec<_>>();
        self.workloads.iter().flat_map(of).collect()
    }
}

fn or<T: Copy + PartialEq>(given: &[T], default: impl Fn() -> Vec<T>) -> Vec<T> {
    if given.is_empty() { default() } else { without_repeats(given) }
}

fn connections(cli: &Cli) -> Vec<u32> {
    match cli.what {
        What::Table if cli.quick => vec![16, 1024],
        What::Table => vec![16, 256, 1024],
        What::Overhead => vec![1],
        What::SmallPool => vec![64],
        What::Slices => vec![16],
    }
}

fn workloads(what: What) -> Vec<Workload> {
    match what {
        What::Table | What::Slices => Workload::value_variants().to_vec(),
        What::Overhead => vec![Workload::PointSelect, Workload::UpdateNonIndex, Workload::ReadWrite],
        What::SmallPool => vec![Workload::PointSelect, Workload::ReadWrite],
    }
}

fn variants(cli: &Cli) -> Result<Vec<Variant>> {
    let names: &[&str] = match cli.what {
        What::Table => &["stock", "plugin", "pool"],
        What::Overhead | What::SmallPool | What::Slices => &["stock", "plugin"],
    };
    let variants = chosen(names, &cli.server)?;
    if let Some(other) = variants.iter().find(|c| cli.one_server && !c.can_be_turned_into()) {
        return Err(Error::Usage(format!(
            "--one-server: {:?} needs a server of its own ({}); leave it out with --only",
            other.name,
            other.described()
        )));
    }
    Ok(variants)
}

/// The variants of these names with the given ones added or replaced, or those of them that `only` names.
pub(crate) fn chosen(names: &[&str], arguments: &ServerArgs) -> Result<Vec<Variant>> {
    let (given, only) = (&arguments.variant, &arguments.only);
    let mut variants: Vec<Variant> = names.iter().filter_map(|name| name.parse().ok()).collect();
    for given in given {
        match variants.iter_mut().find(|other| other.name == given.name) {
            Some(other) => *other = given.clone(),
            None => variants.push(given.clone()),
        }
    }
    if let Some(unknown) = only.iter().find(|name| !variants.iter().any(|c| c.name == **name)) {
        return Err(Error::Usage(format!("--only: there is no variant {unknown:?}")));
    }
    variants.retain(|variant| only.is_empty() || only.contains(&variant.name));
    Ok(variants)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(arguments: &str) -> Result<Plan> {
        let cli = Cli::try_parse_from(["bench"].into_iter().chain(arguments.split_whitespace()));
        Plan::of(&cli.map_err(|error| Error::Usage(error.to_string()))?)
    }

    fn names(plan: &Plan) -> Vec<&str> {
        plan.variants.iter().map(|variant| variant.name.as_str()).collect()
    }

    #[test]
    fn the_table_is_the_default() {
        let plan = plan("").unwrap();
        assert_eq!(
            (plan.what, plan.rounds, plan.settings.time_s, plan.settings.skip_s),
            (What::Table, 5, 12, 4)
        );
        assert_eq!(plan.cells().len(), 21);
        assert_eq!(names(&plan), ["stock", "plugin", "pool"]);
        assert_eq!(plan.settings.rows, 1_000_000);
    }

    #[test]
    fn repeats_are_measured_once() {
        let plan = plan("--workload read-write,point-select,read-write --connections 16,16").unwrap();
        assert_eq!(plan.cells(), [(Workload::ReadWrite, 16), (Workload::PointSelect, 16)]);
    }

    #[test]
    fn quick_is_less_of_everything() {
        let plan = plan("--quick").unwrap();
        assert_eq!((plan.rounds, plan.cells().len(), plan.settings.rows), (1, 14, 100_000));
        assert_eq!((plan.settings.time_s, plan.settings.skip_s), (3, 1));
    }

    #[test]
    fn variants_are_added_replaced_and_chosen() {
        let plan = plan(
            "--variant plugin=plugin:flifo_policy=fifo --variant four=plugin:flifo_thread_concurrency=4 \
             --only stock,plugin,four",
        )
        .unwrap();
        assert_eq!(names(&plan), ["stock", "plugin", "four"]);
        assert_eq!(plan.variants[1].settings, [("flifo_policy".into(), "fifo".into())]);
    }

    #[test]
    fn other_figures_have_other_defaults() {
        let overhead = plan("overhead").unwrap();
        assert_eq!((overhead.connections.as_slice(), overhead.rounds), ([1].as_slice(), 11));
        assert!(plan("overhead --one-server --variant p=plugin:flifo_policy=fifo").unwrap().one_server);
        let slices = plan("slices --variant eight=plugin:flifo_thread_concurrency=8").unwrap();
        assert_eq!(
            (slices.rounds, names(&slices).as_slice()),
            (100, ["stock", "plugin", "eight"].as_slice())
        );
        let small = plan("small-pool --rounds 2").unwrap();
        assert_eq!((small.connections.as_slice(), small.rounds), ([64].as_slice(), 2));
        assert!(small.pool_follows_data && !plan("small-pool --buffer-pool 1G").unwrap().pool_follows_data);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (arguments, said) in [
            ("--one-server", "\"pool\" needs a server of its own"),
            ("--one-server --only x --variant x=plugin:port=1", "port=1"),
            ("--only fast", "there is no variant \"fast\""),
            ("slices --one-server", "leave out --one-server"),
            ("slices --reports 1", "leave out --one-server, --same-servers, --reports"),
            ("--same-servers --one-server", "cannot be used with"),
            ("slices --time 3", "--slice and --settle instead"),
            ("--slice 100", "for slices"),
            ("slices --slice 10", "50..=60000"),
            ("--time 4 --skip 4", "--skip leaves no time"),
            ("--variant x=y", "none of stock, plugin, pool"),
            ("--connections 0", "1..=4000"),
            ("--workload write", "hot-rows-100"),
            ("--set a", "name=value"),
        ] {
            let error = plan(arguments).unwrap_err().to_string();
            assert!(error.contains(said), "{arguments}: {error}");
        }
    }
}
