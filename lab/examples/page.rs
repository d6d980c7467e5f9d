//! Shows the made-up runs of the tests: `cargo run --example page -- DIR` writes their JSON, pages and pictures.
use std::path::PathBuf;

use flifo::report::{Style, fixture, show};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = PathBuf::from(std::env::args().nth(1).ok_or("name a directory to write to")?);
    let results = fixture::results();
    results.save(&dir.join("fixture.json"))?;
    let mut out = std::io::stdout();
    show(
        &results,
        Some(&dir.join("fixture.html")),
        Some(&dir.join("fixture.svg")),
        Style::stdout(),
        &mut out,
    )?;
    let bench = fixture::bench();
    bench.save(&dir.join("bench.json"))?;
    show(&bench, Some(&dir.join("bench.html")), Some(&dir), Style::stdout(), &mut out)?;
    let server = fixture::server();
    server.save(&dir.join("server.json"))?;
    show(&server, Some(&dir.join("server.html")), Some(&dir.join("server.svg")), Style::stdout(), &mut out)?;
    Ok(())
}
