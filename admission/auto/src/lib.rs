//! `thread_concurrency = auto`: the limit applies only while it pays.
//!
//! A [`Controller`] receives a [`Sample`] every ten milliseconds or so: the work done since the start, and how many threads run and queue
//! now. It answers with the limit to set: the configured one, or 0 for no limit. It maximises *work done per second* (statements, or rows
//! where the embedder counts them). It is free of I/O, of threads and of clocks: the time comes with every sample, so a simulator drives it
//! as well as a server does.
//!
//! ```
//! use flifo_auto::{Controller, Sample};
//!
//! let mut controller = Controller::new(4);
//! // At each tick of a watchdog.
//! if let Some(limit) = controller.observe(Sample { now_ns: 0, work: 0, running: 16, queued: 0, waiting: 0 }) {
//!     assert_eq!(limit, 0); // set it
//! }
//! ```
//!
//! # The rule
//!
//! | state | limit | left when |
//! |---|---|---|
//! | [`Calm`](State::Calm) | none | on average more than four threads per slot want to run: `Comparing`, limited at first |
//! | [`Comparing`](State::Comparing) | both, in alternating blocks | three to seven pairs of blocks are decided: `Limited` or `Open` |
//! | [`Limited`](State::Limited) | the configured one | a pair contradicts: `Comparing`. One is measured after 8 s, then less often while they agree, and when the rate of work changes |
//! | [`Open`](State::Open) | none | the same |
//!
//! From each state back to `Calm` when for five seconds fewer than two threads per slot want to run. The limit must do 5% more work than
//! no limit does, because no limit has fewer costs in practice than a comparison shows.
//!
//! A crowd that pauses may come back with another load. So the limit is in force in a pause, where it costs nothing. After the pause a pair
//! that begins with the limit checks the arm that was chosen before. Few threads that want to run are not enough for a pause, since of very
//! short statements a sample sees hardly one: little work must be done, too.
//!
//! No limit is not tried at once. The limit doubles in steps, and the first step that does less than 0.7 of the limited work is a collapse
//! (module `block`). It ends the trial, which counts as half of the limited work, so a trial does not bring back the collapse that the limit
//! has ended.
//!
//! # Sources
//!
//! - H.-U. Heiss, R. Wagner, "Adaptive load control in transaction processing systems", VLDB 1991: limits found by measuring throughput.
//! - J. L. Hellerstein, V. Morrison, E. Eilebrecht, "Optimizing concurrency levels in the .NET ThreadPool: a case study of controller
//!   design and implementation", FeBID workshop 2009: a controller must distinguish gain from noise before it moves.

mod block;
mod crowd;
mod pairs;
mod rate;

#[cfg(test)]
mod simulator;
#[cfg(test)]
mod tests;

use self::block::{Block, Progress};
use self::crowd::Crowd;
use self::pairs::{Decision, Pairs};
use self::rate::{Change, Rate};

/// The highest limit: what a scheduler's state word can hold.
pub const LIMIT_MAX: u32 = 1023;

/// A sample that comes later than this many times the time between the two before it, plus a constant, ns, follows a gap: the process
/// was stopped, or its host was. Nothing is known of the time between.
const GAP_FACTOR: u64 = 4;
const GAP_NS: u64 = 100_000_000;
/// Time until the first pair in `Limited` and `Open`, ns. Each pair that agrees doubles it, up to the second.
const PAIR_EVERY_NS: u64 = 8_000_000_000;
const PAIR_EVERY_NS_MAX: u64 = 32_000_000_000;
/// The same while the pairs end in a collapse.
const PAIR_EVERY_NS_MAX_COLLAPSE: u64 = 128_000_000_000;
/// Time until the first pair after a pause, ns.
const PAIR_AFTER_PAUSE_NS: u64 = 2_000_000_000;

/// What a [`Controller`] receives at one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    /// The time since an arbitrary start, ns.
    pub now_ns: u64,
    /// The work done since the start: what is to be as much as possible per second.
    pub work: u64,
    /// Threads running now, with and without a slot.
    pub running: u32,
    /// Threads queued now.
    pub queued: u32,
    /// Threads that wait for a row lock now, without a slot.
    pub waiting: u32,
}

impl Sample {
    /// Threads that were admitted and are not done.
    fn inside(&self) -> u32 {
        self.running.saturating_add(self.waiting)
    }

