//! `thread_concurrency = auto`: the adaptive limit.
//!
//! A [`Controller`] receives, every ten milliseconds or so, how much work was done so far on how many slots, how many threads
//! are queued and how many are running, and answers now and then with another limit. It maximises *work done per
//! second* (statements, or rows where the embedder counts them), not admissions. It is free of I/O, of threads
//! and of clocks: the time comes with every call, so a simulator drives it as well as a server does.
//!
//! ```
//! use flifo_auto::{AutoConfig, Controller, Sample};
//!
//! let mut controller = Controller::new(AutoConfig { start: 4, ..AutoConfig::default() }, 1)?;
//! // On every turn of a watchdog.
//! if let Some(limit) = controller.observe(Sample { queued: 100, running: 4, ..Sample::default() }) {
//!     assert_eq!(limit, 4); // tell the scheduler
//! }
//! # Ok::<(), flifo_auto::AutoError>(())
//! ```
//!
//! # How
//!
//! | module | holds |
//! |---|---|
//! | `meter` | one block: let the limit settle, count the work, void when there was no queue |
//! | `trial` | a comparison of two limits in randomised A B B A blocks, and its verdict |
//! | `walsh` | the median of paired log ratios and its confidence interval |
//! | `stays` | how long threads stay on their slots, and for which stays a block waits |
//! | `search` | which limit to compare next: steps that grow while gains repeat and shrink near the top |
//! | `watch` | the change detector that opens the search again |
//!
//! A larger limit must gain, beyond doubt, [`AutoConfig::gain_min`]. A smaller one is also taken when it ties:
//! when it surely loses less than what is left of [`AutoConfig::loss_max`], an account that every such move
//! debits in full and only a proven gain refills. So on a flat curve the limit falls a little and stays.
//!
//! While the queue is empty nothing moves: the load bounds the work then, not the limit.
//!
//! # Sources
//!
//! - H.-U. Heiss, R. Wagner, "Adaptive load control in transaction processing systems", VLDB 1991: an adaptive
//!   bound on concurrency by incremental steps or a fitted parabola.
//! - J. L. Hellerstein, V. Morrison, E. Eilebrecht, "Optimizing concurrency levels in the .NET ThreadPool: a
//!   case study of controller design and implementation", FeBID workshop 2009: hill climbing that tells
//!   gain from noise by a test before it moves.
//! - M. Abouzour, K. Salem, P. Bumbulis, "Automatic tuning of the multiprogramming level in Sybase SQL
//!   Anywhere", 2010: why either of the two above is not enough alone.
//! - N. J. Gunther, "Guerrilla Capacity Planning", 2007: the Universal Scalability Law, on which it is tested.
//! - Those of the statistics stand in the modules.

mod meter;
mod search;
mod stays;
mod trial;
mod walsh;
mod watch;

#[cfg(test)]
mod simulator;
#[cfg(test)]
mod tests;

pub use self::meter::Sample;
use self::meter::{Block, Meter, Reading};
use self::search::Search;
use self::stays::Recent;
pub use self::stays::Stays;
use self::trial::{Next, Terms, Trial, Verdict};
use self::watch::Watch;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};
use std::time::Duration;

/// The highest limit: what a scheduler's state word can hold.
pub const LIMIT_MAX: u32 = 1023;

/// The shortest settle time after a change of the limit, and the longest.
const SETTLE_NS_MIN: u64 = 5_000_000;
const SETTLE_NS_MAX: u64 = 10_000_000_000;
/// Settling time, as a multiple of the time that a thread stays running, if all stay for about as long.
const SETTLE_STAYS: f64 = 1.5;
/// Slots taken that a first block should hold.
const BLOCK_SLOTS: f64 = 64.0;
/// The length of a block while the limit is held.
const HOLD_BLOCK_NS: u64 = 250_000_000;
/// Time in its blocks, ns, and slots taken, after which an undecided comparison of the search ends, at the widest
/// step; at half the step after twice of both. A wide step that ties has a top in between: go and
/// look there. A small undecided step costs little.
const SEARCH_NS: u64 = 2_000_000_000;
const SEARCH_SLOTS: f64 = 500.0;
/// A probe of a settled limit is given more: when it does not tell, its two limits do nearly the same work.
const PROBE_NS: u64 = 60_000_000_000;
const PROBE_SLOTS: f64 = 20_000.0;

