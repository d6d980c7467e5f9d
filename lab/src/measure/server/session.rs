//! A connection for administration: statements one after another, results as text.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use mysql_common::io::ParseBuf;
use mysql_common::packets::{Column, StmtPacket};
use mysql_common::proto::{Binary, MyDeserialize, Text};
use mysql_common::row::RowDeserializer;
use mysql_common::value::{ServerSide, Value};

use super::endpoint::Endpoint;
use super::tls::Channel;
use super::wire::{self, Greeting, Link, ServerError, WireError, length_encoded};

const END: u8 = 0xfe;
const ERROR: u8 = 0xff;
const OK: u8 = 0x00;
const NULL: u8 = 0xfb;
const QUIT: u8 = 0x01;
/// The server does not know the account or its password, or the account requires more, such as TLS.
const DENIED: [u16; 2] = [1045, 1698];

/// An overloaded server is slow to answer; one that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A row of a result.
pub(crate) type Row = Vec<Option<String>>;

/// A statement whose results are values.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sent<'a> {
    Text(&'a str),
    /// A prepared statement, and its parameters.
    Prepared(u32, &'a [Value]),
}

/// What a statement returned.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Returned {
    pub(crate) rows: Vec<Vec<Value>>,
    /// Rows that a statement has changed.
    pub(crate) changed: u64,
}

/// A connection that is logged in.
#[derive(Debug)]
pub(crate) struct Session {
    link: Link,
    pub(crate) greeting: Greeting,
    request: Vec<u8>,
}

impl Session {
    /// Connects and logs in, without a database.
    pub(crate) fn open(endpoint: &Endpoint) -> Result<Self, WireError> {
        let mut link = Link::open(&endpoint.address.place)?;
        let greeting = wire::log_in(&mut link, endpoint).map_err(|error| match error {
            WireError::Server(error) if DENIED.contains(&error.code) => {
                WireError::Denied { error, is_encrypted: link.is_encrypted() }
            }
            error => error,
        })?;
        link.patience = Some(PATIENCE);
        Ok(Session { link, greeting, request: Vec::new() })
    }

    /// From here on a statement takes as long as it takes, and Ctrl-C ends it.
    pub(crate) fn take_time(&mut self) {
        self.link.heeds_interrupt = true;
        self.link.patience = None;
    }

    /// Runs a statement; returns its rows, or none.
    pub(crate) fn query(&mut self, sql: &str) -> Result<Vec<Row>, WireError> {
        self.request.clear();
        wire::query(&mut self.request, |body| body.extend_from_slice(sql.as_bytes()));
        self.link.request(&self.request)?;
        let columns = match self.first()? {
            0 => return Ok(Vec::new()),
            columns => columns,
        };
        for _ in 0..columns {
            self.link.receive()?;
        }
        self.end()?;
        let mut rows = Vec::new();
        loop {
            let body = self.link.receive()?;
            match body.first() {
                Some(&END) if body.len() < 9 => return Ok(rows),
                Some(&ERROR) => return Err(WireError::Server(ServerError::parse(body)?)),
                _ => rows.push(row(body, columns)?),
            }
        }
    }

    /// Runs a statement; returns its rows as values. Those of a text are bytes.
    pub(crate) fn run(&mut self, sent: Sent<'_>) -> Result<Returned, WireError> {
        self.request.clear();
        match sent {
            Sent::Text(sql) => {
                wire::query(&mut self.request, |body| body.extend_from_slice(sql.as_bytes()));
            }
            Sent::Prepared(statement, values) => wire::execute(&mut self.request, statement, values),
        }
        self.link.request(&self.request)?;
        let body = self.link.receive()?;
        let columns = match body.first() {
            Some(&OK) => {
                let (changed, _) = length_encoded(&body[1..]).ok_or(TORN)?;
                return Ok(Returned { rows: Vec::new(), changed });
            }
            Some(&ERROR) => return Err(WireError::Server(ServerError::parse(body)?)),
            _ => length_encoded(body).ok_or(TORN)?.0,
        };
        let columns: Vec<Column> = (0..columns)
            .map(|_| ParseBuf(self.link.receive()?).parse(()).map_err(|_| TORN))
            .collect::<Result<_, WireError>>()?;
        self.end()?;
        let columns: Arc<[Column]> = columns.into();
        let mut returned = Returned::default();
        loop {
            let body = self.link.receive()?;
            match body.first() {
                Some(&END) if body.len() < 9 => return Ok(returned),
                Some(&ERROR) => return Err(WireError::Server(ServerError::parse(body)?)),
                _ => returned.rows.push(match sent {
                    Sent::Text(_) => values::<Text>(body, &columns)?,
                    Sent::Prepared(..) => values::<Binary>(body, &columns)?,
                }),
            }
        }
    }

