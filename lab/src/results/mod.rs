//! Results: the JSON that commands write and read, and the published figures that runs are compared with.
//!
//! | module | holds |
//! |---|---|
//! | `sweep`, `round`, `changes`, `fairness`, `kinds` | a run of `sweep`, `bench` or `dbt2`, explained in `docs/results.md` |
//! | `series`, `live` | what was counted in each interval of a window; in a line of `stat --live` |
//! | `claims`, `experiment` | published claims with their verdicts; a run of `experiment` |
//! | `io` | a run of `iobench`, explained in `docs/iobench.md` |
//! | `database` | what `check` and `stat` print with `--json` |
//! | `machine` | the machine of a run |
//! | `record` | a run as a record of the repository, which `flifo figures` renders |
//! | `file`, `json` | results files, their errors, and the check of what is read |
//! | `published` | figures of published experiments, with their source |
//!
//! This layer imports [`crate::support`] alone.

mod changes;
pub mod claims;
pub mod database;
pub mod experiment;
mod fairness;
mod file;
pub mod io;
mod json;
mod kinds;
pub(crate) mod live;
mod machine;
pub mod published;
pub(crate) mod record;
mod round;
pub mod series;
mod sweep;

pub use changes::{ChangeFigures, EngineSecond, RefusalFigures};
pub use fairness::Fairness;
pub(crate) use file::read_results;
pub use file::{ResultsError, SCHEMA};
pub use kinds::KindFigures;
pub use machine::Machine;
pub use round::{
    AdmissionFigures, DiskFigures, EntryFigures, HostFigures, PerSecond, Round, Samples, Second,
    ServerFigures,
};
pub use series::{Point, Series};
pub use sweep::{Cell, CellKey, Failure, Results, Settings, Summary, Variable};
