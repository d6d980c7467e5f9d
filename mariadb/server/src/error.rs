use std::path::PathBuf;

/// What can go wrong with a private server; each is one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{program} is not here: apt-get install {package}")]
    Missing { program: &'static str, package: &'static str },
    #[error("the plugin is not at {}: make mariadb, or set FLIFO_PLUGIN", .0.display())]
    NoPlugin(PathBuf),
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{} is too long for a socket: set TMPDIR to a shorter one", .0.display())]
    LongPath(PathBuf),
    #[error("mariadb-install-db failed: {0}")]
    Install(String),
    #[error("the server did not start: {0}")]
    Start(String),
    #[error("the server has no status variable {0}: is the plugin loaded?")]
    NoStatus(String),
    #[error("{name} is {value:?}, not a number")]
    NotNumber { name: String, value: String },
    #[error("signals: {0}")]
    Signals(std::io::Error),
    #[error(transparent)]
    Sql(#[from] mysql::Error),
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { path, source }
    }
}
