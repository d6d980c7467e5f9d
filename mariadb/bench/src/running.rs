//! A server of a round: started on a copy of the data, measured, and stopped between its cells.
//!
//! Between its cells a server is stopped by a signal, so that what it does when idle (writing pages, purging,
//! watching) takes nothing from the measured server. It goes on where it was: each pays for its own work.

use std::time::Duration;

use flifo::support::clock;
use flifo::support::interrupt;
use flifo_mariadb::mysql::prelude::Queryable;
use flifo_mariadb::mysql::{self, Conn};
use rustix::process::{Pid, Signal, getpriority_process, kill_process, setpriority_process};

use crate::background::Background;
use crate::dataset::Dataset;
use crate::measure::{Edge, Figures, Reading, Usage};
use crate::product::{Launch, Product, Server, administer};
use crate::settings::Settings;
use crate::sysbench::{Drive, Load, Target, USER};
use crate::variant::{Kind, Variant};
use crate::workload::Workload;
use crate::{Error, Result, workload};

/// The load goes on for this time after the window's end, which takes time to be read.
const GRACE_S: u32 = 1;
/// A load that is to stand by runs for this time first: its statements are prepared, its rows in memory.
const WARM_UP: Duration = Duration::from_secs(2);
/// The time after each slice.
const AFTER_MOMENT: Duration = Duration::from_millis(30);
/// After a cell: until connections are gone and the server does no more than this.
const QUIET_CPUS: f64 = 0.05;
const QUIET_LOOKS: u32 = 100;
const QUIET_LOOK: Duration = Duration::from_millis(200);
/// The administrator's connections: ours and the private server's own.
const OURS: u64 = 2;

pub(crate) struct Running {
    /// What it is now.
    variant: Variant,
    admin: Conn,
    server: Box<dyn Server>,
    product: &'static Product,
}

/// The figures of a cell, and notes on what is doubtful.
pub(crate) struct Measured {
    pub(crate) figures: Result<Figures>,
    pub(crate) notes: Vec<String>,
}

impl Running {
    /// Starts it, has it read its tables if they are to be in memory, and stops it.
    pub(crate) fn start(
        product: &'static Product,
        variant: &Variant,
        launch: Launch,
        dataset: &Dataset,
        warm: bool,
    ) -> Result<Running> {
        // Its data are thrown away: it need not write its pages at the end.
        let launch = launch.set("innodb-fast-shutdown", 2).data(&dataset.directory);
        let server = (product.start)(&launch)?;
        let mut admin = administer(&*server)?;
        if variant.kind == Kind::Plugin {
            require_plugin(&*server, &mut admin)?;
        }
        admin.query_drop(product.session)?;
        if variant.kind != Kind::Pool {
            precede(admin.query_first(product.thread_query)?.and_then(Pid::from_raw));
        }
        if warm {
            admin.query_drop(format!("SELECT SUM(LENGTH(c)) FROM {}.sbtest1", workload::BIG))?;
            admin.query_drop(format!("SELECT SUM(k) FROM {}.sbtest1 FORCE INDEX (k_1)", workload::BIG))?;
        }
        let running = Running { variant: variant.clone(), admin, server, product };
        running.signal(Signal::STOP);
        Ok(running)
    }

    /// Makes another variant of it, which is stock or has the plugin, without a restart. The plugin's settings go
    /// with it, and come back as they are by default.
    pub(crate) fn turn_into(&mut self, variant: &Variant) -> Result<()> {
        if self.variant == *variant {
            return Ok(());
        }
        self.signal(Signal::CONT);
        let changed = self.change_plugin(variant);
        self.signal(Signal::STOP);
        changed.map(|()| self.variant = variant.clone())
    }

    fn change_plugin(&mut self, variant: &Variant) -> Result<()> {
        if self.variant.kind == Kind::Plugin {
            self.admin.query_drop(self.product.uninstall)?;
            let found = "SELECT COUNT(*) FROM information_schema.PLUGINS WHERE PLUGIN_NAME = 'flifo'";
            let mut looks = 0;
            while self.admin.query_first(found)?.is_none_or(|left: u32| left > 0) {
                looks += 1;
                if looks == QUIET_LOOKS {
                    return Err(Error::StillThere);
                }
                sleep_until(clock::now_ns() + clock::ns(QUIET_LOOK))?;
            }
            self.variant = Variant::stock();
        }
        if variant.kind == Kind::Plugin {
            self.admin.query_drop(self.product.install)?;
            // If a setting is refused, the next one must know that the plugin is there.
            self.variant = Variant { settings: Vec::new(), ..variant.clone() };
            for (name, value) in &variant.settings {
                let value = if value.parse::<i64>().is_ok() { value.clone() } else { format!("'{value}'") };
                self.admin.query_drop(format!("SET GLOBAL {name} = {value}"))?;
            }
        }
        Ok(())
    }

