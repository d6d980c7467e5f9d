//! Measurements of many sensors under a typed key: the last ones of a sensor first.
//!
//! `cargo run --release -p flifo-engine --example time_series`

use std::ops::ControlFlow;

use flifo_admission::{Admission, Config};
use flifo_engine::row::{Column, ColumnType, KeyFormat, KeyPart, RowFormat};
use flifo_engine::{Database, EngineConfig, Isolation};

const SENSORS: u64 = 20;
const MEASUREMENTS: u64 = 500;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Database::create(dir.path().join("series"), EngineConfig::default())?;
    let table = db.create_table("measurements")?;
    let admission = Admission::new(Config::default())?;
    let session = db.session(&admission);

    // Sensor by sensor, and of each the latest first.
    let key = KeyFormat::new(vec![
        KeyPart::new("sensor", ColumnType::Text),
        KeyPart::new("second", ColumnType::U64).descending(),
    ]);
    let row = RowFormat::new(vec![
        Column::new("degrees", ColumnType::F64),
        Column::new("remark", ColumnType::Text).nullable(),
    ])?;

    for second in 0..MEASUREMENTS {
        // One transaction for all that was measured at a time.
        let mut txn = session.begin(Isolation::ReadCommitted);
        for sensor in 0..SENSORS {
            let name = format!("sensor {sensor:02}");
            let degrees = 20.0 + sensor as f64 + (second as f64 / 50.0).sin();
            let remark = (second % 100 == 0).then_some("calibrated");
            txn.insert(&table, &key.encode((name.as_str(), second))?, &row.encode((degrees, remark))?)?;
        }
        txn.commit()?;
    }

    println!("the last five of sensor 07");
    let (from, to) = key.prefix_range("sensor 07")?;
    let (from, to) = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
    let (mut left, mut wrong) = (5, None);
    session.begin(Isolation::RepeatableRead).scan(&table, from, to, |key_bytes, value| {
        let shown = || -> Result<(), flifo_engine::row::RowError> {
            let measured = row.open(value)?;
            println!(
                "  second {}: {:.2} {}",
                key.get(1, key_bytes)?,
                measured.get(0)?.as_f64().unwrap_or(0.0),
                measured.get(1)?
            );
            Ok(())
        };
        wrong = shown().err();
        left -= 1;
        if left == 0 || wrong.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    wrong.map_or(Ok(()), Err)?;
    drop((session, table));
    db.close()?;
    Ok(())
}
