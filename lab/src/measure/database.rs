//! A closed database: looked at, and checked with progress shown.

use std::path::Path;

use flifo_engine::{AtRest, CheckProgress, CheckReport, Database, EngineConfig, Error as EngineError};
use indicatif::ProgressBar;

use crate::results::database::Checked;
use crate::support::error::Error;
use crate::support::progress::Progress;
use crate::support::size::Bytes;

/// Reads the headers of a closed database.
pub(crate) fn read_headers(dir: &Path) -> Result<AtRest, Error> {
    Database::at_rest(dir).map_err(|error| match error.is_damage() {
        true => Error::Damage(error),
        false => not_checked(error),
    })
}

/// A way to check a database.
pub(crate) type Check<'p> =
    fn(&'p Path, EngineConfig, &mut dyn FnMut(CheckProgress)) -> flifo_engine::Result<CheckReport>;

/// Runs a check.
pub(crate) fn check<'p>(dir: &'p Path, buffer_pool: Bytes, run: Check<'p>) -> Result<Checked, Error> {
    let config = EngineConfig { buffer_pool_bytes: buffer_pool.0, ..EngineConfig::default() };
    let progress = Progress::new();
    let mut bar: Option<(bool, ProgressBar)> = None;
    let checked = run(dir, config, &mut |step| {
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
        Err(error) => Err(not_checked(error)),
    }
}

/// What keeps the command from looking at all is how it was called.
fn not_checked(error: EngineError) -> Error {
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
