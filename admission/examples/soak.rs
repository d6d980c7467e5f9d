//! Many threads and tasks use one scheduler for a long time while everything about it changes: policies, limits, timeouts, kills, waits
//! of all kinds, classes, sessions that come and go, entries that are dropped and leaked, wakers that panic. `make soak`, or
//! `SOAK_SECONDS=20 make soak`.
//!
//! It fails, and prints why, if at the end a client hangs, or T, P or Q is not 0, or a wait was longer than its bound.
//!
//! # The bounds
//!
//! Only policies that serve in order have one: `fifo`, `flifo`, and `quantum` with a quantum of one statement, each without congestion and
//! with `promote_after` near 0. A wait counts if one policy of these was in force from its begin to its end.
//!
//! - Before a session are at most all **N** others, each once: a session that leaves comes back behind it. While a session of the first
//!   class waits, at most every fourth slot goes to others: **2 N** slots go before it.
//! - Others get at least every fourth slot: **4 N** slots go before one of these.
//! - At most that many sessions are served from the queue during a wait, and N more that were granted a slot before the wait began, and
//!   run later. They are counted, for one wait in 64. More may be served where the kernel keeps a thread from its CPU before it joins the
//!   queue or after it was woken: that is allowed for one counted wait in 200.
//!
//! The bound on time follows, and is far looser, since it assumes that every slot is held for the longest time:
//!
//! - **D**: the longest time, measured, from getting a slot to entering again or exiting, waits in between included. **W**: the longest
//!   time, measured, from being handed a slot to running.
//! - While a session waits, a slot is handed to the queue every **H = 2 (D + W)** at the latest. Otherwise every session that runs, was
//!   woken, or comes back from a wait leaves within D + W; newcomers enter only while others are pending, so for W at most, and have
//!   left D later. The last of them finds T <= L and Q > 0 at its exit, and hands off. A slot that the stall rule reclaims is handed off
//!   sooner.
//! - So no wait is longer than (slots + N + 1) H.

use std::future::Future;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};
use std::{env, process, thread};

use flifo_admission::{Admission, Canceller, Class, Config, Policy, Refused, Session, Snapshot, WaitKind};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

const THREADS: usize = 32;
const TASKS: usize = 64;
const CLIENTS: usize = THREADS + TASKS;
/// During one wait in 64 the sessions served are counted.
const COUNT_EVERY: u64 = 64;
/// The most sessions served from the queue during a wait: of the first class, and of others. See the head of the file.
const SERVED_MAX: [u64; 2] = [3 * CLIENTS as u64, 5 * CLIENTS as u64];
/// The share of counted waits that may be above [`SERVED_MAX`]: one in this number.
const DELAYED_ONE_IN: u64 = 200;
/// At the end all clients have that long to finish.
const GRACE: Duration = Duration::from_secs(60);

struct Soak {
    admission: Arc<Admission>,
    cancellers: Vec<Mutex<Option<Canceller>>>,
    ends: AtomicBool,
    /// Clients that have finished.
    finished: AtomicUsize,
    /// Statements, by client.
    done: Vec<AtomicU64>,
    /// Odd while a policy that serves in order is in force; each change makes it a new number.
    epoch: AtomicU64,
    /// D, ns.
    longest_hold_ns: AtomicU64,
    /// The longest wait that counts, ns: of the first class, and of others.
    longest_wait_ns: [AtomicU64; 2],
    /// The most sessions served from the queue during such a wait, by class as above.
    most_served: [AtomicU64; 2],
    /// Waits during which they were counted, and those above [`SERVED_MAX`]; by class.
    counted: [AtomicU64; 2],
    above_bound: [AtomicU64; 2],
    waits_that_count: AtomicU64,
}

struct Random(SplitMix64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }
}

/// A waker that panics, as that of a broken executor may.
struct Broken;

impl Wake for Broken {
    fn wake(self: Arc<Self>) {
        resume_unwind(Box::new("a broken waker"));
    }
}

