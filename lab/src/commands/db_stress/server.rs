//! `flifo db-stress` on a live server: data, users, checks.

use super::args::DbStressArgs;
use crate::commands::common::{Ended, and_afterwards, command_line};
use crate::commands::loads::engine_cell::with_names;
use crate::commands::loads::plan::{Plan, Step};
use crate::commands::loads::server::Live;
use crate::commands::steps::{Ran, Subject, keep_as_requested, measure_and_keep};
use crate::measure::db_stress::KINDS;
use crate::measure::db_stress::server::{ServerUsers, TEXTS, check, prepare};
use crate::measure::server::Address;
use crate::results::{CellKey, Results};
use crate::support::clock::Start;
use crate::support::error::Error;
use crate::support::progress::Progress;

/// `flifo db-stress --target`.
pub(super) fn db_stress(
    args: &DbStressArgs,
    address: &Address,
    plan: &Plan,
    start: &Start,
) -> Result<Ended, Error> {
    let progress = Progress::new();
    let live = Live::open(&args.load, address, (plan, TEXTS.len()), &progress)?;
    let endpoint = live.endpoint.clone();
    prepare(&endpoint, (args.objects, args.load.seed), &progress)?;
    let settings = args.settings(live.settings(&args.load, plan));
    let results = Results::new(live.machine(), settings, command_line(), start.utc());
    let mut subject = Server { args, plan, live, open: None };
    let mut keep = |results: Results, measured: &Result<Ended, Error>| {
        keep_as_requested(
            args.load.outputs(),
            (&args.load.record, super::RECORD_OF_A_SERVER),
            &results,
            measured,
        )
    };
    let (measured, kept) = measure_and_keep(&mut keep, plan, &mut subject, &progress, results, start);
    // The users' connections end first.
    drop(subject.open.take());
    let restored = subject.live.admin.restore();
    let checked = measured.and_then(|ended| match ended {
        Ended::Done => check(&endpoint, args.objects).map(|()| ended),
        _ => Ok(ended),
    });
    and_afterwards(and_afterwards(checked, kept, &progress), restored, &progress)
}

struct Server<'a> {
    args: &'a DbStressArgs,
    plan: &'a Plan,
    live: Live,
    open: Option<(u32, ServerUsers)>,
}

impl Subject<Step> for Server<'_> {
    fn key(&self, step: &Step) -> CellKey {
        self.live.key(self.plan, step)
    }

    fn run(&mut self, step: &Step) -> Result<Ran, Error> {
        let users = match &mut self.open {
            Some((users, open)) if *users == step.users => open,
            _ => {
                // The old connections first: room was checked for the most at a time.
                drop(self.open.take());
                let server = (&self.live.endpoint, self.live.protocol);
                let opened = ServerUsers::open(step.users, server, self.args.objects)?;
                &mut self.open.insert((step.users, opened)).1
            }
        };
        self.live.admin.apply(&step.setting)?;
        let window = users.begin(&self.args.load_of(step), (self.plan.settle, self.plan.time));
        let readings = self.live.watch(&window, users.tids());
        let counts = users.finish()?;
        let Some(readings) = readings? else { return Ok(Ran::Interrupted) };
        let round = self.live.round(step.round, &window, &counts, readings);
        Ok(Ran::Measured(Box::new(with_names(round, &counts, KINDS))))
    }
}
