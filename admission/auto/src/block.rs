//! One block: put an arm in force, wait until its effect is complete, count the work, and watch for a collapse.
//!
//! Each arm has its way to come into force:
//!
//! | arm | comes into force | complete when |
//! |---|---|---|
//! | limited | at once | as many run as may, or their number falls no longer |
//! | open | the limit doubles step by step | no limit is left, and a last step has passed; at once if no limit was in force |
//!
//! A step lasts until the limited arm would do two hundred units of work, or ten for each thread that the step admits if that is more. Those
//! threads do one unit each whatever comes after, so that many units are left out. If a step does less than 0.7 of the limited work, it is
//! repeated for longer, since the host may have paused. If the repetition does no more, it is a collapse, and the block ends. A step that
//! does less than 0.2 is a collapse at once. Threads that run in a collapse leave slowly, so the steps are small.

use super::{Arm, LIMIT_MAX, Sample};

/// A step of the opening, ns, the units of work that it should hold, and those for each thread that it admits.
const STEP_NS_MIN: u64 = 30_000_000;
const STEP_NS_MAX: u64 = 250_000_000;
const STEP_WORK: f64 = 200.0;
const STEP_WORK_EACH: f64 = 10.0;
/// A step is repeated for this many times as long.
const REPEAT_FACTOR: u64 = 3;
/// By how much each step multiplies the limit.
const STEP_FACTOR: u32 = 2;
/// The share of the limited work below which it is a collapse.
const COLLAPSE: f64 = 0.7;
/// The same for a step that is not repeated.
const CLEAR_COLLAPSE: f64 = 0.2;
/// The time after which a count without a limit may end as a collapse, ns.
const COLLAPSE_NS: u64 = 200_000_000;
/// A count of fewer units says nothing.
const WORK_MIN: f64 = 30.0;
/// The count of a block, ns, and the units of work that it should hold.
const COUNT_NS_MIN: u64 = 100_000_000;
const COUNT_NS_MAX: u64 = 1_000_000_000;
const COUNT_WORK: f64 = 1000.0;
/// The shortest time until an arm is in full effect, ns.
const SETTLE_NS: u64 = 30_000_000;
/// The number of threads inside falls no longer if it fell by less than this share in this time, ns.
const DRAIN: f64 = 0.02;
const DRAIN_NS: u64 = 1_000_000_000;
/// Threads inside per slot at which a limit is in full effect.
const DRAINED: u32 = 2;

pub(super) enum Progress {
    /// The block is not over.
    Running,
    /// The natural logarithm of the work per ns.
    Done(f64),
    /// No limit does far less work: an opening has ended.
    Collapsed,
    /// With the limit hardly anything is done, and more run than it admits: a collapse that the limit has not ended yet.
    Clogged,
}

/// Where a block is.
#[derive(Debug)]
enum Phase {
    /// The limit has been raised, or lifted.
    Opening(Step),
    /// The limit is in force, but more may run: when their number was last seen to fall.
    Draining(Sample),
    /// The work is counted: since when.
    Counting(Sample),
}

/// A step of an opening.
#[derive(Debug, Clone, Copy)]
struct Step {
    since: Sample,
    /// The limit in force; 0 = unlimited.
    limit: u32,
    /// Threads that the step admits.
    admits: u32,
    /// Whether it is the repetition of a step that did too little.
    repeats: bool,
}

#[derive(Debug)]
pub(super) struct Block {
    slots: u32,
    arm: Arm,
    phase: Phase,
    /// Whether no limit came into force step by step in this block, so that a collapse ends it.
    opens: bool,
    /// Work per ns of the last block with the limit; 0 if it is not known.
    limited_rate: f64,
}

impl Block {
    /// A block without a limit, whose count begins at once.
    pub(super) fn open(slots: u32) -> Self {
        let begin = Sample::default();
        Block { slots, arm: Arm::Open, phase: Phase::Counting(begin), opens: false, limited_rate: 0.0 }
    }

    /// The limit in force; 0 = unlimited.
    pub(super) fn limit(&self) -> u32 {
        match (self.arm, &self.phase) {
            (Arm::Limited, _) => self.slots,
            (Arm::Open, Phase::Opening(step)) => step.limit,
            (Arm::Open, _) => 0,
        }
    }

