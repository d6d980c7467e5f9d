//! Random steps of many owners on the table and on [`Plain`]; everything that can be seen is compared after each.
//!
//! One thread, time by hand: whoever waits is a node without a thread.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::deadlock::{Found, Waits};
use super::super::mode::Parts;
use super::super::node::Verdict;
use super::super::shard::{Explicit, Patience};
use super::super::sync::lock;
use super::super::{Begun, Class, Granted, LockConfig, LockKey, LockMode, LockTable, Request, TxnId, Wait};
use super::plain::{Ask, Id, Key, Need, Plain, Thread, Told};

const OWNERS: u64 = 9;
const KEYS: usize = 5;
/// The last is the supremum; the first two differ by tree alone.
const NAMES: [(u64, Option<&[u8]>); KEYS] =
    [(1, Some(b"a")), (2, Some(b"a")), (1, Some(b"")), (1, Some(b"ab")), (1, None)];
const PROMOTE_AFTER_NS: u64 = 20;

#[derive(Debug, Clone)]
enum Step {
    Ask {
        who: Id,
        key: Key,
        mode: LockMode,
        first: bool,
        may_wait: bool,
        weight: u64,
    },
    MakeExplicit {
        who: Id,
        key: Key,
        active: bool,
    },
    /// It is going to write the row.
    Claim {
        who: Id,
        key: Key,
    },
    Release {
        who: Id,
        key: Key,
    },
    ReleaseAll {
        who: Id,
    },
    EndWait {
        who: Id,
        verdict: Verdict,
    },
    /// Its thread sleeps, if it waits.
    Sleep {
        who: Id,
    },
    /// The same, and it is not to be overtaken.
    Insist {
        who: Id,
    },
    /// Its thread lets others pass, if it waits.
    LetPass {
        who: Id,
    },
    /// Its turn is over.
    EndToLetPass {
        who: Id,
    },
    /// Its thread runs, if it was granted what it waited for.
    Accept {
        who: Id,
    },
    TimePasses {
        ns: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let who = || 0..OWNERS;
    // Most requests are for few keys, so that queues grow.
    let key = || prop_oneof![3 => 0..2usize, 1 => 0..KEYS];
    let mode = || prop::sample::select(&LockMode::ALL[..]);
    prop_oneof![
        20 => (who(), key(), mode(), any::<bool>(), prop::bool::weighted(0.9), 0..3u64).prop_map(
            |(who, key, mode, first, may_wait, weight)| Step::Ask { who, key, mode, first, may_wait, weight }
        ),
        2 => (who(), key(), prop::bool::weighted(0.8))
            .prop_map(|(who, key, active)| Step::MakeExplicit { who, key, active }),
        6 => (who(), key()).prop_map(|(who, key)| Step::Claim { who, key }),
        2 => (who(), key()).prop_map(|(who, key)| Step::Release { who, key }),
        4 => who().prop_map(|who| Step::ReleaseAll { who }),
        3 => (who(), prop::sample::select(&[Verdict::Cancelled, Verdict::TimedOut][..]))
            .prop_map(|(who, verdict)| Step::EndWait { who, verdict }),
        8 => who().prop_map(|who| Step::Sleep { who }),
        1 => who().prop_map(|who| Step::Insist { who }),
        2 => who().prop_map(|who| Step::LetPass { who }),
        2 => who().prop_map(|who| Step::EndToLetPass { who }),
        3 => who().prop_map(|who| Step::Accept { who }),
        2 => (0..30u64).prop_map(|ns| Step::TimePasses { ns }),
    ]
}

/// Rare by chance: an owner lets others pass, one of them does, and the first ends before it has read the row, while more
/// requests wait behind it.
fn passed_and_left() -> impl Strategy<Value = Vec<Step>> {
    let ids = || 0..OWNERS;
    let modes = vec((ids(), prop::sample::select(&LockMode::ALL[..])), 0..4);
    (ids(), ids(), ids(), 0..2usize, modes).prop_map(|(holder, sleeper, writer, key, behind)| {
        let ask = |who, mode| Step::Ask { who, key, mode, first: false, may_wait: true, weight: 0 };
        let mut steps = vec![ask(holder, LockMode::Exclusive), ask(sleeper, LockMode::Exclusive)];
        steps.push(Step::LetPass { who: sleeper });
        steps.extend(behind.into_iter().map(|(who, mode)| ask(who, mode)));
        steps.extend([Step::ReleaseAll { who: holder }, Step::Claim { who: writer, key }]);
        steps.extend([
            Step::ReleaseAll { who: sleeper },
            Step::MakeExplicit { who: writer, key, active: true },
        ]);
        steps
    })
}

type Checked = Result<(), TestCaseError>;

/// The two that are compared.
struct World {
    table: LockTable,
    plain: Plain,
    waits: BTreeMap<Id, Wait>,
    /// Granted, and the thread has not run since.
    granted: BTreeMap<Id, Wait>,
    /// The active writers whose ids are in the rows and that no lock object names.
    implicit: BTreeMap<Key, Id>,
    begun: Instant,
    now_ns: u64,
}

fn key_of(key: Key) -> LockKey<'static> {
    let (tree, key) = NAMES[key];
    LockKey { tree, key }
}

