//! The types of columns, and their values as bits.

use std::fmt;

use super::value::ValueRef;

/// The type of a column.
///
/// An integer column takes any integer that is in its range, signed or not: `42_i32` goes into a [`ColumnType::U64`].
/// There is no other conversion.
///
/// ```
/// use flifo_engine::row::ColumnType;
///
/// assert_eq!(ColumnType::I32.to_string(), "i32");
/// assert_eq!((ColumnType::I32.width(), ColumnType::Text.width()), (Some(4), None));
/// ```
// The numbers are on disk, in schemas: they never change and are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum ColumnType {
    /// 0 to 2^8 - 1, in one byte.
    U8 = 1,
    /// 0 to 2^16 - 1, in two bytes.
    U16 = 2,
    /// 0 to 2^32 - 1, in four bytes.
    U32 = 3,
    /// 0 to 2^64 - 1, in eight bytes.
    U64 = 4,
    /// -2^7 to 2^7 - 1, in one byte.
    I8 = 5,
    /// -2^15 to 2^15 - 1, in two bytes.
    I16 = 6,
    /// -2^31 to 2^31 - 1, in four bytes.
    I32 = 7,
    /// -2^63 to 2^63 - 1, in eight bytes.
    I64 = 8,
    /// A double, in eight bytes; the module's head describes the order.
    F64 = 9,
    /// False or true, in one byte.
    Bool = 10,
    /// Any bytes, of any length.
    Bytes = 11,
    /// UTF-8, ordered by its bytes.
    Text = 12,
}

/// Why a value is not one of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Misfit {
    /// It is of another type.
    Type,
    /// It is an integer that the type has no room for.
    Range,
}

const SIGN: u64 = 1 << 63;
const QUIET_NAN: u64 = 0x7ff8_0000_0000_0000;

impl ColumnType {
    /// All types.
    pub(super) const ALL: [ColumnType; 12] = [
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::F64,
        Self::Bool,
        Self::Bytes,
        Self::Text,
    ];

    /// The type's number in a stored schema.
    pub(super) fn code(self) -> u8 {
        self as u8
    }

    pub(super) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Bytes of a value, for types of fixed width.
    pub const fn width(self) -> Option<usize> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::Bytes | Self::Text => None,
        }
    }

    const fn is_signed(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64)
    }

    /// The least and the greatest number, for types of integers.
    pub(super) fn limits(self) -> Option<(i128, i128)> {
        let bits = 8 * match self {
            Self::F64 | Self::Bool => return None,
            _ => self.width()?,
        };
        Some(match self.is_signed() {
            true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            false => (0, (1 << bits) - 1),
        })
    }

    /// The same in words, for errors.
    pub(super) fn range(self) -> String {
        self.limits().map_or_else(String::new, |(least, greatest)| format!("{least} to {greatest}"))
    }

    /// The bits of a value of fixed width, of which the lowest [`ColumnType::width`] bytes count.
    pub(super) fn bits(self, value: ValueRef<'_>) -> Result<u64, Misfit> {
        match (self, value) {
            (Self::Bool, ValueRef::Bool(value)) => Ok(u64::from(value)),
            (Self::F64, ValueRef::Float(value)) => Ok(value.to_bits()),
            _ => {
                let (least, greatest) = self.limits().ok_or(Misfit::Type)?;
                let number = value.integer().ok_or(Misfit::Type)?;
                // The cut-off bits are copies of the sign.
                if (least..=greatest).contains(&number) { Ok(number as u64) } else { Err(Misfit::Range) }
            }
        }
    }

    /// The value that has these bits; `None` if none has, or if the type has no width.
    pub(super) fn value_of(self, bits: u64) -> Option<ValueRef<'static>> {
        match self {
            Self::Bool => match bits {
                0 | 1 => Some(ValueRef::Bool(bits == 1)),
                _ => None,
            },
            Self::F64 => Some(ValueRef::Float(f64::from_bits(bits))),
            _ if self.is_signed() => {
                let unused = 64 - 8 * self.width()?;
                Some(ValueRef::Signed((bits << unused).cast_signed() >> unused))
            }
            _ => self.width().map(|_| ValueRef::Unsigned(bits)),
        }
    }

    /// Bits that order as unsigned numbers as the values do.
    pub(super) fn ordered(self, bits: u64) -> u64 {
        match self.width() {
            Some(width) if self.is_signed() => bits ^ (1 << (8 * width - 1)),
            _ if self == Self::F64 => float_order(f64::from_bits(bits)),
            _ => bits,
        }
    }

    /// What [`ColumnType::ordered`] was made from; `None` if it never makes this.
    pub(super) fn unordered(self, ordered: u64) -> Option<u64> {
        if self != Self::F64 {
            // Flipping the sign again undoes it.
            return Some(self.ordered(ordered));
        }
        let bits = if ordered & SIGN == 0 { !ordered } else { ordered ^ SIGN };
        (float_order(f64::from_bits(bits)) == ordered).then_some(bits)
    }
}

/// Numbers that order as floats do: the sign flipped for positive ones, all bits for negative ones, whose magnitude
/// counts the other way.
pub(super) fn float_order(value: f64) -> u64 {
    let bits = match value {
        _ if value.is_nan() => QUIET_NAN,
        _ if value == 0.0 => 0,
        _ => value.to_bits(),
    };
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F64 => "f64",
            Self::Bool => "bool",
            Self::Bytes => "bytes",
            Self::Text => "text",
        })
    }
}
