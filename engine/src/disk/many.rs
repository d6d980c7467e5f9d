//! Many concurrent writes by one thread, with io_uring.
//!
//! A thread that writes pages one by one sleeps and wakes for each, and the disk has only one of its writes at a time.
//! Here the kernel gets all of them in one call, and wakes the thread when all have ended.
//!
//! Without a ring (a kernel before 6.1, `kernel.io_uring_disabled`, a container's seccomp profile), or on a simulated
//! file, the pages are written one by one. Writes that a ring has not completed are repeated that way, so that an error
//! comes from [`DiskFile::write_at`].
//!
//! Writes that the kernel has accepted continue after the process is killed: see `opening.rs`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::thread::ThreadId;
use std::time::Duration;

use io_uring::{IoUring, opcode, types::Fd};
use smallvec::SmallVec;

use super::DiskFile;

/// Writes in flight, at most.
pub(super) const IN_FLIGHT_MAX: usize = 32;

/// The kernel could not take more for now.
const SOON: Duration = Duration::from_millis(1);

/// A write.
pub(super) struct Piece<'p> {
    pub(super) file: &'p dyn DiskFile,
    pub(super) offset: u64,
    pub(super) bytes: &'p [u8],
}

/// A writer of many pieces, for one thread at a time.
#[derive(Default)]
pub(crate) struct ManyWrites(Ring);

#[derive(Default)]
enum Ring {
    #[default]
    Unasked,
    /// The kernel gives none.
    Refused,
    /// It takes writes from the thread that has made it.
    Of(ThreadId, Box<IoUring>),
}

impl Ring {
    /// The calling thread's, if the kernel gives one.
    fn get(&mut self) -> Option<&mut IoUring> {
        let thread = std::thread::current().id();
        if !matches!(self, Ring::Refused) && !matches!(self, Ring::Of(owner, _) if *owner == thread) {
            // Deferred task work: else each write's end would wake the thread.
            let ring =
                IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(IN_FLIGHT_MAX as u32);
            *self = ring.map_or(Ring::Refused, |ring| Ring::Of(thread, Box::new(ring)));
        }
        match self {
            Ring::Of(_, ring) => Some(ring),
            _ => None,
        }
    }
}

impl ManyWrites {
    /// Writes all of them, or fails with the index of one that cannot be written; the others are written then, or not.
    /// Durable only after [`DiskFile::sync`].
    pub(super) fn write(&mut self, pieces: &[Piece<'_>]) -> Result<(), (usize, io::Error)> {
        for (chunk, some) in pieces.chunks(IN_FLIGHT_MAX).enumerate() {
            let written = self.write_at_once(some);
            for (index, piece) in some.iter().enumerate().filter(|(index, _)| written & 1 << index == 0) {
                let written = piece.file.write_at(piece.bytes, piece.offset);
                written.map_err(|error| (chunk * IN_FLIGHT_MAX + index, error))?;
            }
        }
        Ok(())
    }

    /// Which of the pieces, a bit for each, are written.
    fn write_at_once(&mut self, pieces: &[Piece<'_>]) -> u32 {
        let descriptors: Option<SmallVec<[BorrowedFd<'_>; IN_FLIGHT_MAX]>> =
            pieces.iter().map(|piece| piece.file.descriptor()).collect();
        let Some(descriptors) = descriptors.filter(|_| pieces.len() > 1) else { return 0 };
        let Some(ring) = self.0.get() else { return 0 };
        for (index, (piece, file)) in pieces.iter().zip(descriptors).enumerate() {
            let write =
                opcode::Write::new(Fd(file.as_raw_fd()), piece.bytes.as_ptr(), piece.bytes.len() as u32)
                    .offset(piece.offset)
                    .build()
                    .user_data(index as u64);
            // SAFETY: file and memory are borrowed until this function returns, and it does not before every write that the
            // kernel was handed has ended.
            let pushed = unsafe { ring.submission().push(&write) };
            pushed.expect("an empty ring has room for a chunk of pieces");
        }
        let (mut written, mut unfinished) = (0, pieces.len());
        while unfinished > 0 {
            match ring.submit_and_wait(unfinished) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) if ring.submission().len() == pieces.len() => {
                    // The kernel may have no ring to offer for now. Dropping the ring cancels the writes that it has
                    // not accepted.
                    self.0 = Ring::Unasked;
                    return 0;
                }
                // The kernel has our memory until it says otherwise.
                Err(_) => std::thread::sleep(SOON),
            }
            for ended in ring.completion() {
                unfinished -= 1;
                let index = ended.user_data() as usize;
                if ended.result() == pieces[index].bytes.len() as i32 {
                    written |= 1 << index;
                }
            }
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::{AlignedBuffer, FileAccess, RealFile};

    const PIECE: usize = 4096;

    fn file(path: &Path, read_only: bool) -> RealFile {
        let access = FileAccess { read_only, direct: false, ..FileAccess::default() };
        RealFile::open(path, access).unwrap()
    }

    /// 100 pieces over three files, each of its own bytes.
    fn write_100(many: &mut ManyWrites, round: usize) {
        let directory = tempfile::tempdir().unwrap();
        let paths: Vec<_> = (0..3).map(|number| directory.path().join(number.to_string())).collect();
        paths.iter().for_each(|path| std::fs::write(path, []).unwrap());
        let files: Vec<_> = paths.iter().map(|path| file(path, false)).collect();
        let mut buffer = AlignedBuffer::new(100 * PIECE);
        let byte = |index: usize| (index + round) as u8;
        buffer
            .bytes_mut()
            .chunks_exact_mut(PIECE)
            .enumerate()
            .for_each(|(index, piece)| piece.fill(byte(index)));
        let pieces: Vec<_> = buffer
            .bytes()
            .chunks_exact(PIECE)
            .enumerate()
            .map(|(index, bytes)| Piece {
                file: &files[index % 3],
                offset: (index / 3 * PIECE) as u64,
                bytes,
            })
            .collect();
        many.write(&pieces).unwrap();
        for (number, path) in paths.iter().enumerate() {
            let bytes = std::fs::read(path).unwrap();
            for (within, piece) in bytes.chunks(PIECE).enumerate() {
                assert_eq!(piece, [byte(within * 3 + number); PIECE]);
            }
        }
        assert_eq!(std::fs::metadata(&paths[0]).unwrap().len(), 34 * PIECE as u64);
    }

    #[test]
    fn every_piece_goes_to_its_place_whoever_writes() {
        let mut many = ManyWrites::default();
        write_100(&mut many, 0);
        std::thread::scope(|scope| scope.spawn(|| write_100(&mut many, 1)).join().unwrap());
        write_100(&mut many, 2);
        write_100(&mut ManyWrites(Ring::Refused), 3);
    }

    #[test]
    fn what_cannot_be_written_is_said_and_the_next_ones_are() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        std::fs::write(&path, []).unwrap();
        let (full, data, fixed) =
            (file(Path::new("/dev/full"), false), file(&path, false), file(&path, true));
        let buffer = AlignedBuffer::new(PIECE);
        let piece = |file| Piece { file, offset: 0, bytes: buffer.bytes() };
        for mut many in [ManyWrites::default(), ManyWrites(Ring::Refused)] {
            let (index, error) = many.write(&[piece(&data), piece(&full), piece(&data)]).unwrap_err();
            assert_eq!((index, error.kind()), (1, io::ErrorKind::StorageFull));
            assert_eq!(many.write(&[piece(&data), piece(&data), piece(&fixed)]).unwrap_err().0, 2);
            many.write(&[piece(&data), piece(&data)]).unwrap();
        }
    }
}
