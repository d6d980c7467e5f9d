//! The cells of a run, in order, and the time that they take.

use std::time::Duration;

use serde::Serialize;

use super::cli::Arguments;
use super::loads::{LOADS, Load};
use crate::plan::chosen;
use crate::product::Product;
use crate::settings::Settings;
use crate::slices::SLICE_OVERHEAD;
use crate::variant::{Kind, Variant};
use crate::{Error, Result};

const QUICK_CONNECTIONS: [u32; 2] = [16, 1024];
const ROUNDS: u32 = 40;
/// With fewer rounds there is no interval.
const ROUNDS_MIN: u32 = 6;
/// From this number of connections on slices are longer.
const MANY: u32 = 1024;
/// From this number of connections on warm-ups are longer: the plugin compares its limit with none, which takes seconds.
const CROWD: u32 = 64;

/// What starting a server takes: the copy of the data, the first read. Estimates.
const SERVER: Duration = Duration::from_secs(5);
/// What starting and ending a load takes, besides its connections.
const LOAD: Duration = Duration::from_millis(1200);
const CONNECTION: Duration = Duration::from_micros(1500);

/// One load at one number of connections.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub load: &'static Load,
    pub connections: u32,
}

/// How a run measures.
#[derive(Debug, Clone)]
pub struct Plan {
    pub product: &'static Product,
    /// Cells of the same servers follow each other.
    pub places: Vec<Place>,
    pub variants: Vec<Variant>,
    pub settings: Settings,
    pub times: Times,
}

/// The times of a run. Those of a slice are before they grow with a cell's connections and statements.
#[derive(Debug, Clone, Serialize)]
pub struct Times {
    pub quick: bool,
    /// `None` with `--quick`: what the time allows.
    pub rounds: Option<u32>,
    pub slice_ms: u32,
    pub settle_ms: u32,
    /// The user gave this one, so that it is the same in all cells.
    pub is_slice_given: bool,
    pub is_settle_given: bool,
    pub warm_up_s: f64,
    pub phase_s: u32,
}

/// A slice of a cell: what does not count, and what does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SliceTimes {
    pub(super) settle: Duration,
    pub(super) counts: Duration,
}

impl SliceTimes {
    pub(super) fn whole(self) -> Duration {
        self.settle + self.counts + SLICE_OVERHEAD
    }
}

impl Plan {
    pub fn of(product: &'static Product, arguments: &Arguments) -> Result<Plan> {
        let quick = arguments.quick;
        let variants = chosen(product.variants, &arguments.server)?;
        if variants.len() < 2 {
            return Err(Error::Usage("matrix compares variants: leave two or more in --only".into()));
        }
        Ok(Plan {
            product,
            places: places(product, arguments)?,
            variants,
            settings: arguments.server.settings(product, quick),
            times: Times {
                quick,
                rounds: arguments.rounds.or((!quick).then_some(ROUNDS)),
                slice_ms: arguments.slice.unwrap_or(if quick { 150 } else { 400 }),
                settle_ms: arguments.settle.unwrap_or(if quick { 50 } else { 120 }),
                is_slice_given: arguments.slice.is_some(),
                is_settle_given: arguments.settle.is_some(),
                warm_up_s: arguments.warm_up.unwrap_or(if quick { 1.5 } else { 3.0 }),
                phase_s: arguments.phase.unwrap_or(if quick { 5 } else { 20 }),
            },
        })
    }

    /// The variant by which the others are divided.
    pub fn base(&self) -> usize {
        self.variants.iter().position(|variant| variant.kind == Kind::Stock).unwrap_or(0)
    }

    pub(super) fn slice(&self, place: Place) -> SliceTimes {
        let times = &self.times;
        let longer = |ms: u32, is_given: bool, tenths: u32| {
            let tenths = if is_given { 10 } else { tenths };
            Duration::from_millis(u64::from(ms) * u64::from(tenths) / 10)
        };
        let (is_many, is_slow) = (place.connections >= MANY, place.load.is_slow);
        let counted_tenths = if is_many { 25 } else { 10 } * if is_slow { 2 } else { 1 };
        SliceTimes {
            settle: longer(times.settle_ms, times.is_settle_given, if is_many { 20 } else { 10 }),
            counts: longer(times.slice_ms, times.is_slice_given, counted_tenths),
        }
    }

