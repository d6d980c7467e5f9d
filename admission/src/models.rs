//! Checks of the [`Core`] by exhaustive and by random schedules.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p flifo-admission --lib models` explores every interleaving of two
//! and three threads; the property test drives the same steps from one thread against a plain model.

#[cfg(loom)]
mod every_interleaving {
    use std::sync::Arc;

    use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::thread;

    use crate::{Admission, Config, Policy, Session, WaitKind, WaitMask};

    /// `threads` sessions, this one included, each doing `work`; then nothing may be out.
    fn explore(
        policy: Policy,
        limit: u32,
        threads: u32,
        work: impl Fn(&Session) + Copy + Send + Sync + 'static,
    ) {
        let mut builder = loom::model::Builder::new();
        // Three threads with every preemption would take hours; bugs of this kind need two or three.
        builder.preemption_bound = Some(if threads > 2 { 2 } else { 4 });
        builder.check(move || {
            let config = Config {
                policy,
                thread_concurrency: limit,
                concurrency_tickets: 1,
                wait_mask: WaitMask::ALL,
            };
            let admission = Admission::new(config).unwrap();
            let others: Vec<_> = (1..threads)
                .map(|_| {
                    let session = admission.session();
                    thread::spawn(move || work(&session))
                })
                .collect();
            work(&admission.session());
            others.into_iter().for_each(|other| other.join().unwrap());
            let end = admission.snapshot();
            assert_eq!((end.inside, end.pending, end.queued), (0, 0, 0));
        });
    }

    fn enter_and_exit(session: &Session) {
        session.enter();
        session.exit();
    }

    #[test]
    fn fifo_with_two_threads() {
        explore(Policy::Fifo, 1, 2, |session| {
            enter_and_exit(session);
            enter_and_exit(session);
        });
    }

    #[test]
    fn flifo_with_two_threads() {
        explore(Policy::Flifo, 1, 2, |session| {
            enter_and_exit(session);
            enter_and_exit(session);
        });
    }

    #[test]
    fn fifo_lifo_flifo_broadcast_with_three_threads() {
        for policy in [Policy::Fifo, Policy::Lifo, Policy::Flifo, Policy::Broadcast] {
            explore(policy, 1, 3, enter_and_exit);
        }
    }

    #[test]
    fn flifo_with_three_threads_and_two_places() {
        explore(Policy::Flifo, 2, 3, enter_and_exit);
    }

    #[test]
    fn waits_with_forced_re_entry() {
        for policy in [Policy::Fifo, Policy::Flifo, Policy::Broadcast] {
            explore(policy, 1, 2, |session| {
                session.enter();
                session.wait_begin(WaitKind::Disk);
                session.wait_end(WaitKind::Disk);
                session.exit();
            });
        }
    }

    /// Under FIFO at most one thread is ever inside a limit of one: the place is a lock.
    #[test]
    fn fifo_excludes() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let config = Config { policy: Policy::Fifo, thread_concurrency: 1, ..Config::default() };
            let admission = Admission::new(config).unwrap();
            let inside = Arc::new(AtomicU32::new(0));
            let work = |session: Session, inside: Arc<AtomicU32>| {
                session.enter();
                assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                inside.fetch_sub(1, Ordering::Relaxed);
                session.exit();
            };
            let (session, seen) = (admission.session(), Arc::clone(&inside));
            let other = thread::spawn(move || work(session, seen));
            work(admission.session(), inside);
            other.join().unwrap();
        });
    }
}

#[cfg(not(loom))]
mod random_schedules {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use proptest::prelude::*;

    use crate::Policy;
    use crate::core::{Core, Wake};
    use crate::queue::Node;

    /// The scheduler as one would explain it: plain collections, no word, no atomics.
    struct Model {
        policy: Policy,
        limit: usize,
        inside: Vec<usize>,
        pending: Vec<usize>,
        queue: VecDeque<usize>,
    }

