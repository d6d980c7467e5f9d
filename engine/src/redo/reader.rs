//! Reading the log after a crash: the one parser of frames.

use std::ops::RangeInclusive;

use super::BLOCK_BYTES;
use super::buffer_file::LogBuffer;
use super::files::LogFiles;
use super::frame::{ALIGNMENT_BYTES, Found, HEADER_BYTES, find, length_in, may_begin};
use crate::disk::{AlignedBuffer, Checkpoint};
use crate::error::{Error, Result};
use crate::page::Lsn;

/// The distance behind the end of the stream that is searched for later frames.
const BEHIND_BYTES: u64 = 64 << 20;
/// The distance at both ends of a closed log that is searched for later frames: enough for complete frames, and
/// limited, because a log may have gigabytes.
const ENDS_BYTES: u64 = if cfg!(test) { 128 << 10 } else { 32 << 20 };
/// False matches that look like a frame may have this many times the length of the files in total.
const DOUBTS_MAX: u64 = 8;
/// Read at a time; a fuzzer's logs are small.
const CHUNK_BYTES: u64 = if cfg!(fuzzing) { 16 << 10 } else { 1 << 20 };

static ZEROS: [u8; BLOCK_BYTES as usize] = [0; BLOCK_BYTES as usize];

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
    /// The highest epoch, unless the data files are older than the log.
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

    /// At the end of the stream: moves the frames that the killed process had appended behind it, but not written, into
    /// the files. Reading continues with these. A crash leaves no more than fits, but data files that were restored
    /// from an older copy begin further back. Then the log is refused, since the rest may have been acknowledged.
    pub(crate) fn take_over(&mut self, buffer: &LogBuffer) -> Result<()> {
        let mut rest = buffer.frames_from(self.end(), self.epoch, self.payload_max);
        // As the writer does: zeros behind the last frame, up to the block's end.
        let last = self.at + rest.len() as u64;
        let end = last.next_multiple_of(BLOCK_BYTES);
        if rest.is_empty() {
            return Ok(());
        }
        if end > self.room_end {
            let what = format!(
                "its buffer goes on up to {last}, further behind the data files' checkpoint than it has room for: they are of an \
                 older copy"
            );
            return Err(Error::CorruptRedo { path: "the redo log".to_owned(), what });
        }
        rest.resize((end - self.at) as usize, 0);
        self.files.write(self.end(), &rest)?;
        self.begin_at(self.at);
        Ok(())
    }

    /// Searches behind the end of the stream for frames that were appended when more than the log has was durable;
    /// returns the highest durable end that they record, or 0. After a crash there may be frames behind a hole. The
    /// hole was never durable, and these frames show it. But if a durable block is lost, the frames behind it show
    /// that.
    pub(crate) fn durable_behind(&mut self) -> Result<Lsn> {
        let (end, last) = (self.at, self.limit.min(self.at + BEHIND_BYTES));
        let epochs = self.epoch..=self.last_epoch.max(self.epoch);
        let mut durable = 0;
        while self.at + ALIGNMENT_BYTES < last {
            match self.find_of(epochs.clone(), self.at) {
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

    /// At the end of the stream: whether a frame behind it in the files would pass for one of the frames appended from
    /// here on. After a clean close there is none: frames that a crash left behind a hole have a lower epoch. But data
    /// files that were restored from an older copy do not know the openings since, nor how far these wrote. If these
    /// went once around the files, their last frames lie from here on, and those of a cycle ago before it, at the end
    /// of the log's space. In doubt this returns true, so that no content of rows makes it take long.
    pub(crate) fn is_followed(&mut self) -> Result<bool> {
        let (end, round) = (self.at, self.files.capacity_bytes());
        let (mut doubts, mut is_followed) = (0, false);
        let (front, back) =
            (end + ENDS_BYTES, self.limit.saturating_sub(ENDS_BYTES) / BLOCK_BYTES * BLOCK_BYTES);
        while !is_followed && self.at + ALIGNMENT_BYTES < self.limit {
            if (front..back).contains(&self.at) {
                self.begin_at(back);
            }
            match self.find_of(self.epoch..=u32::MAX, self.at) {
                Found::Frame { .. } => is_followed = true,
                Found::More(_) => self.read_more()?,
                // As it should be, it is of the round before.
                Found::End => match self.find_of(0..=self.epoch, self.at.saturating_sub(round)) {
                    Found::Frame { bytes, .. } => self.at += bytes,
                    Found::More(_) => self.read_more()?,
                    Found::End if self.rest().starts_with(&ZEROS) => self.at += BLOCK_BYTES,
                    Found::End => {
                        doubts +=
                            length_in(self.rest()).filter(|&length| length <= self.payload_max).unwrap_or(0);
                        is_followed = doubts as u64 > DOUBTS_MAX * round;
                        self.at += ALIGNMENT_BYTES;
                    }
                },
            }
        }
        self.begin_at(end);
        Ok(is_followed)
    }

    /// The unread bytes, from the next frame on.
    fn rest(&self) -> &[u8] {
        self.bytes.get((self.at - self.bytes_at) as usize..).unwrap_or(&[])
    }

    /// The frame of an epoch in `epochs` that lies here, if `lsn` is its LSN.
    fn find_of(&self, epochs: RangeInclusive<u32>, lsn: u64) -> Found<'_> {
        let bytes = self.rest();
        match may_begin(bytes, epochs, self.payload_max) {
            true => find(lsn, bytes, self.payload_max),
            false if bytes.len() < HEADER_BYTES => Found::More(HEADER_BYTES),
            false => Found::End,
        }
    }

    /// Continues at `lsn`, with the present content of the files.
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