/// How a [`Controller`] searches. `AutoConfig::default()` suits most.
#[derive(Debug, Clone, PartialEq)]
pub struct AutoConfig {
    /// The smallest limit, at least 1.
    pub floor: u32,
    /// The largest limit: [`LIMIT_MAX`] unless set, beyond which a scheduler takes none.
    pub ceiling: u32,
    /// The limit to begin with.
    pub start: u32,
    /// The gain in work per second that a move must bring, as a share: 0.01 is 1 %.
    pub gain_min: f64,
    /// What moves to smaller limits may lose in all without a proven gain, as a share. 0 forbids them.
    pub loss_max: f64,
    /// The shortest block of a comparison.
    pub block_min: Duration,
    /// The longest block of a comparison. Blocks are longer only where a thread stays running for longer.
    pub block_max: Duration,
    /// Time after which a settled limit is probed; each probe that finds nothing makes that half as long again.
    pub probe_after: Duration,
    /// The longest time between two probes.
    pub probe_after_max: Duration,
    /// The longest time in the blocks of a comparison that does not tell, if the search would not end it sooner; but six or eight
    /// times four blocks at least.
    pub patience: Duration,
}

impl Default for AutoConfig {
    fn default() -> Self {
        AutoConfig {
            floor: 1,
            ceiling: LIMIT_MAX,
            start: 8,
            gain_min: 0.01,
            loss_max: 0.01,
            block_min: Duration::from_millis(20),
            block_max: Duration::from_secs(1),
            probe_after: Duration::from_secs(3),
            probe_after_max: Duration::from_secs(30),
            patience: Duration::MAX,
        }
    }
}

impl AutoConfig {
    /// Says whether the values are possible; [`Controller::new`] asks this too.
    ///
    /// # Errors
    /// The first value that cannot be.
    pub fn check(&self) -> Result<(), AutoError> {
        if self.floor == 0 || self.ceiling < self.floor {
            return Err(AutoError::Range(self.floor, self.ceiling));
        }
        if !(self.floor..=self.ceiling).contains(&self.start) {
            return Err(AutoError::Start(self.start, self.floor, self.ceiling));
        }
        for (name, share) in [("gain_min", self.gain_min), ("loss_max", self.loss_max)] {
            if !(0.0..=0.5).contains(&share) {
                return Err(AutoError::Share(name, share));
            }
        }
        if self.block_min.is_zero() || self.block_max < self.block_min {
            return Err(AutoError::Times("block_min", "block_max"));
        }
        if self.probe_after.is_zero() || self.probe_after_max < self.probe_after {
            return Err(AutoError::Times("probe_after", "probe_after_max"));
        }
        Ok(())
    }
}

/// An [`AutoConfig`] that cannot be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AutoError {
    /// No limit lies between floor and ceiling.
    #[error("floor {0} and ceiling {1}: the floor must be at least 1 and not above the ceiling")]
    Range(u32, u32),
    /// The first limit lies outside of them.
    #[error("start {0} must lie between floor {1} and ceiling {2}")]
    Start(u32, u32, u32),
    /// Not a share that makes sense.
    #[error("{0} {1} must lie between 0 and 0.5")]
    Share(&'static str, f64),
    /// Two times of which the first must be the shorter.
    #[error("{0} must be longer than zero and not longer than {1}")]
    Times(&'static str, &'static str),
}

