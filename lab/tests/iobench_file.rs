//! The results file of `flifo iobench` as scripts meet it: documented keys, nothing lost on the way, bad files refused.

#[path = "common/golden.rs"]
mod golden;
#[path = "common/keys.rs"]
mod keys;

use std::collections::BTreeSet;

use flifo::commands::report::run;
use flifo::report::iobench::fixture;
use flifo::report::{ReportError, Style};
use flifo::results::io::IoResults;
use golden::{Cases, golden};
use keys::{documented, keys};

const DOCUMENTATION: &str = include_str!("../../docs/iobench.md");
const PLAIN: Style = Style { colour: false, width: 120 };

#[test]
fn every_key_is_documented_and_every_documented_key_is_written() {
    let mut written = BTreeSet::new();
    keys(&serde_json::from_str(&fixture::full().to_json()).unwrap(), &mut written);
    let (_, layout) = DOCUMENTATION.split_once("## The JSON").unwrap();
    assert!(written.len() > 60, "{written:?}");
    assert_eq!(written, documented(layout));
}

#[test]
fn what_is_saved_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("io.json");
    let results = fixture::full();
    results.save(&path).unwrap();
    let read = IoResults::from_json(&std::fs::read_to_string(&path).unwrap()).unwrap();
    // Not assert_eq: a difference would print a megabyte.
    assert!(read == results, "a figure changed on the way to the file and back");
}

#[test]
fn missing_keys_are_not_measured_and_medians_are_computed() {
    let json = r#"{"schema": 1, "kind": "iobench", "from_the_future": 7, "cells": [{"workload": "log",
        "concurrency": 1, "iops_median": 1.0, "rounds": [{"iops": 10.0}, {"iops": 30.0, "colour": "blue"}]}]}"#;
    let results = IoResults::from_json(json).unwrap();
    assert_eq!(results.cells[0].iops_median, Some(20.0), "computed from the rounds, not believed");
    assert_eq!((results.cells[0].p99_us_median, results.storage.rotational), (None, None));
}

/// What stands between the tables.
fn headings(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with(['│', '┌', '└', '╞'])).collect();
    lines.join("\n")
}

#[test]
fn report_tells_the_two_kinds_apart_and_draws_the_page() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let mut results = fixture::full();
    results.save(&path("io.json")).unwrap();
    let shown = || {
        let mut out = Vec::new();
        run(&path("io.json"), Some(&path("io.html")), None, PLAIN, &mut out).unwrap();
        (String::from_utf8(out).unwrap(), std::fs::read_to_string(path("io.html")).unwrap())
    };
    let (text, page) = shown();
    golden("iobench-report-headings", &headings(&text));
    assert!(page.starts_with("<!doctype html>") && !page.contains("Published, and here"));
    results.experiment = "linux-io-2012".into();
    results.save(&path("io.json")).unwrap();
    let (text, page) = shown();
    golden("linux-io-2012-report-headings", &headings(&text));
    assert!(page.contains("Published, and here"));
}

#[test]
fn what_cannot_be_shown_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("io.json");
    let refuse = |json: &str, svg: bool| {
        std::fs::write(&path, json).unwrap();
        let svg = svg.then(|| dir.path().join("io.svg"));
        let error = run(&path, None, svg.as_deref(), PLAIN, &mut Vec::new()).unwrap_err();
        let message = error.to_string();
        assert!(!message.contains('\n'), "{message}");
        (error, message)
    };
    let mut cases = Cases::default();
    for json in [
        r#"{"schema": 2, "kind": "iobench", "cells": []}"#,
        r#"{"schema": 1, "kind": "poem", "cells": []}"#,
        r#"{"schema": 1, "kind": "iobench", "cells": 5}"#,
    ] {
        cases.add(json, refuse(json, false).1);
    }
    let (error, _) = refuse(r#"{"schema": 1, "kind": "iobench", "cells": []}"#, false);
    assert!(matches!(error, ReportError::Empty), "{error}");
    cases.add("a picture", refuse(&fixture::study("ext4").to_json(), true).1);

    let cell = |concurrency: u32, figure: &str| {
        let round = format!(r#"{{"iops": 10.0, {figure}}}"#);
        let key = format!(r#""workload": "log", "concurrency": {concurrency}"#);
        format!(r#"{{"schema": 1, "kind": "iobench", "cells": [{{{key}, "rounds": [{round}]}}]}}"#)
    };
    assert!(IoResults::from_json(&cell(1, r#""elapsed_s": 1.0"#)).is_ok());
    for (concurrency, figure) in [
        (0, r#""elapsed_s": 1.0"#),
        (1, r#""mb_per_s": -1e308"#),
        (1, r#""write_latency": {"p99_us": 1e300}"#),
    ] {
        cases
            .add(format!("concurrency {concurrency}, {figure}"), refuse(&cell(concurrency, figure), false).1);
    }
    cases.check("errors-iobench-results");
}
