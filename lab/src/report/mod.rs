//! Reports: tables for a terminal, a self-contained page, pictures.
//!
//! | module | holds |
//! |---|---|
//! | `table`, `chart`, `page`, `palette` | what all reports are made of, those of `flifo-peers` too |
//! | `series` | counters over time, as a stack of small graphs |
//! | `live` | the lines of `stat --live` |
//! | `claims`, `experiment` | published claims beside this machine's figures; a repeated study |
//! | `outputs` | saves, prints and draws a report, whatever its kind |
//! | `sweep` | a sweep or a bench, and its comparison with the published figures |
//! | `iobench` | a run of `iobench`, with advice and the comparison with a published study |
//! | `database` | the texts of `check` and `stat` |
//!
//! This layer imports [`crate::results`] and [`crate::support`].

pub(crate) mod chart;
pub(crate) mod claims;
pub(crate) mod database;
pub mod experiment;
pub mod iobench;
pub(crate) mod live;
mod outputs;
pub(crate) mod page;
mod palette;
pub(crate) mod series;
mod style;
pub mod sweep;
pub mod table;

pub(crate) use outputs::INTERRUPTED;
pub use outputs::{Outputs, Report, keep, show};
pub use style::{ReportError, Style};
