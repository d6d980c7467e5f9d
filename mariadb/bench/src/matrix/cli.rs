//! The arguments of `matrix`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::loads::LOADS;
use crate::arguments::{OutputArgs, ServerArgs};

const HELP: &str =
    "Every variant has a warm server and clients of its own, which are stopped in the slices of the
other variants. A cell is one load at one number of connections. Its ratio is the median over the
rounds, with a 95% interval by order statistics, which assumes no distribution. The clients run on
the server's CPUs: a ratio is of both together.

  =      the interval spans 1
  red    the whole interval is below 0.95
  green  the whole interval is above 1.05

Examples:
  make bench-mariadb ARGS=\"matrix --quick --record\"
      All loads at 16 and 1024 connections within 15 minutes, kept in figures/matrix.json
  make bench-mariadb ARGS=\"matrix --load insert,job-queue --connections 64 --rounds 100\"
      Two loads with narrow intervals
  make bench-mariadb ARGS=\"matrix --only stock,fifo --variant fifo=plugin:flifo_policy=fifo\"
      A setting in the place of the plugin's defaults

Exit codes are those of flifo-mariadb-bench --help. After Ctrl-C, what was measured is printed and saved.";

/// Stock beside the plugin under a table of loads, in short alternating slices, with a heat map
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Loads, a list of the names that --list prints [default: all]
    #[arg(long, value_name = "L,..", value_delimiter = ',', value_parser = names(), hide_possible_values = true)]
    pub load: Vec<String>,

    /// Connections, a list [default: 16,64,256,1024, with --quick 16,1024; some loads have 64 alone]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=2000))]
    pub connections: Vec<u32>,

    /// Print the loads and exit
    #[arg(long)]
    pub list: bool,

    #[command(flatten)]
    pub server: ServerArgs,

    /// At most 15 minutes: 16 and 1024 connections, a small table, short slices, as many rounds as the time allows
    #[arg(long)]
    pub quick: bool,

    /// Rounds of a cell; fewer than six give no interval [default: 40; with --quick as the time allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,

    /// Counted milliseconds of a slice [default: 400, with --quick 150; twice as long for loads of long statements, 2.5 times
    /// from 1024 connections on]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(50..=60_000))]
    pub slice: Option<u32>,

    /// Milliseconds at the beginning of a slice that do not count [default: 120, with --quick 50; twice as long from 1024
    /// connections on]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(0..=60_000))]
    pub settle: Option<u32>,

    /// Seconds for which each load runs before its first round: the plugin adapts in them; three times as long from 64
    /// connections on [default: 3, with --quick 1.5]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub warm_up: Option<f64>,

    /// Seconds of a server's running time after which the load `phases` changes [default: 20, with --quick 5]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=600))]
    pub phase: Option<u32>,

    #[command(flatten)]
    pub output: OutputArgs,

    /// Write the heat map, loads by connections
    #[arg(help_heading = "Results", long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(LOADS.iter().map(|load| load.name))
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.0..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("write seconds from 0 to 600".into()),
    }
}
