//! The engine's error type. Every message is one line that says what is wrong and what to do.

use std::io;

use crate::row::RowError;

/// The engine's result.
pub type Result<T> = std::result::Result<T, Error>;

/// The name that [`Error::DuplicateKey`] gives for the primary key.
pub const PRIMARY_KEY: &str = "the primary key";

/// What the engine reports when an operation fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Admission refused the statement, when it began or when it queued again.
    #[error("the statement was not admitted: {0}")]
    Refused(#[from] flifo_admission::Refused),
    /// The operating system refused, for a reason that has no variant of its own.
    #[error("{action} {path}: {source}")]
    Io {
        /// The failed action, as in "cannot read".
        action: &'static str,
        /// The file.
        path: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// This process's user lacks the permission for the file.
    #[error(
        "{action} {path}: {source}; give this user permission (check and stat only read), or use the owner's account"
    )]
    NotPermitted {
        /// The failed action, as in "cannot open".
        action: &'static str,
        /// The file.
        path: String,
        /// Permission denied, or operation not permitted.
        source: io::Error,
    },
    /// The file's file system is mounted read-only.
    #[error(
        "{action} {path}: the file system is read-only; mount it read-write, or use a directory, or a copy of the database, on another one"
    )]
    ReadOnlyFileSystem {
        /// The failed action, as in "cannot write to".
        action: &'static str,
        /// The file, or the database's directory.
        path: String,
    },
    /// The database needs recovery, and its files cannot be written.
    #[error("the database in {path} was not closed and needs recovery, which writes to it: {source}")]
    RecoveryNotPossible {
        /// The database's directory.
        path: String,
        /// Why the files cannot be written.
        source: Box<Error>,
    },
    /// The process, or the whole machine, has too many files open.
    #[error("cannot open {path}: out of file descriptors; raise the limit (ulimit -n)")]
    OutOfFileDescriptors {
        /// The file.
        path: String,
    },
    /// The file system is full. The data that was already in the database stays sound.
    #[error(
        "disk full: {bytes_needed} bytes needed under {path}; free some space, or use another file system"
    )]
    DiskFull {
        /// Bytes that the failed request needed.
        bytes_needed: u64,
        /// The database's directory.
        path: String,
    },
    /// Another open handle of the database, in this process or another, holds its lock.
    #[error("{path} is in use by another process (or by another handle in this one); close it there first")]
    InUse {
        /// The database's directory.
        path: String,
    },
    /// The directory has no database.
    #[error("there is no database in {path}; create one, or check the directory's name")]
    NoDatabase {
        /// The directory.
        path: String,
    },
    /// The directory already has a database.
    #[error("there is a database in {path} already; open it, or remove the directory first")]
    DatabaseExists {
        /// The directory.
        path: String,
    },
    /// The creation of the database was interrupted, so the database is empty.
    #[error("the database in {path} was not created completely; remove the directory and create it again")]
    HalfCreated {
        /// The directory.
        path: String,
    },
    /// The directory or the file does not belong to flifo.
    #[error("{path} is not a flifo database: {what}; use an empty or a new directory")]
    NotADatabase {
        /// The directory or the file.
        path: String,
        /// The mismatch.
        what: String,
    },
    /// The file has another version of the format.
    #[error(
        "{path} has format version {found}, this program supports {supported}; use the program that wrote it, or load the data again"
    )]
    FormatVersion {
        /// The file.
        path: String,
        /// The file's version.
        found: u32,
        /// The version this program reads and writes.
        supported: u32,
    },
    /// A data file is missing.
    #[error("data file {path} is missing ({index} of 0..{files}); move it back, or load the data again")]
    MissingDataFile {
        /// The file.
        path: String,
        /// Its position among the data files, from 0.
        index: u32,
        /// How many data files the database has.
        files: u32,
    },
    /// A data file of this format that belongs elsewhere.
    #[error("data file {path} does not belong here: {what}; put the right file in its place")]
    MisplacedDataFile {
        /// The file.
        path: String,
        /// Which database and position the file belongs to.
        what: String,
    },
    /// A data file was truncated.
    #[error(
        "data file {path} is truncated: {bytes} bytes, {bytes_expected} expected; restore it from a copy, or load the data again"
    )]
    TruncatedDataFile {
        /// The file.
        path: String,
        /// Its length, bytes.
        bytes: u64,
        /// The least it must have, bytes.
        bytes_expected: u64,
    },
    /// The header of a file is corrupt.
    #[error("the header of {path} is corrupt: {what}; restore the file from a copy, or load the data again")]
    CorruptHeader {
        /// The file.
        path: String,
        /// The mismatch.
        what: String,
    },
    /// A page is corrupt.
    #[error("page {page} is corrupt: {what}; restore the database from a copy, or load the data again")]
    CorruptPage {
        /// The page's number.
        page: u64,
        /// The mismatch.
        what: String,
    },
    /// The database was not closed, and a file of the redo log that recovery needs is missing.
    #[error(
        "{path} is missing, and the database was not closed cleanly; move the file back, or restore the database from a copy"
    )]
    MissingRedo {
        /// The file.
        path: String,
    },
    /// The redo log is corrupt, or belongs to other pages.
    #[error(
        "{path} is corrupt: {what}; restore the right files, or restore the database from a copy (data files and redo log together)"
    )]
    CorruptRedo {
        /// The file, or the log as a whole.
        path: String,
        /// The mismatch.
        what: String,
    },
    /// An earlier failure left the state on disk in doubt, so the database reads and writes nothing more.
    #[error(
        "the database stopped after an earlier failure ({what}); close it, fix the cause, and open it again: committed data are recovered"
    )]
    Stopped {
        /// The failure.
        what: String,
    },
    /// The undo records are corrupt.
    #[error("the undo records are corrupt: {what}; restore the database from a copy")]
    CorruptUndo {
        /// The mismatch.
        what: String,
    },
    /// Another transaction has changed the row since this transaction's snapshot (first updater wins).
    #[error(
        "another transaction has changed the row since this one began; roll it back and try it again, or use read committed"
    )]
    WriteConflict,
    /// Transactions waited for each other's row locks in a cycle; this one was rolled back.
    #[error(
        "deadlock: transactions waited for each other's rows, and this one was rolled back; try it again"
    )]
    Deadlock,
    /// A row stayed locked by another transaction for too long. The changes made before are kept.
    #[error(
        "lock wait timeout: the row is locked by another transaction; try again, roll back, or raise lock_wait_timeout"
    )]
    LockWaitTimeout,
    /// Another thread cancelled the wait for a row lock. The changes made before are kept.
    #[error("the wait for a row lock was cancelled; roll the transaction back, or try again")]
    LockWaitCancelled,
    /// Another prepared transaction already has this XID.
    #[error("there is a prepared transaction '{xid}' already; finish that one, or use another XID")]
    XidExists {
        /// The XID, with unprintable bytes escaped.
        xid: String,
    },
    /// No prepared transaction has that XID.
    #[error("there is no prepared transaction '{xid}'; it was finished, or another session is finishing it")]
    UnknownXid {
        /// The XID, with unprintable bytes escaped.
        xid: String,
    },
    /// An operation on a transaction that was committed or rolled back.
    #[error("the transaction has ended; begin another one")]
    TransactionEnded,
    /// The transaction undid changes that the iterator sees.
    #[error("the transaction has undone changes that its iterator sees; create a new iterator")]
    ChangesUndone,
    /// A savepoint of another transaction, or one that a rollback has gone back beyond.
    #[error(
        "the transaction has no such savepoint any more; roll back to an earlier one, or roll back the whole transaction"
    )]
    UnknownSavepoint,
    /// Active transactions prevent dropping the table.
    #[error("active transactions may need the table '{name}'; end them, and try again")]
    TransactionsActive {
        /// The table's name.
        name: String,
    },
    /// A handle that was opened by the parent of this process, before the fork(2).
    #[error(
        "the database was opened before this process was forked; use it in the parent, or close it there and open it again in the child"
    )]
    Forked,
    /// The database was closed while this handle was still around.
    #[error("the database is closed; open it again")]
    Closed,
    /// No tree of that name.
    #[error("there is no tree '{name}' in the database; create it, or check the name")]
    UnknownTree {
        /// The name.
        name: String,
    },
    /// A tree of that name is there already.
    #[error("there is a tree '{name}' in the database already; drop it first, or use another name")]
    TreeExists {
        /// The name.
        name: String,
    },
    /// The tree to be dropped has open handles.
    #[error("the tree '{name}' is in use; drop its handles first")]
    TreeInUse {
        /// The name.
        name: String,
    },
    /// No table of that name.
    #[error("there is no table '{name}' in the database; create it, or check the name")]
    UnknownTable {
        /// The name.
        name: String,
    },
    /// A table of that name is there already.
    #[error("there is a table '{name}' in the database already; drop it first, or use another name")]
    TableExists {
        /// The name.
        name: String,
    },
    /// The table to be dropped has open handles.
    #[error("the table '{name}' is in use; drop its handles first")]
    TableInUse {
        /// The name.
        name: String,
    },
    /// A table of typed columns, opened as one of plain keys and values.
    #[error("the table '{name}' has typed columns; open it with typed_table")]
    TypedTable {
        /// The name.
        name: String,
    },
    /// A table of plain keys and values, opened as one of typed columns.
    #[error("the table '{name}' has plain keys and values, no columns; open it with table")]
    PlainTable {
        /// The name.
        name: String,
    },
    /// A table that is being loaded in bulk.
    #[error(
        "rows are being loaded into the table '{name}'; wait until that is done, or, if it has failed, open the database again"
    )]
    TableLoading {
        /// The name.
        name: String,
    },
    /// Another row has the same key, or the same values in a unique index.
    #[error("a row with the same values in {index} is there already; change them, or update that row")]
    DuplicateKey {
        /// The name of the unique index, or [`PRIMARY_KEY`](crate::PRIMARY_KEY).
        index: String,
    },
    /// An update that would change a row's primary key.
    #[error("an update cannot change the primary key; delete the row, and insert it with the other key")]
    PrimaryKeyChanged,
    /// A column that the table numbers has come to the end of its type.
    #[error(
        "the column '{column}' has no number left; insert rows with explicit free numbers, or create the table again"
    )]
    NumbersExhausted {
        /// The column.
        column: String,
    },
    /// The entries of an index do not match the rows of its table.
    #[error("the index '{index}' does not agree with its table: {what}; drop the index and create it again")]
    CorruptIndex {
        /// The index.
        index: String,
        /// What does not fit.
        what: &'static str,
    },
    /// A schema that does not fit the catalog.
    #[error(
        "the table's definition of {size} bytes is too large: at most {max}; use fewer columns or shorter names, or create the database with larger pages"
    )]
    SchemaTooLarge {
        /// The definition, bytes.
        size: usize,
        /// What the catalog takes, bytes.
        max: usize,
    },
    /// A handle of one database given to another.
    #[error("the tree '{name}' belongs to another database; use a handle from this one")]
    ForeignTree {
        /// The name.
        name: String,
    },
    /// A bulk load into a tree that has rows.
    #[error("bulk load needs an empty tree; drop the tree and create it again, or insert row by row")]
    TreeNotEmpty,
    /// The rows given to a bulk load do not ascend strictly.
    #[error(
        "bulk load needs keys in strictly ascending order: row {row} (from 0) does not follow the one before; sort the input and remove duplicates"
    )]
    Unsorted {
        /// The first row out of order, counted from 0.
        row: u64,
    },
    /// A key is too large for a page.
    #[error(
        "a key of {size} bytes is too large: at most {max} with such a value; shorten it, or create the database with larger pages"
    )]
    KeyTooLarge {
        /// The key's length, bytes.
        size: usize,
        /// What a page takes, bytes.
        max: usize,
    },
    /// A value beyond what a row may have.
    #[error("a value of {size} bytes is too large: at most {max}; divide it among several rows")]
    ValueTooLarge {
        /// The value's length, bytes.
        size: usize,
        /// What a row takes, bytes.
        max: usize,
    },
    /// A name that is empty or too long.
    #[error("a {what} name of {size} bytes is not allowed; use 1 to {max} bytes")]
    BadName {
        /// The kind of object: a tree or a property.
        what: &'static str,
        /// Its length, bytes.
        size: usize,
        /// The maximum, bytes.
        max: usize,
    },
    /// An invalid schema, key or row, or one whose bytes are corrupt.
    // Boxed: the others are half its size, and results with them are all over the engine.
    #[error(transparent)]
    Row(Box<RowError>),
    /// An option that cannot be.
    #[error("{option} = {value} is not allowed; use {allowed}")]
    BadOption {
        /// The option's name in [`crate::EngineConfig`].
        option: &'static str,
        /// The requested value.
        value: u64,
        /// The accepted values, in words.
        allowed: String,
    },
}

