//! Samples the machine's counters during a cell.
//!
//! Protocol: [`Sampler::start`] takes a first reading and starts one thread that takes another every second.
//! [`Sampler::finish`] stops it at once and takes the last reading, so that a cell shorter than a second has figures
//! too. Totals are differences between the first and the last reading, with the rows in between. Call `finish` **before
//! the client threads end**: their CPU time is read from `/proc/self/task`, and a thread that has ended is no longer
//! there. (Its last reading is then used.) If the load ends by itself, call [`Sampler::sample_run_queue`] before that, for the run
//! queue.
//!
//! Cost: two small files and one per client thread each second. Client threads are a handful.
//!
//! Failure: an unreadable counter makes its figures `None`; it never fails a cell.

mod machine;
mod reading;

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) use machine::existing;
pub use machine::machine;

use crate::results::{HostFigures, Samples, Second};
pub(crate) use reading::thread_ns;
use reading::{Reading, Stat};
pub use reading::{Switches, process_ns};

/// Time between samples, as vmstat's usual `1`.
const INTERVAL: Duration = Duration::from_secs(1);

/// Whose CPU time counts as the server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// This process's, without its client threads.
    RestOfThisProcess,
    /// Another process's, if it is known.
    Process(Option<u32>),
}

/// A running sampler. Dropped without [`Sampler::finish`], its thread ends by itself.
pub struct Sampler {
    stop: mpsc::Sender<()>,
    /// `None` if the machine would not give a thread: then there are totals, but no rows between.
    thread: Option<JoinHandle<Vec<Reading>>>,
    first: Reading,
    server: Server,
    client_tids: Vec<u32>,
    run_queue: Option<RunQueue>,
}

/// The run queue at one moment.
#[derive(Debug, Clone, Copy)]
struct RunQueue {
    at: Instant,
    running: u32,
}

impl Sampler {
    /// Takes the first reading and starts the thread. `client_tids` are the kernel's thread ids
    /// (`rustix::thread::gettid`) of this process's client threads; `server` says whose CPU time is the server's.
    pub fn start(server: Server, client_tids: Vec<u32>) -> Self {
        let (stop, stopped) = mpsc::channel();
        let first = Reading::now(server, &client_tids, None);
        let mut readings = vec![first.clone()];
        let tids = client_tids.clone();
        let thread = std::thread::Builder::new()
            .name("sampler".into())
            .stack_size(64 << 10)
            .spawn(move || {
                let mut next = Instant::now() + INTERVAL;
                while stopped.recv_timeout(next.saturating_duration_since(Instant::now()))
                    == Err(RecvTimeoutError::Timeout)
                {
                    let reading = Reading::now(server, &tids, readings.last());
                    readings.push(reading);
                    next += INTERVAL;
                }
                readings
            })
            .ok();
        Sampler { stop, thread, first, server, client_tids, run_queue: None }
    }

    /// Takes the last sample of the run queue, for a load that ends by itself: call it shortly before the end. Later
    /// samples would see an idle machine.
    pub fn sample_run_queue(&mut self) {
        self.run_queue = Stat::now().map(|stat| RunQueue { at: Instant::now(), running: stat.running });
    }

    /// Stops and computes the totals. Call it while the client threads still live.
    pub fn finish(self) -> Samples {
        // Fails only without a thread, and then there is nothing to stop.
        let _ = self.stop.send(());
        let rows = self.thread.and_then(|thread| thread.join().ok());
        let mut readings = rows.unwrap_or_else(|| vec![self.first]);
        readings.push(Reading::now(self.server, &self.client_tids, readings.last()));
        summarise(&readings, self.run_queue)
    }
}

fn summarise(readings: &[Reading], run_queue: Option<RunQueue>) -> Samples {
    let (Some(first), Some(last)) = (readings.first(), readings.last()) else {
        return Samples::default();
    };
    let mut seconds: Vec<Second> =
        readings.windows(2).map(|pair| second(first, &pair[0], &pair[1])).collect();
    if let Some(sample_run_queue) = run_queue {
        let ends = readings.iter().skip(1).map(|reading| reading.at);
        let mut late = seconds.iter_mut().zip(ends).filter(|(_, end)| *end > sample_run_queue.at);
        if let Some((second, _)) = late.next() {
            second.run_queue = Some(sample_run_queue.running);
        }
        late.for_each(|(second, _)| second.run_queue = None);
    }
    let whole = second(first, first, last);
    // The reading at the start saw the machine before the load: its run queue is left out.
    let queue: Vec<u32> = seconds.iter().filter_map(|second| second.run_queue).collect();
    let mean = queue.iter().map(|&n| f64::from(n)).sum::<f64>() / queue.len() as f64;
    let totals = HostFigures {
        context_switches_per_s: whole.context_switches_per_s,
        cpu_user: whole.cpu_user,
        cpu_system: whole.cpu_system,
        cpu_idle: whole.cpu_idle,
        cpu_iowait: whole.cpu_iowait,
        cpu_steal: whole.cpu_steal,
        cpu_server: whole.cpu_server,
        cpu_client: whole.cpu_client,
        run_queue: (!queue.is_empty()).then_some(mean),
        run_queue_max: queue.iter().max().copied(),
    };
    Samples { seconds, totals }
}

