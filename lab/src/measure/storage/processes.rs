//! Workers as processes.
//!
//! This program is started once more for each worker, with the hidden command `iobench-worker`, in a process group of
//! its own (Ctrl-C of a terminal is for the parent). A process is kept from round to round. Protocol, a line of JSON
//! each: the parent sends a [`Job`]; the process opens its files and answers [`Answer::Ready`]; the parent sends a
//! [`Window`]; the process answers with its counters. It ends with its standard input, and the kernel kills it when the
//! parent's main thread ends in any way.

use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::AtomicBool;

use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::counters::IoCounters;
use super::job::{Failed, Job, Window};
use super::worker::Worker;
use super::workers::{Workers, sum};
use crate::support::error::Error;

/// What a process says.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Ready,
    Done(Box<IoCounters>),
    Failed(Failed),
}

/// Processes that have nothing to do.
#[derive(Default)]
pub(crate) struct Pool {
    idle: Vec<Process>,
}

struct Process {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// The processes of a round, which go back to the pool at its end.
struct Processes<'p> {
    pool: &'p mut Pool,
    members: Vec<Process>,
    is_stopped: bool,
}

impl Pool {
    /// A process for each job.
    pub(crate) fn start(&mut self, jobs: &[Job]) -> Result<Box<dyn Workers + '_>, Error> {
        while self.idle.len() < jobs.len() {
            let process = Process::start().map_err(|source| Error::System {
                what: format!("cannot start another process after {}", self.idle.len()),
                source,
                advice: "use a smaller --concurrency, or --as threads",
            })?;
            self.idle.push(process);
        }
        let mut members = self.idle.split_off(self.idle.len() - jobs.len());
        // All get their jobs before the first answer is read: they open their files in parallel.
        let sent: Vec<_> = members.iter_mut().zip(jobs).map(|(process, job)| process.send(job)).collect();
        let ready: Vec<_> = members.iter_mut().map(Process::is_ready).collect();
        // After a failure the others would wait for a window that never comes: they end here.
        match sent.into_iter().chain(ready).find_map(Result::err) {
            None => Ok(Box::new(Processes { pool: self, members, is_stopped: false })),
            Some(Failed(why)) => Err(Error::Cell(why)),
        }
    }
}

impl Process {
    fn start() -> std::io::Result<Self> {
        let mut child = Command::new("/proc/self/exe")
            .arg("iobench-worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let (orders, answers) = child.stdin.take().zip(child.stdout.take()).expect("both are piped");
        Ok(Process { child, orders, answers: BufReader::new(answers) })
    }

    fn send(&mut self, order: &impl Serialize) -> Result<(), Failed> {
        let mut line = serde_json::to_string(order).map_err(|error| Failed(error.to_string()))?;
        line.push('\n');
        self.orders.write_all(line.as_bytes()).map_err(|_| self.gone())
    }

    fn answer(&mut self) -> Result<Answer, Failed> {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(0) | Err(_) => Err(self.gone()),
            Ok(_) => serde_json::from_str(&line)
                .map_err(|error| Failed(format!("a worker process makes no sense ({error})"))),
        }
    }

    fn is_ready(&mut self) -> Result<(), Failed> {
        match self.answer()? {
            Answer::Failed(failed) => Err(failed),
            Answer::Ready | Answer::Done(_) => Ok(()),
        }
    }

    fn counters(&mut self) -> Result<IoCounters, Failed> {
        match self.answer()? {
            Answer::Done(counters) => Ok(*counters),
            Answer::Failed(failed) => Err(failed),
            Answer::Ready => Err(Failed("a worker process has lost its place".into())),
        }
    }

    fn gone(&mut self) -> Failed {
        let how = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        Failed(format!("a worker process ended by itself ({how})"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be in the middle of a round, and may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Workers for Processes<'_> {
    fn go(&mut self, window: Window) {
        for process in &mut self.members {
            // A dead process shows when its counters are read.
            let _ = process.send(&window);
        }
    }

    fn has_failed(&self) -> bool {
        false
    }

    fn stop(&mut self) {
        // All at once; each is waited for as it is dropped.
        for process in &mut self.members {
            let _ = process.child.kill();
        }
        self.members.clear();
        self.is_stopped = true;
    }

    fn finish(mut self: Box<Self>) -> Result<IoCounters, Failed> {
        if self.is_stopped {
            return Ok(IoCounters::new());
        }
        let counters = sum(self.members.iter_mut().map(Process::counters));
        if counters.is_ok() {
            let Processes { pool, members, .. } = &mut *self;
            pool.idle.append(members);
        }
        counters
    }
}

/// A process of `flifo iobench --as processes`: executes its orders until its input ends.
pub fn worker_process() {
    // The parent may be gone before this takes effect; then there is nothing to read either.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let never = AtomicBool::new(false);
    let mut orders = stdin().lock().lines();
    while let Some(Ok(line)) = orders.next() {
        let answer = match serde_json::from_str::<Job>(&line) {
            Ok(job) => work(job, &mut orders, &never),
            Err(error) => Some(Answer::Failed(Failed(format!("an order makes no sense ({error})")))),
        };
        if !answer.is_some_and(|answer| say(&answer)) {
            return;
        }
    }
}

/// One job; `None` if the parent is gone.
fn work(
    job: Job,
    orders: &mut impl Iterator<Item = std::io::Result<String>>,
    never: &AtomicBool,
) -> Option<Answer> {
    let worker = match Worker::open(job) {
        Ok(worker) => worker,
        Err(failed) => return Some(Answer::Failed(failed)),
    };
    if !say(&Answer::Ready) {
        return None;
    }
    let window: Window = serde_json::from_str(&orders.next()?.ok()?).ok()?;
    Some(match worker.run(window, never) {
        Ok(counters) => Answer::Done(Box::new(counters)),
        Err(failed) => Answer::Failed(failed),
    })
}

/// Sends an answer; returns whether the parent is still there.
fn say(answer: &Answer) -> bool {
    let Ok(mut line) = serde_json::to_string(answer) else { return false };
    line.push('\n');
    let mut out = stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_ok()
}
