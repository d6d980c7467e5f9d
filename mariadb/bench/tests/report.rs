//! Verdicts and tables of results made by hand.

use clap::CommandFactory as _;
use flifo_mariadb_bench::measure::Figures;
use flifo_mariadb_bench::plan::{Cli, What};
use flifo_mariadb_bench::record;
use flifo_mariadb_bench::report::markdown;
use flifo_mariadb_bench::results::{Results, RunHead};
use flifo_mariadb_bench::settings::Settings;
use flifo_mariadb_bench::targets::verdicts;
use flifo_mariadb_bench::workload::Workload;
use flifo_record::{Key, Wanted};

fn results(what: What) -> Results {
    let settings = Settings {
        rows: 5000,
        time_s: 12,
        skip_s: 4,
        distribution: "uniform".into(),
        buffer_pool_bytes: 1 << 30,
        log_file_bytes: 2 << 30,
        ..Settings::default()
    };
    let variant = |text: &str| text.parse().unwrap();
    Results {
        run: RunHead::without_clients("flifo-mariadb-bench".into()),
        what,
        server_options: settings.server(),
        settings,
        variants: vec![variant("stock"), variant("plugin"), variant("pool")],
        cells: Vec::new(),
    }
}

fn figures(round: u32, throughput_per_s: f64) -> Figures {
    Figures {
        round,
        throughput_per_s,
        server_cpu_us_per_statement: 50.0,
        switches_per_statement: 1e6 / throughput_per_s,
        history_per_statement: Some(-0.75),
        mean_ms: 10.0,
        max_ms: 25.0,
        queue_cycle_ms: Some(10.0),
        connection_variation: Some(0.2),
        ..Figures::default()
    }
}

/// 16 and 1024 connections, three rounds; between rounds the machine halves its speed.
fn hot_rows() -> Results {
    let mut results = results(What::Table);
    for (round, speed) in [(0, 1.0), (1, 0.5), (2, 1.0)] {
        for (connections, stock, plugin, pool) in [(16, 30e3, 33e3, 30e3), (1024, 1e3, 30e3, 15e3)] {
            for (name, per_s) in [("stock", stock), ("plugin", plugin), ("pool", pool)] {
                results.push((Workload::HotRows100, connections, name), figures(round, per_s * speed));
            }
        }
    }
    results
}

#[test]
fn ratios_are_of_the_same_round() {
    let results = hot_rows();
    let ratio = results.ratio((Workload::HotRows100, 1024), ("plugin", "stock"), |f| f.throughput_per_s);
    let ratio = ratio.unwrap();
    assert_eq!((ratio.median, ratio.min, ratio.max, ratio.count), (30.0, 30.0, 30.0, 3));
    let flat = results.against_its_peak(Workload::HotRows100, 1024, "plugin").unwrap();
    assert!((flat.median - 30.0 / 33.0).abs() < 1e-9);
    assert_eq!(
        results.cell(Workload::HotRows100, 1024, "stock").unwrap().throughput_median_per_s,
        Some(1000.0)
    );
}

#[test]
fn what_the_issue_wants_is_decided_by_the_median() {
    let verdicts = verdicts(&hot_rows());
    let told: Vec<(&str, u32, Wanted, bool)> =
        verdicts.iter().map(|v| (v.demand, v.connections, v.target, v.is_met())).collect();
    let expected = [
        ("throughput / stock", 16, Wanted::AtLeast(1.0), true),
        ("throughput / stock", 1024, Wanted::AtLeast(20.0), true),
        ("throughput / its own peak", 1024, Wanted::AtLeast(0.9), true),
        ("throughput / pool", 1024, Wanted::MoreThan(1.0), true),
        ("context switches per statement / stock", 1024, Wanted::LessThan(1.0), true),
        ("variation between connections", 1024, Wanted::AtMost(0.3), true),
        ("longest wait / cycle of the queue", 1024, Wanted::AtMost(2.0), false),
    ];
    assert_eq!(told, expected);
}

#[test]
fn the_record_has_rates_ratios_and_targets() {
    let record = record::of_rounds(&hot_rows());
    let key = |connections| Key::of(Workload::HotRows100.title(5000)).at(connections).variant("plugin");
    let ratio = record.row(&key(1024).relative_to("stock")).unwrap();
    assert_eq!((ratio.median, ratio.n), (Some(30.0), Some(3)));
    let rate = record.row(&key(1024)).unwrap();
    assert_eq!((rate.median, rate.low, rate.unit.as_str()), (Some(30e3), Some(15e3), "updates/s"));
    assert_eq!(record.row(&key(16).figure("server CPU per statement")).unwrap().median, Some(50.0));
    let target = |base: &str| record.target(&key(1024).relative_to(base)).map(|target| target.wanted);
    assert_eq!(target("stock"), Some(Wanted::AtLeast(20.0)));
    assert_eq!(target("pool"), Some(Wanted::MoreThan(1.0)));
}

#[test]
fn the_help_explains_record() {
    let mut command = Cli::command();
    command.build();
    let matrix = command.find_subcommand_mut("matrix").unwrap().render_long_help().to_string();
    for help in [command.render_long_help().to_string(), matrix] {
        assert!(help.contains("--record[=<DIR|FILE>]") && help.contains("figures/NAME.json"), "{help}");
    }
}

#[test]
fn one_connection_has_its_own_demands() {
    let mut results = results(What::Overhead);
    for (name, per_s) in [("stock", 10e3), ("plugin", 9.7e3)] {
        results.push((Workload::PointSelect, 1, name), figures(0, per_s));
    }
    let verdicts = verdicts(&results);
    let told: Vec<(&str, bool)> = verdicts.iter().map(|v| (v.demand, v.is_met())).collect();
    assert_eq!(told, [("throughput / stock", false), ("server CPU per statement / stock", true)]);
}

#[test]
fn the_tables_say_it() {
    let mut results = hot_rows();
    results.run.notes.push("something was odd".into());
    let text = markdown(&results);
    for target in [
        "### Target: 6 of 7 met",
        "30.00 (30.00..30.00), target 20: met",
        "| stock              | 30,000 (15,000..30,000) | 1,000 (500..1,000)      |",
        "**missed**",
        "left to purge/statement",
        "-0.75",
        "- something was odd",
        "innodb-flush-log-at-trx-commit=2",
    ] {
        assert!(text.contains(target), "{target} is missing in\n{text}");
    }
    // Every row of a table has as many cells as its head.
    for table in text.split("\n\n").filter(|part| part.starts_with('|')) {
        let bars: Vec<usize> = table.lines().map(|line| line.matches('|').count()).collect();
        assert!(bars.iter().all(|n| *n == bars[0]), "{table}");
    }
    results.cells.clear();
    assert_eq!(markdown(&results), "Nothing was measured.\n");
}
