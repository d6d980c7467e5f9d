//! What runs beside the load, as an ordinary account: reports, which are long statements that use a CPU each, and
//! transactions that pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use flifo_mariadb::mysql::prelude::Queryable;
use flifo_mariadb::mysql::{self, Conn};

use crate::Result;
use crate::product::Server;
use crate::settings::Settings;
use crate::sysbench::USER;
use crate::workload::BIG;

/// Rows for which the transactions contend.
const HOT_ROWS: u64 = 10;

/// Connections that do the same again and again, until they are ended.
struct ClientGroup {
    what: &'static str,
    running: Vec<(u32, JoinHandle<()>)>,
    done: Arc<AtomicU64>,
    since: Instant,
}

impl ClientGroup {
    /// Each connection of `count` calls `once` with the number of its earlier calls, spread over the connections.
    fn start(
        server: &dyn Server,
        (count, what): (u32, &'static str),
        once: impl Fn(&mut Conn, u64) -> mysql::Result<()> + Send + Sync + 'static,
    ) -> Result<ClientGroup> {
        let clients = (0..count).map(|_| server.connect(USER, Some(BIG)));
        let clients = clients.collect::<Result<Vec<_>>>()?;
        let (once, done) = (Arc::new(once), Arc::new(AtomicU64::new(0)));
        let mut running = Vec::new();
        for (number, mut client) in (0..).zip(clients) {
            let id = client.connection_id();
            let (once, done) = (Arc::clone(&once), Arc::clone(&done));
            running.push((
                id,
                thread::spawn(move || {
                    let mut times = number * 7919;
                    // That it is ended is no error.
                    loop {
                        match once(&mut client, times) {
                            Ok(()) => _ = done.fetch_add(1, Ordering::Relaxed),
                            Err(error) if is_to_be_tried_again(&error) => {}
                            Err(_) => break,
                        }
                        times += 1;
                    }
                }),
            ));
        }
        Ok(ClientGroup { what, running, done, since: Instant::now() })
    }

    /// Ends them, by `admin`; how much they did. An error if one had ended: it was no load.
    fn end(self, admin: &mut Conn) -> Result<Option<String>> {
        let (done, seconds) = (self.done.load(Ordering::Relaxed), self.since.elapsed().as_secs_f64());
        let mut ended = Ok(());
        for (id, report) in self.running {
            let killed = admin.query_drop(format!("KILL {id}"));
            ended = ended.and(killed.map_err(Into::into));
            // If the server is gone, so is its connection.
            let _ = report.join();
        }
        ended.map(|()| (done > 0).then(|| format!("{:.1} {}/s", done as f64 / seconds, self.what)))
    }
}

/// A deadlock, or a wait for a row that took too long: the server has rolled it back, or the next BEGIN ends it.
fn is_to_be_tried_again(error: &mysql::Error) -> bool {
    matches!(error, mysql::Error::MySqlError(error) if [1213, 1205].contains(&error.code))
}

/// All that runs beside the load.
pub(crate) struct Background(Vec<ClientGroup>);

impl Background {
    pub(crate) fn start(server: &dyn Server, settings: &Settings) -> Result<Background> {
        let report = report_of(settings.report_rows);
        let reports = ClientGroup::start(server, (settings.reports, "reports"), move |client, _| {
            client.query_drop(&report)
        })?;
        let (rows, pause) = (u64::from(settings.rows), Duration::from_micros(settings.pause_us.into()));
        let transactions =
            ClientGroup::start(server, (settings.transactions, "transactions"), move |client, times| {
                let row = times.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16;
                let statements = [
                    "BEGIN".to_owned(),
                    format!("UPDATE sbtest1 SET k = k + 1 WHERE id = {}", 1 + row % HOT_ROWS),
                    format!("SELECT c FROM sbtest1 WHERE id = {}", 1 + row % rows),
                    "COMMIT".to_owned(),
                ];
                statements.iter().try_for_each(|statement| {
                    client.query_drop(statement)?;
                    thread::sleep(pause);
                    Ok(())
                })
            })?;
        Ok(Background(vec![reports, transactions]))
    }

    /// Ends all, by `admin`; what they did, for a note.
    pub(crate) fn end(self, admin: &mut Conn) -> Result<Vec<String>> {
        let done: Vec<_> = self.0.into_iter().map(|group| group.end(admin)).collect::<Result<_>>()?;
        Ok(done.into_iter().flatten().collect())
    }
}

/// Joins this number of `rows` with as many; without a number it lasts longer than any cell.
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
