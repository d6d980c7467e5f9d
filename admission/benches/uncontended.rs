//! The cost of admission for a thread that need not wait: alone, and while a thread on another CPU enters and exits, too.
//! `cargo bench -p flifo-admission`; with `-- --record` the estimates are written to figures/uncontended.json.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use criterion::Criterion;
use flifo_admission::{Admission, Config, Policy};
use flifo_record::criterion::{Recording, exit_code};
use flifo_record::{Key, Wanted};

fn uncontended(c: &mut Criterion) {
    // The minimum for an entry and an exit, measured with the figures below for comparison.
    let word = AtomicU64::new(0);
    let swap = |change: u64| {
        let old = word.load(Ordering::Relaxed);
        let new = old.wrapping_add(change);
        black_box(word.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed)).is_ok()
    };
    c.bench_function("two_swaps", |b| b.iter(|| swap(1) & swap(u64::MAX)));

    for policy in [Policy::None, Policy::Fifo, Policy::Flifo, Policy::Quantum] {
        let config =
            Config { policy, thread_concurrency: 4, concurrency_tickets: u32::MAX, ..Config::default() };
        let admission = Admission::new(config).expect("a valid configuration");
        let session = admission.session();

        session.enter().expect("nobody refuses");
        c.bench_function(&format!("ticket/{policy}"), |b| b.iter(|| session.enter().is_ok()));
        session.exit();

        c.bench_function(&format!("enter_exit/{policy}"), |b| {
            b.iter(|| {
                black_box(session.enter().is_ok());
                session.exit();
            });
        });
    }
}

/// Both threads enter and exit without a pause; there are slots for both.
fn beside_another(c: &mut Criterion) {
    let word = AtomicU64::new(0);
    let add_and_take_away = || {
        black_box(word.fetch_add(1, Ordering::AcqRel));
        black_box(word.fetch_sub(1, Ordering::AcqRel));
    };
    while_another(add_and_take_away, || {
        c.bench_function("two_additions_beside_another", |b| b.iter(add_and_take_away));
    });

    for policy in [Policy::Fifo, Policy::Flifo, Policy::Quantum] {
        let config = Config { policy, thread_concurrency: 4, ..Config::default() };
        let admission = Admission::new(config).expect("a valid configuration");
        let (session, other) = (admission.session(), admission.session());
        while_another(
            move || {
                black_box(other.enter().is_ok());
                other.exit();
            },
            || {
                c.bench_function(&format!("enter_exit_beside_another/{policy}"), |b| {
                    b.iter(|| {
                        black_box(session.enter().is_ok());
                        session.exit();
                    });
                });
            },
        );
    }
}

/// Runs `measure` while another thread repeats `other`.
fn while_another(mut other: impl FnMut() + Send, measure: impl FnOnce()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                other();
            }
        });
        measure();
        done.store(true, Ordering::Relaxed);
    });
}

fn main() -> ExitCode {
    exit_code(run())
}

/// With `--record` everything is measured, and criterion's other arguments do not count.
fn run() -> flifo_record::Result<()> {
    let recording = Recording::from_args(
        "uncontended",
        "cargo bench -p flifo-admission --bench uncontended -- --record",
    )?;
    let mut criterion = match &recording {
        Some(recording) => Criterion::default().output_directory(recording.folder()),
        None => Criterion::default().configure_from_args(),
    };
    uncontended(&mut criterion);
    beside_another(&mut criterion);
    criterion.final_summary();
    recording.map_or(Ok(()), |recording| {
        recording.finish(|record| {
            for policy in [Policy::Fifo, Policy::Flifo, Policy::Quantum] {
                record.want(Key::of(format!("ticket/{policy}")), Wanted::AtMost(1.0));
                record.want(Key::of(format!("enter_exit/{policy}")), Wanted::AtMost(15.0));
            }
        })
    })
}
