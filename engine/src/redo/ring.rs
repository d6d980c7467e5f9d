//! The log buffer: a ring of words that many threads fill and one empties.
//!
//! One `fetch_add` gives a frame its place; its bytes are stored as plain words; its first word is stored last, with
//! release order: a nonzero first word means that the frame is complete. So the ring itself records which frames are
//! complete, and no thread waits for another. The thread that empties it reads the first word of the next frame, copies
//! the frame, writes it to the log's files, zeroes its words, and only then frees the space. The words may be a file's
//! ([`LogBuffer`](super::LogBuffer)): then a frame survives the process once it and all before it are complete.
//!
//! # Invariants
//! - `freed <= complete <= next <= promised <= freed + the ring's size`, and `promised - next` is what the outstanding
//!   promises can still append.
//! - Every word in `[next, freed + size)` is zero: the first word of an incomplete frame is zero.
//! - A frame's words do not change from its completion until `complete` has passed it and it was released.
//! - Only one thread at a time collects and releases (under the writer's lock).

use flifo_base::CacheAligned;

use super::frame::{ALIGNMENT_BYTES, HEADER_BYTES, frame_bytes, header};
use crate::page::Lsn;

use crate::sync::{AtomicU64, Ordering, fence};
use crate::wait::poll;

const WORD_BYTES: u64 = ALIGNMENT_BYTES;
/// Polls of a thread that waits for others to copy their frames, before it yields the CPU.
const POLLS: u32 = 64;
/// The fill that is worth a write: this, or a quarter of the ring.
const WORTH_A_WRITE_BYTES: u64 = 512 << 10;

#[cfg(not(loom))]
pub(super) type Words = crate::disk::SharedWords;
#[cfg(loom)]
pub(super) type Words = Box<[AtomicU64]>;

/// The model checker's words replace any.
#[cfg(loom)]
impl From<crate::disk::SharedWords> for Words {
    fn from(words: crate::disk::SharedWords) -> Self {
        words.iter().map(|_| AtomicU64::new(0)).collect()
    }
}

/// The two counters that each mini-transaction changes.
struct Places {
    /// Where the next frame begins.
    next: AtomicU64,
    /// `next`, and what the promises that are out may need.
    promised: AtomicU64,
}

pub(super) struct Ring {
    places: CacheAligned<Places>,
    /// On its own cache line, since each commit reads it and often writes it. All frames before it are complete; some
    /// behind it may be too. A thread that needs the end advances it. It never decreases.
    complete: CacheAligned<AtomicU64>,
    /// All before it was taken out, and its words are zero again. Grows.
    freed: AtomicU64,
    words: Words,
    epoch: u32,
}

/// Why a promise is not given.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// The content of the buffer must be written first.
    InRing,
    /// A checkpoint must be made first.
    InFiles,
}

