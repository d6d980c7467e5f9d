//! Each faulty store is detected: one that forgets, one that repeats, one that hangs, one that fails.

use std::sync::Arc;

use clap::Parser as _;
use flifo::measure::thread_group::Driver as _;
use flifo::results::HostFigures;

use super::*;
use crate::args::Args;
use crate::fake::{Fault, ROWS, base};

/// One cell of one thread.
fn cell(fault: Fault, workload: Workload) -> (Ended, Base) {
    let args = ["flifo-peers", "--rows", "2000", "--time", "0.05", "--patience", "0.3", "--peers", "flifo"];
    let plan = Plan::new(&Args::try_parse_from(args).unwrap(), 2).unwrap();
    let step = Step { workload, threads: 1, peer: 0, round: 0 };
    let (mut base, open) = base(fault);
    let mut rig = Rig::new(1).unwrap();
    let ended = run(&plan, &step, &mut rig, &mut base).unwrap();
    assert_eq!(rig.fits(1), !base.is_stuck);
    drop(open);
    (ended, base)
}

fn why(ended: Ended) -> String {
    match ended {
        Ended::Failed(why) => why,
        _ => panic!("it did not fail"),
    }
}

#[test]
fn what_was_acknowledged_is_counted() {
    for workload in [Workload::Update, Workload::HotRows(3), Workload::Ycsb('f'), Workload::ReadWrite] {
        let (ended, base) = cell(Fault::None, workload);
        let Ended::Measured(round) = ended else { panic!("{workload}: no figures") };
        assert!(round.updates_checked > Some(0), "{workload}");
        let in_rows = counters(&*base.store, ROWS).unwrap();
        assert_eq!((base.updates, round.updates_checked), (Some(in_rows), Some(in_rows)), "{workload}");
    }
    let (ended, base) = cell(Fault::None, Workload::Range1000);
    assert!(matches!(ended, Ended::Measured(round) if round.updates_checked.is_none()));
    assert_eq!(base.updates, Some(0));
}

#[test]
fn updates_that_were_lost_or_done_twice_are_found() {
    for workload in [Workload::Update, Workload::HotRows(100), Workload::Ycsb('a')] {
        let (ended, base) = cell(Fault::Forgets, workload);
        assert!(why(ended).contains("UPDATES WERE LOST"), "{workload}");
        assert_eq!(base.updates, None);
        assert!(why(cell(Fault::Twice, workload).0).contains("UPDATES WERE DONE TWICE"), "{workload}");
    }
}

/// Whatever the phase: a reading has the retries of the operations that it has.
#[test]
fn retries_are_read_with_their_operations() {
    let (base, _open) = base(Fault::Conflicts);
    let control = Arc::new(Control::new(1, false));
    let job = Job {
        peer: 0,
        store: Arc::clone(&base.store),
        workload: Workload::Update,
        rows: ROWS,
        seed: 1,
        round: 0,
        control: Arc::clone(&control),
    };
    let before = control.read();
    let report = std::thread::scope(|scope| {
        let worker = scope.spawn(|| Worker::new(0).execute(&job).unwrap());
        control.open();
        while control.read().statements[0] < 100 && control.phase() != Phase::Over {
            std::thread::yield_now();
        }
        control.go_to(Phase::Over);
        worker.join().unwrap()
    });
    let round = Round::new(0, &before, &control.read(), 0, HostFigures::default());
    assert!(report.error.is_none() && round.operations >= 100);
    assert_eq!((round.retries, report.updates), (round.operations, round.operations));
}

#[test]
fn a_thread_that_hangs_is_left_behind() {
    let (ended, base) = cell(Fault::Hangs, Workload::Update);
    assert!(why(ended).contains("1 of 1 threads did not come out"));
    assert!(base.is_stuck);
}

#[test]
fn an_error_ends_the_cell_with_what_the_store_says() {
    let (ended, base) = cell(Fault::Fails, Workload::Update);
    assert_eq!(why(ended), "as asked");
    assert_eq!((base.updates, base.is_stuck), (None, false));
}