    /// Runs a statement with one row of one value.
    pub(crate) fn value(&mut self, sql: &str) -> Result<Option<String>, WireError> {
        let mut rows = self.query(sql)?;
        Ok(rows.pop().and_then(|mut row| row.pop()).flatten())
    }

    /// Prepares a statement; its number.
    pub(crate) fn prepare(&mut self, sql: &str) -> Result<u32, WireError> {
        self.request.clear();
        wire::prepare(&mut self.request, sql);
        self.link.request(&self.request)?;
        let body = self.link.receive()?;
        if body.first() == Some(&ERROR) {
            return Err(WireError::Server(ServerError::parse(body)?));
        }
        let prepared: StmtPacket =
            ParseBuf(body).parse(()).map_err(|_| WireError::Protocol("a prepared statement that is none"))?;
        for definitions in [prepared.num_params(), prepared.num_columns()].into_iter().filter(|n| *n > 0) {
            for _ in 0..definitions {
                self.link.receive()?;
            }
            self.end()?;
        }
        Ok(prepared.statement_id())
    }

    /// The number of columns; 0 for OK.
    fn first(&mut self) -> Result<u64, WireError> {
        let body = self.link.receive()?;
        match body.first() {
            Some(&OK) => Ok(0),
            Some(&ERROR) => Err(WireError::Server(ServerError::parse(body)?)),
            _ => match length_encoded(body) {
                Some((columns, [])) if columns > 0 => Ok(columns),
                _ => Err(WireError::Protocol("a reply that begins as none does")),
            },
        }
    }

    fn end(&mut self) -> Result<(), WireError> {
        match self.link.receive()? {
            [END, ..] => Ok(()),
            _ => Err(WireError::Protocol("more definitions than were announced")),
        }
    }

    /// Says goodbye, so that the server counts no aborted client. Nothing is asked afterwards.
    pub(crate) fn say_goodbye(&mut self) {
        let _ = self.link.request(&goodbye());
    }

    /// The version and the cipher of its TLS as the server names them; empty without TLS.
    pub(crate) fn cipher(&mut self) -> Result<String, WireError> {
        if !self.link.is_encrypted() {
            return Ok(String::new());
        }
        let rows = self.query("SHOW SESSION STATUS WHERE Variable_name IN ('Ssl_version', 'Ssl_cipher')")?;
        let value = |name: &str| {
            let is_it = |row: &&Row| row.first().is_some_and(|found| found.as_deref() == Some(name));
            rows.iter().find(is_it).and_then(|row| row.get(1)?.clone()).unwrap_or_default()
        };
        Ok(format!("{} {}", value("Ssl_version"), value("Ssl_cipher")).trim().to_owned())
    }

    /// The descriptor and its TLS, for a load.
    pub(crate) fn into_parts(self) -> (OwnedFd, Option<Box<Channel>>) {
        self.link.into_parts()
    }
}

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

const TORN: WireError = WireError::Protocol("a row that is none");

/// A row of one of the two protocols.
fn values<P>(body: &[u8], columns: &Arc<[Column]>) -> Result<Vec<Value>, WireError>
where
    for<'de> RowDeserializer<ServerSide, P>: MyDeserialize<'de, Ctx = Arc<[Column]>>,
{
    let row: RowDeserializer<ServerSide, P> = ParseBuf(body).parse(Arc::clone(columns)).map_err(|_| TORN)?;
    Ok(row.into_inner().unwrap())
}

/// A goodbye as bytes.
pub(crate) fn goodbye() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8);
    wire::packet(&mut bytes, 0, |body| body.push(QUIT));
    bytes
}

fn row(body: &[u8], columns: u64) -> Result<Row, WireError> {
    let torn = || WireError::Protocol("a row that is none");
    let mut rest = ParseBuf(body);
    let mut row = Row::new();
    for _ in 0..columns {
        row.push(match rest.0.first() {
            Some(&NULL) => {
                rest.skip(1);
                None
            }
            _ => {
                let text = rest.checked_eat_lenenc_str().ok_or_else(torn)?;
                Some(String::from_utf8_lossy(text).into_owned())
            }
        });
    }
    if rest.is_empty() { Ok(row) } else { Err(torn()) }
}

/// A text as a literal of a statement.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_text_or_null() {
        let body = b"\x03abc\xfb\x00";
        assert_eq!(row(body, 3).unwrap(), [Some("abc".into()), None, Some(String::new())]);
        assert!(row(body, 2).is_err() && row(body, 4).is_err());
    }

    #[test]
    fn literals() {
        assert_eq!(quoted(r"it's a \ here"), r"'it''s a \\ here'");
    }
}
