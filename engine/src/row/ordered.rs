//! One column of a key, encoded so that bytes order as values do.
//!
//! Ascending, a column is
//!
//! ```text
//! nullable columns only: 00 for NULL, and nothing more; 01 before a value
//! integers and floats:   big-endian, signs turned so that they order as unsigned numbers; bool 00 or 01
//! bytes and text:        each byte as it is, but 00 as 01 01, and 01 as 01 02; then 00, the end
//! ```
//!
//! Descending, it is the same with every bit inverted. No encoding of a column is a prefix of another one of that
//! column: so the first difference between two keys is in the first column that differs, and inverting the bits only
//! reverses the order.
//!
//! The end of a string is the least byte, so that `ab` comes before `ab` followed by anything. Escaping two bytes
//! rather than one keeps the end at one byte, where `00 xx` would take two: keys are mostly short text, in which 00 and
//! 01 do not occur. Groups of eight bytes with a marker each would pad short text to nine bytes, and the prefix of a
//! text would not be the prefix of its encoding.
//!
//! Each value has one encoding, and the decoder accepts no other: equal keys are equal bytes.

use super::error::RowError;
use super::key::{Direction, KeyPart};
use super::types::ColumnType;
use super::value::{Value, ValueRef};

const NULL: u8 = 0;
const VALUE: u8 = 1;
const END: u8 = 0;
const ESCAPE: u8 = 1;

/// What turns a descending column's bytes.
fn turn(direction: Direction) -> u8 {
    match direction {
        Direction::Ascending => 0,
        Direction::Descending => 0xff,
    }
}

/// Appends a column. After an error a part of it may remain.
pub(super) fn append(part: &KeyPart, value: ValueRef<'_>, out: &mut Vec<u8>) -> Result<(), RowError> {
    let begin = out.len();
    match (value, part.kind) {
        (ValueRef::Null, _) if part.nullable => out.push(NULL),
        (ValueRef::Null, _) => return Err(RowError::NotNullable { column: part.name.clone() }),
        _ => {
            if part.nullable {
                out.push(VALUE);
            }
            append_value(part, value, out)?;
        }
    }
    if part.direction == Direction::Descending {
        out[begin..].iter_mut().for_each(|byte| *byte = !*byte);
    }
    Ok(())
}

fn append_value(part: &KeyPart, value: ValueRef<'_>, out: &mut Vec<u8>) -> Result<(), RowError> {
    match (part.kind, value) {
        (ColumnType::Text, ValueRef::Text(text)) => append_escaped(text.as_bytes(), out),
        (ColumnType::Bytes, ValueRef::Bytes(bytes)) => append_escaped(bytes, out),
        (kind, value) => {
            let misfit = |misfit| RowError::misfit(misfit, &part.name, kind, value);
            let bits = kind.bits(value).map_err(misfit)?;
            let width = kind.width().unwrap_or(0);
            out.extend_from_slice(&kind.ordered(bits).to_be_bytes()[8 - width..]);
        }
    }
    Ok(())
}

fn append_escaped(mut bytes: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = bytes.iter().position(|&byte| byte <= ESCAPE) {
        out.extend_from_slice(&bytes[..at]);
        out.extend_from_slice(&[ESCAPE, bytes[at] + 1]);
        bytes = &bytes[at + 1..];
    }
    out.extend_from_slice(bytes);
    out.push(END);
}

/// Reads a key's columns one after the other.
pub(super) struct Reader<'k> {
    key: &'k [u8],
    at: usize,
}

impl<'k> Reader<'k> {
    pub(super) fn new(key: &'k [u8]) -> Self {
        Reader { key, at: 0 }
    }

    /// How far it has read, bytes.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Reads the next column.
    pub(super) fn value(&mut self, part: &KeyPart) -> Result<Value, RowError> {
        let turn = turn(part.direction);
        if self.null(part, turn)? {
            return Ok(Value::Null);
        }
        let begin = self.at;
        let Some(width) = part.kind.width() else {
            let mut bytes = Vec::new();
            self.string(turn, |run| bytes.extend(run.iter().map(|byte| byte ^ turn)))?;
            return match part.kind {
                ColumnType::Text => {
                    String::from_utf8(bytes).map(Value::Text).map_err(|_| corrupt(begin, "text is not UTF-8"))
                }
                _ => Ok(Value::Bytes(bytes)),
            };
        };
        self.fixed(part, turn, width).map(ValueRef::to_value)
    }

