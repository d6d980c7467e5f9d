//! `flifo check`: checks a closed database.

pub mod args;

use flifo_engine::Database;

use super::common::{Ended, print};
use crate::measure::database;
use crate::report::{Style, database as text};
use crate::results::database as results;
use crate::support::error::Error;
use args::CheckArgs;

/// `flifo check DIR`.
pub fn check(args: &CheckArgs) -> Result<Ended, Error> {
    let check = if args.reclaim { Database::reclaim_in } else { Database::check_in };
    let checked = database::check(&args.dir, args.buffer_pool, check)?;
    let mut text = match args.json {
        true => results::check(&checked),
        false => text::check(&args.dir, &checked, Style::stdout()),
    };
    if args.reclaim && !args.json && !checked.is_sound() {
        text.push_str("nothing was freed: what lies below a damaged page was not reached\n");
    }
    print(&text)?;
    Ok(Ended::of_check(&checked))
}
