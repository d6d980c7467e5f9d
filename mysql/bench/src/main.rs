//! The command `flifo-mysql-bench`, which `make bench-mysql` runs: the matrix of `flifo-mariadb-bench` on private MySQL servers.

mod product;

use std::process::ExitCode;

use clap::Parser;
use flifo_mariadb_bench::command::{exit, run_matrix};
use flifo_mariadb_bench::matrix;

use product::MYSQL;

const HELP: &str =
    "Every variant has a warm server and clients of its own, which are stopped in the slices of the
other variants. A cell is one load at one number of connections. Its ratio is the median over the
rounds, with a 95% interval by order statistics, which assumes no distribution. The clients run on
the server's CPUs: a ratio is of both together.

Variants by default:
  stock   the server as it is
  innodb  innodb_thread_concurrency = 8
  pool    the server's thread_pool.so
  plugin  flifo's plugin with its default setting

Examples:
  make bench-mysql ARGS=--record
      The loads of README.md at 16, 256 and 1024 connections, kept in figures/mysql.json
  make bench-mysql ARGS=--quick
      Fewer cells and rounds, within 10 minutes
  make bench-mysql ARGS=\"--load durable,durable-transaction --only stock,plugin\"
      Durable commits alone
  make bench-mysql ARGS=\"--only stock,four --variant four=plugin:flifo_thread_concurrency=4\"
      A setting in the place of the plugin's default

Exit codes:
  0    done
  1    failed
  2    wrong usage
  130  interrupted with Ctrl-C; what was measured is printed and saved";

/// A stock MySQL beside its own limits and the flifo plugin under several loads, in short alternating slices.
///
/// Measures by default the loads point-select, read-write, update-index, hot-rows-100, durable and durable-transaction at 16, 256 and 1024
/// connections, with --quick at 16 and 1024. The server is the one of tools/mysql-root.
#[derive(Debug, Parser)]
#[command(name = "flifo-mysql-bench", version, after_help = HELP)]
struct Cli {
    #[command(flatten)]
    arguments: matrix::Arguments,
}

fn main() -> ExitCode {
    exit(run_matrix(&MYSQL, &Cli::parse().arguments))
}