/// What happened between two readings.
fn second(start: &Reading, from: &Reading, to: &Reading) -> Second {
    let elapsed_s = to.at.saturating_duration_since(from.at).as_secs_f64();
    let mut second = Second {
        at_s: to.at.saturating_duration_since(start.at).as_secs_f64(),
        run_queue: to.stat.as_ref().map(|stat| stat.running),
        ..Second::default()
    };
    let (Some(before), Some(after)) = (&from.stat, &to.stat) else {
        return second;
    };
    let ticks = after.ticks().saturating_sub(before.ticks());
    // The kernel lets idle and iowait step back a little at times: a difference below 0 is 0.
    let percent =
        |from: u64, to: u64| (ticks > 0).then(|| 100.0 * to.saturating_sub(from) as f64 / ticks as f64);
    second.cpu_user = percent(before.user, after.user);
    second.cpu_system = percent(before.system, after.system);
    second.cpu_idle = percent(before.idle, after.idle);
    second.cpu_iowait = percent(before.iowait, after.iowait);
    second.cpu_steal = percent(before.steal, after.steal);
    if elapsed_s > 0.0 {
        let switches = after.context_switches.saturating_sub(before.context_switches);
        second.context_switches_per_s = Some(switches as f64 / elapsed_s);
        let share = |ns: u64| 100.0 * ns as f64 / (elapsed_s * 1e9 * f64::from(after.processors));
        let pairs = from.client_ns.iter().zip(&to.client_ns);
        let client_ns: u64 = pairs.map(|(before, after)| after.saturating_sub(*before)).sum();
        second.cpu_client = Some(share(client_ns));
        let server_ns = from.server_ns.zip(to.server_ns).map(|(before, after)| after.saturating_sub(before));
        second.cpu_server = server_ns.map(share);
    }
    second
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(start: Instant, at_s: f64, factor: u64, running: u32) -> Reading {
        let stat = Stat {
            user: 60 * factor,
            system: 20 * factor,
            idle: 100 * factor,
            iowait: 16 * factor,
            steal: 4 * factor,
            context_switches: 5000 * factor,
            running,
            processors: 2,
        };
        Reading {
            at: start + Duration::from_secs_f64(at_s),
            stat: Some(stat),
            server_ns: Some(1_000_000_000 * factor),
            client_ns: vec![200_000_000 * factor, 300_000_000 * factor],
        }
    }

    #[test]
    fn two_seconds_by_hand() {
        let start = Instant::now();
        let samples = summarise(
            &[reading(start, 0.0, 0, 90), reading(start, 1.0, 1, 4), reading(start, 2.0, 2, 8)],
            None,
        );
        assert_eq!(samples.seconds.len(), 2);
        let row = &samples.seconds[1];
        // 200 ticks a second on 2 CPUs; the server ran 1 s of 2, the clients half a second.
        assert_eq!((row.at_s, row.context_switches_per_s), (2.0, Some(5000.0)));
        assert_eq!((row.cpu_user, row.cpu_system, row.cpu_idle), (Some(30.0), Some(10.0), Some(50.0)));
        assert_eq!((row.cpu_iowait, row.cpu_steal), (Some(8.0), Some(2.0)));
        assert_eq!((row.cpu_server, row.cpu_client), (Some(50.0), Some(25.0)));
        assert_eq!(samples.totals.context_switches_per_s, Some(5000.0));
        assert_eq!((samples.totals.run_queue, samples.totals.run_queue_max), (Some(6.0), Some(8)));
    }

    #[test]
    fn the_run_queue_is_that_of_the_load() {
        let start = Instant::now();
        let run_queue = |at_s, running| Some(RunQueue { at: start + Duration::from_secs_f64(at_s), running });
        let queues = |readings: &[Reading], run_queue| {
            let samples = summarise(readings, run_queue);
            let rows: Vec<_> = samples.seconds.iter().map(|second| second.run_queue).collect();
            (rows, samples.totals.run_queue, samples.totals.run_queue_max)
        };
        // Shorter than a second: nothing was sampled between.
        let short = [reading(start, 0.0, 0, 90), reading(start, 0.4, 1, 1)];
        assert_eq!(queues(&short, run_queue(0.38, 7)), (vec![Some(7)], Some(7.0), Some(7)));
        // The sample of the last second came when the load had ended, and so did that of the rest.
        let long = [
            reading(start, 0.0, 0, 90),
            reading(start, 1.0, 1, 5),
            reading(start, 2.001, 2, 1),
            reading(start, 2.002, 3, 1),
        ];
        assert_eq!(queues(&long, run_queue(1.98, 9)), (vec![Some(5), Some(9), None], Some(7.0), Some(9)));
        assert_eq!(queues(&long, None).2, Some(5));
    }

    #[test]
    fn counters_that_cannot_be_read_are_none_not_zero() {
        let start = Instant::now();
        let mut blind = reading(start, 1.0, 1, 4);
        blind.stat = None;
        let samples = summarise(&[reading(start, 0.0, 0, 1), blind], None);
        assert_eq!(samples.totals, HostFigures::default());
    }

    #[test]
    fn the_client_is_told_from_the_server() {
        let (send_tid, tid) = mpsc::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        let client = std::thread::spawn(move || {
            send_tid.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            let mut sum = 0u64;
            while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
                sum = std::hint::black_box(sum.wrapping_add(1));
            }
        });
        let sampler = Sampler::start(Server::RestOfThisProcess, vec![tid.recv().unwrap()]);
        std::thread::sleep(Duration::from_millis(80));
        let samples = sampler.finish();
        drop(stop);
        client.join().unwrap();
        assert_eq!(samples.seconds.len(), 1, "a cell shorter than a second has one row");
        let totals = samples.totals;
        assert!(totals.cpu_client.unwrap() > 0.0, "{totals:?}");
        assert!(totals.context_switches_per_s.unwrap() > 0.0, "{totals:?}");
    }
}
