use super::simulator::{Curve, Noise, Outcome, Phase, Scenario, run};
use super::*;

const QUIET: Noise = Noise { swing: 0.02, swing_s: 0.1, steal_time: 0.01, steal: 0.3, steal_s: 0.05 };
const NOISY: Noise = Noise { swing: 0.06, swing_s: 0.2, steal_time: 0.08, steal: 0.3, steal_s: 0.3 };

fn phase(from_s: f64, curve: Curve) -> Phase {
    Phase { from_s, curve, offered: f64::INFINITY, clients: 1000 }
}

fn scenario(name: &'static str, start: u32, curve: Curve) -> Scenario {
    let phases = vec![phase(0.0, curve)];
    Scenario { name, start, phases, noise: NOISY, length_s: 600.0, tick_s: 0.01 }
}

/// A curve with its top near `n`.
fn peak(top: f64, n: f64, sigma: f64) -> Curve {
    let kappa = (1.0 - sigma) / (n * n);
    let unit = Curve::Usl { lambda: 1.0, sigma, kappa }.rate(n);
    Curve::Usl { lambda: top / unit, sigma, kappa }
}

fn scenarios() -> Vec<Scenario> {
    let sharp = peak(40_000.0, 64.0, 0.0);
    let quiet = Scenario { noise: QUIET, ..scenario("peak at 64, from 4, quiet", 4, sharp) };
    vec![
        quiet,
        scenario("peak at 64, from 4", 4, sharp),
        scenario("peak at 64, from 512", 512, sharp),
        scenario("peak at 12, contended", 8, peak(30_000.0, 12.0, 0.1)),
        scenario("peak at 3", 32, peak(5_000.0, 3.0, 0.0)),
        scenario("peak at 400, broad", 8, peak(100_000.0, 400.0, 0.02)),
        scenario("saturating, no peak", 8, Curve::Usl { lambda: 2_000.0, sigma: 0.05, kappa: 0.0 }),
        scenario("linear up to the ceiling", 8, Curve::Usl { lambda: 50.0, sigma: 0.0, kappa: 0.0 }),
        scenario("flat", 64, Curve::Flat(20_000.0)),
        scenario("falling from 1", 64, Curve::Usl { lambda: 9_000.0, sigma: 1.02, kappa: 0.0005 }),
        scenario("cliff after 40", 4, Curve::Cliff { lambda: 1000.0, knee: 16.0, cliff: 40.0, left: 0.3 }),
        Scenario {
            phases: vec![phase(0.0, sharp), phase(200.0, peak(8_000.0, 8.0, 0.0)), phase(400.0, sharp)],
            ..scenario("steps: 64, 8, 64", 4, sharp)
        },
        Scenario {
            phases: vec![Phase { clients: 10, ..phase(0.0, sharp) }],
            ..scenario("10 clients, peak at 64", 4, sharp)
        },
        Scenario {
            phases: vec![Phase { offered: 32_000.0, ..phase(0.0, sharp) }],
            ..scenario("80 % of the peak offered", 4, sharp)
        },
        Scenario {
            phases: (0..10)
                .map(|i| Phase {
                    offered: if i % 2 == 1 { 2000.0 } else { f64::INFINITY },
                    ..phase(60.0 * i as f64, sharp)
                })
                .collect(),
            ..scenario("an idle minute in two", 4, sharp)
        },
        Scenario {
            noise: Noise { swing: 0.1, swing_s: 1.0, steal_time: 0.15, steal: 0.3, steal_s: 4.0 },
            ..scenario("rough host, peak at 64", 4, sharp)
        },
        Scenario { length_s: 3600.0, ..scenario("20 statements/s, from 2", 2, peak(20.0, 12.0, 0.05)) },
        Scenario { length_s: 3600.0, ..scenario("20 statements/s, from 8", 8, peak(20.0, 12.0, 0.05)) },
        Scenario { length_s: 3600.0, ..scenario("20 statements/s, from 64", 64, peak(20.0, 12.0, 0.05)) },
    ]
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share).round() as usize]
}

#[test]
#[ignore = "prints the table of docs/auto.md"]
fn table() {
    let seeds = std::env::var("SEEDS").map_or(200, |seeds| seeds.parse().unwrap());
    for scenario in scenarios() {
        let outcomes: Vec<Outcome> =
            (0..seeds).map(|seed| run(&scenario, &AutoConfig::default(), seed)).collect();
        let mut regret: Vec<f64> = outcomes.iter().map(|o| o.regret * 100.0).collect();
        let mut settled: Vec<f64> = outcomes.iter().map(|o| o.settled_regret * 100.0).collect();
        let mut mostly: Vec<f64> =
            outcomes.iter().map(|o| o.mostly(scenario.length_s / 2.0, scenario.length_s) as f64).collect();
        let found: Vec<String> = (0..scenario.phases.len())
            .map(|at| {
                let mut s: Vec<f64> =
                    outcomes.iter().map(|o| o.found_s[at].unwrap_or(f64::INFINITY)).collect();
                format!("{:.1}/{:.1}", quantile(&mut s, 0.5), quantile(&mut s, 0.95))
            })
            .collect();
        println!(
            "| {:28} | {} | {:.2} / {:.2} / {:.2} | {:.2} / {:.2} | {} | {:.0} {:.0} {:.0} | {:.0} |",
            scenario.name,
            outcomes.iter().map(|o| o.changes_without_queue).max().unwrap(),
            quantile(&mut regret, 0.5),
            quantile(&mut regret, 0.95),
            quantile(&mut regret, 1.0),
            quantile(&mut settled, 0.5),
            quantile(&mut settled, 0.95),
            found.join(", "),
            quantile(&mut mostly, 0.05),
            quantile(&mut mostly, 0.5),
            quantile(&mut mostly, 0.95),
            outcomes.iter().map(|o| o.limits.len()).sum::<usize>() as f64 / seeds as f64,
        );
    }
}

#[test]
#[ignore]
fn trace() {
    let at: usize = std::env::var("AT").unwrap().parse().unwrap();
    let seed: u64 = std::env::var("SEED").unwrap().parse().unwrap();
    let scenario = &scenarios()[at];
    let o = run(scenario, &AutoConfig::default(), seed);
    println!("{} {} {:?} {:?}", scenario.name, o.regret, o.settled_regret, o.found_s);
    let mut last = 0.0;
    for (a, b) in &o.held {
        println!("{a:8.2} held {b}");
        last = *a;
    }
    for m in o
        .limits
        .iter()
        .filter(|m| m.at_s >= std::env::var("FROM").map_or(0.0, |s| s.parse().unwrap()))
        .take(200)
    {
        println!("   {:8.3} {}", m.at_s, m.limit);
    }
    _ = last;
}
