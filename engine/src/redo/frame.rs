//! A frame: the records of one mini-transaction, complete or absent.
//!
//! ```text
//! offset size
//!      0    4  length of the records, bytes; 0: the stream ends here
//!      4    4  checksum: crc32c of the frame's LSN (8 bytes), the length, and all that follows without the padding
//!      8    4  epoch: which opening of the database wrote it
//!     12    4  how far the stream that is known to be durable ended before this frame's LSN, in units of 8 bytes, rounded
//!              up; the greatest number if it is more
//!     16    n  records
//!          ..  0 up to a multiple of 8
//! ```
//! The LSN in the checksum distinguishes frames of an earlier cycle through the files; see [`super`] for the epoch.

pub(super) const HEADER_BYTES: usize = 16;
/// Frames begin at multiples of this.
pub(super) const ALIGNMENT_BYTES: u64 = 8;

/// Bytes of a frame whose records have `payload_bytes`.
pub(super) fn frame_bytes(payload_bytes: usize) -> u64 {
    ((HEADER_BYTES + payload_bytes) as u64).next_multiple_of(ALIGNMENT_BYTES)
}

/// The two words that a frame at `lsn` begins with. `durable`: all before it is durable.
pub(super) fn header(lsn: u64, epoch: u32, durable: u64, payload: &[u8]) -> [u64; 2] {
    let length = payload.len() as u32;
    let behind = lsn.saturating_sub(durable).div_ceil(ALIGNMENT_BYTES).try_into().unwrap_or(u32::MAX);
    let checksum = checksum(lsn, length, epoch, behind, payload);
    [u64::from(length) | u64::from(checksum) << 32, u64::from(epoch) | u64::from(behind) << 32]
}

pub(super) fn checksum(lsn: u64, length: u32, epoch: u32, behind: u32, payload: &[u8]) -> u32 {
    let mut head = [0; 20];
    head[..8].copy_from_slice(&lsn.to_le_bytes());
    head[8..12].copy_from_slice(&length.to_le_bytes());
    head[12..16].copy_from_slice(&epoch.to_le_bytes());
    head[16..].copy_from_slice(&behind.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&head), payload)
}

/// The content at the position of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'b> {
    /// A whole frame of this length. When it was appended, all before `durable` was durable, if that is known.
    Frame { bytes: u64, epoch: u32, durable: u64, payload: &'b [u8] },
    /// So many bytes are needed to say.
    More(usize),
    /// No frame.
    End,
}

/// Looks for the frame at `lsn`, which `bytes` begin with. `payload_max` is the most that records can have.
pub(super) fn find(lsn: u64, bytes: &[u8], payload_max: usize) -> Found<'_> {
    let Some((head, rest)) = bytes.split_at_checked(HEADER_BYTES) else { return Found::More(HEADER_BYTES) };
    let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
    let (length, stored, epoch, behind) = (word(0) as usize, word(4), word(8), word(12));
    if length == 0 || length > payload_max {
        return Found::End;
    }
    let Some(payload) = rest.get(..length) else { return Found::More(HEADER_BYTES + length) };
    match stored == checksum(lsn, length as u32, epoch, behind, payload) {
        true => {
            let durable = match behind {
                u32::MAX => 0,
                behind => lsn.saturating_sub(u64::from(behind) * ALIGNMENT_BYTES),
            };
            Found::Frame { bytes: frame_bytes(length), epoch, durable, payload }
        }
        false => Found::End,
    }
}

/// Whether a frame of an epoch in `epochs` could begin like that, at first sight.
pub(super) fn may_begin(bytes: &[u8], epochs: std::ops::RangeInclusive<u32>, payload_max: usize) -> bool {
    word_in(bytes, 8).is_some_and(|epoch| epochs.contains(&epoch))
        && length_in(bytes).is_some_and(|length| (1..=payload_max).contains(&length))
}

/// How many bytes of records a frame would have that began like that.
pub(super) fn length_in(bytes: &[u8]) -> Option<usize> {
    word_in(bytes, 0).map(|length| length as usize)
}

fn word_in(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(lsn: u64, epoch: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            header(lsn, epoch, lsn - 20, payload).iter().flat_map(|w| w.to_le_bytes()).collect();
        bytes.extend_from_slice(payload);
        bytes.resize(frame_bytes(payload.len()) as usize, 0);
        bytes
    }

    #[test]
    fn a_frame_is_found_where_it_was_written_and_nowhere_else() {
        let bytes = frame(4096, 3, b"records");
        let found = Found::Frame { bytes: 24, epoch: 3, durable: 4072, payload: b"records" };
        assert_eq!(find(4096, &bytes, 100), found);
        assert_eq!(find(4104, &bytes, 100), Found::End);
        assert_eq!(find(4096, &bytes, 6), Found::End);
        assert_eq!(find(4096, &bytes[..10], 100), Found::More(16));
        assert_eq!(find(4096, &bytes[..20], 100), Found::More(23));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = frame(4096, 3, b"records");
        for bit in 0..23 * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let found = find(4096, &flipped, 100);
            assert!(!matches!(found, Found::Frame { .. }), "bit {bit}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_not(
            mut bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..120),
            lsn in 0_u64..1 << 60,
            length in 0_u32..130,
            fits in proptest::prelude::any::<bool>(),
        ) {
            if bytes.len() >= HEADER_BYTES {
                bytes[..4].copy_from_slice(&length.to_le_bytes());
                let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
                let (epoch, behind) = (word(8), word(12));
                if fits && let Some(payload) = bytes[HEADER_BYTES..].get(..length as usize) {
                    let sum = checksum(lsn, length, epoch, behind, payload);
                    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
                }
            }
            match find(lsn, &bytes, 100) {
                Found::Frame { bytes: whole, durable, payload, .. } => {
                    proptest::prop_assert!(durable <= lsn && payload.len() <= 100);
                    proptest::prop_assert!(whole.is_multiple_of(ALIGNMENT_BYTES) && whole > payload.len() as u64);
                }
                Found::More(needed) => proptest::prop_assert!(needed > bytes.len()),
                Found::End => {}
            }
        }
    }
}
