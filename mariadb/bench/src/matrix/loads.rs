//! The loads as one table.

use super::servers::Servers;
use crate::workload::BIG;

/// The numbers of connections of a load that names no others.
pub const CONNECTIONS: [u32; 4] = [16, 64, 256, 1024];
const FIXED: [u32; 1] = [64];

/// One row of the matrix.
#[derive(Debug)]
pub struct Load {
    /// As `--load` takes it.
    pub name: &'static str,
    pub title: &'static str,
    /// A unit of work, in the plural.
    pub unit: &'static str,
    /// The server's status variable that counts the units, in upper case.
    pub counter: &'static str,
    pub script: Script,
    pub table: Table,
    /// Further arguments of sysbench.
    pub options: &'static [&'static str],
    /// Mean time between two transactions of a client.
    pub think_us: u32,
    /// The options of the servers that run it.
    pub servers: Servers,
    /// What runs beside it.
    pub background: Option<BackgroundLoad>,
    pub connections: &'static [u32],
    /// Statements or transactions are long: slices are twice as long.
    pub is_slow: bool,
    /// Measured if it is named, by the command line or by the product.
    pub is_optional: bool,
    /// Statements of an administrator before the load. `{file}` is the path of a file without its extension.
    pub setup: &'static [&'static str],
    /// The names of the loads between which this load changes; all else is theirs.
    pub phases: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// One of sysbench's.
    Sysbench(&'static str),
    /// Its file's name, and its text.
    Own(&'static str, &'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// The big one of `--rows` rows.
    Big,
    /// 100 rows.
    Hundred,
    /// One row.
    One,
}

impl Table {
    /// Its database, and its number of rows.
    pub fn place(self, rows: u32) -> (&'static str, u32) {
        match self {
            Table::Big => (BIG, rows),
            Table::Hundred => ("hot100", 100),
            Table::One => ("hot1", 1),
        }
    }
}

/// Clients beside the load, whose work is no unit of it.
#[derive(Debug)]
pub struct BackgroundLoad {
    pub clients: u32,
    pub work: Work,
    /// The server's status variable that counts its work, which the load does not change.
    pub counter: &'static str,
    /// What that counts, in the plural.
    pub unit: &'static str,
}

#[derive(Debug)]
pub enum Work {
    /// Statements, again and again, with the replacements of [`Load::setup`].
    Statements(&'static str),
    /// A script of sysbench with its options, on the big table.
    Script(Script, &'static [&'static str]),
}

const HOT_ROW: Script = Script::Own("hot_row.lua", include_str!("../../lua/hot_row.lua"));
const HOT_ROW_SETUP: &[&str] = &[
    "CREATE OR REPLACE TABLE matrix.hot (id INT PRIMARY KEY, k INT NOT NULL) ENGINE = InnoDB",
    "INSERT INTO matrix.hot SELECT seq, 0 FROM matrix.seq_1_to_10",
];
/// One range and nothing else in each event of `oltp_read_only`.
macro_rules! range_options {
    ($size:literal) => {
        &[
            "--skip-trx=on",
            "--point-selects=0",
            "--simple-ranges=1",
            "--sum-ranges=0",
            "--order-ranges=0",
            "--distinct-ranges=0",
            concat!("--range-size=", $size),
        ]
    };
}

const COPY: &str = "CREATE OR REPLACE TABLE matrix.copy LIKE sbtest.sbtest1";

const POINT_SELECT: Load = Load {
    name: "point-select",
    title: "point select",
    unit: "selects",
    counter: "COM_SELECT",
    script: Script::Sysbench("oltp_point_select"),
    table: Table::Big,
    options: &[],
    think_us: 0,
    servers: Servers::Plain,
    background: None,
    connections: &CONNECTIONS,
    is_slow: false,
    is_optional: false,
    setup: &[],
    phases: &[],
};

const RANGE: Load = Load { unit: "ranges", script: Script::Sysbench("oltp_read_only"), ..POINT_SELECT };

const READ_WRITE: Load = Load {
    name: "read-write",
    title: "read-write mix",
    unit: "transactions",
    counter: "COM_COMMIT",
    script: Script::Sysbench("oltp_read_write"),
    is_slow: true,
    ..POINT_SELECT
};

const UPDATE: Load = Load {
    name: "update-non-index",
    title: "update non-index",
    unit: "updates",
    counter: "COM_UPDATE",
    script: Script::Sysbench("oltp_update_non_index"),
    ..POINT_SELECT
};

const HOT_ROW_TRANSACTION: Load = Load {
    name: "hot-row-transaction",
    title: "transaction, 1 hot row of 10 in it",
    unit: "transactions",
    counter: "COM_COMMIT",
    script: HOT_ROW,
    setup: HOT_ROW_SETUP,
    is_slow: true,
    ..POINT_SELECT
};

/// All loads, in the order of the report.
pub static LOADS: [Load; 27] = [
    POINT_SELECT,
    Load { name: "think-300us", title: "point select, clients think 0.3 ms", think_us: 300, ..POINT_SELECT },
    Load { name: "think-2ms", title: "point select, clients think 2 ms", think_us: 2_000, ..POINT_SELECT },
    Load { name: "think-10ms", title: "point select, clients think 10 ms", think_us: 10_000, ..POINT_SELECT },
    Load { name: "range-100", title: "range of 100 rows", options: range_options!(100), ..RANGE },
    Load { name: "range-1000", title: "range of 1,000 rows", options: range_options!(1000), ..RANGE },
    READ_WRITE,
    Load {
        name: "update-index",
        title: "update index",
        script: Script::Sysbench("oltp_update_index"),
        ..UPDATE
    },
    UPDATE,
    Load { name: "hot-rows-100", title: "update, 100 hot rows", table: Table::Hundred, ..UPDATE },
    Load { name: "hot-rows-1", title: "update, 1 hot row", table: Table::One, ..UPDATE },
    HOT_ROW_TRANSACTION,
    Load {
        name: "hot-row-pause",
        title: "transaction, 1 hot row of 10, pause of 2 ms",
        options: &["--pause-us=2000"],
        ..HOT_ROW_TRANSACTION
    },
    Load {
        name: "insert",
        title: "insert, AUTO_INCREMENT",
        unit: "inserts",
        counter: "COM_INSERT",
        script: Script::Own("insert.lua", include_str!("../../lua/insert.lua")),
        setup: &[
            "CREATE OR REPLACE TABLE matrix.inserted (id INT AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL, \
                  c CHAR(120) NOT NULL, KEY (k)) ENGINE = InnoDB",
        ],
        ..POINT_SELECT
    },
    Load {
        name: "job-queue",
        title: "job queue, SKIP LOCKED",
        unit: "jobs",
        counter: "COM_DELETE",
        script: Script::Own("job_queue.lua", include_str!("../../lua/job_queue.lua")),
        setup: &[
            "CREATE OR REPLACE TABLE matrix.jobs (id BIGINT AUTO_INCREMENT PRIMARY KEY, payload VARCHAR(80) NOT NULL) \
             ENGINE = InnoDB",
            "INSERT INTO matrix.jobs (payload) SELECT 'first' FROM matrix.seq_1_to_5000",
        ],
        ..POINT_SELECT
    },
    Load {
        name: "beside-transactions",
        title: "point select beside 128 transactions that pause with locks",
        setup: HOT_ROW_SETUP,
        background: Some(BackgroundLoad {
            clients: 128,
            work: Work::Script(HOT_ROW, &["--reads=off", "--pause-us=1000"]),
            counter: "COM_COMMIT",
            unit: "transactions",
        }),
        connections: &FIXED,
        ..POINT_SELECT
    },
    Load {
        name: "beside-reports",
        title: "point select beside 4 reports of seconds",
        background: Some(BackgroundLoad {
            clients: 4,
            work: Work::Statements(
                // Without a join buffer the server counts every row that a report reads.
                "SET join_cache_level = 0; SELECT SUM(a.k ^ b.k) FROM sbtest.sbtest1 a, sbtest.sbtest1 b \
                 WHERE a.id <= 3000 AND b.id <= 3000;",
            ),
            counter: "HANDLER_READ_NEXT",
            unit: "rows",
        }),
        connections: &FIXED,
        is_slow: true,
        ..POINT_SELECT
    },
    Load {
        name: "beside-dump",
        title: "point select beside a dump",
        background: Some(BackgroundLoad {
            clients: 1,
            work: Work::Statements(
                "START TRANSACTION WITH CONSISTENT SNAPSHOT; SELECT * FROM sbtest.sbtest1; COMMIT;",
            ),
            counter: "HANDLER_READ_RND_NEXT",
            unit: "rows",
        }),
        is_slow: true,
        ..POINT_SELECT
    },
    Load {
        name: "beside-load-data",
        title: "point select beside LOAD DATA",
        setup: &[COPY, "SELECT k, c, pad FROM sbtest.sbtest1 WHERE id <= 50000 INTO OUTFILE '{file}.txt'"],
        background: Some(BackgroundLoad {
            clients: 1,
            work: Work::Statements(
                "LOAD DATA LOCAL INFILE '{file}.txt' INTO TABLE matrix.copy (k, c, pad); TRUNCATE TABLE matrix.copy;",
            ),
            counter: "HANDLER_WRITE",
            unit: "rows",
        }),
        is_slow: true,
        ..POINT_SELECT
    },
    Load {
        name: "beside-alter",
        title: "point select beside ALTER TABLE",
        setup: &[COPY, "INSERT INTO matrix.copy SELECT * FROM sbtest.sbtest1 WHERE id <= 50000"],
        background: Some(BackgroundLoad {
            clients: 1,
            work: Work::Statements("ALTER TABLE matrix.copy FORCE;"),
            counter: "COM_ALTER_TABLE",
            unit: "ALTER TABLE",
        }),
        is_slow: true,
        ..POINT_SELECT
    },
    Load {
        name: "procedure",
        title: "stored procedure",
        unit: "calls",
        counter: "COM_CALL_PROCEDURE",
        script: Script::Own("procedure.lua", include_str!("../../lua/procedure.lua")),
        // The definer, an administrator, is not admitted by the plugin.
        setup: &["CREATE OR REPLACE PROCEDURE matrix.work(IN row INT) SQL SECURITY INVOKER BEGIN \
             DECLARE found CHAR(120); START TRANSACTION; \
             SELECT c INTO found FROM sbtest.sbtest1 WHERE id = row; \
             UPDATE sbtest.sbtest1 SET k = k + 1 WHERE id = row; COMMIT; END"],
        ..POINT_SELECT
    },
    Load {
        name: "phases",
        title: "a load that changes every 20 s between three",
        unit: "units",
        phases: &["point-select", "hot-rows-100", "read-write"],
        ..POINT_SELECT
    },
    Load {
        name: "small-pool",
        title: "point select, a buffer pool of a tenth of the data",
        servers: Servers::SmallPool,
        ..POINT_SELECT
    },
    Load {
        name: "small-pool-read-write",
        title: "read-write mix, a buffer pool of a tenth of the data",
        servers: Servers::SmallPool,
        ..READ_WRITE
    },
    Load {
        name: "durable",
        title: "update non-index, durable commits, syncs of 5 ms",
        servers: Servers::Durable,
        is_slow: true,
        ..UPDATE
    },
    Load {
        name: "durable-transaction",
        title: "BEGIN, 4 changes, COMMIT, durable commits, syncs of 5 ms",
        unit: "transactions",
        counter: "COM_COMMIT",
        script: Script::Sysbench("oltp_write_only"),
        servers: Servers::Durable,
        is_slow: true,
        is_optional: true,
        ..UPDATE
    },
    Load { name: "tls", title: "point select over TLS", servers: Servers::Tls, ..POINT_SELECT },
];

impl Load {
    /// The load of this name.
    pub fn named(name: &str) -> Option<&'static Load> {
        LOADS.iter().find(|load| load.name == name)
    }

    pub fn thinks(&self) -> bool {
        self.think_us > 0
    }

    /// Status variables to read at the edges of a slice.
    pub(crate) fn counters(&self) -> Vec<&'static str> {
        let background = self.background.as_ref().map(|background| background.counter);
        [self.counter].into_iter().chain(background).collect()
    }

    /// The loads that run in turn: its phases, or itself.
    pub(crate) fn parts(&'static self) -> Vec<&'static Load> {
        match self.phases {
            [] => vec![self],
            phases => phases.iter().filter_map(|name| Load::named(name)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_short() {
        let mut names: Vec<&str> = LOADS.iter().map(|load| load.name).collect();
        assert!(names.iter().all(|name| !name.is_empty() && name.len() <= 22), "{names:?}");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), LOADS.len());
    }

    #[test]
    fn loads_of_the_same_servers_follow_each_other() {
        let mut servers: Vec<Servers> = LOADS.iter().map(|load| load.servers).collect();
        servers.dedup();
        assert_eq!(servers, [Servers::Plain, Servers::SmallPool, Servers::Durable, Servers::Tls]);
    }

    /// A unit of the load is none of its background's: else one's gain hides the other's loss.
    #[test]
    fn load_and_company_are_counted_apart() {
        for load in &LOADS {
            assert!(load.counter.chars().all(|c| c.is_ascii_uppercase() || c == '_'), "{}", load.name);
            if let Some(background) = &load.background {
                assert_ne!(background.counter, load.counter, "{}", load.name);
                assert_eq!(load.counters(), [load.counter, background.counter]);
            }
        }
    }

    #[test]
    fn phases_are_loads_of_the_same_servers() {
        for load in &LOADS {
            let parts = load.parts();
            assert_eq!(parts.len(), load.phases.len().max(1), "{}", load.name);
            for part in parts {
                assert_eq!((part.servers, part.phases.len()), (load.servers, 0), "{}", load.name);
                assert!(load.phases.is_empty() || part.background.is_none(), "{}", load.name);
            }
        }
        assert_eq!(Load::named("phases").unwrap().parts().len(), 3);
        assert!(Load::named("fast").is_none());
    }

    #[test]
    fn the_loads_of_the_issue_are_there() {
        let thinking: Vec<u32> =
            LOADS.iter().filter(|load| load.thinks()).map(|load| load.think_us).collect();
        assert_eq!(thinking, [300, 2_000, 10_000]);
        let background = LOADS.iter().filter_map(|load| Some((load.name, load.background.as_ref()?.clients)));
        let target = [
            ("beside-transactions", 128),
            ("beside-reports", 4),
            ("beside-dump", 1),
            ("beside-load-data", 1),
            ("beside-alter", 1),
        ];
        assert_eq!(background.collect::<Vec<_>>(), target);
        let pause = Load::named("hot-row-pause").unwrap();
        assert_eq!((pause.options, pause.script), (["--pause-us=2000"].as_slice(), HOT_ROW));
    }
}
