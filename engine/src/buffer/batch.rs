//! Copies of pages to be written to disk.

use crate::disk::{ALIGNMENT_BYTES, AlignedBuffer, ManyWrites, Tablespace};
use crate::error::Result;
use crate::page::PageNo;

/// Pages of a batch, at most.
pub(super) const BATCH_PAGES: usize = 32;

/// Bytes of the header that a doublewrite area has before its pages.
pub(super) const HEADER_BYTES: usize = ALIGNMENT_BYTES;

/// Copies of some pages, with room before them for a header.
pub(super) struct Batch {
    page_bytes: usize,
    bytes: AlignedBuffer,
    pages: Vec<PageNo>,
    writes: ManyWrites,
}

impl Batch {
    /// An empty one.
    pub(super) fn new(page_bytes: usize) -> Self {
        Batch {
            page_bytes,
            bytes: AlignedBuffer::new(HEADER_BYTES + BATCH_PAGES * page_bytes),
            pages: Vec::with_capacity(BATCH_PAGES),
            writes: ManyWrites::default(),
        }
    }

    /// Makes it empty.
    pub(super) fn clear(&mut self) {
        self.pages.clear();
    }

    /// Memory for one page more; it is not full.
    pub(super) fn push(&mut self, page: PageNo) -> &mut [u8] {
        assert!(self.pages.len() < BATCH_PAGES);
        self.pages.push(page);
        let at = HEADER_BYTES + (self.pages.len() - 1) * self.page_bytes;
        &mut self.bytes.bytes_mut()[at..at + self.page_bytes]
    }

    /// The numbers of its pages.
    pub(super) fn pages(&self) -> &[PageNo] {
        &self.pages
    }

    /// Header and pages in one piece, with this header.
    pub(super) fn with_header(&mut self, header: &[u8]) -> &[u8] {
        self.bytes.bytes_mut()[..HEADER_BYTES].copy_from_slice(header);
        &self.bytes.bytes()[..HEADER_BYTES + self.pages.len() * self.page_bytes]
    }

    /// Writes the pages to their places.
    pub(super) fn write_in_place(&mut self, space: &Tablespace) -> Result<()> {
        let runs = runs(&self.pages, self.page_bytes, &self.bytes.bytes()[HEADER_BYTES..]);
        space.write_many(runs, &mut self.writes)
    }
}

/// Pages that are contiguous in a stripe, as one piece: the first one's number, and the bytes.
fn runs<'b>(
    pages: &'b [PageNo],
    page_bytes: usize,
    mut bytes: &'b [u8],
) -> impl Iterator<Item = (u64, &'b [u8])> {
    let follows = |before: &PageNo, page: &PageNo| {
        page.0 == before.0 + 1 && !page.0.is_multiple_of(Tablespace::STRIPE_PAGES)
    };
    pages.chunk_by(follows).map(move |run| {
        let (of_run, rest) = bytes.split_at(run.len() * page_bytes);
        bytes = rest;
        (run[0].0, of_run)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;

    #[test]
    fn pages_in_a_row_are_one_piece_up_to_the_end_of_their_stripe() {
        let space = Tablespace::create(&MemoryDisk::default(), 2, 4096).unwrap();
        space.grow(200).unwrap();
        let mut batch = Batch::new(4096);
        for page in [3, 62, 63, 64, 65, 66, 128] {
            batch.push(PageNo(page)).fill(page as u8);
        }
        batch.write_in_place(&space).unwrap();
        let runs: Vec<_> = runs(&batch.pages, 4096, &batch.bytes.bytes()[HEADER_BYTES..])
            .map(|(first, bytes)| (first, bytes.len() / 4096))
            .collect();
        assert_eq!(runs, [(3, 1), (62, 2), (64, 3), (128, 1)]);
        let mut buffer = AlignedBuffer::new(4096);
        for page in [3, 62, 63, 64, 65, 66, 128] {
            space.read(page, buffer.bytes_mut()).unwrap();
            assert!(buffer.bytes().iter().all(|&byte| byte == page as u8), "{page}");
        }
    }
}
