//! The system's limits: file descriptors, threads, memory, disk. Checked before a run, so that a run that cannot end
//! does not begin; a later refusal by the kernel is an error of its own.

use std::fs;
use std::path::Path;

use procfs::process::{Process, Status, all_processes};
use procfs::{Current, LoadAverage, Meminfo, ProcResult};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::error::Error;
use super::size::Bytes;

/// The remedy, where `--threads` sets the number of connections.
pub const FEWER_THREADS: &str = "fewer --threads";
/// The remedy, where `--concurrency` sets the number of I/Os at a time.
pub const SMALLER_CONCURRENCY: &str = "a smaller --concurrency";

/// Descriptors beyond the connections' own: data files, standard streams, results, /proc.
const DESCRIPTORS_SPARE: u64 = 100;
/// Threads beyond the connections' own: page cleaners, sampler, progress, signals.
const THREADS_SPARE: u64 = 100;

/// Turns the signal of `ulimit -f` into an error of the write; the signal would end the process, with its test files
/// left and its results lost. Child programs inherit that.
pub fn file_size_is_an_error() {
    // SAFETY: SIG_IGN is a disposition; no other code changes this signal's.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Raises the soft limit of descriptors as far as needed and allowed.
pub fn descriptors(needed: u64, fewer: &str) -> Result<(), Error> {
    let needed = needed + DESCRIPTORS_SPARE;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|soft| soft >= needed) {
        return Ok(());
    }
    let raised = limit.maximum.map_or(needed, |hard| hard.min(needed));
    if raised < needed {
        return Err(Error::Limits(format!(
            "{needed} file descriptors are needed and {raised} allowed; run 'ulimit -n {needed}' (as root, or raise the hard limit) or use {fewer}"
        )));
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum }).map_err(|errno| {
        Error::Limits(format!(
            "cannot raise the limit of file descriptors to {needed}: {errno}; run 'ulimit -n {needed}'"
        ))
    })
}

/// Fails if a known limit of threads is too low.
pub fn threads(needed: u64, fewer: &str) -> Result<(), Error> {
    let needed = needed + THREADS_SPARE;
    let mut limits = vec![
        (
            "of the machine",
            "sysctl kernel.threads-max",
            procfs::sys::kernel::threads_max().ok().map(u64::from),
            all_tasks(),
        ),
        ("of the cgroup (pids.max)", "raise pids.max", cgroup_room("pids"), Some(0)),
        // A thread's stack and its guard page are two mappings.
        (
            "of memory mappings",
            "sysctl vm.max_map_count",
            procfs::sys::vm::max_map_count().ok().map(|n| n / 2),
            Some(0),
        ),
    ];
    if !may_exceed_user_limit() {
        let _ = setrlimit_to_hard(Resource::Nproc);
        limits.push(("of the user", "ulimit -u", getrlimit(Resource::Nproc).current, user_tasks()));
    }
    for (whose, remedy, limit, used) in limits {
        check_threads(needed, (whose, remedy), limit, used.unwrap_or(0), fewer)?;
    }
    Ok(())
}

/// Fails if the stacks of that many threads do not fit the address space under `ulimit -v`.
pub fn stacks(threads: u64, stack_bytes: u64, fewer: &str) -> Result<(), Error> {
    let Some(limit) = getrlimit(Resource::As).current else { return Ok(()) };
    let used = own_status().and_then(|status| status.vmsize).unwrap_or(0) * 1024;
    let needed = threads * stack_bytes;
    if used + needed > limit {
        return Err(Error::Limits(format!(
            "the stacks of {threads} threads take {} of address space and {} are left; raise the limit (ulimit -v) or use {fewer}",
            Bytes(needed),
            Bytes(limit.saturating_sub(used))
        )));
    }
    Ok(())
}

fn check_threads(
    needed: u64,
    (whose, remedy): (&str, &str),
    limit: Option<u64>,
    used: u64,
    fewer: &str,
) -> Result<(), Error> {
    match limit {
        Some(limit) if used + needed > limit => Err(Error::Limits(format!(
            "{needed} threads are needed, but the limit {whose} is {limit} and {used} are in use; raise it to {} ({remedy}) or use {fewer}",
            used + needed
        ))),
        _ => Ok(()),
    }
}

/// Fails if the available memory is less than a run needs.
pub fn memory(buffer_pool_bytes: u64, replies_bytes: u64) -> Result<(), Error> {
    let Some(available) = available_memory() else { return Ok(()) };
    if buffer_pool_bytes > available {
        return Err(Error::Limits(format!(
            "a buffer pool of {} does not fit the memory available, {}; use a smaller --buffer-pool",
            Bytes(buffer_pool_bytes),
            Bytes(available)
        )));
    }
    if buffer_pool_bytes + replies_bytes > available {
        return Err(Error::Limits(format!(
            "buffer pool and replies take {}, but {} are available; use a smaller --range-size or --buffer-pool, or fewer --threads",
            Bytes(buffer_pool_bytes + replies_bytes),
            Bytes(available)
        )));
    }
    Ok(())
}

/// Fails if the available memory is less than that many threads need.
pub fn thread_memory(threads: u64, bytes: u64, fewer: &str) -> Result<(), Error> {
    match available_memory() {
        Some(available) if bytes > available => Err(Error::Limits(format!(
            "{threads} threads take {} of memory and {} are available; use {fewer}",
            Bytes(bytes),
            Bytes(available)
        ))),
        _ => Ok(()),
    }
}

/// Memory that this process can still allocate, bytes, as far as known.
pub fn available_memory() -> Option<u64> {
    let machine = Meminfo::current().ok().and_then(|memory| memory.mem_available);
    let cgroup = cgroup_room("memory");
    [machine, cgroup].into_iter().flatten().min()
}

