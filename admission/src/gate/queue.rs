//! Nodes, and the intrusive doubly linked list of those that wait.
//!
//! A node belongs to its session. A list holds one strong reference to a node from the moment it is linked until it is taken
//! out, so that whoever wakes the node can still touch it when its session is gone. A node's links and request are read and written
//! only under the lock that owns the lists. A list that was taken out of the lock to be woken belongs to the waker alone, links and
//! all.

use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::hold::Hold;
use super::parker::Parker;
use crate::quantum::fairness::Charge;
use crate::sync::{AtomicBool, AtomicU64, UnsafeCell};

/// What the queue, the waker and the watchdog know of a session. On cache lines of its own: its session writes here whenever it
/// acquires a slot or releases one.
#[repr(align(128))]
pub(crate) struct Node {
    /// Wakes the session's thread or task.
    pub(crate) parker: Parker,
    /// When the slot was handed to this node, ns since the scheduler was made. Written by the waker before it wakes, read by the
    /// woken thread after: ordered by the parker.
    pub(crate) granted_at_ns: AtomicU64,
    /// The session's queueing shall end. Set before the queue's lock is taken, and read under that lock by a session that joins: so
    /// one of the two sees the other. Cleared by the session.
    pub(crate) cancelled: AtomicBool,
    /// The session's slot, as other threads see it: see [`Hold`].
    pub(crate) hold: Hold,
    /// Touched under the lock that owns the lists, or by the one owner of a list taken out of it.
    links: UnsafeCell<Links>,
    /// What the session asked for, while it queues; `None` before and after. Touched under the lock only.
    request: UnsafeCell<Option<Request>>,
}

/// What a waiter asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    /// Of the first class: a lock holder.
    pub(crate) first: bool,
    /// When it joined the queue, ns since the scheduler was made.
    pub(crate) queued_at_ns: u64,
    /// When it gives up, ns since the scheduler was made.
    pub(crate) deadline_ns: u64,
    /// Its last slice and its deficit.
    pub(crate) charge: Charge,
}

impl Request {
    /// No deadline.
    pub(crate) const NEVER: u64 = u64::MAX;
}

struct Links {
    prev: *const Node,
    next: *const Node,
}

// SAFETY: the parker, the hold and the atomics are Sync by themselves; `links` and `request` are touched only under
// the lock that owns the lists, or, the links, by the one owner of a list taken out of it (see above).
unsafe impl Sync for Node {}
// SAFETY: a node is not bound to a thread; its raw links are only followed by the list (see above).
unsafe impl Send for Node {}

impl Node {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Node {
            parker: Parker::new(),
            granted_at_ns: AtomicU64::new(0),
            cancelled: AtomicBool::new(false),
            hold: Hold::new(),
            links: UnsafeCell::new(Links { prev: ptr::null(), next: ptr::null() }),
            request: UnsafeCell::new(None),
        })
    }

    /// What the session asked for, if it queues.
    ///
    /// # Safety
    /// The caller holds the lock that owns the queue's lists.
    pub(crate) unsafe fn request(&self) -> Option<Request> {
        // SAFETY: the lock makes this the only access.
        self.request.with(|request| unsafe { *request })
    }

    /// # Safety
    /// As [`Node::request`].
    pub(crate) unsafe fn set_request(&self, request: Option<Request>) {
        // SAFETY: the lock makes this the only access.
        self.request.with_mut(|own| unsafe { *own = request });
    }

    /// # Safety
    /// The caller has the list that the node is in, or is about to be in, to itself.
    unsafe fn set_prev(&self, prev: *const Node) {
        // SAFETY: as the caller promises, nobody else looks at the links.
        self.links.with_mut(|links| unsafe { (*links).prev = prev });
    }

    /// # Safety
    /// As [`Node::set_prev`].
    unsafe fn set_next(&self, next: *const Node) {
        // SAFETY: as the caller promises, nobody else looks at the links.
        self.links.with_mut(|links| unsafe { (*links).next = next });
    }
}

/// A list; its owner keeps it in a mutex, or to itself.
pub(crate) struct List {
    head: *const Node,
    tail: *const Node,
}

// SAFETY: the list owns a strong reference to every node it links, and nodes are Send and Sync.
unsafe impl Send for List {}

