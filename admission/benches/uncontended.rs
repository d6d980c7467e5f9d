//! What admission costs a thread that nobody disputes: `cargo bench -p flifo-admission`.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use criterion::{Criterion, criterion_group, criterion_main};
use flifo_admission::{Admission, Config, Policy};

fn uncontended(c: &mut Criterion) {
    // What entering and leaving cannot do without, to hold the figures below against in the same minutes.
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

criterion_group!(benches, uncontended);
criterion_main!(benches);
