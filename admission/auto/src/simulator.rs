//! A server in a few numbers, to drive a [`Controller`] through hours in milliseconds.
//!
//! How much is done per second with `n` threads running is a [`Curve`]; threads running follow a change of the
//! limit with the lag of a statement's stay; the rate swings with autocorrelated noise and with bursts of
//! stolen CPU time; statements are counted as they end, by Poisson's law, each with all its tickets. All of it is seeded.

use super::{AutoConfig, Controller, Sample, Stays};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// Statements per second against threads running.
#[derive(Debug, Clone, Copy)]
pub(super) enum Curve {
    /// The Universal Scalability Law (Gunther): `lambda n / (1 + sigma (n-1) + kappa n (n-1))`.
    Usl { lambda: f64, sigma: f64, kappa: f64 },
    /// The same at every limit.
    Flat(f64),
    /// `lambda n` up to `knee`, level up to `cliff`, and `left` of it beyond.
    Cliff { lambda: f64, knee: f64, cliff: f64, left: f64 },
}

impl Curve {
    pub(super) fn rate(&self, n: f64) -> f64 {
        match *self {
            Curve::Usl { lambda, sigma, kappa } => {
                lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0))
            }
            Curve::Flat(rate) => rate,
            Curve::Cliff { lambda, knee, cliff, left } => {
                lambda * n.min(knee) * if n > cliff { left } else { 1.0 }
            }
        }
    }

    /// The best limit between `floor` and `ceiling` and its rate.
    pub(super) fn best(&self, floor: u32, ceiling: u32) -> (u32, f64) {
        (floor..=ceiling)
            .map(|n| (n, self.rate(f64::from(n))))
            .fold((floor, 0.0), |best, at| if at.1 > best.1 { at } else { best })
    }
}

/// Statements of two lengths. A long one stays for its work among the others, so how many run follows a change of the limit late.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mix {
    /// Share of the statements that are long.
    pub(super) share: f64,
    /// Work of a long one, in short ones.
    pub(super) times: f64,
}

impl Mix {
    /// All are alike.
    pub(super) const NONE: Mix = Mix { share: 0.0, times: 1.0 };

    /// The mean work of a statement, in short ones.
    fn mean(&self) -> f64 {
        1.0 + self.share * (self.times - 1.0)
    }
}

/// From `from_s` on the server is this.
#[derive(Debug, Clone, Copy)]
pub(super) struct Phase {
    pub(super) from_s: f64,
    pub(super) curve: Curve,
    /// Statements that arrive per second; infinite where `clients` alone bound the load.
    pub(super) offered: f64,
    /// Threads that want in, at most.
    pub(super) clients: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Noise {
    /// Standard deviation of the swing, a share of the rate.
    pub(super) swing: f64,
    /// Time over which the swing forgets itself.
    pub(super) swing_s: f64,
    /// Share of the time in which the host takes something away, and what share of the rate it takes.
    pub(super) steal_time: f64,
    pub(super) steal: f64,
    /// Mean length of such a burst.
    pub(super) steal_s: f64,
}

#[derive(Debug, Clone)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) start: u32,
    pub(super) phases: Vec<Phase>,
    pub(super) noise: Noise,
    pub(super) length_s: f64,
    /// Mean time between two calls.
    pub(super) tick_s: f64,
    /// Work on each slot, which is counted when the slot is left.
    pub(super) tickets: u64,
    pub(super) mix: Mix,
}

#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Work that was not done, as a share of what the best limit of each phase would have done.
    pub(super) regret: f64,
    /// The same over the second half of the run, or of its last phase.
    pub(super) settled_regret: f64,
    /// Every held limit, from when on.
    pub(super) held: Vec<(f64, u32)>,
    /// Limits set, the first one too.
    pub(super) changes: u32,
    /// Per phase: seconds from its beginning until ten seconds in a row did 95 % of the best work.
    pub(super) found_s: Vec<Option<f64>>,
    /// Times the limit left the held one although the queue had been empty for 0.1 s.
    pub(super) left_without_queue: u32,
}

