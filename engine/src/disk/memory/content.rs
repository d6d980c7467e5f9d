//! The content of a simulated file, its durable part, and the effect of a power cut on the rest.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// What a device writes whole or not at all.
pub(super) const SECTOR_BYTES: usize = 512;

#[derive(Default)]
pub(super) struct FileContent {
    pub(super) bytes: Vec<u8>,
    /// Only with power cuts.
    pub(super) durable: Vec<u8>,
    /// Only with power cuts: changes since the last sync, in order.
    pub(super) unsynced: Vec<Change>,
    /// Bytes that cannot be read until they are written.
    pub(super) unreadable: BTreeSet<usize>,
    /// The mapped range, and its offset; permanent.
    pub(super) mapped: Option<(usize, Arc<[AtomicU64]>)>,
}

impl FileContent {
    /// The stores in its mapped part so far, as a write.
    pub(super) fn stored(&self) -> Option<Change> {
        let (offset, words) = self.mapped.as_ref()?;
        let bytes = words.iter().flat_map(|word| word.load(Ordering::Acquire).to_ne_bytes()).collect();
        Some(Change::Write { offset: *offset, bytes })
    }

    /// The present content.
    pub(super) fn now(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        self.stored().inspect(|change| change.apply(&mut bytes));
        bytes
    }
}

#[derive(Clone)]
pub(super) enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

/// Chooses faults: the same everywhere for a seed.
#[derive(Clone)]
pub(super) struct Random(rand_xoshiro::SplitMix64);

impl Default for Random {
    fn default() -> Self {
        Random::new(0)
    }
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Random(rand_xoshiro::SplitMix64::seed_from_u64(seed))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

impl Change {
    /// Applies all, nothing, or some sectors of the change.
    pub(super) fn maybe_apply(&self, durable: &mut Vec<u8>, random: &mut Random) {
        match self {
            Change::Length(length) => {
                if random.below(2) == 0 {
                    lengthen(durable, *length);
                }
            }
            Change::Write { offset, bytes } => {
                let fate = random.below(3);
                let mut done = 0;
                while done < bytes.len() {
                    let at = offset + done;
                    let part = (SECTOR_BYTES - at % SECTOR_BYTES).min(bytes.len() - done);
                    if fate == 0 || (fate == 1 && random.below(2) == 0) {
                        write_into(durable, at, &bytes[done..done + part]);
                    }
                    done += part;
                }
            }
        }
    }

    pub(super) fn apply(&self, durable: &mut Vec<u8>) {
        match self {
            Change::Length(length) => lengthen(durable, *length),
            Change::Write { offset, bytes } => write_into(durable, *offset, bytes),
        }
    }
}

/// In one piece from the allocator, since `resize` goes byte by byte in debug builds.
fn lengthen(content: &mut Vec<u8>, length: usize) {
    if content.len() < length {
        let mut longer = vec![0; length];
        longer[..content.len()].copy_from_slice(content);
        *content = longer;
    }
}

fn write_into(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    lengthen(content, offset + bytes.len());
    content[offset..offset + bytes.len()].copy_from_slice(bytes);
}
