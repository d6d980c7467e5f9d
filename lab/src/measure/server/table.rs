//! The table: found and checked, or created. It is never dropped.
//!
//! A table that this command creates has `loading` in its comment until its last row and its index exist. An
//! interrupted load continues where it stopped: rows come in the order of their ids, and a statement inserts all of its
//! rows or none.

use super::connect::explain;
use super::endpoint::Endpoint;
use super::session::Session;
use super::statement::TABLE;
use super::wire::WireError;
use crate::measure::workload::row;
use crate::support::error::Error;
use crate::support::interrupt;
use crate::support::progress::Progress;

const LOADING: &str = "flifo: loading";
const LOADED: &str = "made by flifo";
/// Some 200 bytes each: a statement stays far below the smallest usual max_allowed_packet.
const ROWS_PER_INSERT: u32 = 1_000;
/// What a column of type INTEGER holds.
const ROWS_MAX: u32 = i32::MAX as u32;

const COLUMNS: [(&str, &str, Option<&str>); 4] =
    [("id", "int", None), ("k", "int", None), ("c", "char", Some("120")), ("pad", "char", Some("60"))];

/// What the table shall be.
pub(crate) struct Wanted {
    /// Rows; `None`: as many as it has, or the default for a new one.
    pub(crate) rows: Option<u32>,
    pub(crate) rows_default: u32,
    pub(crate) seed: u64,
}

/// Finds or makes the table in the session's database, and reads it once; the number of its rows.
pub(crate) fn prepare(
    session: &mut Session,
    endpoint: &Endpoint,
    requested: &Wanted,
    progress: &Progress,
) -> Result<u32, Error> {
    let mut table = Table { session, endpoint };
    let rows_wanted = requested.rows.unwrap_or(requested.rows_default);
    if rows_wanted > ROWS_MAX {
        return Err(Error::Usage(format!("a table on a server has at most {ROWS_MAX} rows")));
    }
    match table.find()? {
        Found::Nothing => {
            table.create()?;
            table.load(1, rows_wanted, requested.seed, progress)?;
        }
        Found::Loading => {
            let loaded = table.rows()?;
            if loaded > rows_wanted {
                return Err(
                    table.other(&format!("a load of it was cut off at {loaded} rows"), "use more --rows")
                );
            }
            progress.note(&format!("a load of {TABLE} was cut off at {loaded} rows: going on there"));
            table.load(loaded + 1, rows_wanted, requested.seed, progress)?;
        }
        Found::Complete => {}
    }
    // The sweep measures the steady state, not the first reads; and this detects a table with gaps.
    let rows = table.rows()?;
    let index = table.index()?;
    table.query(&format!("SELECT COUNT(*) FROM {TABLE} FORCE INDEX ({index})"))?;
    match requested.rows {
        Some(requested) if requested != rows => {
            Err(table.other(&format!("it has {rows} rows, not {requested}"), &format!("say --rows {rows}")))
        }
        _ if rows == 0 => Err(table.other("it is empty", "load or drop it")),
        _ => Ok(rows),
    }
}

enum Found {
    Nothing,
    Loading,
    Complete,
}

struct Table<'a> {
    session: &'a mut Session,
    endpoint: &'a Endpoint,
}

