//! One comparison: the held limit A against a challenger B.
//!
//! Four blocks make a *quad*, A B B A or B A A B by the toss of a coin: a load that rises or falls steadily
//! cancels out within the quad, one that swings in step with the quads cancels out over the tosses. A quad
//! gives two pairs of neighbouring blocks, and each pair a log ratio; what neighbours share (a slow swing of
//! the load, a burst of stolen CPU time) drops out of it. So blocks stay short, and where a few do not
//! tell, more of them do: a difference of half shows in a tenth of a second, one of 1 % in ten.
//!
//! Forty-eight log ratios are the most that are kept: then neighbours are averaged, two and two, and each
//! further entry stands for twice as much. (Batch means, doubled: the cost of a verdict stays the same however
//! long the series.) The verdict is asked at a few sizes only, since every look at the data is a chance to err.

use super::meter::Block;
use super::walsh;

/// Entries kept, at most.
const ENTRIES_MAX: usize = 48;
/// A comparison that goes on has blocks of this length, so that the limit changes less often.
const BLOCK_NS_LONG: u64 = 40_000_000;
/// No comparison ends undecided before.
const QUADS_MIN: u32 = 6;
/// Nor one that compares with a larger limit: a certain verdict takes this number.
const QUADS_MIN_UP: u32 = 8;
/// A log ratio that both pairs of one quad must fall below, for a challenger that is given up at once.
const DISASTER: f64 = -0.3;
/// A log ratio that both pairs of one quad must pass, for a challenger that is taken at once ...
const OBVIOUS: f64 = 0.4;
/// ... and one that all pairs of two quads must pass, for a challenger that is taken or left at once. With
/// few slots taken in a block both take more, by what a Poisson count of that size scatters.
const EVIDENT: f64 = 0.12;

/// What a comparison may cost and what counts as a gain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// Log ratio from which a gain is worth a move.
    pub(super) gain_min: f64,
    /// Log ratio that a smaller limit may lose and still be taken.
    pub(super) loss_max: f64,
    pub(super) block_ns: u64,
    /// No new quad begins after this time.
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
    quads: u32,
    /// The log ratios of pairs, or means of `per_entry` of them.
    entries: Vec<f64>,
    per_entry: usize,
    /// Pairs on their way to an entry.
    partial: Vec<f64>,
    averages: Vec<f64>,
    spent_ns: u64,
    /// The fewest slots taken in a block.
    places_min: u64,
}

impl Trial {
    pub(super) fn new(held: u32, challenger: u32, terms: Terms, coin: bool) -> Self {
        Trial {
            held,
            challenger,
            terms,
            swapped: coin,
            quad: [0.0; 4],
            filled: 0,
            quads: 0,
            entries: Vec::with_capacity(ENTRIES_MAX),
            per_entry: 1,
            partial: Vec::new(),
            averages: Vec::new(),
            spent_ns: 0,
            places_min: u64::MAX,
        }
    }

    /// The limit of the block to measure now.
    pub(super) fn limit(&self) -> u32 {
        let inner = self.filled == 1 || self.filled == 2;
        if inner == self.swapped { self.held } else { self.challenger }
    }

    pub(super) fn block_ns(&self) -> u64 {
        self.terms.block_ns
    }

    /// Whether it has lasted long enough that the two limits must be near in what they do.
    pub(super) fn is_close(&self) -> bool {
        self.quads >= 4
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
        self.spent_ns = self.spent_ns.saturating_add(block.span_ns);
        self.places_min = self.places_min.min(block.slots);
        if self.filled < 4 {
            return Next::Limit(self.limit());
        }
        let sign = if self.swapped { -1.0 } else { 1.0 };
        let pairs = [sign * (self.quad[1] - self.quad[0]), sign * (self.quad[2] - self.quad[3])];
        self.restart_quad(coin);
        self.quads += 1;
        let looks = self.enter(pairs);
        match self.evident(pairs).or_else(|| self.judge(looks)) {
            Some(verdict) => Next::Verdict(verdict),
            None => Next::Limit(self.limit()),
        }
    }

