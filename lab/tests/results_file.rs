//! The results file as scripts meet it: documented keys, nothing lost on the way, bad files refused.

#[path = "common/golden.rs"]
mod golden;
#[path = "common/keys.rs"]
mod keys;

use std::collections::BTreeSet;

use flifo::commands::report::run;
use flifo::report::sweep::fixture;
use flifo::report::{ReportError, Style};
use flifo::results::{CellKey, Fairness, PerSecond, Results, Round};
use flifo::results::{Machine, Samples};
use golden::{Cases, golden};
use keys::{documented, keys};

const DOCUMENTATION: &str = include_str!("../../docs/results.md");
const PLAIN: Style = Style { colour: false, width: 120 };

#[test]
fn every_key_is_documented_and_every_documented_key_is_written() {
    let mut written = BTreeSet::new();
    for results in [fixture::results(), fixture::bench(), fixture::server(), fixture::kinds()] {
        keys(&serde_json::from_str(&results.to_json()).unwrap(), &mut written);
    }
    assert!(written.len() > 70, "{written:?}");
    assert_eq!(written, documented(DOCUMENTATION));
}

#[test]
fn what_is_saved_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("results.json");
    let results = fixture::results();
    results.save(&path).unwrap();
    // Not assert_eq: a difference would print a megabyte.
    assert!(Results::load(&path).unwrap() == results, "a figure changed on the way to the file and back");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn unknown_keys_are_skipped_and_missing_figures_are_not_measured() {
    let json = r#"{"schema": 1, "from_the_future": {"a": [1]}, "cells": [{"target": "engine",
        "workload": "point-select", "front": "socket", "policy": "flifo", "concurrency": 4, "tickets": 1,
        "threads": 2, "colour_of_the_sky": "blue", "throughput_median_per_s": 1.0,
        "rounds": [{"throughput_per_s": 10, "new_key": null}, {"round": 1, "throughput_per_s": 30}]}]}"#;
    let results = Results::from_json(json).unwrap();
    let cell = &results.cells[0];
    assert_eq!(cell.summary.throughput_median_per_s, Some(20.0), "computed from the rounds, not believed");
    assert_eq!((cell.rounds[0].p50_ms, cell.rounds[0].host.cpu_user), (None, None));
    assert_eq!(cell.rounds[0].admission.woken_to_running_p50_us, None);
}

