//! The settings of the embedded engine that matter to changes.

use clap::Args;
use flifo_engine::{EngineConfig, FlushLog};

use crate::cli::{Bytes, bytes, number};

/// Options of `flifo sweep` for the engine.
#[derive(Debug, Clone, Args)]
pub struct EngineArgs {
    /// What of a commit has happened when it returns: 1 it is on the device, 2 the operating system has it, 0 nothing
    ///
    /// As innodb_flush_log_at_trx_commit. 1, which loses nothing in a power cut, is the engine's default; the published
    /// experiments were made with 2.
    #[arg(help_heading = "Data and engine", long, value_name = "0|1|2", value_parser = flush_log, default_value = "1", conflicts_with = "target")]
    pub flush_log_at_trx_commit: FlushLog,

    /// What the redo log holds, bytes, or with K, M, G (of 1024)
    ///
    /// The smaller it is, the earlier changed pages must be written. A log of another size is made anew.
    #[arg(help_heading = "Data and engine", long, value_name = "SIZE", value_parser = redo_capacity, default_value = "128M", conflicts_with = "target")]
    pub redo_capacity: u64,

    /// Rollback segments of new data, over which the undo of transactions is spread; data with another number are
    /// loaded anew
    #[arg(help_heading = "Data and engine", long, value_name = "N", value_parser = rollback_segments, default_value = "16", conflicts_with = "target")]
    pub rollback_segments: u32,

    /// Whether pages are written to the doublewrite area before their places
    #[arg(help_heading = "Data and engine", long, value_name = "on|off", value_parser = on_off, default_value = "on", action = clap::ArgAction::Set, conflicts_with = "target")]
    pub doublewrite: bool,
}

impl EngineArgs {
    /// An engine's configuration with these settings.
    pub fn config(&self) -> EngineConfig {
        EngineConfig {
            flush_log_at_trx_commit: self.flush_log_at_trx_commit,
            redo_capacity_bytes: self.redo_capacity,
            rollback_segments: self.rollback_segments,
            doublewrite: self.doublewrite,
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

fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("use on or off".into()),
    }
}
