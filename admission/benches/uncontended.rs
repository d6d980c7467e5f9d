//! What admission costs a thread that nobody disputes: `cargo bench -p flifo-admission`.

use criterion::{Criterion, criterion_group, criterion_main};
use flifo_admission::{Admission, Config, Policy};

fn uncontended(c: &mut Criterion) {
    for policy in [Policy::None, Policy::Fifo, Policy::Flifo] {
        let config =
            Config { policy, thread_concurrency: 4, concurrency_tickets: u32::MAX, ..Config::default() };
        let admission = Admission::new(config).expect("a valid configuration");
        let session = admission.session();

        session.enter();
        c.bench_function(&format!("ticket/{policy}"), |b| b.iter(|| session.enter()));
        session.exit();

        c.bench_function(&format!("enter_exit/{policy}"), |b| {
            b.iter(|| {
                session.enter();
                session.exit();
            });
        });
    }
}

criterion_group!(benches, uncontended);
criterion_main!(benches);
