//! Values that tests and models begin with, and that the product never makes.
#![allow(dead_code, reason = "each test and model uses its part")]

#[cfg(feature = "percpu")]
use crate::extra::percpu::Slots;
use crate::gate::queue::Request;
use crate::gate::word::Caller;
use crate::quantum::fairness::{Averages, Charge, Deficit};
use crate::quantum::slice::Slice;

impl Caller {
    /// A newcomer of the normal class.
    pub(crate) const NEWCOMER: Caller = Caller { may_barge: true, first: false };
}

impl Request {
    /// Of the normal class, and without anything special.
    pub(crate) const fn plain() -> Self {
        let charge = Charge { slice_ns: 0, deficit_ns: 0, passed_until_ns: 0 };
        Request { first: false, queued_at_ns: 0, deadline_ns: Self::NEVER, charge }
    }
}

impl Slice {
    /// As if the session were known to come back at once, and had come in through the queue.
    pub(crate) fn begin_back_to_back(&self, now_ns: u64) {
        self.back_to_back.set(true);
        self.begin(now_ns, true);
    }
}

impl Deficit {
    /// As if the last slice had taken this time.
    pub(crate) fn set_used(&self, ns: u64) {
        self.slice_ns.set(ns);
        self.deficit_ns.set(ns);
    }
}

impl Averages {
    pub(crate) fn of(usual_ns: f64, round_ns: f64) -> Self {
        Averages { usual_ns, round_ns, with_deficit: 0 }
    }
}

#[cfg(feature = "percpu")]
impl Slots {
    /// Keeps nothing: every slot multiplies the interleavings, so most models do without.
    pub(crate) fn none() -> Self {
        Slots(Box::new([]))
    }
}
