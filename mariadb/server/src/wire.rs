//! The client's side of the protocol by hand, for what no client library does: leave in the middle, read nothing
//! for a while, send nonsense.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::PrivateServer;

const ANSWER: Duration = Duration::from_secs(60);

pub mod command {
    pub const QUIT: u8 = 1;
    pub const INIT_DB: u8 = 2;
    pub const QUERY: u8 = 3;
    pub const FIELD_LIST: u8 = 4;
    pub const STATISTICS: u8 = 9;
    pub const PING: u8 = 14;
    pub const CHANGE_USER: u8 = 17;
    pub const STMT_PREPARE: u8 = 22;
    pub const STMT_EXECUTE: u8 = 23;
    pub const STMT_CLOSE: u8 = 25;
    pub const STMT_RESET: u8 = 26;
    pub const SET_OPTION: u8 = 27;
    pub const STMT_FETCH: u8 = 28;
    pub const RESET_CONNECTION: u8 = 31;
    pub const STMT_BULK_EXECUTE: u8 = 250;
}

const CONNECT_WITH_DB: u32 = 1 << 3;
const LOCAL_FILES: u32 = 1 << 7;
const PROTOCOL_41: u32 = 1 << 9;
const SECURE_CONNECTION: u32 = 1 << 15;
const MULTI_STATEMENTS: u32 = 1 << 16;
const MULTI_RESULTS: u32 = 1 << 17;
const PS_MULTI_RESULTS: u32 = 1 << 18;
const PLUGIN_AUTH: u32 = 1 << 19;
/// The high half, MariaDB's own: bulk operations.
const BULK_OPERATIONS: u32 = 1 << 2;

const MORE_RESULTS: u16 = 8;
const CURSOR_EXISTS: u16 = 64;

/// An answer to one statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Done,
    Rows(u64),
    /// Rows that wait in a cursor.
    Cursor,
    Error(u16, String),
    /// The server asks for a file's contents.
    File,
}

/// One connection, as the user `app`.
pub struct Wire {
    stream: UnixStream,
    sequence: u8,
    pub id: u32,
}

impl Wire {
    pub fn connect(server: &PrivateServer) -> io::Result<Wire> {
        Wire::connect_at(&server.socket(), "mysql_native_password")
    }

