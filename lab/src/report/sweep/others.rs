//! Seconds in which other programs used a part of the CPUs: throughput in them is lower than possible, and a lowest
//! second among them is not the measured system's fault.

use super::analysis::{Panel, panels};
use crate::results::{Results, Second};

/// The share of all CPUs used by others from which on the report mentions it, percent.
const REPORTED_FROM: f64 = 10.0;

/// A row shorter than this is no second: the kernel counts in ticks of 10 ms.
const WHOLE_S: f64 = 0.5;

/// The same for a whole run; with several panels each note names its own.
pub(crate) fn of_run(results: &Results) -> Vec<String> {
    let panels = panels(results);
    let of = |panel: &Panel<'_>| match panels.len() {
        1 => String::new(),
        _ => format!("{}: ", panel.heading()),
    };
    let noted = |panel| notes(panel).into_iter().map(move |note| format!("{}{note}", of(panel)));
    panels.iter().flat_map(noted).collect()
}

/// A sentence for each of the others that had [`REPORTED_FROM`] or more in a second of the panel's rounds.
pub(super) fn notes(panel: &Panel<'_>) -> Vec<String> {
    let programs = worst(panel, of_others);
    let hypervisor = worst(panel, |second| second.cpu_steal);
    let said = [
        (programs, "other programs, the kernel's own threads among them, had"),
        (hypervisor, "the hypervisor took"),
    ];
    said.into_iter()
        .filter(|(worst, _)| worst.seconds > 0)
        .map(|(worst, who)| {
            format!(
                "In {} of {} seconds {who} {REPORTED_FROM:.0}% of the CPUs or more, at most {:.0}% ({}): throughput in them is less reliable.",
                worst.seconds, worst.of, worst.percent, worst.place
            )
        })
        .collect()
}

#[derive(Default)]
struct Worst {
    seconds: u32,
    of: u32,
    percent: f64,
    place: String,
}

fn worst(panel: &Panel<'_>, percent: fn(&Second) -> Option<f64>) -> Worst {
    let mut worst = Worst::default();
    for curve in &panel.curves {
        for cell in &curve.cells {
            for round in &cell.rounds {
                let mut begin_s = 0.0;
                for second in &round.seconds {
                    let whole = second.at_s - begin_s >= WHOLE_S;
                    begin_s = second.at_s;
                    let Some(percent) = percent(second).filter(|_| whole) else { continue };
                    worst.of += 1;
                    worst.seconds += u32::from(percent >= REPORTED_FROM);
                    if percent > worst.percent {
                        worst.percent = percent;
                        worst.place = format!(
                            "{} {}, {}, round {}, second {:.0}",
                            cell.key.threads,
                            panel.counted(),
                            curve.label,
                            round.round + 1,
                            second.at_s
                        );
                    }
                }
            }
        }
    }
    worst
}

/// The share of all CPUs that neither the server nor the clients used, percent; `None` if the server's is unknown.
fn of_others(second: &Second) -> Option<f64> {
    let busy = second.cpu_user? + second.cpu_system?;
    Some((busy - second.cpu_server? - second.cpu_client?).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::golden;
    use crate::report::sweep::{analysis, fixture};

    #[test]
    fn a_second_that_others_had_a_part_of_is_reported() {
        let mut results = fixture::results();
        assert_eq!(notes(&analysis::panels(&results)[0]), [""; 0]);

        let cell = &mut results.cells[0];
        let mut round = cell.rounds[0].clone();
        round.seconds[1].cpu_server = Some(40.0);
        round.seconds[0].cpu_steal = Some(11.0);
        // The rest of a round says nothing.
        let rest = Second { at_s: 2.01, cpu_server: Some(0.0), ..round.seconds[1].clone() };
        round.seconds.push(rest);
        round.round = 6;
        cell.push(round);
        golden("sweep-notes", &notes(&analysis::panels(&results)[0]).join("\n"));
    }

    #[test]
    fn of_a_server_that_is_not_known_nothing_is_reported() {
        let mut second = fixture::results().cells[0].rounds[0].seconds[0].clone();
        assert!(of_others(&second).is_some());
        second.cpu_server = None;
        assert_eq!(of_others(&second), None);
    }
}
