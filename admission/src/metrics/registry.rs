//! The sessions that are alive: their counters, and their nodes for the watchdog.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::counters::{Counters, Totals};
use crate::gate::hold::Stay;
use crate::gate::queue::Node;
use crate::gate::word::SESSIONS_MAX;
use crate::sync::{Mutex, lock};

/// The live sessions, and the sums of the ended ones. The model checkers know its lock: nodes are looked at under it.
#[derive(Default)]
pub(crate) struct Registry(Mutex<Sessions>);

#[derive(Default)]
struct Sessions {
    next: u64,
    live: BTreeMap<u64, Live>,
    gone: Totals,
}

struct Live {
    counters: Arc<Counters>,
    node: Arc<Node>,
    /// The stay that the watchdog saw last, and since when, ns. It goes on while another session runs on its slot.
    seen: Option<(Stay, u64)>,
}

impl Registry {
    /// Counters for a new session, and its number.
    ///
    /// # Panics
    /// If there are too many sessions.
    pub(crate) fn register(&self, node: &Arc<Node>) -> (u64, Arc<Counters>) {
        let mut sessions = lock(&self.0);
        assert!((sessions.live.len() as u64) < SESSIONS_MAX, "more than {SESSIONS_MAX} sessions at a time");
        let number = sessions.next;
        sessions.next += 1;
        let counters = Arc::<Counters>::default();
        let live = Live { counters: Arc::clone(&counters), node: Arc::clone(node), seen: None };
        sessions.live.insert(number, live);
        (number, counters)
    }

    pub(crate) fn unregister(&self, number: u64) {
        let mut sessions = lock(&self.0);
        if let Some(live) = sessions.live.remove(&number) {
            sessions.gone.add(&live.counters);
        }
    }

    /// The sums over all sessions, alive and gone. Those of what happened never fall.
    pub(super) fn totals(&self) -> Totals {
        let sessions = lock(&self.0);
        let mut totals = sessions.gone;
        sessions.live.values().for_each(|live| totals.add(&live.counters));
        totals
    }

    /// How many nodes there are for which `is_so` returns true; called for each session that is alive.
    pub(crate) fn count_nodes(&self, mut is_so: impl FnMut(&Node) -> bool) -> u32 {
        lock(&self.0).live.values().filter(|live| is_so(&live.node)).count() as u32
    }

    /// Reclaims the slots of the sessions whose stay was seen first at least `limit_ns` before `now_ns`. Returns how many; the
    /// caller releases each.
    pub(super) fn reclaim(&self, limit_ns: u64, now_ns: u64) -> u32 {
        let mut reclaimed = 0;
        for live in lock(&self.0).live.values_mut() {
            let stay = live.node.hold.stay();
            match (stay, live.seen) {
                (Some(stay), Some((seen, since_ns))) if stay == seen => {
                    let is_long = now_ns.saturating_sub(since_ns) >= limit_ns;
                    reclaimed += u32::from(is_long && live.node.hold.reclaim(stay));
                }
                _ => live.seen = stay.map(|stay| (stay, now_ns)).or(live.seen),
            }
        }
        reclaimed
    }
}
