//! Reports that run beside the load: long statements that use a processor each, of an ordinary account.

use std::thread::{self, JoinHandle};

use flifo_mariadb::PrivateServer;
use flifo_mariadb::mysql::Conn;
use flifo_mariadb::mysql::prelude::Queryable;

use crate::Result;
use crate::sysbench::USER;
use crate::workload::BIG;

/// They run until they are ended.
pub(crate) struct Reports {
    running: Vec<(u32, JoinHandle<()>)>,
}

impl Reports {
    /// Starts so many, or none.
    pub(crate) fn start(server: &PrivateServer, count: u32) -> Result<Reports> {
        let clients = (0..count).map(|_| server.connect_as(USER, BIG));
        let clients = clients.collect::<std::result::Result<Vec<_>, _>>()?;
        let mut reports = Reports { running: Vec::new() };
        for mut client in clients {
            let id = client.connection_id();
            // All rows with all rows: longer than any cell, however few they are. That it is ended is no error.
            let report = "SELECT SUM(a.k ^ b.k ^ c.k ^ d.k) FROM sbtest1 a, sbtest1 b, sbtest1 c, sbtest1 d";
            let report = move || _ = client.query_drop(report);
            reports.running.push((id, thread::spawn(report)));
        }
        Ok(reports)
    }

    /// Ends them, by `admin`. An error if one had ended: it was no load.
    pub(crate) fn end(self, admin: &mut Conn) -> Result<()> {
        let mut ended = Ok(());
        for (id, report) in self.running {
            let killed = admin.query_drop(format!("KILL {id}"));
            ended = ended.and(killed.map_err(Into::into));
            // If the server is gone, so is its connection.
            let _ = report.join();
        }
        ended
    }
}
