//! A server in a simulator: clients in a closed loop, a rate of work that depends on how many run, and a host that is not steady.

use super::{Controller, Sample, State};

/// The time of a step, ns.
const STEP_NS: u64 = 1_000_000;
const TICK_STEPS: u64 = 10;
/// How long an interruption by the host lasts, and the share of the CPU that it leaves.
const INTERRUPTION_STEPS: u32 = 25;
const INTERRUPTED_SHARE: f64 = 0.3;

/// What the clients do, and what it costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) clients: f64,
    pub(super) think_ms: f64,
    /// How many of the clients come per millisecond.
    pub(super) come_per_ms: f64,
    /// Work per second with one running, and what each further one adds, until `cpus` run.
    pub(super) single_per_s: f64,
    pub(super) cpus: f64,
    /// The number of running threads at which contention has halved the rate; infinite without contention.
    pub(super) halved_at: f64,
    /// The share of the work that a queued statement costs more.
    pub(super) queueing_cost: f64,
}

impl Load {
    pub(super) fn point_select(clients: u32) -> Load {
        Load {
            clients: f64::from(clients),
            think_ms: 0.0,
            come_per_ms: f64::INFINITY,
            single_per_s: 15_000.0,
            cpus: 2.0,
            halved_at: f64::INFINITY,
            queueing_cost: 0.1,
        }
    }

    pub(super) fn hot_rows(clients: u32) -> Load {
        Load { halved_at: 32.0, ..Load::point_select(clients) }
    }

    fn rate_per_s(&self, running: f64, queues: bool) -> f64 {
        let rate = self.single_per_s * running.min(self.cpus);
        let contended = rate / (1.0 + running / self.halved_at);
        contended * if queues { 1.0 - self.queueing_cost } else { 1.0 }
    }

    /// Of a limit, 0 = unlimited.
    pub(super) fn steady_per_s(&self, limit: u32) -> f64 {
        let running = if limit == 0 { self.clients } else { f64::from(limit).min(self.clients) };
        self.rate_per_s(running, running < self.clients)
    }
}

/// A generator of the splitmix family: the same seed gives the same run.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Near normal, with deviation 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

pub(super) struct Server {
    pub(super) controller: Controller,
    random: Random,
    limit: u32,
    now_ns: u64,
    running: f64,
    queued: f64,
    thinking: f64,
    work: f64,
    /// The host's speed of late, about 1.
    speed: f64,
    /// Standard deviation of the host's speed.
    pub(super) noise: f64,
    /// How often per step the host begins to run something else, and for how many steps it still does.
    pub(super) interruptions: f64,
    interrupted: u32,
}

impl Server {
    pub(super) fn new(limit: u32, seed: u64) -> Self {
        Server {
            controller: Controller::new(limit),
            random: Random(seed),
            limit: 0,
            now_ns: 0,
            running: 0.0,
            queued: 0.0,
            thinking: 0.0,
            work: 0.0,
            speed: 1.0,
            noise: 0.05,
            interruptions: 0.0,
            interrupted: 0,
        }
    }

    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    pub(super) fn running(&self) -> f64 {
        self.running
    }

    /// Runs a load for this time; returns the work per second.
    pub(super) fn run(&mut self, load: &Load, seconds: f64) -> f64 {
        self.run_and_see(load, seconds, |_| {})
    }

    /// As [`Server::run`]; calls `see` after each sample.
    pub(super) fn run_and_see(&mut self, load: &Load, seconds: f64, mut see: impl FnMut(&Server)) -> f64 {
        self.thinking += load.clients - (self.running + self.queued + self.thinking);
        let before = self.work;
        for step in 0..(seconds * 1e9 / STEP_NS as f64) as u64 {
            self.step(load);
            if step % TICK_STEPS == 0 {
                self.sample();
                see(self);
            }
        }
        (self.work - before) / seconds
    }

    fn step(&mut self, load: &Load) {
        let step_s = STEP_NS as f64 / 1e9;
        self.now_ns += STEP_NS;
        if self.thinking < 0.0 {
            // Clients have left: those that queue leave first.
            let leave = -self.thinking;
            let of_queue = leave.min(self.queued);
            self.queued -= of_queue;
            self.running = (self.running - (leave - of_queue)).max(0.0);
            self.thinking = 0.0;
        }
        let arrive = match load.think_ms {
            0.0 => self.thinking.min(load.come_per_ms),
            think_ms => self.thinking * (step_s * 1e3 / think_ms).min(1.0),
        };
        self.thinking -= arrive;
        self.queued += arrive;
        let room =
            if self.limit == 0 { f64::INFINITY } else { (f64::from(self.limit) - self.running).max(0.0) };
        let enter = self.queued.min(room);
        self.queued -= enter;
        self.running += enter;
        self.speed += 0.1 * (1.0 - self.speed) + self.noise * 0.44 * self.random.normal();
        if self.interruptions > 0.0 && self.random.uniform() < self.interruptions {
            self.interrupted = INTERRUPTION_STEPS;
        }
        let share = if self.interrupted > 0 { INTERRUPTED_SHARE } else { 1.0 };
        self.interrupted = self.interrupted.saturating_sub(1);
        let rate = load.rate_per_s(self.running, self.queued >= 1.0) * self.speed.max(0.1) * share;
        let expected = rate * step_s;
        let done = (expected + expected.sqrt() * self.random.normal()).max(0.0);
        self.work += done;
        // Within a step more is done than run at a time: the same clients come back.
        let leave = done.min(self.running);
        if load.think_ms != 0.0 || self.limit != 0 && self.running > f64::from(self.limit) {
            self.running -= leave;
            self.thinking += leave;
        }
    }

    fn sample(&mut self) {
        let sample = Sample {
            now_ns: self.now_ns,
            work: self.work as u64,
            running: self.running.round() as u32,
            queued: self.queued.round() as u32,
            waiting: 0,
        };
        if let Some(limit) = self.controller.observe(sample) {
            self.limit = limit;
        }
    }

    /// The process stands still for this time, and its clients too.
    pub(super) fn stop(&mut self, seconds: f64) {
        self.now_ns += (seconds * 1e9) as u64;
    }

    pub(super) fn state(&self) -> State {
        self.controller.state()
    }
}
