//! One round of one cell: a new gate, all threads at the start, a settled load, a window.

use std::sync::Arc;
use std::time::Duration;

use super::plan::{Plan, Step};
use crate::measure::admission::control::{Control, Phase, Reading};
use crate::measure::admission::limiter::{Gate, Tuning};
use crate::measure::admission::load::{Load, LoadState};
use crate::measure::admission::worker::{Client, Job, Worker};
use crate::measure::sampler::{Sampler, Server};
use crate::measure::scheduler::{self, quantile_us};
use crate::measure::thread_group::ThreadGroup;
use crate::results::{CellKey, EntryFigures, Fairness, Round};
use crate::support::error::Error;
use crate::support::{clock, interrupt};

/// Stack of a thread: nothing here calls deep; only touched pages cost memory.
pub(super) const STACK_BYTES: usize = 128 << 10;
/// For all threads to come to the start.
const ARRIVE: Duration = Duration::from_secs(60);

/// Threads and their load's state, kept from variant to variant.
pub(super) struct Rig {
    threads: u32,
    workers: ThreadGroup<Job, ()>,
    clients: ThreadGroup<Job, ()>,
    load: Load,
    state: Arc<LoadState>,
    is_broken: bool,
}

impl Rig {
    /// That many threads with their resources for a load.
    pub(super) fn new(threads: u32, load: Load) -> Result<Self, Error> {
        let state = LoadState::new(load, threads)?;
        let workers = (0..threads as usize).map(|thread| Worker { thread });
        Ok(Rig {
            threads,
            workers: ThreadGroup::start_threads("bench", STACK_BYTES, workers)?,
            clients: clients(&state)?,
            load,
            state: Arc::new(state),
            is_broken: false,
        })
    }

    /// How many threads it has.
    pub(super) fn threads(&self) -> u32 {
        self.threads
    }

    /// Makes ready for a load.
    pub(super) fn set(&mut self, load: Load) -> Result<(), Error> {
        if load != self.load {
            let state = LoadState::new(load, self.threads)?;
            self.clients.close();
            self.clients = clients(&state)?;
            (self.state, self.load) = (Arc::new(state), load);
        }
        Ok(())
    }

    fn participants(&self) -> u32 {
        self.threads + self.clients.tids().len() as u32
    }
}

fn clients(state: &LoadState) -> Result<ThreadGroup<Job, ()>, Error> {
    let loops = match state {
        LoadState::Socket(sockets) => sockets.loops(),
        _ => 0,
    };
    ThreadGroup::start_threads("client", STACK_BYTES, (0..loops).map(|index| Client { index }))
}

impl Drop for Rig {
    fn drop(&mut self) {
        if self.is_broken {
            self.workers.abandon();
            self.clients.abandon();
        } else {
            self.workers.close();
            self.clients.close();
        }
    }
}

/// What names the step's cell in the results.
pub(super) fn key(step: &Step) -> CellKey {
    CellKey {
        target: step.setting.variant.target().into(),
        load: step.load.name().into(),
        front: step.load.front().into(),
        policy: step.setting.variant.name().into(),
        concurrency: step.setting.concurrency,
        // A statement is one entry, whatever the tickets.
        tickets: 1,
        threads: step.threads,
        leave_on_read: true,
        ..CellKey::default()
    }
}

