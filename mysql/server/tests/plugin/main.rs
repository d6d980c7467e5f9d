//! The plugin on a real MySQL server.
//!
//! The tests run one after the other. A subject has one server, which its tests share; after each test no statement holds a slot or waits
//! for one, an ordinary statement is admitted, and the error log is in order (`support::rest`).
//!
//! Without a server they are skipped and say so; `FLIFO_REQUIRE_MYSQL=1` makes that a failure. `FLIFO_SHORT=1` runs a fifth of what is
//! repeated, for sanitizers.

mod admission;
mod beside;
mod commands;
mod guide;
mod holders;
mod inside;
mod install;
mod kill;
mod pool;
mod replica;
mod settings;
mod shutdown;
mod stage;
mod start;
mod storm;
mod support;
mod urgent;
mod waits;
mod xprotocol;

use std::process::ExitCode;

use flifo_mysql::Installation;
use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let Some(installation) = Installation::find() else {
        let root = Installation::expected_root();
        eprintln!(
            "flifo-mysql: skipped, there is no MySQL server in {0}: run tools/mysql-root {0}",
            root.display()
        );
        return if std::env::var_os("FLIFO_REQUIRE_MYSQL").is_some() {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        };
    };
    let plain = stage::Subject {
        name: "plain",
        arguments: &["--local-infile=ON", "--mysqlx=ON", xprotocol::SOCKET_OPTION],
        prepare: |_| {},
        tests: [
            admission::TESTS,
            commands::TESTS,
            holders::TESTS,
            inside::TESTS,
            settings::TESTS,
            kill::TESTS,
            urgent::TESTS,
            waits::TESTS,
            xprotocol::TESTS,
            storm::TESTS,
            install::TESTS,
        ]
        .concat(),
    };
    let alone = vec![start::alone(), shutdown::alone(), replica::alone(), guide::alone()];
    stage::play(&arguments, &installation, vec![plain, beside::subject(), pool::subject()], alone)
}
