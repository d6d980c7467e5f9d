//! Key ranges in Rust's range syntax.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use super::convert::IntoKey;
use super::error::RowError;
use super::key::{KeyFormat, KeyRange};

/// A range of keys: `..`, `from..to` and the like, two [`Bound`]s, or a [`Prefix`].
///
/// The bounds may have only the first columns of a key, as in [`KeyFormat::range`], and are in the order of the keys:
/// over a descending column, the greater value comes first.
///
/// ```
/// use std::ops::{Bound, RangeBounds};
/// use flifo_engine::row::{ColumnType, KeyBounds, KeyFormat, KeyPart, Prefix};
///
/// let format = KeyFormat::new(vec![
///     KeyPart::new("account", ColumnType::U64),
///     KeyPart::new("day", ColumnType::U32),
/// ]);
/// let key = format.encode((7, 100))?;
/// assert!((..).key_range(&format)?.contains(&key));
/// assert!((7..8).key_range(&format)?.contains(&key));
/// assert!(((7, 90)..=(7, 100)).key_range(&format)?.contains(&key));
/// assert!(Prefix(7).key_range(&format)?.contains(&key) && !Prefix(8).key_range(&format)?.contains(&key));
/// assert!(!(Bound::Excluded((7, 100)), Bound::Included(7)).key_range(&format)?.contains(&key));
/// # Ok::<(), flifo_engine::row::RowError>(())
/// ```
pub trait KeyBounds<'a> {
    /// The range in bytes.
    fn key_range(self, format: &KeyFormat) -> Result<KeyRange, RowError>;
}

/// All keys with these values in their first columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix<K>(pub K);

impl<'a, K: IntoKey<'a>> KeyBounds<'a> for Prefix<K> {
    fn key_range(self, format: &KeyFormat) -> Result<KeyRange, RowError> {
        format.prefix_range(self.0)
    }
}

impl KeyBounds<'_> for RangeFull {
    fn key_range(self, _: &KeyFormat) -> Result<KeyRange, RowError> {
        Ok((Bound::Unbounded, Bound::Unbounded))
    }
}

impl<'a, K: IntoKey<'a>, L: IntoKey<'a>> KeyBounds<'a> for (Bound<K>, Bound<L>) {
    fn key_range(self, format: &KeyFormat) -> Result<KeyRange, RowError> {
        format.range(self.0, self.1)
    }
}

const OPEN: Bound<()> = Bound::Unbounded;

impl<'a, K: IntoKey<'a>> KeyBounds<'a> for Range<K> {
    fn key_range(self, format: &KeyFormat) -> Result<KeyRange, RowError> {
        format.range(Bound::Included(self.start), Bound::Excluded(self.end))
    }
}

impl<'a, K: IntoKey<'a>> KeyBounds<'a> for RangeInclusive<K> {
    fn key_range(self, format: &KeyFormat) -> Result<KeyRange, RowError> {
        let (from, to) = self.into_inner();
        format.range(Bound::Included(from), Bound::Included(to))
    }
}

impl<'a, K: IntoKey<'a>> KeyBounds<'a> for RangeFrom<K> {
    fn key_range(self, format: &KeyFormat) -> Result<KeyRange, RowError> {
        format.range(Bound::Included(self.start), OPEN)
    }
}

impl<'a, K: IntoKey<'a>> KeyBounds<'a> for RangeTo<K> {
    fn key_range(self, format: &KeyFormat) -> Result<KeyRange, RowError> {
        format.range(OPEN, Bound::Excluded(self.end))
    }
}

impl<'a, K: IntoKey<'a>> KeyBounds<'a> for RangeToInclusive<K> {
    fn key_range(self, format: &KeyFormat) -> Result<KeyRange, RowError> {
        format.range(OPEN, Bound::Included(self.end))
    }
}