    /// Reads the next column without a copy; `None`, and nothing is read, if its bytes lie otherwise in the key.
    pub(super) fn peek(&mut self, part: &KeyPart) -> Result<Option<ValueRef<'k>>, RowError> {
        let turn = turn(part.direction);
        let begin = self.at;
        if self.null(part, turn)? {
            return Ok(Some(ValueRef::Null));
        }
        let Some(width) = part.kind.width() else {
            return self.peek_string(part, begin, turn);
        };
        self.fixed(part, turn, width).map(Some)
    }

    fn peek_string(
        &mut self,
        part: &KeyPart,
        begin: usize,
        turn: u8,
    ) -> Result<Option<ValueRef<'k>>, RowError> {
        let rest = &self.key[self.at..];
        let plain = rest.iter().position(|&byte| byte ^ turn <= ESCAPE).ok_or_else(|| self.ended())?;
        if turn != 0 || rest[plain] != END {
            self.at = begin;
            return Ok(None);
        }
        let at = self.at;
        self.at += plain + 1;
        match part.kind {
            ColumnType::Text => std::str::from_utf8(&rest[..plain])
                .map(|text| Some(ValueRef::Text(text)))
                .map_err(|_| corrupt(at, "text is not UTF-8")),
            _ => Ok(Some(ValueRef::Bytes(&rest[..plain]))),
        }
    }

    fn fixed(&mut self, part: &KeyPart, turn: u8, width: usize) -> Result<ValueRef<'static>, RowError> {
        let begin = self.at;
        let bytes = self.take(width)?;
        let ordered = bytes.iter().fold(0, |number, byte| number << 8 | u64::from(byte ^ turn));
        let value = part.kind.unordered(ordered).and_then(|bits| part.kind.value_of(bits));
        value.ok_or_else(|| corrupt(begin, "no value is written like this"))
    }

    /// Skips the next column; true if it is NULL.
    pub(super) fn skip(&mut self, part: &KeyPart) -> Result<bool, RowError> {
        let turn = turn(part.direction);
        if self.null(part, turn)? {
            return Ok(true);
        }
        match part.kind.width() {
            Some(width) => self.take(width).map(drop)?,
            None => self.string(turn, |_| {})?,
        }
        Ok(false)
    }

    /// Says that the key is at its end.
    pub(super) fn end(&self) -> Result<(), RowError> {
        match self.at == self.key.len() {
            true => Ok(()),
            false => Err(corrupt(self.at, "bytes follow its last column")),
        }
    }

    fn take(&mut self, bytes: usize) -> Result<&'k [u8], RowError> {
        let taken = self.key.get(self.at..self.at + bytes).ok_or_else(|| self.ended())?;
        self.at += bytes;
        Ok(taken)
    }

    fn ended(&self) -> RowError {
        corrupt(self.key.len(), "it ends within a column")
    }

    fn null(&mut self, part: &KeyPart, turn: u8) -> Result<bool, RowError> {
        if !part.nullable {
            return Ok(false);
        }
        match self.take(1)?[0] ^ turn {
            NULL => Ok(true),
            VALUE => Ok(false),
            _ => Err(corrupt(self.at - 1, "a column is neither NULL nor a value")),
        }
    }

    /// Gives the bytes of a string to `each` in runs, as they are in the key: not turned back.
    fn string(&mut self, turn: u8, mut each: impl FnMut(&[u8])) -> Result<(), RowError> {
        loop {
            let rest = &self.key[self.at..];
            let plain = rest.iter().position(|&byte| byte ^ turn <= ESCAPE).ok_or_else(|| self.ended())?;
            each(&rest[..plain]);
            self.at += plain;
            if self.take(1)?[0] ^ turn == END {
                return Ok(());
            }
            match self.take(1)?[0] ^ turn {
                escaped @ 1..=2 => each(&[(escaped - 1) ^ turn]),
                _ => return Err(corrupt(self.at - 1, "a byte is escaped that needs no escape")),
            }
        }
    }
}

fn corrupt(at: usize, what: &'static str) -> RowError {
    RowError::Corrupt { of: "the key", at, what }
}
