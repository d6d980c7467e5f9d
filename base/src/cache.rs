//! Alignment to cache lines.

use std::ops::{Deref, DerefMut};

/// A value on cache lines of its own.
///
/// Aligned to two lines of 64 bytes, since x86 CPUs fetch lines in pairs. Two CPUs that write neighbouring values do
/// not invalidate each other's lines.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use flifo_base::CacheAligned;
///
/// let by_cpu = [CacheAligned(AtomicU64::new(0)), CacheAligned(AtomicU64::new(0))];
/// by_cpu[1].fetch_add(1, Ordering::Relaxed);
/// assert_eq!(size_of_val(&by_cpu), 256);
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(128))]
pub struct CacheAligned<T>(pub T);

impl<T> Deref for CacheAligned<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for CacheAligned<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_on_different_lines() {
        let values = [CacheAligned(1u8), CacheAligned(2)];
        let [first, second] = [0, 1].map(|n| std::ptr::from_ref(&values[n].0).addr());
        assert_eq!((first % 128, second - first), (0, 128));
    }
}
