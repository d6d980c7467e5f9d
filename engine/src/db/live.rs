//! Counters of an open database for other processes.
//!
//! With [`EngineConfig::publish_stats`](super::EngineConfig::publish_stats), a background thread writes `stats.flifo` in
//! the database's directory once a second, and removes it at the close. [`LiveStats::read`] reads it. The file is text, a
//! name and a number per line:
//!
//! ```text
//! flifo_stats 1
//! pid 4711
//! interval_ms 1000
//! written_ms 1767225600000
//! uptime_ms 17004
//! log_lsn_checkpoint_age 8388608
//! ...
//! crc32c 2864434397
//! ```
//!
//! The last line has the checksum of all lines before it; newlines follow. Each write replaces the content in place, so a
//! reader may see a part of the next one. It then finds a wrong checksum, and reads again.
//!
//! The file is neither synced nor needed: an open ignores it. A write that fails is noted in the log, and the next one is
//! tried a second later.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::stats::Sources;
use crate::background::{Task, Wake};
use crate::disk::{Disk, DiskFile};

const NAME: &str = "stats.flifo";
const VERSION: u64 = 1;
const INTERVAL: Duration = Duration::from_secs(1);
/// A file of more bytes is none of ours.
const BYTES_MAX: u64 = 64 << 10;
/// How often a reader that saw a write in progress tries again, and the time between two tries.
const TRIES: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(2);

/// The counters that a process publishes about a database that it has open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveStats {
    /// The process, as it sees its own number.
    pub pid: u32,
    /// The time from one write to the next.
    pub interval: Duration,
    /// The time of the last write.
    pub written: SystemTime,
    /// The age of the open database at the last write, by a clock that never steps.
    pub uptime: Duration,
    /// The counters, under the names of [`EngineStats::counters`](super::EngineStats::counters).
    pub counters: Vec<(String, u64)>,
}

impl LiveStats {
    /// Reads what the process that has the database in `dir` open published last.
    ///
    /// # Errors
    /// `NotFound`: no process publishes counters there. `InvalidData`: the file is damaged, or of another version of the
    /// format. A process that was killed leaves its file; [`LiveStats::is_stale`] tells.
    pub fn read(dir: impl AsRef<Path>) -> io::Result<LiveStats> {
        let path = dir.as_ref().join(NAME);
        let mut tries = 1;
        loop {
            let mut bytes = Vec::new();
            File::open(&path)?.take(BYTES_MAX).read_to_end(&mut bytes)?;
            match Self::parse(&bytes) {
                Err(Unreadable::Torn) if tries < TRIES => {
                    tries += 1;
                    std::thread::sleep(BETWEEN_TRIES);
                }
                parsed => {
                    return parsed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.words()));
                }
            }
        }
    }

    /// Whether the process has missed several writes at `now`: it has ended, or hangs.
    pub fn is_stale(&self, now: SystemTime) -> bool {
        now.duration_since(self.written).is_ok_and(|age| age > 4 * self.interval)
    }

    fn parse(bytes: &[u8]) -> Result<LiveStats, Unreadable> {
        let text = str::from_utf8(bytes).map_err(|_| Unreadable::Torn)?;
        let (body, sum) = text.rsplit_once("crc32c ").ok_or(Unreadable::Torn)?;
        if sum.trim_end().parse() != Ok(crc32c::crc32c(body.as_bytes())) {
            return Err(Unreadable::Torn);
        }
        let mut lines = body.lines().map(|line| -> Result<(String, u64), Unreadable> {
            let (name, number) = line.split_once(' ').ok_or(Unreadable::Foreign)?;
            Ok((name.to_owned(), number.parse().map_err(|_| Unreadable::Foreign)?))
        });
        let mut head = |name: &str| match lines.next() {
            Some(Ok((found, number))) if found == name => Ok::<u64, Unreadable>(number),
            _ => Err(Unreadable::Foreign),
        };
        match head("flifo_stats")? {
            VERSION => {}
            other => return Err(Unreadable::Version(other)),
        }
        let pid = head("pid")?.try_into().map_err(|_| Unreadable::Foreign)?;
        let interval = Duration::from_millis(head("interval_ms")?.clamp(1, 3_600_000));
        let written = UNIX_EPOCH.checked_add(Duration::from_millis(head("written_ms")?));
        let written = written.ok_or(Unreadable::Foreign)?;
        let uptime = Duration::from_millis(head("uptime_ms")?);
        let counters = lines.collect::<Result<_, _>>()?;
        Ok(LiveStats { pid, interval, written, uptime, counters })
    }

    fn to_text(&self) -> String {
        let millis = |time: Duration| time.as_millis();
        let written = self.written.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut text = format!(
            "flifo_stats {VERSION}\npid {}\ninterval_ms {}\nwritten_ms {}\nuptime_ms {}\n",
            self.pid,
            millis(self.interval),
            millis(written),
            millis(self.uptime)
        );
        for (name, number) in &self.counters {
            let _ = writeln!(text, "{name} {number}");
        }
        let sum = crc32c::crc32c(text.as_bytes());
        let _ = writeln!(text, "crc32c {sum}");
        text
    }
}

/// Why a file's content is not used.
#[derive(Debug, PartialEq, Eq)]
enum Unreadable {
    /// A write was in progress, or the file is damaged.
    Torn,
    Version(u64),
    Foreign,
}

