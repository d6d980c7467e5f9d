//! Users on the embedded engine, each of which calls it from a thread of its own.

use std::sync::Arc;
use std::time::Duration;

use flifo_admission::Admission;
use flifo_engine::Database;

use super::data::Data;
use super::inputs::{Input, Mix, Pace, Quirks, Script, ScriptOf, TransactionKind};
use super::scale::Scale;
use super::tables::Tables;
use super::transactions::Executor;
use crate::measure::closed_loop::{self, Account, Attempt, Counts, Group, User, Work};
use crate::measure::frontend::Window;
use crate::measure::workload::can_be_retried;
use crate::support::error::Error;

/// What the users do.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// The shares of the transactions.
    pub mix: Mix,
    /// With think times, or without.
    pub pace: Pace,
    /// DBT-2's, or none.
    pub quirks: Quirks,
    /// With the round and the user's number, what determines the inputs.
    pub seed: u64,
    /// The round.
    pub round: u32,
}

impl Load {
    /// The inputs of this load on data of a scale and a seed.
    pub(crate) fn script(&self, (scale, data_seed): (Scale, u64)) -> ScriptOf {
        let Load { mix, pace, quirks, seed, round } = *self;
        ScriptOf { scale, data_seed, mix, pace, quirks, seed, round }
    }
}

/// Users of the embedded engine.
///
/// Protocol: [`Users::begin`] starts a cell, [`Users::finish`] waits for its end; the threads stay for the next one. What
/// was counted in the window in between is [`Counts`], whose `kinds` are in the order of [`TransactionKind::ALL`].
pub struct Users {
    group: Group<EngineUser>,
    data: (Scale, u64),
}

impl Users {
    /// Starts the threads of that many users.
    pub fn open(users: u32, data: &Data) -> Result<Self, Error> {
        let user =
            |number| EngineUser { number, database: data.database.clone(), tables: data.tables.clone() };
        let group = Group::open((0..users).map(user), TransactionKind::ALL.len())?;
        Ok(Users { group, data: data.described() })
    }

    /// Starts a cell: each user gets a session under `admission`. The window opens after `settle` and stays open for
    /// `time`.
    pub fn begin(
        &self,
        admission: &Arc<Admission>,
        load: &Load,
        (settle, time): (Duration, Duration),
    ) -> Arc<Window> {
        self.group.begin((Arc::clone(admission), load.script(self.data)), (settle, time))
    }

    /// Waits for the last transaction; returns the sum of all counters, with users in their order.
    pub fn finish(&mut self) -> Result<Counts, Error> {
        self.group.finish()
    }
}

struct EngineUser {
    number: u32,
    database: Database,
    tables: Tables,
}

impl User for EngineUser {
    type Load = (Arc<Admission>, ScriptOf);

    fn run(&mut self, (admission, script): &Self::Load, window: &Window) -> Result<Counts, Error> {
        let session = self.database.session(admission);
        let executor = Executor::new(&session, &self.tables, script.quirks);
        run(executor, script, self.number, window)
    }
}

/// Runs the transactions of a user.
pub(crate) fn run(
    executor: impl Execute,
    script: &ScriptOf,
    user: u32,
    window: &Window,
) -> Result<Counts, Error> {
    let mut script = Script::new(script, user);
    let input = script.next_input();
    closed_loop::run(&mut OneUser { executor, script, input }, window, TransactionKind::ALL.len())
}

/// What runs a user's transactions.
pub(crate) trait Execute {
    /// Runs a transaction once: it has ended, or was rolled back and may run again.
    fn attempt(&mut self, input: &Input) -> Result<Attempt, Error>;
    /// The statements since the last call.
    fn take_statements(&mut self) -> u64;
}

impl Execute for Executor<'_> {
    fn attempt(&mut self, input: &Input) -> Result<Attempt, Error> {
        match Executor::attempt(self, input) {
            Ok(end) => Ok(Attempt::Ended(end)),
            Err(error) => can_be_retried(error).map(Attempt::Again),
        }
    }

    fn take_statements(&mut self) -> u64 {
        Executor::take_statements(self)
    }
}

struct OneUser<E> {
    executor: E,
    script: Script,
    input: Input,
}

impl<E: Execute> Work for OneUser<E> {
    fn draw(&mut self) -> Duration {
        self.input = self.script.next_input();
        self.script.pause(self.input.kind())
    }

    fn kind(&self) -> usize {
        self.input.kind() as usize
    }

    fn attempt(&mut self) -> Result<Attempt, Error> {
        self.executor.attempt(&self.input)
    }

    fn added(&self) -> Account {
        match &self.input {
            Input::NewOrder(_) => Account { orders: 1, paid_cents: 0 },
            Input::Payment(payment) => Account { orders: 0, paid_cents: payment.cents },
            _ => Account::default(),
        }
    }

    fn take_statements(&mut self) -> u64 {
        self.executor.take_statements()
    }
}
