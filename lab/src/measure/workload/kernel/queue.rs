//! The queue of a page: requests for locks of its rows, in the order in which they came.
//!
//! A request waits while an earlier one is for the same row and another transaction's. All row locks are exclusive. When
//! a transaction leaves, every waiting request is compared with those before it, as in InnoDB before 8.0: with n waiters
//! up to n walks over the queue.

use std::sync::{Arc, Condvar, Mutex};

use flifo_base::{lock, unpoison};

/// Where a transaction waits for a row.
#[derive(Default)]
pub struct Grant {
    is_granted: Mutex<bool>,
    changed: Condvar,
}

impl Grant {
    fn give(&self) {
        *lock(&self.is_granted) = true;
        self.changed.notify_one();
    }

    /// Waits until the lock is granted, and takes note of that for the next wait.
    pub fn wait(&self) {
        let waited = self.changed.wait_while(lock(&self.is_granted), |is_granted| !*is_granted);
        *unpoison(waited) = false;
    }
}

/// A row lock, held or waited for. InnoDB's has more than a cache line.
#[repr(align(64))]
struct Request {
    owner: u64,
    row: u32,
    /// Whom to wake; `None` once it is held.
    waiter: Option<Arc<Grant>>,
}

/// The requests of a page.
#[derive(Default)]
pub(super) struct Queue {
    requests: Vec<Request>,
}

impl Queue {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether a transaction has requested the row.
    pub(super) fn has(&self, owner: u64, row: u32) -> bool {
        self.requests.iter().any(|request| (request.owner, request.row) == (owner, row))
    }

    /// Appends a request, and returns whether its owner has to wait, which takes a `grant`.
    pub(super) fn request(&mut self, owner: u64, row: u32, grant: Option<&Arc<Grant>>) -> bool {
        let has_conflict = self.requests.iter().any(|request| request.row == row && request.owner != owner);
        let waiter = grant.filter(|_| has_conflict).cloned();
        let waits = waiter.is_some();
        self.requests.push(Request { owner, row, waiter });
        waits
    }

    /// Takes the requests of a transaction out, and grants those that need not wait longer.
    pub(super) fn remove(&mut self, owner: u64) {
        self.requests.retain(|request| request.owner != owner);
        for at in 0..self.requests.len() {
            let (earlier, rest) = self.requests.split_at_mut(at);
            let request = &mut rest[0];
            let has_conflict =
                || earlier.iter().any(|other| other.row == request.row && other.owner != request.owner);
            if request.waiter.is_some() && !has_conflict() {
                request.waiter.take().into_iter().for_each(|waiter| waiter.give());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The owners that wait.
    fn waiting(queue: &Queue) -> Vec<u64> {
        queue
            .requests
            .iter()
            .filter(|request| request.waiter.is_some())
            .map(|request| request.owner)
            .collect()
    }

    #[test]
    fn a_row_is_granted_in_the_order_of_its_requests() {
        let (mut queue, grant) = (Queue::default(), Arc::<Grant>::default());
        // Three for one row, one for another row of the page.
        let waits: Vec<bool> = [(1, 10), (2, 20), (3, 10), (4, 10)]
            .into_iter()
            .map(|(owner, row)| queue.request(owner, row, Some(&grant)))
            .collect();
        assert_eq!((waits, waiting(&queue)), (vec![false, false, true, true], vec![3, 4]));
        queue.remove(2);
        assert_eq!(waiting(&queue), [3, 4], "it held another row");
        queue.remove(1);
        assert_eq!(waiting(&queue), [4]);
        // It was granted: the wait returns at once.
        grant.wait();
        assert!(!*lock(&grant.is_granted), "the next wait is a new one");
        queue.remove(3);
        queue.remove(4);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn without_a_grant_no_request_waits() {
        let mut queue = Queue::default();
        assert!(!queue.request(1, 10, None) && !queue.request(2, 10, None));
        assert!(queue.has(1, 10) && !queue.has(1, 11) && waiting(&queue).is_empty());
    }
}
