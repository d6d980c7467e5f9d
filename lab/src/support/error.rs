//! The errors of the commands: one line that says what is wrong and what to do, and an exit code.

use std::io;
use std::path::PathBuf;

/// The command succeeded.
pub const EXIT_OK: u8 = 0;
/// The command failed while it ran.
pub const EXIT_FAILURE: u8 = 1;
/// The command line is wrong.
pub const EXIT_USAGE: u8 = 2;
/// The data directory cannot be used.
pub const EXIT_DATA: u8 = 3;
/// The system's limits are too low: descriptors, threads, memory.
pub const EXIT_LIMITS: u8 = 4;
/// The server of `--target` cannot be used.
pub const EXIT_TARGET: u8 = 5;
/// Stopped by Ctrl-C; the measurements so far are printed and saved.
pub const EXIT_INTERRUPTED: u8 = 130;

/// A file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}; choose a directory that exists and has room", path.display())]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// Why not.
    pub source: io::Error,
}

/// Why a command ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line is invalid.
    #[error("{0}")]
    Usage(String),
    /// A limit of the system is too low.
    #[error("{0}")]
    Limits(String),
    /// The data directory cannot be used.
    #[error("{0}")]
    Data(String),
    /// The server of `--target` cannot be used.
    #[error("{0}")]
    Target(String),
    /// A cell ended early; the run continues with the next one.
    #[error("{0}")]
    Cell(String),
    /// Cells failed; the other measurements are kept.
    #[error("{0}")]
    Unmeasured(String),
    /// The files of a database are damaged.
    #[error("{0}")]
    Damage(flifo_engine::Error),
    /// The engine said no while a cell ran.
    #[error("{0}")]
    Engine(#[from] flifo_engine::Error),
    /// A report could not be shown, or a file of results not be written or read.
    #[error("{0}")]
    Report(Box<dyn std::error::Error + Send + Sync>),
    /// The result could not be printed.
    #[error("cannot print the result: {0}; free some space there, or send standard output elsewhere")]
    Print(io::Error),
    /// A row's bytes are no row's.
    #[error(
        "row {id} of the table is not a row of sbtest: the data are damaged; remove the data directory to load them again"
    )]
    NotARow {
        /// The row's id.
        id: u32,
    },
    /// A statement found fewer or more rows than the table has.
    #[error(
        "a statement found the wrong number of rows ({statement}, {rows} rows): the data are damaged; remove the data directory to load them again"
    )]
    MissingRows {
        /// The statement.
        statement: String,
        /// What came.
        rows: u32,
    },
    /// A server's error, as it came to the client.
    #[error("{text}")]
    Server {
        /// The server's exit code for it.
        exit_code: u8,
        /// Its message.
        text: String,
    },
    /// Bytes between client and server that make no sense.
    #[error("client and server lost track of the protocol ({0}); please report this")]
    Protocol(&'static str),
    /// A connection ended by itself.
    #[error(
        "connection {0} was closed by its server thread, which has panicked; please report this with the lines above"
    )]
    ConnectionClosed(u32),
    /// Replies that never came.
    #[error(
        "{connections} connections got no reply for {seconds} s: their statements hang; please report this"
    )]
    Hang {
        /// How many wait.
        connections: usize,
        /// How long nothing has come.
        seconds: u64,
    },
    /// A client thread panicked.
    #[error("a client thread panicked ({0}); please report this")]
    Panicked(String),
    /// The operating system refused.
    #[error("{what}: {source}; {advice}")]
    System {
        /// The failed action, as in "cannot open a socket pair".
        what: String,
        /// Why not.
        source: io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// A file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A record or a page could not be read, rendered or written.
    #[error(transparent)]
    Record(#[from] flifo_record::Error),
    /// Pages do not show what the records say.
    #[error("the pages above do not show what figures/ records; render them with 'flifo figures'")]
    Stale,
    /// Ctrl-C before there was anything to show.
    #[error("interrupted before the first cell was measured")]
    Interrupted,
}

impl Error {
    /// The system refused a thread after `started` others.
    pub fn thread(started: u64, source: io::Error, fewer: &str) -> Self {
        Error::Limits(format!(
            "cannot start another thread after {started}: {source}; use {fewer} or raise the limit (ulimit -u, ulimit -v, cgroup pids.max)"
        ))
    }

    /// The system refused a descriptor after `opened` others.
    pub fn descriptors(opened: u64, errno: rustix::io::Errno) -> Self {
        Error::Limits(format!(
            "cannot open another socket after {opened}: {errno}; use fewer --threads or raise the limit (ulimit -n)"
        ))
    }

    /// The exit code that scripts see.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Usage(_) => EXIT_USAGE,
            Error::Limits(_) => EXIT_LIMITS,
            // `flifo check` says with EXIT_FAILURE that there is damage.
            Error::Print(_) | Error::Data(_) | Error::NotARow { .. } | Error::MissingRows { .. } => EXIT_DATA,
            Error::Target(_) | Error::Cell(_) => EXIT_TARGET,
            Error::Engine(error) => engine_exit_code(error),
            Error::Server { exit_code, .. } => *exit_code,
            Error::Interrupted => EXIT_INTERRUPTED,
            Error::System { .. }
            | Error::Unmeasured(_)
            | Error::Damage(_)
            | Error::Report(_)
            | Error::Protocol(_)
            | Error::ConnectionClosed(_)
            | Error::Hang { .. }
            | Error::Panicked(_)
            | Error::Record(_)
            | Error::Stale
            | Error::Write(_) => EXIT_FAILURE,
        }
    }
}

/// What the engine found wrong with the files is the data directory's fault, wherever it shows: also a disk that failed
/// behind the command's back, as under a page cleaner.
fn engine_exit_code(error: &flifo_engine::Error) -> u8 {
    use flifo_engine::Error as E;
    match error {
        E::OutOfFileDescriptors { .. } => EXIT_LIMITS,
        E::Closed | E::Forked | E::Unsorted { .. } | E::TreeInUse { .. } => EXIT_FAILURE,
        E::BadOption { .. } => EXIT_USAGE,
        _ => EXIT_DATA,
    }
}

/// What threads that worked on one task ended with. One that stopped because another failed says [`Error::Interrupted`],
/// which counts only if none says more.
pub(crate) fn of_all(ended: Vec<Result<(), Error>>) -> Result<(), Error> {
    let failures = ended.into_iter().filter_map(Result::err);
    let worse = |error, next| if matches!(error, Error::Interrupted) { next } else { error };
    failures.reduce(worse).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_errors_the_cause_counts() {
        let ended =
            |errors: Vec<Error>| of_all(std::iter::once(Ok(())).chain(errors.into_iter().map(Err)).collect());
        assert!(ended(Vec::new()).is_ok());
        assert!(matches!(ended(vec![Error::Interrupted, Error::Stale]), Err(Error::Stale)));
        assert!(matches!(ended(vec![Error::Stale, Error::Interrupted]), Err(Error::Stale)));
        assert!(matches!(ended(vec![Error::Interrupted]), Err(Error::Interrupted)));
    }

    #[test]
    fn a_disk_that_failed_is_the_data_directory_s_fault_whoever_met_it() {
        let stopped = flifo_engine::Error::Stopped { what: "cannot write data0.flifo".into() };
        assert_eq!(Error::Engine(stopped).exit_code(), EXIT_DATA);
        assert_eq!(Error::Engine(flifo_engine::Error::Closed).exit_code(), EXIT_FAILURE);
    }
}
