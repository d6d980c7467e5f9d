//! A block of the header area: 4096 aligned bytes with a checksum over them.

use super::ALIGNMENT_BYTES;

const CHECKSUM_AT: usize = ALIGNMENT_BYTES - 4;

/// The bytes of a header or state block. Fields are little endian; the last four bytes are the crc32c of the others.
#[repr(C, align(4096))]
pub(crate) struct Block([u8; ALIGNMENT_BYTES]);

impl Block {
    pub(crate) fn zeroed() -> Box<Self> {
        Box::new(Block([0; ALIGNMENT_BYTES]))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0.iter().all(|&byte| byte == 0)
    }

    pub(crate) fn field<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0[at..at + N].try_into().expect("a range of N bytes")
    }

    pub(crate) fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.field(at))
    }

    pub(crate) fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.field(at))
    }

    pub(crate) fn set(&mut self, at: usize, field: &[u8]) {
        assert!(at + field.len() <= CHECKSUM_AT);
        self.0[at..at + field.len()].copy_from_slice(field);
    }

    /// Writes the checksum over the present content.
    pub(crate) fn seal(&mut self) {
        let checksum = crc32c::crc32c(&self.0[..CHECKSUM_AT]);
        self.0[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Whether the checksum is that of the rest.
    pub(crate) fn is_sealed(&self) -> bool {
        self.u32(CHECKSUM_AT) == crc32c::crc32c(&self.0[..CHECKSUM_AT])
    }
}
