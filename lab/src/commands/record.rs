//! The option `--record` of every bench, and what it does at the end of a run.

use std::io::Write;

use clap::Args;
use flifo_record::Record;
use flifo_record::place::{Place, To};

use crate::support::error::Error;

/// The option `--record`.
#[derive(Debug, Clone, Args)]
pub struct RecordArgs {
    /// Keep the results in the repository, as figures/NAME.json, for the tables of its pages
    ///
    /// The file is named after the bench and is replaced; git has the earlier ones. `--record=DIR` writes it into another
    /// folder, `--record=DIR/OTHER.json` under another name. Afterwards `flifo figures` renders the pages.
    #[arg(help_heading = "Results", long, value_name = "DIR|FILE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub record: Option<To>,
}

impl RecordArgs {
    /// The file to write, if there is one. Call it before measuring: it fails if the file cannot be written.
    pub fn place(&self, bench: &str) -> Result<Option<Place>, Error> {
        let place = self.record.as_ref().map(|to| Place::new(to, bench)).transpose();
        place.map_err(|error| Error::Usage(error.to_string()))
    }
}

/// Writes a record at its place, if there is one, and says so. A run that is not complete is not recorded.
pub fn keep(place: Option<&Place>, is_partial: bool, record: impl FnOnce() -> Record) -> Result<(), Error> {
    let Some(place) = place else { return Ok(()) };
    let said = match is_partial {
        true => "not recorded, because the run is not complete".to_owned(),
        false => place.write(record())?,
    };
    // A closed terminal is no reason to fail: the file is written.
    let _ = writeln!(std::io::stderr(), "flifo: {said}");
    Ok(())
}
