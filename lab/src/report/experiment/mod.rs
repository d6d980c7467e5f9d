//! The report of `experiment`: a study's claims beside this machine's figures, and its own graphs.
//!
//! | module | holds |
//! |---|---|
//! | `flifo_2009`, `thread_concurrency_2009`, `kernel_mutex_2011` | the claims and graphs of each study |
//! | `buffer_pool_instances_2012` | the same of the study whose graphs are over time |
//! | `cells` | cells out of a run, and figures of them round by round |
//! | `lines` | measured and published lines |
//! | `show` | text and page |
//! | `index` | the list of all studies, and the index of their pages |
//!
//! A study judges a saved experiment from its runs alone, so that `flifo report` shows the same verdicts.

pub(crate) mod buffer_pool_instances_2012;
mod cells;
#[doc(hidden)]
pub mod fixture;
pub(crate) mod flifo_2009;
mod index;
pub(crate) mod kernel_mutex_2011;
mod lines;
mod show;
pub(crate) mod thread_concurrency_2009;

use comfy_table::Table;

use super::Style;
use super::chart::Chart;
use super::series::Stack;
use crate::results::claims::Claim;
use crate::results::experiment::ExperimentResults;
pub(crate) use index::{Entry, index, list};
pub use show::ExperimentReport;

/// A published study: what it claims, and what it draws.
pub(crate) trait Study {
    /// The study's title, year, server and workload.
    fn about(&self) -> String;
    /// The claims as published.
    fn claims(&self) -> &[String];
    /// Every claim beside the figures of an experiment, in the order of the study.
    fn judge(&self, experiment: &ExperimentResults) -> Vec<Claim>;
    /// The study's graphs, published and measured.
    fn charts(&self, experiment: &ExperimentResults) -> Vec<Chart>;
    /// Graphs over time, for a study that has them: a title for each group, and for each stack of a group.
    fn over_time(&self, _experiment: &ExperimentResults) -> Vec<(String, Vec<Stack>)> {
        Vec::new()
    }
    /// Tables for a terminal, each with its heading.
    fn tables(&self, experiment: &ExperimentResults, style: Style) -> Vec<(String, Table)>;
}

/// The study of this name, if it runs on the embedded engine.
pub(crate) fn study(name: &str) -> Option<Box<dyn Study>> {
    match name {
        flifo_2009::NAME => Some(Box::new(flifo_2009::Flifo::load())),
        thread_concurrency_2009::NAME => Some(Box::new(thread_concurrency_2009::Limits::load())),
        kernel_mutex_2011::NAME => Some(Box::new(kernel_mutex_2011::KernelMutex::load())),
        buffer_pool_instances_2012::NAME => Some(Box::new(buffer_pool_instances_2012::Instances::load())),
        _ => None,
    }
}

/// Every claim of the experiment's study; none for a study that this version does not know.
pub(crate) fn judge(experiment: &ExperimentResults) -> Vec<Claim> {
    study(&experiment.experiment).map_or_else(Vec::new, |study| study.judge(experiment))
}
