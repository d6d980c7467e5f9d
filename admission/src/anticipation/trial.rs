//! Whether places are to wait for their sessions.
//!
//! Once many have queued for a moment, places wait. If the processors are idle meanwhile, that may be why, and waiting is compared
//! with handing on, by the work done ([`crate::auto::Controller`]). While the processors have enough to do there is little to gain by
//! handing on, and trying it costs: within some hundredths of a second hundreds of sessions get a turn, none of which is over when places
//! wait again. So it is tried seldom then: whoever keeps the processors busy may be another program.
//!
//! How many are inside tells nothing: one of four places had somebody in it, on the average, where most was gained.

use std::time::Duration;

use crate::auto::AutoConfig;
use crate::finder::Finder;
use crate::idle::Idle;
use crate::metrics::Metrics;
use crate::state::State;
use crate::turn::TRANSACTION_QUANTA;

/// So many queue for each place: with fewer, a session's next turn is near, and with it what is in the caches. A model has few threads.
const QUEUED_PER_PLACE: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 8 };
/// For so long so many must have queued before it begins, ns: places that wait make the queue long that makes them wait.
pub(crate) const QUEUED_NS: u64 = if cfg!(any(loom, shuttle)) { 0 } else { 50_000_000 };
/// While places wait, it ends when fewer have queued for so long, ns.
pub(crate) const SHORT_NS: u64 = 100_000_000;
/// Then it is not tried again for so long, ns; twice as long if that comes again soon, up to the longest.
const REST_NS: u64 = 1_000_000_000;
const REST_NS_MAX: u64 = 32 * REST_NS;
const SOON_NS: u64 = 10 * REST_NS;

/// The processors' idle time is taken over so long, ns: it is told in steps of 10 ms, mostly.
const WINDOW_NS: u64 = 250_000_000;
/// They are known to be idle after so many windows one after the other: a thousand clients that begin leave them idle for a while, and
/// what is done then tells nothing of what will be.
const IDLE_WINDOWS: u32 = 4;
/// The processors are busy if they are idle for less than this share of it. With clients on the same machine they are for 0.02 to 0.06.
const IDLE_SHARE: f64 = 0.1;
/// With busy processors handing on is tried after so long, ns ...
const BUSY_NS: u64 = 15_000_000_000;
/// ... so long after that again, and twice as long after each further time, up to the longest.
const BUSY_AGAIN_NS: u64 = 60_000_000_000;
const BUSY_AGAIN_NS_MAX: u64 = 10 * BUSY_AGAIN_NS;

/// The two that are compared, as if they were limits: a place waits, or it is handed on. A tie goes to the lower.
const WAIT: u32 = 1;
const HAND_ON: u32 = 2;
/// A block of a comparison lasts for so many quanta at least: those who are under way are so for their turns.
const BLOCK_QUANTA: u32 = TRANSACTION_QUANTA as u32;

/// How they are compared. Each comparison makes half of its time wrong, so they are short and few: more than a few percent
/// show, and a change of the load opens the search at once.
fn comparisons(quantum: Duration) -> AutoConfig {
    let default = AutoConfig::default();
    let block_min = default.block_min.max(quantum.saturating_mul(BLOCK_QUANTA));
    AutoConfig {
        floor: WAIT,
        ceiling: HAND_ON,
        start: WAIT,
        block_min,
        block_max: default.block_max.max(block_min),
        probe_after: Duration::from_secs(5),
        probe_after_max: Duration::from_secs(60),
        patience: Duration::from_secs(1),
        ..default
    }
}

/// Whether so many queue that places may wait.
fn so_many_queue(state: State) -> bool {
    state.queued() >= QUEUED_PER_PLACE * state.limit()
}

/// Finds out whether places are to wait. The watchdog keeps it, under its lock.
pub(crate) struct Trial {
    /// The limit and the quantum with which it is tried.
    of: (u32, Duration),
    /// Since when so many queue, ns.
    queued_since_ns: Option<u64>,
    /// What is known since places wait, or are handed on because more is done so; `None` while too few queue.
    stage: Option<Stage>,
    /// With busy processors.
    tries: Tries,
    rest_ns: u64,
    /// No stage begins before, ns.
    rests_until_ns: u64,
}

struct Stage {
    finder: Finder,
    processors: Processors,
    /// The queue when the comparison that goes on began.
    compares_from: Option<u32>,
    /// Since when too few queue although places wait, ns.
    short_since_ns: Option<u64>,
}

