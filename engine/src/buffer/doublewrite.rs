//! The doublewrite area of one instance: pages are written here, and synced, before they are written to their own
//! locations.
//!
//! A torn page write leaves neither the old page nor the new one, and redo needs one of them. So each batch of pages
//! goes first to one of two segments of the instance's own file. If a crash tears a page at its location, the copy is
//! complete; if a crash tears the copy, the page at its location is still the old one.
//!
//! ```text
//! doublewrite0.flifo, one per instance:
//! offset                size
//!      0                     segment 0
//!   4096 + 32 pages          segment 1
//!
//! segment: offset size
//!               0    8  "flifoDW\x1a"
//!               8    4  page size
//!              12    4  pages in this batch
//!              16   16  id of the database
//!              32  8*n  their numbers
//!            4092    4  crc32c of the block so far
//!            4096       the pages, each with its own checksum
//! ```
//!
//! # Reuse
//! A segment is written again only when the pages of its last batch are durable at their locations. With two segments,
//! the data files are synced at every other batch.
//!
//! # Repair
//! Before redo, [`repair`] reads the page of each copy at its location, and writes it again from its copy with the
//! highest LSN, unless the page there is valid and newer. A page that was torn was in the last batch that contained it,
//! so that copy is the intended content. A page that reads well may be torn all the same: after a failed sync, the page
//! may be in the page cache only, and no later sync reports it. Its copy is gone two batches later, so it is written
//! now. A newer page was written by a bulk load, once, or while the doublewrite was off.
//!
//! The copies themselves are made durable before that, by writing each segment back as it was read. If the segment's
//! sync had succeeded, this changes nothing, even if it is torn. If it had failed, no page was written to its location
//! relying on it, and now one will be.
//!
//! Copies that are not newer than the checkpoint are ignored: their pages were synced before it. A copy may be years
//! old, in the area of an instance that is no longer used, or from before the doublewrite was switched off; redo could
//! not bring it up to date. The same holds for copies from before a load that filled their pages ([`VoidRanges`]).
//!
//! No valid copy is newer than the end of the log, which was durable before it. A newer copy means that a part of the
//! log is lost, or that data files and log were restored from an older copy, and the areas were not. It is refused
//! before any write: the page at its location may be good.
//!
//! An unreadable copy matters only if the page at its location is not valid, and no other copy is.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use uuid::Uuid;

use super::batch::{BATCH_PAGES, Batch, HEADER_BYTES};
use super::void_ranges::VoidRanges;
use crate::disk::{AlignedBuffer, Block, Disk, DiskFile, Tablespace};
use crate::error::{Error, Result};
use crate::page::{Lsn, PageNo, lsn, verify};

const SEGMENTS: usize = 2;
const MAGIC: [u8; 8] = *b"flifoDW\x1a";
const NUMBERS_AT: usize = 32;

/// An instance's file.
pub(super) struct Doublewrite {
    /// `None` if pages are written once.
    file: Option<Box<dyn DiskFile>>,
    path: String,
    database: Uuid,
    page_bytes: usize,
    /// The segment for the next batch.
    segment: usize,
    /// Which sync of the data files makes the last batch of each segment durable.
    needs_sync: [u64; SEGMENTS],
}

fn name(instance: u32) -> String {
    format!("doublewrite{instance}.flifo")
}

fn instance_of(file: &str) -> Option<u32> {
    file.strip_prefix("doublewrite")?.strip_suffix(".flifo")?.parse().ok()
}

fn segment_bytes(page_bytes: usize) -> usize {
    HEADER_BYTES + BATCH_PAGES * page_bytes
}

impl Doublewrite {
    /// Opens the area of an instance of the database in `space`; creates its file if necessary.
    pub(super) fn open(disk: &dyn Disk, space: &Tablespace, instance: u32, in_use: bool) -> Result<Self> {
        let page_bytes = space.page_size();
        let file = in_use.then(|| open_file(disk, instance, page_bytes)).transpose()?;
        Ok(Doublewrite {
            file,
            path: disk.path(&name(instance)),
            database: space.database(),
            page_bytes,
            segment: 0,
            // The pages of an earlier opening's batches may not be durable either.
            needs_sync: [space.next_sync(); SEGMENTS],
        })
    }

