//! Private MySQL servers: started from a folder that `tools/mysql-root` made, in a folder of their own, reached by a socket in it,
//! ended and removed with the value that stands for them.
//!
//! ```no_run
//! use flifo_mysql::{Installation, PrivateServer};
//!
//! let Some(installation) = Installation::find() else { return Ok(()) };
//! let server = PrivateServer::start(&installation, &[])?;
//! server.install_plugin()?;
//! assert_eq!(server.status("Flifo_running")?, "0");
//! # Ok::<(), flifo_mysql::Error>(())
//! ```
//!
//! A server reads no option file, listens on no port unless told to, and does not outlive its process, however that ends.

mod datadir;
mod error;
mod installation;
mod options;
mod server;

pub use error::{Error, Result};
pub use flifo_mariadb::{clients, guide, mysql, wire};
pub use installation::Installation;
pub use options::Options;
pub use server::PrivateServer;
