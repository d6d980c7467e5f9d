//! Arbitrary header and state blocks.

use uuid::Uuid;

use super::block::Block;
use super::header::{FORMAT_VERSION, HEADER_AREA_BYTES};
use super::{AlignedBuffer, Disk, MemoryDisk, Tablespace};
use crate::fuzz::input::Input;

/// Where a data file's blocks are: the header, and of file 0 the two blocks of the state.
const BLOCKS_AT: [u64; 3] = [0, 16 << 10, 32 << 10];

/// Opens a tablespace of one file with changed blocks whose checksums are correct. Each change: which block, where, how
/// many bytes, and these.
pub fn state(data: &[u8]) {
    let (disk, mut input) = (new_disk(), Input(data));
    let file = disk.open("data0.flifo").expect("it was created");
    while !input.0.is_empty() {
        let (at, offset, bytes) = (BLOCKS_AT[usize::from(input.byte()) % 3], input.byte(), input.byte());
        let mut block = Block::zeroed();
        file.read_at(block.bytes_mut(), at).expect("a sound disk");
        block.set(offset.into(), input.take(bytes.into()));
        block.seal();
        file.write_at(block.bytes(), at).expect("a sound disk");
    }
    drop(file);
    if let Ok(space) = Tablespace::open(&disk) {
        let (mut page, pages) = (AlignedBuffer::new(space.page_size()), space.pages());
        // Readable, or refused; whatever count the blocks have.
        for no in [0, 1, pages.saturating_sub(1), pages, u64::MAX] {
            let _ = space.read(no, page.bytes_mut());
        }
        let (checkpoint, epoch) = (space.checkpoint(), space.epoch());
        assert!(epoch > 0, "{checkpoint:?}");
    }
}

fn new_disk() -> MemoryDisk {
    let disk = MemoryDisk::default();
    let space = Tablespace::create(&disk, 1, 4096).expect("a sound disk");
    space.grow(1).expect("a sound disk");
    space.mark_clean().expect("a sound disk");
    drop(space);
    disk
}

/// Other values, one at a time.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let version = (FORMAT_VERSION + 1).to_le_bytes();
    let database = Uuid::from_u128(43).into_bytes();
    let (area, most) = (HEADER_AREA_BYTES.to_le_bytes(), u64::MAX.to_le_bytes());
    let change = |block: u8, offset: u8, bytes: &[u8]| [&[block, offset, bytes.len() as u8], bytes].concat();
    vec![
        change(0, 8, &version),
        change(0, 32, &database),
        change(0, 12, &8192_u32.to_le_bytes()),
        change(1, 16, &[2, 0, 0, 0]),
        [change(1, 24, &area), change(2, 24, &area)].concat(),
        [change(1, 56, &most), change(2, 56, &most)].concat(),
    ]
}
