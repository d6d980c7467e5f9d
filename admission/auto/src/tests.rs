//! The controller on the simulated server.

use super::simulator::{Load, Server};
use super::{Controller, Sample, State};

const LIMIT: u32 = 4;
const SEEDS: std::ops::Range<u64> = 0..20;

/// The share of the time in which a limit is in force while two loads alternate. In the first minute the controller finds out what they are
/// like.
fn limited_share(loads: [Load; 2]) -> f64 {
    let (mut limited, mut samples) = (0, 0);
    for seed in SEEDS {
        let mut server = Server::new(LIMIT, seed);
        for step in 0..280 {
            let counts = u32::from(step >= 80);
            let seconds = 0.3 + f64::from(step as u32 * 7 % 10) / 10.0;
            server.run_and_see(&loads[step % 2], seconds, |server| {
                samples += counts;
                limited += counts * u32::from(server.limit() != 0);
            });
        }
    }
    f64::from(limited) / f64::from(samples)
}

/// Selects that are over so soon that a sample sees hardly one of them, beside a job that sometimes delays them all.
#[test]
fn much_work_by_few_threads_is_no_pause() {
    let delayed = Load::point_select(64);
    let share = limited_share([delayed, Load { think_ms: 2.7, ..delayed }]);
    assert!(share < 0.1, "a limit was in force for {share} of the time");
}

#[test]
fn few_threads_are_never_limited() {
    for seed in SEEDS {
        let mut server = Server::new(LIMIT, seed);
        server.run_and_see(&Load::hot_rows(16), 30.0, |server| {
            assert_eq!((server.state(), server.limit()), (State::Calm, 0));
            assert!(server.controller.is_dormant());
        });
    }
}

#[test]
fn a_collapse_is_ended_within_two_seconds_and_stays_ended() {
    for seed in SEEDS {
        let (mut server, load) = (Server::new(LIMIT, seed), Load::hot_rows(1024));
        server.run(&Load::point_select(8), 5.0);
        server.run(&load, 2.0);
        let rate = server.run(&load, 60.0);
        let best = load.steady_per_s(LIMIT);
        assert!(rate > 0.95 * best, "seed {seed}: {rate} of {best}");
        assert!(load.steady_per_s(0) < 0.05 * best, "the load collapses without a limit");
    }
}

#[test]
fn trials_do_not_bring_back_the_collapse() {
    for seed in SEEDS {
        let (mut server, load) = (Server::new(LIMIT, seed), Load::hot_rows(1024));
        server.run(&load, 10.0);
        let best = load.steady_per_s(LIMIT);
        for _ in 0..300 {
            let rate = server.run_and_see(&load, 0.2, |server| {
                assert_ne!(server.limit(), 0, "seed {seed}: a trial ends before all may run");
            });
            assert!(rate > 0.4 * best, "seed {seed}: {rate} of {best} in 0.2 s");
        }
    }
}

#[test]
fn where_the_limit_costs_it_is_lifted() {
    for seed in SEEDS {
        for load in [
            Load::point_select(64),
            Load::point_select(1024),
            Load { think_ms: 2.0, ..Load::point_select(256) },
        ] {
            let mut server = Server::new(LIMIT, seed);
            server.run(&load, 4.0);
            let rate = server.run(&load, 60.0);
            let best = load.steady_per_s(0);
            assert!(rate > 0.97 * best, "seed {seed}, {load:?}: {rate} of {best}");
        }
    }
}

/// A build beside the server, or a noisy neighbour, takes the CPUs for tens of milliseconds.
#[test]
fn an_interrupted_trial_is_no_collapse() {
    let (mut open, mut samples) = (0, 0);
    for seed in SEEDS {
        let (mut server, load) = (Server::new(LIMIT, seed), Load::point_select(1024));
        server.interruptions = 0.005;
        server.run(&load, 10.0);
        server.run_and_see(&load, 60.0, |server| {
            samples += 1;
            open += u32::from(server.limit() == 0);
        });
    }
    let share = f64::from(open) / f64::from(samples);
    assert!(share > 0.9, "no limit was in force for {share} of the time");
}

/// The rate after a jump is within a tenth of the better arm's from two seconds on, if the limit pays, and from ten if it does not.
#[test]
fn follows_a_load_that_changes() {
    for seed in SEEDS {
        let mut server = Server::new(LIMIT, seed);
        for phase in 0..12 {
            let (load, limit, within_s) = match phase % 4 {
                0 => (Load::point_select(1024), 0, 10.0),
                1 => (Load::hot_rows(1024), LIMIT, 2.0),
                2 => (Load::point_select(16), 0, 6.0),
                _ => (Load::hot_rows(256), LIMIT, 2.0),
            };
            server.run(&load, within_s);
            let (rate, best) = (server.run(&load, 20.0), load.steady_per_s(limit));
            assert!(rate > 0.9 * best, "seed {seed}, phase {phase}: {rate} of {best}");
        }
    }
}

