//! `flifo db-stress` on the embedded engine: data, users, checks.

use super::args::DbStressArgs;
use crate::commands::common::{Ended, and_afterwards, command_line};
use crate::commands::loads::engine_cell::{self, watch, with_names};
use crate::commands::loads::plan::{Plan, Step};
use crate::commands::steps::{Keep, Ran, Subject, keep_as_requested, measure_and_keep};
use crate::measure::db_stress::{Data, DbStress, KINDS, Users};
use crate::measure::sampler;
use crate::results::{CellKey, Results};
use crate::support::clock::Start;
use crate::support::error::Error;
use crate::support::progress::Progress;

/// `flifo db-stress` without `--target`.
pub(super) fn db_stress(args: &DbStressArgs, plan: &Plan, start: &Start) -> Result<Ended, Error> {
    run(args, plan, start, command_line(), &mut |results, measured| {
        keep_as_requested(args.load.outputs(), (&args.load.record, super::NAME), &results, measured)
    })
}

/// The load, whose results `keep` takes; `command_line` is what repeats it.
pub(super) fn run(
    args: &DbStressArgs,
    plan: &Plan,
    start: &Start,
    command_line: String,
    keep: &mut Keep<'_>,
) -> Result<Ended, Error> {
    engine_cell::check_limits(&args.load, plan)?;
    let progress = Progress::new();
    let requested = DbStress {
        dir: &args.load.data,
        objects: args.objects,
        seed: args.load.seed,
        config: args.load.engine_config(),
    };
    let data = Data::prepare(&requested, &progress)?;
    let settings = args.settings(engine_cell::settings(&args.load, plan, &data.database));
    let machine = sampler::machine(&args.load.data);
    let results = Results::new(machine, settings, command_line, start.utc());
    let mut subject = Engine { args, plan, data: &data, open: None };
    let (measured, kept) = measure_and_keep(keep, plan, &mut subject, &progress, results, start);
    // The users' sessions end first.
    drop(subject);
    let checked = measured.and_then(|ended| match ended {
        Ended::Done => data.check(&progress).map(|()| ended),
        _ => Ok(ended),
    });
    let closed = checked.and_then(|ended| data.close().map(|()| ended));
    and_afterwards(closed, kept, &progress)
}

struct Engine<'a> {
    args: &'a DbStressArgs,
    plan: &'a Plan,
    data: &'a Data,
    open: Option<(u32, Users)>,
}

impl Subject<Step> for Engine<'_> {
    fn key(&self, step: &Step) -> CellKey {
        engine_cell::key(self.plan, step)
    }

    fn run(&mut self, step: &Step) -> Result<Ran, Error> {
        let users = match &mut self.open {
            Some((users, open)) if *users == step.users => open,
            _ => {
                // The old users first: the limits were checked for the most at a time.
                drop(self.open.take());
                &mut self.open.insert((step.users, Users::open(step.users, self.data)?)).1
            }
        };
        let load = self.args.load_of(step);
        let admission = step.admission()?;
        let window = users.begin(&admission, &load, (self.plan.settle, self.plan.time));
        let watched = watch(&self.data.database, &admission, &window);
        let counts = users.finish()?;
        Ok(watched.map_or(Ran::Interrupted, |watched| {
            let round = watched.round(step.round, &counts.all);
            Ran::Measured(Box::new(with_names(round, &counts, KINDS)))
        }))
    }
}
