//! `flifo experiment`: repeats a published study and compares its claims with this machine's figures.
//!
//! | module | holds |
//! |---|---|
//! | `study` | a study as a plan of parts, and its run |
//! | `scale` | how much of a study is run |
//! | `flifo_2009`, `thread_concurrency_2009`, `kernel_mutex_2011` | the parts of each study |
//! | `buffer_pool_instances_2012` | DBT-2 and db_STRESS, whose sizes follow from a first measurement |
//! | `linux_io_2012` | a study of the storage, measured by `iobench` |
//! | `all` | all studies, one after another |
//!
//! A new study is a module here with its parts, a line in `studies`, a command in `args`, and an implementation of
//! `report::experiment::Study` with its claims and graphs.

mod all;
pub mod args;
mod buffer_pool_instances_2012;
mod flifo_2009;
mod kernel_mutex_2011;
pub mod linux_io_2012;
mod scale;
mod study;
mod thread_concurrency_2009;

use super::common::{Ended, print};
use crate::report::Style;
use crate::report::experiment;
use crate::support::error::Error;
use crate::support::interrupt;
use args::{ExperimentArgs, ExperimentCommand};
use study::Study;

/// The studies that run on the embedded engine.
fn studies() -> [Study; 4] {
    [
        flifo_2009::STUDY,
        thread_concurrency_2009::STUDY,
        kernel_mutex_2011::STUDY,
        buffer_pool_instances_2012::STUDY,
    ]
}

/// Runs `flifo experiment`.
pub fn experiment(args: &ExperimentArgs) -> Result<Ended, Error> {
    let Some(command) = &args.what else {
        return match args.list {
            true => print(&experiment::list(Style::stdout())).map(|()| Ended::Done),
            false => Err(Error::Usage(
                "no study named; 'flifo experiment --list' lists them, 'flifo experiment all' runs all"
                    .into(),
            )),
        };
    };
    interrupt::install()?;
    match command {
        ExperimentCommand::Flifo2009(args) => study::run(&flifo_2009::STUDY, args),
        ExperimentCommand::ThreadConcurrency2009(args) => study::run(&thread_concurrency_2009::STUDY, args),
        ExperimentCommand::KernelMutex2011(args) => kernel_mutex_2011::run(args),
        ExperimentCommand::BufferPoolInstances2012(args) => {
            study::run(&buffer_pool_instances_2012::STUDY, args)
        }
        ExperimentCommand::LinuxIo2012(args) => linux_io_2012::linux_io_2012(args),
        ExperimentCommand::All(args) => all::run(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::experiment::study;

    #[test]
    fn every_study_has_a_report() {
        for of_commands in studies() {
            assert!(study(of_commands.name).is_some(), "{}", of_commands.name);
        }
    }
}
