//! Tables and emphasis for a terminal.

use comfy_table::presets::{ASCII_MARKDOWN, UTF8_BORDERS_ONLY};
use comfy_table::{CellAlignment, ContentArrangement, Table};

use super::Style;

/// An empty table for a terminal, as wide as its content and at most as `style` says.
pub fn table(style: Style) -> Table {
    let mut table = Table::new();
    table
        .load_style(UTF8_BORDERS_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(style.width);
    if style.colour {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table
}

/// An empty table of Markdown.
pub fn markdown() -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table
}

/// Aligns the columns from this one, counted from 0, to the right.
pub fn right_aligned(mut table: Table, from_column: usize) -> Table {
    for column in table.column_iter_mut().skip(from_column) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The text, emphasised on a terminal with colours.
pub fn bold(text: &str, style: Style) -> String {
    if style.colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
}