fn need_of(parts: Parts) -> Need {
    let record = match (parts.has(Parts::EXCLUSIVE), parts.has(Parts::SHARED)) {
        (true, _) => 2,
        (false, true) => 1,
        (false, false) => 0,
    };
    Need { record, gap: parts.has(Parts::GAP), insert: parts.has(Parts::INSERT) }
}

impl World {
    fn new(shards: usize, hash_mask: u64, deadlock_steps_max: usize) -> Self {
        let promote_after = Duration::from_nanos(PROMOTE_AFTER_NS);
        let config =
            LockConfig { shards, owner_slots: 4, promote_after, deadlock_steps_max, ..LockConfig::default() };
        World {
            table: LockTable { hash_mask, ..LockTable::new(config) },
            plain: Plain { promote_after: PROMOTE_AFTER_NS, ..Plain::default() },
            waits: BTreeMap::new(),
            granted: BTreeMap::new(),
            implicit: BTreeMap::new(),
            begun: Instant::now(),
            now_ns: 0,
        }
    }

    fn take(&mut self, step: &Step) -> Checked {
        if let Step::Ask { who, .. }
        | Step::Claim { who, .. }
        | Step::Release { who, .. }
        | Step::ReleaseAll { who } = *step
        {
            self.accept(who)?;
        }
        match *step {
            Step::Ask { who, key, mode, first, may_wait, weight } if !self.waits.contains_key(&who) => {
                let class = if first { Class::First } else { Class::Newcomer };
                let timeout = (!may_wait).then_some(Duration::ZERO);
                let request =
                    Request { class, timeout, weight, ..Request::new(TxnId(who), key_of(key), mode) };
                let need = Need::of(mode, NAMES[key].1.is_none());
                if need.record > 0
                    && let Some(&writer) = self.implicit.get(&key)
                {
                    // It has looked at the row.
                    self.make_explicit(writer, key, true)?;
                }
                self.ask(&request, &Ask { owner: who, key, need, first, may_wait, weight })?;
            }
            Step::MakeExplicit { who, key, active } => {
                // Where there is one, it is that one.
                let writer = self.implicit.get(&key).copied();
                if writer.is_some() || self.plain.may_have_implicit(who, key) {
                    self.make_explicit(writer.unwrap_or(who), key, active)?;
                }
            }
            Step::Claim { who, key } if !self.waits.contains_key(&who) && NAMES[key].1.is_some() => {
                self.claim(who, key)?;
            }
            Step::Release { who, key } if !self.waits.contains_key(&who) => {
                let released = self.table.release(TxnId(who), key_of(key));
                prop_assert_eq!(released, self.plain.release(who, key));
            }
            Step::ReleaseAll { who } if !self.waits.contains_key(&who) => self.release_all(who)?,
            Step::Sleep { who } => {
                if let Some(wait) = self.waits.get(&who) {
                    wait.node.begin_sleep(false);
                    self.plain.thread(who, Thread::Runs, Thread::Sleeps);
                }
            }
            Step::Insist { who } => {
                if let Some(wait) = self.waits.get(&who) {
                    wait.node.begin_sleep(true);
                    self.plain.thread(who, Thread::Runs, Thread::Insists);
                }
            }
            Step::LetPass { who } => {
                if let Some(wait) = self.waits.get(&who) {
                    wait.node.begin_to_let_pass();
                    self.plain.thread(who, Thread::Runs, Thread::LetsPass);
                }
            }
            Step::EndToLetPass { who } => {
                if let Some(wait) = self.waits.get(&who) {
                    wait.node.end_to_let_pass();
                    self.plain.thread(who, Thread::LetsPass, Thread::Runs);
                }
            }
            Step::Accept { who } => self.accept(who)?,
            Step::EndWait { who, verdict: Verdict::TimedOut } if self.granted.contains_key(&who) => {
                // Its time is over, and it was granted the lock: that is for good then.
                prop_assert!(!self.table.end_wait(self.granted[&who].at, Verdict::TimedOut));
                self.plain.accept(who);
            }
            Step::EndWait { who, verdict } => {
                let ended = match (self.waits.get(&who), verdict) {
                    (Some(wait), Verdict::TimedOut) => self.table.end_wait(wait.at, verdict),
                    _ => self.table.cancel(TxnId(who)),
                };
                prop_assert_eq!(ended, self.plain.end_wait(who));
                if let Some(wait) = self.waits.remove(&who) {
                    let cancelled = self.table.end_wait(wait.at, Verdict::Cancelled);
                    prop_assert!(!cancelled, "a wait ends once");
                    prop_assert_eq!(wait.node.verdict(), Some(verdict));
                }
            }
            Step::TimePasses { ns } => self.now_ns += ns,
            _ => {}
        }
        Ok(())
    }

