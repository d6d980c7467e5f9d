//! The command `flifo-mariadb-bench`, which `make bench-mariadb` runs.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use flifo::error::{EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE};
use flifo::interrupt;
use flifo::output::{check_all_writable, replace_file};
use flifo_mariadb_bench::plan::{Cli, Plan, What};
use flifo_mariadb_bench::{Error, Result, moments, report, run};
use serde::Serialize;

fn main() -> ExitCode {
    let code = match run_command() {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "flifo: {error}");
            match error {
                Error::Interrupted => EXIT_INTERRUPTED,
                Error::Usage(_) => EXIT_USAGE,
                Error::Lab(error) => error.exit_code(),
                _ => EXIT_FAILURE,
            }
        }
    };
    ExitCode::from(code)
}

fn run_command() -> Result<u8> {
    let cli = Cli::parse();
    let plan = Plan::of(&cli)?;
    // Before an hour of measuring rather than after.
    check_all_writable([&cli.markdown, &cli.json].into_iter().flatten())?;
    interrupt::install()?;
    let command_line: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let command_line = format!("flifo-mariadb-bench {}", command_line.join(" "));
    if plan.what == What::Moments {
        let results = moments::run(&plan, command_line)?;
        return show(
            &cli,
            &moments::markdown(&results),
            &results,
            (results.interrupted, results.cells.is_empty()),
        );
    }
    let results = run::run(plan, command_line)?;
    show(&cli, &report::markdown(&results), &results, (results.interrupted, results.cells.is_empty()))
}

/// Prints and saves what was measured; the exit code.
fn show(cli: &Cli, text: &str, results: &impl Serialize, (interrupted, empty): (bool, bool)) -> Result<u8> {
    let _ = std::io::stdout().write_all(text.as_bytes());
    // Each whatever became of the other.
    let written = cli.markdown.as_ref().map_or(Ok(()), |file| replace_file(file, text.as_bytes()));
    let saved = cli.json.as_ref().map_or(Ok(()), |file| replace_file(file, json(results).as_bytes()));
    written.and(saved)?;
    Ok(match (interrupted, empty) {
        (true, _) => EXIT_INTERRUPTED,
        (false, true) => EXIT_FAILURE,
        (false, false) => EXIT_OK,
    })
}

fn json(results: &impl Serialize) -> String {
    let mut json = serde_json::to_string_pretty(results).expect("plain data with string keys is always JSON");
    json.push('\n');
    json
}
