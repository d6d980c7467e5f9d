//! The configuration of a database at open.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::buffer::{FlushConfig, FlushMode};
use crate::disk;
use crate::error::{Error, Result};

/// How the engine behaves; [`EngineConfig::default`] is a good start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineConfig {
    /// Memory for pages, bytes.
    pub buffer_pool_bytes: u64,
    /// Parts of the buffer pool, each with its own free list, clock and page cleaner.
    pub buffer_pool_instances: u32,
    /// Data files over which the pages are striped. For new databases; an existing one has as many as it has.
    pub data_files: u32,
    /// Bytes per page: 4096, 8192 or 16384. For new databases; an existing one keeps its own.
    pub page_size: u32,
    /// Bypasses the operating system's page cache (O_DIRECT), so that a read miss is a read from the device. On file
    /// systems without O_DIRECT the engine uses the page cache, and [`EngineStats::direct_io`](crate::EngineStats) is
    /// false.
    pub direct_io: bool,
    /// Writes each page to a doublewrite area before its own location, so that a crash in the middle of a write cannot
    /// lose the page. Turn it off only if the device writes pages atomically.
    pub doublewrite: bool,
    /// Capacity of the redo log's files, bytes. An existing log of another size is replaced after a clean close.
    pub redo_capacity_bytes: u64,
    /// Size of the log buffer, bytes: a mapped file, so that it outlives the process. An existing one of another size
    /// is replaced after a clean close.
    pub log_buffer_bytes: u64,
    /// Pages per second that are written while no statement changes anything.
    pub io_capacity: u32,
    /// Pages per second that are written because they are old, at most. If the redo log fills up faster than this many
    /// pages can free it, writers are slowed down. Pages whose frames are needed, and those of a bulk load or a
    /// checkpoint on demand, are written without a limit.
    pub io_capacity_max: u32,
    /// Which pages are written when.
    pub flush_mode: FlushMode,
    /// How durable a commit is when it returns.
    pub flush_log_at_trx_commit: FlushLog,
    /// Rollback segments, over which transactions spread their undo. Applies to new databases; an existing one keeps
    /// its number.
    pub rollback_segments: u32,
    /// How long a transaction waits for a row lock.
    pub lock_wait_timeout: Duration,
    /// Memory to sort the entries of an index in a bulk load, bytes. Entries beyond it are sorted in files.
    pub sort_buffer_bytes: u64,
    /// Writes the counters to a small file in the database's directory once a second, where other processes can read
    /// them ([`LiveStats`](crate::LiveStats), `flifo stat --live`).
    pub publish_stats: bool,
}

/// How durable a commit is when it returns; the numbers are those of `innodb_flush_log_at_trx_commit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FlushLog {
    /// A commit waits for nothing. A power cut loses the commits of about the last second, and a crash of the process
    /// those behind a record that was being appended at that time (0).
    EverySecond = 0,
    /// It is on the device, and survives a power cut (1).
    #[default]
    Sync = 1,
    /// A commit is in the page cache, and survives a crash of the process; a power cut loses the commits of about the
    /// last second (2).
    Write = 2,
}

impl EngineConfig {
    /// The valid range of `buffer_pool_bytes`, if the machine has that much memory.
    pub const BUFFER_POOL_BYTES: RangeInclusive<u64> = 256 << 10..=1 << 42;
    /// The valid range of `buffer_pool_instances`.
    pub const BUFFER_POOL_INSTANCES: RangeInclusive<u32> = 1..=64;
    /// The valid range of `data_files`.
    pub const DATA_FILES: RangeInclusive<u32> = 1..=disk::DATA_FILES_MAX;
    /// The valid range of `redo_capacity_bytes`.
    pub const REDO_CAPACITY_BYTES: RangeInclusive<u64> = 4 << 20..=1 << 40;
    /// The valid range of `io_capacity`, and of `io_capacity_max`, which is not below `io_capacity`.
    pub const IO_CAPACITY: RangeInclusive<u32> = 100..=1 << 30;
    /// The valid range of `log_buffer_bytes`.
    pub const LOG_BUFFER_BYTES: RangeInclusive<u64> = 256 << 10..=1 << 32;
    /// The valid range of `rollback_segments`.
    pub const ROLLBACK_SEGMENTS: RangeInclusive<u32> = 1..=128;
    /// The valid range of `sort_buffer_bytes`.
    pub const SORT_BUFFER_BYTES: RangeInclusive<u64> = 16 << 10..=1 << 40;
    /// The valid values of `page_size`.
    pub const PAGE_SIZES: [u32; 3] = disk::PAGE_SIZES;

    /// Checks that the values are valid; creating and opening a database call this too.
    pub fn check(&self) -> Result<()> {
        // A pool beyond the memory would be swapped, or the process killed once it is full.
        let bytes_max = memory_bytes().min(*Self::BUFFER_POOL_BYTES.end());
        in_range("buffer_pool_bytes", self.buffer_pool_bytes, *Self::BUFFER_POOL_BYTES.start()..=bytes_max)?;
        in_range("buffer_pool_instances", self.buffer_pool_instances, Self::BUFFER_POOL_INSTANCES)?;
        in_range("data_files", self.data_files, Self::DATA_FILES)?;
        in_range("redo_capacity_bytes", self.redo_capacity_bytes, Self::REDO_CAPACITY_BYTES)?;
        in_range("io_capacity", self.io_capacity, Self::IO_CAPACITY)?;
        in_range("io_capacity_max", self.io_capacity_max, self.io_capacity..=*Self::IO_CAPACITY.end())?;
        in_range("rollback_segments", self.rollback_segments, Self::ROLLBACK_SEGMENTS)?;
        in_range("log_buffer_bytes", self.log_buffer_bytes, Self::LOG_BUFFER_BYTES)?;
        in_range("sort_buffer_bytes", self.sort_buffer_bytes, Self::SORT_BUFFER_BYTES)?;
        if !Self::PAGE_SIZES.contains(&self.page_size) {
            return Err(Error::BadOption {
                option: "page_size",
                value: self.page_size.into(),
                allowed: "4096, 8192 or 16384".to_owned(),
            });
        }
        Ok(())
    }
}

fn memory_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    // The type of the count differs between CPU architectures.
    #[allow(clippy::useless_conversion)]
    u64::from(system.totalram).saturating_mul(system.mem_unit.into())
}

fn in_range<T: Into<u64> + PartialOrd + Copy>(
    option: &'static str,
    value: T,
    allowed: RangeInclusive<T>,
) -> Result<()> {
    if allowed.contains(&value) {
        return Ok(());
    }
    let (least, most): (u64, u64) = ((*allowed.start()).into(), (*allowed.end()).into());
    Err(Error::BadOption { option, value: value.into(), allowed: format!("{least} to {most}") })
}

impl Default for EngineConfig {
    fn default() -> Self {
        let flush = FlushConfig::default();
        EngineConfig {
            buffer_pool_bytes: 128 << 20,
            buffer_pool_instances: 8,
            data_files: 4,
            page_size: 16384,
            direct_io: true,
            doublewrite: true,
            redo_capacity_bytes: 128 << 20,
            log_buffer_bytes: 16 << 20,
            io_capacity: flush.io_capacity,
            io_capacity_max: flush.io_capacity_max,
            flush_mode: flush.mode,
            flush_log_at_trx_commit: FlushLog::default(),
            rollback_segments: 16,
            lock_wait_timeout: Duration::from_secs(50),
            sort_buffer_bytes: 64 << 20,
            publish_stats: false,
        }
    }
}
