//! Users on the embedded engine, each of which calls it from a thread of its own.

use std::sync::Arc;
use std::time::Duration;

use flifo_admission::Admission;
use flifo_engine::Database;

use super::data::Data;
use super::script::{Input, KINDS, Script, ScriptOf};
use super::transactions::{Executor, Tables};
use crate::measure::closed_loop::{self, Account, Attempt, Counts, Group, User, Work};
use crate::measure::frontend::Window;
use crate::support::error::Error;

/// What the users do.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Reads for each write; 0: no writes.
    pub reads_per_write: u32,
    /// With the round and the user's number, what determines the inputs.
    pub seed: u64,
    /// The round.
    pub round: u32,
}

impl Load {
    /// The inputs of this load on that many objects.
    pub(crate) fn script(&self, objects: u32) -> ScriptOf {
        let Load { reads_per_write, seed, round } = *self;
        ScriptOf { objects, reads_per_write, seed, round }
    }
}

/// Users of the embedded engine.
///
/// Protocol: [`Users::begin`] starts a cell, [`Users::finish`] waits for its end; the threads stay for the next one. What
/// was counted in the window in between is [`Counts`], whose `kinds` are in the order of [`KINDS`].
pub struct Users {
    group: Group<EngineUser>,
    objects: u32,
}

impl Users {
    /// Starts the threads of that many users.
    pub fn open(users: u32, data: &Data) -> Result<Self, Error> {
        let user =
            |number| EngineUser { number, database: data.database.clone(), tables: data.tables.clone() };
        let group = Group::open((0..users).map(user), KINDS.len())?;
        Ok(Users { group, objects: data.objects() })
    }

    /// Starts a cell: each user gets a session under `admission`. The window opens after `settle` and stays open for
    /// `time`.
    pub fn begin(
        &self,
        admission: &Arc<Admission>,
        load: &Load,
        (settle, time): (Duration, Duration),
    ) -> Arc<Window> {
        self.group.begin((Arc::clone(admission), load.script(self.objects)), (settle, time))
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
        let mut script = Script::new(script, self.number);
        let input = script.next_input();
        let executor = Executor::new(&session, &self.tables);
        closed_loop::run(&mut OneUser { executor, script, input }, window, KINDS.len())
    }
}

struct OneUser<'s> {
    executor: Executor<'s>,
    script: Script,
    input: Input,
}

impl Work for OneUser<'_> {
    fn draw(&mut self) -> Duration {
        self.input = self.script.next_input();
        Duration::ZERO
    }

    fn kind(&self) -> usize {
        self.input.kind()
    }

    fn attempt(&mut self) -> Result<Attempt, Error> {
        self.executor.attempt(self.input, &mut self.script.random)
    }

    fn added(&self) -> Account {
        Account::default()
    }

    fn take_statements(&mut self) -> u64 {
        self.executor.take_statements()
    }
}
