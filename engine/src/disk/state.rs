//! The state blocks: whether the pages on disk are consistent, or which part of the redo log makes them so.
//!
//! Two blocks in the header area of data file 0 have the same content, each with a sequence number and a checksum. The
//! valid block with the higher number counts. A change of state writes one block, syncs, then writes the other one, and
//! syncs again:
//!
//! ```text
//!              block 0      block 1      a crash here, even if it tears the block being written, leaves
//! at rest      clean 7      clean 8      clean
//! step 1       OPEN  9      clean 8      clean or open; no page has been written yet, so both are true
//! step 2       open  9      OPEN 10      open
//!   ... pages are written and synced; a checkpoint writes both blocks too, open with another place in the log ...
//! step 1       CLEAN 11     open 10      open or clean; all pages are durable, so both are true
//! step 2       clean 11     CLEAN 12     clean
//! ```
//!
//! Both blocks are written each time. If only one were, and it were damaged later, the other block would count, which
//! says the opposite: an open database would pass for a clean one, or the redo log be read from a position that was
//! overwritten long ago.
//!
//! # Which block first
//! Never the block that is known to be durable. A failed write may have torn its block, so the next attempt writes that
//! block again. Of two blocks that an open finds, the older one was synced before the newer one was begun. The newer
//! one may be in the page cache only, if the process was killed or its sync failed, so the newer one is written first.
//! The older one's content is still true then, since nothing relies on a state before both blocks have it.

use std::io;

use uuid::Uuid;

use super::DiskFile;
use super::block::Block;

/// Where the two blocks are: apart, so that no single device sector holds parts of both.
const BLOCKS_AT: [u64; 2] = [16 << 10, 32 << 10];

const MAGIC: [u8; 8] = *b"flifoST\x1a";

/// Whether the pages fit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    /// Under creation, and empty.
    New = 1,
    /// Open for writing, or left so: the redo log is needed.
    Open = 2,
    /// All that was written is durable, and fits together: the redo log is not needed.
    Clean = 3,
}

/// What a state block says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    pub(super) condition: Condition,
    /// Pages the data files had room for. Fewer is a truncated file.
    pub(super) pages: u64,
    /// Page of the catalog's root.
    pub(super) catalog_root: u64,
    /// Where recovery begins to read the redo log.
    pub(super) checkpoint: Checkpoint,
    /// Number of the last opening that wrote; its frames in the redo log carry it.
    pub(super) epoch: u32,
    /// The redo log was durable up to here when this was written.
    pub(super) durable_log: u64,
}

/// The greatest epoch that a state can have. A database that has come to it is not opened any more: its next state would have none.
pub(super) const EPOCH_MAX: u32 = u32::MAX - 1;

/// A place in the redo log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// Offset in the stream, bytes.
    pub(crate) lsn: u64,
    /// The least epoch that what follows can have.
    pub(crate) epoch: u32,
}

/// The state blocks of an open database. A change of state has exclusive access (`&mut`).
#[derive(Debug)]
pub(super) struct StateBlocks {
    database: Uuid,
    /// The greater one of the two.
    sequence: u64,
    /// The block that is known to be durable: the last one written and synced, or the older one of two that were found.
    good: usize,
    /// What both say, or said when it was read.
    condition: Condition,
    /// A change of state was interrupted: the next open finds that state or `condition`.
    differ: bool,
}

/// A change of state that failed.
#[derive(Debug)]
pub(super) enum StateError {
    /// The write failed; it can be retried.
    Write(io::Error),
    /// The sync failed, which is final.
    Sync(io::Error),
}

