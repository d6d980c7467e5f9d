//! A soak: threads and tasks under one scheduler, with random kills, timeouts, resizes, changes of policy and
//! waits, for ten minutes. `make soak`, or for a short one `SOAK_SECONDS=20 make soak`.
//!
//! It fails, with one line that says why and exit code 1, if
//! - anything is out at the end: T, P, Q, lock waiters and disk waits must be 0;
//! - somebody hangs: its session makes no progress for ten times the bound below;
//! - somebody waited longer than the bound.
//!
//! **The bound.** In the worst order each of the other sessions goes first, with a whole quantum of
//! statements, and each of them takes as long as the longest time inside that was seen in this run (loss of
//! the processor included), one at a time, since the limit may be 1. A change of policy sends everybody to
//! ask again, so all that can happen twice; policies that let newcomers overtake do so until tau. So:
//! `2 x sessions x longest inside + tau + longest gap`, where the gap is how late a timer was in this run.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use flifo_admission::{
    Admission, AutoLimit, Canceller, Class, Config, Policy, Refused, Session, Tenant, WaitKind,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const THREADS: usize = 48;
const TASKS: usize = 48;
const TAU: Duration = Duration::from_millis(20);

/// Random numbers below a bound.
struct Dice(Xoshiro256PlusPlus);

