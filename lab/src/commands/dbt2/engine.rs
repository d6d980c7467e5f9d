//! `flifo dbt2` on the embedded engine: data, users, checks.

use super::args::Dbt2Args;
use crate::commands::common::{Ended, and_afterwards, command_line};
use crate::commands::loads::engine_cell::{self, watch};
use crate::commands::loads::plan::{Plan, Step};
use crate::commands::steps::{Keep, Ran, Subject, keep_as_requested, measure_and_keep};
use crate::measure::closed_loop::Account;
use crate::measure::dbt2::{Data, Dbt2, Users, sound};
use crate::measure::sampler;
use crate::results::{CellKey, Results, Settings};
use crate::support::clock::Start;
use crate::support::error::Error;
use crate::support::progress::Progress;

/// `flifo dbt2` without `--target`.
pub(super) fn dbt2(args: &Dbt2Args, plan: &Plan, start: &Start) -> Result<Ended, Error> {
    run(args, plan, start, command_line(), &mut |results, measured| {
        keep_as_requested(args.load.outputs(), (&args.load.record, super::NAME), &results, measured)
    })
}

/// The load, whose results `keep` takes; `command_line` is what repeats it.
pub(super) fn run(
    args: &Dbt2Args,
    plan: &Plan,
    start: &Start,
    command_line: String,
    keep: &mut Keep<'_>,
) -> Result<Ended, Error> {
    engine_cell::check_limits(&args.load, plan)?;
    let progress = Progress::new();
    let requested = Dbt2 {
        dir: &args.load.data,
        scale: args.scale(),
        seed: args.load.seed,
        config: args.load.engine_config(),
    };
    let data = Data::prepare(&requested, &progress)?;
    let results = Results::new(
        sampler::machine(&args.load.data),
        settings(args, plan, &data),
        command_line,
        start.utc(),
    );
    let before = data.account()?;
    let mut subject = Engine { args, plan, data: &data, open: None, acknowledged: Account::default() };
    let (measured, kept) = measure_and_keep(keep, plan, &mut subject, &progress, results, start);
    let acknowledged = subject.acknowledged;
    // The users' sessions end first.
    drop(subject);
    let checked = measured.and_then(|ended| {
        if ended == Ended::Done {
            sound(&data.check((before, acknowledged), &progress)?)?;
        }
        Ok(ended)
    });
    let closed = checked.and_then(|ended| data.close().map(|()| ended));
    and_afterwards(closed, kept, &progress)
}

fn settings(args: &Dbt2Args, plan: &Plan, data: &Data) -> Settings {
    args.settings(engine_cell::settings(&args.load, plan, &data.database))
}

struct Engine<'a> {
    args: &'a Dbt2Args,
    plan: &'a Plan,
    data: &'a Data,
    open: Option<(u32, Users)>,
    /// The changes of all committed transactions so far.
    acknowledged: Account,
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
        self.acknowledged = self.acknowledged.plus(counts.account);
        Ok(watched.map_or(Ran::Interrupted, |watched| {
            Ran::Measured(Box::new(super::with_kinds(watched.round(step.round, &counts.all), &counts)))
        }))
    }
}
