//! The results of `flifo check` and `flifo stat`, and their JSON; docs/check.md explains every key.

use flifo_engine::{AtRest, CheckReport, Error as EngineError, Finding, NextOpen, TreeReport};
use serde_json::{Value, json};

/// What a check came to.
pub(crate) enum Checked {
    Report(CheckReport),
    /// The files are damaged so that nothing could be checked.
    Unreadable(EngineError),
}

impl Checked {
    /// Whether no damage was found.
    pub(crate) fn is_sound(&self) -> bool {
        matches!(self, Checked::Report(report) if report.is_sound())
    }
}

/// Of `flifo check`.
pub(crate) fn check(checked: &Checked) -> String {
    lines(&checked_value(checked))
}

/// Of `flifo stat`.
pub(crate) fn stat(at_rest: &AtRest, checked: Option<&Checked>) -> String {
    let file = |(path, bytes): &(String, u64)| json!({ "file": path, "bytes": bytes });
    let redo = at_rest.redo_capacity_bytes.as_ref();
    let (next_open, refusal) = match &at_rest.next_open {
        NextOpen::Recovers => ("recovers", None),
        NextOpen::MakesAnew => ("makes anew", None),
        NextOpen::Refuses(why) => ("refuses", Some(why)),
        _ => ("as it is", None),
    };
    lines(&json!({
        "format_version": at_rest.format_version,
        "id": at_rest.id.to_string(),
        "page_bytes": at_rest.page_bytes,
        "data_files": at_rest.data_files.iter().map(file).collect::<Vec<_>>(),
        "pages": at_rest.pages,
        "clean": at_rest.is_clean,
        "next_open": next_open,
        "refused_because": refusal,
        "checkpoint_lsn": at_rest.checkpoint_lsn,
        "durable_lsn": at_rest.durable_lsn,
        "epoch": at_rest.epoch,
        "redo_files": at_rest.redo_files,
        "redo_capacity_bytes": redo.ok(),
        "redo_problem": redo.err(),
        "contents": checked.map(checked_value),
    }))
}

fn lines(value: &Value) -> String {
    format!("{value:#}\n")
}

fn checked_value(checked: &Checked) -> Value {
    match checked {
        Checked::Report(report) => report_value(report),
        Checked::Unreadable(error) => json!({
            "sound": false,
            "findings_total": 1,
            "findings": [{ "of": "database", "what": error.to_string() }],
        }),
    }
}

fn report_value(report: &CheckReport) -> Value {
    let space = &report.space;
    json!({
        "sound": report.is_sound(),
        "findings_total": report.findings_total,
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "trees": report.trees.iter().map(|tree| tree_value(tree, report.page_bytes)).collect::<Vec<_>>(),
        "space": {
            "pages": space.pages,
            "used_pages": space.used_pages,
            "free_pages": space.free_pages(),
            "reached_pages": space.reached_pages,
            "leaked_pages": space.leaked_pages,
            "freed_pages": space.freed_pages,
        },
    })
}

fn finding(finding: &Finding) -> Value {
    let place = finding.place.as_ref();
    json!({
        "of": finding.of,
        "page": place.map(|place| place.page),
        "file": place.and_then(|place| place.file.as_ref()),
        "offset": place.and_then(|place| place.offset),
        "what": finding.what,
    })
}

fn tree_value(tree: &TreeReport, page_bytes: u32) -> Value {
    json!({
        "kind": tree.kind.to_string(),
        "name": tree.name,
        "root": tree.root,
        "rows": tree.stats.rows,
        "height": tree.stats.height,
        "leaf_pages": tree.stats.leaf_pages,
        "inner_pages": tree.stats.inner_pages,
        "bytes": tree.stats.pages() * u64::from(page_bytes),
        "fill": tree.stats.fill(page_bytes as usize),
        "tree_findings": tree.findings,
    })
}
