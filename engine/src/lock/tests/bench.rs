//! A lock table whose waits are nodes without threads.

use super::super::*;

pub(super) const PROMOTE_AFTER: Duration = Duration::from_secs(1);

pub(super) fn key(name: &[u8]) -> LockKey<'_> {
    LockKey { tree: 1, key: Some(name) }
}

/// A table whose waits are nodes without threads.
pub(super) struct Bench {
    pub(super) table: Arc<LockTable>,
    pub(super) now: std::cell::Cell<Instant>,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::with_steps(DEADLOCK_STEPS_MAX)
    }

    pub(super) fn with_steps(deadlock_steps_max: usize) -> Self {
        let config = LockConfig { promote_after: PROMOTE_AFTER, deadlock_steps_max, ..LockConfig::default() };
        Bench { table: Arc::new(LockTable::new(config)), now: std::cell::Cell::new(Instant::now()) }
    }

    pub(super) fn ask(&self, request: &Request<'_>) -> Begun {
        let begun = self.table.begin(request, true, &|| self.now.get());
        if let Begun::Waits(wait) = &begun {
            self.table.look_for_deadlock(wait);
        }
        begun
    }

    pub(super) fn granted(&self, owner: u64, name: &[u8], mode: LockMode) {
        let begun = self.ask(&Request::new(TxnId(owner), key(name), mode));
        assert!(matches!(begun, Begun::Granted(_)), "{owner} does not get {mode:?}");
    }

    pub(super) fn waits(&self, owner: u64, name: &[u8], mode: LockMode) -> Wait {
        self.waits_as(owner, name, mode, Class::Newcomer)
    }

    pub(super) fn waits_as(&self, owner: u64, name: &[u8], mode: LockMode, class: Class) -> Wait {
        match self.ask(&Request { class, ..Request::new(TxnId(owner), key(name), mode) }) {
            Begun::Waits(wait) => wait,
            _ => panic!("{owner} does not wait for {mode:?}"),
        }
    }

    pub(super) fn deadlocks(&self) -> u64 {
        self.table.stats().deadlocks
    }

    /// The table is empty once these have released all they have.
    pub(super) fn drained(&self, owners: impl IntoIterator<Item = u64>) {
        for owner in owners {
            self.table.cancel(TxnId(owner));
            self.table.release_all(TxnId(owner));
        }
        let stats = self.table.stats();
        assert_eq!((stats.locks, stats.waiting), (0, 0));
        assert!(self.table.owners.is_empty());
    }
}

pub(super) fn is(wait: &Wait, verdict: Verdict) -> bool {
    wait.node.verdict() == Some(verdict)
}

pub(super) fn still(wait: &Wait) -> bool {
    wait.node.verdict().is_none()
}
