//! Arbitrary logs.

use uuid::Uuid;

use super::buffer_file::LogBuffer;
use super::files::LogFiles;
use super::frame::{HEADER_BYTES, checksum, frame_bytes, header};
use super::reader::Reader;
use super::{BLOCK_BYTES, LSN_START, SEGMENTS};
use crate::disk::{Checkpoint, MemoryDisk};
use crate::error::Error;
use crate::fuzz::input::Input;
use crate::page::PageNo;
use crate::page::op::Op;

const DATABASE: Uuid = Uuid::from_u128(42);
const CAPACITY_BYTES: u64 = SEGMENTS as u64 * BLOCK_BYTES;
const PAYLOAD_MAX: usize = 2000;
const EPOCH: u32 = 2;
const LAST_EPOCH: u32 = 4;

/// Reads a log as recovery does: the files, then the frames that a killed process left in the log's buffer, then the
/// part behind the end. The first byte says how many 16-byte units of the input are frames in the files; the others are
/// in the buffer.
pub fn log(data: &[u8]) {
    frames_of(data);
}

/// How many frames the log has.
fn frames_of(data: &[u8]) -> usize {
    let mut input = Input(data);
    let in_files = usize::from(input.byte()) * 16;
    let in_files = input.take(in_files).to_vec();
    let disk = MemoryDisk::default();
    let files = LogFiles::create(&disk, DATABASE, CAPACITY_BYTES).expect("a sound disk");
    let buffer = LogBuffer::create(&disk, DATABASE, BLOCK_BYTES).expect("a sound disk");
    let mut stream = frames(LSN_START.0, &in_files);
    stream.resize(stream.len().next_multiple_of(BLOCK_BYTES as usize), 0);
    stream.truncate(CAPACITY_BYTES as usize);
    files.write(LSN_START, &stream).expect("a sound disk");
    let start = Checkpoint { lsn: LSN_START.0, epoch: EPOCH };
    let mut reader = Reader::new(&files, start, LAST_EPOCH, PAYLOAD_MAX);
    // As if recovery needed none of it.
    reader.is_followed().expect("a sound disk");
    let in_files = read_on(&mut reader);
    let mut left = frames(reader.end().0, input.0);
    left.truncate(BLOCK_BYTES as usize);
    buffer.put(reader.end(), &left);
    match reader.take_over(&buffer) {
        // More than fits.
        Err(Error::CorruptRedo { .. }) => return in_files,
        taken => taken.expect("a sound disk"),
    }
    let in_buffer = read_on(&mut reader);
    let end = reader.end();
    let durable = reader.durable_behind().expect("a sound disk");
    assert_eq!(reader.end(), end);
    assert!(durable.0 <= LSN_START.0 + CAPACITY_BYTES);
    in_files + in_buffer
}

/// Reads to the end of the stream; how many frames it had.
fn read_on(reader: &mut Reader<'_>) -> usize {
    let mut frames = 0;
    loop {
        let (before, mut given) = (reader.end(), None);
        let goes_on = reader.next(|end, payload| {
            assert!(!payload.is_empty() && payload.len() <= PAYLOAD_MAX);
            let mut rest = payload;
            while Op::decode(&mut rest, 4096).is_ok() {}
            given = Some(end);
            Ok(())
        });
        assert_eq!(goes_on.expect("a sound disk"), given.is_some());
        match given {
            Some(end) => {
                assert!(end > before && end == reader.end());
                frames += 1;
            }
            None => {
                assert_eq!(reader.end(), before);
                return frames;
            }
        }
    }
}

/// The input as frames from `at` on. A byte before each says whether its checksum is made to fit, and its length left as it is.
fn frames(at: u64, data: &[u8]) -> Vec<u8> {
    let (mut input, mut frames) = (Input(data), Vec::new());
    while !input.0.is_empty() {
        let (how, head) = (input.byte(), input.take(HEADER_BYTES));
        let mut frame = head.to_vec();
        frame.resize(HEADER_BYTES, 0);
        let word = |at: usize| u32::from_le_bytes(frame[at..at + 4].try_into().expect("four bytes"));
        // Nearly valid lengths, unless any is allowed.
        let length = if how & 2 == 0 { word(0) % (PAYLOAD_MAX as u32 + 8) } else { word(0) };
        let (epoch, behind) = (word(8), word(12));
        frame[..4].copy_from_slice(&length.to_le_bytes());
        let mut payload = input.take((length as usize).min(PAYLOAD_MAX + 8)).to_vec();
        if how & 1 == 0 {
            payload.resize(length.min(PAYLOAD_MAX as u32 + 8) as usize, 0);
            let fits = checksum(at + frames.len() as u64, length, epoch, behind, &payload);
            frame[4..8].copy_from_slice(&fits.to_le_bytes());
        }
        frame.extend_from_slice(&payload);
        frame.resize(frame_bytes(payload.len()) as usize, 0);
        frames.extend_from_slice(&frame);
    }
    frames
}

/// Two frames in the files and one in the buffer.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let frame = |epoch: u32, ops: &[Op<'_>]| {
        let mut payload = Vec::new();
        ops.iter().for_each(|op| op.encode(PageNo(7), 4096, &mut payload));
        let head = header(LSN_START.0, epoch, LSN_START.0, &payload);
        let mut bytes = vec![0];
        head.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes.extend_from_slice(&payload);
        bytes
    };
    let insert = Op::Insert { slot: 0, key: b"key", value: b"value"[..].into() };
    let (one, two) = (frame(EPOCH, &[insert, Op::Remove { slot: 0 }]), frame(EPOCH + 1, &[insert]));
    let seed = |first: &[u8], rest: &[u8]| {
        // What fills the last 16 bytes begins a frame without records, where the stream ends.
        let in_files = first.len().next_multiple_of(16);
        let mut seed = vec![(in_files / 16) as u8];
        seed.extend_from_slice(first);
        seed.resize(1 + in_files, 0);
        seed.extend_from_slice(rest);
        seed
    };
    let both = [&one[..], &two].concat();
    vec![seed(&both, &two), seed(&one, &[]), seed(&[], &one), seed(&[&both[..], &both].concat(), &both)]
}

#[test]
fn the_seeds_have_frames_in_the_files_and_in_the_buffer() {
    assert_eq!(seeds().iter().map(|seed| frames_of(seed)).collect::<Vec<_>>(), [3, 1, 1, 2]);
}
