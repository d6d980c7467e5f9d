//! The row of `sbtest`, as sysbench's OLTP tests have it, and its values as bytes.
//!
//! ```text
//! values (184 bytes)  k    4 bytes, little-endian
//!                     c    120 bytes, ten groups of eleven digits joined by '-', one space
//!                     pad   60 bytes, five groups of eleven digits joined by '-', one space
//! ```
//! A loaded row is a pure function of (seed, id): it can be computed again at any time.

use super::rng::{Random, stream};

/// Bytes of column `c`.
pub const C_BYTES: usize = 120;
/// Bytes of column `pad`.
pub const PAD_BYTES: usize = 60;
/// Bytes of a row's values.
pub const VALUE_BYTES: usize = 4 + C_BYTES + PAD_BYTES;
/// Changes whenever the rows or their place in the database change: data of another version are loaded again. 2: rows
/// of a table with an index on `k`, no longer of a tree.
pub const FORMAT_VERSION: u32 = 2;

/// The values of row `id` as it is loaded; `rows` bounds `k` as it bounds `id`.
pub fn value(seed: u64, id: u32, rows: u32) -> [u8; VALUE_BYTES] {
    random(&mut stream(seed, u64::from(id)), rows)
}

/// The values of some row of a table of `rows`.
pub fn random(rng: &mut Random, rows: u32) -> [u8; VALUE_BYTES] {
    let mut bytes = [b' '; VALUE_BYTES];
    bytes[..4].copy_from_slice(&rng.one_to(rows).to_le_bytes());
    digit_groups(rng, &mut bytes[4..4 + C_BYTES - 1]);
    digit_groups(rng, &mut bytes[4 + C_BYTES..VALUE_BYTES - 1]);
    bytes
}

/// Some `c`.
pub fn random_c(rng: &mut Random) -> [u8; C_BYTES] {
    let mut c = [b' '; C_BYTES];
    digit_groups(rng, &mut c[..C_BYTES - 1]);
    c
}

/// Column `k` of a row's value; `None` if these are not a row's bytes.
#[inline]
pub fn k(value: &[u8]) -> Option<u32> {
    (value.len() == VALUE_BYTES).then(|| u32::from_le_bytes([value[0], value[1], value[2], value[3]]))
}

/// Column `c` of a row's value; `None` if these are not a row's bytes.
#[inline]
pub fn c(value: &[u8]) -> Option<&[u8; C_BYTES]> {
    if value.len() != VALUE_BYTES {
        return None;
    }
    value[4..].first_chunk()
}

/// Column `pad` of a row's value; `None` if these are not a row's bytes.
#[inline]
pub fn pad(value: &[u8]) -> Option<&[u8; PAD_BYTES]> {
    if value.len() != VALUE_BYTES {
        return None;
    }
    value[4 + C_BYTES..].first_chunk()
}

/// The columns of a row's values; `None` if these are not a row's bytes.
#[inline]
pub fn columns(value: &[u8]) -> Option<(u32, &str, &str)> {
    Some((k(value)?, text(c(value)?)?, text(pad(value)?)?))
}

/// A column's text; `None` if it is none.
#[inline]
pub fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Fills `text` with groups of eleven digits and a dash between two.
pub fn digit_groups(rng: &mut Random, text: &mut [u8]) {
    for group in text.chunks_mut(12) {
        // Eleven digits of one draw: 10^11 is far below 2^64.
        let mut number = rng.next_u64() % 100_000_000_000;
        for digit in group[..11].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        if let Some(dash) = group.get_mut(11) {
            *dash = b'-';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_what_sysbench_makes() {
        let value = value(42, 1_000, 2_000_000);
        let k = k(&value).unwrap();
        assert!((1..=2_000_000).contains(&k));
        let c = std::str::from_utf8(c(&value).unwrap()).unwrap();
        let groups: Vec<&str> = c.trim_end().split('-').collect();
        assert_eq!(groups.len(), 10);
        assert!(groups.iter().all(|g| g.len() == 11 && g.bytes().all(|b| b.is_ascii_digit())), "{c}");
        let pad = std::str::from_utf8(&value[4 + C_BYTES..]).unwrap();
        assert_eq!(pad.trim_end().split('-').count(), 5);
        assert_eq!(pad.trim_end().len(), 59);
    }

    #[test]
    fn a_row_depends_on_seed_and_id_alone() {
        assert_eq!(value(1, 7, 100), value(1, 7, 100));
        assert_ne!(value(1, 7, 100), value(1, 8, 100));
        assert_ne!(value(1, 7, 100), value(2, 7, 100));
    }

    #[test]
    fn other_bytes_are_no_row() {
        assert_eq!(k(b"short"), None);
        assert_eq!(c(&[0; VALUE_BYTES + 1]), None);
    }
}
