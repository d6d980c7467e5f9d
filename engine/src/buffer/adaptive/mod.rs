//! Adaptive flushing: how far the page cleaners write.
//!
//! A [`Controller`] receives a [`Sample`] every [`TICK_MS`] milliseconds and answers with a [`Plan`]: pages that became
//! dirty before the plan's *target* LSN are to be written now. The controller is free of I/O, threads and clocks: the
//! time comes with the sample, so a simulator drives the same code as the engine does.
//!
//! # The rule
//! The *age* is the share of the log's capacity that recovery would read. Pages are written at the rate that keeps the
//! age at [`SETPOINT`]:
//!
//! ```text
//! pages per second = redo per second * pages per byte of redo     feed-forward, from the ages of all dirty pages
//!                  * (1 + GAIN * (age - SETPOINT) + trim)         proportional and integral
//!                  + pages that are late / DRAIN_S                also without new redo
//! ```
//!
//! Pages per byte of redo is the even rate at which all pages can be written before they are late
//! ([`Ages::pages_per_byte`]). So a crowd of pages of one age, such as the hot pages after a checkpoint, is spread over
//! the whole age instead of being written at its end. Gains are relative to the redo rate: a log of any size, at any
//! load, approaches the setpoint in the same number of its own capacities. The checkpoint trails the oldest change; the
//! mean distance counts as age.
//!
//! # Bounds
//! Per second, at most `io_capacity_max` pages are written, and at most what the cleaners achieve at the measured
//! latency of their batches. While a bound applies, the integral stands still. The age then rises, and the back-pressure
//! at admission takes over ([`crate::redo`]). Above [`URGENT`] `io_capacity_max` no longer applies: a full log stops all
//! writers.
//!
//! # Idle
//! If no redo was written for a second, `io_capacity` pages per second are written, whatever their age
//! ([`Phase::Background`]).

#[cfg(all(test, not(miri)))]
mod simulator;
#[cfg(all(test, not(miri)))]
mod tests;

use super::ages::Ages;
use super::batch::BATCH_PAGES;
use crate::page::Lsn;

/// The time between two samples, milliseconds.
pub(super) const TICK_MS: u64 = 50;
/// The age at which the controller keeps the log.
pub(super) const SETPOINT: f64 = 0.7;
/// Above this age `io_capacity_max` does not bound the writes.
pub(super) const URGENT: f64 = 0.95;
/// The rate grows by this share for each capacity that the age is above the setpoint.
const GAIN: f64 = 0.5;
/// How fast the integral grows: per capacity of redo and per unit of age.
const INTEGRAL_GAIN: f64 = 1.0;
/// The integral is at most this share of the rate.
const TRIM_MAX: f64 = 0.5;
/// The integral stands still further from the setpoint.
const TRIM_WITHIN: f64 = 0.15;
/// Late pages are written within this share of the capacity of new redo.
const LATE_SHARE: f64 = 0.125;
/// Late pages are written with this time constant also without new redo, seconds.
const DRAIN_S: f64 = 2.0;
/// Weight of the newest sample in the redo rate while the rate rises.
const RISE: f64 = 0.5;
/// Time constant of falling rates and of other averages, seconds.
const AVERAGE_S: f64 = 1.0;
/// Without redo for this long, the database is idle, seconds.
const IDLE_AFTER_S: f64 = 1.0;
/// The pages of this time may be written in one burst, seconds.
const BURST_S: f64 = 0.1;
/// The cleaners may be granted this much more than they achieved, so that a faster device is noticed.
const HEADROOM: f64 = 1.25;
/// Weight of the newest batches in the mean latency of a batch.
const LATENCY_WEIGHT: f64 = 0.3;

/// The settings of a [`Controller`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Capacity of the redo log, bytes.
    pub(super) capacity_bytes: u64,
    /// Pages per second while no redo is written.
    pub(super) io_capacity: u32,
    /// Pages per second at most.
    pub(super) io_capacity_max: u32,
    /// Threads that write pages.
    pub(super) cleaners: u32,
}

/// What a [`Controller`] receives at a tick. Counters count since any moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    /// The time since any moment, nanoseconds.
    pub(super) now_ns: u64,
    /// The end of the log.
    pub(super) next: Lsn,
    /// The oldest change that is not on disk.
    pub(super) oldest: Lsn,
    /// Where recovery would begin.
    pub(super) checkpoint: Lsn,
    /// Pages that the cleaners have begun to write because of their age.
    pub(super) begun: u64,
    /// Batches that the cleaners have written, for any reason.
    pub(super) batches: u64,
    /// Time that these batches took, nanoseconds.
    pub(super) batches_ns: u64,
}

/// Why pages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Phase {
    /// To keep the age of the log.
    #[default]
    Adaptive,
    /// Because there is nothing else to do.
    Background,
}

/// A controller's answer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Plan {
    /// Pages that became dirty before this LSN are to be written. It never falls.
    pub(super) target: Lsn,
    /// Why.
    pub(super) phase: Phase,
    /// Pages that may be written until the next plan. Negative if more were written than planned.
    pub(super) quota: i64,
    /// Pages that the age alone asks for until the next plan, without bounds.
    pub(super) by_age: u64,
    /// Pages written per second, on average.
    pub(super) pages_per_s: f64,
    /// Redo written per second, on average, bytes.
    pub(super) redo_per_s: f64,
}

