//! One comparison: the held limit A against a challenger B.
//!
//! Four blocks make a *quad*, A B B A or B A A B by the toss of a coin: a load that rises or falls steadily
//! cancels out within the quad, one that swings in step with the quads cancels out over the tosses. A quad
//! gives two pairs of neighbouring blocks, and each pair a log ratio; what neighbours share (a slow swing of
//! the load, a burst of stolen processor time) drops out of it. The verdict is asked after 3, 4, 6, 8, 12,
//! 16 and 24 quads only, since every look at the data is a chance to err.
//!
//! When eight quads do not tell, blocks become four times as long and the series begins anew: short blocks
//! find a doubling of throughput in a tenth of a second, long ones average what noise they can.

use super::meter::Block;
use super::walsh::{self, Interval};

const QUADS_MAX: usize = 24;
/// Quads after which blocks are lengthened, if they can be.
const QUADS_PER_LENGTH: usize = 8;
const LENGTHEN: u64 = 4;
/// A log ratio that both pairs of one quad must fall below, for a challenger that is given up at once.
const DISASTER: f64 = -0.3;
/// A log ratio that all pairs of two quads must pass, for a challenger that is taken or left at once. With
/// little work in a block it takes more: what a Poisson count of that size scatters.
const EVIDENT: f64 = 0.08;

/// What a comparison may cost and what counts as a gain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// Log ratio from which a gain is worth a move.
    pub(super) gain_min: f64,
    /// Log ratio that a smaller limit may lose and still be taken.
    pub(super) loss_max: f64,
    pub(super) block_ns: u64,
    pub(super) block_ns_max: u64,
    /// No new quad begins after so long.
    pub(super) patience_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    /// The challenger does more work, by this much at least (log ratio).
    Better(f64),
    /// The challenger is smaller and loses this much at most (log ratio, not negative).
    Smaller(f64),
    /// The held limit stays.
    Worse,
}

pub(super) enum Next {
    /// Measure this limit next.
    Limit(u32),
    Verdict(Verdict),
}

#[derive(Debug)]
pub(super) struct Trial {
    pub(super) held: u32,
    pub(super) challenger: u32,
    terms: Terms,
    /// Whether this quad is B A A B.
    swapped: bool,
    quad: [f64; 4],
    filled: usize,
    pairs: Vec<f64>,
    averages: Vec<f64>,
    length_ns: u64,
    spent_ns: u64,
    /// The least work of a block.
    work_min: u64,
}

impl Trial {
    pub(super) fn new(held: u32, challenger: u32, terms: Terms, coin: bool) -> Self {
        let length_ns = terms.block_ns;
        Trial {
            held,
            challenger,
            terms,
            swapped: coin,
            quad: [0.0; 4],
            filled: 0,
            pairs: Vec::with_capacity(2 * QUADS_MAX),
            averages: Vec::new(),
            length_ns,
            spent_ns: 0,
            work_min: u64::MAX,
        }
    }

    /// The limit of the block to measure now.
    pub(super) fn limit(&self) -> u32 {
        let inner = self.filled == 1 || self.filled == 2;
        if inner == self.swapped { self.held } else { self.challenger }
    }

    pub(super) fn length_ns(&self) -> u64 {
        self.length_ns
    }

    /// Takes back the blocks of the quad in progress: the last one was void.
    pub(super) fn restart_quad(&mut self, coin: bool) {
        self.filled = 0;
        self.swapped = coin;
    }

    /// Takes the block of [`Trial::limit`]. `coin` orders the next quad.
    pub(super) fn record(&mut self, block: &Block, coin: bool) -> Next {
        self.quad[self.filled] = block.log_rate();
        self.filled += 1;
        self.spent_ns += block.span_ns;
        self.work_min = self.work_min.min(block.work);
        if self.filled < 4 {
            return Next::Limit(self.limit());
        }
        let sign = if self.swapped { -1.0 } else { 1.0 };
        self.pairs.push(sign * (self.quad[1] - self.quad[0]));
        self.pairs.push(sign * (self.quad[2] - self.quad[3]));
        self.restart_quad(coin);
        match self.judge() {
            Some(verdict) => Next::Verdict(verdict),
            None => Next::Limit(self.limit()),
        }
    }

    fn judge(&mut self) -> Option<Verdict> {
        let quads = self.pairs.len() / 2;
        let (low, high) = self.pairs.iter().fold((f64::MAX, f64::MIN), |(l, h), &x| (l.min(x), h.max(x)));
        if quads == 1 {
            return (high < DISASTER).then_some(Verdict::Worse);
        }
        if quads == 2 {
            let evident = EVIDENT.max(1.0 / (self.work_min.max(1) as f64).sqrt());
            return (low > evident)
                .then_some(Verdict::Better(low))
                .or((high < -evident).then_some(Verdict::Worse));
        }
        let out_of_patience = self.spent_ns >= self.terms.patience_ns && quads >= 6;
        let last = quads >= QUADS_MAX || out_of_patience;
        if last || matches!(quads, 3 | 4 | 6 | 8 | 12 | 16) {
            let interval = walsh::interval(&self.pairs, &mut self.averages);
            if let Some(verdict) = self.verdict(interval) {
                return Some(verdict);
            }
        }
        if last {
            return Some(Verdict::Worse);
        }
        if quads >= QUADS_PER_LENGTH && self.length_ns < self.terms.block_ns_max {
            self.length_ns = (self.length_ns * LENGTHEN).min(self.terms.block_ns_max);
            self.pairs.clear();
        }
        None
    }

    /// What the interval says; nothing while it does not tell.
    fn verdict(&self, Interval { low, estimate, high }: Interval) -> Option<Verdict> {
        let Terms { gain_min, loss_max, .. } = self.terms;
        if low > 0.0 && estimate >= gain_min {
            return Some(Verdict::Better(low));
        }
        if self.challenger > self.held {
            return (high < gain_min).then_some(Verdict::Worse);
        }
        if low > -loss_max {
            return Some(Verdict::Smaller((-low).max(0.0)));
        }
        (high < -loss_max).then_some(Verdict::Worse)
    }
}
