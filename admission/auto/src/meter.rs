//! One block: after a change of the limit let it settle, then count the work done over a while, and say
//! whether a queue stood all the time. Without a queue the load bounds the work, not the limit: such a
//! block says nothing about the limit and is void. (Not so under a larger limit on trial: if it lets in all
//! who queue under the held one, that is its merit.)

use super::stays::Stays;

/// What a block says when it is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) work: u64,
    /// Slots taken.
    pub(super) slots: u64,
    pub(super) span_ns: u64,
    /// Threads running, the mean of the samples.
    pub(super) running: f64,
    /// Threads running and queued, the mean of the samples.
    pub(super) demand: f64,
}

impl Block {
    /// The natural logarithm of work per nanosecond. Half a statement is added, so that a block in which
    /// nothing was done has one too.
    pub(super) fn log_rate(&self) -> f64 {
        ((self.work as f64 + 0.5) / self.span_ns as f64).ln()
    }

    /// Slots taken per nanosecond. It says how long a thread stays, and how much was counted: however many tickets a slot
    /// has, they come together.
    pub(super) fn slots_rate(&self) -> f64 {
        (self.slots as f64 + 0.5) / self.span_ns as f64
    }

    /// How long a thread stays, ns: Little's law.
    pub(super) fn stay_ns(&self) -> f64 {
        self.running / self.slots_rate()
    }
}

pub(super) enum Reading {
    /// The block is not over.
    Running,
    /// The queue was empty too often.
    Void,
    Done(Block),
}

/// What a [`Controller`](super::Controller) receives at one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    /// The time since any moment, ns.
    pub now_ns: u64,
    /// The work done since the start: what is to be as much as possible per second.
    pub work: u64,
    /// Slots taken since the start, those of which the tickets were renewed included: the same as `work`, if that is
    /// counted in slots. Work that comes by the slot is no surer for being counted in rows.
    pub slots: u64,
    /// Threads queued now.
    pub queued: u32,
    /// Threads running now.
    pub running: u32,
    /// How long threads stayed on their slots, of the stays that ended since the start; a sample of them suffices. Without any, all are taken
    /// to be alike.
    pub stays: Stays,
}

/// Measures one block after another.
#[derive(Debug)]
pub(super) struct Meter {
    settled_ns: u64,
    length_ns: u64,
    /// Whether the block is void without a queue.
    needs_queue: bool,
    /// Where the count began, once the settle time is over.
    from: Option<Sample>,
    samples: u32,
    empty: u32,
    running: u64,
    demand: u64,
}

impl Meter {
    pub(super) fn new(now: Sample, settle_ns: u64, length_ns: u64, needs_queue: bool) -> Self {
        let from = (settle_ns == 0).then_some(now);
        let settled_ns = now.now_ns.saturating_add(settle_ns);
        Meter { settled_ns, length_ns, needs_queue, from, samples: 0, empty: 0, running: 0, demand: 0 }
    }

    /// Takes what is seen; `last` is what was seen before.
    pub(super) fn observe(&mut self, sample: Sample, last: Sample) -> Reading {
        // Nobody looked for longer than a block, and the queue was empty before: nobody knows for how long. The
        // caller may sleep for hours while nobody queues.
        if self.needs_queue && last.queued == 0 && sample.now_ns - last.now_ns > self.length_ns {
            return Reading::Void;
        }
        // Also while it settles: a limit that lets the queue run empty is given up at once.
        self.samples += 1;
        self.empty += u32::from(self.needs_queue && sample.queued == 0);
        self.running += u64::from(sample.running);
        self.demand += u64::from(sample.running) + u64::from(sample.queued);
        // One empty sample may be a moment between two threads. One in eight is not.
        if self.empty >= 2 && self.empty * 8 > self.samples {
            return Reading::Void;
        }
        let Some(from) = self.from else {
            if sample.now_ns >= self.settled_ns {
                self.from = Some(sample);
            }
            return Reading::Running;
        };
        let span_ns = sample.now_ns - from.now_ns;
        if span_ns < self.length_ns.max(1) {
            return Reading::Running;
        }
        if self.empty * 8 > self.samples {
            return Reading::Void;
        }
        let mean = |sum: u64| sum as f64 / f64::from(self.samples);
        Reading::Done(Block {
            work: sample.work - from.work,
            slots: sample.slots - from.slots,
            span_ns,
            running: mean(self.running),
            demand: mean(self.demand),
        })
    }
}