    /// Three times as long with many connections: then the plugin compares its limit with no limit first.
    pub(super) fn warm_up(&self, place: Place) -> Duration {
        let factor = if place.connections >= CROWD { 3.0 } else { 1.0 };
        Duration::from_secs_f64(factor * self.times.warm_up_s)
    }

    /// The rounds of a phase of a load that changes.
    pub(super) fn rounds_of_phase(&self, place: Place) -> u32 {
        let phase = Duration::from_secs(self.times.phase_s.into());
        phase.as_millis().div_ceil(self.slice(place).whole().as_millis()) as u32
    }

    /// The rounds of a cell. A load that changes has whole cycles.
    pub(super) fn rounds_of(&self, place: Place, rounds: u32) -> u32 {
        match place.load.phases.len() as u32 {
            0 => rounds,
            phases => rounds.next_multiple_of(phases * self.rounds_of_phase(place)),
        }
    }

    /// What a cell takes with this number of rounds.
    pub(super) fn time_of(&self, place: Place, rounds: u32) -> Duration {
        let rounds = self.rounds_of(place, rounds);
        let start = LOAD + CONNECTION * place.connections;
        let starts = match place.load.phases {
            [] => start + self.warm_up(place),
            _ => start * rounds.div_ceil(self.rounds_of_phase(place)),
        };
        (starts + self.slice(place).whole() * rounds) * self.variants.len() as u32
    }

    /// What the cells from this one on take; `is_started`: the first one's servers are there.
    pub(super) fn time_from(&self, at: usize, rounds: u32, is_started: bool) -> Duration {
        let places = &self.places[at.min(self.places.len())..];
        let starts = places.windows(2).filter(|two| two[0].load.servers != two[1].load.servers).count()
            + usize::from(!is_started && !places.is_empty());
        let servers = SERVER * (starts * self.variants.len()) as u32;
        places.iter().map(|place| self.time_of(*place, rounds)).sum::<Duration>() + servers
    }

    /// The rounds of the cells from this one on: those given, or as many as fit into the time that is left.
    pub(super) fn rounds(&self, at: usize, left: Duration, is_started: bool) -> u32 {
        if let Some(rounds) = self.times.rounds {
            return rounds;
        }
        let fits = |rounds: &u32| self.time_from(at, *rounds, is_started) <= left;
        (ROUNDS_MIN..=ROUNDS).rev().find(fits).unwrap_or(ROUNDS_MIN)
    }
}