    /// Begins a block of this arm, which comes into force unless it is.
    pub(super) fn switch(&mut self, arm: Arm, now: Sample) {
        self.opens = arm == Arm::Open && self.arm == Arm::Limited;
        self.arm = arm;
        self.phase = match arm {
            Arm::Limited => Phase::Draining(now),
            Arm::Open if self.opens => Phase::Opening(Self::next_step(now, self.slots)),
            Arm::Open => Phase::Counting(now),
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
        match &mut self.phase {
            Phase::Opening(step) => &mut step.since,
            Phase::Draining(since) | Phase::Counting(since) => since,
        }
    }

    /// The work that a collapse counts as: the natural logarithm of the work per ns.
    pub(super) fn collapsed_log_rate(&self) -> f64 {
        (self.limited_rate / 2.0).ln()
    }

    /// Takes a sample.
    pub(super) fn observe(&mut self, now: Sample) -> Progress {
        match self.phase {
            Phase::Opening(step) => return self.open_further(step, now),
            Phase::Draining(since) => self.drain(since, now),
            Phase::Counting(since) => return self.count(since, now),
        }
        Progress::Running
    }

    fn open_further(&mut self, step: Step, now: Sample) -> Progress {
        if now.now_ns - step.since.now_ns < self.step_ns(step) {
            return Progress::Running;
        }
        let share = self.share_of_limited(step.since, step.admits, now);
        let is_collapse = share < COLLAPSE;
        if is_collapse && step.repeats || share < CLEAR_COLLAPSE {
            return Progress::Collapsed;
        }
        self.phase = match step.limit {
            limit if is_collapse => Phase::Opening(Step { since: now, limit, admits: 0, repeats: true }),
            0 => Phase::Counting(now),
            limit => Phase::Opening(Self::next_step(now, limit)),
        };
        Progress::Running
    }

    /// The step after the one with this limit.
    fn next_step(now: Sample, limit: u32) -> Step {
        let next = limit.saturating_mul(STEP_FACTOR);
        let (limit, admits) =
            if next > LIMIT_MAX || next >= now.demand() { (0, now.queued) } else { (next, next - limit) };
        Step { since: now, limit, admits, repeats: false }
    }

    fn drain(&mut self, since: Sample, now: Sample) {
        let passed_ns = now.now_ns - since.now_ns;
        if self.is_drained(now) && passed_ns >= SETTLE_NS || passed_ns >= DRAIN_NS {
            self.restart(now);
        } else if f64::from(now.inside()) < (1.0 - DRAIN) * f64::from(since.inside()) {
            self.phase = Phase::Draining(now);
        }
    }

    fn is_drained(&self, now: Sample) -> bool {
        now.inside() <= DRAINED * self.slots
    }

    fn count(&mut self, since: Sample, now: Sample) -> Progress {
        let (work, span_ns) = ((now.work - since.work) as f64, now.now_ns - since.now_ns);
        if self.opens && span_ns >= COLLAPSE_NS && self.share_of_limited(since, 0, now) < COLLAPSE {
            return Progress::Collapsed;
        }
        let is_enough = span_ns >= COUNT_NS_MIN && work >= COUNT_WORK || span_ns >= COUNT_NS_MAX;
        if !is_enough {
            return Progress::Running;
        }
        let mut rate = work.max(WORK_MIN) / span_ns as f64;
        match self.arm {
            Arm::Limited if work < WORK_MIN && !self.is_drained(now) => return Progress::Clogged,
            Arm::Limited => self.limited_rate = rate,
            // It may be a collapse.
            Arm::Open if work < WORK_MIN => rate /= 2.0,
            Arm::Open => {}
        }
        Progress::Done(rate.ln())
    }

    fn step_ns(&self, step: Step) -> u64 {
        let units = STEP_WORK.max(STEP_WORK_EACH * f64::from(step.admits));
        // At least long enough for a collapse to show.
        let ns_max = (STEP_NS_MAX as f64).max(WORK_MIN / self.limited_rate).min(COUNT_NS_MAX as f64);
        let ns = ((units / self.limited_rate).min(ns_max) as u64).max(STEP_NS_MIN);
        if step.repeats { REPEAT_FACTOR * ns } else { ns }
    }

    /// The work done since then as a share of the limited work; 1 if too little was expected to tell. The threads that were admitted did a
    /// unit each.
    fn share_of_limited(&self, since: Sample, admitted: u32, now: Sample) -> f64 {
        let expected = self.limited_rate * (now.now_ns - since.now_ns) as f64;
        let done = (now.work - since.work) as f64 - f64::from(admitted).min(expected / STEP_WORK_EACH);
        if expected >= WORK_MIN { done / expected } else { 1.0 }
    }
}
