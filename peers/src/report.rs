//! What a run shows: what is stated of each peer, and tables by workload, for a terminal or as Markdown.

use std::fmt::Write as _;

use comfy_table::presets::{ASCII_MARKDOWN, UTF8_HORIZONTAL_ONLY};
use comfy_table::{CellAlignment, Table};
use flifo::cli::Bytes;
use flifo::report::format;
use flifo::statistics::Spread;

use crate::plan::Plan;
use crate::results::{Cell, Peer, Results};
use crate::workload::Workload;

const OURS: &str = "flifo";

/// For whom the text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Terminal,
    Markdown,
}

/// What a figure of a cell reads as.
type Figure<'a> = &'a dyn Fn(&Cell) -> String;

/// Everything; on a terminal what is stated of the peers was printed at the start.
pub(crate) fn text(plan: &Plan, results: &Results, form: Form) -> String {
    let mut text = String::new();
    if form == Form::Markdown {
        stated(&mut text, results, form);
    }
    for &workload in &plan.workloads {
        of_workload(&mut text, plan, results, workload, form);
    }
    if !results.failures.is_empty() {
        heading(&mut text, "What went wrong", form);
        results.failures.iter().for_each(|failure| line(&mut text, &format!("- {failure}")));
    }
    text
}

fn line(text: &mut String, line: &str) {
    let _ = writeln!(text, "{line}");
}

fn heading(text: &mut String, title: &str, form: Form) {
    match form {
        Form::Terminal => line(text, &format!("\n{title}\n")),
        Form::Markdown => line(text, &format!("\n### {title}\n")),
    }
}

/// Machine, settings, and what holds of each peer.
pub(crate) fn stated(text: &mut String, results: &Results, form: Form) {
    let (machine, settings) = (&results.machine, &results.settings);
    line(
        text,
        &format!(
            "{}, {} processors, {}, {}, {}; {}",
            machine.cpu_model,
            machine.cores,
            Bytes(machine.memory_bytes),
            machine.kernel,
            machine.file_system,
            results.started_at
        ),
    );
    line(text, "");
    line(
        text,
        &format!(
            "{} rows of 196 bytes, a cache of {} each; {} rounds of {} s; durability {}: {}. flifo has {} places.",
            format::count(settings.rows as f64),
            Bytes(settings.cache_bytes),
            settings.rounds,
            settings.round_s,
            settings.durability,
            settings.durability_promise,
            settings.thread_concurrency,
        ),
    );
    heading(text, "What is stated of each peer", form);
    for peer in &results.peers {
        peer_stated(text, peer);
    }
    for left in &results.left_out {
        line(text, &format!("- {} is left out of {}: {}", left.peer, left.workloads.join(", "), left.why));
    }
}

fn peer_stated(text: &mut String, peer: &Peer) {
    let durability =
        peer.durability_setting.unwrap_or("no such setting; opened for the workloads that only read");
    line(text, &format!("- {} {}: {durability}", peer.name, peer.version));
    let more = [
        ("writers", peer.writers),
        ("memory", peer.memory),
        ("load", peer.load),
        ("between cells", peer.settle),
    ];
    for (what, said) in more {
        line(text, &format!("  {what}: {said}"));
    }
}

fn of_workload(text: &mut String, plan: &Plan, results: &Results, workload: Workload, form: Form) {
    let name = workload.to_string();
    if !results.cells.iter().any(|cell| cell.workload == name) {
        return;
    }
    heading(text, &format!("{name}: {}", workload.describe()), form);
    let tables = |text: &mut String, title: &str, figure: Figure<'_>| {
        line(text, &format!("{title}:\n"));
        line(text, &table(plan, results, workload, form, figure));
        line(text, "");
    };
    tables(text, &format!("{}, median", workload.unit()), &|cell| {
        format::maybe(cell.per_s().map(|spread| spread.median))
    });
    if results.cells.iter().any(|cell| cell.workload == name && cell.peer == OURS) && plan.peers.len() > 1 {
        tables(text, "flifo / peer, of rounds that ran side by side: median, lowest..highest", &|cell| {
            match cell.peer == OURS {
                true => "1".into(),
                false => format::ratio(results.ratio(OURS, cell)),
            }
        });
    }
    if workload == Workload::Load {
        return;
    }
    tables(text, "p99 and longest, ms, medians", &|cell| {
        let ms = |spread: Option<Spread>| format::maybe(spread.map(|spread| spread.median / 1e3));
        format!("{} / {}", ms(cell.spread(|round| round.p99_us)), ms(cell.spread(|round| round.longest_us)))
    });
    if results.cells.iter().any(|cell| cell.workload == name && cell.rounds.iter().any(|r| r.retries > 0)) {
        tables(text, "retries an operation", &|cell| {
            let retries: u64 = cell.rounds.iter().map(|round| round.retries).sum();
            let operations: u64 = cell.rounds.iter().map(|round| round.operations).sum();
            format::maybe((operations > 0).then(|| retries as f64 / operations as f64))
        });
    }
    tables(
        text,
        "processors taken while it was measured by the host (steal) / by other programs, medians",
        &|cell| {
            let percent = |spread: Option<Spread>| format::percent(spread.map(|spread| spread.median));
            let others = cell.spread(|round| round.others());
            format!("{} / {}", percent(cell.spread(|round| round.host.cpu_steal)), percent(others))
        },
    );
}

fn table(plan: &Plan, results: &Results, workload: Workload, form: Form, figure: Figure<'_>) -> String {
    let threads: &[u32] = if workload == Workload::Load { &[1] } else { &plan.threads };
    let mut table = Table::new();
    table.load_style(match form {
        Form::Terminal => UTF8_HORIZONTAL_ONLY,
        Form::Markdown => ASCII_MARKDOWN,
    });
    table.set_header([String::new()].into_iter().chain(threads.iter().map(|n| self::threads(*n))));
    for (peer, driver) in plan.peers.iter().enumerate() {
        let of = |threads: &u32| match results.cell(&workload.to_string(), *threads, driver.about.name) {
            Some(cell) if !cell.rounds.is_empty() => figure(cell),
            _ if plan.left_out(peer, workload).is_some() => "left out".into(),
            _ => "-".into(),
        };
        table.add_row([driver.about.name.to_owned()].into_iter().chain(threads.iter().map(of)));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// `1 thread`.
pub(crate) fn threads(threads: u32) -> String {
    if threads == 1 { "1 thread".into() } else { format!("{threads} threads") }
}

/// One line about a cell that has been measured, for who looks on.
pub(crate) fn row(results: &Results, cell: &Cell) -> String {
    let ms = |spread: Option<Spread>| format::maybe(spread.map(|spread| spread.median / 1e3));
    let ratio = match cell.peer == OURS {
        true => String::new(),
        false => format!("flifo / it {}", format::ratio(results.ratio(OURS, cell))),
    };
    format!(
        "{:<13} {:>12}  {:<8} {:>12} {:<15} p99 {:>8} ms  {ratio}",
        cell.workload,
        threads(cell.threads),
        cell.peer,
        format::maybe(cell.per_s().map(|spread| spread.median)),
        cell.unit,
        ms(cell.spread(|round| round.p99_us)),
    )
}