impl Ring {
    /// Creates a ring of these words, a power of two and all zero, for a stream that continues at `start`.
    pub(super) fn new(words: impl Into<Words>, start: Lsn, epoch: u32) -> Self {
        let words = words.into();
        assert!(words.len().is_power_of_two());
        Ring {
            places: CacheAligned(Places { next: AtomicU64::new(start.0), promised: AtomicU64::new(start.0) }),
            complete: CacheAligned(AtomicU64::new(start.0)),
            freed: AtomicU64::new(start.0),
            words,
            epoch,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.words.len() as u64 * WORD_BYTES
    }

    pub(super) fn next(&self) -> Lsn {
        // Acquire, with the release in `append`: a thread that sees a frame's place taken sees the earlier actions of
        // its thread.
        Lsn(self.places.next.load(Ordering::Acquire))
    }

    /// The end of the frames, if all promises were used in full.
    pub(super) fn promised(&self) -> u64 {
        self.places.promised.load(Ordering::Acquire)
    }

    #[inline]
    fn word(&self, lsn: u64) -> &AtomicU64 {
        &self.words[(lsn / WORD_BYTES) as usize & (self.words.len() - 1)]
    }

    /// Promises room for `bytes`; all appended stays before `file_end`.
    pub(super) fn try_promise(&self, bytes: u64, file_end: u64) -> Result<(), NoRoom> {
        // Acquire: the words that were freed are seen as zeros.
        let ring_end = self.freed.load(Ordering::Acquire) + self.bytes();
        let promised = &self.places.promised;
        let mut now = promised.load(Ordering::Relaxed);
        loop {
            let then = now + bytes;
            if then > file_end {
                return Err(NoRoom::InFiles);
            }
            if then > ring_end {
                return Err(NoRoom::InRing);
            }
            match promised.compare_exchange_weak(now, then, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(seen) => now = seen,
            }
        }
    }

    /// Whether anything may still be appended.
    pub(super) fn has_promises(&self) -> bool {
        // In this order: a promise outstanding before `next` is read, and used before the second read, is not missed,
        // since `promised` never falls below `next`.
        let next = self.places.next.load(Ordering::SeqCst);
        self.places.promised.load(Ordering::SeqCst) != next
    }

    /// Returns the unused part of a promise.
    pub(super) fn give_back(&self, bytes: u64) {
        self.places.promised.fetch_sub(bytes, Ordering::Release);
    }

    /// Appends a frame, for which `promised` bytes were promised; gives its end. All before `durable` is durable.
    pub(super) fn append(&self, payload: &[u8], promised: u64, durable: Lsn) -> Lsn {
        let bytes = frame_bytes(payload.len());
        assert!(bytes <= promised && !payload.is_empty(), "a frame larger than was promised, or empty");
        let start = self.places.next.fetch_add(bytes, Ordering::AcqRel);
        // Only now: `next` must never pass `promised`.
        self.give_back(promised - bytes);
        // Paired with the fence in `is_complete`: a thread that sees one of these words sees that `complete` has passed
        // the old frame.
        fence(Ordering::Release);
        let [first, second] = header(start, self.epoch, durable.0, payload);
        self.word(start + WORD_BYTES).store(second, Ordering::Relaxed);
        let mut at = start + HEADER_BYTES as u64;
        let (whole, rest) = payload.as_chunks::<8>();
        for chunk in whole {
            self.word(at).store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
            at += WORD_BYTES;
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.word(at).store(u64::from_le_bytes(last), Ordering::Relaxed);
        }
        self.word(start).store(first, Ordering::Release);
        Lsn(start + bytes)
    }

    /// Whether it has enough for a write that no thread waits for.
    pub(super) fn is_worth_a_write(&self) -> bool {
        // In this order, since both grow.
        let freed = self.freed.load(Ordering::Acquire);
        self.next().0 - freed >= WORTH_A_WRITE_BYTES.min(self.bytes() / 4)
    }

    /// Whether all frames before `lsn` are complete. Frames before `next` soon will be.
    pub(super) fn is_complete(&self, lsn: Lsn) -> bool {
        let mut at = self.complete.load(Ordering::Acquire);
        let begun = at;
        while at < lsn.0 {
            let first = self.word(at).load(Ordering::Acquire);
            // If another frame is there by now, or zeros, `complete` has passed `at` since.
            fence(Ordering::Acquire);
            let now = self.complete.load(Ordering::Acquire);
            if now > at {
                at = now;
            } else if first == 0 {
                break;
            } else {
                at += frame_bytes_of(first);
            }
        }
        if at > begun {
            // Release: a thread that continues from there sees the frames before it complete, as this one did.
            self.complete.fetch_max(at, Ordering::Release);
        }
        at >= lsn.0
    }

    /// Returns once all frames before `lsn` are complete, which is at most `next`.
    pub(super) fn wait_until_complete(&self, lsn: Lsn) {
        while !poll(POLLS, || self.is_complete(lsn)) {
            std::thread::yield_now();
        }
    }

    /// Appends to `out` the complete frames from `from` on, where all was released before, up to `bytes_max` and one frame
    /// beyond; gives the end of the last. Only one thread at a time may do this.
    pub(super) fn collect(&self, from: Lsn, out: &mut Vec<u8>, bytes_max: u64) -> Lsn {
        let mut at = from.0;
        while at - from.0 < bytes_max {
            let first = self.word(at).load(Ordering::Acquire);
            if first == 0 {
                break;
            }
            let end = at + frame_bytes_of(first);
            while at < end {
                out.extend_from_slice(&self.word(at).load(Ordering::Relaxed).to_le_bytes());
                at += WORD_BYTES;
            }
            // The ring may be full of complete frames: the next word is the first one's.
            if at - self.freed.load(Ordering::Relaxed) >= self.bytes() {
                break;
            }
        }
        Lsn(at)
    }

    /// Frees the space of the frames collected up to `to`, which are in the log's files now.
    pub(super) fn release(&self, to: Lsn) {
        // From now on, readers of these words see that they are complete without the words.
        self.complete.fetch_max(to.0, Ordering::Release);
        fence(Ordering::Release);
        let mut at = self.freed.load(Ordering::Relaxed);
        while at < to.0 {
            self.word(at).store(0, Ordering::Relaxed);
            at += WORD_BYTES;
        }
        // Release: a thread that gets this space finds zeros there.
        self.freed.store(at, Ordering::Release);
    }
}

/// Bytes of the frame with this first word.
fn frame_bytes_of(first: u64) -> u64 {
    frame_bytes((first & 0xffff_ffff) as usize)
}

/// Words for a ring of `bytes`, of no file.
#[cfg(test)]
pub(super) fn words(bytes: u64) -> Words {
    let words = (0..bytes / WORD_BYTES).map(|_| AtomicU64::new(0));
    #[cfg(not(loom))]
    return crate::disk::SharedWords::in_memory(words.collect());
    #[cfg(loom)]
    words.collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_appended_is_collected_in_order() {
        let ring = Ring::new(words(256), Lsn(4096), 1);
        ring.try_promise(48, u64::MAX).unwrap();
        assert_eq!(ring.append(b"abc", 48, Lsn(0)), Lsn(4096 + 24));
        ring.try_promise(32, u64::MAX).unwrap();
        assert_eq!(ring.append(b"0123456789", 32, Lsn(0)), Lsn(4096 + 56));
        let mut out = Vec::new();
        assert_eq!(ring.collect(Lsn(4096), &mut out, 1 << 20), Lsn(4096 + 56));
        assert_eq!(out.len(), 56);
        assert_eq!(&out[16..19], b"abc");
        assert_eq!(&out[40..50], b"0123456789");
    }

    #[test]
    fn a_promise_counts_until_it_is_used_or_given_back() {
        let ring = Ring::new(words(256), Lsn(4096), 1);
        ring.try_promise(200, u64::MAX).unwrap();
        assert_eq!(ring.try_promise(64, u64::MAX), Err(NoRoom::InRing));
        ring.append(b"abc", 200, Lsn(0));
        ring.try_promise(232, u64::MAX).unwrap();
        assert_eq!(ring.try_promise(8, u64::MAX), Err(NoRoom::InRing));
        ring.give_back(232);
        assert_eq!(ring.try_promise(8, 4096 + 24), Err(NoRoom::InFiles));
        ring.try_promise(8, 4096 + 32).unwrap();
    }

    #[test]
    fn a_full_ring_is_emptied_once() {
        let ring = Ring::new(words(64), Lsn(0), 1);
        for _ in 0..2 {
            ring.try_promise(32, u64::MAX).unwrap();
            ring.append(b"0123456789", 32, Lsn(0));
        }
        let mut out = Vec::new();
        assert_eq!(ring.collect(Lsn(0), &mut out, 1 << 20), Lsn(64));
        assert_eq!(out.len(), 64);
        assert_eq!(ring.try_promise(8, u64::MAX), Err(NoRoom::InRing));
        ring.release(Lsn(64));
        assert_eq!(ring.collect(Lsn(64), &mut out, 1 << 20), Lsn(64));
        ring.try_promise(64, u64::MAX).unwrap();
    }

    #[test]
    fn frames_are_complete_in_order() {
        let ring = Ring::new(words(64), Lsn(0), 1);
        assert!(ring.is_complete(Lsn(0)));
        ring.try_promise(64, u64::MAX).unwrap();
        // One that is being copied.
        ring.places.next.fetch_add(24, Ordering::Relaxed);
        let end = ring.append(&[7; 3], 40, Lsn(0));
        assert!(!ring.is_complete(Lsn(24)) && !ring.is_complete(end));
        let [first, second] = header(0, 1, 0, b"abc");
        for (at, word) in [(8, second), (16, u64::from(b'a')), (0, first)] {
            ring.word(at).store(word, Ordering::Release);
        }
        assert!(ring.is_complete(Lsn(24)) && ring.is_complete(end));
        ring.release(end);
        assert!(ring.is_complete(end));
    }
}

/// Every interleaving of two threads that append and one that collects.
#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;

