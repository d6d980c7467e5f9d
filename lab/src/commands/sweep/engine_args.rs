//! The settings of the embedded engine for changes.

use clap::Args;
use flifo_engine::{EngineConfig, EngineStats, FlushLog, FlushMode};

use crate::commands::values::number;
use crate::results::Settings;
use crate::support::size::{Bytes, bytes};

/// Options of `flifo sweep` for the engine.
#[derive(Debug, Clone, Args)]
pub struct EngineArgs {
    /// Durability of a commit when it returns: 1 on the device, 2 in the operating system, 0 neither [default: 1; 2 in a
    /// sweep without --workload and --specimen]
    ///
    /// As innodb_flush_log_at_trx_commit. 1, the engine's default, loses nothing in a power cut; the published
    /// experiments used 2.
    #[arg(help_heading = "Data and engine", long, value_name = "0|1|2", value_parser = flush_log, conflicts_with = "target")]
    pub flush_log_at_trx_commit: Option<FlushLog>,

    /// Capacity of the redo log, bytes, or with K, M, G (of 1024)
    ///
    /// The smaller it is, the earlier changed pages must be written. A log of another size is replaced.
    #[arg(help_heading = "Data and engine", long, value_name = "SIZE", value_parser = redo_capacity, default_value = "128M", conflicts_with = "target")]
    pub redo_capacity: u64,

    /// Rollback segments of new data, over which transactions spread their undo; data with another number are loaded
    /// again
    #[arg(help_heading = "Data and engine", long, value_name = "N", value_parser = rollback_segments, default_value = "16", conflicts_with = "target")]
    pub rollback_segments: u32,

    /// Write pages to the doublewrite area before their own location
    #[arg(help_heading = "Data and engine", long, value_name = "on|off", value_parser = on_off, default_value = "on", action = clap::ArgAction::Set, conflicts_with = "target")]
    pub doublewrite: bool,

    /// Which pages are written when: adaptive, or sequential as in MySQL 5.6, for comparison only
    #[arg(help_heading = "Data and engine", long, value_name = "MODE", value_parser = flush_mode, default_value = "adaptive", conflicts_with = "target")]
    pub flush_mode: FlushMode,

    /// Pages per second that are written while no statement changes anything
    #[arg(help_heading = "Data and engine", long, value_name = "N", value_parser = io_capacity, default_value_t = EngineConfig::default().io_capacity, conflicts_with = "target")]
    pub io_capacity: u32,

    /// Pages per second that are written because they are old, at most
    ///
    /// If the redo log fills up faster than these pages can free it, writers are slowed down.
    #[arg(help_heading = "Data and engine", long, value_name = "N", value_parser = io_capacity, default_value_t = EngineConfig::default().io_capacity_max, conflicts_with = "target")]
    pub io_capacity_max: u32,
}

impl EngineArgs {
    /// An engine's configuration with these settings.
    pub fn config(&self, flush_log: FlushLog) -> EngineConfig {
        EngineConfig {
            flush_log_at_trx_commit: self.flush_log_at_trx_commit.unwrap_or(flush_log),
            redo_capacity_bytes: self.redo_capacity,
            rollback_segments: self.rollback_segments,
            doublewrite: self.doublewrite,
            flush_mode: self.flush_mode,
            io_capacity: self.io_capacity,
            io_capacity_max: self.io_capacity_max,
            ..EngineConfig::default()
        }
    }
}

fn flush_log(text: &str) -> Result<FlushLog, String> {
    match text {
        "0" => Ok(FlushLog::EverySecond),
        "1" => Ok(FlushLog::Sync),
        "2" => Ok(FlushLog::Write),
        _ => Err("use 0, 1 or 2".into()),
    }
}

fn redo_capacity(text: &str) -> Result<u64, String> {
    let (size, possible) = (bytes(text)?, EngineConfig::REDO_CAPACITY_BYTES);
    match possible.contains(&size) {
        true => Ok(size),
        false => Err(format!(
            "{} is outside {} to {}",
            Bytes(size),
            Bytes(*possible.start()),
            Bytes(*possible.end())
        )),
    }
}

fn rollback_segments(text: &str) -> Result<u32, String> {
    number(text, "rollback segments", EngineConfig::ROLLBACK_SEGMENTS)
}

fn flush_mode(text: &str) -> Result<FlushMode, String> {
    let mode = FlushMode::ALL.into_iter().find(|mode| mode.name() == text);
    mode.ok_or_else(|| "use adaptive or sequential".into())
}

fn io_capacity(text: &str) -> Result<u32, String> {
    number(text, "pages per second", EngineConfig::IO_CAPACITY)
}

fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("use on or off".into()),
    }
}

/// The settings of a run that are the engine's.
pub(crate) fn engine_settings(config: &EngineConfig, engine: &EngineStats) -> Settings {
    Settings {
        buffer_pool_bytes: config.buffer_pool_bytes,
        buffer_pool_instances: config.buffer_pool_instances,
        data_files: engine.data_files,
        page_size_bytes: engine.page_size,
        direct_io: engine.direct_io,
        flush_log_at_trx_commit: Some(config.flush_log_at_trx_commit as u8),
        redo_capacity_bytes: Some(config.redo_capacity_bytes),
        rollback_segments: Some(config.rollback_segments),
        doublewrite: Some(config.doublewrite),
        flush_mode: config.flush_mode.name().into(),
        io_capacity: Some(config.io_capacity),
        io_capacity_max: Some(config.io_capacity_max),
        ..Settings::default()
    }
}