    pub(crate) fn version(&mut self) -> Result<String> {
        self.signal(Signal::CONT);
        let version = self.admin.query_first("SELECT VERSION()")?;
        self.signal(Signal::STOP);
        Ok(version.unwrap_or_default())
    }

    /// An error if the server has ended.
    pub(crate) fn is_there(&mut self) -> Result<()> {
        if self.server.runs() {
            return Ok(());
        }
        let log = self.server.error_log();
        Err(Error::Gone(log.lines().last().unwrap_or("its log is empty").to_owned()))
    }

    /// One round of one cell.
    pub(crate) fn measure(
        &mut self,
        round: u32,
        workload: Workload,
        connections: u32,
        settings: &Settings,
    ) -> Measured {
        if let Err(gone) = self.is_there() {
            return Measured { figures: Err(gone), notes: Vec::new() };
        }
        self.signal(Signal::CONT);
        let mut notes = Vec::new();
        let figures = self.in_company((round, workload), connections, settings, &mut notes);
        if let Ok(figures) = &figures {
            notes.extend(oddities(figures));
        }
        if !matches!(figures, Err(Error::Interrupted)) {
            // If it does not answer any more, the next cell says so.
            notes.extend(self.settle().unwrap_or_else(|error| vec![error.to_string()]));
        }
        self.signal(Signal::STOP);
        Measured { figures, notes }
    }

    fn in_company(
        &mut self,
        cell: (u32, Workload),
        connections: u32,
        settings: &Settings,
        notes: &mut Vec<String>,
    ) -> Result<Figures> {
        let background = Background::start(&*self.server, settings)?;
        let figures = self.under_load(cell, connections, settings);
        let ended = background.end(&mut self.admin);
        // What ended the load may have ended them as well.
        let figures = figures?;
        notes.extend(ended?);
        Ok(figures)
    }

    fn under_load(
        &mut self,
        (round, workload): (u32, Workload),
        connections: u32,
        settings: &Settings,
    ) -> Result<Figures> {
        let load =
            self.load(workload, connections, (settings.time_s + GRACE_S, settings.skip_s), settings)?;
        let begun_ns = clock::now_ns();
        let after = |seconds: u32| begun_ns + u64::from(seconds) * 1_000_000_000;
        sleep_until(after(settings.skip_s))?;
        let first = self.edge(&load, workload)?;
        sleep_until(after(settings.time_s))?;
        let last = self.edge(&load, workload)?;
        if clock::now_ns() > after(settings.time_s + GRACE_S) {
            return Err(Error::Late);
        }
        let report = load.finish()?;
        Ok(Figures::between((round, workload), &first, &last, &report))
    }

    fn load(
        &self,
        workload: Workload,
        connections: u32,
        (time_s, skip_s): (u32, u32),
        settings: &Settings,
    ) -> Result<Load> {
        let socket = self.server.socket();
        let target = Target {
            socket: &socket,
            database: workload.database(),
            script: workload.script(),
            table_size: workload.table_size(settings.rows),
        };
        let drive = Drive {
            connections,
            time_s,
            skip_s,
            distribution: &settings.distribution,
            options: workload.options(),
            text: settings.text,
            think_us: settings.think_us,
            certificates: None,
        };
        Load::start(target, drive)
    }

    /// A load that runs for this time at most, and is stopped with its server, except in its slices.
    pub(crate) fn stand_by(
        &mut self,
        workload: Workload,
        connections: u32,
        time: Duration,
        settings: &Settings,
    ) -> Result<Load> {
        let time_s = time.as_secs() as u32 + GRACE_S;
        let start =
            |running: &mut Running| Ok(vec![running.load(workload, connections, (time_s, 0), settings)?]);
        let mut loads = self.stand_by_with(WARM_UP, start)?;
        loads.pop().ok_or(Error::Nothing)
    }

    /// Has `start` start clients while the server runs, lets them run for `warm_up`, and stops clients and server. A client
    /// whose start or warm-up fails ends here.
    pub(crate) fn stand_by_with(
        &mut self,
        warm_up: Duration,
        start: impl FnOnce(&mut Running) -> Result<Vec<Load>>,
    ) -> Result<Vec<Load>> {
        self.signal(Signal::CONT);
        let clients = start(self).and_then(|clients| {
            sleep_until(clock::now_ns() + clock::ns(warm_up))?;
            clients.iter().for_each(|client| client.signal(Signal::STOP));
            Ok(clients)
        });
        self.signal(Signal::STOP);
        clients
    }

