//! The table of a session's states ([`crate::session`]): it holds after every call, whatever the others do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::tasks::{admission, admission_with, running};
use super::{Ends, assert_drained};
use crate::session::State;
use crate::{Admission, Canceller, Class, Config, Policy, Session, WaitKind};

/// Numbers that look random (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27) % n
    }
}

/// Calls anything on a session, in any state.
fn call(session: &Session, random: &mut Random) {
    let kind = WaitKind::ALL[random.below(7) as usize];
    match random.below(24) {
        0..5 => _ = session.enter(),
        5 => _ = session.enter_until(Instant::now() + Duration::from_micros(random.below(300))),
        6 | 7 => _ = session.try_enter(),
        8 | 9 => session.enter_forced(),
        10..14 => session.exit(),
        14 => session.exit_ending_slice(),
        15..18 => session.wait_begin(kind),
        18 => session.wait_end(kind),
        19 => _ = session.wait_end_may_queue(kind),
        20 => session.mark_wait_long(),
        21 => session.set_class(if random.below(2) == 0 { Class::First } else { Class::Normal }),
        22 => session.set_in_transaction(random.below(2) == 0),
        _ => {
            session.forget_cancel();
            thread::yield_now();
        }
    }
    session.check();
}

/// Changes settings and the time, and cancels.
fn disturb(admission: &Arc<Admission>, cancellers: &[Canceller], random: &mut Random, now: &mut Instant) {
    cancellers[random.below(cancellers.len() as u64) as usize].cancel();
    *now += Duration::from_millis(random.below(100));
    admission.step(*now);
    if random.below(50) == 0 {
        admission.set_thread_concurrency(random.below(5) as u32).unwrap();
    }
    if random.below(200) == 0 {
        let ms = |n: u64| (n != 0).then(|| Duration::from_millis(n));
        let config = Config {
            policy: Policy::ALL[random.below(4) as usize],
            thread_concurrency: random.below(5) as u32,
            concurrency_tickets: 1 + random.below(3) as u32,
            io_depth: random.below(4) as u32,
            lock_waiters_max: random.below(3) as u32,
            queue_limit: [0, 0, 5][random.below(3) as usize],
            queue_timeout: ms(random.below(3)),
            stall_limit: ms(100 * random.below(2)),
            #[cfg(feature = "reservation")]
            reserve_slots: random.below(2) == 0,
            ..admission.config()
        };
        admission.reconfigure(config).unwrap();
    }
}

#[test]
fn every_call_in_a_storm_leaves_a_legal_state() {
    let (threads, calls) = if cfg!(miri) { (3, 200) } else { (16, 20_000) };
    let admission = admission_with(Config { thread_concurrency: 2, ..Config::default() });
    let sessions: Vec<_> = (0..threads).map(|_| admission.session()).collect();
    let cancellers: Vec<_> = sessions.iter().map(Session::canceller).collect();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = sessions
            .into_iter()
            .zip(0..)
            .map(|(session, seed)| {
                scope.spawn(move || {
                    let mut random = Random(seed);
                    (0..calls).for_each(|_| call(&session, &mut random));
                })
            })
            .collect();
        let _ends = Ends(&over);
        scope.spawn(|| {
            let (mut random, mut now) = (Random(u64::MAX), Instant::now());
            while !over.load(Ordering::Relaxed) {
                disturb(&admission, &cancellers, &mut random, &mut now);
                thread::yield_now();
            }
        });
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
    assert_drained(&admission.snapshot());
    // All slots are there.
    let config = Config { policy: Policy::Fifo, thread_concurrency: 3, ..Config::default() };
    admission.reconfigure(Config { watchdog: false, ..config }).unwrap();
    let all: Vec<_> = (0..3).map(|_| running(&admission)).collect();
    assert!(!admission.session().try_enter());
    drop(all);
}

#[test]
fn each_call_leads_to_the_state_of_the_table() {
    let admission = admission(Policy::Fifo, 1);
    let session = admission.session();
    let is = |state: State| {
        session.check();
        assert_eq!(session.state.get(), state);
        assert_eq!(session.is_running(), matches!(state, State::Running | State::Uncounted));
        assert_eq!(session.is_waiting(), state == State::Waiting);
        assert_eq!(admission.snapshot().running, u32::from(state == State::Running), "{state:?}");
    };
    is(State::Outside);
    session.enter().unwrap();
    is(State::Running);
    session.wait_begin(WaitKind::User);
    is(State::Waiting);
    session.enter().unwrap();
    session.enter_forced();
    assert!(!session.try_enter());
    is(State::Waiting);
    session.wait_end(WaitKind::User);
    is(State::Running);
    session.wait_begin(WaitKind::User);
    session.wait_end_may_queue(WaitKind::User).unwrap();
    is(State::Running);
    session.wait_begin(WaitKind::User);
    session.exit();
    is(State::Outside);
    session.wait_end(WaitKind::User);
    is(State::Outside);
    session.enter_forced();
    is(State::Running);
    session.exit_ending_slice();
    is(State::Outside);
    admission.set_thread_concurrency(0).unwrap();
    session.enter().unwrap();
    is(State::Running); // It does not know of that yet.
    session.exit();
    session.enter().unwrap();
    is(State::Uncounted);
    session.enter_forced();
    is(State::Uncounted);
    admission.set_thread_concurrency(1).unwrap();
    is(State::Uncounted);
    session.enter().unwrap();
    is(State::Running);
    session.exit();
    is(State::Outside);
}

/// Tickets are there only while the session runs.
#[test]
fn tickets_end_with_the_slot() {
    let admission = admission_with(Config {
        policy: Policy::Fifo,
        thread_concurrency: 1,
        stall_limit: None,
        ..Config::default()
    });
    admission.reconfigure(Config { concurrency_tickets: 5, ..admission.config() }).unwrap();
    let session = admission.session();
    assert_eq!(session.tickets(), 0);
    session.enter().unwrap();
    assert_eq!(session.tickets(), 4);
    session.wait_begin(WaitKind::User);
    assert_eq!(session.tickets(), 0);
    session.wait_end(WaitKind::User);
    assert_eq!(session.tickets(), 1, "the end of a wait brings one");
    session.exit();
    assert_eq!(session.tickets(), 0);
}
