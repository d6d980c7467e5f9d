//! The choice of rows: generators of keys, and the keys that are inserted during a run.
//!
//! The skewed ones are those of YCSB (Cooper, Silberstein, Tam, Ramakrishnan, Sears: Benchmarking Cloud Serving Systems
//! with YCSB, SoCC 2010, section 5.3), over the Zipf distribution of `rand_distr`, which draws by rejection and needs
//! no table.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use flifo_base::lock;
use rand_distr::Zipf;

use super::rng::Random;

/// YCSB's skew: the exponent of the Zipf distribution.
const ZIPFIAN_EXPONENT: f64 = 0.99;
/// The ranks that are scattered over a table of any size: YCSB's constant, 26.469, is the sum of that many weights.
const SCRAMBLED_RANKS: f64 = 1e10;

/// Keys, some of which are more popular than others.
#[derive(Debug, Clone)]
pub struct Zipfian {
    items: u32,
    /// Of as many as there are items, from 1: the lower ones are the more popular.
    ranks: Zipf<f64>,
    /// Of [`SCRAMBLED_RANKS`].
    scrambled: Zipf<f64>,
}

impl Zipfian {
    /// Over `items` items, at least one.
    pub fn new(items: u32) -> Self {
        let zipf = |ranks| Zipf::new(ranks, ZIPFIAN_EXPONENT).expect("one rank or more, and an exponent");
        Zipfian { items, ranks: zipf(f64::from(items)), scrambled: zipf(SCRAMBLED_RANKS) }
    }

    /// The next rank, 1 to the number of items.
    #[inline]
    fn rank(&self, random: &mut Random) -> u32 {
        (random.sample(&self.ranks) as u32).clamp(1, self.items)
    }

    /// The next key, 1 to the number of items: the popular ones are scattered over all of them. As in YCSB a rank's
    /// hash is its key, and there are far more ranks than items: the most popular key's share is the same for any
    /// number of items, and each key occurs.
    #[inline]
    pub fn scrambled(&self, random: &mut Random) -> u32 {
        let rank = random.sample(&self.scrambled) as u64;
        (fnv1a(rank) % u64::from(self.items)) as u32 + 1
    }

    /// The next key when the newest is `newest`: the newer, the more popular.
    #[inline]
    pub(super) fn latest(&self, random: &mut Random, newest: u32) -> u32 {
        newest.saturating_sub(self.rank(random) - 1).max(1)
    }
}

