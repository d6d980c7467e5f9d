//! Parts of several tables: the name of a curve, and the table of its throughput.

use comfy_table::{Attribute, Cell as Field, Color, Table};

use super::analysis::{Curve, Panel};
use crate::report::Style;
use crate::report::table::{right_aligned, table};
use crate::results::Cell;
use crate::support::format;
use crate::support::statistics::Spread;

/// A row per number of threads, a column per curve, named by `head`.
pub(super) fn throughput_table(panel: &Panel<'_>, head: impl Fn(&Curve<'_>) -> Field, style: Style) -> Table {
    rate_table(panel, head, Cell::throughput, style)
}

/// A row per number of threads, a column per curve, of any rate.
pub(super) fn rate_table(
    panel: &Panel<'_>,
    head: impl Fn(&Curve<'_>) -> Field,
    rate: impl Fn(&Cell) -> Option<Spread>,
    style: Style,
) -> Table {
    let mut table = table(style);
    table.set_header(std::iter::once(Field::new("threads")).chain(panel.curves.iter().map(head)));
    for &threads in &panel.threads {
        let figures = panel.curves.iter().map(|curve| format::with_spread(curve.at(threads).and_then(&rate)));
        table.add_row(std::iter::once(threads.to_string()).chain(figures));
    }
    right_aligned(table, 0)
}

/// A curve's name, as `text`, in its colour.
pub(super) fn label(curve: &Curve<'_>, text: &str, style: Style) -> Field {
    let field = Field::new(text);
    if !style.colour {
        return field;
    }
    match curve.policy {
        "flifo" => field.fg(Color::Blue).add_attribute(Attribute::Bold),
        "fifo" => field.fg(Color::Yellow),
        "lifo" => field.fg(Color::Magenta),
        "sleep" | "innodb" => field.fg(Color::Green),
        "broadcast" => field.fg(Color::Cyan),
        "quantum" => field.fg(Color::Red).add_attribute(Attribute::Bold),
        _ => field,
    }
}

/// The start of a policy's colour on a terminal.
pub(super) fn ansi(policy: &str) -> &'static str {
    match policy {
        "flifo" => "\x1b[1;34m",
        "fifo" => "\x1b[33m",
        "lifo" => "\x1b[35m",
        "sleep" | "innodb" => "\x1b[32m",
        "broadcast" => "\x1b[36m",
        "quantum" => "\x1b[1;31m",
        _ => "",
    }
}