impl State {
    /// No value is so large that computing with it overflows. This program never writes such a block.
    fn is_possible(&self) -> bool {
        const PAGES_MAX: u64 = 1 << 40;
        const LSN_MAX: u64 = 1 << 62;
        /// Where a log begins, and what the places in it are multiples of.
        const LSN_MIN: u64 = 4096;
        const LSN_UNIT: u64 = 8;
        let Checkpoint { lsn, epoch } = self.checkpoint;
        // Of what has no log yet.
        let is_none = self.checkpoint == Checkpoint::default();
        self.pages <= PAGES_MAX
            && (is_none || (LSN_MIN..=LSN_MAX).contains(&lsn) && lsn.is_multiple_of(LSN_UNIT))
            && self.durable_log <= LSN_MAX
            && self.epoch <= EPOCH_MAX
            && epoch <= self.epoch
    }
}

impl StateBlocks {
    /// Writes the first state of a new database.
    pub(super) fn create(file: &dyn DiskFile, database: Uuid, state: &State) -> Result<Self, StateError> {
        let mut blocks =
            StateBlocks { database, sequence: 0, good: 1, condition: state.condition, differ: false };
        blocks.write(file, state)?;
        Ok(blocks)
    }

    /// Reads the state; `None` if neither block is good, and an error if one cannot be read and the other is not good.
    pub(super) fn open(file: &dyn DiskFile, database: Uuid) -> io::Result<Option<(Self, State)>> {
        let (mut found, mut unreadable) = (Vec::new(), None);
        for (index, at) in BLOCKS_AT.into_iter().enumerate() {
            let mut block = Block::zeroed();
            match file.read_at(block.bytes_mut(), at) {
                Ok(()) => {
                    found.extend(decode(&block, database).map(|(sequence, state)| (sequence, index, state)))
                }
                Err(error) => unreadable = Some(error),
            }
        }
        found.sort_unstable_by_key(|&(sequence, ..)| sequence);
        match (&found[..], unreadable) {
            (&[(_, good, _), .., (sequence, _, state)] | &[(sequence, good, state)], _) => {
                let (condition, differ) = (state.condition, false);
                Ok(Some((StateBlocks { database, sequence, good, condition, differ }, state)))
            }
            (_, Some(error)) => Err(error),
            (_, None) => Ok(None),
        }
    }

    /// The state that they have, or had before a change of state that failed.
    pub(super) fn condition(&self) -> Condition {
        self.condition
    }

    /// Whether each of them is known to say `condition`.
    pub(super) fn say(&self, condition: Condition) -> bool {
        self.condition == condition && !self.differ
    }

    /// Makes `state` durable, in both blocks.
    pub(super) fn write(&mut self, file: &dyn DiskFile, state: &State) -> Result<(), StateError> {
        self.differ = true;
        for _ in BLOCKS_AT {
            let (index, sequence) = (1 - self.good, self.sequence + 1);
            let block = encode(sequence, self.database, state);
            file.write_at(block.bytes(), BLOCKS_AT[index]).map_err(StateError::Write)?;
            file.sync().map_err(StateError::Sync)?;
            (self.good, self.sequence) = (index, sequence);
        }
        (self.condition, self.differ) = (state.condition, false);
        Ok(())
    }
}

fn encode(sequence: u64, database: Uuid, state: &State) -> Box<Block> {
    let mut block = Block::zeroed();
    block.set(0, &MAGIC);
    block.set(8, &sequence.to_le_bytes());
    block.set(16, &(state.condition as u32).to_le_bytes());
    block.set(24, &state.pages.to_le_bytes());
    block.set(32, &state.catalog_root.to_le_bytes());
    block.set(40, database.as_bytes());
    block.set(56, &state.checkpoint.lsn.to_le_bytes());
    block.set(64, &state.checkpoint.epoch.to_le_bytes());
    block.set(68, &state.epoch.to_le_bytes());
    block.set(72, &state.durable_log.to_le_bytes());
    block.seal();
    block
}

