//! Conversions of Rust values to [`Value`], [`ValueRef`], keys and rows.

use super::value::{Value, ValueRef};

/// A key, the first columns of a key, or a row: a single value, a tuple of up to sixteen, or a slice of values.
///
/// `None` is NULL, and `()` no columns: the prefix of every key.
///
/// ```
/// use flifo_engine::row::{ColumnType, KeyFormat, KeyPart, Value, ValueRef};
///
/// let format = KeyFormat::new(vec![
///     KeyPart::new("name", ColumnType::Text),
///     KeyPart::new("age", ColumnType::U8).nullable(),
/// ]);
/// let key = format.encode(("alice", 42))?;
/// assert_eq!(format.encode(("alice".to_owned().as_str(), Some(42_u64)))?, key);
/// assert_eq!(format.encode([ValueRef::from("alice"), 42.into()])?, key);
/// assert_eq!(format.encode(&[Value::from("alice"), 42.into()])?, key);
/// assert!(format.encode(("alice", None::<u8>))? < key);
/// # Ok::<(), flifo_engine::row::RowError>(())
/// ```
pub trait IntoKey<'a> {
    /// A list of the values.
    type Values: AsRef<[ValueRef<'a>]>;

    /// The values, in the order of the columns.
    fn into_key(self) -> Self::Values;
}

macro_rules! values {
    ($life:lifetime, $($type:ty, $value:ident => $made:expr;)*) => {$(
        impl<$life> From<$type> for ValueRef<$life> {
            fn from($value: $type) -> Self {
                $made
            }
        }

        impl<$life> IntoKey<$life> for $type {
            type Values = [ValueRef<$life>; 1];

            fn into_key(self) -> Self::Values {
                [self.into()]
            }
        }
    )*};
}

values! { 'a,
    u8, value => ValueRef::Unsigned(value.into());
    u16, value => ValueRef::Unsigned(value.into());
    u32, value => ValueRef::Unsigned(value.into());
    u64, value => ValueRef::Unsigned(value);
    i8, value => ValueRef::Signed(value.into());
    i16, value => ValueRef::Signed(value.into());
    i32, value => ValueRef::Signed(value.into());
    i64, value => ValueRef::Signed(value);
    f64, value => ValueRef::Float(value);
    bool, value => ValueRef::Bool(value);
    &'a str, value => ValueRef::Text(value);
    &'a String, value => ValueRef::Text(value);
    &'a [u8], value => ValueRef::Bytes(value);
    &'a Vec<u8>, value => ValueRef::Bytes(value);
    &'a Value, value => value.as_ref();
}

impl<'a, const N: usize> From<&'a [u8; N]> for ValueRef<'a> {
    fn from(value: &'a [u8; N]) -> Self {
        ValueRef::Bytes(value)
    }
}

impl<'a, T: Into<ValueRef<'a>>> From<Option<T>> for ValueRef<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(ValueRef::Null, T::into)
    }
}

macro_rules! owned_values {
    ($($type:ty),*) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                ValueRef::from(value).to_value()
            }
        }
    )*};
}

owned_values!(u8, u16, u32, u64, i8, i16, i32, i64, f64, bool, &str, &[u8]);

impl From<String> for Value {
    fn from(value: String) -> Self {
        Value::Text(value)
    }
}

impl From<Vec<u8>> for Value {
    fn from(value: Vec<u8>) -> Self {
        Value::Bytes(value)
    }
}

impl<const N: usize> From<&[u8; N]> for Value {
    fn from(value: &[u8; N]) -> Self {
        Value::Bytes(value.to_vec())
    }
}

impl From<ValueRef<'_>> for Value {
    fn from(value: ValueRef<'_>) -> Self {
        value.to_value()
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, T::into)
    }
}

