//! One round of one cell on a server: settings, a settled load, a window, the server's counters at both ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::plan::{Plan, Step};
use crate::measure::frontend::{Window, WindowCounters};
use crate::measure::sampler::{Sampler, Server};
use crate::measure::server::admin::Admin;
use crate::measure::server::client::{Counts, Job};
use crate::measure::server::clients::Clients;
use crate::measure::server::counters::Reading;
use crate::measure::server::script::Shape;
use crate::results::{Fairness, RefusalFigures, Round, Samples};
use crate::support::error::Error;
use crate::support::interrupt;

/// The samples taken while the clients ran.
pub(crate) struct Readings {
    before: Reading,
    after: Reading,
    samples: Samples,
}

/// Runs one step; `None` if Ctrl-C cut it off.
pub(super) fn run(
    admin: &mut Admin,
    clients: &mut Clients,
    (plan, step): (&Plan, &Step),
    (rows, seed): (u32, u64),
) -> Result<Option<Round>, Error> {
    admin.apply(&step.setting)?;
    let shape = Shape { workload: step.workload, rows, range: plan.range_of(step.workload) };
    let window = Arc::new(Window::after(plan.settle, plan.time));
    let stop = Arc::new(AtomicBool::new(false));
    let job = Job {
        shape,
        seed: step.seed(seed),
        round: step.round,
        window: Arc::clone(&window),
        stop: Arc::clone(&stop),
    };
    clients.begin(&job);
    // Statements are still sent: both readings see the full load.
    let readings = watch(admin, clients.tids(), &window, || window.end_ns());
    if interrupt::is_requested() {
        window.cut();
    }
    stop.store(true, Ordering::Relaxed);
    // The clients' errors first: they are why the rest went wrong.
    let counts = clients.finish();
    if interrupt::is_requested() {
        return Ok(None);
    }
    let Counts { counters, refusals } = counts?;
    Ok(Some(round(step.round, &window, (&counters, refusals.figures()), readings?)))
}

/// Looks on from the window's opening to a time, which an error of a client or Ctrl-C makes come early.
pub(crate) fn watch(
    admin: &mut Admin,
    tids: &[u32],
    window: &Window,
    end_ns: impl FnMut() -> u64,
) -> Result<Readings, Error> {
    interrupt::sleep_until(|| window.start_ns().min(window.end_ns()));
    let sampler = Sampler::start(Server::Process(admin.facts.pid), tids.to_vec());
    let before = admin.read(tids)?;
    interrupt::sleep_until(end_ns);
    let after = admin.read(tids)?;
    Ok(Readings { before, after, samples: without_short_rows(sampler.finish()) })
}

/// Another process's time comes in ticks of 10 ms: of the short rest at a round's end it says nothing.
fn without_short_rows(mut samples: Samples) -> Samples {
    const LEAST_S: f64 = 0.2;
    let mut last_s = 0.0;
    for second in &mut samples.seconds {
        if second.at_s - last_s < LEAST_S {
            second.cpu_server = None;
        }
        last_s = second.at_s;
    }
    samples
}

/// The figures of a round.
pub(crate) fn round(
    round: u32,
    window: &Window,
    (counters, refusals): (&WindowCounters, RefusalFigures),
    readings: Readings,
) -> Round {
    let elapsed_s = (window.end_ns() - window.start_ns()) as f64 / 1e9;
    let server = readings.after.since(&readings.before);
    let round = Round::new(round, elapsed_s, counters.statements, counters.transactions, readings.samples);
    Round {
        p50_ms: counters.latency_ms(0.50),
        p95_ms: counters.latency_ms(0.95),
        p99_ms: counters.latency_ms(0.99),
        max_ms: (counters.latency_ns_max > 0).then_some(counters.latency_ns_max as f64 / 1e6),
        entry: readings.after.entry(),
        admission: readings.after.admission_since(&readings.before),
        fairness: Fairness::of(&counters.per_connection),
        refusals,
        server,
        ..round.with_seconds(&counters.seconds)
    }
}
