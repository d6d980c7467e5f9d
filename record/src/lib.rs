//! Recorded figures: what a bench measured, as data, and the pages that show it.
//!
//! A bench with `--record` writes one file, `figures/NAME.json`. All files have one schema ([`Record`]). Markdown pages
//! have blocks between `<!-- figures:NAME -->` and `<!-- /figures -->`; `flifo figures` renders them, and a test fails if
//! a block is stale. Git keeps the history.
//!
//! | module | holds |
//! |---|---|
//! | `record` | the schema: machine, rows, targets; reading and writing a file |
//! | `claims` | the claims of a published study, and their table |
//! | `statistics` | medians, spreads, paired ratios with their 95% interval |
//! | `machine`, `date` | the machine and the time of a run |
//! | `place` | where `--record` writes |
//! | `criterion`, `rounds` | the adapters for benches that criterion runs, and for scripts |
//! | `format` | figures as text |
//! | `table`, `heat_map` | rows of a record as a Markdown table, as a picture |
//! | `blocks`, `pages` | which table has which name; the pages, rendered and checked |
//!
//! The crate measures nothing and knows no bench. On a wrong file or page it returns one [`Error`], which names the file.

pub mod blocks;
mod claims;
pub mod criterion;
pub mod date;
mod error;
pub mod format;
pub mod heat_map;
pub mod machine;
pub mod pages;
pub mod place;
mod record;
pub mod rounds;
pub mod statistics;
pub mod table;

pub use claims::Claim;
pub use error::{Error, Result};
pub use machine::{Host, Machine};
pub use record::{Bounds, Key, Record, Row, SCHEMA, Scale, Target, Wanted};
