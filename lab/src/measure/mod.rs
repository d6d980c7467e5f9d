//! Measuring: loads, their clients, and what is counted while they run. Nothing here knows a command line or a table.
//!
//! | module | holds |
//! |---|---|
//! | `workload` | rows, statements, how a statement travels and how it runs |
//! | `definition` | tables, as the engine and as SQL define them |
//! | `closed_loop` | users in a closed loop, for workloads whose transactions are units |
//! | `dbt2` | TPC-C's transactions as in DBT-2: data, users, checks |
//! | `db_stress` | objects with a history, after db_STRESS |
//! | `frontend` | connections to the embedded engine: server threads and clients |
//! | `engine` | the embedded engine's data, its counters of changes, and the audit of its table |
//! | `server` | a live MariaDB or MySQL in the engine's place |
//! | `admission` | loads and limiters without the engine, a closed loop per thread |
//! | `storage` | the storage under a database: test files, workers, their I/O |
//! | `database` | a closed database, checked |
//! | `sampler`, `scheduler` | the machine's counters during a cell, and the scheduler's |
//! | `setting` | the scheduler's setting under which a cell is measured |
//! | `thread_group` | threads that wait for an order, execute it, report |
//!
//! This layer imports [`crate::results`] and [`crate::support`].

pub mod admission;
pub mod closed_loop;
pub(crate) mod database;
pub mod db_stress;
pub mod dbt2;
pub(crate) mod definition;
pub mod engine;
pub mod frontend;
pub mod sampler;
pub mod scheduler;
pub mod server;
pub mod setting;
pub mod storage;
pub mod thread_group;
pub mod workload;
