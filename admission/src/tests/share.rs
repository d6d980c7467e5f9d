//! One thread, two sessions: the second runs on the slot of the first.

use std::time::{Duration, Instant};

use super::assert_drained;
use super::tasks::{admission_with, is_in, running};
use crate::{Admission, Config, Policy, WaitKind};

const LIMIT: Duration = Duration::from_millis(100);

fn admission() -> std::sync::Arc<Admission> {
    let config =
        Config { policy: Policy::Fifo, thread_concurrency: 1, stall_limit: Some(LIMIT), ..Config::default() };
    admission_with(config)
}

#[test]
fn a_shared_slot_counts_once_and_comes_back() {
    let admission = admission();
    let (host, guest) = (running(&admission), admission.session());
    let slot = host.shared_slot();
    for _ in 0..3 {
        assert!(guest.enter_on(&slot));
        assert!(host.is_running() && guest.is_running() && host.is_reclaimed());
        assert_eq!(admission.snapshot().running, 1);
        assert!(guest.exit_to(&slot));
        assert!(!guest.is_running() && !host.is_reclaimed());
        assert_eq!(admission.snapshot().running, 1);
    }
    host.exit();
    assert_eq!(admission.snapshot().admitted_by_ticket, 3);
    assert_drained(&admission.snapshot());
}

/// A wait of the session that runs on it releases the slot, and what it enters with afterwards goes back.
#[test]
fn a_wait_releases_a_shared_slot() {
    let admission = admission();
    let (host, guest, mut next) = (running(&admission), admission.session(), admission.session());
    assert!(guest.enter_on(&host.shared_slot()));
    let mut entry = Box::pin(next.enter_async());
    assert!(!is_in(entry.as_mut()));
    guest.wait_begin(WaitKind::RowLock);
    assert!(is_in(entry.as_mut()));
    drop(entry);
    guest.wait_end(WaitKind::RowLock);
    assert!(guest.exit_to(&host.shared_slot()));
    assert_eq!(admission.snapshot().running, 2);
    host.exit();
    next.exit();
    assert_drained(&admission.snapshot());
}

/// The host may exit first; the slot is then the guest's.
#[test]
fn a_shared_slot_whose_host_has_left_is_released() {
    let admission = admission();
    let (host, guest) = (running(&admission), admission.session());
    assert!(guest.enter_on(&host.shared_slot()));
    host.exit();
    assert_eq!(admission.snapshot().running, 1);
    assert!(!guest.exit_to(&host.shared_slot()));
    assert_drained(&admission.snapshot());
    assert!(!guest.enter_on(&host.shared_slot()), "it has none");
    assert!(!guest.exit_to(&host.shared_slot()));
    drop(host.slot().unwrap());
    assert_drained(&admission.snapshot());
}

/// Sharing does not hide a long stay from the stall rule, and a slot that is reclaimed does not come back.
#[test]
fn a_slot_that_is_shared_is_reclaimed_all_the_same() {
    let admission = admission();
    let (host, guest, mut next) = (running(&admission), admission.session(), admission.session());
    let mut entry = Box::pin(next.enter_async());
    assert!(!is_in(entry.as_mut()));
    let now = Instant::now();
    admission.step(now);
    assert!(guest.enter_on(&host.shared_slot()));
    admission.step(now + LIMIT / 2);
    assert!(guest.exit_to(&host.shared_slot()));
    admission.step(now + 2 * LIMIT);
    assert_eq!(admission.snapshot().slots_reclaimed, 1);
    assert!(is_in(entry.as_mut()));
    assert!(!guest.enter_on(&host.shared_slot()), "it went to the next");
    drop(entry);
    host.exit();
    next.exit();
    assert_drained(&admission.snapshot());
}
