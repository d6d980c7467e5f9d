//! The lab of flifo: measures, and shows the results.
//!
//! Four layers over a few helpers. A layer imports only layers below it; `tests/structure.rs` fails on any other import.
//!
//! | layer | holds | imports |
//! |---|---|---|
//! | [`commands`] | a folder a command: its arguments, its plan, its run | all below |
//! | [`measure`] | workloads, connections, clients of live servers, limiters, storage, sampler | `results`, `support` |
//! | [`report`] | tables, charts, page and picture, for all commands and for `flifo-peers` | `results`, `support` |
//! | [`results`] | the JSON of a run, and the published figures | `support` |
//! | [`support`] | errors, output files, progress, limits, formatting | nothing |
//!
//! `measure` and `report` do not know each other: what passes between them is a value of `results`.
//!
//! # Where a new command goes
//!
//! 1. `commands/NAME/`: `args.rs` with its options, `plan.rs` if it measures many cells, and its run; a variant of
//!    `commands::cli::Command` and a line in `commands::run`.
//! 2. `measure/`: a load, a client or a counter that it needs and another command could use.
//! 3. `results/`: the types of its JSON.
//! 4. `report/NAME/`: its report, an implementation of `report::Report` out of the shared tables, charts and page.

#[cfg(test)]
#[path = "../tests/common/golden.rs"]
mod golden;

pub mod commands;
pub mod measure;
pub mod report;
pub mod results;
pub mod support;
