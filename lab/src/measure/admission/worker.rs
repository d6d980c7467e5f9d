//! A thread of a cell: enters, runs its statement, exits, in a closed loop.

use std::sync::Arc;

use super::control::{Control, Counters, Phase};
use super::limiter::{
    AsyncLock, Counted, FlifoSession, Futex, Gate, Limiter, MutexCondvar, Tokio, Unlimited,
};
use super::load::{LoadState, Sockets, ThreadState};
use crate::measure::thread_group::Driver;
use crate::support::clock;
use crate::support::error::Error;

/// What the threads receive for a cell.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) gate: Gate,
    pub(crate) state: Arc<LoadState>,
    pub(crate) control: Arc<Control>,
    pub(crate) seed: u64,
    pub(crate) round: u32,
}

/// A thread that competes for slots.
pub(crate) struct Worker {
    pub(crate) thread: usize,
}

/// An event loop of the load `socket`.
pub(crate) struct Client {
    pub(crate) index: usize,
}

impl Driver for Worker {
    type Order = Job;
    type Report = ();

    fn execute(&mut self, job: &Job) -> Result<(), Error> {
        match &job.gate {
            Gate::FlifoSession(admission) => self.go(job, &FlifoSession::new(admission)),
            Gate::Tokio(gate) => self.go(job, &Tokio(Arc::clone(gate))),
            Gate::AsyncLock(gate) => self.go(job, &AsyncLock(Arc::clone(gate))),
            Gate::MutexCondvar(gate) => self.go(job, &MutexCondvar(Arc::clone(gate))),
            Gate::Futex(gate) => self.go(job, &Futex(Arc::clone(gate))),
            Gate::Specimen(gate) => self.go(job, &Arc::clone(gate).limiter()),
            Gate::Open => self.go(job, &Unlimited),
        }
    }

    fn failed(job: &Job) {
        job.control.give_up();
    }
}

impl Driver for Client {
    type Order = Job;
    type Report = ();

    fn execute(&mut self, job: &Job) -> Result<(), Error> {
        let LoadState::Socket(sockets) = &*job.state else { return Ok(()) };
        job.control.arrive();
        sockets.drive(self.index, || job.control.phase() == Phase::Over)
    }

    fn failed(job: &Job) {
        job.control.give_up();
    }
}

impl Worker {
    fn go<L: Limiter>(&self, job: &Job, limiter: &L) -> Result<(), Error> {
        match &job.control.running {
            Some(running) => self.run(job, &Counted { limiter, running }),
            None => self.run(job, limiter),
        }
    }

    fn run<L: Limiter>(&self, job: &Job, limiter: &L) -> Result<(), Error> {
        let mut thread_state = ThreadState::new(job.seed, job.round, self.thread);
        let counters = job.control.counters(self.thread);
        // Touched before the start: the first writing of a page is not the scheduler's time.
        counters.end_wait();
        job.control.arrive();
        match &*job.state {
            LoadState::Socket(sockets) => self.serve(job, limiter, counters, &mut thread_state, sockets)?,
            LoadState::Work(0) => sampled(job, limiter, counters, &mut thread_state),
            _ => while statement(job, limiter, counters, &mut thread_state) {},
        }
        Ok(())
    }

    /// Runs statements on request.
    fn serve<L: Limiter>(
        &self,
        job: &Job,
        limiter: &L,
        counters: &Counters,
        thread_state: &mut ThreadState,
        sockets: &Sockets,
    ) -> Result<(), Error> {
        while sockets.receive(self.thread)? {
            statement(job, limiter, counters, thread_state);
            sockets.reply(self.thread)?;
        }
        Ok(())
    }
}

/// One statement, timed; false if the cell is over.
#[inline]
fn statement<L: Limiter>(
    job: &Job,
    limiter: &L,
    counters: &Counters,
    thread_state: &mut ThreadState,
) -> bool {
    let control = &*job.control;
    let asked_ns = clock::now_ns();
    counters.begin_wait(asked_ns);
    limiter.enter();
    let waited_ns = clock::now_ns() - asked_ns;
    counters.end_wait();
    match control.phase() {
        Phase::Settle => {}
        Phase::Measure => {
            counters.waited(waited_ns);
            control.entered(waited_ns, 1);
        }
        Phase::Over => {
            limiter.exit();
            return false;
        }
    }
    job.state.section(limiter, thread_state);
    limiter.exit();
    counters.done();
    true
}

/// A shorter wait is none: the thread found a free slot.
const AT_ONCE_NS: u64 = 1_000;
/// Statements in a row that are not timed, after one that found a free slot.
const UNTIMED: u64 = 63;
/// If a row of untimed statements took longer, one of them waited.
const ROW_NS_MAX: u64 = 20_000;

/// Runs empty statements, which two readings of the clock each would double.
///
/// A thread that finds a free slot is timed once in 64 entries, a thread that waits at each. A row of untimed entries that took
/// long counts as one wait of that time and 62 entries that found a slot: the longest wait is never too low, and too high by
/// the rest of the row, some microseconds or a loss of the CPU.
fn sampled<L: Limiter>(job: &Job, limiter: &L, counters: &Counters, thread_state: &mut ThreadState) {
    let control = &*job.control;
    loop {
        let asked_ns = clock::now_ns();
        counters.begin_wait(asked_ns);
        limiter.enter();
        let entered_ns = clock::now_ns();
        let waited_ns = entered_ns - asked_ns;
        counters.end_wait();
        job.state.section(limiter, thread_state);
        limiter.exit();
        counters.done();
        let mut phase = control.phase();
        if phase == Phase::Measure {
            counters.waited(waited_ns);
            control.entered(waited_ns, 1);
        }
        if waited_ns < AT_ONCE_NS {
            counters.begin_wait(entered_ns);
            let mut left = UNTIMED;
            while left > 0 && phase != Phase::Over {
                limiter.enter();
                job.state.section(limiter, thread_state);
                limiter.exit();
                counters.done();
                phase = control.phase();
                left -= 1;
            }
            counters.end_wait();
            let row_ns = clock::now_ns() - entered_ns;
            if phase == Phase::Measure && row_ns > ROW_NS_MAX {
                counters.waited(row_ns);
                control.entered(row_ns, 1);
                control.entered(waited_ns, UNTIMED - 1);
            } else if phase == Phase::Measure {
                control.entered(waited_ns, UNTIMED);
            }
        }
        if phase == Phase::Over {
            return;
        }
    }
}