impl List {
    pub(crate) const fn new() -> Self {
        List { head: ptr::null(), tail: ptr::null() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_null()
    }

    /// The head.
    pub(crate) fn front(&self) -> Option<&Node> {
        // SAFETY: a linked node is alive, since the list owns a reference to it; `&self` keeps it linked.
        unsafe { self.head.as_ref() }
    }

    /// Joins the tail. The node must not be in a list.
    pub(crate) fn push_back(&mut self, node: Arc<Node>) {
        let node = Arc::into_raw(node);
        // SAFETY: `node` is alive (the list now owns a reference) and in no list, so nobody else looks
        // at its links; `tail`, if any, is linked here and thus alive, and `&mut self` is exclusive.
        unsafe {
            (*node).set_prev(self.tail);
            (*node).set_next(ptr::null());
            match self.tail.as_ref() {
                Some(tail) => tail.set_next(node),
                None => self.head = node,
            }
        }
        self.tail = node;
    }

    /// Joins the head. The node must not be in a list.
    pub(crate) fn push_front(&mut self, node: Arc<Node>) {
        let node = Arc::into_raw(node);
        // SAFETY: as in `push_back`, with head for tail.
        unsafe {
            (*node).set_prev(ptr::null());
            (*node).set_next(self.head);
            match self.head.as_ref() {
                Some(head) => head.set_prev(node),
                None => self.tail = node,
            }
        }
        self.head = node;
    }

    /// Takes the head.
    pub(crate) fn pop_front(&mut self) -> Option<Arc<Node>> {
        // SAFETY: the head is linked here.
        NonNull::new(self.head.cast_mut()).map(|node| unsafe { self.unlink(node) })
    }

    /// All nodes, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Node> {
        // SAFETY: linked nodes are alive, since the list owns references to them; `&self` keeps them linked, and makes every
        // access to their links one that reads.
        std::iter::successors(self.front(), |node| unsafe { node.links.with(|links| (*links).next).as_ref() })
    }

    /// Takes out every node for which `takes` says so, in order.
    pub(crate) fn take_if(&mut self, mut takes: impl FnMut(&Node) -> bool) -> List {
        let mut taken = List::new();
        let mut at = NonNull::new(self.head.cast_mut());
        while let Some(node) = at {
            // SAFETY: `node` is linked here, thus alive, and `&mut self` makes this the only access to its
            // links; its neighbour is looked up before it is taken out.
            unsafe {
                at = NonNull::new(node.as_ref().links.with(|links| (*links).next).cast_mut());
                if takes(node.as_ref()) {
                    taken.push_back(self.unlink(node));
                }
            }
        }
        taken
    }

    /// Takes `node` out.
    ///
    /// # Safety
    /// It is in this list.
    pub(crate) unsafe fn remove(&mut self, node: &Node) -> Arc<Node> {
        // SAFETY: as the caller promises.
        unsafe { self.unlink(NonNull::from(node)) }
    }

    /// # Safety
    /// `node` is in this list.
    unsafe fn unlink(&mut self, node: NonNull<Node>) -> Arc<Node> {
        // SAFETY: `node` and its neighbours are linked here, so the list owns references that keep them
        // alive; `&mut self` makes this the only access to their links. `from_raw` takes back the
        // reference that a push gave, once, since the node is linked nowhere afterwards.
        unsafe {
            let unlinked = Links { prev: ptr::null(), next: ptr::null() };
            let Links { prev, next } = node.as_ref().links.with_mut(|links| ptr::replace(links, unlinked));
            match next.as_ref() {
                Some(next) => next.set_prev(prev),
                None => self.tail = prev,
            }
            // The pointer that the push got from the `Arc`: unlike `node` it may reach the counts, too.
            let owned = match prev.as_ref() {
                Some(prev) => prev.links.with_mut(|links| ptr::replace(&raw mut (*links).next, next)),
                None => ptr::replace(&raw mut self.head, next),
            };
            Arc::from_raw(owned)
        }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        while self.pop_front().is_some() {}
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn behaves_as_a_deque_and_owns_its_nodes() {
        let mut list = List::new();
        let mut model = VecDeque::new();
        let nodes: Vec<_> = (0..50).map(|_| Node::new()).collect();
        let mut idle: VecDeque<usize> = (0..nodes.len()).collect();
        for step in 0..600u32 {
            // A fixed mix of the operations that fills and drains the list several times.
            match (step / 60 + step * step) % 5 {
                0 | 1 => {
                    if let Some(n) = idle.pop_front() {
                        list.push_back(Arc::clone(&nodes[n]));
                        model.push_back(n);
                    }
                }
                2 => {
                    if let Some(n) = idle.pop_front() {
                        list.push_front(Arc::clone(&nodes[n]));
                        model.push_front(n);
                    }
                }
                3 => assert_taken(list.pop_front(), model.pop_front(), &nodes, &mut idle),
                _ => {
                    let middle = model.len() / 2;
                    if let Some(n) = model.remove(middle) {
                        // SAFETY: the model says that it is in the list.
                        let taken = unsafe { list.remove(&nodes[n]) };
                        assert_taken(Some(taken), Some(n), &nodes, &mut idle);
                    }
                }
            }
            assert_eq!(list.is_empty(), model.is_empty());
            let front = list.front().map(ptr::from_ref);
            assert_eq!(front, model.front().map(|&n| Arc::as_ptr(&nodes[n])));
            assert!(list.iter().map(ptr::from_ref).eq(model.iter().map(|&n| Arc::as_ptr(&nodes[n]))));
        }
        drop(list);
        assert!(nodes.iter().all(|node| Arc::strong_count(node) == 1), "the list kept a reference");
    }

    fn assert_taken(
        got: Option<Arc<Node>>,
        expected: Option<usize>,
        nodes: &[Arc<Node>],
        idle: &mut VecDeque<usize>,
    ) {
        assert_eq!(got.is_some(), expected.is_some());
        if let (Some(got), Some(expected)) = (got, expected) {
            assert!(Arc::ptr_eq(&got, &nodes[expected]));
            idle.push_back(expected);
        }
    }
}