    /// Makes a batch durable here. From then on it may be written to its places.
    pub(super) fn write(&mut self, space: &Tablespace, batch: &mut Batch) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        if !space.is_synced(self.needs_sync[self.segment]) {
            space.sync()?;
        }
        let mut header = Block::zeroed();
        header.set(0, &MAGIC);
        header.set(8, &(self.page_bytes as u32).to_le_bytes());
        header.set(12, &(batch.pages().len() as u32).to_le_bytes());
        header.set(16, self.database.as_bytes());
        for (index, page) in batch.pages().iter().enumerate() {
            header.set(NUMBERS_AT + index * 8, &page.0.to_le_bytes());
        }
        header.seal();
        let at = (self.segment * segment_bytes(self.page_bytes)) as u64;
        file.write_at(batch.with_header(header.bytes()), at)
            .map_err(|source| Error::from_io("cannot write", &*self.path, source))?;
        file.sync().map_err(|source| Error::from_io("cannot sync", &*self.path, source))
    }

    /// The batch was written to its places.
    pub(super) fn end(&mut self, space: &Tablespace) {
        self.needs_sync[self.segment] = space.next_sync();
        self.segment = (self.segment + 1) % SEGMENTS;
    }
}

fn open_file(disk: &dyn Disk, instance: u32, page_bytes: usize) -> Result<Box<dyn DiskFile>> {
    let name = name(instance);
    let bytes = (SEGMENTS * segment_bytes(page_bytes)) as u64;
    let open = || match disk.open(&name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let file = disk.create(&name)?;
            file.allocate(bytes)?;
            file.sync()?;
            disk.sync_directory()?;
            Ok(file)
        }
        Ok(file) => {
            // One that a crash left half-made.
            if file.bytes()? < bytes {
                file.allocate(bytes)?;
            }
            Ok(file)
        }
        other => other,
    };
    open().map_err(|source| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Error::DiskFull { bytes_needed: bytes, path: disk.path("") }
        }
        _ => Error::from_io("cannot open", disk.path(&name), source),
    })
}

/// Removes the files, of a database that could not be created.
pub(crate) fn remove(disk: &dyn Disk) {
    let names = disk.names().unwrap_or_default();
    names.iter().filter(|name| instance_of(name).is_some()).for_each(|name| drop(disk.remove(name)));
}

/// Restores pages from complete copies and makes them durable: pages that a crash has torn, a failed sync may have
/// torn, or that cannot be read. Void pages are skipped. If a copy is newer than the end of the log, at `log_end`, a
/// part of the log is lost or the areas are of another time; if a copy is of a page from `pages_end` on, the areas are
/// of another database state. In both cases nothing is written.
pub(crate) fn repair(
    disk: &dyn Disk,
    space: &Tablespace,
    void_ranges: &VoidRanges,
    log_end: Lsn,
    pages_end: PageNo,
) -> Result<()> {
    let Copies { newest: mut copies, unread } = find_copies(disk, space)?;
    if let Some((page, (copied, _))) = copies.iter().find(|&(_, &(copied, _))| copied > log_end) {
        let what =
            format!("a copy of page {} was changed at {}, the log ends at {}", page.0, copied.0, log_end.0);
        return Err(Error::CorruptRedo { path: disk.path("doublewrite*.flifo"), what });
    }
    let mut buffer = AlignedBuffer::new(space.page_size());
    // Before anything is written over them: the medium may give them another time.
    for (pages, error) in unread {
        let is_whole = |page: &PageNo| {
            let read = space.read(page.0, buffer.bytes_mut());
            read.and_then(|()| verify(buffer.bytes(), *page)).is_ok()
        };
        if !pages.iter().filter(|&page| !copies.contains_key(page)).all(is_whole) {
            return Err(error);
        }
    }
    // A load has filled these pages since, and redo could not bring a copy up to date.
    copies.retain(|&page, &mut (copied, _)| !void_ranges.is_void(page, copied));
    let Some(&last) = copies.keys().next_back() else { return Ok(()) };
    if last >= pages_end {
        let what = format!("it has a copy of page {}, which was never allocated", last.0);
        return Err(Error::CorruptRedo { path: disk.path("doublewrite*.flifo"), what });
    }
    for (page, (copied, copy)) in copies {
        if page.0 >= space.pages() {
            space.grow(page.0 + 1)?;
        }
        // What cannot be read can often be written.
        let in_place = space.read(page.0, buffer.bytes_mut()).and_then(|()| verify(buffer.bytes(), page));
        let is_newer = in_place.is_ok() && lsn(buffer.bytes()) > copied;
        if !is_newer {
            buffer.bytes_mut().copy_from_slice(&copy);
            space.write(page.0, buffer.bytes())?;
        }
    }
    space.sync()
}

