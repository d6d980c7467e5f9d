//! The command line, and the checks that need no system access: a command line that passes them can be planned.

use clap::{Parser, Subcommand};

use super::bench::args::BenchCommand;
use super::check::args::{CheckArgs, EXIT_CODES as CHECK_EXIT_CODES};
use super::common::EXIT_CODES;
use super::db_stress::args::{DbStressArgs, EXAMPLES as DB_STRESS_EXAMPLES};
use super::dbt2::args::{Dbt2Args, EXAMPLES as DBT2_EXAMPLES};
use super::experiment::args::{EXAMPLES as EXPERIMENT_EXAMPLES, ExperimentArgs};
use super::figures::args::FiguresArgs;
use super::iobench::args::{EXAMPLES as IOBENCH_EXAMPLES, IobenchArgs};
use super::report::args::ReportArgs;
use super::stat::args::StatArgs;
use super::sweep::args::{EXAMPLES as SWEEP_EXAMPLES, SweepArgs};
use crate::measure::server::without_addresses;
use crate::support::error::Error;

const FIRST_STEPS: &str = "First steps (flifo COMMAND --help has examples and exit codes):
  flifo sweep --quick --html sweep.html                the embedded engine
  flifo sweep --target mysql://app@127.0.0.1/sbtest    a live MariaDB or MySQL
  flifo iobench DIR --quick --advise                   the disk of a database";

/// Measure databases under many connections, and the storage below them
#[derive(Debug, Parser)]
#[command(name = "flifo", version, after_help = FIRST_STEPS, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure throughput against connections, policy by policy
    ///
    /// Loads a table of the sysbench kind (once; it is kept in --data), then measures every policy at every number of
    /// connections. Each round is one pass over all of them, with the policies interleaved (A B C, then C B A), so that
    /// a temporary slowdown of the machine affects neighbours alike.
    ///
    /// The first Ctrl-C ends the running cell, then prints and saves the measurements so far; the second ends at once.
    #[command(after_help = EXIT_CODES, after_long_help = SWEEP_EXAMPLES)]
    Sweep(Box<SweepArgs>),
    /// Run DBT-2, the transactions of TPC-C
    ///
    /// Loads warehouses (once; they are kept in --data), then measures every policy at every number of users. At the end
    /// it checks TPC-C's consistency conditions, and that every committed order and payment is in the tables.
    ///
    /// The first Ctrl-C ends the running cell, then prints and saves the measurements so far; the second ends at once.
    #[command(after_help = EXIT_CODES, after_long_help = DBT2_EXAMPLES)]
    Dbt2(Box<Dbt2Args>),
    /// Run a workload after db_STRESS: objects with a history
    ///
    /// Loads objects (once; they are kept in --data), then measures every policy at every number of users. A read joins an
    /// object with its section and zone, and its history with states. A write deletes, inserts and updates rows of a
    /// history. At the end it checks that no history lost a row.
    ///
    /// The first Ctrl-C ends the running cell, then prints and saves the measurements so far; the second ends at once.
    #[command(after_help = EXIT_CODES, after_long_help = DB_STRESS_EXAMPLES)]
    DbStress(Box<DbStressArgs>),
    /// Compare the scheduler, or the engine, with alternatives
    #[command(after_help = EXIT_CODES)]
    Bench {
        #[command(subcommand)]
        what: BenchCommand,
    },
    /// Measure the storage under a database
    ///
    /// Writes test files into a directory (DIR/flifo-iobench, removed at the end), then measures every combination of
    /// workload, block size, files, mode and concurrency. Each round is one pass over all of them, so that a temporary
    /// slowdown of the machine affects neighbours alike. No other file is ever written.
    ///
    /// The first Ctrl-C ends the running cell, then prints and saves the measurements so far; the second ends at once.
    #[command(after_help = EXIT_CODES, after_long_help = IOBENCH_EXAMPLES)]
    Iobench(Box<IobenchArgs>),
    /// Repeat published studies, and compare their claims
    ///
    /// Every claim of a study stands beside the same ratio on this machine, with a verdict: holds, holds weaker, does not
    /// hold. A page has the study's own graphs, the published curve beside the measured one.
    ///
    /// The first Ctrl-C ends the running cell, then prints and saves the measurements so far; the second ends at once.
    #[command(after_help = EXIT_CODES, after_long_help = EXPERIMENT_EXAMPLES)]
    Experiment(Box<ExperimentArgs>),
    /// Check a closed database for damage
    ///
    /// Verifies every page's checksum and its references, order and shape of every tree, the versions of every row, and
    /// free pages against used ones. After damage the check continues with the pages it can still reach. A closed
    /// database is not changed; a database that was not closed is recovered first.
    #[command(after_help = CHECK_EXIT_CODES)]
    Check(CheckArgs),
    /// Describe a closed database, or watch an open one
    ///
    /// Shows the format, the files, whether it was closed, checkpoint and redo log. Then reads every page and shows
    /// tables and trees with rows, pages and fill, free pages, and the rollback segments' history. Changes nothing.
    /// With --live, prints what another process does with its open database, a line per second.
    #[command(after_help = CHECK_EXIT_CODES)]
    Stat(StatArgs),
    /// One process of `iobench --as processes`; it takes its orders from standard input.
    #[command(name = "iobench-worker", hide = true)]
    IobenchWorker,
    /// Render the pages of this repository from figures/*.json
    ///
    /// A bench with --record writes such a file. In README.md and docs/**/*.md, what stands between
    /// `<!-- figures:NAME -->` and `<!-- /figures -->` is replaced by the table of that name. Prints what changed.
    #[command(after_help = EXIT_CODES)]
    Figures(FiguresArgs),
    /// Show a saved run again, as tables, page or picture
    #[command(after_help = EXIT_CODES)]
    Report(ReportArgs),
}