/// Finds the limit at which most work is done per second. See the [module](self).
#[derive(Debug)]
pub struct Controller {
    config: AutoConfig,
    random: SplitMix64,
    /// The limit that is in force: the held one, or a challenger for the time of a block.
    limit: u32,
    held: u32,
    last: Option<Sample>,
    meter: Meter,
    trial: Option<Trial>,
    search: Search,
    watch: Watch,
    /// The last valid block at the held limit.
    block: Option<Block>,
    /// How long threads stayed of late.
    stays: Recent,
    /// Time held with a queue since the last comparison.
    rested_ns: u64,
    probe_after_ns: u64,
}

impl Controller {
    /// A controller that begins at `config.start`. `seed` orders the blocks of its comparisons: the same seed
    /// and the same observations give the same answers.
    ///
    /// # Errors
    /// A `config` that cannot be.
    pub fn new(config: AutoConfig, seed: u64) -> Result<Self, AutoError> {
        config.check()?;
        let (limit, probe_after_ns) = (config.start, nanoseconds(config.probe_after));
        Ok(Controller {
            random: SplitMix64::seed_from_u64(seed),
            limit,
            held: limit,
            last: None,
            meter: Meter::new(Sample::default(), 0, 0, true),
            trial: None,
            search: Search::new(),
            watch: Watch::default(),
            block: None,
            stays: Recent::new(),
            rested_ns: 0,
            probe_after_ns,
            config,
        })
    }

    /// The limit that should be in force now.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Whether it needs no sample until somebody queues: the queue was empty at the last one, and no larger limit is on trial, which may
    /// be why.
    pub fn may_rest(&self) -> bool {
        self.limit <= self.held && self.last.is_some_and(|last| last.queued == 0)
    }

    /// Whether the search is over. A settled limit is still watched, and probed now and then.
    pub fn is_settled(&self) -> bool {
        self.search.is_settled()
    }

    /// Tells what is. Returns the limit to set when it changes; the first call returns the first limit.
    ///
    /// Call it every ten milliseconds or so; calls that come late or unevenly do no harm. Time and work only
    /// ever grow: where one of them falls, the block in progress is measured anew.
    pub fn observe(&mut self, sample: Sample) -> Option<u32> {
        let Some(last) = self.last.replace(sample) else {
            self.measure(sample, true);
            return Some(self.limit);
        };
        if sample.now_ns < last.now_ns || sample.work < last.work || sample.slots < last.slots {
            self.measure(sample, true);
            return None;
        }
        self.stays.add(&sample, &last);
        let next = match self.meter.observe(sample, last) {
            Reading::Running => return None,
            Reading::Void => self.freeze(),
            Reading::Done(block) => self.take(block),
        };
        let changed = next != self.limit;
        self.limit = next;
        self.measure(sample, changed);
        changed.then_some(next)
    }

    /// The queue ran empty: back to the held limit, and no comparison goes on before a block there is valid.
    fn freeze(&mut self) -> u32 {
        self.block = None;
        let coin = self.coin();
        if let Some(trial) = &mut self.trial {
            trial.restart_quad(coin);
        }
        self.held
    }

    /// Takes a valid block; returns the limit to measure next.
    fn take(&mut self, block: Block) -> u32 {
        let resumes = self.block.is_none();
        if self.limit == self.held {
            self.block = Some(block);
        }
        let close = self.trial.as_ref().is_some_and(Trial::is_close);
        if (self.limit == self.held || close) && self.watch.add(&block) {
            self.watch.reset();
            self.trial = None;
            self.probe_after_ns = nanoseconds(self.config.probe_after);
            let up = self.coin();
            self.search.reopen(up);
        }
        let coin = self.coin();
        match &mut self.trial {
            // The block that ended the freeze began it before the trial went on; it counts for nothing else.
            Some(trial) if resumes => trial.limit(),
            Some(trial) => match trial.record(&block, coin) {
                Next::Limit(limit) => limit,
                Next::Verdict(verdict) => self.conclude(verdict),
            },
            None => {
                self.rested_ns = self.rested_ns.saturating_add(block.span_ns);
                self.look_around()
            }
        }
    }

