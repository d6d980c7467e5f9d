//! Sessions of the X protocol: their statements are admitted like others.
//!
//! The few messages that this needs are written by hand: a length of four bytes, the message's number, and protobuf fields.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use flifo_mysql::PrivateServer;

use super::support::{
    Holder, INTERRUPTED, Queryable, REFUSED, Test, app, crowd, is_at_rest, run, set, times, until,
};

pub(crate) const TESTS: &[Test] = &[
    ("x_statements_queue", x_statements_queue),
    ("x_statements_are_refused", x_statements_are_refused),
    ("x_statements_are_killed", x_statements_are_killed),
    ("x_administrators_bypass", x_administrators_bypass),
    ("x_sessions_come_and_go", x_sessions_come_and_go),
];

/// In the data folder, since a relative path is taken from there.
pub(crate) const SOCKET_OPTION: &str = "--mysqlx-socket=x";

const AUTHENTICATE: u8 = 4;
const RESET: u8 = 6;
const EXECUTE: u8 = 12;

const OK: u8 = 0;
const ERROR: u8 = 1;
const AUTHENTICATED: u8 = 4;
const ROW: u8 = 13;
const EXECUTED: u8 = 17;

/// A session of a user without a password.
struct Session(UnixStream);

/// How many rows a statement has, or the number of its error.
type Answer = io::Result<Result<usize, u64>>;

impl Session {
    fn open(server: &PrivateServer, user: &str) -> io::Result<Session> {
        let stream = UnixStream::connect(server.data_folder().join("x"))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut session = Session(stream);
        let data = format!("test\0{user}\0");
        session.send(AUTHENTICATE, &[field(1, b"PLAIN"), field(2, data.as_bytes())].concat())?;
        loop {
            match session.receive()? {
                (AUTHENTICATED, _) => return Ok(session),
                (ERROR, message) => return Err(io::Error::other(format!("not let in: {message:?}"))),
                _ => {}
            }
        }
    }

    fn execute(&mut self, statement: &str) -> Answer {
        self.start(statement)?;
        self.answer()
    }

    fn start(&mut self, statement: &str) -> io::Result<()> {
        self.send(EXECUTE, &field(1, statement.as_bytes()))
    }

    fn answer(&mut self) -> Answer {
        let mut rows = 0;
        loop {
            match self.receive()? {
                (EXECUTED | OK, _) => return Ok(Ok(rows)),
                (ERROR, message) => return Ok(Err(error_number(&message))),
                (ROW, _) => rows += 1,
                _ => {}
            }
        }
    }

    fn send(&mut self, number: u8, message: &[u8]) -> io::Result<()> {
        let length = u32::try_from(message.len() + 1).map_err(io::Error::other)?.to_le_bytes();
        self.0.write_all(&[&length[..], &[number], message].concat())
    }

    fn receive(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length)?;
        let mut message = vec![0; u32::from_le_bytes(length) as usize];
        self.0.read_exact(&mut message)?;
        let number = message.first().copied().ok_or_else(|| io::Error::other("an empty message"))?;
        Ok((number, message.split_off(1)))
    }
}

/// A field of bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length > 127 {
        field.push((length & 127) as u8 | 128);
        length >>= 7;
    }
    field.push(length as u8);
    field.extend(bytes);
    field
}

/// The second field of an error, which follows the severity.
fn error_number(message: &[u8]) -> u64 {
    let Some(at) = message.iter().position(|&byte| byte == 2 << 3) else { return 0 };
    message[at + 1..]
        .iter()
        .scan(true, |goes_on, &byte| {
            std::mem::replace(goes_on, byte & 128 != 0).then_some(u64::from(byte & 127))
        })
        .enumerate()
        .fold(0, |number, (place, bits)| number | bits << (7 * place))
}

fn session(server: &PrivateServer) -> Session {
    Session::open(server, "app").unwrap()
}

