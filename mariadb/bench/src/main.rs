//! The command `flifo-mariadb-bench`, which `make bench-mariadb` runs.

use std::process::ExitCode;

use clap::Parser;
use flifo::support::interrupt;
use flifo_mariadb_bench::command::{Files, command_line, exit, run_matrix};
use flifo_mariadb_bench::plan::{Cli, Command, Plan, What};
use flifo_mariadb_bench::product::MARIADB;
use flifo_mariadb_bench::{Result, record, report, run, slices};

fn main() -> ExitCode {
    exit(run_command())
}

fn run_command() -> Result<u8> {
    let cli = Cli::parse();
    if let Some(Command::Matrix(arguments)) = &cli.command {
        return run_matrix(&MARIADB, arguments);
    }
    let command_line = command_line(&MARIADB);
    let plan = Plan::of(&cli)?;
    let files = Files::new(&cli.output, None, record::name(plan.what))?;
    interrupt::install()?;
    if plan.what == What::Slices {
        let results = slices::run(&plan, command_line)?;
        let text = slices::markdown(&results);
        return files
            .show(&text, &results, &results.run, results.cells.is_empty(), || record::of_slices(&results));
    }
    let results = run::run(plan, command_line)?;
    let text = report::markdown(&results);
    files.show(&text, &results, &results.run, results.cells.is_empty(), || record::of_rounds(&results))
}
