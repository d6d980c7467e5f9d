//! The server's own counters, and the kernel's counters of its process.
//!
//! The process is found by the socket's peer, or by the variable `pid_file` if the server is reached by TCP on this
//! machine. Unavailable figures (another machine, a container) are `None`.

use std::collections::HashMap;
use std::fs;
use std::os::fd::AsFd;

use super::address::Place;
use super::session::{Session, quoted};
use super::wire::WireError;
use crate::measure::sampler::{self, Switches};
use crate::results::{AdmissionFigures, EntryFigures, ServerFigures, Variable};
use crate::support::clock;

/// The server's settings that affect its speed.
const VARIABLES: &[&str] = &[
    "autocommit",
    "datadir",
    "binlog_format",
    "innodb_adaptive_hash_index",
    "innodb_buffer_pool_instances",
    "innodb_buffer_pool_size",
    "innodb_deadlock_detect",
    "innodb_doublewrite",
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_method",
    "innodb_io_capacity",
    "innodb_lock_wait_timeout",
    "innodb_log_file_size",
    "innodb_page_size",
    "innodb_read_io_threads",
    "innodb_redo_log_capacity",
    "innodb_rollback_on_timeout",
    "innodb_spin_wait_delay",
    "innodb_sync_spin_loops",
    "innodb_thread_concurrency",
    "innodb_write_io_threads",
    "log_bin",
    "max_connections",
    "max_prepared_stmt_count",
    "max_statement_time",
    "open_files_limit",
    "performance_schema",
    "query_cache_type",
    "sql_mode",
    "sync_binlog",
    "table_open_cache",
    "thread_cache_size",
    "thread_handling",
    "thread_pool_max_threads",
    "thread_pool_size",
    "transaction_isolation",
    "tx_isolation",
    "version_comment",
];

/// What stays the same while a run lasts.
pub(crate) struct Facts {
    pub(crate) version: String,
    pub(crate) variables: Vec<Variable>,
    /// The server's process, if it is one of this machine.
    pub(crate) pid: Option<u32>,
}

/// Asks the server and the kernel.
pub(crate) fn facts(session: &mut Session, place: &Place) -> Result<Facts, WireError> {
    let names: Vec<String> = VARIABLES.iter().map(|name| quoted(name)).collect();
    let rows = session.query(&format!(
        "SHOW GLOBAL VARIABLES WHERE Variable_name IN ({}) OR Variable_name LIKE 'flifo\\_%'",
        names.join(",")
    ))?;
    let variable = |row: super::session::Row| match &row[..] {
        [Some(name), Some(value)] => Some(Variable { name: name.clone(), value: value.clone() }),
        _ => None,
    };
    let variables = rows.into_iter().filter_map(variable).collect();
    let pid = match place {
        Place::Unix(_) => rustix::net::sockopt::socket_peercred(session.as_fd())
            .ok()
            .map(|peer| peer.pid.as_raw_nonzero().get() as u32),
        Place::Tcp { .. } if place.is_local() => {
            let path = session.value("SELECT CONCAT(IF(LEFT(@@pid_file,1)='/','',@@datadir),@@pid_file)")?;
            path.and_then(|path| fs::read_to_string(path).ok()).and_then(|text| text.trim().parse().ok())
        }
        Place::Tcp { .. } => None,
    };
    Ok(Facts { version: session.greeting.version.clone(), variables, pid: pid.filter(|pid| is_server(*pid)) })
}

impl Facts {
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|variable| variable.name == name).map(|variable| variable.value.as_str())
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.variable(name)?.parse().ok()
    }
}

/// A proxy's process, or that of a file out of another container, is not the server's. A server may run under a dynamic linker of its
/// own, whose arguments name it.
fn is_server(pid: u32) -> bool {
    const NAMES: [&str; 2] = ["mariadbd", "mysqld"];
    let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let (name, arguments) = (read("comm"), read("cmdline"));
    let is_named = |argument: &[u8]| {
        let file = argument.rsplit(|byte| *byte == b'/').next();
        NAMES.iter().any(|name| file == Some(name.as_bytes()))
    };
    NAMES.iter().any(|server| name.starts_with(server.as_bytes()))
        || (name.starts_with(b"ld-linux") && arguments.split(|byte| *byte == 0).any(is_named))
}

/// The server's counters, its process's, and the clients', at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    /// The middle of the time in which the server answered.
    at_ns: u64,
    status: HashMap<String, u64>,
    server_cpu_ns: Option<u64>,
    server_switches: Option<Switches>,
    client_cpu_ns: u64,
}

const STATUS: [&str; 8] = [
    "Questions",
    "Com_select",
    "Com_update",
    "Com_insert",
    "Com_delete",
    "Com_commit",
    "Innodb_row_lock_waits",
    "Threads_connected",
];