impl From<RowError> for Error {
    fn from(error: RowError) -> Self {
        Error::Row(Box::new(error))
    }
}

impl Error {
    /// Whether it says that nothing can be done with the database any more.
    pub(crate) fn ends_all(&self) -> bool {
        matches!(self, Error::Closed | Error::Forked | Error::Stopped { .. })
    }

    /// Whether a retry of the whole transaction may succeed, because it conflicted with other transactions. After
    /// [`Error::Deadlock`] the transaction is already rolled back. After [`Error::WriteConflict`] and
    /// [`Error::LockWaitTimeout`], roll it back or drop it first.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Deadlock | Error::LockWaitTimeout | Error::WriteConflict)
    }

    /// Whether the files of the database are damaged: data is lost, or out of place.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Error::CorruptHeader { .. }
                | Error::CorruptPage { .. }
                | Error::CorruptRedo { .. }
                | Error::CorruptUndo { .. }
                | Error::MissingDataFile { .. }
                | Error::MisplacedDataFile { .. }
                | Error::MissingRedo { .. }
                | Error::TruncatedDataFile { .. }
        )
    }

    /// Whether the files can perhaps be read, and not be written.
    pub(crate) fn forbids_writing(&self) -> bool {
        matches!(self, Error::NotPermitted { .. } | Error::ReadOnlyFileSystem { .. })
    }

    /// What the operating system said about a file, with what to do about it where that is known.
    pub(crate) fn from_io(action: &'static str, path: impl Into<String>, source: io::Error) -> Self {
        let path = path.into();
        let errno = rustix::io::Errno::from_io_error(&source);
        match source.kind() {
            io::ErrorKind::PermissionDenied => Error::NotPermitted { action, path, source },
            io::ErrorKind::ReadOnlyFilesystem => Error::ReadOnlyFileSystem { action, path },
            _ if errno == Some(rustix::io::Errno::MFILE) || errno == Some(rustix::io::Errno::NFILE) => {
                Error::OutOfFileDescriptors { path }
            }
            _ => Error::Io { action, path, source },
        }
    }
}
