//! Checks of the [`Core`] by exhaustive and by random schedules.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p flifo-admission --lib models` explores every interleaving of two
//! and three threads; the property test drives the same steps from one thread against a plain model.

#[cfg(loom)]
mod every_interleaving {
    use std::sync::Arc;

    use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::thread;

    use crate::{Admission, Config, Policy, Session, WaitKind};

    /// `threads` sessions, this one included, each doing `work`; then nothing may be out.
    fn explore(
        policy: Policy,
        limit: u32,
        threads: u32,
        work: impl Fn(&Session) + Copy + Send + Sync + 'static,
    ) {
        let mut builder = loom::model::Builder::new();
        // Three threads with every preemption would take hours; bugs of this kind need two or three.
        builder.preemption_bound = Some(if threads > 2 { 2 } else { 4 });
        builder.check(move || {
            let config =
                Config { policy, thread_concurrency: limit, concurrency_tickets: 1, ..Config::default() };
            let admission = Admission::new(config).unwrap();
            let others: Vec<_> = (1..threads)
                .map(|_| {
                    let session = admission.session();
                    thread::spawn(move || work(&session))
                })
                .collect();
            work(&admission.session());
            others.into_iter().for_each(|other| other.join().unwrap());
            let end = admission.snapshot();
            assert_eq!((end.inside, end.pending, end.queued), (0, 0, 0));
        });
    }

    fn enter_and_exit(session: &Session) {
        session.enter().unwrap();
        session.exit();
    }

    #[test]
    fn fifo_with_two_threads() {
        explore(Policy::Fifo, 1, 2, |session| {
            enter_and_exit(session);
            enter_and_exit(session);
        });
    }

    #[test]
    fn flifo_with_two_threads() {
        explore(Policy::Flifo, 1, 2, |session| {
            enter_and_exit(session);
            enter_and_exit(session);
        });
    }

    #[test]
    fn fifo_lifo_flifo_broadcast_with_three_threads() {
        for policy in [Policy::Fifo, Policy::Lifo, Policy::Flifo, Policy::Broadcast] {
            explore(policy, 1, 3, enter_and_exit);
        }
    }

    #[test]
    fn flifo_with_three_threads_and_two_places() {
        explore(Policy::Flifo, 2, 3, enter_and_exit);
    }

    #[test]
    fn waits_with_forced_re_entry() {
        for policy in [Policy::Fifo, Policy::Flifo, Policy::Broadcast] {
            explore(policy, 1, 2, |session| {
                session.enter().unwrap();
                session.wait_begin(WaitKind::Disk);
                session.wait_end(WaitKind::Disk);
                session.exit();
            });
        }
    }

    /// Under FIFO at most one thread is ever inside a limit of one: the place is a lock.
    #[test]
    fn fifo_excludes() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let config = Config { policy: Policy::Fifo, thread_concurrency: 1, ..Config::default() };
            let admission = Admission::new(config).unwrap();
            let inside = Arc::new(AtomicU32::new(0));
            let work = |session: Session, inside: Arc<AtomicU32>| {
                session.enter().unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                inside.fetch_sub(1, Ordering::Relaxed);
                session.exit();
            };
            let (session, seen) = (admission.session(), Arc::clone(&inside));
            let other = thread::spawn(move || work(session, seen));
            work(admission.session(), inside);
            other.join().unwrap();
        });
    }
}
