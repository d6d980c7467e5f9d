//! Shows the made-up runs of the tests: `cargo run --example page -- DIR` writes their JSON, pages and pictures.
use std::path::PathBuf;

use flifo::report::sweep::fixture;
use flifo::report::{Outputs, Style, show};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = PathBuf::from(std::env::args().nth(1).ok_or("name a directory to write to")?);
    let runs = [
        ("fixture", fixture::results(), dir.join("fixture.svg")),
        ("bench", fixture::bench(), dir.clone()),
        ("server", fixture::server(), dir.join("server.svg")),
    ];
    for (name, results, picture) in runs {
        results.save(&dir.join(format!("{name}.json")))?;
        let page = dir.join(format!("{name}.html"));
        let outputs = Outputs { json: None, html: Some(&page), svg: Some(&picture) };
        show(&results, outputs, Style::stdout(), &mut std::io::stdout())?;
    }
    Ok(())
}