/// Voids copies that are newer than a closed database, whose log ends at its checkpoint: they are of another time, and
/// were not restored with it from an older copy. After a crash such copies would pass for its own.
pub(crate) fn forget_later(disk: &dyn Disk, space: &Tablespace) -> Result<()> {
    each_later(disk, space, |segment| {
        segment.write(0, Block::zeroed().bytes())?;
        segment.sync()
    })
}

/// Whether [`forget_later`] would void any copy.
pub(crate) fn has_later(disk: &dyn Disk, space: &Tablespace) -> Result<bool> {
    let mut found = false;
    each_later(disk, space, |_| {
        found = true;
        Ok(())
    })?;
    Ok(found)
}

/// Shows each segment that has a page that is newer than the checkpoint.
fn each_later(
    disk: &dyn Disk,
    space: &Tablespace,
    mut show: impl FnMut(&Segment<'_>) -> Result<()>,
) -> Result<()> {
    each_segment(disk, space, |segment, read| {
        // What cannot be read is no copy.
        let pages = if read.is_ok() { segment.pages(space) } else { Vec::new() };
        match segment.take_newest(&pages, space, &mut BTreeMap::new()) {
            true => show(segment),
            false => Ok(()),
        }
    })
}

/// What the areas have.
#[derive(Default)]
struct Copies {
    /// The newest whole copy of each page in any segment, if it is newer than the checkpoint.
    newest: BTreeMap<PageNo, (Lsn, Vec<u8>)>,
    /// Pages whose copies in one segment could not be read, with the error.
    unread: Vec<(Vec<PageNo>, Error)>,
}

/// Finds them. The segments that have some are durable then.
fn find_copies(disk: &dyn Disk, space: &Tablespace) -> Result<Copies> {
    let mut copies = Copies::default();
    each_segment(disk, space, |segment, read| {
        let (parts, error) = read.map_err(|source| segment.failed("cannot read", source))?;
        let mut pages = segment.pages(space);
        let is_needed = segment.take_newest(&pages, space, &mut copies.newest);
        if let Some(source) = error {
            pages.retain(|(_, part)| !parts.contains(part));
            let unread = pages.into_iter().map(|(page, _)| page).collect();
            copies.unread.push((unread, segment.failed("cannot read", source)));
        }
        if is_needed {
            for part in parts {
                segment.write(part.start, &segment.bytes[part])?;
            }
            segment.sync()?;
        }
        Ok(())
    })?;
    Ok(copies)
}

/// A segment of an area, as it was read.
struct Segment<'a> {
    bytes: &'a [u8],
    /// Where it begins in its file.
    at: u64,
    file: &'a dyn DiskFile,
    path: &'a str,
}

/// The parts of a segment that were read, and why not all.
type Read = (Vec<Range<usize>>, Option<io::Error>);

/// Shows each segment of each area. The second is an error if not even its header could be read.
fn each_segment(
    disk: &dyn Disk,
    space: &Tablespace,
    mut show: impl FnMut(&Segment<'_>, io::Result<Read>) -> Result<()>,
) -> Result<()> {
    let mut buffer = AlignedBuffer::new(segment_bytes(space.page_size()));
    let mut names = disk.names().map_err(|source| Error::from_io("cannot list", disk.path(""), source))?;
    names.retain(|name| instance_of(name).is_some());
    for name in names {
        let path = disk.path(&name);
        let file = disk.open(&name).map_err(|source| Error::from_io("cannot open", &*path, source))?;
        for index in 0..SEGMENTS {
            let at = (index * buffer.bytes().len()) as u64;
            let read = read_segment(&*file, at, buffer.bytes_mut(), space.page_size());
            show(&Segment { bytes: buffer.bytes(), at, file: &*file, path: &path }, read)?;
        }
    }
    Ok(())
}

/// Reads a segment, page by page if it cannot be read as a whole; then zeros are in the place of what could not be read. An
/// error if it is the header.
fn read_segment(file: &dyn DiskFile, at: u64, segment: &mut [u8], page_bytes: usize) -> io::Result<Read> {
    let all = 0..segment.len();
    match file.read_at(segment, at) {
        Ok(()) => Ok((vec![all], None)),
        // Never written to the end: nothing that it was to protect was written either.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            segment.fill(0);
            Ok((Vec::new(), None))
        }
        Err(error) => {
            let header = 0..HEADER_BYTES;
            file.read_at(&mut segment[header.clone()], at)?;
            let mut parts = vec![header];
            for part in (0..BATCH_PAGES).map(|index| page_in_segment(index, page_bytes)) {
                match file.read_at(&mut segment[part.clone()], at + part.start as u64) {
                    Ok(()) => parts.push(part),
                    Err(_) => segment[part].fill(0),
                }
            }
            Ok((parts, Some(error)))
        }
    }
}

