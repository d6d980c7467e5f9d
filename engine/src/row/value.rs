//! Values, owned and borrowed, and their order.

use std::cmp::Ordering;
use std::fmt;

use super::types::float_order;

/// A value of a column, borrowed where it has bytes.
///
/// Values compare as keys do (see [`super`]): NULL equals NULL and comes first, and integers compare by number, whether
/// they are signed or not. The order of values of different types is arbitrary.
///
/// ```
/// use flifo_engine::row::ValueRef;
///
/// assert_eq!(ValueRef::from(42_u8), ValueRef::from(42_i64));
/// assert!(ValueRef::Null < ValueRef::from(i64::MIN));
/// assert_eq!(ValueRef::from("Oslo").as_text(), Some("Oslo"));
/// ```
#[derive(Debug, Clone, Copy)]
pub enum ValueRef<'a> {
    /// No value.
    Null,
    /// An integer from 0.
    Unsigned(u64),
    /// An integer, negative or not.
    Signed(i64),
    /// A double.
    Float(f64),
    /// False or true.
    Bool(bool),
    /// Bytes.
    Bytes(&'a [u8]),
    /// UTF-8.
    Text(&'a str),
}

/// A value of a column. It compares as [`ValueRef`] does.
#[derive(Debug, Clone)]
pub enum Value {
    /// No value.
    Null,
    /// An integer from 0.
    Unsigned(u64),
    /// An integer, negative or not.
    Signed(i64),
    /// A double.
    Float(f64),
    /// False or true.
    Bool(bool),
    /// Bytes.
    Bytes(Vec<u8>),
    /// UTF-8.
    Text(String),
}

impl<'a> ValueRef<'a> {
    /// Whether it is NULL.
    pub fn is_null(self) -> bool {
        matches!(self, ValueRef::Null)
    }

    /// The number, if it is an integer.
    pub(super) fn integer(self) -> Option<i128> {
        match self {
            ValueRef::Unsigned(number) => Some(number.into()),
            ValueRef::Signed(number) => Some(number.into()),
            _ => None,
        }
    }

    /// The number, if it is an integer from 0 to `u64::MAX`.
    pub fn as_u64(self) -> Option<u64> {
        self.integer()?.try_into().ok()
    }

    /// The number, if it is an integer from `i64::MIN` to `i64::MAX`.
    pub fn as_i64(self) -> Option<i64> {
        self.integer()?.try_into().ok()
    }

    /// The number, if it is a float.
    pub fn as_f64(self) -> Option<f64> {
        if let ValueRef::Float(value) = self { Some(value) } else { None }
    }

    /// The value, if it is a bool.
    pub fn as_bool(self) -> Option<bool> {
        if let ValueRef::Bool(value) = self { Some(value) } else { None }
    }

    /// The bytes, if it is bytes.
    pub fn as_bytes(self) -> Option<&'a [u8]> {
        if let ValueRef::Bytes(value) = self { Some(value) } else { None }
    }

    /// The text, if it is text.
    pub fn as_text(self) -> Option<&'a str> {
        if let ValueRef::Text(value) = self { Some(value) } else { None }
    }

    /// An owned copy.
    pub fn to_value(self) -> Value {
        match self {
            ValueRef::Null => Value::Null,
            ValueRef::Unsigned(value) => Value::Unsigned(value),
            ValueRef::Signed(value) => Value::Signed(value),
            ValueRef::Float(value) => Value::Float(value),
            ValueRef::Bool(value) => Value::Bool(value),
            ValueRef::Bytes(value) => Value::Bytes(value.to_vec()),
            ValueRef::Text(value) => Value::Text(value.to_owned()),
        }
    }

    /// Its type, in words for errors.
    pub(super) fn describe(self) -> &'static str {
        match self {
            ValueRef::Null => "NULL",
            ValueRef::Unsigned(_) | ValueRef::Signed(_) => "an integer",
            ValueRef::Float(_) => "a float",
            ValueRef::Bool(_) => "a bool",
            ValueRef::Bytes(_) => "bytes",
            ValueRef::Text(_) => "text",
        }
    }

    /// The place of its type among types.
    fn rank(self) -> u8 {
        match self {
            ValueRef::Null => 0,
            ValueRef::Bool(_) => 1,
            ValueRef::Unsigned(_) | ValueRef::Signed(_) => 2,
            ValueRef::Float(_) => 3,
            ValueRef::Bytes(_) => 4,
            ValueRef::Text(_) => 5,
        }
    }
}

impl Value {
    /// The value, borrowed.
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Value::Null => ValueRef::Null,
            Value::Unsigned(value) => ValueRef::Unsigned(*value),
            Value::Signed(value) => ValueRef::Signed(*value),
            Value::Float(value) => ValueRef::Float(*value),
            Value::Bool(value) => ValueRef::Bool(*value),
            Value::Bytes(value) => ValueRef::Bytes(value),
            Value::Text(value) => ValueRef::Text(value),
        }
    }

    /// Whether it is NULL.
    pub fn is_null(&self) -> bool {
        self.as_ref().is_null()
    }
}

impl Ord for ValueRef<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (*self, *other) {
            (ValueRef::Bool(a), ValueRef::Bool(b)) => a.cmp(&b),
            (ValueRef::Float(a), ValueRef::Float(b)) => float_order(a).cmp(&float_order(b)),
            (ValueRef::Bytes(a), ValueRef::Bytes(b)) => a.cmp(b),
            (ValueRef::Text(a), ValueRef::Text(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()).then_with(|| a.integer().cmp(&b.integer())),
        }
    }
}

impl PartialOrd for ValueRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ValueRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ValueRef<'_> {}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_ref().cmp(&other.as_ref())
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Value {}

impl fmt::Display for ValueRef<'_> {
    /// For people: text as it is, bytes in hexadecimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueRef::Null => f.write_str("NULL"),
            ValueRef::Unsigned(value) => value.fmt(f),
            ValueRef::Signed(value) => value.fmt(f),
            ValueRef::Float(value) => value.fmt(f),
            ValueRef::Bool(value) => value.fmt(f),
            ValueRef::Bytes(value) => value.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            ValueRef::Text(value) => value.fmt(f),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}
