//! The arguments that all measurements have.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use flifo::commands::record::RecordArgs;
use flifo::support::size::Bytes;

use crate::product::Product;
use crate::settings::Settings;
use crate::variant::Variant;

/// What is compared, on which servers and data.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// Another variant: NAME=KIND[:setting=value,..], where the kind is stock, plugin or pool, and settings are options of the
    /// server. A variant of the same name is replaced
    #[arg(long, value_name = "V")]
    pub variant: Vec<Variant>,

    /// Only these variants, a list of names; the first stock variant is the base of the ratios
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    pub only: Vec<String>,

    /// Rows of the big table [default: 1000000; with --quick 100000]
    #[arg(long, value_name = "ROWS", value_parser = RangedU64ValueParser::<u32>::new().range(100..=1_000_000_000))]
    pub rows: Option<u32>,

    /// Which rows sysbench takes
    #[arg(long, value_name = "D", default_value = "uniform", value_parser = ["uniform", "gaussian", "special", "pareto"])]
    pub rand_type: String,

    /// Buffer pool of each server [default: 1G; for a small pool a tenth of the table's file]
    #[arg(long, value_name = "SIZE", value_parser = Bytes::from_str)]
    pub buffer_pool: Option<Bytes>,

    /// Redo log of each server: large enough that no cell waits for a checkpoint
    #[arg(long, value_name = "SIZE", value_parser = Bytes::from_str, default_value = "2G")]
    pub log_file_size: Bytes,

    /// An option of all servers, without its dashes; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub set: Vec<(String, String)>,
}

/// What becomes of the results.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Write the tables as Markdown
    #[arg(help_heading = "Results", long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,

    /// Write all figures as JSON
    #[arg(help_heading = "Results", long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    #[command(flatten)]
    pub record: RecordArgs,
}

impl ServerArgs {
    /// Rows of the big table.
    pub(crate) fn rows(&self, quick: bool) -> u32 {
        self.rows.unwrap_or(if quick { 100_000 } else { 1_000_000 })
    }

    /// These servers and data, and nothing beside the load.
    pub(crate) fn settings(&self, product: &Product, quick: bool) -> Settings {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let redo_log = (product.redo_log_size.to_owned(), self.log_file_size.0.to_string());
        let of_product = product.options.iter().map(owned).chain([redo_log]);
        Settings {
            rows: self.rows(quick),
            distribution: self.rand_type.clone(),
            buffer_pool_bytes: self.buffer_pool.map_or(1 << 30, |bytes| bytes.0),
            log_file_bytes: self.log_file_size.0,
            product_options: of_product.collect(),
            server_options: self.set.clone(),
            ..Settings::default()
        }
    }
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write name=value")?;
    Ok((name.to_owned(), value.to_owned()))
}
