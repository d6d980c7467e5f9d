//! Options of the commands that run one workload on data of its own.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use flifo_admission::Policy;
use flifo_engine::{EngineConfig, FlushLog};

use crate::commands::record::RecordArgs;
use crate::commands::sweep::args::{concurrency, small_number, threads};
use crate::commands::sweep::engine_args::EngineArgs;
use crate::commands::values::{policy, rounds, seconds};
use crate::measure::server::{Address, Protocol, TlsArgs};
use crate::report::Outputs;
use crate::support::error::Error;
use crate::support::output::check_all_writable;
use crate::support::size::Bytes;

/// Options of a load.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// Users, a list: each runs one transaction at a time
    #[arg(help_heading = "What is measured", long, visible_alias = "threads", value_name = "N,..", value_delimiter = ',', value_parser = threads, default_value = "16,256")]
    pub users: Vec<u32>,

    /// Admission policies, a list of none, fifo, flifo, quantum
    #[arg(help_heading = "What is measured", long, value_name = "P,..", value_delimiter = ',', value_parser = policy, default_value = "none,flifo")]
    pub policy: Vec<Policy>,

    /// Maximum number of statements running at once, a list; policy none has no limit. With --target also auto
    #[arg(help_heading = "What is measured", long, value_name = "N,..", value_delimiter = ',', value_parser = concurrency, default_value = "4")]
    pub concurrency: Vec<u32>,

    /// Seconds measured per cell and round
    #[arg(help_heading = "What is measured", long, value_name = "SECONDS", value_parser = seconds, default_value = "10")]
    pub time: f64,

    /// Seconds of load before each measurement
    #[arg(help_heading = "What is measured", long, value_name = "SECONDS", value_parser = seconds, default_value = "2")]
    pub warmup: f64,

    /// Rounds, of which medians are shown
    #[arg(help_heading = "What is measured", long, value_name = "N", value_parser = rounds, default_value = "3")]
    pub rounds: u32,

    /// Directory of the data, created if it does not exist
    ///
    /// Complete data of the same scale and seed are reused; other data of this command are loaded again; data of other
    /// programs are never touched.
    #[arg(help_heading = "Data and engine", long, value_name = "DIR", default_value = "./flifo-data")]
    pub data: PathBuf,

    /// Files over which new data are striped
    #[arg(help_heading = "Data and engine", long, value_name = "N", value_parser = small_number, default_value = "4")]
    pub data_files: u32,

    /// Buffer pool, bytes, or with K, M, G (of 1024)
    #[arg(help_heading = "Data and engine", long, value_name = "SIZE", value_parser = Bytes::from_str, default_value = "1G")]
    pub buffer_pool: Bytes,

    /// Buffer pool instances
    #[arg(help_heading = "Data and engine", long, value_name = "N", value_parser = small_number, default_value = "8")]
    pub instances: u32,

    #[command(flatten)]
    pub engine: EngineArgs,

    /// Seed of rows and inputs
    #[arg(help_heading = "Data and engine", long, value_name = "N", default_value = "1")]
    pub seed: u64,

    /// Measure a live MariaDB or MySQL instead: `mysql://user[:password]@host[:port]/database` or
    /// unix:/path/to/socket?user=..&db=..
    ///
    /// Creates its tables in the database if they do not exist, and never drops complete ones; refuses tables that are not
    /// flifo's. The password may be in the environment variable MYSQL_PWD. Policies other than none need flifo's plugin in
    /// the server; its settings change between cells and are restored at the end.
    #[arg(help_heading = "A live server", long, value_name = "ADDRESS", value_parser = Address::from_str, conflicts_with_all = ["data", "data_files", "buffer_pool", "instances"])]
    pub target: Option<Address>,

    /// The account that changes the plugin's settings and reads the server's counters [default: --target's]
    #[arg(help_heading = "A live server", long, value_name = "ADDRESS", value_parser = Address::from_str)]
    pub admin_target: Option<Address>,

    #[command(flatten)]
    pub tls: TlsArgs,

    /// How statements are sent [default: prepared]
    #[arg(help_heading = "A live server", long, value_name = "P", value_enum)]
    pub protocol: Option<Protocol>,

    /// Put load on a server on another machine
    ///
    /// Without it only sockets and loopback addresses are accepted. Use it only on servers that you may load.
    #[arg(help_heading = "A live server", long)]
    pub allow_remote: bool,

    /// Write the results as JSON (docs/results.md)
    #[arg(help_heading = "Results", long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write a self-contained page with the curves
    #[arg(help_heading = "Results", long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write the picture of the headline curve
    #[arg(help_heading = "Results", long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    #[command(flatten)]
    pub record: RecordArgs,
}

impl LoadArgs {
    pub(crate) fn outputs(&self) -> Outputs<'_> {
        Outputs { json: self.json.as_deref(), html: self.html.as_deref(), svg: self.svg.as_deref() }
    }

    /// Checks before anything is measured that the results can be written.
    pub(crate) fn check_outputs(&self, record: &str) -> Result<(), Error> {
        check_all_writable([&self.json, &self.html, &self.svg].into_iter().flatten())?;
        self.record.place(record).map(drop)
    }

    /// The engine's configuration.
    pub(crate) fn engine_config(&self) -> EngineConfig {
        EngineConfig {
            buffer_pool_bytes: self.buffer_pool.0,
            buffer_pool_instances: self.instances,
            data_files: self.data_files,
            publish_stats: true,
            ..self.engine.config(FlushLog::Sync)
        }
    }
}
