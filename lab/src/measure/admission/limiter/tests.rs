use std::sync::atomic::AtomicU32;
use std::time::Duration;

use super::*;

const THREADS: u32 = 24;
const TUNING: Tuning = Tuning { lock_waiters_max: 0, quantum: Duration::from_micros(50), is_strict: true };
const LIMIT: u32 = 3;

/// The most that were inside at a time, of threads that stay long enough to meet.
fn most_inside(variant: Variant, waits: bool) -> u32 {
    fn stay<L: Limiter>(limiter: &L, running: &Running, waits: bool) {
        let limiter = Counted { limiter, running };
        for _ in 0..30 {
            limiter.enter();
            std::thread::sleep(Duration::from_micros(200));
            if waits {
                limiter.wait_begin(WaitKind::Disk);
                std::thread::yield_now();
                limiter.wait_end(WaitKind::Disk);
            }
            limiter.exit();
        }
    }
    let gate = Gate::new(variant, LIMIT, TUNING).unwrap();
    let running = Running::default();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| match &gate {
                Gate::FlifoSession(admission) => stay(&FlifoSession::new(admission), &running, waits),
                Gate::Tokio(gate) => stay(&Tokio(Arc::clone(gate)), &running, waits),
                Gate::AsyncLock(gate) => stay(&AsyncLock(Arc::clone(gate)), &running, waits),
                Gate::MutexCondvar(gate) => stay(&MutexCondvar(Arc::clone(gate)), &running, waits),
                Gate::Futex(gate) => stay(&Futex(Arc::clone(gate)), &running, waits),
                Gate::Specimen(gate) => stay(&Arc::clone(gate).limiter(), &running, waits),
                Gate::Open => stay(&Unlimited, &running, waits),
            });
        }
    });
    running.most()
}

#[test]
fn a_peer_admits_as_many_as_its_limit_and_no_more() {
    for peer in Peer::ALL {
        let most = most_inside(Variant::Peer(peer), true);
        if peer == Peer::None {
            assert!(most > LIMIT, "without a limit {most} met, so this test would see nothing");
        } else {
            assert_eq!(most, LIMIT, "{}", peer.name());
        }
    }
}

#[test]
fn our_policies_admit_as_many_as_they_say() {
    for policy in Policy::ALL {
        let most = most_inside(Variant::Policy(policy), false);
        match policy {
            Policy::None => assert!(most > LIMIT, "{most}"),
            Policy::Fifo => assert!(most <= LIMIT, "{policy}: {most}"),
            // Newcomers may run beside threads that were woken and do not run yet.
            _ => assert!(most <= 2 * LIMIT, "{policy}: {most}"),
        }
    }
}

#[test]
fn a_count_that_is_passed_is_seen() {
    struct Broken(AtomicU32);
    impl Limiter for Broken {
        fn enter(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn exit(&self) {}
    }
    use std::sync::atomic::Ordering;
    let (broken, running) = (Broken(AtomicU32::new(0)), Running::default());
    let (a, b) =
        (Counted { limiter: &broken, running: &running }, Counted { limiter: &broken, running: &running });
    a.enter();
    b.enter();
    a.exit();
    b.exit();
    assert_eq!(running.most(), 2);
}

#[test]
fn names_are_what_clap_accepts() {
    use clap::ValueEnum;
    for peer in Peer::ALL {
        assert_eq!(peer.to_possible_value().unwrap().get_name(), peer.name());
    }
}