impl Soak {
    /// Begins a new epoch in which no wait counts, and returns its number. Called by one thread.
    fn pause(&self) -> u64 {
        let before = self.epoch.load(Relaxed);
        let paused = before + 2 - before % 2;
        self.epoch.store(paused, Relaxed);
        paused
    }

    /// Sessions served from the queue up to now.
    fn served(&self) -> u64 {
        self.admission.snapshot().admitted_from_queue
    }
}

/// When a client began to enter.
struct Begun {
    /// Sessions served up to then, if they are counted during this wait.
    served: Option<u64>,
    epoch: u64,
    since: Instant,
}

/// A client and its present session.
struct Client<'a> {
    soak: &'a Soak,
    number: usize,
    session: Session,
    random: Random,
    /// Since when it has held a slot.
    holds_since: Instant,
}

impl<'a> Client<'a> {
    fn new(soak: &'a Soak, number: usize) -> Self {
        let random = Random(SplitMix64::seed_from_u64(number as u64));
        let session = soak.admission.session();
        let client = Client { soak, number, session, random, holds_since: Instant::now() };
        client.announce();
        client
    }

    fn announce(&self) {
        *self.soak.cancellers[self.number].lock().unwrap() = Some(self.session.canceller());
    }

    fn ends(&self) -> bool {
        self.soak.ends.load(Relaxed)
    }

    /// Between two statements.
    fn prepare(&mut self) {
        self.session.forget_cancel();
        if self.random.one_in(50) {
            self.session = self.soak.admission.session();
            self.announce();
        }
        self.session.set_class(if self.random.one_in(4) { Class::First } else { Class::Normal });
    }

    /// It is about to enter.
    fn begin(&mut self) -> Begun {
        Begun {
            served: self.random.one_in(COUNT_EVERY).then(|| self.soak.served()),
            epoch: self.soak.epoch.load(Relaxed),
            since: Instant::now(),
        }
    }

    /// It has entered or was refused.
    fn entered(&mut self, begun: &Begun, outcome: Result<(), Refused>) -> Result<(), Refused> {
        let (soak, ns) = (self.soak, begun.since.elapsed().as_nanos() as u64);
        let served = begun.served.map(|before| soak.served() - before);
        if begun.epoch % 2 == 1 && begun.epoch == soak.epoch.load(Relaxed) {
            let class = usize::from(self.session.class() != Class::First);
            soak.longest_wait_ns[class].fetch_max(ns, Relaxed);
            if let Some(served) = served {
                soak.most_served[class].fetch_max(served, Relaxed);
                soak.counted[class].fetch_add(1, Relaxed);
                soak.above_bound[class].fetch_add(u64::from(served > SERVED_MAX[class]), Relaxed);
            }
            soak.waits_that_count.fetch_add(1, Relaxed);
        }
        self.holds_since = Instant::now();
        outcome
    }

    /// It enters again or exits.
    fn end_hold(&self) {
        let ns = self.holds_since.elapsed().as_nanos() as u64;
        self.soak.longest_hold_ns.fetch_max(ns, Relaxed);
    }

    fn enter(&mut self) -> Result<(), Refused> {
        let begun = self.begin();
        let entered = match self.random.below(12) {
            0 => self.session.enter_until(begun.since + Duration::from_micros(self.random.below(2000))),
            1 if self.session.try_enter() => Ok(()),
            _ => self.session.enter(),
        };
        self.entered(&begun, entered)
    }