impl<'a> IntoKey<'a> for () {
    type Values = [ValueRef<'a>; 0];

    fn into_key(self) -> Self::Values {
        []
    }
}

impl<'a> IntoKey<'a> for ValueRef<'a> {
    type Values = [ValueRef<'a>; 1];

    fn into_key(self) -> Self::Values {
        [self]
    }
}

impl<'a, const N: usize> IntoKey<'a> for &'a [u8; N] {
    type Values = [ValueRef<'a>; 1];

    fn into_key(self) -> Self::Values {
        [self.into()]
    }
}

impl<'a, T: Into<ValueRef<'a>>> IntoKey<'a> for Option<T> {
    type Values = [ValueRef<'a>; 1];

    fn into_key(self) -> Self::Values {
        [self.into()]
    }
}

macro_rules! tuples {
    ($($count:literal: $($type:ident $value:ident),+;)*) => {$(
        impl<'a, $($type: Into<ValueRef<'a>>),+> IntoKey<'a> for ($($type,)+) {
            type Values = [ValueRef<'a>; $count];

            fn into_key(self) -> Self::Values {
                let ($($value,)+) = self;
                [$($value.into()),+]
            }
        }
    )*};
}

tuples! {
    1: A a;
    2: A a, B b;
    3: A a, B b, C c;
    4: A a, B b, C c, D d;
    5: A a, B b, C c, D d, E e;
    6: A a, B b, C c, D d, E e, F f;
    7: A a, B b, C c, D d, E e, F f, G g;
    8: A a, B b, C c, D d, E e, F f, G g, H h;
    9: A a, B b, C c, D d, E e, F f, G g, H h, I i;
    10: A a, B b, C c, D d, E e, F f, G g, H h, I i, J j;
    11: A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k;
    12: A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k, L l;
    13: A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k, L l, M m;
    14: A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k, L l, M m, N n;
    15: A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k, L l, M m, N n, O o;
    16: A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k, L l, M m, N n, O o, P p;
}

impl<'a, const N: usize> IntoKey<'a> for [ValueRef<'a>; N] {
    type Values = Self;

    fn into_key(self) -> Self::Values {
        self
    }
}

impl<'a> IntoKey<'a> for &'a [ValueRef<'a>] {
    type Values = Self;

    fn into_key(self) -> Self::Values {
        self
    }
}

impl<'a, const N: usize> IntoKey<'a> for &'a [ValueRef<'a>; N] {
    type Values = &'a [ValueRef<'a>];

    fn into_key(self) -> Self::Values {
        self
    }
}

impl<'a> IntoKey<'a> for &'a [Value] {
    type Values = Vec<ValueRef<'a>>;

    fn into_key(self) -> Self::Values {
        self.iter().map(Value::as_ref).collect()
    }
}

impl<'a, const N: usize> IntoKey<'a> for &'a [Value; N] {
    type Values = [ValueRef<'a>; N];

    fn into_key(self) -> Self::Values {
        self.each_ref().map(Value::as_ref)
    }
}

impl<'a> IntoKey<'a> for &'a Vec<Value> {
    type Values = Vec<ValueRef<'a>>;

    fn into_key(self) -> Self::Values {
        self.as_slice().into_key()
    }
}

/// A row: anything that is a key ([`IntoKey`]), and owned values, for rows that are created one by one.
pub trait IntoRow<'a> {
    /// Gives the values, in the order of the columns, to `f`.
    fn with_values<T>(self, f: impl FnOnce(&[ValueRef<'_>]) -> T) -> T;
}

impl<'a, K: IntoKey<'a>> IntoRow<'a> for K {
    fn with_values<T>(self, f: impl FnOnce(&[ValueRef<'_>]) -> T) -> T {
        f(self.into_key().as_ref())
    }
}

impl IntoRow<'_> for Vec<Value> {
    fn with_values<T>(self, f: impl FnOnce(&[ValueRef<'_>]) -> T) -> T {
        f(self.as_slice().into_key().as_ref())
    }
}

impl<const N: usize> IntoRow<'_> for [Value; N] {
    fn with_values<T>(self, f: impl FnOnce(&[ValueRef<'_>]) -> T) -> T {
        f((&self).into_key().as_ref())
    }
}
