//! Reads and writes on the embedded engine.

use std::hint::black_box;
use std::ops::ControlFlow;

use flifo_engine::row::{Prefix, Row, Value};
use flifo_engine::{Database, Isolation, Result as EngineResult, Session, TypedTable};

use super::population::{date, history_row, object_ref, text};
use super::schema;
use super::script::Input;
use crate::measure::closed_loop::{Attempt, End};
use crate::measure::definition::TableDefinition;
use crate::measure::workload::{Random, can_be_retried};
use crate::support::error::Error;

/// Handles of the tables.
#[derive(Clone)]
pub(crate) struct Tables {
    zone: TypedTable,
    section: TypedTable,
    object: TypedTable,
    stat: TypedTable,
    pub(crate) history: TypedTable,
}

impl Tables {
    /// Opens the existing tables.
    pub(crate) fn open(database: &Database) -> Result<Self, Error> {
        let table = |table: &TableDefinition| database.typed_table(table.name);
        Ok(Tables {
            zone: table(&schema::zone::TABLE)?,
            section: table(&schema::section::TABLE)?,
            object: table(&schema::object::TABLE)?,
            stat: table(&schema::stat::TABLE)?,
            history: table(&schema::history::TABLE)?,
        })
    }
}

/// One user's transactions.
pub(crate) struct Executor<'s> {
    session: &'s Session,
    tables: &'s Tables,
    statements: u64,
}

impl<'s> Executor<'s> {
    pub(crate) fn new(session: &'s Session, tables: &'s Tables) -> Self {
        Executor { session, tables, statements: 0 }
    }

    /// The statements since the last call.
    pub(crate) fn take_statements(&mut self) -> u64 {
        std::mem::take(&mut self.statements)
    }

    /// Runs a transaction. `random` has the contents of new rows.
    pub(crate) fn attempt(&mut self, input: Input, random: &mut Random) -> Result<Attempt, Error> {
        match input {
            Input::Read { object } => {
                self.sel1(object)?;
                self.sel2(object)?;
            }
            Input::Write { object, moved, updated } => match self.delete(object, moved) {
                Ok(is_deleted) => {
                    // From here on the transaction goes on to its end: a row that was deleted comes back.
                    if is_deleted {
                        let row = history_row(random, object, moved);
                        self.until_done(|executor| executor.insert(&row))?;
                    }
                    let (end, note) = (date(random), text(random, 100));
                    self.until_done(|executor| executor.update((object, updated), (&end, &note)))?;
                }
                Err(error) => return can_be_retried(error).map(Attempt::Again),
            },
        }
        Ok(Attempt::Ended(End::Committed))
    }

    fn until_done(&mut self, mut run: impl FnMut(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        loop {
            match run(self) {
                Err(error) => can_be_retried(error)?,
                Ok(()) => return Ok(()),
            };
        }
    }

    /// An object with its section and zone.
    fn sel1(&mut self, object: u32) -> Result<(), Error> {
        let tables = self.tables;
        let mut txn = self.session.begin(Isolation::ReadCommitted);
        let _statement = txn.statement()?;
        let object = tables.object.get(&mut txn, &object_ref(object))?.ok_or_else(missing)?;
        let section = text_of(&object, schema::object::REF_SECTION)?;
        let section = tables.section.get(&mut txn, section)?.ok_or_else(missing)?;
        let zone = text_of(&section, schema::section::REF_ZONE)?;
        black_box(tables.zone.get(&mut txn, zone)?.ok_or_else(missing)?);
        self.statements += 1;
        Ok(())
    }

    /// The history of an object in order, with the names of the states.
    fn sel2(&mut self, object: u32) -> Result<(), Error> {
        let tables = self.tables;
        let mut txn = self.session.begin(Isolation::ReadCommitted);
        let _statement = txn.statement()?;
        let mut stats = Vec::new();
        tables.history.scan_index(&mut txn, "by_object", Prefix(&object_ref(object)), |row| {
            let stat = row.get(schema::history::REF_STAT).map(|stat| stat.to_value());
            stats.push(stat.unwrap_or(Value::Null));
            black_box(row.get(schema::history::NOTE).is_ok());
            ControlFlow::Continue(())
        })?;
        for stat in &stats {
            let stat = stat.as_ref().as_text().unwrap_or_default();
            black_box(tables.stat.get_with(&mut txn, stat, |row| row.get(schema::stat::NUMB).is_ok())?);
        }
        self.statements += 1;
        Ok(())
    }

    /// The number of a row of a history.
    fn find(
        &self,
        txn: &mut flifo_engine::Transaction<'_>,
        (object, horder): (u32, u32),
    ) -> EngineResult<Option<u64>> {
        let (object, mut found) = (object_ref(object), None);
        self.tables.history.scan_entries(txn, "by_object", Prefix((object.as_str(), horder)), |entry| {
            found = entry.get(schema::history::ID).ok().and_then(|id| id.as_u64());
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// Deletes a row; false if another user has deleted it, who will insert it again.
    fn delete(&mut self, object: u32, horder: u32) -> Result<bool, Error> {
        let mut txn = self.session.begin(Isolation::ReadCommitted);
        let _statement = txn.statement()?;
        self.statements += 1;
        let Some(id) = self.find(&mut txn, (object, horder))? else { return Ok(false) };
        let is_deleted = self.tables.history.delete(&mut txn, id)?;
        txn.commit()?;
        Ok(is_deleted)
    }

    fn insert(&mut self, row: &[Value]) -> Result<(), Error> {
        let mut txn = self.session.begin(Isolation::ReadCommitted);
        let _statement = txn.statement()?;
        self.statements += 1;
        self.tables.history.insert(&mut txn, row)?;
        Ok(txn.commit()?)
    }

    fn update(&mut self, place: (u32, u32), (end, note): (&str, &str)) -> Result<(), Error> {
        let mut txn = self.session.begin(Isolation::ReadCommitted);
        let _statement = txn.statement()?;
        self.statements += 1;
        let Some(id) = self.find(&mut txn, place)? else { return Ok(()) };
        self.tables.history.update_with(&mut txn, id, |row| {
            row.set(schema::history::END_DATE, end)?;
            Ok(row.set(schema::history::NOTE, note)?)
        })?;
        Ok(txn.commit()?)
    }
}

/// A text of a row; the schema has its type.
fn text_of(row: &Row, column: usize) -> EngineResult<&str> {
    Ok(row.get(column)?.as_text().unwrap_or_default())
}

fn missing() -> Error {
    Error::Data(
        "a row that every data set has is missing: the data are damaged; remove the data directory to load them again"
            .into(),
    )
}