/// When handing on is tried although the processors are busy.
struct Tries {
    /// Not before, ns.
    at_ns: u64,
    /// So long after the next time it is tried again, ns.
    again_ns: u64,
}

/// What becomes of a stage.
enum Next {
    GoesOn,
    Ends,
}

impl Trial {
    pub(crate) fn new(of: (u32, Duration)) -> Self {
        Trial {
            of,
            queued_since_ns: None,
            stage: None,
            tries: Tries { at_ns: 0, again_ns: BUSY_AGAIN_NS },
            rest_ns: 0,
            rests_until_ns: 0,
        }
    }

    /// The limit and the quantum with which it is tried.
    pub(crate) fn of(&self) -> (u32, Duration) {
        self.of
    }

    /// Whether places are to wait, as was found last.
    pub(crate) fn lets_wait(&self) -> bool {
        self.stage.as_ref().is_some_and(Stage::lets_wait)
    }

    /// Looks, at `now_ns`. `idle`: how long the processors were idle so far.
    pub(crate) fn observe(
        &mut self,
        metrics: &Metrics,
        state: State,
        now_ns: u64,
        idle: impl FnOnce() -> Option<Idle>,
    ) {
        match &mut self.stage {
            Some(stage) => {
                if stage.moves_the_queue(state) {
                    *stage = Stage::new(self.of.1, now_ns);
                    self.tries.has_tried(now_ns);
                }
                if matches!(stage.observe(&mut self.tries, metrics, state, now_ns, idle), Next::Ends) {
                    self.rests(now_ns);
                }
            }
            None if so_many_queue(state) => {
                let since_ns = self.queued_since_ns.map_or(now_ns, |since_ns| since_ns.min(now_ns));
                self.queued_since_ns = Some(since_ns);
                if now_ns >= self.rests_until_ns && now_ns - since_ns >= QUEUED_NS {
                    self.stage = Some(Stage::new(self.of.1, now_ns));
                    self.tries.begin(now_ns);
                }
            }
            None => self.queued_since_ns = None,
        }
    }

    fn rests(&mut self, now_ns: u64) {
        self.stage = None;
        self.queued_since_ns = None;
        let again = now_ns.saturating_sub(self.rests_until_ns) < SOON_NS;
        self.rest_ns = if again { (2 * self.rest_ns).clamp(REST_NS, REST_NS_MAX) } else { REST_NS };
        self.rests_until_ns = now_ns.saturating_add(self.rest_ns);
    }
}

impl Tries {
    /// A stage begins. Where the next try is still to come it stays, so that a load that ebbs for a moment has no more of them.
    fn begin(&mut self, now_ns: u64) {
        if now_ns >= self.at_ns {
            *self = Tries { at_ns: now_ns.saturating_add(BUSY_NS), again_ns: BUSY_AGAIN_NS };
        }
    }

    fn has_tried(&mut self, now_ns: u64) {
        self.at_ns = now_ns.saturating_add(self.again_ns);
        self.again_ns = (2 * self.again_ns).min(BUSY_AGAIN_NS_MAX);
    }
}

impl Stage {
    fn new(quantum: Duration, now_ns: u64) -> Self {
        Stage {
            // The time orders its blocks.
            finder: Finder::new(comparisons(quantum), now_ns),
            processors: Processors::default(),
            compares_from: None,
            short_since_ns: None,
        }
    }

    fn lets_wait(&self) -> bool {
        self.finder.limit() == WAIT
    }

    fn observe(
        &mut self,
        tries: &mut Tries,
        metrics: &Metrics,
        state: State,
        now_ns: u64,
        idle: impl FnOnce() -> Option<Idle>,
    ) -> Next {
        if self.is_short(state, now_ns) {
            return Next::Ends;
        }
        if self.lets_wait() && self.compares_from.is_none() {
            self.processors.look(now_ns, idle);
            if self.processors.are_busy != Some(false) && now_ns < tries.at_ns {
                return Next::GoesOn;
            }
        }
        self.finder.observe(metrics, (state.places(), state.queued()), now_ns);
        if self.finder.is_comparing() {
            self.compares_from.get_or_insert(state.queued());
            self.processors.window = None;
        } else if self.compares_from.take().is_some() {
            if self.processors.are_busy == Some(true) {
                tries.has_tried(now_ns);
            }
            // What the last window says was true while places waited.
            self.processors = Processors::default();
        }
        Next::GoesOn
    }

