//! The results of both commands as text.

use std::path::Path;

use comfy_table::Cell as Field;
use flifo_engine::{AtRest, CheckReport, NextOpen, TreeKind};

use super::Style;
use super::table::{bold, right_aligned, table};
use crate::results::database::Checked;
use crate::support::format;

/// Of `flifo check`.
pub(crate) fn check(dir: &Path, checked: &Checked, style: Style) -> String {
    match checked {
        Checked::Unreadable(error) => {
            format!("{error}\n\n{}: damage found, and nothing else could be checked\n", dir.display())
        }
        Checked::Report(report) => {
            let verdict = match report.findings_total {
                0 => "sound".to_owned(),
                1 => "damage found: 1 finding".to_owned(),
                more => format!("damage found: {more} findings"),
            };
            let (trees, space) = (trees(report, style), space(report));
            format!("{trees}\n{space}\n{}\n{}: {verdict}\n", findings(report), dir.display())
        }
    }
}

/// Of `flifo stat`.
pub(crate) fn stat(dir: &Path, at_rest: &AtRest, checked: Option<&Checked>, style: Style) -> String {
    let mut text = format!("{}\n{}", bold(&dir.display().to_string(), style), files(at_rest));
    match checked {
        None => {
            if at_rest.next_open == NextOpen::Recovers {
                text.push_str(
                    "\nTables are shown after a recovery, which writes to the database: --recover\n",
                );
            }
        }
        Some(Checked::Unreadable(error)) => text.push_str(&format!("\n{error}\n")),
        Some(Checked::Report(report)) => {
            text.push_str(&format!("\n{}\n{}\n", trees(report, style), space(report)));
            let history = report.trees.iter().filter(|tree| tree.kind == TreeKind::RollbackSegment);
            let (segments, records) =
                (history.clone().count(), history.map(|tree| tree.stats.rows).sum::<u64>());
            text.push_str(&format!(
                "history: {} undo records in {segments} rollback segments\n",
                format::whole(records)
            ));
            if !report.is_sound() {
                text.push_str(&format!("damage found: flifo check {} lists it\n", dir.display()));
            }
        }
    }
    text
}

fn files(at_rest: &AtRest) -> String {
    let state = match &at_rest.next_open {
        NextOpen::Recovers if at_rest.is_clean => {
            "clean, but of an older copy than its redo log: the next open brings it up to date".to_owned()
        }
        NextOpen::Recovers => "was not closed: the next open recovers it".to_owned(),
        NextOpen::MakesAnew => {
            "clean, but its redo log or doublewrite areas are missing, damaged or of a later time: the next \
                                open makes them anew"
                .to_owned()
        }
        NextOpen::Refuses(why) => format!("the next open refuses it: {why}"),
        _ => "clean".to_owned(),
    };
    let data: u64 = at_rest.data_files.iter().map(|(_, bytes)| bytes).sum();
    let redo = match &at_rest.redo_capacity_bytes {
        Ok(bytes) => format!("{} in {} files", format::bytes(*bytes), at_rest.redo_files.len()),
        Err(problem) => problem.clone(),
    };
    let mut text = String::new();
    let mut line = |name: &str, value: String| text.push_str(&format!("  {name:<12}{value}\n"));
    line("state", state);
    line("id", at_rest.id.to_string());
    line("format", format!("version {}", at_rest.format_version));
    line("page", format::bytes(at_rest.page_bytes.into()));
    line("checkpoint", format!("LSN {}", at_rest.checkpoint_lsn));
    line("durable", format!("LSN {}, at least", at_rest.durable_lsn));
    line("redo log", redo);
    line("data", format!("{} in {} files", format::bytes(data), at_rest.data_files.len()));
    for (path, bytes) in &at_rest.data_files {
        line("", format!("{path}  {}", format::bytes(*bytes)));
    }
    text
}

fn trees(report: &CheckReport, style: Style) -> String {
    let mut table = table(style);
    table.set_header(["", "name", "rows", "pages", "bytes", "height", "fill", "findings"]);
    let (empty, shown): (Vec<_>, Vec<_>) = report.trees.iter().partition(|tree| {
        tree.kind == TreeKind::RollbackSegment && tree.stats.rows == 0 && tree.findings == 0
    });
    for tree in shown {
        let (stats, page_bytes) = (&tree.stats, report.page_bytes);
        table.add_row([
            Field::new(tree.kind),
            Field::new(&tree.name),
            Field::new(format::whole(stats.rows)),
            Field::new(format::whole(stats.pages())),
            Field::new(format::bytes(stats.pages() * u64::from(page_bytes))),
            Field::new(stats.height),
            Field::new(format::percent(Some(100.0 * stats.fill(page_bytes as usize)))),
            Field::new(if tree.findings == 0 { String::new() } else { tree.findings.to_string() }),
        ]);
    }
    let empty = match empty.len() {
        0 => String::new(),
        some => format!("\nand {some} empty rollback segments"),
    };
    format!("{}{empty}", right_aligned(table, 2))
}

fn space(report: &CheckReport) -> String {
    let (space, count) = (&report.space, format::whole);
    let leaked = match space.leaked_pages {
        0 => String::new(),
        leaked => format!(
            ", of which {} belong to nothing{}",
            count(leaked),
            if report.is_sound() {
                " (left by a crash: they cost space, and nothing else; flifo check --reclaim frees them)"
            } else {
                " that could be read"
            }
        ),
    };
    let freed = match space.freed_pages {
        0 => String::new(),
        freed => format!(", {} of them freed now, which belonged to nothing", count(freed)),
    };
    format!(
        "{} pages: {} in use{leaked}, {} free{freed}",
        count(space.pages),
        count(space.used_pages),
        count(space.free_pages())
    )
}

fn findings(report: &CheckReport) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        text.push_str(&format!("{finding}\n"));
    }
    let more = report.findings_total - report.findings.len() as u64;
    if more > 0 {
        text.push_str(&format!("and {more} more\n"));
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}
