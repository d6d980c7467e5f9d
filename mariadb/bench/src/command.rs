//! What the commands of all products do: run, show, save, exit.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use flifo::commands::record::keep;
use flifo::support::error::{EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE};
use flifo::support::interrupt;
use flifo::support::output::{check_all_writable, replace_file};
use flifo_record::Record;
use flifo_record::blocks::matrix_picture;
use flifo_record::place::Place;
use serde::Serialize;

use crate::arguments::OutputArgs;
use crate::product::Product;
use crate::results::RunHead;
use crate::{Error, Result, matrix, record};

/// The command line as it was typed, for the results.
pub fn command_line(product: &Product) -> String {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    format!("{} {}", product.command, words.join(" ")).trim_end().to_owned()
}

/// The exit code of a command, whose error is shown.
pub fn exit(result: Result<u8>) -> ExitCode {
    ExitCode::from(result.unwrap_or_else(|error| {
        let _ = writeln!(std::io::stderr(), "flifo: {error}");
        match error {
            Error::Interrupted => EXIT_INTERRUPTED,
            Error::Usage(_) => EXIT_USAGE,
            Error::Lab(error) => error.exit_code(),
            _ => EXIT_FAILURE,
        }
    }))
}

/// Measures a matrix of loads.
pub fn run_matrix(product: &'static Product, arguments: &matrix::Arguments) -> Result<u8> {
    if arguments.list {
        let _ = std::io::stdout().write_all(matrix::list().as_bytes());
        return Ok(EXIT_OK);
    }
    let plan = matrix::Plan::of(product, arguments)?;
    let files = Files::new(&arguments.output, arguments.svg.as_deref(), product.record)?;
    interrupt::install()?;
    let results = matrix::run(&plan, command_line(product))?;
    let text = matrix::markdown(&results);
    files.show(&text, &results, &results.run, results.cells.is_empty(), || {
        record::of_matrix(product, &results)
    })
}

/// The files that a run writes at its end.
pub struct Files<'a> {
    markdown: Option<&'a Path>,
    json: Option<&'a Path>,
    svg: Option<&'a Path>,
    record: Option<Place>,
}

impl<'a> Files<'a> {
    /// Fails before an hour of measuring if a file cannot be written.
    pub fn new(output: &'a OutputArgs, svg: Option<&'a Path>, bench: &str) -> Result<Files<'a>> {
        let (markdown, json) = (output.markdown.as_deref(), output.json.as_deref());
        let files: Vec<PathBuf> = [markdown, json, svg].into_iter().flatten().map(Path::to_owned).collect();
        check_all_writable(&files)?;
        Ok(Files { markdown, json, svg, record: output.record.place(bench)? })
    }

    /// Prints and saves what was measured; the exit code.
    pub fn show(
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
