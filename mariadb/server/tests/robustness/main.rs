//! The plugin on real servers: what no client may do to it.
//!
//! A subject has one server, which its tests share; they run one after the other. After each test nobody is inside
//! admission or waits for it, the server answers, and its error log is in order (`support::rest`).
//!
//! `FLIFO_SHORT=1` runs fewer of everything that is repeated: for sanitizers, and for another release of the server.

mod support;

mod admin;
mod anticipation;
mod binary_log;
mod disk;
mod install;
mod kill;
mod lending;
mod locks;
mod pool;
mod replica;
mod shutdown;
mod statements;
mod storm;
mod yields;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let subjects = [
        statements::subject(),
        kill::subject(),
        storm::subject(),
        anticipation::subject(),
        yields::subject(),
        locks::subject(),
        disk::subject(),
        lending::subject(),
        lending::pool(),
        binary_log::subject(),
        binary_log::pool(),
        install::subject(),
        install::pool(),
        admin::subject(),
        admin::extra_port(),
        pool::subject(),
    ];
    support::stage::play(&arguments, subjects, [shutdown::alone(), replica::alone()])
}
