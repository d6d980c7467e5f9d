//! The processes of a load on one server: sysbench, and what runs beside it.

use std::fs;
use std::path::PathBuf;

use super::loads::{BackgroundLoad, Load, Script, Table, Work};
use super::servers::{Files, Servers};
use crate::product::Server;
use crate::running::Running;
use crate::settings::Settings;
use crate::sysbench::{self, Drive, Target};
use crate::{Error, Result};

/// Where and for how long a load's clients run.
#[derive(Clone, Copy)]
pub(super) struct Clients<'a> {
    pub(super) load: &'static Load,
    pub(super) connections: u32,
    /// sysbench's time goes on while it is stopped.
    pub(super) time_s: u32,
    pub(super) settings: &'a Settings,
    pub(super) files: &'a Files,
}

impl Clients<'_> {
    /// Prepares the load's own tables in a stopped server.
    pub(super) fn set_up(&self, running: &mut Running) -> Result<()> {
        let file = data_file(running.server()).with_extension("txt");
        // The server does not replace it.
        if file.exists() {
            fs::remove_file(&file).map_err(Error::file(&file))?;
        }
        let text = |statement: &&str| filled(running.server(), statement);
        let statements: Vec<String> = self.load.setup.iter().map(text).collect();
        running.execute(&statements)
    }

    /// Starts all processes: the load first, its background behind it.
    pub(super) fn start(&self, server: &dyn Server) -> Result<Vec<sysbench::Load>> {
        let mut background = match &self.load.background {
            Some(background) => self.start_background(server, background)?,
            None => Vec::new(),
        };
        let drive = (self.load.script, self.load.table, self.load.options);
        let mut clients = vec![self.start_script(server, drive, self.connections, self.load.think_us)?];
        clients.append(&mut background);
        Ok(clients)
    }

    fn start_background(
        &self,
        server: &dyn Server,
        background: &BackgroundLoad,
    ) -> Result<Vec<sysbench::Load>> {
        match background.work {
            Work::Statements(statements) => {
                let statements = filled(server, statements);
                let start = |_| sysbench::Load::statements(&server.socket(), &statements);
                (0..background.clients).map(start).collect()
            }
            Work::Script(script, options) => {
                let drive = (script, Table::Big, options);
                Ok(vec![self.start_script(server, drive, background.clients, 0)?])
            }
        }
    }

    fn start_script(
        &self,
        server: &dyn Server,
        (script, table, options): (Script, Table, &[&str]),
        connections: u32,
        think_us: u32,
    ) -> Result<sysbench::Load> {
        let (database, table_size) = table.place(self.settings.rows);
        let script = match script {
            Script::Sysbench(name) => name.to_owned(),
            Script::Own(name, text) => {
                let file = server.socket().with_file_name(name);
                fs::write(&file, text).map_err(Error::file(&file))?;
                file.to_string_lossy().into_owned()
            }
        };
        let socket = server.socket();
        let target = Target { socket: &socket, database, script: &script, table_size };
        let drive = Drive {
            connections,
            time_s: self.time_s,
            skip_s: 0,
            distribution: &self.settings.distribution,
            options,
            text: false,
            think_us,
            certificates: (self.load.servers == Servers::Tls).then(|| self.files.folder()),
        };
        sysbench::Load::start(target, drive)
    }
}

fn filled(server: &dyn Server, statement: &str) -> String {
    statement.replace("{file}", &data_file(server).to_string_lossy())
}

/// A file of data for LOAD DATA, without its extension.
fn data_file(server: &dyn Server) -> PathBuf {
    server.scratch().join("matrix")
}
