//! `flifo stat --live`: a line per interval for a database that another process has open.

use std::time::Duration;

use super::args::StatArgs;
use crate::commands::common::{Ended, print};
use crate::measure::engine::live::{Published, nobody};
use crate::report::live;
use crate::support::error::Error;
use crate::support::progress::Progress;
use crate::support::{clock, interrupt};

/// Lines between two headings.
const HEADING_EVERY: u64 = 20;
/// A look at the file.
const LOOK: Duration = Duration::from_millis(50);

/// Prints lines until Ctrl-C, until the database is closed, or as many as were asked for.
pub(super) fn live(args: &StatArgs) -> Result<Ended, Error> {
    let interval = Duration::from_secs(args.interval.into());
    let mut before = Published::read(&args.dir)?.ok_or_else(|| nobody(&args.dir))?;
    for line in 0..args.count.unwrap_or(u64::MAX) {
        let Some((earlier, now)) = next(args, before, interval)? else { break };
        let counted = now.since(&earlier);
        let heading = if line % HEADING_EVERY == 0 { live::heading() } else { String::new() };
        print(&match args.json {
            true => format!("{}\n", counted.to_json()),
            false => heading + &live::line(&counted),
        })?;
        before = now;
    }
    Ok(Ended::Done)
}

/// Waits for the next reading that is due; both ends of its interval. `None` after Ctrl-C or a close.
fn next(
    args: &StatArgs,
    mut before: Published,
    interval: Duration,
) -> Result<Option<(Published, Published)>, Error> {
    loop {
        let look_ns = clock::now_ns() + clock::ns(LOOK);
        if interrupt::sleep_until(|| look_ns) {
            return Ok(None);
        }
        match Published::read(&args.dir)? {
            None => {
                Progress::new().note(&format!("{} was closed", args.dir.display()));
                return Ok(None);
            }
            Some(now) if now.is_another(&before) => before = now,
            Some(now) if now.is_due(&before, interval) => return Ok(Some((before, now))),
            Some(_) => {}
        }
    }
}