/// A pile takes seconds to leave, so none may form.
#[test]
fn a_crowd_that_comes_back_after_a_pause_meets_the_limit() {
    for seed in SEEDS {
        for (before, pause_s) in [(1024, 0.5), (1024, 2.0), (1024, 4.0), (4, 10.0)] {
            let mut server = Server::new(LIMIT, seed);
            server.run(&Load::point_select(before), 10.0);
            assert!(matches!(server.state(), State::Open | State::Calm), "seed {seed}: no limit does more");
            server.run(&Load::point_select(0), pause_s);
            let load = Load { come_per_ms: 10.0, ..Load::hot_rows(1024) };
            server.run_and_see(&load, 0.5, |server| {
                let inside = server.running();
                assert!(inside < 200.0, "seed {seed}, {before} before {pause_s} s: {inside} inside");
            });
        }
    }
}

/// Clients that work and pause in step, each time with the same load: one pair after each pause, not a comparison.
#[test]
fn a_crowd_that_comes_back_as_it_was_is_not_limited_for_long() {
    for seed in SEEDS {
        let mut server = Server::new(LIMIT, seed);
        server.run(&Load::point_select(256), 10.0);
        let (mut limited, mut samples) = (0, 0);
        for _ in 0..20 {
            server.run(&Load::point_select(0), 2.0);
            server.run_and_see(&Load::point_select(256), 4.0, |server| {
                samples += 1;
                limited += u32::from(server.limit() != 0);
            });
        }
        let share = f64::from(limited) / f64::from(samples);
        assert!(share < 0.12, "seed {seed}: a limit was in force for {share} of the time");
    }
}

#[test]
fn does_not_oscillate_between_equal_arms() {
    for seed in SEEDS {
        let (mut server, mut changes, mut before) = (Server::new(LIMIT, seed), 0, State::Calm);
        let load = Load { queueing_cost: 0.0, ..Load::point_select(256) };
        server.run(&load, 5.0);
        server.run_and_see(&load, 120.0, |server| {
            changes += u32::from(server.state() != before && server.state() == State::Comparing);
            before = server.state();
        });
        assert!(changes <= 6, "seed {seed}: {changes} comparisons in two minutes");
    }
}

/// Selects beside a job whose steps take the CPUs in turn: the rate jumps all the time, and the better arm stays.
#[test]
fn an_uneven_load_is_hardly_ever_compared() {
    let fast = Load::point_select(64);
    let share = limited_share([fast, Load { single_per_s: fast.single_per_s / 2.5, ..fast }]);
    assert!(share < 0.05, "a limit was in force for {share} of the time");
}

#[test]
fn ends_within_ten_seconds_when_the_crowd_has_left() {
    let mut server = Server::new(LIMIT, 1);
    server.run(&Load::hot_rows(1024), 20.0);
    assert_eq!(server.state(), State::Limited);
    server.run(&Load::point_select(4), 10.0);
    assert_eq!((server.state(), server.limit()), (State::Calm, 0));
}

/// A collapse in which hardly anything is done takes long to end, and must not pass for a tie.
#[test]
fn where_hardly_anything_is_done_the_limit_stays() {
    for seed in SEEDS {
        for load in [
            Load { single_per_s: 2.0, ..Load::point_select(64) },
            Load { halved_at: 0.02, ..Load::point_select(1024) },
        ] {
            let mut server = Server::new(LIMIT, seed);
            server.run_and_see(&load, 60.0, |server| {
                assert_ne!(server.state(), State::Open, "seed {seed}, {load:?}");
            });
            assert_ne!(server.state(), State::Calm, "seed {seed}, {load:?}");
        }
    }
}

/// As when a process is stopped, or a virtual machine is moved.
#[test]
fn time_in_which_nothing_ran_says_nothing() {
    for seed in SEEDS {
        for (load, limit, state) in
            [(Load::point_select(1024), 0, State::Open), (Load::hot_rows(1024), LIMIT, State::Limited)]
        {
            let mut server = Server::new(LIMIT, seed);
            server.run(&load, 5.0);
            let mut rate = 0.0;
            for _ in 0..100 {
                server.stop(0.5);
                rate += server.run(&load, 0.5) / 100.0;
            }
            assert_eq!(server.state(), state, "seed {seed}");
            assert!(rate > 0.95 * load.steady_per_s(limit), "seed {seed}: {rate}");
        }
    }
}

#[test]
fn strange_samples_do_no_harm() {
    let mut controller = Controller::new(0);
    let mut at = |now_ns, work| {
        controller.observe(Sample { now_ns, work, running: 5000, queued: u32::MAX, waiting: 1 })
    };
    assert_eq!(at(5, 5), Some(0), "the first call returns the first limit");
    for time in [0, u64::MAX, 7, u64::MAX / 2, u64::MAX] {
        for work in [u64::MAX, 0, 3] {
            at(time, work);
        }
    }
    assert_eq!(Controller::new(5000).limit, 1023);
}