fn x_statements_queue(server: &PrivateServer) {
    let mut client = session(server);
    let admitted = server.status_number("Flifo_admitted").unwrap();
    for (statement, answer) in [
        ("SELECT * FROM t", Ok(3)),
        ("UPDATE t SET k = k + 1 WHERE id = 1", Ok(0)),
        ("SELECT no_such_column FROM t", Err(1054)),
        ("SELEC", Err(1064)),
        ("CALL two()", Ok(1)),
        ("BEGIN", Ok(0)),
        ("UPDATE t SET k = k + 1 WHERE id = 1", Ok(0)),
        ("COMMIT", Ok(0)),
    ] {
        assert_eq!(client.execute(statement).unwrap(), answer, "{statement}");
        until(statement, || is_at_rest(server));
    }
    assert!(
        server.status_number("Flifo_admitted").unwrap() >= admitted + 7,
        "statements ran without admission"
    );
    let holder = Holder::of_the_only_slot(server);
    client.start("SELECT * FROM t").unwrap();
    holder.until_queued(1);
    let text = "SELECT COUNT(*) FROM performance_schema.threads WHERE name LIKE '%mysqlx%'
                AND processlist_state = 'Waiting for admission'";
    let shown: Option<u64> = server.connect("root").unwrap().query_first(text).unwrap();
    assert_eq!(shown, Some(1));
    drop(holder);
    assert_eq!(client.answer().unwrap(), Ok(3));
}

fn x_statements_are_refused(server: &PrivateServer) {
    let mut client = session(server);
    let holder = Holder::of_the_only_slot(server);
    set(server, "queue_timeout", 50);
    for _ in 0..3 {
        assert_eq!(client.execute("SELECT * FROM t").unwrap(), Err(u64::from(REFUSED)));
    }
    assert!(holder.still_holds());
    drop(holder);
    set(server, "queue_timeout", 0);
    assert_eq!(client.execute("SELECT * FROM t").unwrap(), Ok(3), "the session goes on");
}

fn x_statements_are_killed(server: &PrivateServer) {
    let holder = Holder::of_the_only_slot(server);
    let mut root = server.connect("root").unwrap();
    for kind in ["QUERY", "CONNECTION"] {
        let mut client = session(server);
        client.start("SELECT * FROM t").unwrap();
        holder.until_queued(1);
        let text = "SELECT processlist_id FROM performance_schema.threads WHERE name LIKE '%mysqlx%' AND processlist_user = 'app'
                    AND processlist_state = 'Waiting for admission'";
        let id: u64 = root.query_first(text).unwrap().unwrap();
        root.query_drop(format!("KILL {kind} {id}")).unwrap();
        // The session's end may be seen instead.
        match client.answer() {
            Ok(answer) => assert_eq!(answer, Err(u64::from(INTERRUPTED)), "KILL {kind}"),
            Err(error) => assert_eq!(kind, "CONNECTION", "{error}"),
        }
        holder.until_queued(0);
    }
    assert!(holder.still_holds());
}

fn x_administrators_bypass(server: &PrivateServer) {
    let holder = Holder::of_the_only_slot(server);
    let mut root = Session::open(server, "root").unwrap();
    assert_eq!(root.execute("SELECT * FROM test.t").unwrap(), Ok(3));
    assert!(holder.still_holds());
}

/// Some leave without a word, some in the queue, some reset their sessions, beside clients of the other protocol.
fn x_sessions_come_and_go(server: &PrivateServer) {
    let done = AtomicU64::new(0);
    let client = |number: usize, stop: &AtomicBool| {
        let mut round = number;
        while !stop.load(Ordering::Relaxed) {
            round += 1;
            if number.is_multiple_of(4) {
                run(&mut app(server), "UPDATE t SET k = k + 1 WHERE id = 1").unwrap();
                continue;
            }
            // The server takes a hundred of them, and those that left stay for a moment.
            let Ok(mut client) = Session::open(server, "app") else { continue };
            assert_eq!(client.execute("SELECT * FROM t").unwrap(), Ok(3));
            match round % 3 {
                0 => {
                    client.send(RESET, &[]).unwrap();
                    assert_eq!(client.answer().unwrap(), Ok(0));
                    let _ = client.execute("SELECT * FROM test.t");
                }
                1 => {
                    client.start("UPDATE t SET k = k + 1 WHERE id = 2").unwrap();
                    let _ = client.0.shutdown(Shutdown::Both);
                }
                _ => {}
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
    };
    crowd(8, client, || {
        until("enough have come and gone", || {
            thread::sleep(Duration::from_millis(5));
            done.load(Ordering::Relaxed) > times(150) as u64
        });
    });
    until("no slot is out", || is_at_rest(server));
}
