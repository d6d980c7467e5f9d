//! The lab's random numbers: SplitMix64 from `rand_xoshiro`, a generator with a fixed definition, so that a
//! seed means the same data and the same statements in every version of flifo.

use rand_distr::Distribution;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// A small generator; one per connection, one per row.
#[derive(Debug, Clone)]
pub struct Random(rand_xoshiro::SplitMix64);

/// The stream of one purpose: any change of seed or of purpose gives unrelated numbers.
pub fn stream(seed: u64, purpose: u64) -> Random {
    let base = Random::new(seed).next_u64();
    let mut rng = Random::new(base ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93));
    rng.next_u64();
    rng
}

impl Random {
    fn new(seed: u64) -> Self {
        Random(rand_xoshiro::SplitMix64::seed_from_u64(seed))
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform number in `1..=max`. The bias, below 2^-32, is far under what a sweep can see.
    #[inline]
    pub fn one_to(&mut self, max: u32) -> u32 {
        ((u128::from(self.next_u64()) * u128::from(max)) >> 64) as u32 + 1
    }

    /// A uniform number below `bound`; the bias is far under what can be measured up to some 2^40.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// The next number of a distribution.
    #[inline]
    pub fn sample(&mut self, distribution: &impl Distribution<f64>) -> f64 {
        distribution.sample(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_numbers() {
        // The reference outputs of SplitMix64 from seed 1234567.
        let mut rng = Random::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn uniform_over_the_whole_range() {
        let mut rng = stream(7, 1);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[rng.one_to(10) as usize - 1] += 1;
        }
        assert!(counts.iter().all(|&n| (9_500..10_500).contains(&n)), "{counts:?}");
    }

    #[test]
    fn streams_differ() {
        let first: Vec<u64> = (0..1000).map(|purpose| stream(1, purpose).next_u64()).collect();
        let mut unique = first.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), first.len());
        assert_ne!(stream(1, 1).next_u64(), stream(2, 1).next_u64());
    }
}
