//! Tables of a load on a server: found, or created and loaded in parallel.
//!
//! A table of ours has a comment that begins with `flifo NAME` and ends with what the rows depend on; until all tables are
//! loaded it says `loading` instead. Tables that are loading are dropped and loaded again; no other table is ever dropped.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use super::connect::{self, explain};
use super::endpoint::Endpoint;
use super::session::{Session, quoted};
use crate::measure::definition::{TableDefinition, Values};
use crate::support::error::{Error, of_all};
use crate::support::interrupt;
use crate::support::progress::Progress;

/// Bytes of a statement at most: far below the smallest usual max_allowed_packet.
const INSERT_BYTES_MAX: usize = 256 << 10;
/// Statements of a transaction.
const INSERTS_PER_COMMIT: u32 = 16;
/// Connections that load: a server's inserts wait for its disk now and then.
const LOADERS: usize = 4;

/// The rows of a part of a table.
pub(crate) type Rows = Box<dyn Iterator<Item = Values> + Send>;

/// A data set that a run needs.
pub(crate) struct DataSet<'a> {
    /// The workload's name.
    pub(crate) name: &'static str,
    /// What the rows depend on, in words: layout, scale, seed.
    pub(crate) described: String,
    /// The tables, the largest first.
    pub(crate) tables: &'a [TableDefinition],
    /// Parts of the tables, from 1, which load one after another.
    pub(crate) parts: u32,
    /// All rows together, roughly.
    pub(crate) rows_total: u64,
    /// The rows of a part of a table.
    pub(crate) rows: &'a (dyn Fn(&TableDefinition, u32) -> Rows + Sync),
}

impl DataSet<'_> {
    fn loading(&self) -> String {
        format!("flifo {}: loading", self.name)
    }

    fn loaded(&self) -> String {
        format!("flifo {}: {}", self.name, self.described)
    }

    /// Finds or loads the data in the address's database.
    pub(crate) fn prepare(&self, endpoint: &Endpoint, progress: &Progress) -> Result<(), Error> {
        let mut session = connect::open(endpoint)?;
        connect::set_own_mode(&mut session, endpoint)?;
        session.take_time();
        let mut server = Server { session, endpoint };
        let comments = server.comments(self)?;
        let complete = comments.iter().filter(|(_, comment)| *comment == self.loaded()).count();
        if complete == self.tables.len() {
            server.session.say_goodbye();
            return Ok(());
        }
        // A load that was cut off at its end has named some of its tables.
        let is_ours = |comment: &str| comment == self.loading() || comment == self.loaded();
        if let Some((table, comment)) = comments.iter().find(|(_, comment)| !is_ours(comment)) {
            return Err(self.refused(endpoint, table, comment));
        }
        if !comments.is_empty() {
            progress.note("the last load was not completed: loading again");
        }
        for (table, _) in &comments {
            server.query(&format!("DROP TABLE `{table}`"))?;
        }
        for table in self.tables {
            server.query(&table.create_sql(&self.loading()))?;
        }
        self.load(endpoint, progress)?;
        for table in self.tables {
            server.query(&format!("ALTER TABLE `{}` COMMENT='{}'", table.name, self.loaded()))?;
            server.query(&format!("ANALYZE TABLE `{}`", table.name))?;
        }
        server.session.say_goodbye();
        Ok(())
    }

    fn refused(&self, endpoint: &Endpoint, table: &str, comment: &str) -> Error {
        let database = &endpoint.address.database;
        let what = match comment.strip_prefix(&format!("flifo {}: ", self.name)) {
            Some(found) => format!("holds other data ({found}, not {})", self.described),
            None => "is not flifo's".into(),
        };
        Error::Target(format!(
            "the table {table} of the database {database} {what}: drop it and the others of {}, or use another database",
            self.name
        ))
    }

    fn load(&self, endpoint: &Endpoint, progress: &Progress) -> Result<(), Error> {
        let bar = progress.load_all(self.rows_total);
        let (next, loaded, has_failed) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let jobs = self.parts as usize * self.tables.len();
        let work = || -> Result<(), Error> {
            let mut session = connect::open(endpoint)?;
            connect::set_own_mode(&mut session, endpoint)?;
            session.take_time();
            let mut server = Server { session, endpoint };
            loop {
                let job = next.fetch_add(1, Ordering::Relaxed);
                if job >= jobs || has_failed.load(Ordering::Relaxed) {
                    server.session.say_goodbye();
                    return Ok(());
                }
                let (part, table) = (job / self.tables.len(), &self.tables[job % self.tables.len()]);
                let rows = (self.rows)(table, part as u32 + 1);
                let done = server.insert_all(table, rows, |rows| {
                    bar.set_position(loaded.fetch_add(rows, Ordering::Relaxed) + rows);
                    !has_failed.load(Ordering::Relaxed) && !interrupt::is_requested()
                });
                if done.is_err() {
                    has_failed.store(true, Ordering::Relaxed);
                    return done;
                }
            }
        };
        let ended: Vec<Result<(), Error>> = thread::scope(|scope| {
            let all: Vec<_> = (0..LOADERS.min(jobs)).map(|_| scope.spawn(work)).collect();
            let panicked = |_| Err(Error::Panicked("while it loaded a table".into()));
            all.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
        });
        bar.finish_and_clear();
        of_all(ended)
    }
}

struct Server<'a> {
    session: Session,
    endpoint: &'a Endpoint,
}

impl Server<'_> {
    fn query(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Error> {
        self.session.query(sql).map_err(|error| explain(self.endpoint, error))
    }

    /// The existing tables of the data set's names, with their comments.
    fn comments(&mut self, set: &DataSet<'_>) -> Result<Vec<(String, String)>, Error> {
        let names: Vec<String> = set.tables.iter().map(|table| quoted(table.name)).collect();
        let rows = self.query(&format!(
            "SELECT table_name, table_comment FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN ({})",
            names.join(", ")
        ))?;
        let field = |row: &mut std::vec::IntoIter<Option<String>>| row.next().flatten().unwrap_or_default();
        Ok(rows
            .into_iter()
            .map(|row| {
                let mut row = row.into_iter();
                (field(&mut row), field(&mut row))
            })
            .collect())
    }

    /// Inserts rows until `goes_on`, which gets the number of each statement's rows, returns false.
    fn insert_all(
        &mut self,
        table: &TableDefinition,
        rows: Rows,
        goes_on: impl Fn(u64) -> bool,
    ) -> Result<(), Error> {
        let mut rows = rows.peekable();
        let head = table.insert_sql();
        while rows.peek().is_some() {
            self.query("START TRANSACTION")?;
            for _ in 0..INSERTS_PER_COMMIT {
                let (mut sql, mut count) = (head.clone(), 0);
                while sql.len() < INSERT_BYTES_MAX {
                    let Some(row) = rows.next() else { break };
                    if count > 0 {
                        sql.push(',');
                    }
                    table.write_row(&row, &mut sql);
                    count += 1;
                }
                if count == 0 {
                    break;
                }
                self.query(&sql)?;
                if !goes_on(count) {
                    return Err(Error::Interrupted);
                }
            }
            self.query("COMMIT")?;
        }
        Ok(())
    }
}
