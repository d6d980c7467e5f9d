//! The queue of waiting nodes: an intrusive doubly linked list.
//!
//! A node lives in its session; the list borrows one strong reference to it from the moment it is linked
//! until it is taken out, so that whoever wakes it can still touch it when its session is gone. Links are
//! read and written under the lock that owns the [`Queue`], and by nobody else.

use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::parker::Parker;
use crate::sync::{AtomicU64, UnsafeCell};

/// What the queue and the waker know of a session.
pub(crate) struct Node {
    /// Wakes the session's thread.
    pub(crate) parker: Parker,
    /// When the place was handed to this node, ns since the scheduler was made. Written by the waker
    /// before it wakes, read by the woken thread after: ordered by the parker.
    pub(crate) granted_at_ns: AtomicU64,
    links: UnsafeCell<Links>,
}

struct Links {
    prev: *const Node,
    next: *const Node,
}

// SAFETY: the parker and the atomic are Sync by themselves; `links` is touched only by methods of
// `Queue` that take `&mut self`, and every node is in at most one queue.
unsafe impl Sync for Node {}
// SAFETY: a node is not bound to a thread; its raw links are only followed by the queue (see above).
unsafe impl Send for Node {}

impl Node {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Node {
            parker: Parker::new(),
            granted_at_ns: AtomicU64::new(0),
            links: UnsafeCell::new(Links { prev: ptr::null(), next: ptr::null() }),
        })
    }
}

/// The list; its owner keeps it in a mutex.
pub(crate) struct Queue {
    head: *const Node,
    tail: *const Node,
}

// SAFETY: the list owns a strong reference to every node it links, and nodes are Send and Sync.
unsafe impl Send for Queue {}

impl Queue {
    pub(crate) fn new() -> Self {
        Queue { head: ptr::null(), tail: ptr::null() }
    }

    /// Joins the tail. The node must not be in a queue.
    pub(crate) fn push_back(&mut self, node: &Arc<Node>) {
        let node = Arc::into_raw(Arc::clone(node));
        // SAFETY: `node` is alive (the list now owns a reference) and in no list, so nobody else looks
        // at its links; `tail`, if any, is linked here and thus alive, and `&mut self` is exclusive.
        unsafe {
            *(*node).links.get() = Links { prev: self.tail, next: ptr::null() };
            match NonNull::new(self.tail.cast_mut()) {
                Some(tail) => (*tail.as_ref().links.get()).next = node,
                None => self.head = node,
            }
        }
        self.tail = node;
    }

    /// Takes the one that waits longest.
    pub(crate) fn pop_front(&mut self) -> Option<Arc<Node>> {
        NonNull::new(self.head.cast_mut()).map(|node| self.unlink(node))
    }

    /// Takes the one that came last.
    pub(crate) fn pop_back(&mut self) -> Option<Arc<Node>> {
        NonNull::new(self.tail.cast_mut()).map(|node| self.unlink(node))
    }

    /// Takes `node`, which is in this list, out of it.
    fn unlink(&mut self, node: NonNull<Node>) -> Arc<Node> {
        // SAFETY: `node` and its neighbours are linked here, so the list owns references that keep them
        // alive; `&mut self` makes this the only access to their links. `from_raw` takes back the
        // reference that `push_back` gave, once, since the node is linked nowhere afterwards.
        unsafe {
            let Links { prev, next } =
                ptr::replace(node.as_ref().links.get(), Links { prev: ptr::null(), next: ptr::null() });
            match NonNull::new(prev.cast_mut()) {
                Some(prev) => (*prev.as_ref().links.get()).next = next,
                None => self.head = next,
            }
            match NonNull::new(next.cast_mut()) {
                Some(next) => (*next.as_ref().links.get()).prev = prev,
                None => self.tail = prev,
            }
            Arc::from_raw(node.as_ptr())
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        while self.pop_front().is_some() {}
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn behaves_as_a_deque_and_owns_its_nodes() {
        let mut queue = Queue::new();
        let mut model = VecDeque::new();
        let nodes: Vec<_> = (0..50).map(|_| Node::new()).collect();
        let mut idle: VecDeque<usize> = (0..nodes.len()).collect();
        for step in 0..400u32 {
            // A fixed mix of the three operations that fills and drains the list several times.
            match (step / 40 + step * step) % 4 {
                0 | 1 => {
                    if let Some(n) = idle.pop_front() {
                        queue.push_back(&nodes[n]);
                        model.push_back(n);
                    }
                }
                2 => assert_taken(queue.pop_front(), model.pop_front(), &nodes, &mut idle),
                _ => assert_taken(queue.pop_back(), model.pop_back(), &nodes, &mut idle),
            }
        }
        drop(queue);
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