    async fn enter_async(&mut self) -> Result<(), Refused> {
        if self.random.one_in(20) {
            // A first attempt that is dropped or leaked, maybe with a waker that panics.
            let waker =
                if self.random.one_in(4) { Waker::from(Arc::new(Broken)) } else { Waker::noop().clone() };
            let mut entry = Box::pin(self.session.enter_async());
            let _ = entry.as_mut().poll(&mut Context::from_waker(&waker));
            if self.random.one_in(3) {
                std::mem::forget(entry);
            } else {
                drop(entry);
            }
        }
        let begun = self.begin();
        let entered = if self.random.one_in(20) {
            let limit = Duration::from_micros(self.random.below(3000));
            match tokio::time::timeout(limit, self.session.enter_async()).await {
                Ok(entered) => entered,
                Err(_) => Err(Refused::Timeout),
            }
        } else {
            self.session.enter_async().await
        };
        self.entered(&begun, entered)
    }

    fn work(&mut self) {
        let until = Instant::now() + Duration::from_micros(self.random.below(60));
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }

    /// Ends a wait; false: the statement was killed during the wait.
    fn wait_end(&mut self, kind: WaitKind) -> Result<bool, Refused> {
        match self.random.below(10) {
            0 => Ok(false),
            _ => {
                self.session.wait_end(kind);
                Ok(true)
            }
        }
    }

    fn left(&mut self) {
        self.end_hold();
        self.session.exit();
        while self.session.wait_depth() > 0 {
            self.session.wait_end(WaitKind::User);
        }
        self.soak.done[self.number].fetch_add(1, Relaxed);
    }

    fn statement(&mut self) -> Result<(), Refused> {
        self.enter()?;
        for _ in 0..self.random.below(4) {
            self.work();
            if self.random.one_in(3) {
                let kind = self.random.of(&WaitKind::ALL);
                self.session.wait_begin(kind);
                thread::sleep(Duration::from_micros(self.random.below(200)));
                if !self.wait_end(kind)? {
                    return Ok(());
                }
            }
            self.end_hold();
            self.enter()?;
        }
        self.work();
        Ok(())
    }

    async fn statement_async(&mut self) -> Result<(), Refused> {
        self.enter_async().await?;
        for _ in 0..self.random.below(4) {
            self.work();
            if self.random.one_in(3) {
                let kind = self.random.of(&WaitKind::ALL);
                self.session.wait_begin(kind);
                tokio::time::sleep(Duration::from_micros(self.random.below(2000))).await;
                if !self.wait_end_of_task(kind)? {
                    return Ok(());
                }
            }
            self.end_hold();
            self.enter_async().await?;
        }
        self.work();
        Ok(())
    }

    /// A task must not block its thread.
    fn wait_end_of_task(&mut self, kind: WaitKind) -> Result<bool, Refused> {
        if self.random.one_in(10) {
            return Ok(false);
        }
        self.session.wait_end(kind);
        Ok(true)
    }
}

fn thread_of(soak: &Soak, number: usize) {
    let mut client = Client::new(soak, number);
    while !client.ends() {
        client.prepare();
        let refused = client.statement() == Err(Refused::QueueFull);
        client.left();
        if refused || client.random.one_in(5) {
            thread::sleep(Duration::from_micros(client.random.below(300)));
        }
    }
    soak.finished.fetch_add(1, Relaxed);
}

async fn task_of(soak: Arc<Soak>, number: usize) {
    let mut client = Client::new(&soak, number);
    while !client.ends() {
        client.prepare();
        let refused = client.statement_async().await == Err(Refused::QueueFull);
        client.left();
        match refused {
            true => tokio::time::sleep(Duration::from_millis(1)).await,
            false => tokio::task::yield_now().await,
        }
    }
    soak.finished.fetch_add(1, Relaxed);
}

/// Changes settings from time to time, and kills statements.
fn disturb(soak: &Soak) {
    let mut random = Random(SplitMix64::seed_from_u64(0xB055));
    let mut next_change = Instant::now();
    while !soak.ends.load(Relaxed) {
        thread::sleep(Duration::from_micros(random.below(3000)));
        if random.one_in(4) {
            let victim = random.below(CLIENTS as u64) as usize;
            let canceller = soak.cancellers[victim].lock().unwrap().clone();
            canceller.iter().for_each(Canceller::cancel);
        }
        if random.one_in(20) {
            let limit = random.below(9) as u32;
            if limit == 0 {
                // All that queue try again, and may lose their order: no wait counts until the next change.
                soak.pause();
            }
            soak.admission.set_thread_concurrency(limit).expect("it is in range");
        }
        if Instant::now() >= next_change {
            next_change = Instant::now() + Duration::from_millis(100 + random.below(900));
            change(soak, &mut random);
        }
    }
}

