//! Writes each target's seed inputs into `DIR/TARGET/`, and prints the targets' names.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let dir = PathBuf::from(std::env::args_os().nth(1).expect("seeds DIR"));
    for target in flifo_engine::fuzz::TARGETS {
        let dir = dir.join(target.name);
        println!("{}", target.name);
        std::fs::create_dir_all(&dir)?;
        for (n, seed) in (target.seeds)().into_iter().enumerate() {
            std::fs::write(dir.join(format!("seed-{n}")), seed)?;
        }
    }
    Ok(())
}
