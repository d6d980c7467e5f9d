//! Reads of a frame that another thread may be changing: the only module with such reads.
//!
//! All reads are volatile, or string copies by the CPU, so the compiler neither repeats one nor assumes that two reads
//! of the same bytes agree. They stay within the frame, whose memory is mapped as long as the pool lives, so the worst
//! result is a mix of two versions, or of another page. The result may not be *used* before the reader has validated
//! the page's version: until then it only decides where in the same frame to read next.
//!
//! Rust's memory model calls such a race undefined, as C++'s does, and offers no byte-wise atomic copy yet; on the
//! machine the loads are plain ones, and the fences of [`super::latch`] order them.

use std::cmp::Ordering;
use std::marker::PhantomData;

use crate::page::{Bytes, Torn};

/// A frame under the eyes of an optimistic reader.
#[derive(Clone, Copy)]
pub(crate) struct Racy<'p> {
    base: *const u8,
    bytes: usize,
    _pool: PhantomData<&'p ()>,
}

impl<'p> Racy<'p> {
    /// # Safety
    /// `base` has `bytes` readable bytes as long as `'p`.
    #[inline]
    pub(crate) unsafe fn new(base: *const u8, bytes: usize) -> Self {
        Racy { base, bytes, _pool: PhantomData }
    }

    #[inline]
    fn within(&self, at: usize, len: usize) -> Result<*const u8, Torn> {
        if at > self.bytes || len > self.bytes - at {
            return Err(Torn);
        }
        // SAFETY: within the frame, as just checked.
        Ok(unsafe { self.base.add(at) })
    }

    /// Prefetches the cache lines of `len` bytes at `at`.
    #[inline]
    pub(crate) fn prefetch(&self, at: usize, len: usize) {
        let end = (at + len).min(self.bytes);
        // Not `step_by`, which works out how many there will be: for each row of a scan that took longer than the rest.
        let mut line = at;
        while line < end {
            prefetch_line(self.base.wrapping_add(line));
            line += LINE_BYTES;
        }
    }
}

const LINE_BYTES: usize = 64;

/// Words copied without a look at the end: the compiler does not unroll volatile reads by itself.
const BLOCK_BYTES: usize = 64;

/// Copied from here on as a string: of a page of 16 KiB that is much faster than word by word, of little it is slower.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const STRING_BYTES: usize = 1024;

/// Copies without the compiler's assumption that `from` has no other writer.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes; they do not overlap.
#[inline]
unsafe fn copy_racy(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if len >= STRING_BYTES {
        // SAFETY: reads and writes what the caller guarantees; the direction flag is clear, as everywhere. The fence:
        // string loads have no order, and the version must be read after all of them.
        unsafe {
            std::arch::asm!(
                "rep movsb",
                "lfence",
                inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
                options(nostack, preserves_flags)
            );
        }
        return;
    }
    let mut done = 0;
    while done + BLOCK_BYTES <= len {
        for word in (done..done + BLOCK_BYTES).step_by(8) {
            // SAFETY: the eight bytes lie within what the caller vouches for.
            unsafe { copy_word(from.add(word), to.add(word)) };
        }
        done += BLOCK_BYTES;
    }
    while done + 8 <= len {
        // SAFETY: as above.
        unsafe { copy_word(from.add(done), to.add(done)) };
        done += 8;
    }
    while done < len {
        // SAFETY: as above, one byte.
        unsafe { to.add(done).write(from.add(done).read_volatile()) };
        done += 1;
    }
}

/// # Safety
/// As for [`copy_racy`], eight bytes.
#[inline]
unsafe fn copy_word(from: *const u8, to: *mut u8) {
    // SAFETY: as the caller says; the write needs no alignment.
    unsafe { to.cast::<u64>().write_unaligned(read_volatile::<u64>(from)) }
}

/// Prefetches one cache line.
#[inline]
fn prefetch_line(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch touches nothing, wherever it points.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}

/// A volatile read of a number at any address, in one load: an array of bytes would be read byte by byte.
///
/// # Safety
/// The bytes are readable, and any bytes are a valid `T`.
#[inline]
unsafe fn read_volatile<T: Copy>(from: *const u8) -> T {
    #[repr(C, packed)]
    #[derive(Clone, Copy)]
    struct Unaligned<T>(T);
    // SAFETY: readable as the caller says, and packed, so of alignment 1.
    unsafe { from.cast::<Unaligned<T>>().read_volatile() }.0
}

impl Bytes for Racy<'_> {
    #[inline]
    fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], Torn> {
        let from = self.within(at, N)?;
        let mut bytes = [0; N];
        // SAFETY: N readable bytes, and any bytes are a number, or an array of bytes.
        unsafe {
            match N {
                2 => bytes.copy_from_slice(&read_volatile::<u16>(from).to_ne_bytes()),
                4 => bytes.copy_from_slice(&read_volatile::<u32>(from).to_ne_bytes()),
                8 => bytes.copy_from_slice(&read_volatile::<u64>(from).to_ne_bytes()),
                _ => bytes = read_volatile(from),
            }
        }
        Ok(bytes)
    }

    fn compare(&self, at: usize, len: usize, other: &[u8]) -> Result<Ordering, Torn> {
        let from = self.within(at, len)?;
        let common = len.min(other.len());
        let mut done = 0;
        while done + 8 <= common {
            // SAFETY: within the `len` readable bytes.
            let mine = unsafe { read_volatile::<u64>(from.add(done)) };
            let theirs = u64::from_ne_bytes(other[done..done + 8].try_into().expect("eight bytes"));
            if mine != theirs {
                return Ok(u64::from_be(mine).cmp(&u64::from_be(theirs)));
            }
            done += 8;
        }
        while done < common {
            // SAFETY: as above.
            let mine = unsafe { from.add(done).read_volatile() };
            if mine != other[done] {
                return Ok(mine.cmp(&other[done]));
            }
            done += 1;
        }
        Ok(len.cmp(&other.len()))
    }

    #[inline]
    fn append_to(&self, at: usize, len: usize, out: &mut Vec<u8>) -> Result<(), Torn> {
        let from = self.within(at, len)?;
        out.reserve(len);
        let end = out.len();
        // SAFETY: `len` readable bytes, and as many reserved, which are all written before they count.
        unsafe {
            copy_racy(from, out.as_mut_ptr().add(end), len);
            out.set_len(end + len);
        }
        Ok(())
    }
}
