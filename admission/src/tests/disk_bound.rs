//! A limit that is lifted while most places wait for a disk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::tasks::admission_with;
use crate::config::processors;
use crate::{Admission, AutoLimit, Config, Policy, WaitKind};

/// A scheduler whose time the test makes.
struct Stage {
    admission: Arc<Admission>,
    now: Instant,
}

impl Stage {
    fn new(config: Config) -> Self {
        let admission = admission_with(Config { disk_bound_percent: 50, ..config });
        let stage = Stage { admission, now: Instant::now() };
        stage.admission.step(stage.now);
        stage
    }

    /// A second in which each place has so many waits of a kind.
    fn second_of(&mut self, waits: usize, kind: WaitKind) {
        let session = self.admission.session();
        for _ in 0..1000 {
            session.enter().unwrap();
            for _ in 0..waits {
                session.wait_begin(kind);
                session.wait_end(kind);
            }
            session.exit();
        }
        self.now += Duration::from_secs(1);
        self.admission.step(self.now);
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
    let mut stage = Stage::new(config());
    stage.second_of(1, WaitKind::LogSync);
    assert_eq!(stage.limit(), 1);
    stage.second_of(1, WaitKind::Disk);
    assert_eq!(stage.limit(), lifted());
    assert_eq!(stage.admission.config().thread_concurrency, 1, "what it was told");
    stage.second_of(1, WaitKind::Disk);
    assert_eq!(stage.limit(), lifted());
    stage.second_of(0, WaitKind::Disk);
    assert_eq!(stage.limit(), 1);
}

#[test]
fn many_waits_on_one_place_count_once() {
    let mut stage = Stage::new(Config { disk_bound_percent: 50, ..config() });
    for _ in 0..3 {
        let session = stage.admission.session();
        session.enter().unwrap();
        for _ in 0..5000 {
            session.wait_begin(WaitKind::Disk);
            session.wait_end(WaitKind::Disk);
        }
        session.exit();
        stage.second_of(0, WaitKind::Disk);
        assert_eq!(stage.limit(), 1);
    }
}

#[test]
fn a_change_of_the_configuration_sets_the_limit_again() {
    let mut stage = Stage::new(config());
    stage.second_of(1, WaitKind::Disk);
    assert_eq!(stage.limit(), lifted());
    stage.admission.set_thread_concurrency(2).unwrap();
    assert_eq!(stage.limit(), 2);
    stage.second_of(1, WaitKind::Disk);
    stage.second_of(1, WaitKind::Disk);
    assert_eq!(stage.limit(), lifted());
    stage.admission.reconfigure(Config { disk_bound_percent: 0, ..stage.admission.config() }).unwrap();
    assert_eq!(stage.limit(), 2);
    stage.second_of(1, WaitKind::Disk);
    stage.second_of(1, WaitKind::Disk);
    assert_eq!(stage.limit(), 2, "0: never");
}

#[test]
fn where_there_is_nothing_to_lift_nothing_is_lifted() {
    for config in [
        Config { thread_concurrency: 0, ..config() },
        Config { policy: Policy::None, ..config() },
        Config { policy: Policy::Sleep, ..config() },
        Config { thread_concurrency: Config::THREAD_CONCURRENCY_MAX, ..config() },
    ] {
        let mut stage = Stage::new(config);
        let before = stage.limit();
        stage.second_of(1, WaitKind::Disk);
        stage.second_of(1, WaitKind::Disk);
        assert_eq!(stage.limit(), before);
    }
}

#[test]
fn a_limit_that_finds_itself_goes_on_from_where_it_was() {
    let auto = Some(AutoLimit { floor: 1, ceiling: 8 });
    let mut stage = Stage::new(Config { auto, thread_concurrency: 3, ..config() });
    let found = stage.limit();
    stage.second_of(1, WaitKind::Disk);
    assert_eq!(stage.limit(), lifted());
    stage.admission.reconfigure(Config { io_depth: 7, ..stage.admission.config() }).unwrap();
    assert!((1..=8).contains(&stage.limit()));
    stage.second_of(1, WaitKind::Disk);
    stage.second_of(1, WaitKind::Disk);
    assert_eq!(stage.limit(), lifted());
    stage.second_of(0, WaitKind::Disk);
    assert!((1..=8).contains(&stage.limit()), "{found} before");
}
