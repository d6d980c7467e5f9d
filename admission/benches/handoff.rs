//! What a hand-off costs: a limit of one and two threads that leave and ask again, so that each entry is the
//! other's gift. `cargo bench -p flifo-admission --bench handoff`.
//!
//! | | |
//! |---|---|
//! | `futex` | the least that Linux can do: a word per thread, a sleep on one's own, a wake-up for the other's if it sleeps |
//! | `fifo` | the scheduler, strictly in order: the same, and a count and a queue |
//!
//! On one processor (`same`: the woken thread takes the waker's) and between two (`across`: an idle one has to
//! be woken). An iteration is a round trip, two hand-offs. Criterion's figures come one after the other; the
//! ratios at the end come from blocks by turns (A B B A), so that what slows the machine slows both: a round
//! trip, and each direction by itself, from before the leaving to after the entering.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};
use flifo_admission::{Admission, Config, Policy, Session};
use rustix::thread::{CpuSet, futex, sched_getaffinity, sched_setaffinity};

/// Two threads' way to hand the right to run to each other. Side 0 begins with it.
trait Baton: Send {
    /// Waits for it.
    fn take(&self);
    /// Gives it to the other.
    fn give(&self);
    /// Hand-offs so far, of both sides; `None` if every giving is one.
    fn handed(&self) -> Option<u64>;
}

const EMPTY: u32 = 0;
const SLEEPS: u32 = 1;
const GIVEN: u32 = 2;

/// A side's own word, and the other's. Given with release, taken with acquire.
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

    fn handed(&self) -> Option<u64> {
        None
    }
}

struct Fifo(Session);

impl Baton for Fifo {
    fn take(&self) {
        self.0.enter().expect("no deadline, no bound on the queue, and nobody cancels");
    }

    fn give(&self) {
        self.0.exit();
    }

    fn handed(&self) -> Option<u64> {
        Some(self.0.admission().snapshot().handed_off)
    }
}

/// What a block of round trips took.
#[derive(Clone, Copy)]
struct Block {
    /// A round trip: two hand-offs.
    trip_ns: f64,
    /// From side 0 to side 1, and back.
    ways_ns: [f64; 2],
}

/// When a side let go, for the other to look at; 0 if it was looked at.
#[derive(Default)]
struct LetGo(AtomicU64);

