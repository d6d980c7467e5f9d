//! The cost of a hand-off: a limit of one, and two threads that exit and enter again, so that each entry is a hand-off from
//! the other thread. `cargo bench -p flifo-admission --bench handoff`.
//!
//! | variant | what |
//! |---|---|
//! | `futex` | the minimum on Linux: a word for each thread; a thread sleeps on its own word and wakes the other thread if that sleeps |
//! | `fifo` | the scheduler in strict order: the same, and a count and a queue |
//!
//! On one CPU (`same`: the woken thread runs on the waker's CPU) and between two (`across`: an idle CPU has to be woken). An
//! iteration is a round trip: two hand-offs. Criterion measures the variants one after the other. The ratios at the end come
//! from interleaved blocks (A B B A), so that anything that slows the machine slows both variants: a round trip, and each
//! direction by itself, from before the exit to after the entry. With `-- --record` they are written to figures/handoff.json.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use flifo_admission::{Admission, Config, Policy, Session};
use flifo_record::criterion::{Recording, exit_code};
use flifo_record::statistics::median;
use flifo_record::{Key, Row, Wanted, format};
use rustix::thread::{CpuSet, futex, sched_getaffinity, sched_setaffinity};

/// How two threads hand the right to run to each other. Side 0 has it first.
trait Baton: Send {
    /// Waits for the right to run.
    fn take(&self);
    /// Hands the right to run to the other thread.
    fn give(&self);
    /// Hand-offs of both sides up to now; `None` if each `give` is one.
    fn handed_off(&self) -> Option<u64>;
}

const EMPTY: u32 = 0;
const SLEEPS: u32 = 1;
const GIVEN: u32 = 2;

/// The word of this side, and of the other one. Written with release, read with acquire.
struct Futex<'a> {
    own: &'a AtomicU32,
    other: &'a AtomicU32,
}

impl Baton for Futex<'_> {
    fn take(&self) {
        let _ = self.own.compare_exchange(EMPTY, SLEEPS, Ordering::Acquire, Ordering::Acquire);
        while self.own.load(Ordering::Acquire) != GIVEN {
            let _ = futex::wait(self.own, futex::Flags::PRIVATE, SLEEPS, None);
        }
        self.own.store(EMPTY, Ordering::Relaxed);
    }

    fn give(&self) {
        if self.other.swap(GIVEN, Ordering::Release) == SLEEPS {
            let _ = futex::wake(self.other, futex::Flags::PRIVATE, 1);
        }
    }

    fn handed_off(&self) -> Option<u64> {
        None
    }
}

struct Fifo(Session);

impl Baton for Fifo {
    fn take(&self) {
        self.0.enter().expect("no deadline, no queue limit, and nobody cancels");
    }

    fn give(&self) {
        self.0.exit();
    }

    fn handed_off(&self) -> Option<u64> {
        Some(self.0.admission().snapshot().handed_off)
    }
}

/// The times of a block of round trips.
#[derive(Clone, Copy)]
struct Block {
    /// A round trip: two hand-offs.
    trip_ns: f64,
    /// A hand-off from side 0 to side 1, and one back.
    ways_ns: [f64; 2],
}

/// When a side handed off, for the other side to read; 0 if that has read it.
#[derive(Default)]
struct LetGo(AtomicU64);