    /// Whether those who queued are on their way to processors that are busy, because places are handed on on trial: that is another
    /// queue, and a worse one.
    fn moves_the_queue(&self, state: State) -> bool {
        let is_gone = |from| state.queued() < from / 2 || !so_many_queue(state);
        self.processors.are_busy == Some(true) && !self.lets_wait() && self.compares_from.is_some_and(is_gone)
    }

    /// Whether too few queue: for a while, or at once where handing on may be why, since it is the better way then.
    fn is_short(&mut self, state: State, now_ns: u64) -> bool {
        if so_many_queue(state) {
            self.short_since_ns = None;
            return false;
        }
        let since_ns = *self.short_since_ns.get_or_insert(now_ns);
        !self.lets_wait() || now_ns.saturating_sub(since_ns) >= SHORT_NS
    }
}

/// How busy the processors are.
#[derive(Default)]
struct Processors {
    /// When the window began, ns, and their idle time until then.
    window: Option<(u64, Idle)>,
    /// Windows one after the other in which they were idle.
    idle_windows: u32,
    /// What the last windows say; `None` before.
    are_busy: Option<bool>,
}

impl Processors {
    /// Looks at the end of each window.
    fn look(&mut self, now_ns: u64, idle: impl FnOnce() -> Option<Idle>) {
        let from_ns = self.window.map(|(from_ns, _)| from_ns);
        if from_ns.is_some_and(|from_ns| now_ns.saturating_sub(from_ns) < WINDOW_NS) {
            return;
        }
        let Some(idle) = idle() else {
            // Nothing is known of them, so it is tried.
            self.are_busy = Some(false);
            return;
        };
        if let Some((from_ns, before)) = self.window.replace((now_ns, idle)) {
            let all_ns = (now_ns - from_ns) as f64 * f64::from(idle.processors);
            let is_busy = (idle.ns.saturating_sub(before.ns) as f64) < IDLE_SHARE * all_ns;
            self.idle_windows = if is_busy { 0 } else { self.idle_windows + 1 };
            if is_busy || self.idle_windows >= IDLE_WINDOWS {
                self.are_busy = Some(is_busy);
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::auto::{Controller, Sample};

    const QUANTUM: Duration = Duration::from_millis(5);
    const TICK_NS: u64 = 5_000_000;
    const IDLE_NS: u64 = IDLE_WINDOWS as u64 * WINDOW_NS;

    /// A trial by ticks, with one place.
    struct Ticks {
        metrics: Metrics,
        trial: Trial,
        now_ns: u64,
        idle_ns: u64,
    }

    impl Ticks {
        fn new() -> Self {
            Ticks { metrics: Metrics::new(), trial: Trial::new((1, QUANTUM)), now_ns: 0, idle_ns: 0 }
        }

        /// So many queue, and this share of the processors was idle in the last tick: whether places wait.
        fn waits(&mut self, queued: u32, idle: f64) -> bool {
            self.now_ns += TICK_NS;
            self.idle_ns += (2.0 * TICK_NS as f64 * idle) as u64;
            let one = State::idle(crate::Policy::Quantum, 1);
            let state = (0..queued).fold(one, |state, _| state.joined());
            self.trial.observe(&self.metrics, state, self.now_ns, || {
                Some(Idle { ns: self.idle_ns, processors: 2 })
            });
            self.trial.lets_wait()
        }

        /// How long until places wait, or wait no more, ns; up to three minutes.
        fn until(&mut self, waits: bool, queued: u32, idle: f64) -> Option<u64> {
            let from_ns = self.now_ns;
            (0..36_000).any(|_| self.waits(queued, idle) == waits).then_some(self.now_ns - from_ns)
        }
    }

    #[test]
    fn it_begins_when_so_many_have_queued_for_a_while_and_rests_when_fewer_do() {
        let mut ticks = Ticks::new();
        assert_eq!(ticks.until(true, 7, 0.0), None);
        assert_eq!(ticks.until(true, 8, 0.0), Some(TICK_NS + QUEUED_NS));
        for rests in [1, 2, 4, 8, 16, 32, 32] {
            assert!(ticks.waits(7, 0.0) && ticks.waits(8, 0.0), "for a moment");
            assert_eq!(ticks.until(false, 7, 0.0), Some(TICK_NS + SHORT_NS));
            assert_eq!(ticks.until(true, 8, 0.0), Some(rests * REST_NS));
        }
    }

    #[test]
    fn with_busy_processors_handing_on_is_tried_seldom() {
        for (idle, at_least_ns, at_most_ns) in
            [(0.08, BUSY_NS, BUSY_NS + 2 * REST_NS), (0.12, IDLE_NS, IDLE_NS + 2 * REST_NS)]
        {
            let mut ticks = Ticks::new();
            ticks.until(true, 100, idle).unwrap();
            let tried_ns = ticks.until(false, 100, idle).unwrap();
            assert!((at_least_ns..=at_most_ns).contains(&tried_ns), "{idle}: {tried_ns}");
        }
    }

    /// As they are while hundreds of clients begin.
    #[test]
    fn processors_that_are_idle_for_a_moment_are_no_reason_to_hand_on() {
        let mut ticks = Ticks::new();
        ticks.until(true, 100, 0.5).unwrap();
        let from_ns = ticks.now_ns;
        while ticks.now_ns < from_ns + IDLE_NS - WINDOW_NS {
            assert!(ticks.waits(100, 0.5));
        }
        assert!(ticks.until(false, 100, 0.0).unwrap() > BUSY_NS - IDLE_NS);
    }

    /// The next try is not the first again.
    #[test]
    fn a_load_that_ebbs_for_a_moment_has_no_more_tries() {
        let mut ticks = Ticks::new();
        ticks.until(true, 100, 0.0).unwrap();
        ticks.until(false, 100, 0.0).unwrap();
        assert!(ticks.waits(9, 0.0), "it was tried");
        ticks.until(false, 7, 0.0).unwrap();
        ticks.until(true, 9, 0.0).unwrap();
        assert!(ticks.until(false, 9, 0.0).unwrap() > BUSY_AGAIN_NS - 2 * REST_NS);
    }

    /// Where handing on makes it short, and processors are idle, it is the better way.
    #[test]
    fn a_queue_that_handing_on_moves_to_busy_processors_ends_the_comparison() {
        for (idle, waits) in [(0.08, true), (0.12, false)] {
            let mut ticks = Ticks::new();
            ticks.until(true, 100, idle).unwrap();
            ticks.until(false, 100, idle).unwrap();
            assert!(!ticks.waits(50, idle), "half of it is there");
            assert_eq!(ticks.waits(7, idle), waits);
            if !waits {
                assert_eq!(ticks.until(true, 100, idle), Some(REST_NS));
                continue;
            }
            for after_ns in [BUSY_AGAIN_NS, 2 * BUSY_AGAIN_NS] {
                let tried_ns = ticks.until(false, 100, idle).unwrap();
                assert!((after_ns..after_ns + 2 * REST_NS).contains(&tried_ns), "{tried_ns}");
                assert!(ticks.waits(7, idle));
            }
        }
    }

    /// For so many seconds so much is done in 10 ms while places are handed on, and this share of it while they wait; the share of the time
    /// in which they do.
    fn tried_for(
        controller: &mut Controller,
        from: &mut Sample,
        seconds: u64,
        (all, share): (f64, f64),
    ) -> f64 {
        let (ticks, mut waited) = (100 * seconds, 0);
        for _ in 0..ticks {
            let waits = controller.limit() == WAIT;
            waited += u64::from(waits);
            let done = (all * if waits { share } else { 1.0 }) as u64;
            from.now_ns += 10_000_000;
            from.work += done;
            from.places += done;
            controller.observe(Sample { queued: 500, inside: 4, ..*from });
        }
        waited as f64 / ticks as f64
    }

    #[test]
    fn places_wait_only_where_more_is_done_so() {
        let controller = || (Controller::new(comparisons(QUANTUM), 1).unwrap(), Sample::default());
        for all in [300.0, 10.0] {
            for (share, least, most) in
                [(1.3, 0.93, 1.0), (1.0, 0.9, 1.0), (0.9, 0.0, 0.2), (0.8, 0.0, 0.1), (0.3, 0.0, 0.02)]
            {
                let (mut controller, mut from) = controller();
                let waited = tried_for(&mut controller, &mut from, 300, (all, share));
                assert!((least..=most).contains(&waited), "{share} of {all}: {waited}");
            }
        }
        let (mut controller, mut from) = controller();
        tried_for(&mut controller, &mut from, 60, (300.0, 1.3));
        let waited = tried_for(&mut controller, &mut from, 60, (300.0, 0.3));
        assert!(waited < 0.1, "the clients are others now: {waited}");
        let waited = tried_for(&mut controller, &mut from, 120, (300.0, 1.3));
        assert!(waited > 0.5, "and are the first again: {waited}");
    }
}
