//! The direct frontend: a connection is a thread that calls the engine itself.

use std::sync::Arc;

use super::connection_state::ConnectionState;
use super::{ClientThread, Clients, Job, STACK_BYTES, Shared, WindowCounters};
use crate::measure::thread_group::ThreadGroup;
use crate::measure::workload::kernel::Kernel;
use crate::measure::workload::{Executor, Sbtest};
use crate::support::clock;
use crate::support::error::Error;
use flifo_engine::{Database, Session};

pub(super) fn open(connections: u32, database: &Database, table: &Sbtest) -> Result<Clients, Error> {
    let drivers = (0..connections).map(|connection| Direct {
        connection,
        database: database.clone(),
        table: table.clone(),
        session: None,
        kernel: None,
    });
    ThreadGroup::start_threads("client", STACK_BYTES, drivers)
}

struct Direct {
    connection: u32,
    database: Database,
    table: Sbtest,
    session: Option<Session>,
    kernel: Option<Arc<Kernel>>,
}

impl ClientThread for Direct {
    fn open(&mut self, shared: &Shared) -> Result<(), Error> {
        self.session = Some(self.database.session(&shared.admission));
        self.kernel.clone_from(&shared.kernel);
        Ok(())
    }

    fn run(&mut self, job: &Job) -> Result<WindowCounters, Error> {
        let session = self.session.as_ref().expect("a group opens sessions before it starts a job");
        let mut executor = Executor::new(session, &self.table, self.kernel.as_ref());
        let mut counters = WindowCounters::new(1);
        let mut state = ConnectionState::begin(&job.load, &job.window, (self.connection, 0), clock::now_ns());
        loop {
            let (outcome, _) = executor.run(state.statement(), state.values())?;
            if !state.complete(outcome, clock::now_ns(), &mut counters)? {
                return Ok(counters);
            }
        }
    }
}