    /// Connects at this socket, to an account that has no password by this authentication plugin.
    pub fn connect_at(socket: &Path, authentication: &str) -> io::Result<Wire> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
        let mut wire = Wire { stream, sequence: 0, id: 0 };
        let greeting = wire.read()?;
        if greeting.first() == Some(&0xff) {
            return Err(refusal(&greeting));
        }
        // The version, then the connection's number.
        let version = greeting.iter().skip(1).position(|&byte| byte == 0).unwrap_or(0);
        wire.id = greeting.get(version + 2..version + 6).map_or(0, number);
        wire.write(&login(authentication))?;
        let answer = wire.read()?;
        if answer.first() == Some(&0) { Ok(wire) } else { Err(refusal(&answer)) }
    }

    /// Sends a command and reads nothing.
    pub fn send(&mut self, command: u8, payload: &[u8]) -> io::Result<()> {
        self.sequence = 0;
        self.write(&[&[command], payload].concat())
    }

    pub fn send_query(&mut self, text: &str) -> io::Result<()> {
        self.send(command::QUERY, text.as_bytes())
    }

    /// Sends a query and reads all answers to it.
    pub fn query(&mut self, text: &str) -> io::Result<Vec<Reply>> {
        self.send_query(text)?;
        self.replies()
    }

    /// All answers to what was sent.
    pub fn replies(&mut self) -> io::Result<Vec<Reply>> {
        let mut replies = Vec::new();
        loop {
            let (reply, status) = self.reply()?;
            replies.push(reply);
            if status & MORE_RESULTS == 0 {
                return Ok(replies);
            }
        }
    }

    fn reply(&mut self) -> io::Result<(Reply, u16)> {
        let head = self.read()?;
        match head.first() {
            Some(0) => Ok((Reply::Done, status_of_ok(&head))),
            Some(0xff) => Ok((error(&head), 0)),
            Some(0xfb) => Ok((Reply::File, 0)),
            Some(_) => {
                let (_, status) = self.packets_until_end()?;
                if status & CURSOR_EXISTS != 0 {
                    return Ok((Reply::Cursor, status));
                }
                self.rows()
            }
            None => Err(io::Error::other("an empty packet")),
        }
    }

    /// Rows to their end, as a result or a cursor sends them.
    pub fn rows(&mut self) -> io::Result<(Reply, u16)> {
        match self.packets_until_end()? {
            (Ok(rows), status) => Ok((Reply::Rows(rows), status)),
            (Err(reply), status) => Ok((reply, status)),
        }
    }

    fn packets_until_end(&mut self) -> io::Result<(Result<u64, Reply>, u16)> {
        let mut count = 0;
        loop {
            let packet = self.read()?;
            match packet.first() {
                Some(0xfe) if packet.len() < 9 => {
                    return Ok((Ok(count), packet.get(3..5).map_or(0, |status| number(status) as u16)));
                }
                Some(0xff) => return Ok((Err(error(&packet)), 0)),
                _ => count += 1,
            }
        }
    }

    /// Prepares a statement without parameters, or with: their and the columns' descriptions are skipped.
    pub fn prepare(&mut self, text: &str) -> io::Result<Result<u32, Reply>> {
        self.send(command::STMT_PREPARE, text.as_bytes())?;
        let head = self.read()?;
        if head.first() != Some(&0) {
            return Ok(Err(error(&head)));
        }
        for range in [5..7, 7..9] {
            if number(&head[range]) > 0 {
                let _descriptions = self.packets_until_end()?;
            }
        }
        Ok(Ok(number(&head[1..5])))
    }

    /// Sends the execution of a statement without parameters; with a cursor if one is asked for.
    pub fn send_execute(&mut self, statement: u32, cursor: bool) -> io::Result<()> {
        let mut payload = statement.to_le_bytes().to_vec();
        payload.push(u8::from(cursor));
        payload.extend(1u32.to_le_bytes());
        self.send(command::STMT_EXECUTE, &payload)
    }

    /// Fetches this number of rows of a cursor.
    pub fn fetch(&mut self, statement: u32, rows: u32) -> io::Result<Reply> {
        self.send(command::STMT_FETCH, &[statement.to_le_bytes(), rows.to_le_bytes()].concat())?;
        Ok(self.rows()?.0)
    }

    /// Executes a statement with one integer parameter for each of these, in one packet.
    pub fn send_bulk(&mut self, statement: u32, values: &[i32]) -> io::Result<()> {
        const SEND_TYPES: u16 = 128;
        const LONG: [u8; 2] = [3, 0];
        let mut payload = statement.to_le_bytes().to_vec();
        payload.extend(SEND_TYPES.to_le_bytes());
        payload.extend(LONG);
        for value in values {
            payload.push(0);
            payload.extend(value.to_le_bytes());
        }
        self.send(command::STMT_BULK_EXECUTE, &payload)
    }

    /// A packet that goes on where the last one ended, as a file's contents do. An empty one ends the file.
    pub fn send_more(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write(bytes)
    }

    /// Bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub fn read_one(&mut self) -> io::Result<Vec<u8>> {
        self.read()
    }

    /// Gone, without a word.
    pub fn vanish(self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    pub fn quit(mut self) {
        let _ = self.send(command::QUIT, &[]);
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut header = [0; 4];
        self.stream.read_exact(&mut header)?;
        self.sequence = header[3].wrapping_add(1);
        let mut packet = vec![0; number(&header[..3]) as usize];
        self.stream.read_exact(&mut packet)?;
        Ok(packet)
    }

    fn write(&mut self, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len()).map_err(io::Error::other)?.to_le_bytes();
        let header = [length[0], length[1], length[2], self.sequence];
        self.sequence = self.sequence.wrapping_add(1);
        self.stream.write_all(&[&header, payload].concat())
    }
}

fn login(authentication: &str) -> Vec<u8> {
    let capabilities = CONNECT_WITH_DB
        | LOCAL_FILES
        | PROTOCOL_41
        | SECURE_CONNECTION
        | MULTI_STATEMENTS
        | MULTI_RESULTS
        | PS_MULTI_RESULTS
        | PLUGIN_AUTH;
    const LARGEST_PACKET: u32 = 1 << 30;
    const UTF8MB4: u8 = 45;
    let mut login = capabilities.to_le_bytes().to_vec();
    login.extend(LARGEST_PACKET.to_le_bytes());
    login.push(UTF8MB4);
    login.extend([0; 19]);
    login.extend(BULK_OPERATIONS.to_le_bytes());
    login.extend(b"app\0");
    login.push(0);
    login.extend(b"test\0");
    login.extend(authentication.as_bytes());
    login.push(0);
    login
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte))
}

/// After the two numbers with a length of their own.
fn status_of_ok(packet: &[u8]) -> u16 {
    let mut at = 1;
    for _ in 0..2 {
        at += match packet.get(at) {
            Some(0xfc) => 3,
            Some(0xfd) => 4,
            Some(0xfe) => 9,
            _ => 1,
        };
    }
    packet.get(at..at + 2).map_or(0, |status| number(status) as u16)
}

fn error(packet: &[u8]) -> Reply {
    let code = packet.get(1..3).map_or(0, |code| number(code) as u16);
    // After the SQL state.
    let text = packet.get(9..).unwrap_or_default();
    Reply::Error(code, String::from_utf8_lossy(text).into_owned())
}

fn refusal(packet: &[u8]) -> io::Error {
    io::Error::other(format!("not let in: {:?}", error(packet)))
}