#[test]
fn bad_files_are_refused_in_one_line_that_says_why() {
    let refuse = |json: &str| {
        let message = Results::from_json(json).unwrap_err().to_string();
        assert!(!message.contains('\n'), "{message}");
        message
    };
    let mut cases = Cases::default();
    cases.add("not JSON", refuse("{"));
    cases.add("no schema", refuse(r#"{"cells": []}"#));
    cases.add("another schema", refuse(r#"{"schema": 2, "cells": []}"#));
    cases.add("no key", refuse(r#"{"schema": 1, "cells": [{"rounds": []}]}"#));
    let cell = |threads: u32, per_s: &str| {
        format!(
            r#"{{"schema": 1, "cells": [{{"target": "engine", "front": "socket", "policy": "fifo", "concurrency": 4,
            "tickets": 1, "threads": {threads}, "rounds": [{{"throughput_per_s": {per_s}}}]}}]}}"#
        )
    };
    assert!(Results::from_json(&cell(1, "10")).is_ok());
    cases.add("0 threads", refuse(&cell(0, "10")));
    for per_s in ["1e308", "-1", "1e999"] {
        cases.add(format!("throughput {per_s}"), refuse(&cell(1, per_s)));
    }
    // Every figure, wherever it stands.
    let with = |figure: &str| cell(1, &format!("10, {figure}"));
    for figure in [
        r#""p99_ms": -1e308"#,
        r#""retries": 18446744073709551615"#,
        r#""seconds": [{"at_s": 1, "cpu_user": -3}]"#,
    ] {
        cases.add(figure, refuse(&with(figure)));
    }
    let head = |figure: &str| format!(r#"{{"schema": 1, {figure}, "cells": []}}"#);
    cases.add("a figure of the run", refuse(&head(r#""elapsed_s": 1e300"#)));
    cases.check("errors-results");
    assert!(Results::from_json(&head(r#""settings": {"seed": 18446744073709551615}"#)).is_ok());
}

#[test]
fn counts_of_a_file_are_added_up_without_overflow() {
    let round = r#"{"throughput_per_s": 1, "retries": 1000000000000000000}"#;
    let json = format!(
        r#"{{"schema": 1, "cells": [{{"target": "engine", "front": "socket", "policy": "fifo", "concurrency": 4,
        "tickets": 1, "threads": 1, "rounds": [{}]}}]}}"#,
        [round; 20].join(",")
    );
    assert_eq!(Results::from_json(&json).unwrap().cells[0].summary.retries_sum, Some(u64::MAX));
}

#[test]
fn report_shows_a_saved_file_and_draws_what_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fixture::results().save(&path("r.json")).unwrap();
    let mut out = Vec::new();
    run(&path("r.json"), Some(&path("r.html")), Some(&path("r.svg")), PLAIN, &mut out).unwrap();
    golden("sweep-report", &String::from_utf8(out).unwrap());
    assert!(std::fs::read_to_string(path("r.html")).unwrap().starts_with("<!doctype html>"));
    assert!(std::fs::read_to_string(path("r.svg")).unwrap().starts_with("<svg"));
}

#[test]
fn a_file_s_cells_do_not_say_where_pictures_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let (saved, pictures) = (dir.path().join("r.json"), dir.path().join("pictures"));
    std::fs::create_dir(&pictures).unwrap();
    for name in ["../x".to_owned(), dir.path().join("x").display().to_string(), "a b".to_owned()] {
        let mut of_load = fixture::bench();
        of_load.cells.iter_mut().for_each(|cell| cell.key.load = name.clone());
        // Beside a cell with a load its name is a file's, too.
        let mut of_workload = fixture::bench();
        of_workload.cells[0].key.load.clear();
        of_workload.cells[0].key.workload = name.clone();
        for results in [of_load, of_workload] {
            results.save(&saved).unwrap();
            let error = run(&saved, None, Some(&pictures), PLAIN, &mut Vec::new()).unwrap_err().to_string();
            assert!(error.starts_with("not a results file of flifo") && error.contains(&name), "{error}");
        }
    }
    assert_eq!(std::fs::read_dir(&pictures).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "a picture beside its directory");
}

#[test]
fn report_names_the_file_that_cannot_be_read_or_written() {
    let dir = tempfile::tempdir().unwrap();
    let saved = dir.path().join("r.json");
    let nowhere = dir.path().join("no/such/place");
    let fail = |json, html| run(json, html, None, PLAIN, &mut Vec::new()).unwrap_err();
    let error = fail(&nowhere, None);
    assert!(
        matches!(error, ReportError::Results(_)) && error.to_string().contains("no/such/place"),
        "{error}"
    );
    fixture::results().save(&saved).unwrap();
    let error = fail(&saved, Some(&nowhere));
    assert!(
        error.to_string().starts_with("cannot write ") && error.to_string().contains("no/such/place"),
        "{error}"
    );
}

#[test]
fn a_round_follows_from_counts_and_samples() {
    let mut samples = Samples::default();
    samples.totals.context_switches_per_s = Some(3000.0);
    let round = Round::new(2, 2.0, 3000, 30, samples);
    assert_eq!((round.throughput_per_s, round.transactions_per_s), (1500.0, 15.0));
    assert_eq!(round.context_switches_per_statement, Some(2.0));
    let idle = Round::new(0, 2.0, 0, 0, Samples::default());
    assert_eq!((idle.throughput_per_s, idle.context_switches_per_statement), (0.0, None));
}

#[test]
fn the_lowest_second_stands_beside_the_mean() {
    let second = |transactions| PerSecond { statements: 10 * transactions, transactions };
    let share = |elapsed_s, counted: &[PerSecond]| {
        let round = Round::new(0, elapsed_s, 0, 0, Samples::default());
        round.with_seconds(counted).lowest_second_share
    };
    assert_eq!(share(3.0, &[second(5), second(2), second(5)]), Some(0.5));
    assert_eq!(share(2.5, &[second(5), second(5), second(1)]), Some(1.0), "the rest is no second");
    assert_eq!(share(3.0, &[second(5), second(5)]), Some(0.0), "nothing ended in the third");
    assert_eq!(share(1.9, &[second(5), second(5)]), None, "one second is no comparison");
    assert_eq!(share(2.0, &[]), None);

    let rows = [1.0, 2.0, 2.5].map(|at_s| flifo::results::Second { at_s, ..Default::default() });
    let samples = Samples { seconds: rows.into(), ..Samples::default() };
    let round = Round::new(0, 2.5, 0, 0, samples).with_seconds(&[second(5), second(7), second(1)]);
    let told: Vec<Option<f64>> = round.seconds.iter().map(|row| row.transactions_per_s).collect();
    assert_eq!(told, [Some(5.0), Some(7.0), None]);
    assert_eq!(round.seconds[1].throughput_per_s, Some(70.0));
}

#[test]
fn fairness_by_hand() {
    // Mean 5, variance ((2-5)^2 + (4-5)^2 + (4-5)^2 + (10-5)^2) / 4 = 9, so 3 / 5.
    let fairness = Fairness::of(&[2, 4, 4, 10]);
    assert_eq!((fairness.connection_statements_min, fairness.connection_statements_max), (Some(2), Some(10)));
    assert_eq!(fairness.connection_variation, Some(0.6));
    assert_eq!((fairness.connection_fewest_share, fairness.connection_most_share), (Some(0.4), Some(2.0)));
    assert_eq!(Fairness::of(&[0, 0]).connection_variation, None);
    assert_eq!(Fairness::of(&[0, 0]).connection_fewest_share, None);
    assert_eq!(Fairness::of(&[]), Fairness::default());
}

#[test]
fn cells_stand_in_the_order_of_their_first_round() {
    let mut results = Results::new(Machine::default(), Default::default(), String::new(), String::new());
    let key = |threads| CellKey { threads, ..CellKey::default() };
    for (threads, per_s) in [(8, 10.0), (2, 1.0), (8, 30.0)] {
        results.cell_mut(&key(threads)).push(Round { throughput_per_s: per_s, ..Round::default() });
    }
    let seen: Vec<(u32, usize)> = results.cells.iter().map(|c| (c.key.threads, c.rounds.len())).collect();
    assert_eq!(seen, [(8, 2), (2, 1)]);
    assert_eq!(results.cells[0].summary.throughput_max_per_s, Some(30.0));
}