    /// Runs one slice: the server and its clients run, and are stopped again. Returns both edges of the counted window. CPU
    /// time is read of the first client.
    pub(crate) fn slice(
        &mut self,
        clients: &mut [Load],
        counters: &[&str],
        (settle, counts): (Duration, Duration),
    ) -> Result<(Edge, Edge)> {
        self.is_there()?;
        self.signal(Signal::CONT);
        // The load is the first: it starts last, when its background runs, and stops first.
        clients.iter().rev().for_each(|client| client.signal(Signal::CONT));
        let edges = self.edges_of_slice(&clients[0], counters, (settle, counts));
        let runs = clients.iter_mut().try_for_each(Load::still_runs);
        clients.iter().for_each(|client| client.signal(Signal::STOP));
        // Statements that are under way end. Transactions do not: their client is stopped.
        let ended = sleep_until(clock::now_ns() + clock::ns(AFTER_MOMENT));
        self.signal(Signal::STOP);
        ended.and(runs).and(edges)
    }

    fn edges_of_slice(
        &mut self,
        load: &Load,
        counters: &[&str],
        (settle, counts): (Duration, Duration),
    ) -> Result<(Edge, Edge)> {
        sleep_until(clock::now_ns() + clock::ns(settle))?;
        // The switches are in a file for each thread, which takes too long here.
        let first = self.edge_by(load, counters, Usage::of)?;
        sleep_until(clock::now_ns() + clock::ns(counts))?;
        Ok((first, self.edge_by(load, counters, Usage::of)?))
    }

    /// The private server.
    pub(crate) fn server(&self) -> &dyn Server {
        &*self.server
    }

    /// Executes statements as an administrator, whom the plugin does not limit, and stops the server again.
    pub(crate) fn execute(&mut self, statements: &[String]) -> Result<()> {
        self.signal(Signal::CONT);
        let executed = statements.iter().try_for_each(|statement| self.admin.query_drop(statement));
        self.signal(Signal::STOP);
        Ok(executed?)
    }

    /// Ends the connections that a load has left, and stops the server again.
    pub(crate) fn end_clients(&mut self) -> Result<()> {
        const NO_SUCH_THREAD: u16 = 1094;
        let Some(connections_of) = self.product.connections_of else {
            return self.execute(&[format!("KILL USER {USER}@localhost")]);
        };
        self.signal(Signal::CONT);
        let found = self.admin.query::<u64, _>(connections_of(USER));
        let ended = found.and_then(|connections| {
            connections.iter().try_for_each(|connection| {
                match self.admin.query_drop(format!("KILL {connection}")) {
                    // It has ended by itself.
                    Err(mysql::Error::MySqlError(error)) if error.code == NO_SUCH_THREAD => Ok(()),
                    killed => killed,
                }
            })
        });
        self.signal(Signal::STOP);
        Ok(ended?)
    }

    /// A number that the server returns for this question; the server is stopped again.
    pub(crate) fn number(&mut self, question: &str) -> Result<Option<u64>> {
        self.signal(Signal::CONT);
        let number = self.admin.query_first(question);
        self.signal(Signal::STOP);
        Ok(number?)
    }

    /// What the plugin still counts as running or queued, though no load runs; `None` if that is nothing.
    pub(crate) fn left_in_scheduler(&mut self) -> Result<Option<String>> {
        if self.variant.kind != Kind::Plugin {
            return Ok(None);
        }
        let left = format!(
            "SELECT CONCAT(COUNT(*), ' of Flifo_running, Flifo_pending and Flifo_queued are not 0') FROM {} \
             WHERE VARIABLE_NAME IN ('FLIFO_RUNNING', 'FLIFO_PENDING', 'FLIFO_QUEUED') \
             AND VARIABLE_VALUE <> 0 HAVING COUNT(*) > 0",
            self.product.status_table
        );
        self.signal(Signal::CONT);
        let left = self.admin.query_first(left);
        self.signal(Signal::STOP);
        Ok(left?)
    }

    /// A load has ended: its connections are gone.
    pub(crate) fn is_over(&mut self) -> Result<Vec<String>> {
        self.signal(Signal::CONT);
        let notes = self.settle();
        self.signal(Signal::STOP);
        notes
    }

