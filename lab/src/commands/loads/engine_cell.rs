//! A round on the embedded engine: the load's window is watched from its opening to its end.

use std::time::Duration;

use flifo_admission::{Admission, Config, Snapshot};
use flifo_engine::{Database, EngineStats};

use super::args::LoadArgs;
use super::plan::{Plan, Step};
use crate::commands::sweep::engine_args::engine_settings;
use crate::commands::sweep::engine_cell::{disk_figures, latency_max_ms};
use crate::measure::closed_loop::{Counts, KindCounts};
use crate::measure::engine::{changes, series};
use crate::measure::frontend::{FrontendKind, STACK_BYTES, Window, WindowCounters};
use crate::measure::sampler::{Sampler, Server};
use crate::measure::scheduler;
use crate::results::series::SeriesBuilder;
use crate::results::{CellKey, Fairness, KindFigures, Round, Samples, Series, Settings};
use crate::support::error::Error;
use crate::support::{clock, interrupt, limits};

/// Time from the last sample of the counters to the window's end, when users begin to stop.
const LAST_SAMPLE_NS: u64 = 20_000_000;

/// What engine and scheduler counted during a window.
pub(crate) struct Watched {
    elapsed: Duration,
    counted: Duration,
    samples: Samples,
    admission: Snapshot,
    engine: (EngineStats, EngineStats),
    changes: changes::ChangeSampler,
    series: Series,
}

/// Reads the counters at both ends of the window, and in between; `None` after Ctrl-C, with the window cut.
pub(crate) fn watch(database: &Database, admission: &Admission, window: &Window) -> Option<Watched> {
    // An error of a user, or Ctrl-C, closes the window early: the sleeps look for that.
    let mut is_interrupted = interrupt::sleep_until(|| window.start_ns().min(window.end_ns()));
    let mut sampler = Sampler::start(Server::RestOfThisProcess, Vec::new());
    let (before, before_ns, entered) = (database.stats(), clock::now_ns(), admission.snapshot());
    let mut sampled = changes::ChangeSampler::from(window.start_ns(), &before);
    let mut series = SeriesBuilder::new(window.start_ns(), window.length_ns(), series::reading(&before));
    is_interrupted = is_interrupted
        || interrupt::sleep_until(|| {
            sampled.sample(database);
            if clock::now_ns() >= series.next_ns() {
                let stats = database.stats();
                series.add(clock::now_ns(), series::reading(&stats));
            }
            window.end_ns().saturating_sub(LAST_SAMPLE_NS)
        });
    sampler.sample_run_queue();
    let (after, after_ns, left) = (database.stats(), clock::now_ns(), admission.snapshot());
    sampled.end(&after, after_ns, window.end_ns());
    let series = series.finish(after_ns, window.end_ns(), series::reading(&after));
    is_interrupted = is_interrupted || interrupt::sleep_until(|| window.end_ns());
    let mut samples = sampler.finish();
    sampled.note(&mut samples.seconds);
    if is_interrupted {
        window.cut();
        return None;
    }
    Some(Watched {
        elapsed: Duration::from_nanos(window.end_ns() - window.start_ns()),
        counted: Duration::from_nanos(after_ns - before_ns),
        samples,
        admission: left.since(&entered),
        engine: (before, after),
        changes: sampled,
        series,
    })
}

impl Watched {
    /// The figures of the round whose users have counted `counters`.
    pub(crate) fn round(self, round: u32, counters: &WindowCounters) -> Round {
        let (before, after) = &self.engine;
        let elapsed_s = self.elapsed.as_secs_f64();
        let figures = Round::new(round, elapsed_s, counters.statements, counters.transactions, self.samples);
        let figures = Round {
            p50_ms: counters.latency_ms(0.50),
            p95_ms: counters.latency_ms(0.95),
            p99_ms: counters.latency_ms(0.99),
            max_ms: latency_max_ms(counters),
            admission: scheduler::figures(&self.admission),
            fairness: Fairness::of(&counters.per_connection),
            disk: disk_figures(before, after, self.counted),
            changes: changes::figures(before, after, self.counted, &self.changes),
            refusals: counters.retries.figures(),
            series: Some(self.series.with_transactions(&counters.transactions_per_interval)),
            ..figures
        };
        figures.with_seconds(&counters.seconds)
    }
}

/// The round with the figures of each kind of transaction.
pub(crate) fn with_names<const N: usize>(mut round: Round, counts: &Counts, names: [&str; N]) -> Round {
    let figures = |(name, kind): (&str, &KindCounts)| {
        let share = kind.ended() as f64 / counts.all.transactions as f64;
        KindFigures {
            kind: name.into(),
            committed: kind.committed,
            rolled_back: kind.rolled_back,
            retries: kind.retries,
            transactions_per_s: kind.ended() as f64 / round.elapsed_s,
            share: (counts.all.transactions > 0).then_some(share),
            p50_ms: kind.latency_ms(0.50),
            p95_ms: kind.latency_ms(0.95),
            p99_ms: kind.latency_ms(0.99),
            max_ms: (kind.ended() > 0).then_some(kind.latency_ns_max as f64 / 1e6),
        }
    };
    round.kinds = names.into_iter().zip(&counts.kinds).map(figures).collect();
    round
}

/// What names a step's cell on the embedded engine.
pub(crate) fn key(plan: &Plan, step: &Step) -> CellKey {
    CellKey {
        target: "engine".into(),
        workload: plan.workload.into(),
        front: FrontendKind::Direct.name().into(),
        policy: step.setting.policy_name(),
        concurrency: step.setting.concurrency,
        tickets: Config::default().concurrency_tickets,
        threads: step.users,
        leave_on_read: step.setting.leave_on_read,
        ..CellKey::default()
    }
}

/// The settings of a run on the embedded engine.
pub(crate) fn settings(args: &LoadArgs, plan: &Plan, database: &Database) -> Settings {
    let config = args.engine_config();
    let admission = Config::default();
    Settings {
        lock_waiters_max: admission.lock_waiters_max,
        quantum_us: admission.quantum.as_micros() as u64,
        seed: args.seed,
        rounds: plan.rounds,
        round_s: plan.time.as_secs_f64(),
        warmup_s: plan.settle.as_secs_f64(),
        ..engine_settings(&config, &database.stats())
    }
}

/// What the run takes of the system, asked before anything is touched.
pub(crate) fn check_limits(args: &LoadArgs, plan: &Plan) -> Result<(), Error> {
    const FEWER: &str = "fewer --users";
    let users = u64::from(plan.users_max());
    limits::descriptors(u64::from(args.data_files), FEWER)?;
    limits::threads(users + u64::from(args.instances), FEWER)?;
    limits::stacks(users, STACK_BYTES as u64, FEWER)?;
    // Touched stack, kernel objects, histograms.
    limits::memory(args.buffer_pool.0, users * (128 << 10))
}
