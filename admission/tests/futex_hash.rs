//! The kernel's hash of this process's futexes grows with the queue. A file, and so a process, of its own.

use std::thread;
use std::time::{Duration, Instant};

use flifo_admission::{Admission, Config, Policy};

const THREADS: u32 = 200;
const PATIENCE: Duration = Duration::from_secs(30);

/// The kernel's answer; below 1 where a process has no hash of its own.
fn buckets() -> i32 {
    const PR_FUTEX_HASH: libc::c_int = 78;
    const GET_SLOTS: libc::c_ulong = 2;
    const NONE: libc::c_ulong = 0;
    // SAFETY: with this option all arguments are numbers.
    unsafe { libc::prctl(PR_FUTEX_HASH, GET_SLOTS, NONE, NONE, NONE) }
}

fn until(what: impl Fn() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    while !what() && Instant::now() < end {
        thread::sleep(Duration::from_millis(1));
    }
    what()
}

fn there_are_as_many_buckets_as_sleepers() {
    let config =
        Config { policy: Policy::Fifo, thread_concurrency: 1, stall_limit: None, ..Config::default() };
    let admission = Admission::new(config).unwrap();
    let holder = admission.session();
    assert!(holder.try_enter());
    // The scheduler has a thread by now, so the process has its hash, if the kernel has such.
    let at_first = buckets();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| drop(admission.session().slot().unwrap()));
        }
        assert!(until(|| admission.snapshot().queued == THREADS));
        if at_first > 0 {
            until(|| buckets() >= THREADS as i32);
        }
        // Who slept when the hash was replaced is found in the new one.
        holder.exit();
    });
    match at_first {
        ..=0 => assert_eq!(buckets(), at_first, "nothing to grow"),
        _ => assert!(buckets() >= THREADS as i32, "{at_first} at first, now {}", buckets()),
    }
    assert_eq!(admission.snapshot().queued, 0);
}

#[test]
#[cfg_attr(miri, ignore = "asks the kernel")]
fn the_hash_grows_with_the_queue_and_so_does_a_childs() {
    there_are_as_many_buckets_as_sleepers();
    // The child has the memory in which its parent noted how large its hash is, and a small hash.
    // SAFETY: nothing of the scheduler's runs here now, and what the child needs of the library is sound after a fork.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let passes = std::panic::catch_unwind(there_are_as_many_buckets_as_sleepers).is_ok();
        // SAFETY: ends the child alone, without what its parent's exit is to do.
        unsafe { libc::_exit(i32::from(!passes)) };
    }
    let mut status = 0;
    // SAFETY: the pointer is good.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
}
