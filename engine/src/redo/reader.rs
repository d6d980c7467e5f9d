//! Reading the log after a crash: the one parser of frames.

use super::BLOCK_BYTES;
use super::buffer_file::LogBuffer;
use super::files::LogFiles;
use super::frame::{ALIGNMENT_BYTES, Found, HEADER_BYTES, find, may_begin};
use crate::disk::{AlignedBuffer, Checkpoint};
use crate::error::Result;
use crate::page::Lsn;

/// So far behind the end of the stream is looked for what tells that it went on.
const BEHIND_BYTES: u64 = 64 << 20;
/// Read at a time; a fuzzer's logs are small.
const CHUNK_BYTES: u64 = if cfg!(fuzzing) { 16 << 10 } else { 1 << 20 };

/// Gives the frames of a log in order, until the stream ends.
pub(crate) struct Reader<'f> {
    files: &'f LogFiles,
    payload_max: usize,
    /// The most that can be there, and where the files' room ends.
    limit: u64,
    room_end: u64,
    /// LSN of the next frame, and of what `bytes` begin with.
    at: u64,
    bytes_at: u64,
    bytes: Vec<u8>,
    epoch: u32,
    /// The greatest that there is, unless the data files are older than the log.
    last_epoch: u32,
    chunk: AlignedBuffer,
}

impl<'f> Reader<'f> {
    /// From `start` on, where a frame begins or the stream ends. `last_epoch`: of the last opening that wrote.
    /// `payload_max`: the most that records of a frame have.
    pub(crate) fn new(files: &'f LogFiles, start: Checkpoint, last_epoch: u32, payload_max: usize) -> Self {
        let first_block = start.lsn / BLOCK_BYTES * BLOCK_BYTES;
        Reader {
            files,
            payload_max,
            limit: start.lsn + files.capacity_bytes(),
            room_end: first_block + files.capacity_bytes(),
            at: start.lsn,
            bytes_at: first_block,
            bytes: Vec::new(),
            epoch: start.epoch,
            last_epoch,
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
                Found::Frame { bytes, epoch, payload, .. } => {
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

    /// That of the last frame that was given, or the least that it could have.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// At the end of the stream: puts into the files what the process had appended behind it and not written when it was
    /// killed. Reading goes on with that.
    pub(crate) fn take_over(&mut self, buffer: &LogBuffer) -> Result<()> {
        let mut rest = buffer.frames_from(self.end(), self.epoch, self.payload_max);
        // As the writer does: zeros behind the last frame, up to the block's end.
        let end = (self.at + rest.len() as u64).next_multiple_of(BLOCK_BYTES);
        if !rest.is_empty() && end <= self.room_end {
            rest.resize((end - self.at) as usize, 0);
            self.files.write(self.end(), &rest)?;
            self.begin_at(self.at);
        }
        Ok(())
    }

    /// Looks behind the end of the stream for frames that were appended when more than it has was durable; the most that
    /// they tell of, or 0. After a crash there may be frames behind a hole: the hole was never durable, and they say so.
    /// But if a block that was durable is lost, the frames behind it tell.
    pub(crate) fn durable_behind(&mut self) -> Result<Lsn> {
        let (end, last) = (self.at, self.limit.min(self.at + BEHIND_BYTES));
        let epochs = self.epoch..=self.last_epoch.max(self.epoch);
        let mut durable = 0;
        while self.at + ALIGNMENT_BYTES < last {
            let within = (self.at - self.bytes_at) as usize;
            let bytes = self.bytes.get(within..).unwrap_or(&[]);
            let step = match may_begin(bytes, epochs.clone(), self.payload_max) {
                true => find(self.at, bytes, self.payload_max),
                false if bytes.len() < HEADER_BYTES => Found::More(HEADER_BYTES),
                false => Found::End,
            };
            match step {
                Found::Frame { bytes, durable: then, .. } => {
                    durable = durable.max(then);
                    self.at += bytes;
                }
                Found::More(bytes) if self.at + bytes as u64 <= self.limit => self.read_more()?,
                Found::More(_) | Found::End => self.at += ALIGNMENT_BYTES,
            }
        }
        self.begin_at(end);
        Ok(Lsn(durable))
    }

    /// Goes on at `lsn`, with what the files have there now.
    fn begin_at(&mut self, lsn: u64) {
        (self.at, self.bytes_at) = (lsn, lsn / BLOCK_BYTES * BLOCK_BYTES);
        self.bytes.clear();
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
