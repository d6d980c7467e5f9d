//! A page of documentation as its tests need it: the commands that it tells a DBA to type, and its tables.

use mysql::prelude::Queryable;
use mysql::{Conn, Error, Row};

/// A page's text.
#[derive(Clone, Copy, Debug)]
pub struct Guide(pub &'static str);

impl Guide {
    /// The blocks of one language, in order.
    pub fn blocks(self, language: &str) -> Vec<&'static str> {
        let fence = format!("```{language}\n");
        self.0.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap_or_default()).collect()
    }

    /// The statements of all blocks of SQL, each with the error that its comment announces.
    pub fn statements(self) -> Vec<(String, Option<u16>)> {
        self.blocks("sql").into_iter().flat_map(statements).collect()
    }

    /// The cells of the rows of the table with this head, without back quotes.
    ///
    /// # Panics
    /// If there is no such table.
    pub fn rows(self, head: &str) -> Vec<Vec<&'static str>> {
        let Some((_, table)) = self.0.split_once(head) else { panic!("no table {head}") };
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        rows.map(|row| row.split('|').map(|cell| cell.trim().trim_matches('`')).skip(1).collect()).collect()
    }

    /// The first cell and the second of each row of the table with this head.
    ///
    /// # Panics
    /// If there is no such table.
    pub fn table(self, head: &str) -> Vec<(&'static str, &'static str)> {
        self.rows(head).into_iter().map(|cells| (cells[0], cells[1])).collect()
    }

    /// Checks that each line in this number of rows of the tables with these heads is a text of these sources, if it begins with `flifo: `.
    /// `heads` have the column of the line.
    ///
    /// # Panics
    /// If not.
    pub fn lines_are_of(self, heads: &[(&str, usize)], count: usize, sources: &[&str]) {
        let rows = heads
            .iter()
            .flat_map(|&(head, column)| self.rows(head).into_iter().map(move |cells| cells[column]));
        let ours: Vec<&str> = rows.filter_map(|line| line.strip_prefix("flifo: ")).collect();
        assert_eq!(ours.len(), count);
        for line in ours {
            // Numbers are put in when it is said.
            for part in
                line.split(|c: char| c.is_ascii_digit()).map(str::trim).filter(|part| !part.is_empty())
            {
                assert!(sources.iter().any(|source| source.contains(part)), "{part}");
            }
        }
    }
}

fn statements(block: &str) -> Vec<(String, Option<u16>)> {
    let mut statements = Vec::new();
    let mut text = String::new();
    for line in block.lines() {
        let (code, comment) = line.split_once("--").unwrap_or((line, ""));
        text += code.trim_end();
        if text.ends_with(';') {
            let error = comment.trim().strip_prefix("ERROR ").and_then(|number| number.parse().ok());
            // Nobody wants to wait for a figure that means nothing here.
            statements.push((text.replace("SLEEP(10)", "SLEEP(0)"), error));
            text.clear();
        } else if !text.is_empty() {
            text.push(' ');
        }
    }
    assert_eq!(text, "", "a statement without its end");
    statements
}

/// Runs a statement and returns its rows as SQL literals, or the number of its error.
///
/// # Errors
/// If the server answers with an error.
///
/// # Panics
/// If the server does not answer.
pub fn ask(root: &mut Conn, statement: &str) -> Result<Vec<Vec<String>>, u16> {
    let rows: Result<Vec<Row>, Error> = root.query(statement);
    match rows {
        Ok(rows) => Ok(rows
            .into_iter()
            .map(|row| row.unwrap().into_iter().map(|value| value.as_sql(true)).collect())
            .collect()),
        Err(Error::MySqlError(error)) => Err(error.code),
        Err(other) => panic!("{statement}: {other}"),
    }
}
