//! Golden files: wording that a test produces, compared with `lab/tests/golden/NAME.txt`.
//!
//! `FLIFO_WRITE_GOLDEN=1 cargo test -p flifo` writes the files anew; review the change with `git diff`.
#![allow(dead_code, reason = "each user needs a part")]

use std::fmt::{Display, Write as _};
use std::fs;
use std::path::{Path, PathBuf};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name).with_extension("txt")
}

/// Fails if `actual` differs from the golden file of that name, and shows the first line that does.
pub(crate) fn golden(name: &str, actual: &str) {
    let path = file(name);
    let actual = format!("{}\n", actual.trim_end_matches('\n'));
    let golden = fs::read_to_string(&path).unwrap_or_default();
    if golden == actual {
        return;
    }
    if std::env::var_os("FLIFO_WRITE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().expect("a file in a directory")).unwrap();
        fs::write(&path, &actual).unwrap();
        return;
    }
    let (mut was, mut is) = (golden.lines(), actual.lines());
    let (line, was, is) = (1..)
        .map(|line| (line, was.next(), is.next()))
        .find(|(_, was, is)| was != is || was.is_none())
        .expect("the iterator has no end");
    let end = "(end of the text)";
    panic!(
        "{name} differs from tests/golden/{name}.txt at line {line}:\n  golden: {}\n  actual: {}\n\
         if the new wording is right: FLIFO_WRITE_GOLDEN=1 cargo test -p flifo\n\n{actual}",
        was.unwrap_or(end),
        is.unwrap_or(end)
    );
}

/// Several texts in one golden file, each under the case that it belongs to.
#[derive(Default)]
pub(crate) struct Cases(String);

impl Cases {
    /// Adds a text.
    pub(crate) fn add(&mut self, case: impl Display, text: impl Display) {
        let text = text.to_string();
        let _ = writeln!(self.0, "# {case}\n{}\n", text.trim_end_matches('\n'));
    }

    /// Compares all with the golden file of that name.
    pub(crate) fn check(&self, name: &str) {
        golden(name, &self.0);
    }
}

/// The text with `DIR` for the path.
pub(crate) fn without_path(text: &str, path: &Path) -> String {
    text.replace(path.to_str().expect("the tests' paths are text"), "DIR")
}

/// The text with `N` for each number, and one blank or one piece of a table's border for several.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut normalised = String::new();
    for line in text.lines() {
        let chars: Vec<char> = line.trim_end().chars().collect();
        let is_digit = |index: usize| chars.get(index).is_some_and(char::is_ascii_digit);
        let mut last = None;
        for (index, &c) in chars.iter().enumerate() {
            let is_in_number = is_digit(index)
                || (matches!(c, '.' | ',') && index > 0 && is_digit(index - 1) && is_digit(index + 1));
            let c = if is_in_number { 'N' } else { c };
            if !(matches!(c, 'N' | ' ' | '─' | '═') && last == Some(c)) {
                normalised.push(c);
            }
            last = Some(c);
        }
        normalised.push('\n');
    }
    normalised
}
