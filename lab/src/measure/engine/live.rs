//! Counters that another process publishes about a database that it has open.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use flifo_engine::LiveStats;

use crate::results::live::LiveLine;
use crate::results::series::Reading;
use crate::support::error::Error;

/// A file that every database has.
const DATA_FILE: &str = "data0.flifo";

/// What was published last.
pub(crate) struct Published {
    pid: u32,
    uptime: Duration,
    interval: Duration,
    reading: Reading,
}

impl Published {
    /// Reads the counters of the database in `dir`; `None` if no process publishes any.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>, Error> {
        let live = match LiveStats::read(dir) {
            Ok(live) => live,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(Error::Usage(format!(
                    "cannot read the counters of {}: {error}; use the flifo of the program that writes them",
                    dir.display()
                )));
            }
        };
        let now = SystemTime::now();
        if live.is_stale(now) {
            let age_s = now.duration_since(live.written).unwrap_or_default().as_secs();
            return Err(Error::Usage(format!(
                "process {} has written no counters of {} for {age_s} s: it has ended or hangs; open the database again",
                live.pid,
                dir.display()
            )));
        }
        Ok(Some(Published {
            pid: live.pid,
            uptime: live.uptime,
            interval: live.interval,
            reading: live.counters.into_iter().collect(),
        }))
    }

    /// Whether it is of another opening of the database than `earlier`.
    pub(crate) fn is_another(&self, earlier: &Published) -> bool {
        self.pid != earlier.pid || self.uptime < earlier.uptime
    }

    /// Whether it was written `interval` after `earlier`, give or take half of the time between two writes.
    pub(crate) fn is_due(&self, earlier: &Published, interval: Duration) -> bool {
        self.uptime + self.interval / 2 >= earlier.uptime + interval && self.uptime > earlier.uptime
    }

    /// What was counted since `earlier`.
    pub(crate) fn since(&self, earlier: &Published) -> LiveLine {
        let at = |published: &Published| published.uptime.as_secs_f64();
        LiveLine::between((&earlier.reading, at(earlier)), (&self.reading, at(self)))
    }
}

/// Why nothing is published in `dir`.
pub(crate) fn nobody(dir: &Path) -> Error {
    let is_database = |dir: &Path| dir.join(DATA_FILE).exists();
    let shown = dir.display();
    if is_database(dir) {
        return Error::Usage(format!(
            "no process publishes counters of {shown}: flifo's long commands do while they run, and programs that set EngineConfig::publish_stats"
        ));
    }
    match database_below(dir, is_database) {
        Some(below) => Error::Usage(format!("no database in {shown}; there is one in {}", below.display())),
        None => Error::Usage(format!("no database in {shown}; name the directory of an open database")),
    }
}

/// The lab keeps its databases in folders of its data directory.
fn database_below(dir: &Path, is_database: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let below = std::fs::read_dir(dir).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    below.filter(|path| is_database(path)).min()
}
