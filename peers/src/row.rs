//! The rows: sysbench's, with a counter of 8 bytes.
//!
//! ```text
//! key   (8 bytes)    id, big-endian (SQLite: an INTEGER PRIMARY KEY)
//! value (188 bytes)  k    8 bytes, little-endian: how often the row was updated
//!                    c    120 bytes, ten groups of eleven digits joined by '-', one space
//!                    pad   60 bytes, five groups of eleven digits joined by '-', one space
//! ```
//! The sum of all `k` is the number of executed updates, which every check compares with the acknowledged ones.

use flifo::measure::workload::row::{C_BYTES, PAD_BYTES, digit_groups};
use flifo::measure::workload::{Random, stream};

const K_BYTES: usize = 8;
/// Bytes of a value.
pub(crate) const VALUE_BYTES: usize = K_BYTES + C_BYTES + PAD_BYTES;
/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 8;

/// A row as it is loaded.
pub(crate) type Row = (u64, [u8; VALUE_BYTES]);

/// The key of row `id`: byte order is number order.
#[inline]
pub(crate) fn key(id: u64) -> [u8; KEY_BYTES] {
    id.to_be_bytes()
}

/// The id of a key; `None` if these are not a key's bytes.
#[inline]
pub(crate) fn id(key: &[u8]) -> Option<u64> {
    key.try_into().map(u64::from_be_bytes).ok()
}

/// The bytes of row `id`, never updated.
pub(crate) fn value(seed: u64, id: u64) -> [u8; VALUE_BYTES] {
    let mut rng = stream(seed, id);
    let mut bytes = [b' '; VALUE_BYTES];
    bytes[..K_BYTES].fill(0);
    digit_groups(&mut rng, &mut bytes[K_BYTES..K_BYTES + C_BYTES - 1]);
    digit_groups(&mut rng, &mut bytes[K_BYTES + C_BYTES..VALUE_BYTES - 1]);
    bytes
}

/// All rows, ascending.
pub(crate) fn rows(seed: u64, count: u64) -> impl Iterator<Item = Row> {
    (0..count).map(move |id| (id, value(seed, id)))
}

/// How often the row was updated; `None` if these are not a row's bytes.
#[inline]
pub(crate) fn updates(value: &[u8]) -> Option<u64> {
    (value.len() == VALUE_BYTES).then_some(())?;
    value.first_chunk().map(|k| u64::from_le_bytes(*k))
}

/// A number that depends on each byte of a row, so that reading a row touches it.
#[inline]
pub(crate) fn sum(value: &[u8]) -> u64 {
    let (words, rest) = value.as_chunks::<8>();
    let of_words = words.iter().fold(0u64, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)));
    rest.iter().fold(of_words, |sum, byte| sum.wrapping_add(u64::from(*byte)))
}

/// An update: one more in `k`.
pub(crate) fn update_k(value: &mut [u8]) {
    if let Some(k) = value.first_chunk_mut::<K_BYTES>() {
        *k = (u64::from_le_bytes(*k) + 1).to_le_bytes();
    }
}

/// An update of `c`: replaces its first group of digits.
pub(crate) fn update_c(value: &mut [u8], rng: &mut Random) {
    digit_groups(rng, &mut value[K_BYTES..K_BYTES + 11]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_counts_and_changes_c_alone() {
        let before = value(1, 7);
        assert_eq!((before.len(), updates(&before)), (188, Some(0)));
        let mut after = before;
        update_k(&mut after);
        update_c(&mut after, &mut stream(1, 2));
        assert_eq!(updates(&after), Some(1));
        assert_ne!(before[8..19], after[8..19]);
        assert_eq!(before[19..], after[19..]);
        assert!(after[8..19].iter().all(u8::is_ascii_digit));
        assert_eq!(updates(b"short"), None);
    }

    #[test]
    fn keys_sort_as_numbers_and_come_back() {
        assert!(key(255) < key(256) && key(u64::from(u32::MAX)) < key(1 << 40));
        assert_eq!((id(&key(1 << 40)), id(b"x")), (Some(1 << 40), None));
    }
}
