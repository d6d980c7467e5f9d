//! Private MariaDB servers: started from the distribution's packages in a folder of their own, reached by a
//! socket in it, ended and removed with the value that stands for them.
//!
//! ```no_run
//! use flifo_mariadb::{Options, Plugin, PrivateServer};
//! use mysql::prelude::Queryable;
//!
//! let server = PrivateServer::start(Options::new().plugin(Plugin::Loaded))?;
//! let mut root = server.connect()?;
//! root.query_drop("SET GLOBAL flifo_thread_concurrency = '4'")?;
//! assert_eq!(server.status("Flifo_running")?, "0");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A server reads no option file, listens on no port unless told to, and does not outlive its process, however
//! that ends. What a killed process left in the temporary folder is removed by the next one that comes along.

pub mod clients;
mod datadir;
mod error;
pub mod guide;
mod options;
mod programs;
mod server;
mod spawn;
pub mod wire;

pub use datadir::{copy_directory, server_version};
pub use error::{Error, Result};
pub use mysql;
pub use options::{Options, Plugin};
pub use programs::{client, plugin_file, target_dir};
pub use server::{Ended, PrivateServer};
pub use spawn::{raise_file_limit, spawn};
