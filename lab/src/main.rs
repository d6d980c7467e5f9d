use std::time::Duration;
use flifo::front::*; use flifo::workload::*; use flifo::engine::*; use flifo_admission::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let kind = if a[1]=="direct" {FrontKind::Direct} else {FrontKind::Socket};
    let n: u32 = a[2].parse().unwrap();
    let workload = if a[3]=="ro" {Workload::ReadOnly} else {Workload::PointSelect};
    let db = Database::create("x").unwrap();
    let mut f = Front::open(kind, n, &db, &Tree).unwrap();
    let adm = Admission::new(Config::default()).unwrap();
    for r in 0..3 {
        let t = std::time::Instant::now();
        f.begin(&adm, (Shape{workload, rows:2_000_000, range:1000}, 1, r), (Duration::from_millis(200), Duration::from_millis(1500))).unwrap();
        let t = f.finish().unwrap();
        println!("{:.0}/s p50 {:?} p99 {:?} max {} ms min {:?} max {:?}", t.statements as f64/1.5, t.latency_ms(0.5), t.latency_ms(0.99), t.latency_ns_max/1000000, t.per_connection.iter().min(), t.per_connection.iter().max());
    }
}