    impl Model {
        fn places(&self) -> usize {
            self.inside.len() + self.pending.len()
        }

        fn admits(&self) -> bool {
            match self.policy {
                Policy::Fifo => self.places() < self.limit && self.queue.is_empty(),
                Policy::Flifo => self.inside.len() < self.limit,
                _ => self.places() < self.limit,
            }
        }

        /// Takes `thread` out; whom it wakes.
        fn leave(&mut self, thread: usize) -> Vec<usize> {
            let within = self.places() <= self.limit;
            self.inside.retain(|inside| *inside != thread);
            match self.policy {
                Policy::Broadcast => self.queue.drain(..).collect(),
                _ if !within => vec![],
                Policy::Lifo => self.queue.pop_back().into_iter().collect(),
                _ => self.queue.pop_front().into_iter().collect(),
            }
        }
    }

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Enter,
        Leave,
        Started,
        Force,
    }

    fn steps() -> impl Strategy<Value = Vec<(Step, usize)>> {
        let step = prop_oneof![
            4 => Just(Step::Enter),
            3 => Just(Step::Leave),
            3 => Just(Step::Started),
            1 => Just(Step::Force)
        ];
        proptest::collection::vec((step, 0..THREADS), 1..200)
    }

    const THREADS: usize = 12;

    fn run(policy: Policy, limit: usize, steps: &[(Step, usize)]) {
        let core = Core::new(policy, limit as u32);
        let nodes: Vec<Arc<Node>> = (0..THREADS).map(|_| Node::new()).collect();
        let mut model = Model { policy, limit, inside: vec![], pending: vec![], queue: VecDeque::new() };
        for &(step, thread) in steps {
            let outside = !model.inside.contains(&thread)
                && !model.pending.contains(&thread)
                && !model.queue.contains(&thread);
            match step {
                Step::Enter if outside => {
                    let admitted = model.admits();
                    assert_eq!(core.try_enter(core.state()).is_some(), admitted);
                    if admitted {
                        model.inside.push(thread);
                    } else {
                        assert!(core.join(&nodes[thread]).is_err());
                        model.queue.push_back(thread);
                    }
                }
                Step::Force if outside => {
                    core.enter_by_force();
                    model.inside.push(thread);
                }
                Step::Leave if model.inside.contains(&thread) => {
                    let expected = model.leave(thread);
                    let woken = core
                        .try_leave(core.state())
                        .map_or_else(|| core.leave_and_wake().0, |_| Wake::Nobody);
                    let woken: Vec<usize> = match woken {
                        Wake::Nobody => vec![],
                        Wake::Granted(node) => {
                            let woken = index(&nodes, &node);
                            model.pending.push(woken);
                            vec![woken]
                        }
                        Wake::Retry(mut queue) => std::iter::from_fn(|| queue.pop_front())
                            .map(|node| index(&nodes, &node))
                            .collect(),
                    };
                    assert_eq!(woken, expected);
                }
                Step::Started if model.pending.contains(&thread) => {
                    core.started();
                    model.pending.retain(|pending| *pending != thread);
                    model.inside.push(thread);
                }
                _ => {}
            }
            let state = core.state();
            assert_eq!(state.places() as usize, model.places());
            assert_eq!(state.pending() as usize, model.pending.len());
            assert_eq!(state.queued() as usize, model.queue.len());
            assert!(state.queued() == 0 || model.places() >= limit, "somebody waits beside a free place");
        }
    }

    fn index(nodes: &[Arc<Node>], node: &Arc<Node>) -> usize {
        nodes.iter().position(|other| Arc::ptr_eq(other, node)).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 512 }, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn the_core_does_what_the_model_does(limit in 1usize..5, steps in steps()) {
            for policy in [Policy::Fifo, Policy::Lifo, Policy::Flifo, Policy::Broadcast] {
                run(policy, limit, &steps);
            }
        }
    }
}
