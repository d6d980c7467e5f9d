//! All connections of one number of threads, and the event loops that drive them.

use std::thread;

use flifo_base::cpu_count;

use super::client::{Counts, EventLoop, Job, Opened};
use super::connect;
use super::endpoint::Endpoint;
use super::statement::Sql;
use crate::measure::frontend::WindowCounters;
use crate::measure::thread_group::ThreadGroup;
use crate::support::error::Error;
use crate::support::interrupt;

/// Maximum number of event loops by default.
const THREADS_MAX: usize = 16;
/// Stack of an event loop.
const STACK_BYTES: usize = 256 << 10;

/// The default number of event loops for the clients on this machine.
///
/// One per two CPUs: a client costs a fifth to a tenth of a statement's cost at the server. On two CPUs two, so that a
/// client's thread and the server's threads that it wakes are on one CPU more often, which costs less in total.
pub(crate) fn threads_default() -> usize {
    let cpus = cpu_count();
    if cpus == 1 { 1 } else { (cpus / 2).clamp(2, THREADS_MAX) }
}

/// Descriptors of that many connections.
pub(crate) fn descriptors(connections: u32, threads: usize) -> u64 {
    u64::from(connections) + threads as u64
}

/// The connections of one number of threads.
pub(crate) struct Clients {
    group: ThreadGroup<Job, Counts>,
}

impl Clients {
    /// Opens `connections` connections, each with its statements prepared.
    pub(crate) fn open(
        endpoint: &Endpoint,
        connections: u32,
        requested: &[Sql],
        threads: usize,
    ) -> Result<Self, Error> {
        let threads = threads.min(connections as usize);
        let share = |place: usize| -> Result<Vec<Opened>, Error> {
            (place as u32..connections)
                .step_by(threads)
                .map(|number| open(endpoint, number, requested))
                .collect()
        };
        let share = &share;
        // The server makes a thread for each: with two at it, it takes half the time.
        let shares: Vec<Result<Vec<Opened>, Error>> = thread::scope(|scope| {
            let openers: Vec<_> = (0..threads).map(|place| scope.spawn(move || share(place))).collect();
            openers
                .into_iter()
                .map(|opener| {
                    opener.join().unwrap_or_else(|_| Err(Error::Panicked("opening connections".into())))
                })
                .collect()
        });
        let loops = shares
            .into_iter()
            .map(|share| share.and_then(EventLoop::new))
            .collect::<Result<Vec<_>, Error>>()?;
        Ok(Clients { group: ThreadGroup::start_threads("client", STACK_BYTES, loops)? })
    }

    /// Kernel ids of the event loops.
    pub(crate) fn tids(&self) -> &[u32] {
        self.group.tids()
    }

    /// Starts a cell.
    pub(crate) fn begin(&self, job: &Job) {
        self.group.send(job);
    }

    /// Waits until the cell's last reply is in; the counts of all.
    pub(crate) fn finish(&mut self) -> Result<Counts, Error> {
        let all = self.group.collect()?;
        let mut sum = Counts { counters: WindowCounters::new(0), refusals: Default::default() };
        for counts in all {
            sum.counters.add(counts.counters);
            sum.refusals.add(&counts.refusals);
        }
        Ok(sum)
    }
}

/// Every report has come: no thread hangs.
impl Drop for Clients {
    fn drop(&mut self) {
        self.group.close();
    }
}

fn open(endpoint: &Endpoint, number: u32, requested: &[Sql]) -> Result<Opened, Error> {
    if interrupt::is_requested() {
        return Err(Error::Interrupted);
    }
    let mut session = connect::open(endpoint)?;
    let prepared = connect::prepare(endpoint, &mut session, requested)?;
    let id = session.greeting.connection;
    let (socket, channel) = session.into_parts();
    Ok(Opened { number, id, socket, channel, prepared })
}