fn change(soak: &Soak, random: &mut Random) {
    let in_order = random.one_in(2);
    let ms = |n: u64| (n != 0).then(|| Duration::from_millis(n));
    let config = Config {
        policy: match in_order {
            true => random.of(&[Policy::Fifo, Policy::Flifo, Policy::Quantum]),
            false => random.of(&Policy::ALL),
        },
        thread_concurrency: 1 + random.below(8) as u32,
        concurrency_tickets: 1 + random.below(3) as u32,
        io_depth: random.below(4) as u32,
        #[cfg(feature = "reservation")]
        reserve_slots: random.below(2) == 0,
        lock_waiters_max: if in_order { 0 } else { random.below(4) as u32 },
        queue_limit: random.of(&[0, 0, 40]),
        queue_timeout: ms(random.of(&[0, 0, 20, 100])),
        quantum: if in_order { Duration::from_nanos(1) } else { Duration::from_micros(100) },
        promote_after: if in_order { Duration::from_nanos(1) } else { Duration::from_millis(5) },
        stall_limit: ms(random.of(&[0, 2, 100])),
        ..Config::default()
    };
    // No wait counts between the two numbers.
    let paused = soak.pause();
    soak.admission.reconfigure(config).expect("the configuration is possible");
    soak.epoch.store(paused + u64::from(in_order), Relaxed);
}

