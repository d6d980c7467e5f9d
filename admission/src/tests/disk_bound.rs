//! A limit that is lifted while most places wait for a disk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::tasks::admission_with;
use crate::config::processors;
use crate::{Admission, AutoLimit, Config, Policy, Session, WaitKind, WaitMask};

/// A scheduler whose time the test makes, and sessions of which many want to be inside.
struct Stage {
    admission: Arc<Admission>,
    crowd: Vec<Session>,
    now: Instant,
}

impl Stage {
    fn new(config: Config) -> Self {
        let admission = admission_with(Config { disk_bound_percent: 50, ..config });
        let mut stage = Stage { crowd: Vec::new(), admission, now: Instant::now() };
        stage.steps();
        stage
    }

    fn steps(&mut self) {
        self.admission.step(self.now);
        self.now += Duration::from_millis(500);
    }

    /// As many as wait for disks all the while.
    fn crowd_of(mut self, waiting: u32) -> Self {
        self.crowd.extend((0..waiting).map(|_| {
            let session = self.admission.session();
            session.enter_past_limit();
            session.wait_begin(WaitKind::Disk);
            session
        }));
        self
    }

    /// Half a second in which each of enough places has so many waits of a kind.
    fn window_of(&mut self, waits: usize, kind: WaitKind) {
        let session = self.admission.session();
        for _ in 0..500 * processors() {
            session.enter_past_limit();
            for _ in 0..waits {
                session.wait_begin(kind);
                session.wait_end(kind);
            }
            session.exit();
        }
        self.steps();
    }

    fn limit(&self) -> u32 {
        self.admission.thread_concurrency()
    }
}

fn config() -> Config {
    Config { thread_concurrency: 1, ..Config::default() }
}

fn lifted() -> u32 {
    (128 * processors()).min(Config::THREAD_CONCURRENCY_MAX)
}

#[test]
fn the_limit_is_lifted_while_most_places_wait_for_a_disk() {
    let mut stage = Stage::new(config()).crowd_of(10);
    stage.window_of(1, WaitKind::LogSync);
    assert_eq!(stage.limit(), 1);
    stage.window_of(1, WaitKind::Disk);
    assert_eq!(stage.limit(), lifted());
    assert_eq!(stage.admission.config().thread_concurrency, 1, "what it was told");
    stage.window_of(1, WaitKind::Disk);
    assert_eq!(stage.limit(), lifted());
    stage.window_of(0, WaitKind::Disk);
    assert_eq!(stage.limit(), 1);
}

#[test]
fn those_who_wait_for_disks_would_queue_too() {
    let mut stage = Stage::new(config()).crowd_of(lifted());
    stage.window_of(1, WaitKind::Disk);
    assert_eq!(stage.limit(), 1);
}

#[test]
fn where_places_wait_for_rows_the_limit_stays() {
    let mut stage = Stage::new(Config { lock_waiters_max: 0, ..config() }).crowd_of(10);
    for _ in 0..3 {
        let session = stage.admission.session();
        for _ in 0..50 * processors() {
            session.enter().unwrap();
            for kind in [WaitKind::Disk, WaitKind::RowLock] {
                session.wait_begin(kind);
                session.wait_end(kind);
            }
            session.exit();
        }
        stage.window_of(1, WaitKind::Disk);
        assert_eq!(stage.limit(), 1);
    }
}

#[test]
fn one_that_waits_for_a_row_and_is_dropped_waits_no_more() {
    let mut stage = Stage::new(Config { lock_waiters_max: 0, ..config() }).crowd_of(10);
    let session = stage.admission.session();
    session.enter_past_limit();
    session.wait_begin(WaitKind::RowLock);
    stage.window_of(1, WaitKind::Disk);
    assert_eq!(stage.limit(), 1, "of eleven one waits for a row");
    drop(session);
    stage.window_of(1, WaitKind::Disk);
    assert_eq!(stage.limit(), lifted());
}

#[test]
fn one_that_queues_after_its_wait_goes_on_with_what_it_had_begun() {
    let mut stage = Stage::new(Config { thread_concurrency: 4, ..config() }).crowd_of(10);
    for _ in 0..3 {
        let session = stage.admission.session();
        session.enter().unwrap();
        for _ in 0..5000 * processors() {
            session.wait_begin(WaitKind::Disk);
            session.wait_end_may_queue(WaitKind::Disk).unwrap();
        }
        session.exit();
        stage.window_of(0, WaitKind::Disk);
        assert_eq!(stage.limit(), 4);
    }
}

#[test]
fn many_waits_on_one_place_count_once() {
    let mut stage = Stage::new(config()).crowd_of(10);
    for _ in 0..3 {
        let session = stage.admission.session();
        session.enter().unwrap();
        for _ in 0..5000 * processors() {
            session.wait_begin(WaitKind::Disk);
            session.wait_end(WaitKind::Disk);
        }
        session.exit();
        stage.window_of(0, WaitKind::Disk);
        assert_eq!(stage.limit(), 1);
    }
}

#[test]
fn another_limit_is_set_at_once_and_other_settings_leave_it_lifted() {
    let mut stage = Stage::new(config()).crowd_of(10);
    stage.window_of(1, WaitKind::Disk);
    assert_eq!(stage.limit(), lifted());
    stage.admission.reconfigure(Config { queue_limit: 7, ..stage.admission.config() }).unwrap();
    assert_eq!(stage.limit(), lifted());
    stage.admission.reconfigure(Config { thread_concurrency: 2, ..stage.admission.config() }).unwrap();
    assert_eq!(stage.limit(), 2);
    stage.window_of(1, WaitKind::Disk);
    stage.window_of(1, WaitKind::Disk);
    assert_eq!(stage.limit(), lifted());
    stage.admission.set_thread_concurrency(2).unwrap();
    assert_eq!(stage.limit(), 2, "also the same");
    stage.window_of(1, WaitKind::Disk);
    stage.window_of(1, WaitKind::Disk);
    assert_eq!(stage.limit(), lifted());
    stage.admission.reconfigure(Config { disk_bound_percent: 0, ..stage.admission.config() }).unwrap();
    assert_eq!(stage.limit(), 2);
    stage.window_of(1, WaitKind::Disk);
    stage.window_of(1, WaitKind::Disk);
    assert_eq!(stage.limit(), 2, "0: never");
}

#[test]
fn where_there_is_nothing_to_lift_nothing_is_lifted() {
    let auto = Some(AutoLimit { floor: 1, ceiling: 1 });
    for config in [
        Config { thread_concurrency: 0, ..config() },
        Config { policy: Policy::None, ..config() },
        Config { policy: Policy::Sleep, ..config() },
        Config { io_depth: 100, ..config() },
        Config { wait_mask: WaitMask::ALL.without(WaitKind::Disk), ..config() },
        Config { auto, ..config() },
    ] {
        let mut stage = Stage::new(config).crowd_of(10);
        let before = stage.limit();
        stage.window_of(1, WaitKind::Disk);
        stage.window_of(1, WaitKind::Disk);
        assert_eq!(stage.limit(), before);
    }
}

#[test]
fn the_watchdog_does_not_rest_while_the_limit_is_lifted() {
    let mut stage = Stage::new(config()).crowd_of(10);
    assert!(stage.admission.watchdog.may_rest());
    stage.window_of(1, WaitKind::Disk);
    assert!(!stage.admission.watchdog.may_rest());
    stage.window_of(0, WaitKind::Disk);
    assert!(stage.admission.watchdog.may_rest());
}