impl Reading {
    pub(crate) fn now(
        session: &mut Session,
        pid: Option<u32>,
        client_tids: &[u32],
    ) -> Result<Self, WireError> {
        let names: Vec<String> = STATUS.iter().map(|name| quoted(name)).collect();
        let asked_ns = clock::now_ns();
        let rows = session.query(&format!(
            "SHOW GLOBAL STATUS WHERE Variable_name IN ({}) OR Variable_name LIKE 'Flifo\\_%'",
            names.join(",")
        ))?;
        let at_ns = asked_ns + (clock::now_ns() - asked_ns) / 2;
        let client_cpu_ns = client_tids.iter().filter_map(|tid| sampler::thread_ns(*tid)).sum();
        let number = |row: &super::session::Row| match &row[..] {
            [Some(name), Some(value)] => Some((name.clone(), value.parse().ok()?)),
            _ => None,
        };
        Ok(Reading {
            at_ns,
            status: rows.iter().filter_map(number).collect(),
            server_cpu_ns: pid.and_then(sampler::process_ns),
            server_switches: pid.and_then(|pid| Switches::of(pid, || ())),
            client_cpu_ns,
        })
    }

    /// Connections that are open.
    pub(crate) fn connections(&self) -> Option<u64> {
        self.status.get("Threads_connected").copied()
    }

    /// How much a counter grew since `before`.
    fn grown(&self, before: &Reading, name: &str) -> Option<u64> {
        Some(self.status.get(name)?.saturating_sub(*before.status.get(name)?))
    }

    fn switched(&self, before: &Reading) -> Option<u64> {
        Some(self.server_switches.as_ref()?.since(before.server_switches.as_ref()?))
    }

    /// The figures between two readings.
    pub(crate) fn since(&self, before: &Reading) -> ServerFigures {
        let elapsed_s = (self.at_ns - before.at_ns) as f64 / 1e9;
        // This reading's own question.
        let statements = self.grown(before, "Questions").map(|n| n.saturating_sub(1));
        let per_s = |count: Option<u64>| count.filter(|_| elapsed_s > 0.0).map(|n| n as f64 / elapsed_s);
        let each = |amount: Option<f64>| {
            let statements = statements.filter(|n| *n > 0)? as f64;
            amount.map(|amount| amount / statements)
        };
        let cpu_ns = self.server_cpu_ns.zip(before.server_cpu_ns).map(|(now, then)| now.saturating_sub(then));
        let client_ns = self.client_cpu_ns.saturating_sub(before.client_cpu_ns);
        ServerFigures {
            server_elapsed_s: Some(elapsed_s),
            server_statements_per_s: per_s(statements),
            server_selects_per_s: per_s(self.grown(before, "Com_select")),
            server_updates_per_s: per_s(self.grown(before, "Com_update")),
            server_inserts_per_s: per_s(self.grown(before, "Com_insert")),
            server_deletes_per_s: per_s(self.grown(before, "Com_delete")),
            server_commits_per_s: per_s(self.grown(before, "Com_commit")),
            server_row_lock_waits_per_s: per_s(self.grown(before, "Innodb_row_lock_waits")),
            server_cpu_us_per_statement: each(cpu_ns.map(|ns| ns as f64 / 1e3)),
            server_context_switches_per_statement: each(self.switched(before).map(|n| n as f64)),
            client_cpu_us_per_statement: each(Some(client_ns as f64 / 1e3)),
        }
    }

    /// What the plugin counted between two readings; nothing is known without it.
    pub(crate) fn admission_since(&self, before: &Reading) -> AdmissionFigures {
        AdmissionFigures {
            admitted: self.grown(before, "Flifo_admitted"),
            admitted_from_queue: self.grown(before, "Flifo_admitted_from_queue"),
            admitted_by_force: self.grown(before, "Flifo_admitted_by_force"),
            ..AdmissionFigures::default()
        }
    }

    /// The plugin's limit now, which `auto` changes.
    pub(crate) fn entry(&self) -> EntryFigures {
        let limit = self.status.get("Flifo_thread_concurrency").and_then(|limit| u32::try_from(*limit).ok());
        EntryFigures { limit, ..EntryFigures::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at_ns: u64, factor: u64) -> Reading {
        let counts = [("Questions", 1_000), ("Com_select", 900), ("Flifo_admitted", 10)];
        let status = counts
            .map(|(name, n)| (name.to_owned(), n * factor + u64::from(name == "Questions" && factor > 0)));
        Reading {
            at_ns,
            status: status.into(),
            server_cpu_ns: Some(50_000_000 * factor),
            // Thread 2 came later, thread 9 has ended.
            server_switches: Some(Switches(if factor == 0 {
                [(1, 5), (9, 3)].into()
            } else {
                [(1, 1_005), (2, 1_000)].into()
            })),
            client_cpu_ns: 7_000_000 * factor,
        }
    }

    #[test]
    fn figures_by_hand() {
        let (before, after) = (reading(1_000, 0), reading(2_000_001_000, 1));
        let figures = after.since(&before);
        assert_eq!(figures.server_elapsed_s, Some(2.0));
        assert_eq!(figures.server_statements_per_s, Some(500.0), "without the reading's own question");
        assert_eq!(figures.server_selects_per_s, Some(450.0));
        assert_eq!(figures.server_updates_per_s, None, "a counter that the server has not is not 0");
        assert_eq!(figures.server_cpu_us_per_statement, Some(50.0));
        assert_eq!(figures.server_context_switches_per_statement, Some(2.0));
        assert_eq!(figures.client_cpu_us_per_statement, Some(7.0));
        let admission = after.admission_since(&before);
        assert_eq!((admission.admitted, admission.handed_off), (Some(10), None));
    }

    #[test]
    fn this_process_is_no_server() {
        assert!(!is_server(std::process::id()));
    }
}
