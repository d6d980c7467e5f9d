//! Reading the log after a crash: the one parser of frames.

use super::BLOCK_BYTES;
use super::files::LogFiles;
use super::frame::{Found, find};
use crate::disk::{AlignedBuffer, Checkpoint};
use crate::error::Result;
use crate::page::Lsn;

/// Read at a time.
const CHUNK_BYTES: u64 = 1 << 20;

/// Gives the frames of a log in order, until the stream ends.
pub(crate) struct Reader<'f> {
    files: &'f LogFiles,
    payload_max: usize,
    /// The most that can be there.
    limit: u64,
    /// LSN of the next frame, and of what `bytes` begin with.
    at: u64,
    bytes_at: u64,
    bytes: Vec<u8>,
    epoch: u32,
    chunk: AlignedBuffer,
}

impl<'f> Reader<'f> {
    /// From `start` on, where a frame begins or the stream ends. `payload_max`: the most that records of a frame have.
    pub(crate) fn new(files: &'f LogFiles, start: Checkpoint, payload_max: usize) -> Self {
        Reader {
            files,
            payload_max,
            limit: start.lsn + files.capacity_bytes(),
            at: start.lsn,
            bytes_at: start.lsn / BLOCK_BYTES * BLOCK_BYTES,
            bytes: Vec::new(),
            epoch: start.epoch,
            chunk: AlignedBuffer::new(CHUNK_BYTES as usize),
        }
    }

    /// Gives the next frame's end and records to `each`; false at the end of the stream.
    pub(crate) fn next(&mut self, mut each: impl FnMut(Lsn, &[u8]) -> Result<()>) -> Result<bool> {
        loop {
            let within = (self.at - self.bytes_at) as usize;
            match find(self.at, self.bytes.get(within..).unwrap_or(&[]), self.payload_max) {
                // A frame of an earlier opening, behind the last one of this: it never counted.
                Found::Frame { epoch, .. } if epoch < self.epoch => return Ok(false),
                Found::Frame { bytes, epoch, payload } => {
                    (self.at, self.epoch) = (self.at + bytes, epoch);
                    return each(Lsn(self.at), payload).map(|()| true);
                }
                Found::End => return Ok(false),
                Found::More(bytes) if self.at + bytes as u64 > self.limit => return Ok(false),
                Found::More(_) => self.read_more()?,
            }
        }
    }

    /// The end of the last frame that was given.
    pub(crate) fn end(&self) -> Lsn {
        Lsn(self.at)
    }

    /// What the block holds in which the stream ends, up to there.
    pub(crate) fn tail(&mut self) -> Result<Vec<u8>> {
        let block = self.at / BLOCK_BYTES * BLOCK_BYTES;
        let mut buffer = AlignedBuffer::new(BLOCK_BYTES as usize);
        self.files.read(block, buffer.bytes_mut())?;
        Ok(buffer.bytes()[..(self.at - block) as usize].to_vec())
    }

    fn read_more(&mut self) -> Result<()> {
        let used = ((self.at - self.bytes_at) / BLOCK_BYTES * BLOCK_BYTES) as usize;
        self.bytes.drain(..used.min(self.bytes.len()));
        self.bytes_at += used as u64;
        self.files.read(self.bytes_at + self.bytes.len() as u64, self.chunk.bytes_mut())?;
        self.bytes.extend_from_slice(self.chunk.bytes());
        Ok(())
    }
}