/// FNV-1a, 64 bits, of a number's bytes (Fowler, Noll, Vo; public domain).
fn fnv1a(number: u64) -> u64 {
    number.to_le_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The keys beyond the loaded rows, given out in order to all connections of a cell, as an auto-increment does.
///
/// `newest` is the highest key up to which every one was inserted for certain: readers of the latest rows may ask for
/// it and for all below.
#[derive(Debug)]
pub(super) struct Inserted {
    next: AtomicU32,
    newest: AtomicU32,
    /// Acknowledged, but with gaps below.
    ahead: Mutex<BinaryHeap<Reverse<u32>>>,
}

impl Inserted {
    /// No inserts yet, beyond `rows` loaded rows.
    pub(super) fn beyond(rows: u32) -> Self {
        Inserted { next: AtomicU32::new(rows + 1), newest: AtomicU32::new(rows), ahead: Mutex::default() }
    }

    /// A key that no other connection gets.
    #[inline]
    pub(super) fn next_key(&self) -> u32 {
        // Relaxed: the number is all that is passed.
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The row of that key was inserted, and its client knows it.
    pub(super) fn acknowledge(&self, key: u32) {
        let mut ahead = lock(&self.ahead);
        ahead.push(Reverse(key));
        let mut newest = self.newest.load(Ordering::Relaxed);
        while ahead.peek() == Some(&Reverse(newest + 1)) {
            ahead.pop();
            newest += 1;
        }
        // Within the lock, so it grows. Release: a thread that reads this number finds the rows.
        self.newest.store(newest, Ordering::Release);
    }

    /// The highest key up to which all rows were inserted.
    #[inline]
    pub(super) fn newest(&self) -> u32 {
        self.newest.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rng::stream;
    use super::*;

    /// The share of each rank, from the definition.
    fn expected(items: u32) -> Vec<f64> {
        let weights: Vec<f64> = (1..=items).map(|rank| f64::from(rank).powf(-ZIPFIAN_EXPONENT)).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / sum).collect()
    }

    #[test]
    fn ranks_follow_zipf_s_law() {
        const DRAWS: u32 = 200_000;
        let (zipfian, mut random) = (Zipfian::new(1_000), stream(1, 1));
        let mut counts = vec![0u32; 1_000];
        for _ in 0..DRAWS {
            counts[zipfian.rank(&mut random) as usize - 1] += 1;
        }
        for (rank, share) in
            expected(1_000).into_iter().enumerate().filter(|(rank, _)| [0, 1, 9, 99].contains(rank))
        {
            let found = f64::from(counts[rank]) / f64::from(DRAWS);
            assert!((found / share - 1.0).abs() < 0.15, "rank {}: {found} for {share}", rank + 1);
        }
        let tail: u32 = counts[500..].iter().sum();
        let tail_share: f64 = expected(1_000)[500..].iter().sum();
        assert!((f64::from(tail) / f64::from(DRAWS) / tail_share - 1.0).abs() < 0.05);
    }

    /// The sum of the weights of all ranks that YCSB scatters: of the first ones from the definition, of the others by
    /// the integral (Euler and Maclaurin).
    fn scrambled_weights() -> f64 {
        let (first, power) = (1e6_f64, 1.0 - ZIPFIAN_EXPONENT);
        let weights = (1..=first as u32).map(|rank| f64::from(rank).powf(-ZIPFIAN_EXPONENT));
        let others = (SCRAMBLED_RANKS.powf(power) - first.powf(power)) / power;
        weights.sum::<f64>() + others
    }

    #[test]
    fn scrambled_keys_have_ycsb_s_skew_whatever_the_number_of_rows() {
        const DRAWS: u32 = 200_000;
        let sum = scrambled_weights();
        assert!((sum - 26.469_028).abs() < 1e-5, "YCSB's constant: {sum}");
        for rows in [1_000, 300_000] {
            let (zipfian, mut random) = (Zipfian::new(rows), stream(2, 1));
            let mut counts = vec![0u32; rows as usize];
            for _ in 0..DRAWS {
                counts[zipfian.scrambled(&mut random) as usize - 1] += 1;
            }
            let most = counts.iter().enumerate().max_by_key(|(_, count)| **count).unwrap();
            assert_eq!(most.0 as u64, fnv1a(1) % u64::from(rows), "the first rank's key");
            // The first rank, and its key's part of all the others.
            let share = 1.0 / sum + (1.0 - 1.0 / sum) / f64::from(rows);
            let found = f64::from(*most.1) / f64::from(DRAWS);
            assert!((found / share - 1.0).abs() < 0.05, "{rows} rows: {found} for {share}");
            if rows == 1_000 {
                assert!(counts.iter().all(|count| *count > 0), "a row that is never asked for");
                let popular: Vec<usize> = (0..1_000).filter(|key| counts[*key] > 1_000).collect();
                let lie = |among: fn(&usize) -> bool| popular.iter().any(among);
                assert!(lie(|key| *key < 300) && lie(|key| *key > 700), "{popular:?}");
            }
        }
    }

    #[test]
    fn one_item_is_always_the_same() {
        let (zipfian, mut random) = (Zipfian::new(1), stream(3, 1));
        for _ in 0..100 {
            assert_eq!((zipfian.rank(&mut random), zipfian.scrambled(&mut random)), (1, 1));
            assert_eq!(zipfian.latest(&mut random, 1), 1);
        }
    }

    #[test]
    fn the_latest_are_the_most_popular() {
        let (zipfian, mut random) = (Zipfian::new(1_000), stream(4, 1));
        let keys: Vec<u32> = (0..10_000).map(|_| zipfian.latest(&mut random, 5_000)).collect();
        assert!(keys.iter().all(|key| (4_001..=5_000).contains(key)));
        let newest = keys.iter().filter(|key| **key == 5_000).count();
        assert!((1_000..1_700).contains(&newest), "{newest}");
        assert!((0..100).all(|_| zipfian.latest(&mut random, 3) >= 1));
    }

    #[test]
    fn hashes_are_fnv_s() {
        // Of eight zero bytes: eight multiplications of the offset basis.
        let by_hand = (0..8).fold(0xcbf2_9ce4_8422_2325_u64, |hash, _| hash.wrapping_mul(0x100_0000_01b3));
        assert_eq!(fnv1a(0), by_hand);
        assert_ne!(fnv1a(1), fnv1a(256));
    }

    #[test]
    fn the_newest_row_has_no_gap_below() {
        let inserted = Inserted::beyond(10);
        let keys: Vec<u32> = (0..5).map(|_| inserted.next_key()).collect();
        assert_eq!(keys, [11, 12, 13, 14, 15]);
        let after = |key| {
            inserted.acknowledge(key);
            inserted.newest()
        };
        assert_eq!([after(12), after(14), after(11), after(15), after(13)], [10, 10, 12, 12, 15]);
    }
}