    /// Threads that want to run. Of a thousand that update one row, one runs and the others wait for it.
    fn demand(&self) -> u32 {
        self.inside().saturating_add(self.queued)
    }
}

/// One of the two settings that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arm {
    Limited,
    Open,
}

impl Arm {
    fn other(self) -> Arm {
        match self {
            Arm::Limited => Arm::Open,
            Arm::Open => Arm::Limited,
        }
    }
}

/// What a [`Controller`] does now; see the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Few threads want to run: no limit.
    Calm,
    /// The limit and no limit are measured in alternating blocks.
    Comparing,
    /// The limit does more work, and is in force.
    Limited,
    /// No limit does as much work, and none is in force.
    Open,
}

/// Decides whether a limit is in force. See the [module](self).
#[derive(Debug)]
pub struct Controller {
    limit: u32,
    last: Option<Sample>,
    /// The time between the last two samples, ns.
    interval_ns: u64,
    crowd: Crowd,
    state: State,
    /// The arm that was chosen last; none until the first comparison is decided.
    held: Option<Arm>,
    /// What is measured now.
    block: Block,
    pairs: Pairs,
    rate: Rate,
    /// The time that has passed without the gaps, and at which of it the next pair begins while `state` is `Limited` or `Open`, ns.
    time_ns: u64,
    pair_at_ns: u64,
    /// The time between two pairs, ns.
    pair_every_ns: u64,
}

impl Controller {
    /// Creates a controller for this limit, which is clamped to 1 to [`LIMIT_MAX`].
    pub fn new(limit: u32) -> Self {
        let limit = limit.clamp(1, LIMIT_MAX);
        Controller {
            limit,
            last: None,
            interval_ns: 0,
            crowd: Crowd::new(limit),
            state: State::Calm,
            held: None,
            block: Block::open(limit),
            pairs: Pairs::default(),
            rate: Rate::default(),
            time_ns: 0,
            pair_at_ns: 0,
            pair_every_ns: PAIR_EVERY_NS,
        }
    }

    /// Returns the limit that should be in force now; 0 = unlimited.
    pub fn limit(&self) -> u32 {
        if self.state == State::Calm { 0 } else { self.block.limit() }
    }

    /// Returns what it does now.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether no limit is in force, and none is about to be measured: statements need no more than to be counted.
    pub fn is_dormant(&self) -> bool {
        matches!(self.state, State::Calm | State::Open) && !self.pairs.is_measuring()
    }

    /// Whether a trial is under way: the limit in force is above the configured one, and rises step by step.
    pub fn is_trying(&self) -> bool {
        self.limit() != 0 && self.limit() != self.limit
    }

    /// Takes a sample. Returns the limit to set when it changes; the first call returns the first limit.
    ///
    /// Call it every ten milliseconds or so; calls that come late or unevenly do no harm. If time or work falls, the measurement in
    /// progress begins anew.
    pub fn observe(&mut self, sample: Sample) -> Option<u32> {
        let before = self.limit();
        let Some(last) = self.last.replace(sample) else { return Some(before) };
        if sample.now_ns < last.now_ns || sample.work < last.work {
            self.block.begin_anew(sample);
            self.rate.forget();
            return None;
        }
        let passed_ns = sample.now_ns - last.now_ns;
        if passed_ns > self.interval_ns.saturating_mul(GAP_FACTOR).saturating_add(GAP_NS) {
            self.block.leave_out(last, sample);
            self.rate.forget();
        } else {
            self.time_ns = self.time_ns.saturating_add(passed_ns);
        }
        self.interval_ns = passed_ns;
        self.crowd.observe(&sample, sample.work - last.work, passed_ns);
        match self.state {
            State::Calm if self.crowd.is_crowded() => self.compare(sample),
            State::Calm => {}
            _ if !self.crowd.is_crowded() => self.calm_down(),
            _ if self.crowd.has_paused() => self.pause(sample),
            _ => self.advance(sample),
        }
        let after = self.limit();
        (after != before).then_some(after)
    }

    fn calm_down(&mut self) {
        *self = Controller { last: self.last, interval_ns: self.interval_ns, ..Controller::new(self.limit) };
    }

    /// Waits for the crowd to come back, with the limit in force.
    fn pause(&mut self, sample: Sample) {
        let Some(held) = self.held else { return self.compare(sample) };
        self.rate = Rate::default();
        self.pair_every_ns = PAIR_EVERY_NS;
        self.hold(held, sample);
        self.pair_at_ns = self.time_ns.saturating_add(PAIR_AFTER_PAUSE_NS);
        if held == Arm::Open {
            // The check begins at once: the limit has to go again.
            self.pairs = Pairs::begin(Arm::Limited);
            self.block.switch(Arm::Limited, sample);
        }
    }