/// Decides how far pages are written. See the [module](self).
#[derive(Debug)]
pub(super) struct Controller {
    limits: Limits,
    last: Option<Sample>,
    target: Lsn,
    /// Bytes per second. Follows a rise at once and a fall slowly.
    redo_per_s: f64,
    pages_per_s: f64,
    /// How far the checkpoint trails the oldest change, bytes.
    lag: f64,
    /// The integral.
    trim: f64,
    /// Pages that may be written now.
    quota: f64,
    /// Mean time of a batch, seconds; 0 before the first.
    batch_s: f64,
    /// Time without redo, seconds.
    quiet_s: f64,
}

impl Controller {
    pub(super) fn new(limits: Limits) -> Self {
        Controller {
            limits,
            last: None,
            target: Lsn(0),
            redo_per_s: 0.0,
            pages_per_s: 0.0,
            lag: 0.0,
            trim: 0.0,
            quota: 0.0,
            batch_s: 0.0,
            quiet_s: 0.0,
        }
    }

    /// Takes a sample and the dirty pages of that moment. Calls may come late or unevenly.
    pub(super) fn step(&mut self, sample: &Sample, ages: &Ages) -> Plan {
        let last = self.last.replace(*sample).unwrap_or(*sample);
        let passed_s = sample.now_ns.saturating_sub(last.now_ns) as f64 / 1e9;
        let mut by_age = 0.0;
        if passed_s > 0.0 {
            self.measure(sample, &last, passed_s);
            by_age = self.pages_by_age_per_s(sample, ages) * passed_s;
            self.grant(sample, &last, by_age, passed_s);
        }
        self.target = self.target.max(ages.reach(self.quota.max(0.0) as u64, sample.next));
        Plan {
            target: self.target,
            phase: if self.is_idle() { Phase::Background } else { Phase::Adaptive },
            quota: self.quota as i64,
            by_age: by_age as u64,
            pages_per_s: self.pages_per_s,
            redo_per_s: self.redo_per_s,
        }
    }

    /// Updates the averages.
    fn measure(&mut self, sample: &Sample, last: &Sample, passed_s: f64) {
        let weight = 1.0 - (-passed_s / AVERAGE_S).exp();
        let redo = sample.next.0.saturating_sub(last.next.0) as f64;
        let redo_now = redo / passed_s;
        let redo_weight = if redo_now > self.redo_per_s { RISE } else { weight };
        self.redo_per_s += redo_weight * (redo_now - self.redo_per_s);
        self.quiet_s = if redo > 0.0 { 0.0 } else { self.quiet_s + passed_s };
        let pages_now = (sample.begun - last.begun) as f64 / passed_s;
        self.pages_per_s += weight * (pages_now - self.pages_per_s);
        let lag = sample.oldest.0.saturating_sub(sample.checkpoint.0) as f64;
        self.lag += weight * (lag - self.lag);
        let batches = sample.batches - last.batches;
        if batches > 0 {
            let batch_s = (sample.batches_ns - last.batches_ns) as f64 / 1e9 / batches as f64;
            let weight = if self.batch_s > 0.0 { LATENCY_WEIGHT } else { 1.0 };
            self.batch_s += weight * (batch_s - self.batch_s);
        }
    }

    /// What the age alone asks for.
    fn pages_by_age_per_s(&self, sample: &Sample, ages: &Ages) -> f64 {
        let capacity = self.limits.capacity_bytes as f64;
        let age_bytes = SETPOINT * capacity - self.lag;
        let feed_forward =
            self.redo_per_s * ages.pages_per_byte(sample.next, age_bytes, LATE_SHARE * capacity);
        let factor = 1.0 + GAIN * self.error(sample) + self.trim;
        let late = ages.pages_before(Lsn(sample.next.0.saturating_sub(age_bytes.max(0.0) as u64)));
        feed_forward * factor.max(0.0) + late as f64 / DRAIN_S
    }

    /// Adds to the quota, within the bounds.
    fn grant(&mut self, sample: &Sample, last: &Sample, by_age: f64, passed_s: f64) {
        let pages_max_per_s = self.pages_max_per_s(sample);
        let wanted = if self.is_idle() { f64::INFINITY } else { by_age };
        let granted = wanted.min(pages_max_per_s * passed_s);
        if granted == by_age {
            self.integrate(sample, last);
        }
        let burst = (pages_max_per_s * BURST_S).max(BATCH_PAGES as f64);
        self.quota = (self.quota - (sample.begun - last.begun) as f64 + granted).min(burst);
    }

    /// Pages that may be written per second.
    fn pages_max_per_s(&self, sample: &Sample) -> f64 {
        let device = match self.batch_s > 0.0 {
            true => HEADROOM * f64::from(self.limits.cleaners) * BATCH_PAGES as f64 / self.batch_s,
            false => f64::INFINITY,
        };
        let configured = match self.is_idle() {
            true => self.limits.io_capacity,
            false if self.error(sample) > URGENT - SETPOINT => u32::MAX,
            false => self.limits.io_capacity_max,
        };
        device.min(f64::from(configured))
    }

    /// The integral, near the setpoint.
    fn integrate(&mut self, sample: &Sample, last: &Sample) {
        let error = self.error(sample);
        if error.abs() < TRIM_WITHIN {
            let redo = sample.next.0.saturating_sub(last.next.0) as f64 / self.limits.capacity_bytes as f64;
            self.trim = (self.trim + INTEGRAL_GAIN * error * redo).clamp(-TRIM_MAX, TRIM_MAX);
        }
    }

    /// How far the age is from the setpoint: the age that a checkpoint made now would leave, and what checkpoints add.
    fn error(&self, sample: &Sample) -> f64 {
        let bytes = sample.next.0.saturating_sub(sample.oldest.0) as f64 + self.lag;
        bytes / self.limits.capacity_bytes as f64 - SETPOINT
    }

    fn is_idle(&self) -> bool {
        self.quiet_s >= IDLE_AFTER_S
    }
}
