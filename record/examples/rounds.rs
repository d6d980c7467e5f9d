//! Records the rounds that a script measured: `rounds BENCH COMMAND SCALE BASE --record[=DIR|FILE] < rounds.tsv`.
//!
//! SCALE is what the number of a line counts: connections, threads or requests. See `flifo_record::rounds` for the lines.

use std::process::ExitCode;

use flifo_record::place::Place;
use flifo_record::{Record, Scale, rounds};

fn main() -> ExitCode {
    match run() {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("rounds: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String, String> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let [bench, command, scale, base] = &words[..] else {
        return Err("name the bench, its command, what it counts, and the base".into());
    };
    let scale = [Scale::Connections, Scale::Threads, Scale::Requests].into_iter().find(|s| s.name() == scale);
    let scale = scale.ok_or("the third word is connections, threads or requests")?;
    let place = Place::from_args(bench).map_err(|error| error.to_string())?;
    let place = place.ok_or("say --record, --record=DIR or --record=FILE")?;
    let text = std::io::read_to_string(std::io::stdin()).map_err(|error| error.to_string())?;
    let mut record = Record::begin(bench, command.as_str(), scale);
    record.rows = rounds::rows(&text, base)?;
    place.write(record).map_err(|error| error.to_string())
}