fn decode(block: &Block, database: Uuid) -> Option<(u64, State)> {
    let condition = match block.u32(16) {
        1 => Condition::New,
        2 => Condition::Open,
        3 => Condition::Clean,
        _ => return None,
    };
    let is_own = block.field(0) == MAGIC && block.is_sealed() && block.field(40) == *database.as_bytes();
    let state = State {
        condition,
        pages: block.u64(24),
        catalog_root: block.u64(32),
        checkpoint: Checkpoint { lsn: block.u64(56), epoch: block.u32(64) },
        epoch: block.u32(68),
        durable_log: block.u64(72),
    };
    (is_own && state.is_possible()).then(|| (block.u64(8), state))
}

#[cfg(test)]
mod tests {
    use super::super::{Disk, DiskCall, Fault, MemoryDisk};
    use super::*;

    const DATABASE: Uuid = Uuid::from_u128(42);

    fn state(condition: Condition) -> State {
        let checkpoint = Checkpoint { lsn: 4096, epoch: 1 };
        State { condition, pages: 256, catalog_root: 3, checkpoint, epoch: 2, durable_log: 4096 }
    }

    fn condition(disk: &MemoryDisk) -> Option<Condition> {
        let file = disk.open("f").unwrap();
        StateBlocks::open(&*file, DATABASE).unwrap().map(|(_, state)| state.condition)
    }

    fn new_file(disk: &MemoryDisk) -> (Box<dyn DiskFile>, StateBlocks) {
        let file = disk.create("f").unwrap();
        file.allocate(64 << 10).unwrap();
        file.sync().unwrap();
        disk.sync_directory().unwrap();
        let blocks = StateBlocks::create(&*file, DATABASE, &state(Condition::Clean)).unwrap();
        (file, blocks)
    }

    #[test]
    fn the_last_state_written_is_read() {
        let disk = MemoryDisk::default();
        let (file, mut blocks) = new_file(&disk);
        for written in [Condition::Open, Condition::Open, Condition::Clean, Condition::New] {
            blocks.write(&*file, &state(written)).unwrap();
            assert_eq!(condition(&disk), Some(written));
        }
    }

    #[test]
    fn one_damaged_block_changes_nothing_and_two_are_noticed() {
        for damaged_first in [0, 1] {
            let disk = MemoryDisk::default();
            let (file, mut blocks) = new_file(&disk);
            blocks.write(&*file, &state(Condition::Open)).unwrap();
            disk.flip_bit("f", BLOCKS_AT[damaged_first] + 9, 3);
            assert_eq!(condition(&disk), Some(Condition::Open));
            disk.flip_bit("f", BLOCKS_AT[1 - damaged_first] + 99, 3);
            assert_eq!(condition(&disk), None);
        }
    }

    #[test]
    fn one_block_that_cannot_be_read_changes_nothing_and_two_are_an_error() {
        let disk = MemoryDisk::default();
        let (file, mut blocks) = new_file(&disk);
        blocks.write(&*file, &state(Condition::Open)).unwrap();
        for unreadable in [1, 2] {
            disk.fail_nth(Some(DiskCall::Read), unreadable, Fault::Io);
            assert_eq!(condition(&disk), Some(Condition::Open));
        }
        // What the other one says is not known.
        disk.flip_bit("f", BLOCKS_AT[1] + 9, 3);
        disk.fail_nth(Some(DiskCall::Read), 1, Fault::Io);
        StateBlocks::open(&*file, DATABASE).unwrap_err();
    }

    #[test]
    fn another_databases_blocks_do_not_count() {
        let disk = MemoryDisk::default();
        let (file, _) = new_file(&disk);
        assert!(StateBlocks::open(&*file, Uuid::from_u128(43)).unwrap().is_none());
    }

