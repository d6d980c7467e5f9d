//! `flifo check` and `flifo stat`: check and describe a closed database.

pub mod args;
pub mod json;
mod text;

use std::path::Path;

use flifo_engine::{
    AtRest, CheckProgress, CheckReport, Database, EngineConfig, Error as EngineError, NextOpen,
};
use indicatif::ProgressBar;

use crate::cli::Bytes;
use crate::command::Ended;
use crate::error::Error;
use crate::output;
use crate::progress::Progress;
use crate::report::Style;
use args::{CheckArgs, StatArgs};

/// What a check came to.
enum Checked {
    Report(CheckReport),
    /// The files are damaged so that nothing could be checked.
    Unreadable(EngineError),
}

impl Checked {
    fn ended(&self) -> Ended {
        match self {
            Checked::Report(report) if report.is_sound() => Ended::Done,
            _ => Ended::DamageFound,
        }
    }
}

/// `flifo check DIR`.
pub fn check(args: &CheckArgs) -> Result<Ended, Error> {
    let check = if args.reclaim { Database::reclaim_in } else { Database::check_in };
    let checked = run(&args.dir, args.buffer_pool, check)?;
    let mut text = match args.json {
        true => json::check(&checked),
        false => text::check(&args.dir, &checked, Style::stdout()),
    };
    if args.reclaim && !args.json && checked.ended() == Ended::DamageFound {
        text.push_str("nothing was freed: what lies below a damaged page was not reached\n");
    }
    print(&text)?;
    Ok(checked.ended())
}

/// `flifo stat DIR`.
pub fn stat(args: &StatArgs) -> Result<Ended, Error> {
    let at_rest = look(&args.dir)?;
    let checked = check_for_stat(&at_rest.next_open, args)
        .map(|check| run(&args.dir, args.buffer_pool, check))
        .transpose()?;
    // The check may have changed it: recovered it, or created its redo log again.
    let at_rest = if checked.is_some() { look(&args.dir)? } else { at_rest };
    let text = match args.json {
        true => json::stat(&at_rest, checked.as_ref()),
        false => text::stat(&args.dir, &at_rest, checked.as_ref(), Style::stdout()),
    };
    print(&text)?;
    Ok(checked.map_or(Ended::Done, |checked| checked.ended()))
}

fn look(dir: &Path) -> Result<AtRest, Error> {
    Database::at_rest(dir).map_err(|error| match error.is_damage() {
        true => Error::Damage(error),
        false => cannot_look(error),
    })
}

/// How the tables are looked at. Without `--recover` nothing is changed by that.
fn check_for_stat<'p>(next_open: &NextOpen, args: &StatArgs) -> Option<Check<'p>> {
    match next_open {
        _ if args.brief => None,
        NextOpen::AsItIs => Some(Database::check_in),
        _ if args.recover => Some(Database::recover_in),
        NextOpen::MakesAnew => Some(Database::check_in),
        _ => None,
    }
}

/// A way to check a database.
type Check<'p> =
    fn(&'p Path, EngineConfig, &mut dyn FnMut(CheckProgress)) -> flifo_engine::Result<CheckReport>;

fn run<'p>(dir: &'p Path, buffer_pool: Bytes, check: Check<'p>) -> Result<Checked, Error> {
    let config = EngineConfig { buffer_pool_bytes: buffer_pool.0, ..EngineConfig::default() };
    let progress = Progress::new();
    let mut bar: Option<(bool, ProgressBar)> = None;
    let checked = check(dir, config, &mut |step| {
        let (recovers, done, of) = match step {
            CheckProgress::Recovering(recovery) => (true, recovery.replayed_bytes, recovery.total_bytes),
            CheckProgress::Checking { pages, of } => (false, pages, of),
            _ => return,
        };
        if bar.as_ref().is_none_or(|(of_recovery, _)| *of_recovery != recovers) {
            let begin = if recovers { Progress::recovery } else { Progress::pages };
            if let Some((_, before)) = bar.replace((recovers, begin(&progress, of))) {
                before.finish_and_clear();
            }
        }
        if let Some((_, bar)) = &bar {
            bar.set_length(of);
            bar.set_position(done);
        }
    });
    if let Some((_, bar)) = bar {
        bar.finish_and_clear();
    }
    match checked {
        Ok(report) => Ok(Checked::Report(report)),
        Err(error) if error.is_damage() => Ok(Checked::Unreadable(error)),
        Err(error) => Err(cannot_look(error)),
    }
}

/// What keeps the command from looking at all is how it was called.
fn cannot_look(error: EngineError) -> Error {
    match error {
        EngineError::NoDatabase { .. }
        | EngineError::NotADatabase { .. }
        | EngineError::HalfCreated { .. }
        | EngineError::FormatVersion { .. }
        | EngineError::InUse { .. }
        | EngineError::NotPermitted { .. }
        | EngineError::ReadOnlyFileSystem { .. }
        | EngineError::RecoveryNotPossible { .. } => Error::Usage(error.to_string()),
        error => Error::Engine(error),
    }
}

/// An unwritable result is an error: neither exit code of the verdict may stand for it.
fn print(text: &str) -> Result<(), Error> {
    output::print(&mut std::io::stdout(), text).map_err(Error::Print)
}
