//! The direct front: a connection is a thread that calls the engine itself.

use std::sync::Arc;

use flifo_admission::Admission;

use super::{Clients, Job, Player, STACK_BYTES, Tally};
use crate::clock;
use crate::crew::Crew;
use crate::error::Error;
use crate::workload::{Executor, Script};
use flifo_engine::{Database, Session, Tree};

pub(super) fn open(connections: u32, database: &Database, table: &Tree) -> Result<Clients, Error> {
    let drivers = (0..connections).map(|connection| Direct {
        connection,
        database: database.clone(),
        table: table.clone(),
        session: None,
        executor: Executor::default(),
    });
    Crew::start_threads("client", STACK_BYTES, drivers)
}

struct Direct {
    connection: u32,
    database: Database,
    table: Tree,
    session: Option<Session>,
    executor: Executor,
}

impl Player for Direct {
    fn open(&mut self, admission: &Arc<Admission>) -> Result<(), Error> {
        self.session = Some(self.database.session(admission));
        Ok(())
    }

    fn run(&mut self, job: &Job) -> Result<Tally, Error> {
        let session = self.session.as_ref().expect("a crew opens sessions before it starts a job");
        let mut script = Script::new(job.shape, job.seed, job.round, self.connection);
        let mut tally = Tally::new(1);
        let mut begun_ns = clock::now_ns();
        loop {
            let statement = script.next_statement();
            self.executor.run(session, &self.table, &statement)?;
            let now_ns = clock::now_ns();
            let ended = script.transaction_ended();
            tally.reply(&job.window, now_ns, 0, ended.then_some(begun_ns));
            if now_ns >= job.window.end_ns() {
                tally.unanswered(&job.window, begun_ns);
                return Ok(tally);
            }
            if ended {
                begun_ns = now_ns;
            }
        }
    }
}
