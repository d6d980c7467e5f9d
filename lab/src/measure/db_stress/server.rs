//! The workload as autocommitted SQL on a server: users, the data set, its check.

use std::sync::Arc;
use std::time::Duration;

use flifo_engine::row::Value as RowValue;
use mysql_common::value::Value;

use super::population::{HISTORY_ROWS, Population, date, history_row, object_ref, text};
use super::schema::TABLES;
use super::script::{Input, KINDS, Script, ScriptOf};
use super::users::Load;
use crate::measure::closed_loop::{self, Account, Attempt, Counts, End, Group, User, Work};
use crate::measure::frontend::Window;
use crate::measure::server::Protocol;
use crate::measure::server::data_set::DataSet;
use crate::measure::server::endpoint::Endpoint;
use crate::measure::server::statements::{Failed, Statements, integer, statements};
use crate::support::error::Error;
use crate::support::progress::Progress;

statements! {
    Sel1: "SELECT o.ref, o.name, s.ref, s.name, z.ref, z.name FROM object o, section s, zone z WHERE o.ref = ? AND s.ref = o.ref_section AND z.ref = s.ref_zone";
    Sel2: "SELECT s.ref, s.name, s.numb, h.horder, h.begin_date, h.end_date, h.note FROM history h, stat s WHERE h.ref_object = ? AND s.ref = h.ref_stat ORDER BY h.horder";
    Delete: "DELETE FROM history WHERE ref_object = ? AND horder = ?";
    Insert: "INSERT INTO history (ref_object, horder, ref_stat, begin_date, end_date, note) VALUES (?, ?, ?, ?, ?, ?)";
    Update: "UPDATE history SET end_date = ?, note = ? WHERE ref_object = ? AND horder = ?";
}

/// Objects that load in one part.
const OBJECTS_OF_A_PART: u32 = 10_000;

/// Finds or loads the data in the address's database.
pub(crate) fn prepare(
    endpoint: &Endpoint,
    (objects, seed): (u32, u64),
    progress: &Progress,
) -> Result<(), Error> {
    let population = Population { objects, seed };
    let set = DataSet {
        name: "db-stress",
        described: format!("layout 1, {objects} objects, seed {seed}"),
        tables: &TABLES,
        parts: objects.div_ceil(OBJECTS_OF_A_PART),
        rows_total: population.rows_total(),
        rows: &|table, part| {
            let first = (part - 1) * OBJECTS_OF_A_PART + 1;
            population.rows_of(table, first..=objects.min(first + OBJECTS_OF_A_PART - 1))
        },
    };
    set.prepare(endpoint, progress)
}

/// Checks that each object has each row of its history once. No user may be active.
pub(crate) fn check(endpoint: &Endpoint, objects: u32) -> Result<(), Error> {
    let mut statements = Statements::open(endpoint, Protocol::Text, CHECKS)?;
    let mut count = |place| match statements.row(place, &[]) {
        Ok(row) => row.and_then(|row| integer(row.first()?)).ok_or(Error::Protocol("a number that is none")),
        Err(Failed::Lasts(error)) => Err(error),
        Err(Failed::Passes(_)) => Err(Error::Cell("the check of the data ran into a lock".into())),
    };
    let (with_history, wrong) = (count(0)?, count(1)?);
    match with_history == i64::from(objects) && wrong == 0 {
        true => Ok(()),
        false => Err(Error::Data(format!(
            "the data are not consistent after the load: of {objects} objects {with_history} have a history, and {wrong} of those not each of its {HISTORY_ROWS} rows once; please report this"
        ))),
    }
}

const CHECKS: &[&str] = &[
    "SELECT COUNT(DISTINCT ref_object) FROM history",
    "SELECT COUNT(*) FROM (SELECT ref_object FROM history GROUP BY ref_object HAVING COUNT(*) <> 20 OR COUNT(DISTINCT horder) <> 20) AS wrong",
];
const _: () = assert!(HISTORY_ROWS == 20);

/// Users of a server, each with a connection and a thread.
pub(crate) struct ServerUsers {
    group: Group<ServerUser>,
    objects: u32,
}