impl Cli {
    /// Parses the command line; otherwise returns the text to print: help, or an error in one line.
    pub fn parse_args() -> Result<Cli, ParseOutcome> {
        Cli::try_parse().map_err(|error| {
            if error.use_stderr() {
                let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
                let text = without_addresses(error.render().to_string(), words);
                ParseOutcome::Wrong(Error::Usage(one_line(&text, helpful_command())))
            } else {
                ParseOutcome::Help(error)
            }
        })
    }
}

/// Why no command runs.
#[derive(Debug)]
pub enum ParseOutcome {
    /// A request for help or version.
    Help(clap::Error),
    /// The command line is wrong.
    Wrong(Error),
}

/// The command whose help the error names.
fn helpful_command() -> &'static str {
    match std::env::args_os().nth(1) {
        Some(word) if word == "dbt2" => "flifo dbt2",
        Some(word) if word == "db-stress" => "flifo db-stress",
        Some(word) if word == "bench" => "flifo bench admission",
        Some(word) if word == "iobench" => "flifo iobench",
        Some(word) if word == "experiment" => helpful_experiment(),
        Some(word) if word == "check" => "flifo check",
        Some(word) if word == "stat" => "flifo stat",
        Some(word) if word == "report" => "flifo report",
        Some(word) if word == "figures" => "flifo figures",
        _ => "flifo sweep",
    }
}

/// The study whose help the error names, or the command itself.
fn helpful_experiment() -> &'static str {
    match std::env::args_os().nth(2) {
        Some(word) if word == "flifo-2009" => "flifo experiment flifo-2009",
        Some(word) if word == "thread-concurrency-2009" => "flifo experiment thread-concurrency-2009",
        Some(word) if word == "kernel-mutex-2011" => "flifo experiment kernel-mutex-2011",
        Some(word) if word == "linux-io-2012" => "flifo experiment linux-io-2012",
        Some(word) if word == "all" => "flifo experiment all",
        _ => "flifo experiment",
    }
}

/// clap's message without its frame: the problem, the choices, the help to read.
fn one_line(rendered: &str, command: &str) -> String {
    let text: Vec<&str> = rendered
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty())
        .collect();
    let text = text.join(" ");
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    if text.is_empty() || rendered.contains("Commands:") {
        return format!("no command given; try '{command}', or 'flifo --help'");
    }
    format!("{text}; see '{command} --help'")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_fits_a_terminal_and_names_the_first_steps() {
        let asked = Cli::command().term_width(80).try_get_matches_from(["flifo", "--help"]);
        let help = asked.unwrap_err().render().to_string();
        assert!(help.lines().count() <= 24 && help.lines().all(|line| line.len() <= 80), "{help}");
        for step in ["flifo sweep --quick", "flifo sweep --target", "flifo iobench DIR"] {
            assert!(help.contains(step), "{help}");
        }
    }

    #[test]
    fn a_wrong_line_becomes_one_line() {
        for wrong in [
            &["flifo", "sweep", "--policy", "fast"][..],
            &["flifo", "sweep", "--workload", "write"],
            &["flifo", "sweep", "--threads", "0"],
            &["flifo", "sweep", "--nonsense"],
            &["flifo"],
            &["flifo", "dance"],
        ] {
            let error = Cli::try_parse_from(wrong).unwrap_err();
            let line = one_line(&error.render().to_string(), "flifo sweep");
            assert!(!line.contains('\n') && line.contains("; ") && !line.starts_with("error"), "{line}");
        }
    }
}