impl Table<'_> {
    fn query(&mut self, sql: &str) -> Result<Vec<super::session::Row>, Error> {
        self.session.query(sql).map_err(|error| match error {
            WireError::Server(error) => Error::Target(format!(
                "cannot prepare {} in '{}': {} ({})",
                TABLE, self.endpoint.address.database, error.text, error.code
            )),
            error => explain(self.endpoint, error),
        })
    }

    /// A table that this command must not use.
    fn other(&self, why: &str, remedy: &str) -> Error {
        Error::Target(format!(
            "the table {TABLE} in '{}' is not the one to measure: {why}; {remedy}, or name another database",
            self.endpoint.address.database
        ))
    }

    fn find(&mut self) -> Result<Found, Error> {
        let here = format!("TABLE_SCHEMA=DATABASE() AND TABLE_NAME='{TABLE}'");
        let tables = self.query(&format!(
            "SELECT TABLE_TYPE, ENGINE, TABLE_COMMENT FROM information_schema.TABLES WHERE {here}"
        ))?;
        let Some([kind, engine, comment]) = tables.first().and_then(|row| row.first_chunk()) else {
            return Ok(Found::Nothing);
        };
        if kind.as_deref() != Some("BASE TABLE")
            || !engine.as_deref().is_some_and(|e| e.eq_ignore_ascii_case("InnoDB"))
        {
            let engine = engine.as_deref().or(kind.as_deref()).unwrap_or("unknown");
            return Err(self.other(&format!("its engine is {engine}, not InnoDB"), "drop it"));
        }
        let is_loading = comment.as_deref() == Some(LOADING);
        let columns = self.query(&format!(
            "SELECT COLUMN_NAME, DATA_TYPE, CHARACTER_MAXIMUM_LENGTH FROM information_schema.COLUMNS WHERE {here} ORDER BY ORDINAL_POSITION"
        ))?;
        let is_column = |(row, (name, kind, length)): (&super::session::Row, &(&str, &str, Option<&str>))| {
            let [n, k, l] = &row[..] else { return false };
            n.as_deref() == Some(name)
                && k.as_deref() == Some(kind)
                && (length.is_none() || l.as_deref() == *length)
        };
        if columns.len() != COLUMNS.len() || !columns.iter().zip(&COLUMNS).all(is_column) {
            return Err(self.other(
                "its columns are not sysbench's: id INTEGER, k INTEGER, c CHAR(120), pad CHAR(60)",
                "drop it",
            ));
        }
        if self.keys("PRIMARY")? != ["id"] {
            return Err(self.other("its primary key is not id", "drop it"));
        }
        if is_loading {
            return Ok(Found::Loading);
        }
        self.index()?;
        Ok(Found::Complete)
    }

    /// The columns of an index, in their order.
    fn keys(&mut self, name: &str) -> Result<Vec<String>, Error> {
        let rows = self.query(&format!(
            "SELECT COLUMN_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME='{TABLE}' AND INDEX_NAME='{name}' ORDER BY SEQ_IN_INDEX"
        ))?;
        Ok(rows.into_iter().flatten().flatten().collect())
    }

    /// The index that begins with k.
    fn index(&mut self) -> Result<String, Error> {
        let found = self.query(&format!(
            "SELECT INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME='{TABLE}' AND COLUMN_NAME='k' AND SEQ_IN_INDEX=1"
        ))?;
        match found.into_iter().flatten().flatten().next() {
            Some(name) if !name.contains('`') => Ok(format!("`{name}`")),
            _ => Err(self.other("its column k has no index", &format!("CREATE INDEX k_1 ON {TABLE}(k)"))),
        }
    }

    /// Reads the whole table; returns its number of rows, whose ids must be 1 to that.
    fn rows(&mut self) -> Result<u32, Error> {
        let counted = self.query(&format!(
            "SELECT COUNT(*), MIN(id), MAX(id), SUM(LENGTH(pad)) FROM {TABLE} FORCE INDEX (PRIMARY)"
        ))?;
        let number = |at: usize| -> Option<u64> { counted.first()?.get(at)?.as_deref()?.parse().ok() };
        match (number(0), number(1), number(2)) {
            (Some(0), _, _) => Ok(0),
            (Some(rows), Some(1), Some(last)) if rows == last && rows <= u64::from(ROWS_MAX) => {
                Ok(rows as u32)
            }
            _ => Err(self.other("its ids are not 1, 2, 3 and so on without gaps", "drop it")),
        }
    }

    fn create(&mut self) -> Result<(), Error> {
        self.query(&format!(
            "CREATE TABLE {TABLE} (id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id)) ENGINE=InnoDB COMMENT='{LOADING}'"
        ))?;
        Ok(())
    }

    /// Inserts the rows from `first` on, then what sysbench makes last, the index.
    fn load(&mut self, first: u32, rows: u32, seed: u64, progress: &Progress) -> Result<(), Error> {
        let bar = progress.load(rows);
        let mut next = first;
        while next <= rows {
            if interrupt::is_requested() {
                return Err(Error::Interrupted);
            }
            let last = rows.min(next.saturating_add(ROWS_PER_INSERT - 1));
            self.query(&insert(next, last, seed, rows))?;
            bar.set_position(last.into());
            next = last + 1;
        }
        bar.set_message("making the index");
        if self.keys("k_1")?.is_empty() {
            self.query(&format!("CREATE INDEX k_1 ON {TABLE}(k)"))?;
        }
        self.query(&format!("ALTER TABLE {TABLE} COMMENT='{LOADED}'"))?;
        self.query(&format!("ANALYZE TABLE {TABLE}"))?;
        bar.finish_and_clear();
        Ok(())
    }
}

/// The rows of the embedded engine's table, as one statement.
fn insert(first: u32, last: u32, seed: u64, rows: u32) -> String {
    let mut sql = format!("INSERT INTO {TABLE} (id, k, c, pad) VALUES ");
    for id in first..=last {
        let value = row::value(seed, id, rows);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        let (k, c, pad) = (
            row::k(&value).unwrap_or(0),
            row::c(&value).map_or_else(String::new, |c| text(c)),
            row::pad(&value).map_or_else(String::new, |pad| text(pad)),
        );
        let comma = if id == first { "" } else { "," };
        sql += &format!("{comma}({id},{k},'{c}','{pad}')");
    }
    sql
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_insert_has_all_of_its_rows() {
        let sql = insert(5, 7, 1, 1_000);
        assert!(sql.starts_with("INSERT INTO sbtest1 (id, k, c, pad) VALUES (5,"), "{sql}");
        assert_eq!(sql.matches("),(").count(), 2);
        let most = insert(ROWS_MAX - ROWS_PER_INSERT + 1, ROWS_MAX, 1, ROWS_MAX);
        assert!(most.len() < 256 << 10, "{} bytes", most.len());
    }
}
