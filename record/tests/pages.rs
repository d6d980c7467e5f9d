//! The repository's own pages and records.

use std::path::Path;

use flifo_record::{Record, blocks, pages};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the repository")
}

#[test]
fn no_block_and_no_picture_is_stale() {
    let stale = pages::check(root()).unwrap_or_else(|error| panic!("{error}"));
    let stale: Vec<String> = stale.iter().map(ToString::to_string).collect();
    assert!(
        stale.is_empty(),
        "these do not show what figures/ records:\n  {}\nrender them with `cargo run -p flifo -- figures`, and review \
         the difference",
        stale.join("\n  ")
    );
}

#[test]
fn every_block_stands_in_a_page() {
    let pages = pages::pages(root()).unwrap();
    let text: String = pages.iter().map(|page| std::fs::read_to_string(root().join(page)).unwrap()).collect();
    let missing: Vec<&str> = blocks::names()
        .into_iter()
        .filter(|name| !text.contains(&format!("<!-- figures:{name} -->\n")))
        .collect();
    assert_eq!(missing, [""; 0], "no page has these blocks of record/src/blocks.rs");
}

/// So that recording a bench again changes only the rows that changed.
#[test]
fn every_record_is_as_a_bench_writes_it() {
    for entry in root().join("figures").read_dir().unwrap() {
        let path = entry.unwrap().path();
        let record = Record::read(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(record.to_json(), std::fs::read_to_string(&path).unwrap(), "{}", path.display());
    }
}

/// A page that nobody reads to its end is no help.
#[test]
fn the_pages_of_figures_have_at_most_12_kilobytes() {
    let mut pages = vec![root().join("docs/benchmarks.md")];
    pages.extend(root().join("docs/benchmarks").read_dir().unwrap().map(|entry| entry.unwrap().path()));
    for page in pages {
        let bytes = page.metadata().unwrap().len();
        assert!(bytes <= 12 << 10, "{} has {bytes} bytes", page.display());
    }
}
