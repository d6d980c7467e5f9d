//! `flifo dbt2` on a live server: data, users, checks.

use super::args::Dbt2Args;
use crate::commands::common::{Ended, and_afterwards, command_line};
use crate::commands::loads::plan::{Plan, Step};
use crate::commands::loads::server::Live;
use crate::commands::steps::{Ran, Subject, keep_as_requested, measure_and_keep};
use crate::measure::closed_loop::Account;
use crate::measure::dbt2::server::{ServerUsers, TEXTS};
use crate::measure::dbt2::{server_data, sound};
use crate::measure::server::Address;
use crate::results::{CellKey, Results};
use crate::support::clock::Start;
use crate::support::error::Error;
use crate::support::progress::Progress;

/// `flifo dbt2 --target`.
pub(super) fn dbt2(args: &Dbt2Args, address: &Address, plan: &Plan, start: &Start) -> Result<Ended, Error> {
    let progress = Progress::new();
    let live = Live::open(&args.load, address, (plan, TEXTS.len()), &progress)?;
    let endpoint = live.endpoint.clone();
    server_data::prepare(&endpoint, (args.scale(), args.load.seed), &progress)?;
    let before = server_data::account(&endpoint)?;
    let settings = args.settings(live.settings(&args.load, plan));
    let results = Results::new(live.machine(), settings, command_line(), start.utc());
    let mut subject = Server { args, plan, live, open: None, acknowledged: Account::default() };
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
    let checked = measured.and_then(|ended| {
        if ended == Ended::Done {
            let accounts = (before, subject.acknowledged);
            sound(&server_data::check(&endpoint, &args.scale(), accounts)?)?;
        }
        Ok(ended)
    });
    and_afterwards(and_afterwards(checked, kept, &progress), restored, &progress)
}

struct Server<'a> {
    args: &'a Dbt2Args,
    plan: &'a Plan,
    live: Live,
    open: Option<(u32, ServerUsers)>,
    /// The changes of all committed transactions so far.
    acknowledged: Account,
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
                let data = (self.args.scale(), self.args.load.seed);
                let server = (&self.live.endpoint, self.live.protocol);
                &mut self.open.insert((step.users, ServerUsers::open(step.users, server, data)?)).1
            }
        };
        self.live.admin.apply(&step.setting)?;
        let window = users.begin(&self.args.load_of(step), (self.plan.settle, self.plan.time));
        let readings = self.live.watch(&window, users.tids());
        let counts = users.finish()?;
        self.acknowledged = self.acknowledged.plus(counts.account);
        let Some(readings) = readings? else { return Ok(Ran::Interrupted) };
        let round = self.live.round(step.round, &window, &counts, readings);
        Ok(Ran::Measured(Box::new(super::with_kinds(round, &counts))))
    }
}
