//! Memory that a statement needs while it runs, kept by processor and not by session or thread.
//!
//! Of a thousand sessions a few run at a time. What each of them kept for itself would have left the processor's cache
//! by its next statement, a thousand statements later, and be fetched from memory again; what the last statement on
//! this processor has left is in its cache still. So the next one gets what was given back last, for the reason for which
//! admission lets in who came last. (Allocators keep magazines by processor likewise: Bonwick and Adams, USENIX 2001.)

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, OnceLock};

use flifo_base::{CacheAligned, cpu_count, current_cpu, lock};

/// So many are kept for a processor; others are freed.
const KEPT_MAX: usize = 32;

/// Memory for statements: as much as have run at the same time, however many sessions there are.
///
/// For what a statement fills and leaves behind, a reply for example. It is best taken once the statement has its slot in
/// admission, so that those who queue have none.
///
/// ```
/// use flifo_engine::ScratchPool;
///
/// static REPLIES: ScratchPool<Vec<u8>> = ScratchPool::new();
///
/// let mut reply = REPLIES.take();
/// reply.clear(); // it is as the statement before has left it
/// reply.extend_from_slice(b"200 rows");
/// ```
pub struct ScratchPool<T> {
    by_cpu: OnceLock<Box<[Stack<T>]>>,
}

/// Of one processor, the last given back on top. On cache lines of its own.
type Stack<T> = CacheAligned<Mutex<Vec<Box<T>>>>;

/// Memory of a statement's own; its drop gives it back.
pub struct Scratch<'s, T: Default> {
    of: &'s ScratchPool<T>,
    /// Only its drop takes it.
    memory: Option<Box<T>>,
}

impl<T: Default> ScratchPool<T> {
    /// None yet.
    pub const fn new() -> Self {
        ScratchPool { by_cpu: OnceLock::new() }
    }

    /// What was given back last on this processor, as it was left; or a new one.
    pub fn take(&self) -> Scratch<'_, T> {
        let last = self.own().pop();
        Scratch { of: self, memory: Some(last.unwrap_or_default()) }
    }

    /// The stack of the processor that this thread runs on.
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

    /// One after the other, on whichever processors: there are no more than the processors have left behind.
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
