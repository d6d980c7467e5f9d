//! Scratch memory for running statements, pooled per CPU rather than per session or thread.
//!
//! Of a thousand sessions, only a few run at a time. Memory kept per session would have left the CPU's cache by the
//! session's next statement. Memory that the last statement on this CPU returned is still in the cache, so a statement
//! takes the block that was returned last. (Allocators keep magazines per CPU for the same reason: Bonwick and Adams,
//! USENIX 2001.)

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, OnceLock};

use flifo_base::{CacheAligned, cpu_count, current_cpu, lock};

/// Blocks kept per CPU; more are freed.
const KEPT_MAX: usize = 32;

/// A pool of scratch memory: as many blocks as statements have run at the same time, however many sessions there are.
///
/// Use it for memory that a statement fills and leaves behind, such as a reply. Take a block after the statement has
/// its slot, so that queueing statements hold none.
///
/// ```
/// use flifo_engine::ScratchPool;
///
/// static REPLIES: ScratchPool<Vec<u8>> = ScratchPool::new();
///
/// let mut reply = REPLIES.take();
/// reply.clear(); // it still has the previous statement's bytes
/// reply.extend_from_slice(b"200 rows");
/// ```
pub struct ScratchPool<T> {
    by_cpu: OnceLock<Box<[Stack<T>]>>,
}

/// The blocks of one CPU, the last returned on top. On cache lines of its own.
type Stack<T> = CacheAligned<Mutex<Vec<Box<T>>>>;

/// A block of scratch memory, returned to the pool on drop.
pub struct Scratch<'s, T: Default> {
    of: &'s ScratchPool<T>,
    /// `None` only during drop.
    memory: Option<Box<T>>,
}

impl<T: Default> ScratchPool<T> {
    /// Creates an empty pool.
    pub const fn new() -> Self {
        ScratchPool { by_cpu: OnceLock::new() }
    }

    /// Takes the block that was returned last on this CPU, with its old content, or creates one.
    pub fn take(&self) -> Scratch<'_, T> {
        let last = self.own().pop();
        Scratch { of: self, memory: Some(last.unwrap_or_default()) }
    }

    /// The stack of the CPU that this thread runs on.
    fn own(&self) -> MutexGuard<'_, Vec<Box<T>>> {
        let all =
            self.by_cpu.get_or_init(|| (0..cpu_count()).map(|_| CacheAligned(Mutex::default())).collect());
        lock(&all[current_cpu() % all.len()])
    }
}

impl<T: Default> Default for ScratchPool<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Default> Deref for Scratch<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.memory.as_ref().expect("only its drop takes it")
    }
}

impl<T: Default> DerefMut for Scratch<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.memory.as_mut().expect("only its drop takes it")
    }
}

impl<T: Default> Drop for Scratch<'_, T> {
    fn drop(&mut self) {
        let memory = self.memory.take();
        let mut stack = self.of.own();
        if stack.len() < KEPT_MAX {
            stack.extend(memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts what is there of it.
    struct Counted(usize);

    static MADE: AtomicUsize = AtomicUsize::new(0);
    static THERE: AtomicUsize = AtomicUsize::new(0);

    impl Default for Counted {
        fn default() -> Self {
            THERE.fetch_add(1, Ordering::Relaxed);
            Counted(MADE.fetch_add(1, Ordering::Relaxed))
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            THERE.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Sequential users on any CPU: there are no more blocks than CPUs have returned.
    #[test]
    fn what_is_given_back_is_used_again_and_no_two_have_the_same() {
        let pool = ScratchPool::<Counted>::new();
        for _ in 0..1000 {
            drop(pool.take());
        }
        let cpus = cpu_count();
        assert!(MADE.load(Ordering::Relaxed) <= cpus);

        let many: Vec<_> = (0..2 * KEPT_MAX * cpus).map(|_| pool.take()).collect();
        let mut numbers: Vec<_> = many.iter().map(|scratch| scratch.0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), many.len());

        drop(many);
        assert!(THERE.load(Ordering::Relaxed) <= KEPT_MAX * cpus, "the others are freed");
        drop(pool);
        assert_eq!(THERE.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn threads_give_back_what_others_took() {
        let pool = ScratchPool::<Vec<u8>>::new();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let pool = &pool;
                scope.spawn(move || {
                    for turn in 0..200 {
                        let mut mine = pool.take();
                        mine.clear();
                        mine.resize(8, thread);
                        if turn % 16 == 0 {
                            std::thread::yield_now();
                        }
                        assert_eq!(**mine, [thread; 8]);
                    }
                });
            }
        });
    }
}
