//! What a run takes of the system, and what is left to check when a peer hangs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use clap::Parser as _;

use super::*;
use crate::fake::{self, Fault};
use crate::store::{About, Done, Driver, Each, Fail, Handle, Settings, Work};

fn plan(line: &str) -> Plan {
    let args = Args::try_parse_from(["flifo-peers"].into_iter().chain(line.split_whitespace())).unwrap();
    Plan::new(&args, 2).unwrap()
}

#[test]
fn a_load_takes_what_it_touches() {
    let bytes = |workloads: &str| {
        let line = "--peers flifo,lmdb --rows 2000 --cache 64M --threads 1,4 --workloads";
        memory_bytes(&plan(&format!("{line} {workloads}")))
    };
    assert_eq!(bytes("update"), 2 * (64 << 20) + 4 * THREAD_BYTES + 2_000 * size_of::<Row>() as u64);
    assert_eq!(bytes("load,update"), bytes("update") + 2 * (64 << 20));
    let too_much = plan("--peers flifo,lmdb --threads 1 --cache 9000000000G");
    assert_eq!(check_limits(&too_much, Path::new(".")).unwrap_err().exit_code(), 4);
}

/// Handles of the peer that can be open once.
static HANDLES: AtomicUsize = AtomicUsize::new(0);
/// How often that was opened again.
static OPENED: AtomicUsize = AtomicUsize::new(0);
/// It, as it is on its disk.
static KEPT: Mutex<Option<Arc<dyn Store>>> = Mutex::new(None);
/// While held, operations of the hanging store do not return.
static DOOR: Mutex<Option<Sender<()>>> = Mutex::new(None);

struct Once(Arc<dyn Store>);

struct OnceHandle(Box<dyn Handle>);

impl Store for Once {
    fn handle(&self) -> Done<Box<dyn Handle>> {
        HANDLES.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(OnceHandle(self.0.handle()?)))
    }
}

impl Drop for OnceHandle {
    fn drop(&mut self) {
        HANDLES.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Handle for OnceHandle {
    fn get(&mut self, id: u64, value: &mut Vec<u8>) -> Done<bool> {
        self.0.get(id, value)
    }

    fn scan(&mut self, from: u64, limit: usize, each: &mut Each<'_>) -> Done {
        self.0.scan(from, limit, each)
    }

    fn transact(&mut self, work: &mut Work<'_>) -> Done {
        self.0.transact(work)
    }
}

const fn about(name: &'static str) -> About {
    About {
        name,
        version: || "0".into(),
        none: Ok("-"),
        written: Ok("-"),
        synced: Ok("-"),
        writers: "-",
        memory: "-",
        load: "-",
        settle: "-",
        no_scans: None,
    }
}

fn load_once(_: &Path, _: &Settings, _: &mut dyn Iterator<Item = Row>) -> Done<Loaded> {
    let store: Arc<dyn Store> = Arc::new(Once(fake::base(Fault::None).0.store));
    *KEPT.lock().unwrap() = Some(Arc::clone(&store));
    Ok(Box::new(|| Ok(store)))
}

fn open_once(_: &Path, _: &Settings) -> Done<Arc<dyn Store>> {
    if HANDLES.load(Ordering::SeqCst) > 0 {
        return Err(Fail::Store("it is open already".into()));
    }
    OPENED.fetch_add(1, Ordering::SeqCst);
    Ok(Arc::clone(KEPT.lock().unwrap().as_ref().unwrap()))
}

fn load_hanging(_: &Path, _: &Settings, _: &mut dyn Iterator<Item = Row>) -> Done<Loaded> {
    let (base, door) = fake::base(Fault::Hangs);
    *DOOR.lock().unwrap() = Some(door);
    Ok(Box::new(|| Ok(base.store)))
}

fn open_hanging(_: &Path, _: &Settings) -> Done<Arc<dyn Store>> {
    Err(Fail::Store("it hangs".into()))
}

static ONCE: About = about("once");
static HANGING: About = about("hanging");
static LATE: About = about("late");
static SHORT: About = about("short");

fn measured(line: &str, peers: Vec<Driver>) -> Results {
    let line = format!("{line} --threads 1 --rounds 1 --time 0.05 --patience 0.3");
    let plan = Plan { peers, ..plan(&line) };
    let temp = tempfile::tempdir().unwrap();
    let mut results = results(&plan, Machine::default());
    assert!(matches!(measure(&plan, &temp, &Progress::new(), &mut results), Ok(Ended::Done)));
    results
}

fn failures(peers: Vec<Driver>) -> Vec<String> {
    measured("--workloads update --rows 2000", peers).failures
}

#[test]
fn a_peer_is_not_blamed_for_another_that_hangs() {
    let once = Driver { about: &ONCE, load: load_once, open: open_once };
    let hanging = Driver { about: &HANGING, load: load_hanging, open: open_hanging };
    assert_eq!((failures(vec![once]), OPENED.load(Ordering::SeqCst)), (vec![], 1));

    let failures = failures(vec![once, hanging]);
    assert_eq!(OPENED.load(Ordering::SeqCst), 1, "{failures:?}");
    assert_eq!(failures.len(), 2, "{failures:?}");
    assert!(failures[0].starts_with("hanging") && failures[0].contains("did not come out"), "{failures:?}");
    assert!(failures[1].contains("a thread that hangs"), "{failures:?}");
    DOOR.lock().unwrap().take();
}

/// When the late peer's rows were requested, and when it was opened, alternating.
static TIMES: Mutex<Vec<Instant>> = Mutex::new(Vec::new());

fn load_late(_: &Path, _: &Settings, rows: &mut dyn Iterator<Item = Row>) -> Done<Loaded> {
    TIMES.lock().unwrap().push(Instant::now());
    assert_eq!(rows.count(), fake::ROWS as usize);
    Ok(Box::new(|| {
        TIMES.lock().unwrap().push(Instant::now());
        Ok(fake::base(Fault::None).0.store)
    }))
}

fn open_late(_: &Path, _: &Settings) -> Done<Arc<dyn Store>> {
    Ok(fake::base(Fault::None).0.store)
}

#[test]
fn a_load_s_time_ends_before_what_was_loaded_is_opened() {
    let late = Driver { about: &LATE, load: load_late, open: open_late };
    let results = measured("--workloads load --rows 2000", vec![late]);
    assert!(results.failures.is_empty(), "{:?}", results.failures);
    // The kept store, then the measured one.
    let [_, _, asked, opened] = TIMES.lock().unwrap()[..] else { panic!("loaded and opened twice") };
    let elapsed_s = results.cells[0].rounds[0].elapsed_s;
    assert!(elapsed_s <= (opened - asked).as_secs_f64(), "{elapsed_s}");
}

fn load_short(_: &Path, _: &Settings, _: &mut dyn Iterator<Item = Row>) -> Done<Loaded> {
    Ok(Box::new(|| Ok(fake::base(Fault::None).0.store)))
}

#[test]
fn all_rows_are_read_before_anything_is_measured() {
    let short = Driver { about: &SHORT, load: load_short, open: open_hanging };
    let results = measured("--workloads point-get --rows 3000", vec![short]);
    assert!(results.cells.is_empty());
    assert!(results.failures[0].starts_with("short, the load: "), "{:?}", results.failures);
}
