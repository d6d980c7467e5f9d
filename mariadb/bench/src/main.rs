//! The command `flifo-mariadb-bench`, which `make bench-mariadb` runs.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use flifo::support::error::{EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE};
use flifo::support::interrupt;
use flifo::support::output::{check_all_writable, replace_file};
use flifo_mariadb_bench::plan::{Cli, Command, Plan, What};
use flifo_mariadb_bench::{Error, Result, matrix, moments, report, run};
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
    let command_line: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let command_line = format!("flifo-mariadb-bench {}", command_line.join(" "));
    if let Some(Command::Matrix(arguments)) = &cli.command {
        return run_matrix(arguments, command_line);
    }
    let plan = Plan::of(&cli)?;
    let files = Files { markdown: cli.markdown.as_deref(), json: cli.json.as_deref(), svg: None };
    files.check()?;
    interrupt::install()?;
    if plan.what == What::Moments {
        let results = moments::run(&plan, command_line)?;
        let text = moments::markdown(&results);
        return files.show(&text, &results, None, (results.interrupted, results.cells.is_empty()));
    }
    let results = run::run(plan, command_line)?;
    let text = report::markdown(&results);
    files.show(&text, &results, None, (results.interrupted, results.cells.is_empty()))
}

fn run_matrix(arguments: &matrix::Arguments, command_line: String) -> Result<u8> {
    if arguments.list {
        let _ = std::io::stdout().write_all(matrix::list().as_bytes());
        return Ok(EXIT_OK);
    }
    let plan = matrix::Plan::of(arguments)?;
    let files = Files {
        markdown: arguments.markdown.as_deref(),
        json: arguments.json.as_deref(),
        svg: arguments.svg.as_deref(),
    };
    files.check()?;
    interrupt::install()?;
    let results = matrix::run(&plan, command_line)?;
    let (text, picture) = (matrix::markdown(&results), matrix::svg(&results));
    files.show(&text, &results, picture.as_deref(), (results.interrupted, results.cells.is_empty()))
}

/// The files that a run writes at its end.
struct Files<'a> {
    markdown: Option<&'a Path>,
    json: Option<&'a Path>,
    svg: Option<&'a Path>,
}

impl Files<'_> {
    /// Before an hour of measuring rather than after.
    fn check(&self) -> Result<()> {
        let files: Vec<PathBuf> =
            [self.markdown, self.json, self.svg].into_iter().flatten().map(Path::to_owned).collect();
        Ok(check_all_writable(&files)?)
    }

    /// Prints and saves what was measured; the exit code.
    fn show(
        &self,
        text: &str,
        results: &impl Serialize,
        picture: Option<&str>,
        (interrupted, empty): (bool, bool),
    ) -> Result<u8> {
        let _ = std::io::stdout().write_all(text.as_bytes());
        let json = json(results);
        // Each whatever became of the others.
        let mut written = Ok(());
        for (file, text) in
            [(self.markdown, Some(text)), (self.json, Some(json.as_str())), (self.svg, picture)]
        {
            if let (Some(file), Some(text)) = (file, text) {
                written = written.and(replace_file(file, text.as_bytes()));
            }
        }
        written.map_err(flifo::support::error::Error::from)?;
        Ok(match (interrupted, empty) {
            (true, _) => EXIT_INTERRUPTED,
            (false, true) => EXIT_FAILURE,
            (false, false) => EXIT_OK,
        })
    }
}

fn json(results: &impl Serialize) -> String {
    let mut json = serde_json::to_string_pretty(results).expect("plain data with string keys is always JSON");
    json.push('\n');
    json
}