impl ServerUsers {
    /// Opens the connections of that many users.
    pub(crate) fn open(
        users: u32,
        (endpoint, protocol): (&Endpoint, Protocol),
        objects: u32,
    ) -> Result<Self, Error> {
        let user = |number| -> Result<ServerUser, Error> {
            Ok(ServerUser { number, statements: Statements::open(endpoint, protocol, TEXTS)? })
        };
        let all = (0..users).map(user).collect::<Result<Vec<_>, _>>()?;
        Ok(ServerUsers { group: Group::open(all, KINDS.len())?, objects })
    }

    /// Starts a cell. The window opens after `settle` and stays open for `time`.
    pub(crate) fn begin(&self, load: &Load, times: (Duration, Duration)) -> Arc<Window> {
        self.group.begin(load.script(self.objects), times)
    }

    /// Waits for the last transaction; returns the sum of all counters.
    pub(crate) fn finish(&mut self) -> Result<Counts, Error> {
        self.group.finish()
    }

    /// Kernel ids of the threads.
    pub(crate) fn tids(&self) -> &[u32] {
        self.group.tids()
    }
}

struct ServerUser {
    number: u32,
    statements: Statements,
}

impl User for ServerUser {
    type Load = ScriptOf;

    fn run(&mut self, script: &ScriptOf, window: &Window) -> Result<Counts, Error> {
        let mut script = Script::new(script, self.number);
        let input = script.next_input();
        closed_loop::run(
            &mut OneUser { statements: &mut self.statements, script, input },
            window,
            KINDS.len(),
        )
    }
}

struct OneUser<'s> {
    statements: &'s mut Statements,
    script: Script,
    input: Input,
}

impl OneUser<'_> {
    fn change(&mut self, sql: Sql, values: &[Value]) -> Result<u64, Failed> {
        Ok(self.statements.run(sql as usize, values)?.changed)
    }

    fn until_done(&mut self, sql: Sql, values: &[Value]) -> Result<(), Error> {
        loop {
            match self.change(sql, values) {
                Ok(_) => return Ok(()),
                Err(Failed::Passes(_)) => {}
                Err(Failed::Lasts(error)) => return Err(error),
            }
        }
    }

    fn run(&mut self) -> Result<(), Failed> {
        match self.input {
            Input::Read { object } => {
                let object = [bytes(&object_ref(object))];
                self.statements.run(Sql::Sel1 as usize, &object)?;
                self.statements.run(Sql::Sel2 as usize, &object)?;
            }
            Input::Write { object, moved, updated } => {
                let key = bytes(&object_ref(object));
                let is_deleted = self.change(Sql::Delete, &[key.clone(), Value::Int(moved.into())])? > 0;
                // From here on the transaction goes on to its end: a row that was deleted comes back.
                if is_deleted {
                    let row = history_row(&mut self.script.random, object, moved);
                    // The table numbers it.
                    let values: Vec<Value> = row[1..].iter().map(value).collect();
                    self.until_done(Sql::Insert, &values)?;
                }
                let random = &mut self.script.random;
                let (end, note) = (bytes(&date(random)), bytes(&text(random, 100)));
                self.until_done(Sql::Update, &[end, note, key, Value::Int(updated.into())])?;
            }
        }
        Ok(())
    }
}

fn bytes(text: &str) -> Value {
    Value::Bytes(text.as_bytes().to_vec())
}

fn value(value: &RowValue) -> Value {
    match value.as_ref().as_text() {
        Some(text) => bytes(text),
        None => value.as_ref().as_i64().map_or(Value::NULL, Value::Int),
    }
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
        match self.run() {
            Ok(()) => Ok(Attempt::Ended(End::Committed)),
            Err(Failed::Passes(why)) => Ok(Attempt::Again(why)),
            Err(Failed::Lasts(error)) => Err(error),
        }
    }

    fn added(&self) -> Account {
        Account::default()
    }

    fn take_statements(&mut self) -> u64 {
        self.statements.take_executed()
    }
}