fn places(product: &Product, arguments: &Arguments) -> Result<Vec<Place>> {
    let is_chosen = |load: &&Load| match arguments.load.as_slice() {
        [] if product.loads.is_empty() => !load.is_optional,
        [] => product.loads.contains(&load.name),
        given => given.iter().any(|name| name == load.name),
    };
    let mut places = Vec::new();
    for load in LOADS.iter().filter(is_chosen) {
        let is_fixed = load.connections.len() == 1;
        let connections = match (arguments.connections.as_slice(), arguments.quick) {
            ([], true) if !is_fixed => QUICK_CONNECTIONS.to_vec(),
            ([], _) if is_fixed || product.connections.is_empty() => load.connections.to_vec(),
            ([], _) => product.connections.to_vec(),
            (given, _) if is_fixed => {
                given.iter().copied().filter(|n| load.connections.contains(n)).collect()
            }
            (given, _) => {
                let mut given = given.to_vec();
                given.sort_unstable();
                given
            }
        };
        let mut connections = connections;
        connections.dedup();
        places.extend(connections.into_iter().map(|connections| Place { load, connections }));
    }
    if places.is_empty() {
        return Err(Error::Usage("these loads have 64 connections: leave out --connections".into()));
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::plan::{Cli, Command};
    use crate::product::MARIADB;

    fn plan(arguments: &str) -> Result<Plan> {
        let words = ["bench", "matrix"].into_iter().chain(arguments.split_whitespace());
        let cli = Cli::try_parse_from(words).map_err(|error| Error::Usage(error.to_string()))?;
        match cli.command {
            Some(Command::Matrix(arguments)) => Plan::of(&MARIADB, &arguments),
            None => panic!("{arguments}: no matrix"),
        }
    }

    fn cells(plan: &Plan) -> Vec<(&str, u32)> {
        plan.places.iter().map(|place| (place.load.name, place.connections)).collect()
    }

    #[test]
    fn by_default_all_loads_at_all_connections() {
        let plan = plan("").unwrap();
        let fixed = LOADS.iter().filter(|load| load.connections.len() == 1).count();
        let all = LOADS.iter().filter(|load| !load.is_optional).count();
        assert_eq!(plan.places.len(), 4 * (all - fixed) + fixed);
        assert_eq!(plan.times.rounds, Some(40));
        let names: Vec<&str> = plan.variants.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!((names.as_slice(), plan.base()), (["stock", "plugin"].as_slice(), 0));
        // Each set of servers is started once.
        let starts = plan.places.windows(2).filter(|two| two[0].load.servers != two[1].load.servers).count();
        assert_eq!(starts, 3);
    }

    #[test]
    fn cells_are_chosen() {
        let chosen = plan("--load tls,insert --connections 64,3,64").unwrap();
        assert_eq!(cells(&chosen), [("insert", 3), ("insert", 64), ("tls", 3), ("tls", 64)]);
        let fixed = plan("--load beside-reports,insert --connections 16").unwrap();
        assert_eq!(cells(&fixed), [("insert", 16)]);
        let base = plan("--only a,stock --variant a=plugin:flifo_policy=fifo").unwrap();
        assert_eq!(base.variants[base.base()].name, "stock");
    }

    #[test]
    fn quick_fits_into_its_time() {
        let plan = plan("--quick").unwrap();
        assert_eq!(plan.places.iter().filter(|place| place.load.name == "insert").count(), 2);
        let rounds = plan.rounds(0, MARIADB.quick, false);
        assert!((ROUNDS_MIN..=ROUNDS).contains(&rounds), "{rounds}");
        let time = plan.time_from(0, rounds, false);
        assert!(time <= MARIADB.quick && time > MARIADB.quick / 2, "{time:?}");
        // With half of the time left and half of the cells done there are about as many.
        assert!(plan.rounds(0, MARIADB.quick * 2, false) > rounds);
        assert_eq!(plan.rounds(0, Duration::ZERO, false), ROUNDS_MIN);
        assert_eq!(plan.time_from(plan.places.len(), rounds, true), Duration::ZERO);
    }

    #[test]
    fn slices_grow_with_connections_and_slow_statements() {
        let plan = plan("").unwrap();
        let counts = |name, connections| {
            let load = Load::named(name).unwrap();
            plan.slice(Place { load, connections }).counts.as_millis()
        };
        let found = [
            counts("insert", 16),
            counts("insert", 1024),
            counts("beside-dump", 16),
            counts("beside-dump", 1024),
        ];
        assert_eq!(found, [400, 1000, 800, 2000]);
        let given = self::plan("--slice 100 --settle 20").unwrap();
        let load = Load::named("beside-dump").unwrap();
        let slice = given.slice(Place { load, connections: 1024 });
        assert_eq!((slice.counts.as_millis(), slice.settle.as_millis()), (100, 20));
    }

    #[test]
    fn a_load_that_changes_has_whole_cycles() {
        let plan = plan("--phase 2 --slice 400 --settle 40").unwrap();
        let place = Place { load: Load::named("phases").unwrap(), connections: 16 };
        // 2 s are four slices of half a second; three phases are twelve.
        assert_eq!(plan.rounds_of_phase(place), 4);
        assert_eq!([1, 12, 13].map(|rounds| plan.rounds_of(place, rounds)), [12, 12, 24]);
    }

    #[test]
    fn wrong_arguments_are_named() {
        for (arguments, said) in [
            ("--load fast", "point-select"),
            ("--load beside-reports --connections 16", "leave out --connections"),
            ("--only stock", "two or more"),
            ("--only slow", "there is no variant \"slow\""),
            ("--warm-up x", "seconds from 0 to 600"),
            ("--time 3", "--time"),
        ] {
            let error = plan(arguments).unwrap_err().to_string();
            assert!(error.contains(said), "{arguments}: {error}");
        }
    }
}
