//! The command `flifo-mariadb-bench`, which `make bench-mariadb` runs.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use flifo::commands::record::keep;
use flifo::support::error::{EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE};
use flifo::support::interrupt;
use flifo::support::output::{check_all_writable, replace_file};
use flifo_mariadb_bench::arguments::OutputArgs;
use flifo_mariadb_bench::plan::{Cli, Command, Plan, What};
use flifo_mariadb_bench::results::RunHead;
use flifo_mariadb_bench::{Error, Result, matrix, record, report, run, slices};
use flifo_record::Record;
use flifo_record::blocks::matrix_picture;
use flifo_record::place::Place;
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

fn run_matrix(arguments: &matrix::Arguments, command_line: String) -> Result<u8> {
    if arguments.list {
        let _ = std::io::stdout().write_all(matrix::list().as_bytes());
        return Ok(EXIT_OK);
    }
    let plan = matrix::Plan::of(arguments)?;
    let files = Files::new(&arguments.output, arguments.svg.as_deref(), "matrix")?;
    interrupt::install()?;
    let results = matrix::run(&plan, command_line)?;
    let text = matrix::markdown(&results);
    files.show(&text, &results, &results.run, results.cells.is_empty(), || record::of_matrix(&results))
}

/// The files that a run writes at its end.
struct Files<'a> {
    markdown: Option<&'a Path>,
    json: Option<&'a Path>,
    svg: Option<&'a Path>,
    record: Option<Place>,
}

impl<'a> Files<'a> {
    /// Fails before an hour of measuring if a file cannot be written.
    fn new(output: &'a OutputArgs, svg: Option<&'a Path>, bench: &str) -> Result<Files<'a>> {
        let (markdown, json) = (output.markdown.as_deref(), output.json.as_deref());
        let files: Vec<PathBuf> = [markdown, json, svg].into_iter().flatten().map(Path::to_owned).collect();
        check_all_writable(&files)?;
        Ok(Files { markdown, json, svg, record: output.record.place(bench)? })
    }

    /// Prints and saves what was measured; the exit code.
    fn show(
        &self,
        text: &str,
        results: &impl Serialize,
        run: &RunHead,
        is_empty: bool,
        record: impl Fn() -> Record,
    ) -> Result<u8> {
        let _ = std::io::stdout().write_all(text.as_bytes());
        let json = json(results);
        let picture = self.svg.and_then(|_| matrix_picture(&record()));
        // A file that cannot be written does not keep the others from being written.
        let mut written = Ok(());
        for (file, text) in
            [(self.markdown, Some(text)), (self.json, Some(json.as_str())), (self.svg, picture.as_deref())]
        {
            if let (Some(file), Some(text)) = (file, text) {
                written = written.and(replace_file(file, text.as_bytes()));
            }
        }
        let recorded = keep(self.record.as_ref(), run.interrupted || is_empty, &record);
        written.map_err(flifo::support::error::Error::from)?;
        recorded?;
        Ok(match (run.interrupted, is_empty) {
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
