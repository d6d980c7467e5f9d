//! `flifo stat`: describes a closed database, or watches an open one.

pub mod args;
mod live;

use flifo_engine::{Database, NextOpen};

use super::common::{Ended, print};
use crate::measure::database::{self, Check};
use crate::report::{Style, database as text};
use crate::results::database as results;
use crate::support::error::Error;
use crate::support::interrupt;
use args::StatArgs;

/// `flifo stat DIR`.
pub fn stat(args: &StatArgs) -> Result<Ended, Error> {
    if args.live {
        interrupt::install()?;
        return live::live(args);
    }
    let at_rest = database::read_headers(&args.dir)?;
    let checked = check_for_stat(&at_rest.next_open, args)
        .map(|check| database::check(&args.dir, args.buffer_pool, check))
        .transpose()?;
    // The check may have changed it: recovered it, or created its redo log again.
    let at_rest = if checked.is_some() { database::read_headers(&args.dir)? } else { at_rest };
    let text = match args.json {
        true => results::stat(&at_rest, checked.as_ref()),
        false => text::stat(&args.dir, &at_rest, checked.as_ref(), Style::stdout()),
    };
    print(&text)?;
    Ok(checked.map_or(Ended::Done, |checked| Ended::of_check(&checked)))
}

/// How the tables are looked at. Without `--recover` nothing is changed by that.
fn check_for_stat<'p>(next_open: &NextOpen, args: &StatArgs) -> Option<Check<'p>> {
    match next_open {
        _ if args.brief => None,
        NextOpen::AsItIs => Some(Database::check_in),
        _ if args.recover => Some(Database::recover_in),
        NextOpen::MakesAnew => Some(Database::check_in),
        _ => None,
    }
}