impl Dice {
    fn new(seed: u64) -> Self {
        Dice(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

/// What all know of each other.
struct Soak {
    admission: Arc<Admission>,
    tenants: Vec<Tenant>,
    over: AtomicBool,
    /// Statements done by each session's owner; it alone writes its number.
    done: Vec<AtomicU64>,
    /// How to kill each session's wait.
    cancellers: Vec<Mutex<Option<Canceller>>>,
    longest_wait_ns: AtomicU64,
    longest_inside_ns: AtomicU64,
    longest_gap_ns: AtomicU64,
    refused: [AtomicU64; 3],
}

impl Soak {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn session(&self, owner: usize, dice: &mut Dice) -> Session {
        let session = self.admission.session();
        session.set_tenant(self.tenants[dice.below(self.tenants.len() as u64) as usize]);
        *self.cancellers[owner].lock().unwrap() = Some(session.canceller());
        session
    }

    fn entered(&self, since: Instant, outcome: Result<(), Refused>) -> bool {
        self.longest_wait_ns.fetch_max(since.elapsed().as_nanos() as u64, Ordering::Relaxed);
        if let Err(why) = outcome {
            self.refused[why as usize].fetch_add(1, Ordering::Relaxed);
        }
        outcome.is_ok()
    }

    fn left(&self, owner: usize, since: Instant) {
        self.longest_inside_ns.fetch_max(since.elapsed().as_nanos() as u64, Ordering::Relaxed);
        self.done[owner].fetch_add(1, Ordering::Relaxed);
    }

    fn bound(&self) -> Duration {
        let ns = |of: &AtomicU64| Duration::from_nanos(of.load(Ordering::Relaxed));
        ns(&self.longest_inside_ns) * 2 * (THREADS + TASKS) as u32 + TAU + ns(&self.longest_gap_ns)
    }

    fn longest_wait(&self) -> Duration {
        Duration::from_nanos(self.longest_wait_ns.load(Ordering::Relaxed))
    }
}

fn work(dice: &mut Dice) {
    for _ in 0..dice.below(2000) {
        std::hint::spin_loop();
    }
}

fn a_wait(dice: &mut Dice) -> WaitKind {
    WaitKind::ALL[dice.below(WaitKind::ALL.len() as u64) as usize]
}

/// A thread's statement, inside. False if it was refused on the way.
fn inside(session: &Session, dice: &mut Dice) -> Result<(), Refused> {
    work(dice);
    for _ in 0..dice.below(8) {
        session.enter()?;
    }
    if dice.one_in(4) {
        let (outer, inner) = (a_wait(dice), a_wait(dice));
        session.wait_begin(outer);
        if dice.one_in(4) {
            session.wait_begin(inner);
            thread::yield_now();
            session.wait_end(inner);
        }
        if dice.one_in(8) {
            thread::sleep(Duration::from_micros(dice.below(500)));
        }
        if dice.one_in(3) {
            session.wait_end_may_queue(outer)?;
        } else {
            session.wait_end(outer);
        }
        work(dice);
    }
    Ok(())
}

fn run_thread(soak: &Soak, owner: usize) {
    let mut dice = Dice::new(owner as u64);
    let mut session = soak.session(owner, &mut dice);
    while !soak.is_over() {
        session.set_class(if dice.one_in(5) { Class::First } else { Class::Normal });
        let asked = Instant::now();
        let outcome = match dice.below(10) {
            0 => session.enter_until(asked + Duration::from_micros(dice.below(3000))),
            1 if !session.try_enter() => session.enter(),
            _ => session.enter(),
        };
        if soak.entered(asked, outcome) {
            let begun = Instant::now();
            if let Err(why) = inside(&session, &mut dice) {
                soak.refused[why as usize].fetch_add(1, Ordering::Relaxed);
            }
            session.exit();
            soak.left(owner, begun);
        } else {
            soak.done[owner].fetch_add(1, Ordering::Relaxed);
        }
        if dice.one_in(50) {
            session = soak.session(owner, &mut dice);
        }
        if dice.one_in(20) {
            thread::sleep(Duration::from_micros(dice.below(300)));
        }
    }
}

async fn run_task(soak: Arc<Soak>, owner: usize) {
    let mut dice = Dice::new(owner as u64);
    let mut session = soak.session(owner, &mut dice);
    while !soak.is_over() {
        let asked = Instant::now();
        let patience = Duration::from_micros(if dice.one_in(8) { dice.below(3000) } else { 3_600_000_000 });
        let entered = tokio::time::timeout(patience, session.place_async()).await;
        if let Ok(entered) = entered
            && soak.entered(asked, entered.as_ref().map(|_| ()).map_err(|why| *why))
            && let Ok(mut place) = entered
        {
            let begun = Instant::now();
            work(&mut dice);
            if dice.one_in(4) {
                place.wait_for(a_wait(&mut dice), tokio::task::yield_now()).await;
            }
            drop(place);
            soak.left(owner, begun);
        } else {
            soak.done[owner].fetch_add(1, Ordering::Relaxed);
        }
        if dice.one_in(50) {
            session = soak.session(owner, &mut dice);
        }
        tokio::task::yield_now().await;
    }
}

/// Kills waits, and changes everything that can be changed.
fn disturb(soak: &Soak) {
    let mut dice = Dice::new(u64::MAX);
    let mut tick = Instant::now();
    while !soak.is_over() {
        let pause = Duration::from_millis(1 + dice.below(4));
        thread::sleep(pause);
        let gap = tick.elapsed().saturating_sub(pause);
        soak.longest_gap_ns.fetch_max(gap.as_nanos() as u64, Ordering::Relaxed);
        tick = Instant::now();
        for _ in 0..dice.below(4) {
            let victim = dice.below((THREADS + TASKS) as u64) as usize;
            if let Some(canceller) = soak.cancellers[victim].lock().unwrap().as_ref() {
                canceller.cancel();
            }
        }
        if dice.one_in(10) {
            let limit = if dice.one_in(10) { 0 } else { 1 + dice.below(16) as u32 };
            soak.admission.set_thread_concurrency(limit).expect("it is allowed");
        }
        if dice.one_in(40) {
            let bound = |dice: &mut Dice, most| if dice.one_in(2) { 0 } else { 1 + dice.below(most) as u32 };
            let config = Config {
                policy: Policy::ALL[dice.below(Policy::ALL.len() as u64) as usize],
                thread_concurrency: 1 + dice.below(16) as u32,
                auto: dice.one_in(4).then_some(AutoLimit { floor: 1, ceiling: 16 }),
                concurrency_tickets: 1 + dice.below(10) as u32,
                io_depth: bound(&mut dice, 4),
                lock_waiters_max: bound(&mut dice, 8),
                queue_limit: bound(&mut dice, 80),
                queue_timeout: dice.one_in(3).then_some(Duration::from_millis(5)),
                tau: Some(TAU),
                ..Config::default()
            };
            soak.admission.reconfigure(config).expect("it is allowed");
        }
        tick = tick.max(Instant::now());
    }
}

/// Prints how it goes, and says who hangs.
fn watch(soak: &Soak, until: Instant) -> Result<(), String> {
    let begun = Instant::now();
    let mut seen: Vec<(u64, Instant)> = vec![(0, begun); THREADS + TASKS];
    let mut printed = begun;
    while Instant::now() < until {
        thread::sleep(Duration::from_millis(200));
        let patience = soak.bound() * 10 + Duration::from_secs(5);
        for (owner, last) in seen.iter_mut().enumerate() {
            let done = soak.done[owner].load(Ordering::Relaxed);
            if done != last.0 {
                *last = (done, Instant::now());
            } else if last.1.elapsed() > patience {
                return Err(format!("session {owner} made no progress for {patience:?}"));
            }
        }
        if printed.elapsed() > Duration::from_secs(2) {
            printed = Instant::now();
            let left = until.saturating_duration_since(printed).as_secs();
            let now = soak.admission.snapshot();
            eprintln!("{left:4} s left; longest wait {:?}; {}", soak.longest_wait(), now.line());
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let seconds = match std::env::var("SOAK_SECONDS").map(|text| text.parse::<u64>()) {
        Ok(Ok(seconds)) if seconds > 0 => seconds,
        Ok(_) => {
            eprintln!("soak: SOAK_SECONDS must be a number of seconds above 0");
            return ExitCode::from(2);
        }
        Err(_) => 600,
    };
    let admission = Admission::new(Config { tau: Some(TAU), ..Config::default() }).expect("it is allowed");
    let tenant = |weight| admission.tenant(weight).expect("it is allowed");
    let soak = Arc::new(Soak {
        tenants: vec![Tenant::default(), tenant(0.5), tenant(3.0)],
        over: AtomicBool::new(false),
        done: (0..THREADS + TASKS).map(|_| AtomicU64::new(0)).collect(),
        cancellers: (0..THREADS + TASKS).map(|_| Mutex::new(None)).collect(),
        longest_wait_ns: AtomicU64::new(0),
        longest_inside_ns: AtomicU64::new(0),
        longest_gap_ns: AtomicU64::new(0),
        refused: Default::default(),
        admission,
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("threads for the tasks");
    let tasks: Vec<_> =
        (THREADS..THREADS + TASKS).map(|owner| runtime.spawn(run_task(Arc::clone(&soak), owner))).collect();
    let mut outcome = thread::scope(|scope| {
        for owner in 0..THREADS {
            let soak = &soak;
            scope.spawn(move || run_thread(soak, owner));
        }
        scope.spawn(|| disturb(&soak));
        let outcome = watch(&soak, Instant::now() + Duration::from_secs(seconds));
        if let Err(why) = &outcome {
            // Those that hang would keep the scope open for ever.
            eprintln!("soak: {why}\n{}", soak.admission.snapshot());
            std::process::exit(1);
        }
        soak.over.store(true, Ordering::Relaxed);
        outcome
    });
    runtime.block_on(async {
        for task in tasks {
            task.await.expect("no task panics");
        }
    });
    let end = soak.admission.snapshot();
    let out = [end.inside, end.pending, end.queued, end.lock_waiters, end.disk_waits];
    if out != [0; 5] {
        outcome = Err(format!("T, P, Q, lock waiters, disk waits at the end: {out:?}, all must be 0"));
    } else if soak.longest_wait() > soak.bound() {
        outcome = Err(format!("somebody waited {:?}, more than {:?}", soak.longest_wait(), soak.bound()));
    }
    println!("{end}");
    let done: u64 = soak.done.iter().map(|done| done.load(Ordering::Relaxed)).sum();
    let [timeout, full, cancelled] = soak.refused.each_ref().map(|count| count.load(Ordering::Relaxed));
    println!("{done} statements; refused: {timeout} by timeout, {full} by a full queue, {cancelled} cancelled");
    println!("longest wait {:?}, bound {:?}", soak.longest_wait(), soak.bound());
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("soak: {why}");
            ExitCode::FAILURE
        }
    }
}
