use std::path::PathBuf;

use flifo_mariadb::mysql;

/// Why the command, or a cell of it, ended. One line, with what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Usage(String),
    #[error("sysbench is not here: apt-get install sysbench")]
    NoSysbench,
    #[error("sysbench: {0}")]
    Sysbench(String),
    #[error("sysbench did not {what} within {seconds} s")]
    Slow { what: &'static str, seconds: u64 },
    #[error("the server did not end cleanly after the load ({0})")]
    Load(String),
    #[error(
        "the counters came after the end of the load: the server hardly answers (as root they come sooner)"
    )]
    Late,
    #[error("the server runs without the plugin: {0}")]
    NoPlugin(String),
    #[error("nothing was counted in its slice: the server answers and does no work")]
    Nothing,
    #[error("{program}: {why}")]
    Tool { program: &'static str, why: String },
    #[error("the clients' connections do not use TLS: does the client library of sysbench support it?")]
    NoTls,
    #[error("the plugin is still there some time after UNINSTALL SONAME")]
    StillThere,
    #[error("its server is gone; the last line of its log: {0}")]
    Gone(String),
    #[error(transparent)]
    Server(#[from] flifo_mariadb::Error),
    #[error("{0}")]
    Other(String),
    #[error("the server: {0}")]
    Sql(#[from] mysql::Error),
    #[error("variant {name}: {source}")]
    Variant { name: String, source: Box<Error> },
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{0}")]
    Lab(#[from] flifo::support::error::Error),
    #[error("{0}")]
    Results(#[from] flifo::results::ResultsError),
    #[error("interrupted")]
    Interrupted,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { path, source }
    }

    pub(crate) fn of(name: &str) -> impl FnOnce(Error) -> Error {
        let name = name.to_owned();
        move |error| match error {
            Error::Interrupted => Error::Interrupted,
            other => Error::Variant { name, source: Box::new(other) },
        }
    }
}
