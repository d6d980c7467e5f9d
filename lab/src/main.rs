//! The command `flifo`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use flifo::bench::{self, args::BenchCommand};
use flifo::cli::{Cli, Command, ParseOutcome};
use flifo::command::Ended;
use flifo::database;
use flifo::error::{EXIT_OK, Error};
use flifo::experiment::{self, args::ExperimentCommand};
use flifo::interrupt;
use flifo::iobench;
use flifo::limits;
use flifo::output::check_different;
use flifo::record;
use flifo::report::{self, Style};
use flifo::sweep;

fn main() -> ExitCode {
    limits::file_size_is_an_error();
    let code = match Cli::parse_args() {
        Ok(cli) => match run(&cli.command) {
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

fn run(command: &Command) -> Result<Ended, Error> {
    match command {
        Command::Sweep(args) => {
            interrupt::install()?;
            sweep::sweep(args)
        }
        Command::Bench { what: BenchCommand::Admission(args) } => {
            interrupt::install()?;
            bench::admission(args)
        }
        Command::Bench { what: BenchCommand::Peers { options } } => match bench::peers(options)? {},
        Command::Iobench(args) => {
            interrupt::install()?;
            iobench::iobench(args)
        }
        Command::Experiment { what: ExperimentCommand::LinuxIo2012(args) } => {
            interrupt::install()?;
            experiment::linux_io_2012::linux_io_2012(args)
        }
        Command::Check(args) => database::check(args),
        Command::Stat(args) => database::stat(args),
        Command::IobenchWorker => {
            iobench::worker_process();
            Ok(Ended::Done)
        }
        Command::Figures(args) => record::figures(args),
        Command::Report(args) => {
            let files = [Some(&args.json), args.html.as_ref(), args.svg.as_ref()];
            let files: Vec<&Path> = files.into_iter().flatten().map(PathBuf::as_path).collect();
            check_different(&files)?;
            let mut out = std::io::stdout();
            report::run(&args.json, args.html.as_deref(), args.svg.as_deref(), Style::stdout(), &mut out)?;
            Ok(Ended::Done)
        }
    }
}

fn report(error: &Error) -> u8 {
    let _ = writeln!(std::io::stderr(), "flifo: {error}");
    error.exit_code()
}
