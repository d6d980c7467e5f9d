//! Checks that the bitmaps match the pages in use.

use super::{PageAllocator, Run};
use crate::disk::AlignedBuffer;
use crate::error::{Error, Result};
use crate::page::bitmap::{self, group_pages};
use crate::page::pending::PENDING_PAGE;
use crate::page::{AT_KIND, KIND_BITMAP, PageNo};
use crate::wait::Waiter;

/// The pages that something refers to: a bit each.
pub(crate) struct Reached {
    bits: Vec<u64>,
    pages: u64,
}

/// The result of a check of the bitmaps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpaceStats {
    /// Pages that fit in the data files.
    pub pages: u64,
    /// Pages that are referred to, including bitmaps and page 0.
    pub reached_pages: u64,
    /// Pages marked as used.
    pub used_pages: u64,
    /// Pages marked as used that nothing refers to; a crash may leave some. They only cost space.
    pub leaked_pages: u64,
    /// Leaked pages that this check freed.
    pub freed_pages: u64,
}

impl SpaceStats {
    /// Pages that fit in the data files and are not in use.
    pub fn free_pages(&self) -> u64 {
        self.pages.saturating_sub(self.used_pages)
    }
}

impl Reached {
    /// None yet, of a tablespace with room for `pages`.
    pub(crate) fn of(pages: u64) -> Self {
        Reached { bits: vec![0; pages.div_ceil(64) as usize], pages }
    }

    /// Whether something refers to the page.
    pub(crate) fn is_claimed(&self, page: PageNo) -> bool {
        self.bits.get((page.0 / 64) as usize).is_some_and(|bits| bits & 1 << (page.0 % 64) != 0)
    }

    /// Something refers to the page. Pages beyond the end of the tablespace are not noted: they cannot be read.
    pub(crate) fn claim(&mut self, page: PageNo) {
        if page.0 < self.pages {
            self.bits[(page.0 / 64) as usize] |= 1 << (page.0 % 64);
        }
    }

    /// How many.
    pub(crate) fn count(&self) -> u64 {
        self.bits.iter().map(|bits| u64::from(bits.count_ones())).sum()
    }
}

impl PageAllocator {
    /// Compares the bitmaps with the pages that the trees have `reached`. No thread allocates during the check. Calls
    /// `damage` for each page that is in use and marked as free, and for each unreadable bitmap.
    pub(crate) fn check(
        &self,
        waiter: &Waiter,
        reached: &mut Reached,
        damage: &mut dyn FnMut(PageNo, Error) -> Result<()>,
    ) -> Result<SpaceStats> {
        let (group_pages, pages) = (group_pages(self.pool.page_size()), self.pool.space().pages());
        let mut stats = SpaceStats { pages, ..SpaceStats::default() };
        let mut bitmap = AlignedBuffer::new(self.pool.page_size());
        reached.claim(PageNo(0));
        reached.claim(PENDING_PAGE);
        let (mut group, mut groups) = (0, pages.div_ceil(group_pages));
        while group < groups {
            let no = PageNo(group * group_pages + 1);
            let corrupt = |what: &str| Error::CorruptPage { page: no.0, what: what.to_owned() };
            if reached.is_claimed(no) {
                damage(no, corrupt("a tree refers to it, and it is a bitmap"))?;
            }
            reached.claim(no);
            let read = self.pool.read_to_check(no, &mut bitmap, waiter);
            let read = read.and_then(|()| match bitmap.bytes()[AT_KIND] {
                KIND_BITMAP => Ok(()),
                _ => Err(corrupt("it is not a bitmap, and a bitmap belongs there")),
            });
            let first = group * group_pages;
            match read {
                Ok(()) => {
                    if group == 0 {
                        groups = check_groups(bitmap::groups(bitmap.bytes()), groups, no, damage)?;
                    }
                    compare(bitmap.bytes(), first..first + group_pages, reached, &mut stats, damage)?;
                }
                Err(error) => damage(no, error)?,
            }
            group += 1;
        }
        let beyond = (groups * group_pages..pages).filter(|&page| reached.is_claimed(PageNo(page)));
        for page in beyond {
            damage(PageNo(page), in_use(page, "it lies beyond the last bitmap"))?;
        }
        stats.reached_pages = reached.count();
        Ok(stats)
    }

    /// Frees the pages that are marked as used and not `reached`, after a [check](Self::check) that found no damage;
    /// returns their number. No thread allocates during the call.
    pub(crate) fn free_leaked(&self, waiter: &Waiter, reached: &Reached) -> Result<u64> {
        let (group_pages, mut freed) = (group_pages(self.pool.page_size()), 0);
        for group in 0..self.groups(waiter)? {
            let base = group * group_pages;
            let leaked: Vec<u64> = self.pool.retry(waiter, || {
                let bitmap = self.pool.optimistic(PageNo(base + 1))?.shared()?;
                let is_leaked = |&within: &u64| {
                    bitmap::is_set(bitmap.bytes(), within) && !reached.is_claimed(PageNo(base + within))
                };
                Ok((0..group_pages).filter(is_leaked).collect())
            })?;
            for run in leaked.chunk_by(|a, b| a + 1 == *b) {
                let run = Run { first: PageNo(base + run[0]), pages: run.len() as u64 };
                self.free_run(run, waiter)?;
                freed += run.pages;
            }
        }
        Ok(freed)
    }
}

fn in_use(page: u64, what: &str) -> Error {
    Error::CorruptPage { page, what: format!("it is in use, and {what}") }
}

/// The number of bitmaps, from the first one, if the data files have room for them.
fn check_groups(
    said: u64,
    most: u64,
    first: PageNo,
    damage: &mut dyn FnMut(PageNo, Error) -> Result<()>,
) -> Result<u64> {
    if (1..=most).contains(&said) {
        return Ok(said);
    }
    let what = format!("it says that there are {said} bitmaps, and there is room for {most}");
    damage(first, Error::CorruptPage { page: first.0, what })?;
    Ok(most)
}

fn compare(
    bitmap: &[u8],
    group: std::ops::Range<u64>,
    reached: &Reached,
    stats: &mut SpaceStats,
    damage: &mut dyn FnMut(PageNo, Error) -> Result<()>,
) -> Result<()> {
    for page in group.clone() {
        let (used, claimed) = (bitmap::is_set(bitmap, page - group.start), reached.is_claimed(PageNo(page)));
        stats.used_pages += u64::from(used);
        stats.leaked_pages += u64::from(used && !claimed);
        if claimed && !used {
            damage(PageNo(page), in_use(page, "its bitmap says that it is free"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_claimed_once_and_those_beyond_the_end_never() {
        let mut reached = Reached::of(100);
        for page in [0, 63, 64, 99, 64] {
            reached.claim(PageNo(page));
            assert!(reached.is_claimed(PageNo(page)));
        }
        reached.claim(PageNo(100));
        reached.claim(PageNo(u64::MAX));
        assert!(!reached.is_claimed(PageNo(100)) && !reached.is_claimed(PageNo(u64::MAX)));
        assert_eq!(reached.count(), 4);
    }
}
