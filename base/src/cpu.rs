//! CPUs: how many, and which one.

/// Returns the number of CPUs that this process may use, at least 1.
///
/// Follows the affinity mask and the quota of the control group. Reads files, so keep the result where speed matters.
///
/// ```
/// assert!(flifo_base::cpu_count() >= 1);
/// ```
pub fn cpu_count() -> usize {
    // An error means that the kernel does not say; one CPU is there.
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the number of the CPU that runs this thread; 0 under Miri.
///
/// A hint: the thread may move at any time. The number may be [`cpu_count`] or more, since CPUs that this process may not use count, too.
///
/// ```
/// let slots = vec![0; flifo_base::cpu_count()];
/// let _slot = slots[flifo_base::current_cpu() % slots.len()];
/// ```
#[inline]
pub fn current_cpu() -> usize {
    // Miri does not support that call.
    if cfg!(miri) { 0 } else { rustix::thread::sched_getcpu() }
}