impl Unreadable {
    fn words(&self) -> String {
        match self {
            Unreadable::Torn => format!("{NAME} is damaged"),
            Unreadable::Version(found) => format!("{NAME} has format {found}, not {VERSION}"),
            Unreadable::Foreign => format!("{NAME} has other content than counters"),
        }
    }
}

/// The task that publishes.
pub(super) struct Publisher {
    sources: Sources,
    disk: Arc<dyn Disk>,
    file: Option<Box<dyn DiskFile>>,
    begun: Instant,
    /// The longest text so far; a shorter one is padded, so that no rest of an earlier one follows it.
    bytes: usize,
    has_failed: bool,
}

impl Publisher {
    pub(super) fn new(sources: Sources, disk: &Arc<dyn Disk>) -> Self {
        // What a process that was killed has left.
        let _ = disk.remove(NAME);
        let (disk, begun) = (Arc::clone(disk), Instant::now());
        Publisher { sources, disk, file: None, begun, bytes: 0, has_failed: false }
    }

    fn publish(&mut self, now: Instant) -> io::Result<()> {
        let live = LiveStats {
            pid: std::process::id(),
            interval: INTERVAL,
            written: SystemTime::now(),
            uptime: now.saturating_duration_since(self.begun),
            counters: self.sources.stats().counters(),
        };
        let mut text = live.to_text().into_bytes();
        self.bytes = self.bytes.max(text.len());
        text.resize(self.bytes, b'\n');
        let file = match self.file.take() {
            Some(file) => file,
            None => self.disk.create_cached(NAME)?,
        };
        self.file.insert(file).write_at(&text, 0)
    }
}

impl Task for Publisher {
    fn step(&mut self, now: Instant) -> Wake {
        if let Err(error) = self.publish(now)
            && !std::mem::replace(&mut self.has_failed, true)
        {
            log::warn!("cannot write {}: {error}; 'flifo stat --live' shows nothing", self.disk.path(NAME));
        }
        Wake::At(now + INTERVAL)
    }
}

impl Drop for Publisher {
    /// Nothing more is published.
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = self.disk.remove(NAME);
        }
    }
}

/// Arbitrary content of the file.
#[cfg(any(fuzzing, test))]
pub(crate) mod fuzz {
    use super::*;

    /// Parses the bytes as they are, and as the body of a file whose checksum is correct. What was parsed is written and
    /// parsed again.
    pub fn live(data: &[u8]) {
        let sealed = [data, format!("crc32c {}\n", crc32c::crc32c(data)).as_bytes()].concat();
        for bytes in [data, &sealed] {
            if let Ok(live) = LiveStats::parse(bytes) {
                assert_eq!(LiveStats::parse(live.to_text().as_bytes()).as_ref(), Ok(&live));
            }
        }
    }

    pub(crate) fn seeds() -> Vec<Vec<u8>> {
        let body = "flifo_stats 1\npid 7\ninterval_ms 1000\nwritten_ms 1767225600123\nuptime_ms 17004\nlog_waits 3\n";
        vec![
            body.into(),
            body.replace("_stats 1", "_stats 2").into(),
            body.replace("waits 3", "waits x").into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live() -> LiveStats {
        LiveStats {
            pid: 4711,
            interval: INTERVAL,
            written: UNIX_EPOCH + Duration::from_millis(1_767_225_600_123),
            uptime: Duration::from_millis(17_004),
            counters: [("log_waits", 0), ("wait_row_lock_ns", u64::MAX)]
                .map(|(name, number)| (name.to_owned(), number))
                .into(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut text = live().to_text();
        assert_eq!(LiveStats::parse(text.as_bytes()), Ok(live()));
        text += "\n\n\n";
        assert_eq!(LiveStats::parse(text.as_bytes()), Ok(live()), "padded");
    }

    #[test]
    fn any_part_or_changed_byte_is_refused() {
        let text = live().to_text().into_bytes();
        // The last byte ends the checksum's line.
        for at in 0..text.len() - 1 {
            assert!(LiveStats::parse(&text[..at]).is_err(), "cut off at {at}");
            let mut changed = text.clone();
            changed[at] ^= 1;
            assert_ne!(LiveStats::parse(&changed), Ok(live()), "changed at {at}");
        }
    }

    #[test]
    fn another_format_and_other_content_are_told_apart() {
        let sealed = |text: &str| format!("{text}crc32c {}\n", crc32c::crc32c(text.as_bytes()));
        let parse = |text: &str| LiveStats::parse(sealed(text).as_bytes()).unwrap_err();
        assert_eq!(parse("flifo_stats 2\nanything\n"), Unreadable::Version(2));
        assert_eq!(parse("flifo_stats 1\npid 1\n"), Unreadable::Foreign);
        assert_eq!(parse("notes\n"), Unreadable::Foreign);
        let body = live().to_text().replace("log_waits 0", "log_waits many");
        assert_eq!(parse(body.split_once("crc32c").unwrap().0), Unreadable::Foreign);
    }

    #[test]
    fn a_process_that_misses_writes_is_stale() {
        let live = live();
        assert!(!live.is_stale(live.written + Duration::from_secs(4)));
        assert!(live.is_stale(live.written + Duration::from_secs(5)));
        assert!(!live.is_stale(live.written - Duration::from_secs(60)), "the clock was set back");
    }
}