impl LetGo {
    fn now(&self, epoch: Instant) {
        self.0.store(epoch.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    /// Whether the other side has not read it yet: it is about to wait.
    fn is_unread(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Time since then, ns, and 1; both 0 if this entry was no hand-off.
    fn since(&self, epoch: Instant) -> (u64, u64) {
        match self.0.swap(0, Ordering::Relaxed) {
            0 => (0, 0),
            at_ns => ((epoch.elapsed().as_nanos() as u64).saturating_sub(at_ns), 1),
        }
    }
}

/// Whether a side is about to wait. The other side exits only then: otherwise it would find nobody to hand off to, and come back
/// at once, again and again until its time on the CPU is over.
#[derive(Default)]
struct Asks(AtomicBool);

impl Asks {
    fn now(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Waits until the side is about to wait, unless it has not read the last hand-off yet.
    fn wait(&self, let_go: &LetGo) {
        while !let_go.is_unread() && !self.0.swap(false, Ordering::Acquire) {
            thread::yield_now();
        }
    }
}

/// Runs `trips` round trips between two threads on these CPUs.
fn run<B: Baton>(sides: [B; 2], cpus: [usize; 2], trips: u64) -> Block {
    let [first, second] = sides;
    let (is_over, epoch) = (AtomicBool::new(false), Instant::now());
    let let_go: [LetGo; 2] = Default::default();
    let asks: [Asks; 2] = Default::default();
    let mean = |(ns, count): (u64, u64)| ns as f64 / count.max(1) as f64;
    thread::scope(|scope| {
        let (is_over, let_go, asks) = (&is_over, &let_go, &asks);
        let other = scope.spawn(move || {
            pin(cpus[1]);
            let mut way = (0, 0);
            loop {
                asks[1].now();
                second.take();
                let (ns, count) = let_go[0].since(epoch);
                way = (way.0 + ns, way.1 + count);
                if is_over.load(Ordering::Relaxed) {
                    second.give();
                    return way;
                }
                asks[0].wait(&let_go[1]);
                let_go[1].now(epoch);
                second.give();
            }
        });
        pin(cpus[0]);
        let mut way = (0, 0);
        let trip = |way: &mut (u64, u64)| {
            asks[1].wait(&let_go[0]);
            let_go[0].now(epoch);
            first.give();
            asks[0].now();
            first.take();
            let (ns, count) = let_go[1].since(epoch);
            *way = (way.0 + ns, way.1 + count);
        };
        // The first trips wait for the other side to start.
        (0..100).for_each(|_| trip(&mut (0, 0)));
        let (begun, handed) = (Instant::now(), first.handed_off());
        (0..trips).for_each(|_| trip(&mut way));
        let elapsed_ns = begun.elapsed().as_nanos() as f64;
        // Some nanoseconds lie between being about to wait and waiting: an exit in between is no hand-off.
        let handed = first.handed_off().zip(handed).map_or(2 * trips, |(after, before)| after - before);
        asks[1].wait(&let_go[0]);
        is_over.store(true, Ordering::Relaxed);
        first.give();
        let there = other.join().expect("it does not panic");
        Block { trip_ns: 2.0 * elapsed_ns / handed.max(1) as f64, ways_ns: [mean(there), mean(way)] }
    })
}

fn futex_trips(cpus: [usize; 2], trips: u64) -> Block {
    let words = [AtomicU32::new(EMPTY), AtomicU32::new(EMPTY)];
    let side = |own: usize| Futex { own: &words[own], other: &words[1 - own] };
    run([side(0), side(1)], cpus, trips)
}

fn fifo_trips(cpus: [usize; 2], trips: u64) -> Block {
    let config = Config { policy: Policy::Fifo, thread_concurrency: 1, ..Config::default() };
    let admission = Admission::new(config).expect("a valid configuration");
    let first = Fifo(admission.session());
    first.take();
    run([first, Fifo(admission.session())], cpus, trips)
}

/// Pins the calling thread. Where that is not allowed, the thread runs on any CPU.
fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    let _ = sched_setaffinity(None, &set);
}

/// The CPUs that this process may use.
fn cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect()
}

type Trips = fn([usize; 2], u64) -> Block;
const VARIANTS: [(&str, Trips); 2] = [("futex", futex_trips), ("fifo", fifo_trips)];

fn criterion(pairs: &[(&str, [usize; 2])], recording: Option<&Recording>) {
    let mut criterion = match recording {
        Some(recording) => Criterion::default().output_directory(recording.folder()),
        None => Criterion::default().configure_from_args(),
    };
    let mut group = criterion.benchmark_group("handoff");
    group.sample_size(20).measurement_time(Duration::from_secs(2));
    for &(where_run, cpus) in pairs {
        for (variant, trips) in VARIANTS {
            group.bench_function(BenchmarkId::new(variant, where_run), |b| {
                b.iter_custom(|n| Duration::from_nanos((trips(cpus, n).trip_ns * n as f64) as u64));
            });
        }
    }
    group.finish();
    criterion.final_summary();
}

/// Runs interleaved blocks, A B B A, prints the ratios of neighbours, and returns them.
fn ratios(pairs: &[(&str, [usize; 2])]) -> Vec<Row> {
    const PAIRS: usize = 20;
    const TRIPS: u64 = 500;
    println!(
        "\nfifo / futex, {PAIRS} pairs of {TRIPS} round trips, interleaved: median (95% interval), medians in ns"
    );
    let mut rows = Vec::new();
    for &(where_run, cpus) in pairs {
        let pair = |number: usize| {
            if number.is_multiple_of(2) {
                (futex_trips(cpus, TRIPS), fifo_trips(cpus, TRIPS))
            } else {
                let fifo = fifo_trips(cpus, TRIPS);
                (futex_trips(cpus, TRIPS), fifo)
            }
        };
        let blocks: Vec<(Block, Block)> = (0..PAIRS).map(pair).collect();
        type Figure = fn(&Block) -> f64;
        let figures: [(&str, Figure); 3] =
            [("round trip", |b| b.trip_ns), ("there", |b| b.ways_ns[0]), ("back", |b| b.ways_ns[1])];
        for (name, figure) in figures {
            let ratio = blocks.iter().map(|(futex, fifo)| figure(fifo) / figure(futex));
            let row = key(where_run, name).paired(ratio).expect("there are blocks");
            let futex_ns = median(blocks.iter().map(|(futex, _)| figure(futex))).unwrap_or(0.0);
            let fifo_ns = median(blocks.iter().map(|(_, fifo)| figure(fifo))).unwrap_or(0.0);
            let ratio = format::figure(&row);
            println!("  {where_run:<7} {name:<11} {ratio:<23} fifo {fifo_ns:.0}, futex {futex_ns:.0}");
            rows.push(row);
        }
    }
    rows
}

/// The key of a ratio in the record; the round trip is the headline.
fn key(where_run: &str, name: &str) -> Key {
    let workload = if where_run == "across" { "hand-off to another CPU" } else { "hand-off on the same CPU" };
    let figure = if name == "round trip" { "" } else { name };
    Key::of(workload).figure(figure).variant("fifo").relative_to("futex")
}

fn main() -> ExitCode {
    exit_code(measure())
}

fn measure() -> flifo_record::Result<()> {
    let recording =
        Recording::from_args("handoff", "cargo bench -p flifo-admission --bench handoff -- --record")?;
    let cpus = cpus();
    let first = cpus.first().copied().unwrap_or(0);
    let mut pairs = vec![("same", [first, first])];
    if let Some(&second) = cpus.get(1) {
        pairs.push(("across", [first, second]));
    }
    criterion(&pairs, recording.as_ref());
    // `cargo test --benches` runs the above once; the ratios take some seconds.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let rows = if is_bench { ratios(&pairs) } else { Vec::new() };
    let Some(recording) = recording else { return Ok(()) };
    recording.finish(|record| {
        record.rows.extend(rows);
        for where_run in ["across", "same"] {
            record.want(key(where_run, "round trip"), Wanted::AtMost(1.1));
        }
    })
}
