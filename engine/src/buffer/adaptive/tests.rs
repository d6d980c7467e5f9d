//! The controller in the simulator, from many seeds.

use super::simulator::{Database, Load, Seen};
use super::{Limits, SETPOINT};

const SEEDS: u64 = 8;
const CAPACITY: u64 = 32 << 20;
/// What the age may swing by.
const SWING: f64 = 0.1 * SETPOINT;

fn limits() -> Limits {
    Limits { capacity_bytes: CAPACITY, io_capacity: 2000, io_capacity_max: 100_000, cleaners: 4 }
}

fn load() -> Load {
    Load { redo_per_s: 8e6, pages: 10_000, batch_ms: 8.0 }
}

/// Runs a test from each seed, with a database that was written to for some capacities.
fn each(load: Load, limits: Limits, test: impl Fn(&mut Database, u64)) {
    for seed in 0..SEEDS {
        let mut database = Database::new(limits, seed);
        database.run_capacities(&load, 3.0);
        test(&mut database, seed);
    }
}

fn assert_settled(seen: Seen, seed: u64) {
    let is_settled = (seen.age_min - SETPOINT).abs() < SWING && (seen.age_max - SETPOINT).abs() < SWING;
    assert!(is_settled, "seed {seed}: {seen:?}");
}

fn assert_near(found: f64, expected: f64, share: f64, seed: u64) {
    assert!((found / expected - 1.0).abs() < share, "seed {seed}: {found} instead of {expected}");
}

#[test]
fn an_empty_log_settles_within_a_capacity_of_redo() {
    for seed in 0..SEEDS {
        let mut database = Database::new(limits(), seed);
        let begun = database.run_capacities(&load(), 1.0);
        assert!(begun.age_max < SETPOINT + SWING, "seed {seed}: {begun:?}");
        let seen = database.run_capacities(&load(), 4.0);
        assert_settled(seen, seed);
        assert_near(seen.redo_per_s, load().redo_per_s, 0.01, seed);
    }
}

/// The same in logs of a few seconds and of minutes.
#[test]
fn a_log_of_any_size_settles() {
    for (capacity_bytes, redo_per_s) in [(4 << 20, 2e6), (256 << 20, 16e6)] {
        let load = Load { redo_per_s, ..load() };
        let mut database = Database::new(Limits { capacity_bytes, ..limits() }, 1);
        database.run_capacities(&load, 1.0);
        assert_settled(database.run_capacities(&load, 3.0), 1);
    }
}

#[test]
fn a_step_in_the_redo_rate_settles_within_a_capacity_of_redo() {
    let slow = Load { redo_per_s: 1e6, ..load() };
    each(slow, limits(), |database, seed| {
        assert_settled(database.run(&slow, 5.0), seed);
        let stepped = database.run_capacities(&load(), 1.0);
        assert!(stepped.age_max < SETPOINT + SWING, "seed {seed}: {stepped:?}");
        assert_settled(database.run_capacities(&load(), 2.0), seed);
        database.run_capacities(&slow, 1.0);
        assert_settled(database.run_capacities(&slow, 1.0), seed);
    });
}

/// Writers are slowed down to what the disk achieves, evenly, and none is stopped.
#[test]
fn a_disk_that_is_too_slow_slows_the_writers_down() {
    let slow = Load { batch_ms: 100.0, ..load() };
    each(slow, limits(), |database, seed| {
        let seen = database.run_capacities(&slow, 2.0);
        assert!(seen.age_max < 0.9 && seen.age_max - seen.age_min < 2.0 * SWING, "seed {seed}: {seen:?}");
        assert!(seen.redo_per_s < 0.7 * slow.redo_per_s, "seed {seed}: {seen:?}");
        // All cleaners are busy all the time.
        assert_near(seen.pages_per_s, 4.0 * 32.0 / 0.1, 0.05, seed);
        let again = database.run_capacities(&slow, 1.0);
        assert_near(again.redo_per_s, seen.redo_per_s, 0.1, seed);
    });
}

#[test]
fn a_disk_that_doubles_its_latency_is_compensated_within_a_capacity_of_redo() {
    each(load(), limits(), |database, seed| {
        let slower = Load { batch_ms: 2.0 * load().batch_ms, ..load() };
        let seen = database.run_capacities(&slower, 1.0);
        assert!(seen.age_max < SETPOINT + SWING, "seed {seed}: {seen:?}");
        assert_settled(database.run_capacities(&slower, 2.0), seed);
        assert_settled(database.run_capacities(&load(), 2.0), seed);
    });
}

#[test]
fn no_more_than_io_capacity_max_is_written() {
    let limits = Limits { io_capacity: 500, io_capacity_max: 1000, ..limits() };
    each(load(), limits, |database, seed| {
        let seen = database.run(&load(), 20.0);
        assert_near(seen.pages_per_s, 1000.0, 0.05, seed);
        assert!(seen.age_max < 0.9, "seed {seed}: {seen:?}");
    });
}

#[test]
fn while_nothing_is_written_to_the_log_pages_are_written_at_io_capacity() {
    each(load(), limits(), |database, seed| {
        let idle = Load { redo_per_s: 0.0, ..load() };
        database.run(&idle, 1.5);
        let seen = database.run(&idle, 2.0);
        assert_near(seen.pages_per_s, f64::from(limits().io_capacity), 0.05, seed);
        database.run(&idle, 10.0);
        assert_eq!(database.run(&idle, 1.0).pages_per_s, 0.0);
        assert_eq!(database.age(), 0.0);
    });
}

/// The hot pages all become dirty in a small part of the log, and so become due together.
#[test]
fn a_wall_of_pages_of_one_age_stops_nobody() {
    let wall = Load { pages: 40_000, ..load() };
    for seed in 0..SEEDS {
        let mut database = Database::new(limits(), seed);
        let seen = database.run_capacities(&wall, 3.0);
        assert!(seen.age_max < 0.9, "seed {seed}: {seen:?}");
        assert_settled(database.run_capacities(&wall, 2.0), seed);
    }
}
