//! Parks threads with the LSN that they wait for: `parking_lot_core`, or a model checker's version.

use crate::page::Lsn;

/// Between two polls of another thread's progress.
pub(super) fn pause() {
    #[cfg(not(shuttle))]
    std::hint::spin_loop();
    #[cfg(shuttle)]
    shuttle::thread::yield_now();
}

#[cfg(not(shuttle))]
pub(super) struct ParkingLot {
    /// The address of this field identifies the lot.
    place: u8,
}

#[cfg(not(shuttle))]
impl ParkingLot {
    pub(super) fn new() -> Self {
        ParkingLot { place: 0 }
    }

    /// Parks the thread until it is woken, if `still` says so under the lot's lock; `still` neither panics nor parks.
    pub(super) fn park(&self, lsn: Lsn, still: impl FnOnce() -> bool) {
        let token = parking_lot_core::ParkToken(lsn.0 as usize);
        // SAFETY: the address is this lot's, on which nothing else parks; the callbacks neither panic nor park.
        unsafe { parking_lot_core::park(self.key(), still, || {}, |_, _| {}, token, None) };
    }

    /// Calls `wakes` for all parked threads, in their order, and wakes those for which it returns true; it neither
    /// panics nor parks.
    pub(super) fn wake(&self, mut wakes: impl FnMut(Lsn) -> bool) {
        use parking_lot_core::{DEFAULT_UNPARK_TOKEN, FilterOp, ParkToken};
        let filter = |ParkToken(lsn)| match wakes(Lsn(lsn as u64)) {
            true => FilterOp::Unpark,
            false => FilterOp::Skip,
        };
        // SAFETY: the address is this lot's; the callbacks neither panic nor park.
        unsafe { parking_lot_core::unpark_filter(self.key(), filter, |_| DEFAULT_UNPARK_TOKEN) };
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(&self.place).addr()
    }
}

/// The same, in the checker's terms.
#[cfg(shuttle)]
pub(super) struct ParkingLot {
    /// The parked threads, in order: by number.
    parked: shuttle::sync::Mutex<(u64, Vec<(u64, Lsn)>)>,
    changed: shuttle::sync::Condvar,
}

#[cfg(shuttle)]
impl ParkingLot {
    pub(super) fn new() -> Self {
        ParkingLot { parked: shuttle::sync::Mutex::default(), changed: shuttle::sync::Condvar::new() }
    }

    pub(super) fn park(&self, lsn: Lsn, still: impl FnOnce() -> bool) {
        let mut parked = self.parked.lock().unwrap();
        if !still() {
            return;
        }
        parked.0 += 1;
        let number = parked.0;
        parked.1.push((number, lsn));
        while parked.1.iter().any(|&(other, _)| other == number) {
            parked = self.changed.wait(parked).unwrap();
        }
    }

    pub(super) fn wake(&self, mut wakes: impl FnMut(Lsn) -> bool) {
        self.parked.lock().unwrap().1.retain(|&(_, lsn)| !wakes(lsn));
        self.changed.notify_all();
    }
}