    fn make_explicit(&mut self, who: Id, key: Key, active: bool) -> Checked {
        let had = self.table.holds(TxnId(who), key_of(key), LockMode::Exclusive);
        let made = self.table.write_down(TxnId(who), key_of(key), || active);
        prop_assert_eq!(made != Explicit::Ended, active || had);
        if made == Explicit::Ended {
            return Ok(());
        }
        self.implicit.remove(&key);
        prop_assert_eq!(made == Explicit::HeldInstead, self.plain.make_explicit(who, key));
        self.compare()?;
        match self.waits.get(&who).map(|wait| wait.at) {
            Some(at) => self.end_circles(Waits { owner: TxnId(who), at }, made == Explicit::HeldInstead),
            None => Ok(()),
        }
    }

    fn claim(&mut self, who: Id, key: Key) -> Checked {
        if self.implicit.contains_key(&key) {
            // Its id is in the row, and everybody sees it.
            return Ok(());
        }
        let request = Request::new(TxnId(who), key_of(key), LockMode::Exclusive);
        let lock = self.plain.locks.get(&key);
        let is_locked = lock.is_some();
        let unaccepted = lock.and_then(|lock| lock.unaccepted.as_ref()).map(|wait| wait.owner);
        let passes = unaccepted.filter(|holder| self.granted[holder].node.lets_others_pass());
        let now = self.begun + Duration::from_nanos(self.now_ns);
        let (asked, clock) = (self.table.asked(&request), || now);
        let patience = Patience { may_wait: false, ..self.table.patience(&request, &clock) };
        let may = self.table.shard(asked.hash).claim(&asked, &patience, &self.table.owners);
        if passes.is_some() {
            prop_assert!(may);
            self.implicit.insert(key, who);
        } else if is_locked {
            let need = Need::of(LockMode::Exclusive, false);
            let ask = Ask { owner: who, key, need, first: false, may_wait: false, weight: 0 };
            let told = self.plain.ask(&ask, self.now_ns);
            prop_assert_eq!(may, told != Told::Refused);
            prop_assert!(unaccepted.is_none() || told == Told::AtOnce);
        } else {
            prop_assert!(may);
            self.implicit.insert(key, who);
        }
        Ok(())
    }