fn longest_ns(histogram: &flifo_admission::histogram::Histogram) -> u64 {
    histogram.iter().filter(|bucket| bucket.count() > 0).map(|bucket| bucket.end()).max().unwrap_or(0)
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn progress(soak: &Soak, began: Instant) {
    let snapshot = soak.admission.snapshot();
    let done: u64 = soak.done.iter().map(|done| done.load(Relaxed)).sum();
    println!(
        "soak: {:>5.0} s {done:>9} statements  {:<9} L={} T={} P={} Q={}  cancelled {} timed out {} full {} stalls {} reclaimed {}",
        began.elapsed().as_secs_f64(),
        snapshot.policy.name(),
        snapshot.thread_concurrency,
        snapshot.running,
        snapshot.pending,
        snapshot.queued,
        snapshot.cancelled,
        snapshot.refused_by_timeout,
        snapshot.refused_queue_full,
        snapshot.stalls_broken,
        snapshot.slots_reclaimed,
    );
}

/// Compares the longest waits with the bounds; returns how many classes are above theirs.
fn compare(soak: &Soak, snapshot: &Snapshot) -> u32 {
    let hold_ns = soak.longest_hold_ns.load(Relaxed);
    let wake_ns = longest_ns(&snapshot.woken_to_running_ns);
    let every_ns = 2 * (hold_ns + wake_ns);
    println!(
        "soak: D, the longest hold, {:.1} ms; W, the longest wake, {:.1} ms; H = 2 (D + W) = {:.1} ms",
        ms(hold_ns),
        ms(wake_ns),
        ms(every_ns)
    );
    let mut above = 0;
    for (class, name) in [(0, "the first class"), (1, "the normal class")] {
        let load = |values: &[AtomicU64; 2]| values[class].load(Relaxed);
        let (served_max, most) = (SERVED_MAX[class], load(&soak.most_served));
        let (counted, delayed) = (load(&soak.counted), load(&soak.above_bound));
        println!(
            "soak: {name}: at most {most} were served during a wait; in {delayed} of {counted} waits above the bound of {served_max}"
        );
        let (longest_ns, bound_ns) = (load(&soak.longest_wait_ns), (served_max + 1) * every_ns);
        println!("soak: {name}: longest wait {:.1} ms, bound {:.0} ms", ms(longest_ns), ms(bound_ns));
        above += u32::from(delayed > counted.div_ceil(DELAYED_ONE_IN) || longest_ns > bound_ns);
    }
    above
}

fn fail(why: &str) -> ! {
    eprintln!("soak: FAILED: {why}");
    process::exit(1);
}

fn main() {
    let seconds = match env::var("SOAK_SECONDS").unwrap_or_else(|_| "600".to_owned()).parse::<u64>() {
        Ok(seconds) if seconds > 0 => seconds,
        _ => fail("SOAK_SECONDS must be a whole number of seconds above 0"),
    };
    let admission = Admission::new(Config::default()).unwrap_or_else(|error| fail(&error.to_string()));
    let soak = Arc::new(Soak {
        admission,
        cancellers: (0..CLIENTS).map(|_| Mutex::new(None)).collect(),
        ends: AtomicBool::new(false),
        finished: AtomicUsize::new(0),
        done: (0..CLIENTS).map(|_| AtomicU64::new(0)).collect(),
        epoch: AtomicU64::new(0),
        longest_hold_ns: AtomicU64::new(0),
        longest_wait_ns: Default::default(),
        most_served: Default::default(),
        counted: Default::default(),
        above_bound: Default::default(),
        waits_that_count: AtomicU64::new(0),
    });
    println!("soak: {seconds} s, {THREADS} threads and {TASKS} tasks");
    let began = Instant::now();
    for number in 0..THREADS {
        let soak = Arc::clone(&soak);
        thread::spawn(move || thread_of(&soak, number));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_time()
        .build()
        .unwrap_or_else(|error| fail(&format!("no runtime for the tasks: {error}")));
    for number in THREADS..CLIENTS {
        runtime.spawn(task_of(Arc::clone(&soak), number));
    }
    let disturbed = Arc::clone(&soak);
    let disturber = thread::spawn(move || disturb(&disturbed));
    let every = Duration::from_secs((seconds / 10).clamp(1, 10));
    while began.elapsed() < Duration::from_secs(seconds) {
        thread::sleep(every.min(Duration::from_secs(seconds).saturating_sub(began.elapsed())));
        progress(&soak, began);
    }
    soak.ends.store(true, Relaxed);
    let ended = Instant::now();
    while soak.finished.load(Relaxed) < CLIENTS && ended.elapsed() < GRACE {
        thread::sleep(Duration::from_millis(10));
    }
    let finished = soak.finished.load(Relaxed);
    if finished < CLIENTS {
        progress(&soak, began);
        fail(&format!(
            "{} of {CLIENTS} clients hang {} s after the end",
            CLIENTS - finished,
            GRACE.as_secs()
        ));
    }
    disturber.join().unwrap_or_else(|_| fail("the thread that changes settings panicked"));
    drop(runtime); // Drops the tasks with their sessions.
    let snapshot = soak.admission.snapshot();
    if (snapshot.running, snapshot.pending, snapshot.queued) != (0, 0, 0) {
        let (t, p, q) = (snapshot.running, snapshot.pending, snapshot.queued);
        fail(&format!("T={t} P={p} Q={q} at the end, all must be 0"));
    }
    if (snapshot.lock_waiters, snapshot.disk_waits) != (0, 0) {
        let (locks, disks) = (snapshot.lock_waiters, snapshot.disk_waits);
        fail(&format!("{locks} lock waits and {disks} disk waits are left at the end"));
    }
    println!("soak: {} waits under policies that serve in order", soak.waits_that_count.load(Relaxed));
    if compare(&soak, &snapshot) > 0 {
        fail("a wait was longer than its bound");
    }
    if soak.done.iter().any(|done| done.load(Relaxed) == 0) {
        fail("a client ran no statement at all");
    }
    println!("soak: passed");
}
