//! Reading a page's bytes without trusting them.
//!
//! The same code reads stable pages (latched, or copied) and pages that another thread may be changing at the same
//! time. So no read trusts an offset or a length: a value that reaches beyond the page is [`Torn`]. The caller then
//! checks whether the page has changed: if so, it starts over; if not, the page is corrupt.

use std::cmp::Ordering;

/// An inconsistent read: the page is being changed, or corrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Torn;

/// Bounds-checked reads of one page.
pub trait Bytes: Copy {
    /// The page's length, bytes.
    fn bytes(&self) -> usize;
    /// `N` bytes from `at`.
    fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], Torn>;
    /// How the `len` bytes from `at` compare with `other`.
    fn compare(&self, at: usize, len: usize, other: &[u8]) -> Result<Ordering, Torn>;
    /// Appends the `len` bytes from `at` to `out`.
    fn append_to(&self, at: usize, len: usize, out: &mut Vec<u8>) -> Result<(), Torn>;

    /// The number at `at`.
    fn u16(&self, at: usize) -> Result<u16, Torn> {
        self.array(at).map(u16::from_le_bytes)
    }

    /// The number at `at`.
    fn u64(&self, at: usize) -> Result<u64, Torn> {
        self.array(at).map(u64::from_le_bytes)
    }
}

impl Bytes for &[u8] {
    fn bytes(&self) -> usize {
        self.len()
    }

    #[inline]
    fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], Torn> {
        let bytes = self.get(at..at.wrapping_add(N)).ok_or(Torn)?;
        Ok(bytes.try_into().expect("the slice has N bytes"))
    }

    #[inline]
    fn compare(&self, at: usize, len: usize, other: &[u8]) -> Result<Ordering, Torn> {
        Ok(self.get(at..at.wrapping_add(len)).ok_or(Torn)?.cmp(other))
    }

    #[inline]
    fn append_to(&self, at: usize, len: usize, out: &mut Vec<u8>) -> Result<(), Torn> {
        out.extend_from_slice(self.get(at..at.wrapping_add(len)).ok_or(Torn)?);
        Ok(())
    }
}
