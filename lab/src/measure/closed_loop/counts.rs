//! What users count in a window, in all and for each transaction.

use histogram::Histogram;

use super::End;
use crate::measure::frontend::{LATENCY_NS_MAX, Window, WindowCounters};

/// Buckets of a kind's histogram at most 1/32 wide, relative to their value: each user has one for each kind.
const GROUPING_POWER: u8 = 5;
const MAX_VALUE_POWER: u8 = 40;
const _: () = assert!(LATENCY_NS_MAX < 1 << MAX_VALUE_POWER);

/// Counters of one window.
#[derive(Debug, Clone)]
pub struct Counts {
    /// All transactions together.
    pub all: WindowCounters,
    /// Each kind of transaction, in the workload's order.
    pub kinds: Vec<KindCounts>,
    /// The changes of all committed transactions, including those outside the window.
    pub account: Account,
}

/// What acknowledged transactions have added: in DBT-2 orders, and money paid.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    /// Orders.
    pub orders: i64,
    /// Paid, cents.
    pub paid_cents: i64,
}

impl Account {
    /// With another's changes.
    pub fn plus(self, more: Account) -> Account {
        Account { orders: self.orders + more.orders, paid_cents: self.paid_cents + more.paid_cents }
    }

    /// What of it another account lacks.
    pub(crate) fn minus(self, less: Account) -> Account {
        Account { orders: self.orders - less.orders, paid_cents: self.paid_cents - less.paid_cents }
    }
}

/// Counters of one kind of transaction.
#[derive(Debug, Clone)]
pub struct KindCounts {
    /// Committed inside the window.
    pub committed: u64,
    /// Rolled back because of their input.
    pub rolled_back: u64,
    /// Times that one ran again after a deadlock, a timeout or a conflict.
    pub retries: u64,
    /// Response times, retries included.
    pub latency_ns: Histogram,
    /// The longest.
    pub latency_ns_max: u64,
}

impl KindCounts {
    /// Committed, or rolled back because of the input.
    pub fn ended(&self) -> u64 {
        self.committed + self.rolled_back
    }

    /// A quantile (0..=1) of the response time, ms; `None` if nothing was counted.
    pub fn latency_ms(&self, quantile: f64) -> Option<f64> {
        let bucket = self.latency_ns.quantile_bucket(quantile).ok().flatten()?;
        let middle = bucket.start() + (bucket.end() - bucket.start()) / 2;
        Some(middle.min(self.latency_ns_max) as f64 / 1e6)
    }
}

impl Counts {
    /// Zero counters, for that many users and kinds.
    pub(crate) fn new(users: usize, kinds: usize) -> Self {
        let all = WindowCounters::new(users);
        let kind = KindCounts {
            committed: 0,
            rolled_back: 0,
            retries: 0,
            latency_ns: Histogram::new(GROUPING_POWER, MAX_VALUE_POWER)
                .expect("constants that fit each other"),
            latency_ns_max: 0,
        };
        Counts { all, kinds: vec![kind; kinds], account: Account::default() }
    }

    /// Counts a transaction that began at `begun_ns` and ended at `now_ns` after that many statements and retries.
    pub(crate) fn ended(
        &mut self,
        window: &Window,
        now_ns: u64,
        (kind, end): (usize, End),
        (begun_ns, statements, retries): (u64, u64, u64),
    ) {
        if !(window.start_ns()..window.end_ns()).contains(&now_ns) {
            return;
        }
        self.all.transaction(window, now_ns, 0, (begun_ns, statements));
        let counts = &mut self.kinds[kind];
        match end {
            End::Committed => counts.committed += 1,
            End::RolledBack => counts.rolled_back += 1,
        }
        counts.retries += retries;
        let latency_ns = now_ns - begun_ns;
        counts.latency_ns_max = counts.latency_ns_max.max(latency_ns);
        // Fails only beyond the histogram's range, which the line keeps it from.
        let _ = counts.latency_ns.increment(latency_ns.min(LATENCY_NS_MAX));
    }

    /// Adds other users' counters.
    pub(crate) fn add(&mut self, other: Counts) {
        self.all.add(other.all);
        self.account = self.account.plus(other.account);
        for (sum, more) in self.kinds.iter_mut().zip(other.kinds) {
            sum.committed += more.committed;
            sum.rolled_back += more.rolled_back;
            sum.retries += more.retries;
            sum.latency_ns_max = sum.latency_ns_max.max(more.latency_ns_max);
            sum.latency_ns =
                sum.latency_ns.wrapping_add(&more.latency_ns).expect("all counters have one histogram shape");
        }
    }
}
