//! The plugin on real servers: what no client may do to it.
//!
//! A subject has one server, which its tests share; they run one after the other. After each test no statement holds
//! a slot or waits for one, the server answers, and its error log is in order (`support::rest`).
//!
//! `FLIFO_SHORT=1` runs fewer of everything that is repeated: for sanitizers, and for another release of the server.

mod support;

mod admin;
mod binary_log;
mod disk;
mod dormant;
mod install;
mod kill;
mod leaving;
mod locks;
mod pool;
mod replica;
mod reservation;
mod shutdown;
mod slices;
mod statements;
mod storm;
mod unreported;
mod urgent;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let subjects = [
        statements::subject(),
        kill::subject(),
        storm::subject(),
        reservation::subject(),
        slices::subject(),
        locks::subject(),
        disk::subject(),
        dormant::subject(),
        unreported::subject(),
        unreported::pool(),
        binary_log::subject(),
        binary_log::pool(),
        install::subject(),
        install::pool(),
        admin::subject(),
        urgent::subject(),
        admin::extra_port(),
        pool::subject(),
    ];
    support::stage::play(&arguments, subjects, [shutdown::alone(), replica::alone(), leaving::alone()])
}