fn page_in_segment(index: usize, page_bytes: usize) -> Range<usize> {
    let from = HEADER_BYTES + index * page_bytes;
    from..from + page_bytes
}

impl Segment<'_> {
    /// The pages of its batch, and where in it they are; none if it is not of this database.
    fn pages(&self, space: &Tablespace) -> Vec<(PageNo, Range<usize>)> {
        let mut header = Block::zeroed();
        header.bytes_mut().copy_from_slice(&self.bytes[..HEADER_BYTES]);
        let is_own = header.field(0) == MAGIC
            && header.is_sealed()
            && header.u32(8) as usize == space.page_size()
            && header.field(16) == *space.database().as_bytes();
        let count = if is_own { (header.u32(12) as usize).min(BATCH_PAGES) } else { 0 };
        let page = |index| PageNo(header.u64(NUMBERS_AT + index * 8));
        (0..count).map(|index| (page(index), page_in_segment(index, space.page_size()))).collect()
    }

    /// Collects the newest copies of these pages; returns whether any is newer than the checkpoint.
    fn take_newest(
        &self,
        pages: &[(PageNo, Range<usize>)],
        space: &Tablespace,
        newest: &mut BTreeMap<PageNo, (Lsn, Vec<u8>)>,
    ) -> bool {
        let mut is_needed = false;
        for (page, part) in pages {
            let bytes = &self.bytes[part.clone()];
            let copied = lsn(bytes);
            if copied.0 > space.checkpoint().lsn && verify(bytes, *page).is_ok() {
                is_needed = true;
                if newest.get(page).is_none_or(|&(known, _)| known < copied) {
                    newest.insert(*page, (copied, bytes.to_vec()));
                }
            }
        }
        is_needed
    }

    fn write(&self, from: usize, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_at(bytes, self.at + from as u64);
        written.map_err(|source| self.failed("cannot write", source))
    }

    fn sync(&self) -> Result<()> {
        self.file.sync().map_err(|source| self.failed("cannot sync", source))
    }

    fn failed(&self, action: &'static str, source: io::Error) -> Error {
        Error::from_io(action, self.path, source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;
    use crate::page::{KIND_BITMAP, format, seal, set_lsn};

    const PAGE: PageNo = PageNo(7);

    fn write_page(page: &mut [u8], at: Lsn) {
        format(page, PAGE, KIND_BITMAP, PageNo(1));
        set_lsn(page, at);
        seal(page);
    }

    /// A page with a copy of LSN 5000, and in its place one of 6000 that has rotted.
    fn rotten() -> (MemoryDisk, Tablespace) {
        let disk = MemoryDisk::default();
        let space = Tablespace::create(&disk, 1, 4096).unwrap();
        space.grow(PAGE.0 + 1).unwrap();
        let (mut batch, mut page) = (Batch::new(4096), AlignedBuffer::new(4096));
        write_page(batch.push(PAGE), Lsn(5000));
        Doublewrite::open(&disk, &space, 0, true).unwrap().write(&space, &mut batch).unwrap();
        write_page(page.bytes_mut(), Lsn(6000));
        page.bytes_mut()[100] ^= 1;
        space.write(PAGE.0, page.bytes()).unwrap();
        (disk, space)
    }

    /// After a repair that knows that what is older than `void_until` is void.
    fn found(void_until: Lsn) -> Result<Lsn> {
        let ((disk, space), mut void_ranges) = (rotten(), VoidRanges::default());
        void_ranges.add(PAGE.0..PAGE.0 + 1, void_until);
        repair(&disk, &space, &void_ranges, Lsn(6000), PageNo(64)).unwrap();
        let mut page = AlignedBuffer::new(4096);
        space.read(PAGE.0, page.bytes_mut()).unwrap();
        verify(page.bytes(), PAGE).map(|()| lsn(page.bytes()))
    }

    #[test]
    fn a_copy_from_before_a_load_is_never_taken_for_the_loads_page() {
        assert_eq!(found(Lsn(4999)).unwrap(), Lsn(5000));
        found(Lsn(5000)).unwrap_err();
        found(Lsn(5500)).unwrap_err();
    }

    #[test]
    fn a_copy_that_is_newer_than_the_log_is_refused_and_put_nowhere() {
        let (disk, space) = rotten();
        let mut page = AlignedBuffer::new(4096);
        write_page(page.bytes_mut(), Lsn(4500));
        space.write(PAGE.0, page.bytes()).unwrap();
        let refused = repair(&disk, &space, &VoidRanges::default(), Lsn(4999), PageNo(64));
        assert!(matches!(refused, Err(Error::CorruptRedo { .. })), "{refused:?}");
        space.read(PAGE.0, page.bytes_mut()).unwrap();
        assert_eq!((verify(page.bytes(), PAGE).is_ok(), lsn(page.bytes())), (true, Lsn(4500)));
    }

    /// In a data file, the place of page 2^52 + 1 would be that of page 1.
    #[test]
    fn a_copy_of_a_page_that_there_cannot_be_is_refused_and_put_nowhere() {
        for beyond in [64, 1 << 40, (1 << 52) + 1, u64::MAX].map(PageNo) {
            let (disk, space) = rotten();
            let (mut batch, pages) = (Batch::new(4096), space.pages());
            let page = batch.push(beyond);
            format(page, beyond, KIND_BITMAP, PageNo(1));
            set_lsn(page, Lsn(5000));
            seal(page);
            Doublewrite::open(&disk, &space, 1, true).unwrap().write(&space, &mut batch).unwrap();
            let refused = repair(&disk, &space, &VoidRanges::default(), Lsn(6000), PageNo(64));
            assert!(matches!(refused, Err(Error::CorruptRedo { .. })), "{beyond:?}: {refused:?}");
            assert_eq!(space.pages(), pages);
            let mut page = AlignedBuffer::new(4096);
            space.read(PAGE.0, page.bytes_mut()).unwrap();
            assert!(verify(page.bytes(), PAGE).is_err(), "a copy was put in its place all the same");
        }
    }

    /// What cannot be read of an area is missed only if a page needs it.
    #[test]
    fn a_copy_that_cannot_be_read_is_missed_only_if_the_page_is_not_whole() {
        // Of the header, of the copy, and of what no page of the batch has.
        for (unreadable, is_missed, is_missed_by_rotten) in
            [(0, true, true), (HEADER_BYTES, false, true), (HEADER_BYTES + 4096, false, false)]
        {
            for rotten_in_place in [false, true] {
                let ((disk, space), mut page) = (rotten(), AlignedBuffer::new(4096));
                if !rotten_in_place {
                    write_page(page.bytes_mut(), Lsn(4500));
                    space.write(PAGE.0, page.bytes()).unwrap();
                }
                disk.make_unreadable("doublewrite0.flifo", unreadable as u64);
                let repaired = repair(&disk, &space, &VoidRanges::default(), Lsn(6000), PageNo(64));
                space.read(PAGE.0, page.bytes_mut()).unwrap();
                match if rotten_in_place { is_missed_by_rotten } else { is_missed } {
                    true => assert!(matches!(repaired, Err(Error::Io { .. })), "{unreadable}: {repaired:?}"),
                    false => {
                        repaired.unwrap();
                        verify(page.bytes(), PAGE).unwrap();
                        let is_copy = unreadable > HEADER_BYTES;
                        assert_eq!(lsn(page.bytes()), Lsn(if is_copy { 5000 } else { 4500 }));
                    }
                }
                // The medium may give it another time.
                let file = disk.open("doublewrite0.flifo").unwrap();
                file.read_at(page.bytes_mut(), unreadable as u64).unwrap_err();
            }
        }
    }
}
