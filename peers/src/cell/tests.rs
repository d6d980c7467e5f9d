//! A store that forgets, one that does things twice, one that hangs, one that says no: each is found out.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use clap::Parser as _;
use flifo::crew::Driver as _;
use flifo::results::HostFigures;

use super::*;
use crate::args::Args;
use crate::row;
use crate::store::{Each, Handle, Txn, Work};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// Every third update is acknowledged and not done.
    Forgets,
    /// The first update is done twice.
    Twice,
    /// Nobody comes out of an update while the test holds the door.
    Hangs,
    /// The first update is an error.
    Fails,
    /// Another is in the way of each first try.
    Conflicts,
}

/// Rows in memory, behind one lock.
struct Fake {
    fault: Fault,
    rows: Mutex<Vec<[u8; row::VALUE_BYTES]>>,
    updates: Mutex<u64>,
    door: Mutex<Receiver<()>>,
}

struct Held(Arc<Fake>);

/// The store needs a way back to itself for its handles.
struct Shared(Arc<Fake>);

impl Store for Shared {
    fn handle(&self) -> Done<Box<dyn Handle>> {
        Ok(Box::new(Held(Arc::clone(&self.0))))
    }
}

impl Handle for Held {
    fn get(&mut self, id: u64, value: &mut Vec<u8>) -> Done<bool> {
        value.clear();
        value.extend_from_slice(&self.0.rows.lock().unwrap()[id as usize]);
        Ok(true)
    }

    fn scan(&mut self, from: u64, limit: usize, each: &mut Each<'_>) -> Done {
        let rows = self.0.rows.lock().unwrap();
        for (id, value) in rows.iter().enumerate().skip(from as usize).take(limit) {
            each(id as u64, value);
        }
        Ok(())
    }

    fn transact(&mut self, work: &mut Work<'_>) -> Done {
        work(self)
    }
}

impl Txn for Held {
    fn get(&mut self, id: u64, value: &mut Vec<u8>) -> Done<bool> {
        Handle::get(self, id, value)
    }

    fn scan(&mut self, from: u64, limit: usize, each: &mut Each<'_>) -> Done {
        Handle::scan(self, from, limit, each)
    }

    fn update(&mut self, id: u64, value: &[u8]) -> Done {
        let mut updates = self.0.updates.lock().unwrap();
        *updates += 1;
        let mut value: [u8; row::VALUE_BYTES] = value.try_into().unwrap();
        match self.0.fault {
            Fault::Hangs => {
                drop(updates);
                // Until the test lets go of the other end.
                let _ = self.0.door.lock().unwrap().recv();
                return Ok(());
            }
            Fault::Fails => return Err(Fail::Store("as asked".into())),
            Fault::Forgets if updates.is_multiple_of(3) => return Ok(()),
            Fault::Conflicts if updates.is_multiple_of(2) => {}
            Fault::Conflicts => return Err(Fail::Conflict),
            Fault::Twice if *updates == 1 => row::update_k(&mut value),
            _ => {}
        }
        self.0.rows.lock().unwrap()[id as usize] = value;
        Ok(())
    }

    fn insert(&mut self, id: u64, value: &[u8]) -> Done {
        self.update(id, value)
    }

    fn delete(&mut self, _id: u64) -> Done {
        Ok(())
    }
}

fn base(fault: Fault) -> (Base, Sender<()>) {
    let (open, door) = channel();
    let rows = row::rows(1, 2_000).map(|(_, value)| value).collect();
    let fake = Fake { fault, rows: Mutex::new(rows), updates: Mutex::new(0), door: Mutex::new(door) };
    (Base { store: Arc::new(Shared(Arc::new(fake))), updates: Some(0), is_stuck: false }, open)
}

/// One cell of one thread, which nobody disturbs.
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
        let in_rows = counters(&*base.store, 2_000).unwrap();
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
        rows: 2_000,
        seed: 1,
        round: 0,
        control: Arc::clone(&control),
    };
    let before = control.read();
    let report = std::thread::scope(|scope| {
        let worker = scope.spawn(|| Worker::new(0).obey(&job).unwrap());
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