/// Runs one step; `None` if Ctrl-C cut it off.
pub(super) fn run(plan: &Plan, step: &Step, rig: &mut Rig) -> Result<Option<Round>, Error> {
    let tuning =
        Tuning { lock_waiters_max: plan.lock_waiters_max, quantum: plan.quantum, is_strict: plan.verify };
    let gate = Gate::new(step.setting.variant, step.setting.concurrency, tuning)
        .map_err(|error| Error::Usage(error.to_string()))?;
    let control = Arc::new(Control::new(rig.threads, plan.verify));
    let job = Job {
        gate: gate.clone(),
        state: Arc::clone(&rig.state),
        control: Arc::clone(&control),
        seed: plan.seed,
        round: step.round,
    };
    rig.workers.send(&job);
    rig.clients.send(&job);
    drop(job);
    let all_there = wait_for_all(&control, rig.participants(), ARRIVE);
    if !all_there {
        control.go_to(Phase::Over);
    }
    control.open();

    let interrupted = sleep(&control, plan.settle(step));
    let before = (control.read(), gate.snapshot());
    control.go_to(Phase::Measure);
    let sampler = Sampler::start(Server::RestOfThisProcess, rig.clients.tids().to_vec());
    let interrupted = interrupted || sleep(&control, plan.time);
    let after = (control.read(), gate.snapshot());
    let longest_ns = control.longest_ns(after.0.at_ns);
    let samples = sampler.finish();
    control.go_to(Phase::Over);
    // The clients' errors first: they are why a connection of a worker was closed.
    let finished = rig.clients.collect().and(rig.workers.collect());
    rig.is_broken = finished.is_err();
    finished?;
    if interrupted {
        return Ok(None);
    }
    if !all_there {
        return Err(Error::Unmeasured(format!(
            "not all of {} threads were at the start within {} s; use fewer --threads",
            rig.threads,
            ARRIVE.as_secs()
        )));
    }

    let per_thread: Vec<u64> = per_thread(&before.0, &after.0);
    let statements = per_thread.iter().sum();
    let elapsed = Duration::from_nanos(after.0.at_ns - before.0.at_ns);
    let round = Round::new(step.round, elapsed.as_secs_f64(), statements, statements, samples);
    let counted = before.1.zip(after.1).map(|(before, after)| scheduler::figures(&after.since(&before)));
    let admission = counted.unwrap_or_default();
    let longest = Duration::from_nanos(longest_ns);
    Ok(Some(Round {
        entry: EntryFigures {
            limit: gate.limit(),
            enter_max_rotations: rotations(longest, elapsed, admission.admitted_from_queue, rig.threads),
            ..entry_figures(&control, &before.0, &after.0, longest_ns)
        },
        admission,
        fairness: Fairness::of(&per_thread),
        ..round
    }))
}

/// Waits until every thread is ready, or one has failed; false if they do not get ready in time.
fn wait_for_all(control: &Control, participants: u32, patience: Duration) -> bool {
    let until_ns = clock::now_ns() + clock::ns(patience);
    while control.arrived() < participants && control.phase() != Phase::Over {
        if clock::now_ns() >= until_ns {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Sleeps until the time has passed, a thread has failed, or Ctrl-C came, for which it is true.
fn sleep(control: &Control, time: Duration) -> bool {
    let until_ns = clock::now_ns() + clock::ns(time);
    interrupt::sleep_until(|| if control.phase() == Phase::Over { 0 } else { until_ns })
}

fn per_thread(before: &Reading, after: &Reading) -> Vec<u64> {
    after.statements.iter().zip(&before.statements).map(|(after, before)| after - before).collect()
}

/// A wait in rotations of the queue: in one, as many are served as there are threads. `served`: from the queue, in `elapsed`.
fn rotations(wait: Duration, elapsed: Duration, served: Option<u64>, threads: u32) -> Option<f64> {
    let served = served.filter(|served| *served > 0)?;
    Some(wait.as_secs_f64() / elapsed.as_secs_f64() * served as f64 / f64::from(threads))
}

fn entry_figures(control: &Control, before: &Reading, after: &Reading, longest_ns: u64) -> EntryFigures {
    let difference = after.entered_ns.wrapping_sub(&before.entered_ns).expect("all have one shape");
    let enter = |quantile| quantile_us(&difference, quantile);
    EntryFigures {
        enter_p50_us: enter(0.50),
        enter_p95_us: enter(0.95),
        enter_p99_us: enter(0.99),
        enter_p999_us: enter(0.999),
        enter_max_us: (longest_ns > 0).then_some(longest_ns as f64 / 1e3),
        enter_max_rotations: None,
        limit: None,
        running_max: control.running.as_ref().map(|running| running.most()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_as_long_as_all_threads_take_is_one_rotation() {
        let second = Duration::from_secs(1);
        assert_eq!(rotations(second / 4, second, Some(4_000), 1_000), Some(1.0));
        assert_eq!(rotations(second, second, Some(4_000), 1_000), Some(4.0));
        // No thread queued, or the count is unknown.
        assert_eq!((rotations(second, second, Some(0), 8), rotations(second, second, None, 8)), (None, None));
    }

    #[test]
    fn who_does_not_come_to_the_start_is_noticed() {
        let control = Control::new(2, false);
        control.open();
        control.arrive();
        assert!(wait_for_all(&control, 1, Duration::ZERO));
        assert!(!wait_for_all(&control, 2, Duration::ZERO));
        // The thread that fails reports its own error.
        control.give_up();
        assert!(wait_for_all(&control, 2, Duration::ZERO));
    }
}