/// Bytes free on the file system of `dir`, or of its nearest existing parent.
pub fn free_disk(dir: &Path) -> Option<u64> {
    let existing = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("."));
    let existing = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
    rustix::fs::statvfs(existing).ok().map(|stat| stat.f_bavail * stat.f_frsize)
}

/// Fails if the file system of `dir` has less than `needed` bytes free.
pub fn disk(dir: &Path, needed: u64) -> Result<(), Error> {
    let Some(free) = free_disk(dir) else { return Ok(()) };
    if free < needed {
        return Err(Error::Data(format!(
            "disk full: the table takes {} and {} has {} free; free some space, use another --data or a smaller --table-size",
            Bytes(needed),
            dir.display(),
            Bytes(free)
        )));
    }
    Ok(())
}

fn setrlimit_to_hard(resource: Resource) -> Result<(), rustix::io::Errno> {
    let limit = getrlimit(resource);
    setrlimit(resource, Rlimit { current: limit.maximum, maximum: limit.maximum })
}

/// The kernel lets a process with CAP_SYS_ADMIN (21) or CAP_SYS_RESOURCE (24), and root, pass RLIMIT_NPROC.
fn may_exceed_user_limit() -> bool {
    let capable = |status: Status| status.capeff & (1 << 21 | 1 << 24) != 0;
    rustix::process::getuid().is_root() || own_status().is_some_and(capable)
}

fn own_status() -> Option<Status> {
    Process::myself().and_then(|process| process.status()).ok()
}

/// Threads of this process's user.
fn user_tasks() -> Option<u64> {
    let user = rustix::process::getuid().as_raw();
    let status = |process: ProcResult<Process>| process.and_then(|process| process.status()).ok();
    let all = all_processes().ok()?.filter_map(status);
    Some(all.filter(|status| status.ruid == user).map(|status| status.threads).sum())
}

/// Threads of the machine.
fn all_tasks() -> Option<u64> {
    LoadAverage::current().ok().map(|load| u64::from(load.max))
}

/// The least remaining `what`, `pids` or `memory`, of this process's cgroup and its parents.
fn cgroup_room(what: &str) -> Option<u64> {
    let own = Process::myself().and_then(|process| process.cgroups()).ok()?;
    let unified = own.into_iter().find(|group| group.hierarchy == 0)?;
    let path = unified.pathname.trim_start_matches('/');
    let root = Path::new("/sys/fs/cgroup");
    let room = |dir: &Path| {
        let read = |file: &str| fs::read_to_string(dir.join(format!("{what}.{file}"))).unwrap_or_default();
        room_of(&read("max"), &read("current"), &read("stat"))
    };
    root.join(path).ancestors().take_while(|dir| dir.starts_with(root)).filter_map(room).min()
}

/// What the limit of a cgroup leaves, by its files; `None` without a limit ("max", or no file). The kernel takes pages
/// of files back before it refuses memory: they are in use, and room all the same.
fn room_of(max: &str, current: &str, stat: &str) -> Option<u64> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let cache = stat.lines().filter_map(|line| match line.split_once(' ')? {
        ("inactive_file" | "active_file", bytes) => number(bytes),
        _ => None,
    });
    let used = number(current).unwrap_or(0).saturating_sub(cache.sum());
    Some(number(max)?.saturating_sub(used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_counted_against_the_limit() {
        assert!(check_threads(1_000, ("of the user", "ulimit -u"), Some(1_010), 10, FEWER_THREADS).is_ok());
        assert!(check_threads(1_000, ("of the user", "ulimit -u"), None, 10, FEWER_THREADS).is_ok());
        let error =
            check_threads(1_000, ("of the user", "ulimit -u"), Some(1_009), 10, FEWER_THREADS).unwrap_err();
        assert_eq!(error.exit_code(), crate::support::error::EXIT_LIMITS);
        assert!(error.to_string().contains("raise it to 1010 (ulimit -u)"), "{error}");
    }

    #[test]
    fn more_than_there_is_is_refused() {
        assert!(memory(1 << 20, 0).is_ok());
        assert!(memory(1 << 60, 0).unwrap_err().to_string().contains("--buffer-pool"));
        assert!(memory(1 << 20, 1 << 60).unwrap_err().to_string().contains("--range-size"));
        assert!(thread_memory(1, 1 << 16, FEWER_THREADS).is_ok());
        assert!(
            thread_memory(4_096, 1 << 60, FEWER_THREADS).unwrap_err().to_string().contains("fewer --threads")
        );
        let here = Path::new("not/there/yet");
        assert!(disk(here, 1).is_ok());
        assert!(disk(here, u64::MAX).unwrap_err().to_string().starts_with("disk full"));
    }

    #[test]
    fn the_page_cache_of_a_cgroup_is_room() {
        let stat = "anon 300\nfile 650\nactive_file_more 9\ninactive_file 400\nactive_file 200\nshmem 50\n";
        assert_eq!(room_of("1000\n", "950\n", stat), Some(650));
        assert_eq!(room_of("1000\n", "950\n", ""), Some(50));
        assert_eq!(room_of("1000\n", "500\n", stat), Some(1000), "the files are read one after another");
        assert_eq!(room_of("1000\n", "1200\n", "inactive_file x\n"), Some(0));
        assert_eq!(room_of("max\n", "950\n", stat), None);
        assert_eq!(room_of("", "", ""), None);
    }

    #[test]
    fn the_kernel_s_files_are_understood() {
        assert!(all_tasks().is_some_and(|n| n > 0));
        assert!(user_tasks().is_some_and(|n| n > 0));
        assert!(available_memory().is_some_and(|n| n > 1 << 20));
        assert!(own_status().is_some_and(|status| status.vmsize > Some(0)));
    }
}
