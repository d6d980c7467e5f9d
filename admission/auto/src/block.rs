//! One block: put an arm in force, wait until its effect is complete, count the work, and watch for a collapse.
//!
//! Each arm has its way to come into force:
//!
//! | arm | comes into force | complete when |
//! |---|---|---|
//! | limited | at once | as many run as may, or their number falls no longer |
//! | open | the limit quadruples step by step | no limit is left, and 30 ms have passed |
//!
//! Each step lasts until the limited arm would do a hundred units of work, from 10 to 100 ms. If an open arm under measurement does less
//! than 0.7 of that, it is a collapse: the block ends, and counts as half of the limited arm's work.

use super::{Arm, LIMIT_MAX, Sample};

/// A step of the opening, ns, and the units of work that it should hold.
const STEP_NS_MIN: u64 = 10_000_000;
const STEP_NS_MAX: u64 = 100_000_000;
const STEP_WORK: f64 = 100.0;
/// By how much each step multiplies the limit.
const STEP_FACTOR: u32 = 4;
/// The share of the limited work below which it is a collapse.
const COLLAPSE: f64 = 0.7;
/// A count of fewer units says nothing. It may be a collapse that the limit has not ended yet, so the open arm counts as collapsed.
const WORK_MIN: f64 = 30.0;
/// The count of a block, ns, and the units of work that it should hold.
const COUNT_NS_MIN: u64 = 100_000_000;
const COUNT_NS_MAX: u64 = 1_000_000_000;
const COUNT_WORK: f64 = 1000.0;
/// The shortest time until an arm is in full effect, ns.
const SETTLE_NS: u64 = 30_000_000;
/// The number of running threads falls no longer if it fell by less than this share in this time, ns.
const DRAIN: f64 = 0.02;
const DRAIN_NS: u64 = 1_000_000_000;
/// Running threads per slot at which a limit is in full effect.
const DRAINED: u32 = 2;

pub(super) enum Progress {
    /// The block is not over.
    Running,
    /// The natural logarithm of the work per ns.
    Done(f64),
}

/// Where a block is.
#[derive(Debug)]
enum Phase {
    /// The limit has been raised: when, and to what.
    Opening(Sample, u32),
    /// No limit is left: since when.
    Settling(Sample),
    /// The limit is in force, but more may run: when their number was last seen to fall.
    Draining(Sample),
    /// The work is counted: since when.
    Counting(Sample),
}

#[derive(Debug)]
pub(super) struct Block {
    slots: u32,
    arm: Arm,
    phase: Phase,
    /// Work per ns of the last block with the limit; 0 if it is not known.
    limited_rate: f64,
}

impl Block {
    /// A block without a limit, whose count begins at once.
    pub(super) fn open(slots: u32) -> Self {
        let begin = Sample::default();
        Block { slots, arm: Arm::Open, phase: Phase::Counting(begin), limited_rate: 0.0 }
    }

    /// The limit in force; 0 = unlimited.
    pub(super) fn limit(&self) -> u32 {
        match (self.arm, &self.phase) {
            (Arm::Limited, _) => self.slots,
            (Arm::Open, Phase::Opening(_, limit)) => *limit,
            (Arm::Open, _) => 0,
        }
    }

    /// Begins a block of this arm, which comes into force unless it is.
    pub(super) fn switch(&mut self, arm: Arm, now: Sample) {
        let opens = arm == Arm::Open && self.arm == Arm::Limited;
        self.arm = arm;
        self.phase = match arm {
            Arm::Limited => Phase::Draining(now),
            Arm::Open if opens => self.opened(now, self.slots),
            Arm::Open => Phase::Settling(now),
        };
    }

    /// Begins the count anew.
    pub(super) fn restart(&mut self, now: Sample) {
        self.phase = Phase::Counting(now);
    }

    /// Begins the phase under way anew: time or work has fallen.
    pub(super) fn begin_anew(&mut self, now: Sample) {
        *self.since_mut() = now;
    }

    /// Leaves out what lies between two samples: the process may have stood still.
    pub(super) fn leave_out(&mut self, from: Sample, to: Sample) {
        let since = self.since_mut();
        since.now_ns = since.now_ns.saturating_add(to.now_ns - from.now_ns).min(to.now_ns);
        since.work = since.work.saturating_add(to.work - from.work).min(to.work);
    }

    fn since_mut(&mut self) -> &mut Sample {
        let (Phase::Opening(since, _)
        | Phase::Settling(since)
        | Phase::Draining(since)
        | Phase::Counting(since)) = &mut self.phase;
        since
    }

    /// Takes a sample; `is_measured`: the block belongs to a pair, so a collapse ends it.
    pub(super) fn observe(&mut self, now: Sample, is_measured: bool) -> Progress {
        let (Phase::Opening(since, _)
        | Phase::Settling(since)
        | Phase::Draining(since)
        | Phase::Counting(since)) = self.phase;
        let passed_ns = now.now_ns - since.now_ns;
        let is_step_over = passed_ns >= self.step_ns();
        if is_measured && self.arm == Arm::Open && is_step_over && self.is_collapse(since, now) {
            return Progress::Done((self.limited_rate / 2.0).ln());
        }
        match self.phase {
            Phase::Opening(_, limit) if is_step_over => self.phase = self.opened(now, limit),
            Phase::Settling(_) if is_step_over && passed_ns >= SETTLE_NS => self.restart(now),
            Phase::Draining(_) => self.drain(since, now),
            Phase::Counting(_) => return self.count(since, now),
            Phase::Opening(..) | Phase::Settling(_) => {}
        }
        Progress::Running
    }

    /// The phase after `limit` has been in force for a step.
    fn opened(&self, now: Sample, limit: u32) -> Phase {
        let next = limit.saturating_mul(STEP_FACTOR);
        if next > LIMIT_MAX || next >= now.demand() {
            Phase::Settling(now)
        } else {
            Phase::Opening(now, next)
        }
    }

    fn drain(&mut self, since: Sample, now: Sample) {
        let passed_ns = now.now_ns - since.now_ns;
        let is_drained = now.running <= DRAINED * self.slots && passed_ns >= SETTLE_NS;
        if is_drained || passed_ns >= DRAIN_NS {
            self.restart(now);
        } else if f64::from(now.running) < (1.0 - DRAIN) * f64::from(since.running) {
            self.phase = Phase::Draining(now);
        }
    }

    fn count(&mut self, since: Sample, now: Sample) -> Progress {
        let (work, span_ns) = ((now.work - since.work) as f64, now.now_ns - since.now_ns);
        let is_enough = span_ns >= COUNT_NS_MIN && work >= COUNT_WORK || span_ns >= COUNT_NS_MAX;
        if !is_enough {
            return Progress::Running;
        }
        let mut rate = work.max(WORK_MIN) / span_ns as f64;
        match self.arm {
            Arm::Limited => self.limited_rate = rate,
            Arm::Open if work < WORK_MIN => rate /= 2.0,
            Arm::Open => {}
        }
        Progress::Done(rate.ln())
    }

    fn step_ns(&self) -> u64 {
        ((STEP_WORK / self.limited_rate) as u64).clamp(STEP_NS_MIN, STEP_NS_MAX)
    }

    fn is_collapse(&self, since: Sample, now: Sample) -> bool {
        let expected = self.limited_rate * (now.now_ns - since.now_ns) as f64;
        expected >= WORK_MIN && ((now.work - since.work) as f64) < COLLAPSE * expected
    }
}