    /// Found by a fuzzer: what is computed with them overflowed.
    #[test]
    fn impossible_values_are_no_state() {
        let (good, checkpoint) = (state(Condition::Open), Checkpoint { lsn: u64::MAX, epoch: 1 });
        let impossible = [
            State { pages: u64::MAX, ..good },
            State { checkpoint, ..good },
            State { durable_log: u64::MAX, ..good },
            State { epoch: u32::MAX, ..good },
            State { checkpoint: Checkpoint { lsn: 4096, epoch: good.epoch + 1 }, ..good },
            State { checkpoint: Checkpoint { lsn: 4100, epoch: 1 }, ..good },
            State { checkpoint: Checkpoint { lsn: 4088, epoch: 1 }, ..good },
            State { checkpoint: Checkpoint { lsn: 8, epoch: 0 }, ..good },
        ];
        assert_eq!(decode(&encode(7, DATABASE, &good), DATABASE), Some((7, good)));
        for state in impossible {
            assert_eq!(decode(&encode(7, DATABASE, &state), DATABASE), None, "{state:?}");
        }
    }

    /// Power fails at each step of clean -> open -> clean, with the block being written lost, torn or kept.
    #[test]
    fn a_power_cut_leaves_one_of_the_two_states() {
        let steps = [(Condition::Open, Condition::Clean), (Condition::Clean, Condition::Open)];
        for seed in 0..50 {
            for fails_at in 1..=4 {
                for (to, from) in steps {
                    let disk = MemoryDisk::with_power_cuts(seed);
                    let (file, mut blocks) = new_file(&disk);
                    blocks.write(&*file, &state(from)).unwrap();
                    disk.fail_from(None, fails_at, Fault::Io);
                    blocks.write(&*file, &state(to)).unwrap_err();
                    let found = condition(&disk.power_cut());
                    assert!(found == Some(from) || found == Some(to), "{found:?}");
                }
            }
        }
    }

    /// A change of state ends between the two syncs, or with a failed one: what the next opening reads may be in memory only.
    /// Power fails in its first change of state.
    #[test]
    fn what_an_opening_finds_is_never_lost_with_its_first_change_of_state() {
        for seed in 0..300 {
            for (fails_at, killed) in [(1, false), (2, false), (1, true), (2, true)] {
                let disk = MemoryDisk::with_power_cuts(seed);
                let (file, mut blocks) = new_file(&disk);
                let fault = |call| disk.fail_nth(Some(call), fails_at, Fault::Io);
                fault(if killed { DiskCall::Write } else { DiskCall::Sync });
                blocks.write(&*file, &state(Condition::Clean)).unwrap_err();
                if killed {
                    // The block is there, and not synced.
                    let block = encode(blocks.sequence + 1, DATABASE, &state(Condition::Clean));
                    file.write_at(block.bytes(), BLOCKS_AT[1 - blocks.good]).unwrap();
                }
                let (mut blocks, found) = StateBlocks::open(&*file, DATABASE).unwrap().unwrap();
                disk.fail_nth(Some(DiskCall::Sync), 1, Fault::Io);
                blocks.write(&*file, &State { condition: Condition::Open, ..found }).unwrap_err();
                assert!(condition(&disk.power_cut()).is_some(), "seed {seed}, {fails_at}, killed: {killed}");
            }
        }
    }

    #[test]
    fn a_failed_write_is_tried_again_on_the_same_block() {
        let disk = MemoryDisk::default();
        let (file, mut blocks) = new_file(&disk);
        let good = blocks.good;
        for _ in 0..2 {
            disk.fail_nth(Some(DiskCall::Write), 1, Fault::Io);
            blocks.write(&*file, &state(Condition::Open)).unwrap_err();
            assert_eq!(blocks.good, good);
        }
        blocks.write(&*file, &state(Condition::Open)).unwrap();
        assert_eq!(condition(&disk), Some(Condition::Open));
    }

    proptest::proptest! {
        /// With a checksum that fits: a state, or none.
        #[test]
        fn any_values_are_a_state_or_none(
            at in 0..84_usize,
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 1..9),
        ) {
            let mut block = encode(7, DATABASE, &state(Condition::Open));
            block.set(at, &bytes);
            block.seal();
            if let Some((sequence, state)) = decode(&block, DATABASE) {
                proptest::prop_assert_eq!(decode(&encode(sequence, DATABASE, &state), DATABASE), Some((sequence, state)));
            }
        }
    }
}
