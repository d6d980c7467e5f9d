use std::ffi::OsString;
use std::path::PathBuf;

/// What a private server is started with, besides what all have.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(String, OsString)>,
    pub(crate) data: Option<PathBuf>,
}

impl Options {
    pub fn new() -> Options {
        Options::default()
    }

    /// Further arguments. The last one of a name counts.
    #[must_use]
    pub fn arguments<S: Into<String>>(mut self, arguments: impl IntoIterator<Item = S>) -> Options {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// A variable of the server's environment.
    #[must_use]
    pub fn environment(mut self, name: &str, value: impl Into<OsString>) -> Options {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Begins with a copy of this data directory, which a server has left cleanly, instead of an empty one.
    #[must_use]
    pub fn data(mut self, from: impl Into<PathBuf>) -> Options {
        self.data = Some(from.into());
        self
    }
}
