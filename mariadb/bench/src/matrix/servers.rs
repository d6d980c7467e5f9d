//! The servers of the matrix: a set of options that several loads share, and the files that these options name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flifo_mariadb::target_dir;
use tempfile::TempDir;

use super::plan::Plan;
use crate::dataset::Dataset;
use crate::product::Product;
use crate::run::say;
use crate::running::Running;
use crate::settings::Settings;
use crate::{Error, Result};

/// The least buffer pool of [`Servers::SmallPool`]: InnoDB's own needs, with a thousand connections.
const POOL_BYTES_MIN: u64 = 16 << 20;
/// How much longer a sync takes with [`Servers::Durable`].
const SYNC_US: u32 = 5_000;
const SLOW_SYNC: &str = include_str!("slow_sync.c");

/// The options with which a load's servers run. Loads of the same options share their servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Servers {
    /// All data in the buffer pool, commits written and not synced.
    Plain,
    /// A buffer pool of a tenth of the big table.
    SmallPool,
    /// Each commit synced, with a binary log, on a device whose syncs take 5 ms longer.
    Durable,
    /// Connections use TLS.
    Tls,
}

impl Servers {
    pub fn title(self) -> &'static str {
        match self {
            Servers::Plain => "all data in memory",
            Servers::SmallPool => "a buffer pool of a tenth of the data",
            Servers::Durable => "durable commits, syncs of 5 ms",
            Servers::Tls => "TLS",
        }
    }

    /// Options of the server besides those of [`Settings::server`], which they replace.
    fn options(self, product: &Product, dataset: &Dataset, files: &Files) -> Vec<(String, String)> {
        let file = |name| files.folder().join(name).display().to_string();
        let options: Vec<(&str, String)> = match self {
            Servers::Plain => Vec::new(),
            Servers::SmallPool => {
                vec![("innodb-buffer-pool-size", (dataset.bytes / 10).max(POOL_BYTES_MIN).to_string())]
            }
            Servers::Durable => {
                product.durable_options.iter().map(|(name, value)| (*name, (*value).into())).collect()
            }
            Servers::Tls => vec![
                ("ssl-ca", file("cacert.pem")),
                ("ssl-cert", file("client-cert.pem")),
                ("ssl-key", file("client-key.pem")),
            ],
        };
        options.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Starts a server for each variant, all stopped.
    pub(super) fn start(self, plan: &Plan, dataset: &Dataset, files: &Files) -> Result<Vec<Running>> {
        files.make(self)?;
        let settings = self.settings(plan, dataset, files);
        let mut servers = Vec::new();
        for variant in &plan.variants {
            say(&format!("starting a server for {}: {}", variant.name, self.title()));
            let mut launch = variant.launch(plan.product, settings.launch());
            if self == Servers::Durable {
                launch = launch
                    .environment("LD_PRELOAD", files.preload())
                    .environment("FLIFO_SYNC_US", SYNC_US.to_string());
            }
            let warm = self != Servers::SmallPool;
            let mut server = Running::start(plan.product, variant, launch, dataset, warm)
                .map_err(Error::of(&variant.name))?;
            server.execute(&prepared()).map_err(Error::of(&variant.name))?;
            servers.push(server);
            if flifo::support::interrupt::is_requested() {
                return Err(Error::Interrupted);
            }
        }
        Ok(servers)
    }

    /// What all variants have.
    pub(super) fn settings(self, plan: &Plan, dataset: &Dataset, files: &Files) -> Settings {
        let mut settings = plan.settings.clone();
        let own = self.options(plan.product, dataset, files);
        // The user's come last and count.
        settings.server_options = own.into_iter().chain(settings.server_options).collect();
        settings
    }
}

/// The database of the loads' own tables.
fn prepared() -> [String; 2] {
    [
        "CREATE DATABASE matrix".to_owned(),
        format!("GRANT ALL ON matrix.* TO {}@localhost", crate::sysbench::USER),
    ]
}

/// Files of a run that go with it: certificates, a library.
#[derive(Debug)]
pub(super) struct Files(TempDir);

impl Files {
    pub(super) fn new() -> Result<Files> {
        let parent = target_dir().join("mariadb");
        fs::create_dir_all(&parent).map_err(Error::file(&parent))?;
        let made = tempfile::Builder::new().prefix("matrix-").tempdir_in(&parent);
        Ok(Files(made.map_err(Error::file(parent))?))
    }

    pub(super) fn folder(&self) -> &Path {
        self.0.path()
    }

    fn preload(&self) -> PathBuf {
        self.folder().join("slow_sync.so")
    }

    fn make(&self, servers: Servers) -> Result<()> {
        match servers {
            Servers::Plain | Servers::SmallPool => Ok(()),
            Servers::Durable => self.make_library(),
            Servers::Tls => self.make_certificates(),
        }
    }

    fn make_library(&self) -> Result<()> {
        let source = self.folder().join("slow_sync.c");
        fs::write(&source, SLOW_SYNC).map_err(Error::file(&source))?;
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(self.preload()).arg(source).arg("-ldl");
        made("cc", "gcc", command)
    }

    /// One self-signed certificate, under the names that sysbench reads.
    fn make_certificates(&self) -> Result<()> {
        let file = |name| self.folder().join(name);
        let mut command = Command::new("openssl");
        command
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=localhost"])
            .arg("-keyout")
            .arg(file("client-key.pem"))
            .arg("-out")
            .arg(file("client-cert.pem"));
        made("openssl", "openssl", command)?;
        let copied = fs::copy(file("client-cert.pem"), file("cacert.pem"));
        copied.map(drop).map_err(Error::file(file("cacert.pem")))
    }
}

/// Runs a program that makes a file.
fn made(program: &'static str, package: &'static str, mut command: Command) -> Result<()> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|_| Error::Server(flifo_mariadb::Error::Missing { program, package }))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let why = text.lines().find(|line| line.contains("rror")).unwrap_or("it failed and said nothing");
    Err(Error::Tool { program, why: why.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_tool_names_its_error() {
        let mut command = Command::new("cc");
        command.arg("/nowhere/at/all.c");
        let error = made("cc", "gcc", command).unwrap_err().to_string();
        assert!(error.starts_with("cc: ") && error.contains("/nowhere/at/all.c"), "{error}");
        let error =
            made("nothing", "some-package", Command::new("/nowhere/nothing")).unwrap_err().to_string();
        assert_eq!(error, "nothing is not here: apt-get install some-package");
    }

    #[test]
    fn files_are_made_and_go_with_their_owner() {
        let files = Files::new().unwrap();
        let folder = files.folder().to_owned();
        files.make(Servers::Durable).unwrap();
        assert!(files.preload().is_file());
        files.make(Servers::Tls).unwrap();
        for name in ["cacert.pem", "client-cert.pem", "client-key.pem"] {
            let text = fs::read_to_string(folder.join(name)).unwrap();
            assert!(text.starts_with("-----BEGIN "), "{name}: {text}");
        }
        drop(files);
        assert!(!folder.exists());
    }
}
