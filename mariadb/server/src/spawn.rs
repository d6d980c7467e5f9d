//! Starting a process that ends with this one.
//!
//! The kernel can send a signal to a child when its parent *thread* ends. So one thread, which lives as long as
//! the process, starts all of them.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use rustix::process::{Resource, Signal, getrlimit, set_parent_process_death_signal, setrlimit};

type Order = (Command, Sender<io::Result<Child>>);

static ORDERS: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();

/// Starts a process that does not outlive this one. It is in a process group of its own, so that a terminal's Ctrl-C does not reach it.
pub fn spawn(mut command: Command) -> io::Result<Child> {
    command.process_group(0);
    // SAFETY: between fork and exec only one system call is made.
    unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?)) };
    let (reply, answer) = mpsc::channel();
    let orders = ORDERS.get_or_init(|| Mutex::new(start()));
    let sent = orders.lock().unwrap_or_else(PoisonError::into_inner).send((command, reply));
    sent.map_err(|_| io::Error::other("the starting thread is gone"))?;
    answer.recv().unwrap_or_else(|_| Err(io::Error::other("the starting thread is gone")))
}

fn start() -> Sender<Order> {
    let (sender, orders) = mpsc::channel::<Order>();
    thread::spawn(move || {
        for (mut command, reply) in orders {
            let _ = reply.send(command.spawn());
        }
    });
    sender
}

/// Thousands of connections need as many files, here and in the server, which inherits the limit.
pub fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        // Where it may not be raised the server says so in its log, and starts.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}
