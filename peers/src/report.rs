//! The report of a run: the description of each peer, and tables by workload, for a terminal or as Markdown.

use std::fmt::Write as _;

use flifo::report::Style;
use flifo::report::table::{markdown, right_aligned, table as terminal};
use flifo::support::format;
use flifo::support::size::Bytes;
use flifo::support::statistics::Spread;

use crate::plan::Plan;
use crate::results::{Cell, Peer, Results};
use crate::workload::Workload;

pub(crate) const ENGINE: &str = "flifo";
/// Before the number of rounds that a ratio is of, where it is not all.
const OF: &str = " of ";
/// Instead of a ratio to nothing.
const DID_NONE: &str = "it did none";

/// The format of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Terminal,
    Markdown,
}

/// What a figure of a cell reads as.
type Figure<'a> = &'a dyn Fn(&Cell) -> String;

/// The whole report; on a terminal the descriptions of the peers were printed at the start.
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
            "{}, {} CPUs, {}, {}, {}; {}",
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
            "{} rows of 196 bytes, a cache of {} each; {} rounds of {} s; durability {}: {}. flifo has {} slots, policy {}.",
            format::count(settings.rows as f64),
            Bytes(settings.cache_bytes),
            settings.rounds,
            settings.round_s,
            settings.durability,
            settings.durability_promise,
            settings.thread_concurrency,
            settings.policy,
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
    if results.cells.iter().any(|cell| cell.workload == name && cell.peer == ENGINE) && plan.peers.len() > 1 {
        let others = || results.cells.iter().filter(|cell| cell.workload == name && cell.peer != ENGINE);
        let mut title = "flifo / peer, of rounds that ran side by side: median, lowest..highest".to_owned();
        if others().any(|cell| ratio(results, cell).contains(OF)) {
            title += "; \"of N\": in the other rounds not one of the peer's operations ended in time";
        }
        tables(text, &title, &|cell| match cell.peer == ENGINE {
            true => "1".into(),
            false => ratio(results, cell),
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
        "CPU time taken during the measurement by the host (steal) / by other programs, medians",
        &|cell| {
            let percent = |spread: Option<Spread>| format::percent(spread.map(|spread| spread.median));
            let others = cell.spread(|round| round.others());
            format!("{} / {}", percent(cell.spread(|round| round.host.cpu_steal)), percent(others))
        },
    );
}

fn table(plan: &Plan, results: &Results, workload: Workload, form: Form, figure: Figure<'_>) -> String {
    let threads: &[u32] = if workload == Workload::Load { &[1] } else { &plan.threads };
    let mut table = match form {
        Form::Terminal => terminal(Style::stdout()),
        Form::Markdown => markdown(),
    };
    table.set_header([String::new()].into_iter().chain(threads.iter().map(|n| self::threads(*n))));
    for (peer, driver) in plan.peers.iter().enumerate() {
        let of = |threads: &u32| match results.cell(&workload.to_string(), *threads, driver.about.name) {
            Some(cell) if !cell.rounds.is_empty() => figure(cell),
            _ if plan.left_out(peer, workload).is_some() => "left out".into(),
            _ => "-".into(),
        };
        table.add_row([driver.about.name.to_owned()].into_iter().chain(threads.iter().map(of)));
    }
    right_aligned(table, 1).to_string()
}

/// `1 thread`.
pub(crate) fn threads(threads: u32) -> String {
    if threads == 1 { "1 thread".into() } else { format!("{threads} threads") }
}

/// flifo's throughput by the cell's; of how many rounds, if in others the peer did nothing.
fn ratio(results: &Results, cell: &Cell) -> String {
    let (spread, pairs) = results.ratio(ENGINE, cell);
    let ratio = format::ratio(spread);
    match spread {
        None if pairs > 0 => DID_NONE.into(),
        Some(spread) if spread.count < pairs => format!("{ratio}{OF}{}", spread.count),
        _ => ratio,
    }
}

/// One line about a finished cell, for a watcher.
pub(crate) fn row(results: &Results, cell: &Cell) -> String {
    let ms = |spread: Option<Spread>| format::maybe(spread.map(|spread| spread.median / 1e3));
    let ratio = match ratio(results, cell) {
        _ if cell.peer == ENGINE => String::new(),
        none if none == DID_NONE => none,
        ratio => format!("flifo / it {ratio}"),
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use flifo::results::Machine;

    use super::*;
    use crate::args::Args;
    use crate::plan::Step;
    use crate::results::Round;

    /// The text about a peer's rounds and flifo's.
    fn said(engine: &[f64], its: &[f64]) -> (String, String) {
        let line = ["flifo-peers", "--peers", "flifo,lmdb", "--workloads", "update", "--threads", "1"];
        let plan = Plan::new(&Args::try_parse_from(line).unwrap(), 2).unwrap();
        let mut results = crate::run::results(&plan, Machine::default());
        for (peer, rounds) in [engine, its].into_iter().enumerate() {
            for (round, &operations_per_s) in (0..).zip(rounds) {
                let step = Step { workload: Workload::Update, threads: 1, peer, round };
                let round = Round { round, operations_per_s, ..Round::default() };
                results.cell_mut(&plan, &step).rounds.push(round);
            }
        }
        let cell = results.cell("update", 1, "lmdb").unwrap();
        (ratio(&results, cell), row(&results, cell))
    }

    #[test]
    fn rounds_in_which_a_peer_did_nothing_are_told() {
        let engine = [10.0; 3];
        assert_eq!(said(&engine, &[0.0, 0.0, 5.0]).0, "2.00 of 1");
        assert_eq!(said(&engine, &[0.0, 10.0, 5.0]).0, "1.50 1.00..2.00 of 2");
        assert_eq!(said(&engine, &[2.0, 10.0, 5.0]).0, "2.00 1.00..5.00");
        // A round that only one of them has is no pair.
        assert_eq!(said(&engine[..2], &[5.0, 5.0, 0.0]).0, "2.00 2.00..2.00");
        assert_eq!(said(&[], &[5.0]).0, "-");
        let (none, row) = said(&engine, &[0.0; 3]);
        assert_eq!(none, "it did none");
        assert!(row.ends_with("ms  it did none"), "{row}");
    }
}
