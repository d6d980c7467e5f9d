//! The list of active transactions: linked objects of a kilobyte each, the latest first.
//!
//! ```text
//! first -> object -> object -> ..     an object that is not in the list is in `free`
//! ```

/// Where an object is, while it is in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(usize);

/// A transaction. InnoDB's has about this size, so that two never share a cache line, or neighbouring ones.
#[repr(align(1024))]
struct Object {
    id: u64,
    next: Option<usize>,
    previous: Option<usize>,
}

/// The list.
#[derive(Default)]
pub(super) struct List {
    objects: Vec<Object>,
    free: Vec<usize>,
    first: Option<usize>,
}

impl List {
    /// Puts a transaction at the beginning.
    pub(super) fn push(&mut self, id: u64) -> Place {
        let object = Object { id, next: self.first, previous: None };
        let place = match self.free.pop() {
            Some(place) => {
                self.objects[place] = object;
                place
            }
            None => {
                self.objects.push(object);
                self.objects.len() - 1
            }
        };
        if let Some(second) = self.first.replace(place) {
            self.objects[second].previous = Some(place);
        }
        Place(place)
    }

    /// Takes a transaction out.
    pub(super) fn remove(&mut self, Place(place): Place) {
        let Object { next, previous, .. } = self.objects[place];
        match previous {
            Some(previous) => self.objects[previous].next = next,
            None => self.first = next,
        }
        if let Some(next) = next {
            self.objects[next].previous = previous;
        }
        self.free.push(place);
    }

    /// The ids in their order: a walk from object to object.
    pub(super) fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        let mut at = self.first;
        std::iter::from_fn(move || {
            let object = &self.objects[at?];
            at = object.next;
            Some(object.id)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_transaction_can_be_taken_out_and_its_object_is_used_again() {
        let mut list = List::default();
        let places: Vec<Place> = (1..=4).map(|id| list.push(id)).collect();
        let ids = |list: &List| list.ids().collect::<Vec<u64>>();
        assert_eq!(ids(&list), [4, 3, 2, 1]);
        list.remove(places[1]);
        assert_eq!(ids(&list), [4, 3, 1]);
        list.remove(places[3]);
        list.remove(places[0]);
        assert_eq!(ids(&list), [3]);
        list.push(5);
        assert_eq!((ids(&list), list.objects.len()), (vec![5, 3], 4));
        list.remove(places[2]);
        assert_eq!(ids(&list), [5]);
    }
}
