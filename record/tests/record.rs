//! The schema: written, read again, refused.

use std::fs;

use flifo_record::{Bounds, Claim, Error, Host, Key, Machine, Record, Row, Scale, Target, Wanted};

fn record() -> Record {
    let ratio = Key::of("point select").at(1024).variant("plugin").relative_to("stock");
    let rounds = [1.5, 1.4, 1.6, 1.5, 1.5, f64::INFINITY];
    Record {
        schema: flifo_record::SCHEMA,
        bench: "example".into(),
        command: "flifo example \"quoted\"".into(),
        commit: Some("0123456789ab-dirty".into()),
        date: Some("2026-01-31T12:00:00Z".into()),
        machine: Machine {
            cpu: "AMD EPYC".into(),
            cores: 2,
            memory_bytes: 1 << 34,
            kernel: "Linux 6.18".into(),
            host: Host::Virtual,
        },
        scale: Scale::Connections,
        settings: [("server".to_owned(), "MariaDB \"rows\": []".to_owned())].into(),
        rows: vec![
            ratio.clone().paired(rounds).unwrap(),
            Row {
                key: Key::of("ticket").figure("added"),
                low: Some(0.1),
                high: Some(0.30000000000000004),
                unit: "ns".into(),
                ..Row::default()
            },
        ],
        claims: vec![Claim {
            claim: "more \"rows\": []".into(),
            compared: "a / b".into(),
            published: Some(2.5),
            median: None,
            verdict: "not measured".into(),
            ..Claim::default()
        }],
        targets: vec![Target { key: ratio, wanted: Wanted::AtLeast(1.1) }],
        notes: vec!["One was odd.".into()],
    }
}

#[test]
fn what_is_written_is_read_again() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("example.json");
    record().write(&path).unwrap();
    let read = Record::read(&path).unwrap();
    assert_eq!(read, record());
    let row = &read.rows[0];
    assert_eq!((row.median, row.high, row.bounds), (Some(1.5), Some(f64::INFINITY), Bounds::Interval95));
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1, "nothing is left beside it");
    // A row is a line, so that git shows which figure changed.
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains("\"workload\"")).count(), 3, "{text}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap()["rows"][0]["high"], "inf");
}

#[test]
fn too_few_rounds_have_a_range() {
    let row = Key::of("w").relative_to("b").paired([1.2, 0.9, 1.1]).unwrap();
    assert_eq!((row.median, row.low, row.high, row.bounds), (Some(1.1), Some(0.9), Some(1.2), Bounds::Range));
    assert!(row.spans_one());
    assert!(Key::of("w").relative_to("b").paired([]).is_none());
}

#[test]
fn a_bad_file_is_one_error_that_names_it() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("bad.json");
    let good = record().to_json();
    let row = "{\"workload\":\"ticket\",\"figure\":\"added\",\"median\":null,\"low\":2.0,\"high\":1.0,\"bounds\":\"range\",\"n\":null,\"unit\":\"\"}";
    let rows = |rows: &str| {
        let mut empty = record();
        (empty.rows, empty.targets) = (Vec::new(), Vec::new());
        empty.to_json().replace("\"rows\": []", &format!("\"rows\": [{rows}]"))
    };
    for (text, problem) in [
        ("{", "no record: EOF"),
        ("[]", "no record"),
        ("{}", "missing field `schema`"),
        (&good.replace("\"schema\": 1", "\"schema\": 9"), "schema 9, this version reads schema 1"),
        (&good.replace("\"bench\"", "\"bank\""), "no record: unknown field `bank`"),
        (&good.replace("\"inf\"", "\"much\""), "\"much\" is no figure"),
        (&rows(row), "a low above its high"),
        (&rows(&format!("{0},{0}", row.replace("2.0", "0.5"))), "two rows of \"ticket\", figure \"added\""),
        (&good.replace("\"workload\":\"ticket\"", "\"workload\":\"point select\""), ""),
    ] {
        fs::write(&path, text).unwrap();
        let read = Record::read(&path);
        if problem.is_empty() {
            assert!(read.is_ok(), "{read:?}");
            continue;
        }
        let error = read.expect_err(text).to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
        assert!(error.contains(problem) && !error.contains('\n'), "{error}: {problem}");
    }
    assert!(matches!(Record::read(&temp.path().join("none.json")), Err(Error::Read { .. })));
}

#[test]
fn targets_are_judged_by_the_median_or_the_worse_end() {
    let target = |wanted| Target { key: Key::default(), wanted };
    let row = |median, low, high| Row { median, low: Some(low), high: Some(high), ..Row::default() };
    assert!(target(Wanted::AtLeast(1.0)).is_met(&row(Some(1.1), 0.9, 1.2)));
    assert!(!target(Wanted::AtLeast(1.0)).is_met(&row(None, 0.9, 1.2)));
    assert!(!target(Wanted::LessThan(1.2)).is_met(&row(None, 0.9, 1.2)));
    assert!(target(Wanted::AtMost(1.2)).is_met(&row(None, 0.9, 1.2)));
    let mut record = record();
    record.want(Key::of("nothing"), Wanted::AtLeast(1.0));
    assert_eq!(record.targets.len(), 1, "a target needs a row");
}