    use super::super::frame::{Found, find};
    use super::*;

    /// What the writer does.
    fn write(ring: &Ring, from: Lsn, out: &mut Vec<u8>) -> Lsn {
        let to = ring.collect(from, out, 1 << 20);
        ring.release(to);
        to
    }

    /// A ring with room for one frame, which it has, and a thread that appends another one if there is room by then.
    fn refilled(epoch: u32) -> (Arc<Ring>, loom::thread::JoinHandle<()>) {
        let ring = Arc::new(Ring::new(words(32), Lsn(0), epoch));
        ring.try_promise(24, u64::MAX).unwrap();
        ring.append(&[1; 3], 24, Lsn(0));
        let of_writer = Arc::clone(&ring);
        let writer = loom::thread::spawn(move || {
            if of_writer.try_promise(24, u64::MAX).is_ok() {
                let end = of_writer.append(&[2; 3], 24, Lsn(0));
                assert!(of_writer.is_complete(end));
            }
        });
        (ring, writer)
    }

    #[test]
    fn frames_come_out_whole_and_in_order() {
        loom::model(|| {
            let ring = Arc::new(Ring::new(words(64), Lsn(0), 1));
            let writers: Vec<_> = (1..=2u8)
                .map(|byte| {
                    let ring = Arc::clone(&ring);
                    loom::thread::spawn(move || {
                        while ring.try_promise(24, u64::MAX).is_err() {
                            loom::thread::yield_now();
                        }
                        ring.append(&[byte; 3], 24, Lsn(0));
                    })
                })
                .collect();
            let (mut out, mut at) = (Vec::new(), Lsn(0));
            at = write(&ring, at, &mut out);
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            at = write(&ring, at, &mut out);
            assert_eq!(at, Lsn(48));
            let mut seen = 0;
            for start in [0, 24] {
                let Found::Frame { payload, .. } = find(start, &out[start as usize..], 8) else {
                    panic!("not whole")
                };
                assert!(payload.iter().all(|&byte| byte == payload[0]));
                seen += payload[0];
            }
            assert_eq!(seen, 3);
        });
    }

