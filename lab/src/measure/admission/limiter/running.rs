//! Counts running threads, for `--verify`: two changes of a shared word per statement, so not by default.

use std::sync::atomic::{AtomicU32, Ordering};

use flifo_admission::WaitKind;

use super::Limiter;

/// How many threads run now, and the most that did.
///
/// Relaxed: the changes of one word have a total order, and it publishes nothing else. A thread counts itself after it
/// entered and until just before it exits, so the count is never too high.
#[derive(Debug, Default)]
pub(crate) struct Running {
    now: AtomicU32,
    most: AtomicU32,
}

impl Running {
    /// The most at a time.
    pub(crate) fn most(&self) -> u32 {
        self.most.load(Ordering::Relaxed)
    }

    fn one_more(&self) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        if now > self.most.load(Ordering::Relaxed) {
            self.most.fetch_max(now, Ordering::Relaxed);
        }
    }

    fn one_less(&self) {
        self.now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A limiter whose threads are counted while they run.
pub(crate) struct Counted<'a, L> {
    pub(crate) limiter: &'a L,
    pub(crate) running: &'a Running,
}

impl<L: Limiter> Limiter for Counted<'_, L> {
    fn enter(&self) {
        self.limiter.enter();
        self.running.one_more();
    }

    fn exit(&self) {
        self.running.one_less();
        self.limiter.exit();
    }

    fn wait_begin(&self, kind: WaitKind) {
        self.running.one_less();
        self.limiter.wait_begin(kind);
    }

    fn wait_end(&self, kind: WaitKind) {
        self.limiter.wait_end(kind);
        self.running.one_more();
    }
}
