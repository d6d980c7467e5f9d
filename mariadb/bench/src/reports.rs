//! Reports that run beside the load: long statements that use a processor each, of an ordinary account.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use flifo_mariadb::PrivateServer;
use flifo_mariadb::mysql::Conn;
use flifo_mariadb::mysql::prelude::Queryable;

use crate::Result;
use crate::sysbench::USER;
use crate::workload::BIG;

/// They run until they are ended.
pub(crate) struct Reports {
    running: Vec<(u32, JoinHandle<()>)>,
    done: Arc<AtomicU64>,
    since: Instant,
}

impl Reports {
    /// Starts so many connections with reports, or none. Each is of so many `rows` joined with as many, again and again; without
    /// a number it is one that lasts longer than any cell.
    pub(crate) fn start(server: &PrivateServer, count: u32, rows: Option<u32>) -> Result<Reports> {
        let clients = (0..count).map(|_| server.connect_as(USER, BIG));
        let clients = clients.collect::<std::result::Result<Vec<_>, _>>()?;
        let done = Arc::new(AtomicU64::new(0));
        let mut running = Vec::new();
        for client in clients {
            let id = client.connection_id();
            let (report, done) = (report_of(rows), Arc::clone(&done));
            running.push((id, thread::spawn(move || report_until_killed(client, &report, &done))));
        }
        Ok(Reports { running, done, since: Instant::now() })
    }

    /// Ends them, by `admin`; how many there were. An error if one had ended: it was no load.
    pub(crate) fn end(self, admin: &mut Conn) -> Result<Option<String>> {
        let (done, seconds) = (self.done.load(Ordering::Relaxed), self.since.elapsed().as_secs_f64());
        let mut ended = Ok(());
        for (id, report) in self.running {
            let killed = admin.query_drop(format!("KILL {id}"));
            ended = ended.and(killed.map_err(Into::into));
            // If the server is gone, so is its connection.
            let _ = report.join();
        }
        ended.map(|()| (done > 0).then(|| format!("{:.1} reports/s", done as f64 / seconds)))
    }
}

fn report_of(rows: Option<u32>) -> String {
    match rows {
        Some(rows) => {
            format!("SELECT SUM(a.k ^ b.k) FROM sbtest1 a, sbtest1 b WHERE a.id <= {rows} AND b.id <= {rows}")
        }
        // All rows with all rows, twice: however few they are.
        None => {
            "SELECT SUM(a.k ^ b.k ^ c.k ^ d.k) FROM sbtest1 a, sbtest1 b, sbtest1 c, sbtest1 d".to_owned()
        }
    }
}

/// That it is ended is no error.
fn report_until_killed(mut client: Conn, report: &str, done: &AtomicU64) {
    while client.query_drop(report).is_ok() {
        done.fetch_add(1, Ordering::Relaxed);
    }
}