impl LetGo {
    fn now(&self, epoch: Instant) {
        self.0.store(epoch.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    /// Whether the other has not got it: it had not begun to wait, and is still about to.
    fn missed(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Time since then, and 1; twice 0 if this entry was nobody's gift.
    fn since(&self, epoch: Instant) -> (u64, u64) {
        match self.0.swap(0, Ordering::Relaxed) {
            0 => (0, 0),
            at_ns => ((epoch.elapsed().as_nanos() as u64).saturating_sub(at_ns), 1),
        }
    }
}

/// That a side is about to ask: the other leaves only then, or it would find nobody to hand to and come back
/// at once, again and again until its time on the processor is over.
#[derive(Default)]
struct Asks(AtomicBool);

impl Asks {
    fn now(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Waits for that, unless it is so still.
    fn wait(&self, let_go: &LetGo) {
        while !let_go.missed() && !self.0.swap(false, Ordering::Acquire) {
            thread::yield_now();
        }
    }
}

/// So many round trips between two threads on these processors.
fn run<B: Baton>(sides: [B; 2], processors: [usize; 2], trips: u64) -> Block {
    let [first, second] = sides;
    let (is_over, epoch) = (AtomicBool::new(false), Instant::now());
    let let_go: [LetGo; 2] = Default::default();
    let asks: [Asks; 2] = Default::default();
    let mean = |(ns, count): (u64, u64)| ns as f64 / count.max(1) as f64;
    thread::scope(|scope| {
        let (is_over, let_go, asks) = (&is_over, &let_go, &asks);
        let other = scope.spawn(move || {
            pin(processors[1]);
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
        pin(processors[0]);
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
        // The other side has to come first.
        (0..100).for_each(|_| trip(&mut (0, 0)));
        let (begun, handed) = (Instant::now(), first.handed());
        (0..trips).for_each(|_| trip(&mut way));
        let elapsed_ns = begun.elapsed().as_nanos() as f64;
        // Between being about to ask and asking lie some nanoseconds: what falls there is no hand-off.
        let handed = first.handed().zip(handed).map_or(2 * trips, |(after, before)| after - before);
        asks[1].wait(&let_go[0]);
        is_over.store(true, Ordering::Relaxed);
        first.give();
        let there = other.join().expect("it does not panic");
        Block { trip_ns: 2.0 * elapsed_ns / handed.max(1) as f64, ways_ns: [mean(there), mean(way)] }
    })
}

fn futex_trips(processors: [usize; 2], trips: u64) -> Block {
    let words = [AtomicU32::new(EMPTY), AtomicU32::new(EMPTY)];
    let side = |own: usize| Futex { own: &words[own], other: &words[1 - own] };
    run([side(0), side(1)], processors, trips)
}

fn fifo_trips(processors: [usize; 2], trips: u64) -> Block {
    let config = Config { policy: Policy::Fifo, thread_concurrency: 1, ..Config::default() };
    let admission = Admission::new(config).expect("a valid configuration");
    let first = Fifo(admission.session());
    first.take();
    run([first, Fifo(admission.session())], processors, trips)
}

/// Pins the calling thread; where that is not allowed, the figures are of wherever it runs.
fn pin(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor);
    let _ = sched_setaffinity(None, &set);
}

/// The processors this process may use.
fn processors() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).collect()
}

type Trips = fn([usize; 2], u64) -> Block;
const KINDS: [(&str, Trips); 2] = [("futex", futex_trips), ("fifo", fifo_trips)];

fn criterion(places: &[(&str, [usize; 2])]) {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("handoff");
    group.sample_size(20).measurement_time(Duration::from_secs(2));
    for &(place, processors) in places {
        for (kind, trips) in KINDS {
            group.bench_function(BenchmarkId::new(kind, place), |b| {
                b.iter_custom(|n| Duration::from_nanos((trips(processors, n).trip_ns * n as f64) as u64));
            });
        }
    }
    group.finish();
    criterion.final_summary();
}

/// Blocks by turns, A B B A, and the ratios of neighbours.
fn ratios(places: &[(&str, [usize; 2])]) {
    const PAIRS: usize = 20;
    const TRIPS: u64 = 500;
    println!(
        "\nfifo / futex, {PAIRS} pairs of {TRIPS} round trips by turns: median (middle half), medians in ns"
    );
    for &(place, processors) in places {
        let pair = |number: usize| {
            if number.is_multiple_of(2) {
                (futex_trips(processors, TRIPS), fifo_trips(processors, TRIPS))
            } else {
                let fifo = fifo_trips(processors, TRIPS);
                (futex_trips(processors, TRIPS), fifo)
            }
        };
        let pairs: Vec<(Block, Block)> = (0..PAIRS).map(pair).collect();
        type Figure = fn(&Block) -> f64;
        let figures: [(&str, Figure); 3] =
            [("round trip", |b| b.trip_ns), ("there", |b| b.ways_ns[0]), ("back", |b| b.ways_ns[1])];
        for (name, figure) in figures {
            let ratio = quartiles(pairs.iter().map(|(futex, fifo)| figure(fifo) / figure(futex)).collect());
            let [_, futex_ns, _] = quartiles(pairs.iter().map(|(futex, _)| figure(futex)).collect());
            let [_, fifo_ns, _] = quartiles(pairs.iter().map(|(_, fifo)| figure(fifo)).collect());
            println!(
                "  {place:<7} {name:<11} {:.2} ({:.2} to {:.2})   fifo {fifo_ns:.0}, futex {futex_ns:.0}",
                ratio[1], ratio[0], ratio[2]
            );
        }
    }
}

fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

fn main() {
    let processors = processors();
    let first = processors.first().copied().unwrap_or(0);
    let mut places = vec![("same", [first, first])];
    if let Some(&second) = processors.get(1) {
        places.push(("across", [first, second]));
    }
    criterion(&places);
    // `cargo test --benches` runs the above once; the ratios take some seconds.
    if std::env::args().any(|argument| argument == "--bench") {
        ratios(&places);
    }
}
