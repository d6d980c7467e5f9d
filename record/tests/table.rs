//! Tables of a record made by hand, as a reader sees them.

use flifo_record::table::{Axis, Item, Table, list};
use flifo_record::{Host, Key, Machine, Record, Row, Scale, Wanted};

fn record() -> Record {
    let key = |workload: &str, scale| Key::of(workload).at(scale).variant("plugin");
    let ratio = |workload: &str, scale, ratios: [f64; 6]| {
        key(workload, scale).relative_to("stock").paired(ratios).unwrap()
    };
    let single =
        |key: Key, value, unit: &str| Row { key, median: Some(value), unit: unit.into(), ..Row::default() };
    let mut record = Record {
        bench: "example".into(),
        command: "flifo example --quick".into(),
        date: Some("2026-01-31T12:00:00Z".into()),
        commit: Some("0123456789ab".into()),
        machine: Machine { cpu: "AMD EPYC".into(), cores: 2, host: Host::Virtual, ..Machine::default() },
        scale: Scale::Connections,
        rows: vec![
            ratio("point select", 1024, [1.5, 1.4, 1.6, 1.5, 1.5, 1.5]),
            ratio("point select", 16, [0.9, 1.0, 1.1, 1.0, 1.0, 1.0]),
            ratio("a | b", 16, [0.8, 0.8, 0.9, 0.8, 0.8, 0.8]),
            single(key("point select", 16), 61_312.0, "selects/s"),
            single(key("point select", 16).figure("time"), 20_800.0, "ns"),
        ],
        ..Record::default()
    };
    record.want(key("a | b", 16).relative_to("stock"), Wanted::AtLeast(0.95));
    record
}

#[test]
fn ratios_by_connections() {
    let table = Table {
        select: |key| key.base.is_some(),
        rows: &[Axis::Workload, Axis::Figure],
        columns: &[Axis::Scale],
        has_source: true,
    };
    let expected = "\
AMD EPYC, 2 CPUs, virtual machine, 2026-01-31, commit 0123456789ab, 6 rounds, 95% interval: `flifo example --quick`

| by connections | target | 16 | 1,024 |
|---|---|--:|--:|
| point select | | 1.00 (0.90 to 1.10) = | 1.50 (1.40 to 1.60) |
| a \\| b | >= 0.95 | **0.80 (0.80 to 0.90)** | |
";
    assert_eq!(table.render(&[&record()]).unwrap(), expected);
}

#[test]
fn figures_have_units() {
    let table = Table {
        select: |key| key.base.is_none(),
        rows: &[Axis::Workload, Axis::Figure],
        columns: &[],
        has_source: false,
    };
    let expected = "\
| | | figure |
|---|---|--:|
| point select | | 61,312 selects/s |
| point select | time | 20.8 us |
";
    assert_eq!(table.render(&[&record()]).unwrap(), expected);
}

#[test]
fn two_machines_are_two_columns() {
    let other = Record {
        bench: "other".into(),
        machine: Machine { cpu: "Intel Xeon".into(), ..Machine::default() },
        ..record()
    };
    let table = Table {
        select: |key| key.figure == "time",
        rows: &[Axis::Workload],
        columns: &[Axis::Machine],
        has_source: true,
    };
    let text = table.render(&[&record(), &other]).unwrap();
    assert!(text.starts_with("example: AMD EPYC, 2 CPUs"), "{text}");
    assert!(
        text.contains("\\\nother: Intel Xeon, 2026-01-31, commit 0123456789ab\n"),
        "one command once: {text}"
    );
    assert!(text.contains("| | AMD EPYC | Intel Xeon |"), "{text}");
}

#[test]
fn what_cannot_be_a_table_is_an_error() {
    let render = |select, rows| Table { select, rows, columns: &[], has_source: true }.render(&[&record()]);
    assert_eq!(render(|_| false, &[Axis::Workload]).unwrap_err(), "example has no row for this table");
    let error = render(|key| key.base.is_none(), &[Axis::Workload]).unwrap_err();
    assert!(error.starts_with("two figures in one cell: \"point select\""), "{error}");
}

#[test]
fn a_list_names_what_each_figure_is_relative_to() {
    let record = record();
    let key = |scale| Key::of("point select").at(scale).variant("plugin").relative_to("stock");
    let item = |label, key| Item { label, record: &record, key };
    let expected = "\
| | at | relative to | figure | CPU |
|---|---|---|--:|--:|
| selects | 16 connections | stock | 1.00 (0.90 to 1.10) = | AMD EPYC |
";
    assert_eq!(list(&[item("selects", key(16))]).unwrap(), expected);
    let error = list(&[item("selects", key(64))]).unwrap_err();
    assert!(error.starts_with("figures/example.json has no row \"point select\""), "{error}");
}

#[test]
fn a_long_command_is_cut_at_a_word() {
    let record = Record { command: format!("flifo {}", "word ".repeat(40)), ..record() };
    let table =
        Table { select: |key| key.figure == "time", rows: &[Axis::Workload], columns: &[], has_source: true };
    let text = table.render(&[&record]).unwrap();
    assert!(text.lines().next().unwrap().ends_with("word ...`"), "{text}");
}