    fn accept(&mut self, who: Id) -> Checked {
        if let Some(wait) = self.granted.remove(&who) {
            prop_assert!(wait.node.accept());
            self.plain.accept(who);
        }
        Ok(())
    }

    fn ask(&mut self, request: &Request<'_>, ask: &Ask) -> Checked {
        let now = self.begun + Duration::from_nanos(self.now_ns);
        let asked = self.table.asked(request);
        let clock = || now;
        let would = self.table.shard(asked.hash).would_grant(&asked, &self.table.patience(request, &clock));
        let begun = self.table.begin(request, true, &|| now);
        let told = match &begun {
            Begun::Granted(Granted::AlreadyHeld) => Told::AlreadyHeld,
            Begun::Granted(_) => Told::AtOnce,
            Begun::Refused => Told::Refused,
            Begun::Waits(_) => Told::Waits,
        };
        prop_assert_eq!(would, matches!(begun, Begun::Granted(_)));
        prop_assert_eq!(told, self.plain.ask(ask, self.now_ns));
        if let Begun::Waits(wait) = begun {
            let start = Waits { owner: wait.owner, at: wait.at };
            let searches = wait.may_be_waited_for;
            self.waits.insert(ask.owner, wait);
            self.compare()?;
            self.end_circles(start, searches)?;
        }
        Ok(())
    }

    /// As [`LockTable::look_for_deadlock`], one circle after the other, so that the model can follow.
    fn end_circles(&mut self, start: Waits, searches: bool) -> Checked {
        let id = start.owner.0;
        if !searches {
            prop_assert!(!self.plain.in_a_circle(id), "it did not search, and is in a circle");
            return Ok(());
        }
        loop {
            let circle = match self.table.search(start, self.table.deadlock_steps_max) {
                Found::Circle(circle) => circle,
                Found::Nothing => break,
                // The detector's part.
                Found::TooLong => match self.table.search(start, usize::MAX) {
                    Found::Circle(circle) => circle,
                    Found::Nothing => break,
                    Found::TooLong => return Err(TestCaseError::fail("a search without bound stopped")),
                },
            };
            prop_assert!(self.plain.in_a_circle(id), "a deadlock was invented");
            self.table.end_circle(&circle);
            self.follow_the_victim(&circle)?;
        }
        prop_assert!(!self.plain.in_a_circle(id), "a deadlock was missed");
        Ok(())
    }

    fn follow_the_victim(&mut self, circle: &[Waits]) -> Checked {
        let is_victim = |(_, wait): &(&Id, &Wait)| wait.node.verdict() == Some(Verdict::Deadlock);
        let victims: Vec<Id> = self.waits.iter().filter(is_victim).map(|(id, _)| *id).collect();
        prop_assert_eq!(victims.len(), 1);
        let victim = victims[0];
        prop_assert!(self.plain.in_a_circle(victim));
        let loses = |id: Id| {
            let weight = self.plain.wait_of(id).map_or(0, |wait| wait.weight);
            (weight + self.plain.keys_of(id).len() as u64, std::cmp::Reverse(id))
        };
        prop_assert!(circle.iter().all(|waits| loses(victim) <= loses(waits.owner.0)));
        self.waits.remove(&victim);
        self.plain.end_wait(victim);
        self.compare()
    }

    fn release_all(&mut self, who: Id) -> Checked {
        self.implicit.retain(|_, writer| *writer != who);
        let keys = self.plain.keys_of(who);
        // In the order of the table, since a lock released late keeps others waiting.
        prop_assert_eq!(self.table.release_all(TxnId(who)), keys.len());
        keys.into_iter().for_each(|key| _ = self.plain.release(who, key));
        Ok(())
    }

