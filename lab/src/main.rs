//! The command `flifo`.

use std::io::Write;
use std::process::ExitCode;

use flifo::commands::cli::{Cli, ParseOutcome};
use flifo::support::error::{EXIT_OK, Error};
use flifo::support::limits;

fn main() -> ExitCode {
    limits::file_size_is_an_error();
    let code = match Cli::parse_args() {
        Ok(cli) => match flifo::commands::run(&cli.command) {
            Ok(ended) => ended.exit_code(),
            Err(error) => report(&error),
        },
        Err(ParseOutcome::Help(help)) => {
            // A reader that went away has read enough.
            let _ = help.print();
            EXIT_OK
        }
        Err(ParseOutcome::Wrong(error)) => report(&error),
    };
    ExitCode::from(code)
}

fn report(error: &Error) -> u8 {
    let _ = writeln!(std::io::stderr(), "flifo: {error}");
    error.exit_code()
}
