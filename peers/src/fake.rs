//! A store in memory with a fault of choice, for tests.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use crate::cell::Base;
use crate::row;
use crate::store::{Done, Each, Fail, Handle, Store, Txn, Work};

/// How many it has.
pub(crate) const ROWS: u64 = 2_000;

/// The store's fault.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Every third update is acknowledged and not done.
    Forgets,
    /// The first update is done twice.
    Twice,
    /// Updates hang while the test holds the lock.
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
                // Until the test drops the other end.
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

/// A peer with [`ROWS`] rows; its door is held for as long as the other end of it is.
pub(crate) fn base(fault: Fault) -> (Base, Sender<()>) {
    let (open, door) = channel();
    let rows = row::rows(1, ROWS).map(|(_, value)| value).collect();
    let fake = Fake { fault, rows: Mutex::new(rows), updates: Mutex::new(0), door: Mutex::new(door) };
    (Base { store: Arc::new(Shared(Arc::new(fake))), updates: Some(0), is_stuck: false }, open)
}
