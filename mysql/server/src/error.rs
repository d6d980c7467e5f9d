use std::path::PathBuf;

/// What can go wrong with a private server; each is one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no MySQL server in {path}: run tools/mysql-root {path}", path = .0.display())]
    NoServer(PathBuf),
    #[error("the plugin is not at {}: make mysql, or set FLIFO_MYSQL_PLUGIN", .0.display())]
    NoPlugin(PathBuf),
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("the server made no data directory: {0}")]
    Initialize(String),
    #[error("the server did not start: {0}")]
    Start(String),
    #[error("the server has no status variable {0}: install the plugin")]
    NoStatus(String),
    #[error("{name} is {value:?}, not a number")]
    NotNumber { name: String, value: String },
    #[error(transparent)]
    Sql(#[from] flifo_mariadb::mysql::Error),
    #[error(transparent)]
    Copy(#[from] flifo_mariadb::Error),
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// What makes an error with this file out of an input or output error.
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { path, source }
    }
}
