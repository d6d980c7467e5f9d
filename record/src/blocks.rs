//! The blocks and pictures by name: which rows of which records each shows.
//!
//! A new table is a row of `TABLES` and a block of that name in a page; `flifo figures` then fills it.

use crate::pages::Records;
use crate::table::{Axis, Item, Table, list};
use crate::{Key, Record, claims, heat_map};

/// A picture that is drawn from a record.
pub(crate) struct Picture {
    /// Where it stands, from the repository's root.
    pub(crate) path: &'static str,
    /// The record that it shows.
    pub(crate) record: &'static str,
    /// Draws it; `None` if the record has nothing for it.
    pub(crate) draw: fn(&Record) -> Option<String>,
}

/// All pictures.
pub(crate) const PICTURES: [Picture; 1] =
    [Picture { path: "docs/matrix.svg", record: "matrix", draw: matrix_picture }];

/// The heat map of the matrix of loads.
pub fn matrix_picture(record: &Record) -> Option<String> {
    heat_map::svg(record, "MariaDB: throughput by load and connections")
}

/// How often a writer waited because the redo log was full.
const HARD_STOPS: &str = "hard stops on redo space";

/// The slowest second of a run, as a share of its mean.
const LOWEST_SECOND: &str = "lowest second / mean";

/// A block's table: its name, its records, its shape.
type Named = (&'static str, &'static [&'static str], Table);

use Axis::{Figure, Machine, Record as Source, Scale, Variant, Workload};

const fn table(rows: &'static [Axis], columns: &'static [Axis], select: fn(&Key) -> bool) -> Table {
    Table { select, rows, columns, has_source: true }
}

/// A table below another one of the same records.
const fn below(rows: &'static [Axis], columns: &'static [Axis], select: fn(&Key) -> bool) -> Table {
    Table { has_source: false, ..table(rows, columns, select) }
}

/// Throughput, no ratio.
fn is_throughput(key: &Key) -> bool {
    key.base.is_none() && key.figure.is_empty()
}

/// A ratio of throughput.
fn is_ratio(key: &Key) -> bool {
    key.base.is_some() && key.figure.is_empty()
}

/// The plugin's throughput relative to stock.
fn is_plugin(key: &Key) -> bool {
    is_ratio(key) && is_of(key, "stock") && key.variant == "plugin"
}

/// flifo's throughput, or its ratio to another store's.
fn is_flifo(key: &Key) -> bool {
    key.figure.is_empty() && key.variant == "flifo"
}

/// YCSB's workloads are in the record only.
fn is_ycsb(key: &Key) -> bool {
    key.workload.starts_with("ycsb")
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.contains(&name)
}

/// What is compared with the policies: the other alternatives are in the record only.
fn is_shown_policy(key: &Key) -> bool {
    is_one_of(&key.variant, &["fifo", "flifo", "quantum", "tokio", "mutex-condvar", "none"])
}

fn is_of(key: &Key, base: &str) -> bool {
    key.base.as_deref() == Some(base)
}

const TABLES: &[Named] = &[
    (
        "scheduler",
        &["uncontended", "uncontended-xeon", "through-c", "handoff", "handoff-xeon"],
        table(&[Workload, Figure, Variant], &[Machine], |key| match key.workload.split_once('/') {
            Some((_, policy)) => policy == "flifo",
            None => !key.workload.starts_with("two_") && !is_one_of(&key.figure, &["there", "back"]),
        }),
    ),
    (
        "policies",
        &["admission"],
        table(&[Workload], &[Variant], |key| {
            is_throughput(key) && key.scale == Some(1024) && is_shown_policy(key)
        }),
    ),
    (
        "waits",
        &["admission"],
        below(&[Workload], &[Variant], |key| {
            key.figure == "longest wait" && key.scale == Some(1024) && is_shown_policy(key)
        }),
    ),
    (
        "admission-auto",
        &["admission-auto"],
        table(&[Workload, Scale], &[Variant], |key| is_ratio(key) && is_of(key, "none")),
    ),
    (
        "sweep",
        &["sweep", "sweep-small-pool"],
        table(&[Workload, Figure, Scale, Variant], &[], |key| {
            key.base.as_ref().is_some_and(|base| {
                key.scale == Some(1024) && key.variant == "flifo" && (key.figure.is_empty() || base == "fifo")
                    || base.ends_with("slot kept in disk reads")
            })
        }),
    ),
    ("tree", &["tree"], table(&[Workload], &[], |key| key.base.is_none())),
    ("commit", &["commit"], table(&[Workload], &[Scale], is_throughput)),
    (
        "commit-ratios",
        &["commit", "commit-xeon", "commit-slow-sync"],
        table(&[Workload, Scale, Variant], &[Machine], |key| {
            is_of(key, "peak") && key.scale == Some(1024) && key.workload.contains("hot row")
                || is_of(key, "1 thread") && key.scale == Some(1024) && key.workload.ends_with("synced")
                || is_of(key, "1 thread") && key.scale == Some(256) && key.workload.ends_with("longer")
        }),
    ),
    (
        "transactions",
        &["transactions", "transactions-small-pool"],
        table(&[Source, Figure, Scale, Variant], &[], |key| {
            key.scale == Some(1024)
                && (is_ratio(key) || [LOWEST_SECOND, HARD_STOPS].contains(&key.figure.as_str()))
        }),
    ),
    (
        "peers",
        &["peers"],
        table(&[Workload, Scale], &[Variant], |key| {
            let only_reads = ["redb", "sled"].iter().any(|store| is_of(key, store));
            is_flifo(key)
                && !only_reads
                && (key.scale == Some(1024) && !is_ycsb(key) || key.workload == "load")
        }),
    ),
    (
        "peers-synced",
        &["peers-synced"],
        table(&[Workload, Scale], &[Variant], |key| {
            is_flifo(key)
                && key.scale == Some(1024)
                && is_one_of(&key.workload, &["update", "read-write", "hot-rows-1"])
        }),
    ),
    ("storage", &["iobench-fio"], table(&[Workload, Scale], &[Figure, Variant], |key| key.base.is_some())),
    (
        "matrix",
        &["matrix"],
        table(&[Workload], &[Scale], |key| is_plugin(key) && key.scale.is_some() && key.scale != Some(256)),
    ),
    (
        "matrix-middle",
        &["matrix-middle"],
        table(&[Workload], &[Scale], |key| is_plugin(key) && key.scale.is_some()),
    ),
    ("jump", &["jump"], table(&[Workload, Scale], &[Variant], is_ratio)),
    ("matrix-means", &["matrix"], below(&[Workload, Variant], &[], |key| key.figure == "geometric mean")),
    ("limits", &["matrix-limits"], table(&[Workload, Scale], &[Variant], |key| key.figure.is_empty())),
    (
        "mariadb",
        &["mariadb", "mariadb-slow"],
        table(&[Workload, Scale], &[Machine], |key| {
            is_plugin(key) && [Some(16), Some(1024)].contains(&key.scale)
        }),
    ),
    ("mariadb-pool", &["mariadb-pool"], table(&[Workload], &[Variant, Scale], is_ratio)),
    ("mariadb-11.8", &["mariadb-11.8"], table(&[Workload], &[Variant], is_ratio)),
    ("mariadb-loads", &["mariadb-loads"], table(&[Workload, Variant], &[Scale], is_ratio)),
    ("large-replies", &["mariadb-large-replies"], table(&[Workload, Variant], &[Figure], |_| true)),
    ("mysql", &["mysql"], table(&[Workload, Scale], &[Variant], is_ratio)),
    (
        "mysql-cpu",
        &["mysql"],
        below(&[Workload, Scale], &[Variant], |key| key.figure == "server CPU per statement"),
    ),
    (
        "steady",
        &["steady-dbt2", "steady-dbt2-mariadb", "steady-read-write", "steady-read-write-mariadb"],
        table(&[Source, Figure, Scale], &[], |key| {
            is_one_of(&key.figure, &["", LOWEST_SECOND, HARD_STOPS, "new orders"]) && key.base.is_none()
        }),
    ),
    (
        "dbt2",
        &["dbt2", "dbt2-sequential"],
        table(&[Figure, Scale, Variant], &[Source], |key| {
            let figures = ["new orders", LOWEST_SECOND, "redo per commit", "pages written per commit"];
            is_one_of(&key.figure, &figures) && key.base.is_none()
        }),
    ),
    (
        "dbt2-mariadb",
        &["dbt2-mariadb"],
        table(&[Figure, Scale, Variant], &[], |key| {
            is_one_of(&key.figure, &["new orders", LOWEST_SECOND]) && key.base.is_none()
        }),
    ),
    ("target", &["target"], table(&[Workload, Scale], &[Variant, Figure], |_| true)),
];

/// Records that a repository may be without, and the command that makes them.
const MAY_BE_MISSING: [(&str, &str); 1] = [("mysql", "make bench-mysql ARGS=--record")];

/// The command that makes a record, if the record is missing and may be.
fn missing(record: &str, records: &Records) -> Option<&'static str> {
    let (_, command) = MAY_BE_MISSING.iter().find(|(name, _)| *name == record)?;
    records.get(record).is_err().then_some(*command)
}

/// The blocks of the studies that `flifo experiment` repeats, each with the claims of a record of the same name. A study
/// without a record says how to make one.
const STUDIES: [&str; 5] = [
    "experiment-flifo-2009",
    "experiment-thread-concurrency-2009",
    "experiment-kernel-mutex-2011",
    "experiment-linux-io-2012",
    "experiment-buffer-pool-instances-2012",
];

/// The README's block, which takes single rows out of several records.
const OVERVIEW: &str = "overview";

/// A line of the README's table: the label, the record, the key.
type Line = (&'static str, &'static str, Key);

/// What the README shows: what tells most in a dozen rows.
fn overview() -> Vec<Line> {
    let matrix =
        |load: &str, connections| Key::of(load).at(connections).variant("plugin").relative_to("stock");
    let peer = |workload: &str, threads, peer: &str| {
        Key::of(workload).at(threads).variant("flifo").relative_to(peer)
    };
    vec![
        ("MariaDB with the plugin: update, 100 hot rows", "matrix", matrix("update, 100 hot rows", 1024)),
        ("MariaDB with the plugin: insert, AUTO_INCREMENT", "matrix", matrix("insert, AUTO_INCREMENT", 1024)),
        ("MariaDB with the plugin: job queue, SKIP LOCKED", "matrix", matrix("job queue, SKIP LOCKED", 1024)),
        ("MariaDB with the plugin: point select", "matrix", matrix("point select", 16)),
        ("MariaDB with the plugin: read-write mix", "matrix", matrix("read-write mix", 1024)),
        ("MySQL with the plugin: update, 100 hot rows", "mysql", matrix("update, 100 hot rows", 1024)),
        (
            "scheduler: hand-off between two CPUs, time",
            "handoff",
            Key::of("hand-off to another CPU").variant("fifo").relative_to("futex"),
        ),
        (
            "scheduler: point selects over sockets",
            "sweep",
            Key::of("point-select").at(1024).variant("flifo").relative_to("fifo"),
        ),
        ("engine: update, survives a process crash", "peers", peer("update", 1024, "rocksdb")),
        ("engine: point get", "peers", peer("point-get", 1024, "lmdb")),
    ]
}

/// The names of all blocks.
pub fn names() -> Vec<&'static str> {
    TABLES.iter().map(|(name, ..)| *name).chain(STUDIES).chain([OVERVIEW]).collect()
}

/// The text of a block. The error says what is wrong, and which names there are.
pub(crate) fn render(name: &str, records: &Records) -> Result<String, String> {
    if name == OVERVIEW {
        let mut lines = overview();
        lines.retain(|(_, record, _)| missing(record, records).is_none());
        let items: Vec<Item<'_>> = lines
            .iter()
            .map(|(label, record, key)| Ok(Item { label, record: records.get(record)?, key: key.clone() }))
            .collect::<Result<_, String>>()?;
        return list(&items);
    }
    if STUDIES.contains(&name) {
        let study = name.strip_prefix(claims::PREFIX).unwrap_or(name);
        return Ok(records.get(name).map_or_else(|_| claims::not_recorded(study), claims::render));
    }
    let Some((_, sources, table)) = TABLES.iter().find(|(other, ..)| *other == name) else {
        return Err(format!("there is no block {name:?}; the blocks are {}", names().join(", ")));
    };
    if let Some(command) = sources.iter().find_map(|source| missing(source, records)) {
        return Ok(format!("Not recorded yet: `{command}` measures it.\n"));
    }
    let records = sources.iter().map(|source| records.get(source)).collect::<Result<Vec<_>, _>>()?;
    table.render(&records)
}