    /// Enters a quad's pairs; whether it is time to look.
    fn enter(&mut self, pairs: [f64; 2]) -> bool {
        self.partial.extend(pairs);
        let mut looks = false;
        while self.partial.len() >= self.per_entry {
            let mean = self.partial.drain(..self.per_entry).sum::<f64>() / self.per_entry as f64;
            self.entries.push(mean);
            looks |= matches!(self.entries.len(), 6 | 8 | 12 | 16 | 24 | 34 | 48);
        }
        looks
    }

    /// The verdict on differences that need no statistics.
    fn evident(&self, pairs: [f64; 2]) -> Option<Verdict> {
        let scatter = 1.0 / (self.places_min.max(1) as f64).sqrt();
        let seen: &[f64] = if self.quads == 1 { &pairs } else { &self.entries };
        let (low, high) = seen.iter().fold((f64::MAX, f64::MIN), |(l, h), &x| (l.min(x), h.max(x)));
        let (better, worse) = match self.quads {
            1 => (OBVIOUS.max(2.5 * scatter), DISASTER),
            2 => (EVIDENT.max(scatter), -EVIDENT.max(scatter)),
            _ => return None,
        };
        (low > better).then_some(Verdict::Better(low)).or((high < worse).then_some(Verdict::Worse))
    }

    fn judge(&mut self, looks: bool) -> Option<Verdict> {
        let quads_min = if self.challenger > self.held { QUADS_MIN_UP } else { QUADS_MIN };
        let last = self.spent_ns >= self.terms.patience_ns && self.quads >= quads_min;
        let verdict = if looks || last { self.look() } else { None };
        if self.entries.len() >= ENTRIES_MAX {
            self.entries = self.entries.chunks(2).map(|two| (two[0] + two[1]) / 2.0).collect();
            self.per_entry *= 2;
            self.terms.block_ns = (2 * self.terms.block_ns).min(self.terms.block_ns.max(BLOCK_NS_LONG));
        }
        verdict.or(last.then_some(Verdict::Worse))
    }

    /// What the intervals say; nothing while they do not tell.
    fn look(&mut self) -> Option<Verdict> {
        let Terms { gain_min, loss_max, .. } = self.terms;
        let found = walsh::interval(&self.entries, &mut self.averages);
        // A rise must be certain: on a flat curve nothing else keeps the limit from wandering up.
        let rises = self.challenger > self.held;
        let above = if rises { found.certainly_above } else { found.surely_above };
        if above > 0.0 && found.estimate >= gain_min {
            return Some(Verdict::Better(above));
        }
        if rises {
            return (found.likely_below < gain_min).then_some(Verdict::Worse);
        }
        if found.surely_above > -loss_max {
            return Some(Verdict::Smaller((-found.surely_above).max(0.0)));
        }
        (found.likely_below < -loss_max).then_some(Verdict::Worse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares 8 with `challenger` where the held limit does 1000 per block and the challenger `work`, both
    /// on top of a load that grows by a tenth per block; returns the verdict and the quads it took.
    fn compare(challenger: u32, work: u64) -> (Verdict, u32) {
        let terms = Terms { gain_min: 0.01, loss_max: 0.01, block_ns: 20, patience_ns: 1_000_000 };
        let mut trial = Trial::new(8, challenger, terms, true);
        for block in 0u32.. {
            let work = if trial.limit() == 8 { 1000 } else { work } as f64 * 1.1f64.powi(block as i32 % 400);
            let work = (work * 1e3) as u64;
            let block = Block { work, slots: work, span_ns: 20, running: 8.0, demand: 99.0 };
            if let Next::Verdict(verdict) = trial.record(&block, block.work.is_multiple_of(2)) {
                return (verdict, trial.quads);
            }
        }
        unreachable!("a comparison ends when its patience does")
    }

    #[test]
    fn a_steady_growth_of_the_load_cancels_out() {
        assert!(matches!(compare(16, 1000), (Verdict::Worse, _)), "a tie stays with the smaller");
        assert!(matches!(compare(4, 1000), (Verdict::Smaller(_), _)), "a tie goes to the smaller");
    }

    #[test]
    fn large_differences_are_seen_at_once() {
        assert!(matches!(compare(16, 2000), (Verdict::Better(_), 1)));
        assert!(matches!(compare(16, 500), (Verdict::Worse, 1)));
        assert!(matches!(compare(4, 600), (Verdict::Worse, 1)));
    }
}