    /// Takes note of the grants, and compares all there is.
    fn compare(&mut self) -> Checked {
        for id in self.plain.granted.drain(..) {
            let wait = self.waits.remove(&id);
            prop_assert_eq!(wait.as_ref().and_then(|wait| wait.node.verdict()), Some(Verdict::Granted));
            self.granted.extend(wait.map(|wait| (id, wait)));
        }
        for id in std::mem::take(&mut self.plain.overtaken) {
            let wait = self.granted.remove(&id);
            prop_assert!(wait.is_some(), "{id} was overtaken, and had accepted its grant");
            // It was woken, unless it lets others pass.
            let passing = wait.as_ref().is_some_and(|wait| wait.node.lets_pass());
            let then = if passing { Thread::LetsPass } else { Thread::Runs };
            self.plain.thread(id, Thread::Runs, then);
            self.waits.extend(wait.map(|wait| (id, wait)));
        }
        prop_assert!(self.waits.values().all(|wait| wait.node.verdict().is_none()));
        let mut locks = 0;
        let mut objects = 0;
        for shard in &self.table.shards {
            for object in lock(&shard.0).objects() {
                let name = (object.tree, object.key.as_deref());
                let key = NAMES.iter().position(|other| *other == name).unwrap();
                let plain = self.plain.locks.get(&key);
                prop_assert!(plain.is_some(), "{:?} is locked by nobody", name);
                let plain = plain.unwrap();
                let held: BTreeMap<Id, Need> =
                    object.holders.iter().map(|holder| (holder.owner.0, need_of(holder.parts))).collect();
                prop_assert_eq!(&held, &plain.held);
                for (id, need) in &held {
                    let excluded = |(other, held): (&Id, &Need)| other != id && need.waits_for(*held);
                    prop_assert!(!held.iter().any(excluded), "two holders exclude each other");
                }
                let queue: Vec<(Id, Need)> = object
                    .queue()
                    .into_iter()
                    .flat_map(|queue| queue.iter().map(|waiting| (waiting.owner.0, need_of(waiting.parts))))
                    .collect();
                let plain_queue: Vec<(Id, Need)> =
                    plain.queue.iter().map(|wait| (wait.owner, wait.need)).collect();
                prop_assert_eq!(queue, plain_queue);
                locks += held.len();
                objects += 1;
            }
        }
        prop_assert_eq!(objects, self.plain.locks.len());
        let stats = self.table.stats();
        prop_assert_eq!((stats.locks, stats.waiting), (locks as u64, self.waits.len() as u64));
        for id in 0..OWNERS {
            prop_assert_eq!(self.table.owners.locks(TxnId(id)), self.plain.keys_of(id).len());
            let at = self.waits.get(&id).map(|wait| wait.at);
            prop_assert_eq!(self.table.owners.waiting(TxnId(id)), at);
        }
        Ok(())
    }

    fn drain(&mut self) -> Checked {
        for who in 0..OWNERS {
            self.take(&Step::EndWait { who, verdict: Verdict::Cancelled })?;
            self.compare()?;
        }
        for who in 0..OWNERS {
            self.release_all(who)?;
            self.compare()?;
        }
        prop_assert!(self.table.owners.is_empty());
        let empty = self.table.shards.iter().all(|shard| lock(&shard.0).objects().next().is_none());
        prop_assert!(empty, "nobody has a lock, and there is one");
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_table_does_what_plain_lists_say(
        shards in prop::sample::select(&[1usize, 4][..]),
        hash_mask in prop::sample::select(&[u64::MAX, 0][..]),
        steps_max in prop::sample::select(&[200usize, 1][..]),
        steps in vec(prop_oneof![30 => step().prop_map(|step| vec![step]), 1 => passed_and_left()], 1..120),
    ) {
        let mut world = World::new(shards, hash_mask, steps_max);
        for step in steps.iter().flatten() {
            world.take(step)?;
            world.compare()?;
            for id in 0..OWNERS {
                prop_assert!(!world.plain.in_a_circle(id), "a deadlock came about without a search");
            }
        }
        world.drain()?;
    }
}
