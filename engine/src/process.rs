//! Which process this is: a child of fork(2) must not use what its parent has open.
//!
//! The child has the parent's memory and files, but only the thread that called fork. A lock that another thread held
//! stays locked, no thread makes a commit durable, and a file lock that the child releases is released for the parent
//! too. Every entry that may block checks [`Process::is_current`] first. A value that is dropped in the child is left
//! alone ([`ProcessOwned`]).
//!
//! A page of memory that the kernel wipes in a child (`MADV_WIPEONFORK`) has the number of the process; 0 means that
//! the process has none yet. So the check costs two loads, and holds in children of every kind, including those that
//! run no handler of `pthread_atfork`. Without such a page (a kernel before 4.14) the number is the process id, at the
//! price of a system call each time.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The wiped page, or [`NO_PAGE`]; null until the first question. It is set once and never unmapped.
static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
/// In the page's stead where the system has none: always 0.
static NO_PAGE: AtomicU64 = AtomicU64::new(0);
/// The number for the next process. A child continues from its parent's, so no process has an ancestor's number.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A process: not its children by fork(2), nor its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(u64);

impl Process {
    /// This process.
    pub(crate) fn current() -> Process {
        let page = page();
        if ptr::eq(page, &NO_PAGE) {
            return Process(std::process::id().into());
        }
        match page.load(Ordering::Relaxed) {
            0 => {
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                let set = page.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
                Process(set.map_or_else(|number| number, |_| number))
            }
            number => Process(number),
        }
    }

    /// Whether this is the calling process.
    #[inline]
    pub(crate) fn is_current(self) -> bool {
        page().load(Ordering::Relaxed) == self.0 || self.has_current_id()
    }

    #[cold]
    fn has_current_id(self) -> bool {
        ptr::eq(page(), &NO_PAGE) && self.0 == u64::from(std::process::id())
    }
}

#[inline]
fn page() -> &'static AtomicU64 {
    let page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        return set_page();
    }
    // SAFETY: set once, to `NO_PAGE` or to a page that stays mapped.
    unsafe { &*page }
}

/// Threads that are here at the same time agree on one page; no lock, which a fork could leave locked.
#[cold]
fn set_page() -> &'static AtomicU64 {
    let new = map_page().unwrap_or(&NO_PAGE);
    let set = PAGE.compare_exchange(
        ptr::null_mut(),
        ptr::from_ref(new).cast_mut(),
        Ordering::AcqRel,
        Ordering::Acquire,
    );
    match set {
        Ok(_) => new,
        // SAFETY: as in `page`.
        Err(page) => unsafe { &*page },
    }
}

/// A page of zeros that is wiped in a child.
#[cfg(not(miri))]
fn map_page() -> Option<&'static AtomicU64> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    let bytes = rustix::param::page_size();
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, at an address of the system's choice.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, MapFlags::PRIVATE) }.ok()?;
    // SAFETY: the range is this mapping's, and holds no value yet.
    unsafe { madvise(start, bytes, Advice::LinuxWipeOnFork) }.ok()?;
    // SAFETY: mapped forever, aligned, and zeros are a valid value.
    Some(unsafe { &*start.cast::<AtomicU64>() })
}

#[cfg(miri)]
fn map_page() -> Option<&'static AtomicU64> {
    None
}

/// A value that is dropped in the process that owns it alone: in others it is left as it is.
pub(crate) struct ProcessOwned<T> {
    owner: Process,
    value: ManuallyDrop<T>,
}

impl<T> ProcessOwned<T> {
    pub(crate) fn new(owner: Process, value: T) -> Self {
        ProcessOwned { owner, value: ManuallyDrop::new(value) }
    }

    /// Whether this process owns it.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.owner.is_current()
    }
}

impl<T> Drop for ProcessOwned<T> {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: the value is not used after this.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

impl<T: Clone> Clone for ProcessOwned<T> {
    fn clone(&self) -> Self {
        ProcessOwned { owner: self.owner, value: self.value.clone() }
    }
}

impl<T> Deref for ProcessOwned<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for ProcessOwned<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn all_threads_of_a_process_are_the_same_process() {
        let here = Process::current();
        let there: Vec<_> = (0..4).map(|_| std::thread::spawn(Process::current)).collect();
        there.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), here));
        assert!(here.is_current());
    }

    #[test]
    fn what_another_process_owns_is_not_dropped() {
        let value = Arc::new(());
        drop(ProcessOwned::new(Process::current(), Arc::clone(&value)));
        assert_eq!(Arc::strong_count(&value), 1);
        let another = Process(u64::MAX);
        assert!(!another.is_current());
        let owned = ProcessOwned::new(another, Arc::clone(&value));
        drop(owned.clone());
        drop(owned);
        assert_eq!(Arc::strong_count(&value), 3);
    }
}