    /// The ring has room for one frame: the second must find the first one's words zeroed.
    #[test]
    fn room_is_given_back_zeroed() {
        loom::model(|| {
            let (ring, writer) = refilled(1);
            let (mut out, mut at) = (Vec::new(), Lsn(0));
            at = write(&ring, at, &mut out);
            at = write(&ring, at, &mut out);
            writer.join().unwrap();
            at = write(&ring, at, &mut out);
            assert!(at == Lsn(24) || at == Lsn(48));
            for start in (0..at.0).step_by(24) {
                assert!(matches!(find(start, &out[start as usize..], 8), Found::Frame { .. }));
            }
        });
    }

    /// A frame that a thread finds complete is complete, even if it is removed and another is appended in its place at
    /// the same time: the ring has room for one, and the second frame's second word, with the epoch, lies where the
    /// first one's length was.
    #[test]
    fn what_is_complete_was_appended() {
        loom::model(|| {
            let (ring, writer) = refilled(1000);
            let other = {
                let ring = Arc::clone(&ring);
                loom::thread::spawn(move || {
                    let next = ring.next();
                    let complete = ring.is_complete(next);
                    assert!(complete || next == Lsn(48));
                    assert!(ring.complete.load(Ordering::Acquire) <= 48);
                })
            };
            let mut out = Vec::new();
            let at = write(&ring, Lsn(0), &mut out);
            writer.join().unwrap();
            other.join().unwrap();
            write(&ring, at, &mut out);
            assert!(ring.is_complete(ring.next()));
        });
    }
}