    fn edge(&mut self, load: &Load, workload: Workload) -> Result<Edge> {
        self.edge_by(load, &[workload.counter()], Usage::with_switches)
    }

    fn edge_by(&mut self, load: &Load, counters: &[&str], usage: fn(u32) -> Usage) -> Result<Edge> {
        let _first = Precedence::of_this_thread();
        let server = usage(self.server.pid());
        let sysbench = Usage::of(load.pid());
        Ok(Edge { reading: Reading::take(&mut self.admin, self.product, counters)?, server, sysbench })
    }

    /// Waits until the connections are gone and the server has little left to do, and sees whether admission has.
    fn settle(&mut self) -> Result<Vec<String>> {
        let mut notes = Vec::new();
        let mut before = Usage::of(self.server.pid());
        let mut reading = Reading::default();
        for look in 1..=QUIET_LOOKS {
            // After Ctrl-C nobody wants its figures any more.
            if sleep_until(clock::now_ns() + clock::ns(QUIET_LOOK)).is_err() {
                return Ok(notes);
            }
            let now = Usage::of(self.server.pid());
            let cpus = now.cpus_since(&before);
            reading = Reading::take(&mut self.admin, self.product, &["COM_SELECT"])?;
            let connected = reading.get("THREADS_CONNECTED").unwrap_or(0);
            if connected <= OURS && cpus <= QUIET_CPUS {
                break;
            }
            before = now;
            if look == QUIET_LOOKS {
                notes.push(format!(
                    "not quiet after the cell: {} connections, {cpus:.2} CPUs in use",
                    connected.saturating_sub(OURS)
                ));
            }
        }
        if self.variant.kind == Kind::Plugin {
            let left = |name: &str| reading.get(name).unwrap_or(0);
            let (running, pending, queued) =
                (left("FLIFO_RUNNING"), left("FLIFO_PENDING"), left("FLIFO_QUEUED"));
            if running + pending + queued > 0 {
                notes.push(format!("at rest T = {running}, P = {pending}, Q = {queued}: please report this"));
            }
        }
        Ok(notes)
    }

    fn signal(&self, signal: Signal) {
        // The private server has not waited for it: the number is its own, or nobody's.
        if let Some(pid) = i32::try_from(self.server.pid()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A stopped one would not hear that it is to end.
        self.signal(Signal::CONT);
    }
}

fn sleep_until(then_ns: u64) -> Result<()> {
    if interrupt::sleep_until(|| then_ns) { Err(Error::Interrupted) } else { Ok(()) }
}

/// A server goes on without a plugin that did not like its settings.
fn require_plugin(server: &dyn Server, admin: &mut Conn) -> Result<()> {
    let found = "SELECT PLUGIN_STATUS FROM information_schema.PLUGINS WHERE PLUGIN_NAME = 'flifo'";
    if admin.query_first(found)?.is_some_and(|status: String| status == "ACTIVE") {
        return Ok(());
    }
    let log = server.error_log();
    let told = log.lines().filter(|line| line.contains("flifo") && line.contains("ERROR"));
    let first = told.map(|line| line.split_once("] ").map_or(line, |(_, text)| text)).next();
    Err(Error::NoPlugin(first.unwrap_or("the server's log does not say why").to_owned()))
}

/// The reader must not wait behind a thousand threads for a CPU, or the window's ends are seconds off.
/// What this thread starts is to have no precedence, so it ends with this.
struct Precedence {
    before: i32,
}

impl Precedence {
    fn of_this_thread() -> Precedence {
        let before = getpriority_process(None).unwrap_or(0);
        precede(None);
        Precedence { before }
    }
}

impl Drop for Precedence {
    fn drop(&mut self) {
        let _ = setpriority_process(None, self.before);
    }
}

/// Of a thread, or of this one. Not everyone may; then the readings are less exact, which they tell themselves.
fn precede(thread: Option<Pid>) {
    let _ = setpriority_process(thread, -20);
}

/// What makes a figure doubtful.
fn oddities(figures: &Figures) -> Vec<String> {
    let mut notes = Vec::new();
    if figures.window_uncertainty > 0.02 {
        let percent = 100.0 * figures.window_uncertainty;
        notes.push(format!("the window's length is known to {percent:.0}% only"));
    }
    let off = figures.sysbench_per_s / figures.throughput_per_s - 1.0;
    if off.abs() > 0.15 {
        notes.push(format!(
            "sysbench counts {:.0}/s to its end, the server {:.0}/s in the window",
            figures.sysbench_per_s, figures.throughput_per_s
        ));
    }
    notes
}