    /// A trial is over.
    fn conclude(&mut self, verdict: Verdict) -> u32 {
        let Some(trial) = self.trial.take() else { return self.held };
        let was_probe = !self.search.is_searching();
        if self.search.judge(trial.challenger, verdict) {
            self.held = trial.challenger;
            self.watch.reset();
        }
        self.rested_ns = 0;
        self.probe_after_ns = if self.search.is_searching() {
            nanoseconds(self.config.probe_after)
        } else if was_probe {
            (self.probe_after_ns / 2 * 3).min(nanoseconds(self.config.probe_after_max))
        } else {
            self.probe_after_ns
        };
        if self.search.is_settled() { self.held } else { self.look_around() }
    }

    /// Begins the next comparison if there is one to make; returns the limit to measure next.
    fn look_around(&mut self) -> u32 {
        if self.search.is_settled() && self.rested_ns >= self.probe_after_ns {
            let coin = self.coin();
            self.search.probe(coin);
            self.rested_ns = 0;
        }
        let Some(block) = self.block else { return self.held };
        // More slots than threads are never of use.
        let ceiling = self.config.ceiling.min(block.demand.ceil() as u32).max(self.held);
        let Some(challenger) = self.search.challenger(self.held, self.config.floor, ceiling) else {
            return self.held;
        };
        let (time_ns, slots) = if self.search.is_searching() {
            let halvings = self.search.halvings();
            (SEARCH_NS << halvings, SEARCH_SLOTS * f64::from(1 << halvings))
        } else {
            (PROBE_NS, PROBE_SLOTS)
        };
        let terms = Terms {
            gain_min: self.config.gain_min.ln_1p(),
            loss_max: -(-self.config.loss_max).ln_1p() - self.search.given_away,
            block_ns: self.block_ns(&block),
            patience_ns: time_ns
                .max((slots / block.slots_rate()) as u64)
                .min(nanoseconds(self.config.patience)),
        };
        let trial = Trial::new(self.held, challenger, terms, self.coin());
        let limit = trial.limit();
        self.trial = Some(trial);
        limit
    }

    /// Starts the meter on the limit in force.
    fn measure(&mut self, now: Sample, changed: bool) {
        let length_ns = match (&self.trial, self.block) {
            (Some(trial), Some(_)) => trial.block_ns(),
            // The first block of all, or the first after a freeze: just long enough to know the rate.
            (_, None) => nanoseconds(self.config.block_min),
            (None, Some(_)) => HOLD_BLOCK_NS,
        };
        let settle_ns = if changed { self.settle_ns() } else { 0 };
        self.meter = Meter::new(now, settle_ns, length_ns, self.limit <= self.held);
    }

    /// How long the effect of a change takes: threads running at the old limit must have left, those that
    /// stay for long, too.
    fn settle_ns(&self) -> u64 {
        let stay_ns = self.block.map_or(0.0, |block| block.stay_ns());
        let stays = self.stays.long().unwrap_or(SETTLE_STAYS);
        ((stay_ns * stays) as u64).clamp(SETTLE_NS_MIN, SETTLE_NS_MAX)
    }

    /// The first length of a comparison's blocks: enough to count, and not shorter than the settle time.
    fn block_ns(&self, block: &Block) -> u64 {
        let (least, most) = (nanoseconds(self.config.block_min), nanoseconds(self.config.block_max));
        let counted_ns = (BLOCK_SLOTS / block.slots_rate()) as u64;
        counted_ns.clamp(least, most).max(self.settle_ns())
    }

    fn coin(&mut self) -> bool {
        self.random.next_u64() >> 63 == 1
    }
}

/// Whole nanoseconds; what does not fit is as good as forever.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
