//! The plugin on a real MySQL server.
//!
//! The tests run one after the other. All but the last two share one server, in which no statement holds a slot or waits for one after
//! each test.
//!
//! Without a server they are skipped and say so; `FLIFO_REQUIRE_MYSQL=1` makes that a failure.

mod admission;
mod holders;
mod inside;
mod install;
mod kill;
mod pool;
mod settings;
mod support;
mod waits;

use std::process::ExitCode;
use std::sync::Arc;

use flifo_mysql::{Installation, PrivateServer};
use libtest_mimic::{Arguments, Trial};

use support::{Test, populate, rest};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let tests: Vec<Test> = [
        admission::TESTS,
        holders::TESTS,
        inside::TESTS,
        settings::TESTS,
        kill::TESTS,
        waits::TESTS,
        install::TESTS,
    ]
    .concat();
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
    if arguments.list {
        let names = tests.iter().map(|&(name, _)| name).chain([pool::NAME, pool::AT_START]);
        let trials = names.map(|name| Trial::test(name, || Ok(()))).collect();
        return libtest_mimic::run(&arguments, trials).exit_code();
    }
    let server = match PrivateServer::start(&installation, &[]) {
        Ok(server) => Arc::new(server),
        Err(error) => {
            eprintln!("flifo-mysql: {error}");
            return ExitCode::FAILURE;
        }
    };
    populate(&server);
    let shared = tests.iter().map(|&(name, test)| {
        let server = Arc::clone(&server);
        Trial::test(name, move || {
            support::ensure_plugin(&server);
            test(&server);
            rest(&server);
            Ok(())
        })
    });
    let installed = installation.clone();
    let alone = [
        Trial::test(pool::NAME, move || {
            pool::runs_over_a_pool_of_threads(&installation);
            Ok(())
        }),
        Trial::test(pool::AT_START, move || {
            pool::is_loaded_with_the_server(&installed);
            Ok(())
        }),
    ];
    let conclusion = libtest_mimic::run(&arguments, shared.chain(alone).collect());
    let Some(mut server) = Arc::into_inner(server) else { return ExitCode::FAILURE };
    if !server.shutdown() {
        eprintln!("flifo-mysql: the server did not end cleanly:\n{}", server.error_log());
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}
