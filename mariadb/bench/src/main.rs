//! The command `flifo-mariadb-bench`, which `make bench-mariadb` runs.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use flifo::error::{EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE};
use flifo::interrupt;
use flifo::output::{check_all_writable, replace_file};
use flifo_mariadb_bench::plan::{Cli, Plan};
use flifo_mariadb_bench::results::Results;
use flifo_mariadb_bench::{Error, Result, report, run};

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
    let results = run::run(plan, format!("flifo-mariadb-bench {}", command_line.join(" ")))?;
    let text = report::markdown(&results);
    let _ = std::io::stdout().write_all(text.as_bytes());
    // Each whatever became of the other.
    let written = cli.markdown.as_ref().map_or(Ok(()), |file| replace_file(file, text.as_bytes()));
    let saved = cli.json.as_ref().map_or(Ok(()), |file| replace_file(file, json(&results).as_bytes()));
    written.and(saved)?;
    Ok(match &results {
        results if results.interrupted => EXIT_INTERRUPTED,
        results if results.cells.is_empty() => EXIT_FAILURE,
        _ => EXIT_OK,
    })
}

fn json(results: &Results) -> String {
    let mut json = serde_json::to_string_pretty(results).expect("plain data with string keys is always JSON");
    json.push('\n');
    json
}
