//! Results: the JSON that commands write and read, and the published figures that runs are compared with.
//!
//! | module | holds |
//! |---|---|
//! | `sweep`, `changes`, `fairness`, `kinds` | a run of `sweep`, `bench` or `dbt2`, explained in `docs/results.md` |
//! | `io` | a run of `iobench`, explained in `docs/iobench.md` |
//! | `database` | what `check` and `stat` print with `--json` |
//! | `machine` | the machine of a run |
//! | `record` | a run as a record of the repository, which `flifo figures` renders |
//! | `file`, `json` | results files, their errors, and the check of what is read |
//! | `published` | figures of published experiments, with their source |
//!
//! This layer imports [`crate::support`] alone.

mod changes;
pub mod database;
mod fairness;
mod file;
pub mod io;
mod json;
mod kinds;
mod machine;
pub mod published;
pub(crate) mod record;
mod sweep;

pub use changes::{ChangeFigures, EngineSecond, RefusalFigures};
pub use fairness::Fairness;
pub(crate) use file::read_results;
pub use file::{ResultsError, SCHEMA};
pub use kinds::KindFigures;
pub use machine::Machine;
pub use sweep::{
    AdmissionFigures, Cell, CellKey, DiskFigures, EntryFigures, Failure, HostFigures, PerSecond, Results,
    Round, Samples, Second, ServerFigures, Settings, Summary, Variable,
};
