//! The log buffer: a ring of words that many threads fill and one empties.
//!
//! A frame's place is given by one `fetch_add`; its bytes are stored as plain words; its first word is stored last, with
//! release order: nonzero, it says that the whole frame is there. So the ring itself keeps account of what is
//! complete, and nobody waits for anybody. Whoever empties it reads the first word of the next frame, copies the
//! frame, zeroes its words, and only then gives the room back.
//!
//! # Invariants
//! - `freed <= next <= promised <= freed + the ring's size`, and `promised - next` is what the promises that are out
//!   can still append.
//! - Every word in `[next, freed + size)` is zero: the first word of a frame that is not complete is zero.
//! - Only one thread at a time collects (the writer's lock sees to that).

use super::frame::{ALIGNMENT_BYTES, HEADER_BYTES, frame_bytes, header};
use crate::page::Lsn;
use crate::sync::{AtomicU64, Ordering};

const WORD_BYTES: u64 = ALIGNMENT_BYTES;

/// The two counters that each mini-transaction changes, on a cache line of their own.
#[repr(align(128))]
struct Places {
    /// Where the next frame begins.
    next: AtomicU64,
    /// `next`, and what the promises that are out may need.
    promised: AtomicU64,
}

pub(super) struct Ring {
    places: Places,
    /// All before it was taken out, and its words are zero again.
    freed: AtomicU64,
    words: Box<[AtomicU64]>,
    epoch: u32,
}

/// Why a promise is not given.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// What is in the buffer must be written first.
    InRing,
    /// A checkpoint must be made first.
    InFiles,
}

impl Ring {
    /// A ring of at least `bytes`, for a stream that goes on at `start`.
    pub(super) fn new(bytes: u64, start: Lsn, epoch: u32) -> Self {
        let words = (bytes / WORD_BYTES).next_power_of_two();
        Ring {
            places: Places { next: AtomicU64::new(start.0), promised: AtomicU64::new(start.0) },
            freed: AtomicU64::new(start.0),
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            epoch,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.words.len() as u64 * WORD_BYTES
    }

    pub(super) fn next(&self) -> Lsn {
        // Acquire, and release in `append`: who sees a frame's place taken sees what its thread did before.
        Lsn(self.places.next.load(Ordering::Acquire))
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
        // In this order: what was promised before `next` is read, and is used before the second read, is not missed,
        // since `promised` never falls below `next`.
        let next = self.places.next.load(Ordering::SeqCst);
        self.places.promised.load(Ordering::SeqCst) != next
    }

    /// Gives back what was promised and is not used.
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

    /// Takes complete frames off the ring, from `from` on, and appends them to `out`, up to `bytes_max` and one frame
    /// beyond; gives the end of the last. Only one thread at a time may do this.
    pub(super) fn collect(&self, from: Lsn, out: &mut Vec<u8>, bytes_max: u64) -> Lsn {
        let mut at = from.0;
        while at - from.0 < bytes_max {
            let first = self.word(at).load(Ordering::Acquire);
            if first == 0 {
                break;
            }
            let end = at + frame_bytes((first & 0xffff_ffff) as usize);
            while at < end {
                let word = self.word(at);
                out.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
                word.store(0, Ordering::Relaxed);
                at += WORD_BYTES;
            }
        }
        // Release: who is promised this room finds zeros there.
        self.freed.store(at, Ordering::Release);
        Lsn(at)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_appended_is_collected_in_order() {
        let ring = Ring::new(256, Lsn(4096), 1);
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
        let ring = Ring::new(256, Lsn(4096), 1);
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
        let ring = Ring::new(64, Lsn(0), 1);
        for _ in 0..2 {
            ring.try_promise(32, u64::MAX).unwrap();
            ring.append(b"0123456789", 32, Lsn(0));
        }
        let mut out = Vec::new();
        assert_eq!(ring.collect(Lsn(0), &mut out, 1 << 20), Lsn(64));
        assert_eq!(out.len(), 64);
        assert_eq!(ring.collect(Lsn(64), &mut out, 1 << 20), Lsn(64));
    }
}

/// Every interleaving of two threads that append and one that collects.
#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;

    use super::super::frame::{Found, find};
    use super::*;

    #[test]
    fn frames_come_out_whole_and_in_order() {
        loom::model(|| {
            let ring = Arc::new(Ring::new(64, Lsn(0), 1));
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
            at = ring.collect(at, &mut out, 1 << 20);
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            at = ring.collect(at, &mut out, 1 << 20);
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
            let ring = Arc::new(Ring::new(32, Lsn(0), 1));
            ring.try_promise(24, u64::MAX).unwrap();
            ring.append(&[1; 3], 24, Lsn(0));
            let writer = {
                let ring = Arc::clone(&ring);
                loom::thread::spawn(move || {
                    if ring.try_promise(24, u64::MAX).is_ok() {
                        ring.append(&[2; 3], 24, Lsn(0));
                    }
                })
            };
            let (mut out, mut at) = (Vec::new(), Lsn(0));
            at = ring.collect(at, &mut out, 1 << 20);
            at = ring.collect(at, &mut out, 1 << 20);
            writer.join().unwrap();
            at = ring.collect(at, &mut out, 1 << 20);
            assert!(at == Lsn(24) || at == Lsn(48));
            for start in (0..at.0).step_by(24) {
                assert!(matches!(find(start, &out[start as usize..], 8), Found::Frame { .. }));
            }
        });
    }
}