/// The statements that run, by length.
struct Running {
    mix: Mix,
    /// Long ones.
    long: f64,
    /// Every 64th stay is noted, as a scheduler does.
    until_noted: u64,
    noted: Vec<u64>,
    random: Random,
}

impl Running {
    const NOTED_EVERY: u64 = 64;

    fn new(mix: Mix, seed: u64) -> Self {
        let random = Random(SplitMix64::seed_from_u64(!seed));
        Running { mix, long: 0.0, until_noted: 0, noted: Vec::new(), random }
    }

    /// Statements that end in a tick in which `threads` do the work of `ends` of mean length, each of which stays for `stay_ns`. `joins`:
    /// by that more threads run than before.
    fn tick(&mut self, (threads, joins): (f64, f64), ends: f64, stay_ns: f64, random: &mut Random) -> u64 {
        let Mix { share, times } = self.mix;
        let each = ends * self.mix.mean() / threads;
        let stay_ns = stay_ns / self.mix.mean();
        if share == 0.0 {
            let ended = random.poisson(ends);
            self.note(ended, stay_ns);
            return ended;
        }
        let short = random.poisson((threads - self.long).max(0.0) * each);
        let long = random.poisson(self.long * each / times).min(self.long as u64);
        let begin = random.poisson(((short + long) as f64 + joins.max(0.0)) * share);
        self.long = (self.long - long as f64 + begin as f64).min(threads.floor());
        self.note(short, stay_ns);
        self.note(long, stay_ns * times);
        short + long
    }

    /// Of exponential length.
    fn note(&mut self, ended: u64, mean_ns: f64) {
        let mut at = self.until_noted;
        while at < ended {
            self.noted.push((-self.random.uniform().ln() * mean_ns) as u64);
            at += Self::NOTED_EVERY;
        }
        self.until_noted = at - ended;
    }
}

struct Random(SplitMix64);

impl Random {
    /// Between 0 and 1, never 0.
    fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Box and Muller's.
    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn poisson(&mut self, mean: f64) -> u64 {
        if mean > 30.0 {
            return (mean + mean.sqrt() * self.normal()).max(0.0).round() as u64;
        }
        let (least, mut product, mut count) = ((-mean).exp(), self.uniform(), 0);
        while product > least {
            product *= self.uniform();
            count += 1;
        }
        count
    }
}

