//! `flifo figures`: renders the tables and pictures of the repository's pages from its records.

pub mod args;

use flifo_record::{pages, place};

use super::common::{Ended, print};
use crate::support::error::Error;
use args::FiguresArgs;

/// Runs `flifo figures`.
pub fn figures(args: &FiguresArgs) -> Result<Ended, Error> {
    let root = match &args.root {
        Some(root) => root.clone(),
        None => place::root().map_err(|error| Error::Usage(error.to_string()))?,
    };
    let stale = if args.check { pages::check(&root)? } else { pages::update(&root)? };
    let text: String = stale.iter().map(|stale| format!("{stale}\n")).collect();
    print(&text)?;
    match (args.check, stale.len()) {
        (true, 1..) => Err(Error::Stale),
        _ => Ok(Ended::Done),
    }
}
