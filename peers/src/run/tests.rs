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
/// Held, nobody comes out of the one that hangs.
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

fn load_once(_: &Path, _: &Settings, _: &mut dyn Iterator<Item = Row>) -> Done<Arc<dyn Store>> {
    let store: Arc<dyn Store> = Arc::new(Once(fake::base(Fault::None).0.store));
    *KEPT.lock().unwrap() = Some(Arc::clone(&store));
    Ok(store)
}

fn open_once(_: &Path, _: &Settings) -> Done<Arc<dyn Store>> {
    if HANDLES.load(Ordering::SeqCst) > 0 {
        return Err(Fail::Store("it is open already".into()));
    }
    OPENED.fetch_add(1, Ordering::SeqCst);
    Ok(Arc::clone(KEPT.lock().unwrap().as_ref().unwrap()))
}

fn load_hanging(_: &Path, _: &Settings, _: &mut dyn Iterator<Item = Row>) -> Done<Arc<dyn Store>> {
    let (base, door) = fake::base(Fault::Hangs);
    *DOOR.lock().unwrap() = Some(door);
    Ok(base.store)
}

fn open_hanging(_: &Path, _: &Settings) -> Done<Arc<dyn Store>> {
    Err(Fail::Store("it hangs".into()))
}

static ONCE: About = about("once");
static HANGING: About = about("hanging");

fn failures(peers: Vec<Driver>) -> Vec<String> {
    let line = "--workloads update --threads 1 --rounds 1 --rows 2000 --time 0.05 --patience 0.3";
    let plan = Plan { peers, ..plan(line) };
    let temp = tempfile::tempdir().unwrap();
    let mut results = results(&plan, Machine::default());
    assert!(matches!(measure(&plan, &temp, &Progress::new(), &mut results), Ok(Ended::Done)));
    results.failures
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