/// Runs `scenario` once.
pub(super) fn run(scenario: &Scenario, config: &AutoConfig, seed: u64) -> Outcome {
    let config = AutoConfig { start: scenario.start, ..config.clone() };
    let mut controller = Controller::new(config.clone(), seed).unwrap();
    let mut random = Random(SplitMix64::seed_from_u64(seed ^ 0x5eed));
    let Noise { swing, swing_s, steal_time, steal, steal_s } = scenario.noise;
    let mut outcome = Outcome { found_s: vec![None; scenario.phases.len()], ..Outcome::default() };
    let (mut now_s, mut slots, mut running) = (0.0, 0u64, 1.0f64);
    let mut statements = Running::new(scenario.mix, seed);
    let mut stays = Stays::default();
    let tickets = scenario.tickets as f64;
    let (mut backlog, mut best_backlog) = (0.0, 0.0);
    let (mut noise, mut stealing, mut without_queue_s) = (0.0, false, 0.0);
    let (mut done, mut possible, mut done_late, mut possible_late) = (0.0, 0.0, 0.0, 0.0);
    let mut limit = scenario.start;
    let (mut phase_at, mut bests) = (0, Vec::new());
    for phase in &scenario.phases {
        bests.push(phase.curve.best(config.floor, config.ceiling.min(phase.clients)).1);
    }
    let late_s = scenario.phases.last().map_or(0.0, |phase| (phase.from_s + scenario.length_s) / 2.0);
    let mut recent = std::collections::VecDeque::new();
    let (mut recent_done, mut recent_possible) = (0.0, 0.0);

    while now_s < scenario.length_s {
        while scenario.phases.get(phase_at + 1).is_some_and(|next| next.from_s <= now_s) {
            phase_at += 1;
            recent.clear();
            (recent_done, recent_possible) = (0.0, 0.0);
        }
        let (phase, best) = (&scenario.phases[phase_at], bests[phase_at]);
        // A watchdog that comes late now and then.
        let tick_s = scenario.tick_s * (0.8 + 0.4 * random.uniform());
        now_s += tick_s;

        let keep = (-tick_s / swing_s).exp();
        noise = keep * noise + (1.0 - keep * keep).sqrt() * random.normal();
        let leave = if stealing { 1.0 / steal_s } else { steal_time / (1.0 - steal_time) / steal_s };
        if random.uniform() < 1.0 - (-tick_s * leave).exp() {
            stealing = !stealing;
        }
        let weather = (swing * noise).exp() * if stealing { 1.0 - steal } else { 1.0 };

        let most = f64::from(limit.min(phase.clients));
        let able = phase.curve.rate(running.max(1.0)) * weather;
        let stay_ns = 1e9 * tickets * running.max(1.0) / able;
        let joins = (most - running) * (1.0 - (-tick_s * able / tickets / running.max(1.0)).exp());
        running = (running + joins).max(statements.long);
        let mut rate = phase.curve.rate(running.max(1.0)) * weather;
        // What the best limit does, with a backlog of its own.
        best_backlog += if phase.offered.is_finite() { phase.offered * tick_s } else { f64::INFINITY };
        let best = best_backlog.min(best * weather * tick_s);
        best_backlog = if phase.offered.is_finite() { best_backlog - best } else { 0.0 };
        // After a cut threads stay until they are done; a raise lets others in at once.
        let mut running_now = most.max(running.round()) as u32;
        let queued = if phase.offered.is_finite() {
            backlog += phase.offered * tick_s;
            if backlog < rate * tick_s {
                rate = backlog / tick_s;
                running_now = (running * rate / able.max(1e-9)).ceil() as u32;
            }
            backlog -= rate * tick_s;
            (backlog as u32).min(phase.clients)
        } else {
            phase.clients.saturating_sub(running_now)
        };
        slots += statements.tick((running.max(1.0), joins), rate * tick_s / tickets, stay_ns, &mut random);
        stays.add(statements.noted.drain(..));

        let (did, could) = (rate * tick_s, best);
        done += did;
        possible += could;
        if now_s >= late_s {
            done_late += did;
            possible_late += could;
        }
        if outcome.found_s[phase_at].is_none() {
            recent.push_back((now_s, did, could));
            recent_done += did;
            recent_possible += could;
            while let Some(&(then_s, did, could)) = recent.front() {
                if now_s - then_s < 10.0 {
                    break;
                }
                if recent_done >= 0.95 * recent_possible {
                    outcome.found_s[phase_at] = Some(then_s - phase.from_s);
                }
                recent.pop_front();
                recent_done -= did;
                recent_possible -= could;
            }
        }

        let was_without_queue = without_queue_s > 0.1;
        // A larger limit on trial may well let in all who queue.
        let idle = queued == 0 && limit <= controller.held;
        without_queue_s = if idle { without_queue_s + tick_s } else { 0.0 };
        let now_ns = (now_s * 1e9) as u64;
        let work = slots * scenario.tickets;
        if let Some(next) =
            controller.observe(Sample { now_ns, work, slots, queued, running: running_now, stays })
        {
            assert!((config.floor..=config.ceiling).contains(&next), "{} seed {seed}: {next}", scenario.name);
            let leaves = next != controller.held;
            outcome.left_without_queue += u32::from(was_without_queue && idle && leaves);
            limit = next;
            outcome.changes += 1;
        }
        if outcome.held.last().is_none_or(|held| held.1 != controller.held) {
            outcome.held.push((now_s, controller.held));
        }
    }
    outcome.regret = 1.0 - done / possible;
    outcome.settled_regret = 1.0 - done_late / possible_late;
    outcome
}