    /// Begins a comparison. The limit is measured first, since it may be a collapse.
    fn compare(&mut self, sample: Sample) {
        self.state = State::Comparing;
        self.held = None;
        self.pairs = Pairs::begin(Arm::Limited);
        self.block.switch(Arm::Limited, sample);
    }

    /// Pairs have spoken for this arm. While they speak for the same one, the next is measured later, up to this time.
    fn choose(&mut self, arm: Arm, pair_every_ns_max: u64, sample: Sample) {
        if self.held == Some(arm) {
            self.pair_every_ns = (2 * self.pair_every_ns).min(pair_every_ns_max);
        } else {
            self.pair_every_ns = PAIR_EVERY_NS;
            self.rate = Rate::default();
        }
        self.hold(arm, sample);
    }

    /// Holds an arm until the next pair.
    fn hold(&mut self, arm: Arm, sample: Sample) {
        self.state = if arm == Arm::Limited { State::Limited } else { State::Open };
        self.held = Some(arm);
        self.pairs = Pairs::default();
        self.pair_at_ns = self.time_ns.saturating_add(self.pair_every_ns);
        self.block.switch(arm, sample);
    }

    fn advance(&mut self, sample: Sample) {
        match self.block.observe(sample) {
            Progress::Running => {}
            Progress::Done(log_rate) if self.pairs.is_measuring() => self.on_measured(log_rate, sample),
            Progress::Done(log_rate) => self.on_held(log_rate, sample),
            Progress::Collapsed => self.on_collapse(sample),
            Progress::Clogged => {
                self.rate = Rate::default();
                self.hold(Arm::Limited, sample);
            }
        }
    }

    /// A block of the arm that is held has ended.
    fn on_held(&mut self, log_rate: f64, sample: Sample) {
        let arm = if self.state == State::Limited { Arm::Limited } else { Arm::Open };
        let change = self.rate.add(arm, log_rate);
        if change == Change::None && self.time_ns < self.pair_at_ns {
            return self.block.restart(sample);
        }
        if change != Change::None {
            self.rate.forget();
        } else if self.pair_every_ns >= PAIR_EVERY_NS_MAX {
            self.rate.narrow();
        }
        // It may be a collapse: the limit first.
        let first = if change == Change::Fell { Arm::Limited } else { arm };
        self.pairs = Pairs::begin(first);
        self.block.switch(first, sample);
    }

    /// A block of a pair has ended.
    fn on_measured(&mut self, log_rate: f64, sample: Sample) {
        match self.pairs.add(log_rate) {
            Decision::Measure(arm) => self.block.switch(arm, sample),
            Decision::Pair(gain) if self.state != State::Comparing => self.on_single_pair(gain, sample),
            Decision::Pair(_) => self.block.switch(self.pairs.next(), sample),
            Decision::Prefer(arm) => self.choose(arm, PAIR_EVERY_NS_MAX, sample),
        }
    }

    /// No limit has done far less than the limit did just before: its block ends early, and counts as half of the limited work.
    fn on_collapse(&mut self, sample: Sample) {
        let decision = self.pairs.add(self.block.collapsed_log_rate());
        // Whatever was to come next: the threads that run in a collapse leave slowly.
        self.pairs.begin_next_with(Arm::Limited);
        match decision {
            Decision::Pair(_) if self.state == State::Limited => {
                self.choose(Arm::Limited, PAIR_EVERY_NS_MAX_COLLAPSE, sample);
            }
            Decision::Prefer(arm) => self.choose(arm, PAIR_EVERY_NS_MAX_COLLAPSE, sample),
            Decision::Pair(_) | Decision::Measure(_) => {
                self.state = State::Comparing;
                self.block.switch(Arm::Limited, sample);
            }
        }
    }

    /// A pair that was measured to check the arm held.
    fn on_single_pair(&mut self, gain: f64, sample: Sample) {
        let arm = pairs::prefers(gain);
        if self.held == Some(arm) {
            return self.choose(arm, PAIR_EVERY_NS_MAX, sample);
        }
        self.state = State::Comparing;
        self.block.switch(self.pairs.next(), sample);
    }
}
