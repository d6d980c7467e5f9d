//! Runs the subjects' tests, each subject on its server.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};

use super::{Ended, Options, PrivateServer, clients, rest};

/// No test takes nearly as long, even under a sanitizer on a busy machine.
const HANGS: Duration = Duration::from_secs(300);
const END: Duration = Duration::from_secs(120);

/// A test by name.
pub(crate) type Test = (&'static str, fn(&PrivateServer));

/// Tests that share a server.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) options: Options,
    pub(crate) tests: Vec<Test>,
}

/// Tests that start their own servers.
pub(crate) struct Alone {
    pub(crate) name: &'static str,
    pub(crate) tests: Vec<(&'static str, fn())>,
}

/// Whether fewer of everything is asked for.
pub(crate) fn short() -> bool {
    std::env::var_os("FLIFO_SHORT").is_some_and(|value| !value.is_empty() && value != "0")
}

/// This many, or a fifth of it.
pub(crate) fn times(whole: usize) -> usize {
    if short() { whole.div_ceil(5) } else { whole }
}

/// The server of the subject that is on.
#[derive(Default)]
struct Stage {
    on: Option<(&'static str, PrivateServer)>,
}

pub(crate) fn play(
    arguments: &Arguments,
    subjects: impl IntoIterator<Item = Subject>,
    alone: impl IntoIterator<Item = Alone>,
) -> ExitCode {
    let stage = Arc::new(Mutex::new(Stage::default()));
    let mut trials = Vec::new();
    for Subject { name, options, tests } in subjects {
        for (test, run) in tests {
            let (stage, options) = (stage.clone(), options.clone());
            trials.push(Trial::test(format!("{name}::{test}"), move || {
                stage.lock().unwrap().test(name, options, run)
            }));
        }
        let stage = stage.clone();
        trials.push(Trial::test(format!("{name}::ends_clean"), move || stage.lock().unwrap().end(name)));
    }
    for Alone { name, tests } in alone {
        for (test, run) in tests {
            trials.push(Trial::test(format!("{name}::{test}"), move || {
                let _watch = Watch::start();
                run();
                Ok(())
            }));
        }
    }
    let conclusion = libtest_mimic::run(arguments, trials);
    stage.lock().unwrap().on = None;
    conclusion.exit_code()
}

impl Stage {
    fn test(&mut self, name: &'static str, options: Options, run: fn(&PrivateServer)) -> Result<(), Failed> {
        let is_new = self.on.as_ref().is_none_or(|(on, _)| *on != name);
        if is_new {
            self.on = None;
            self.on = Some((name, PrivateServer::start(options)?));
        }
        let server = &self.on.as_ref().ok_or("no server")?.1;
        rest::is_current(server);
        let guard = Watch::start();
        let result = catch_unwind(AssertUnwindSafe(|| {
            if is_new {
                clients::populate(server);
            }
            clients::ensure_plugin(server);
            clients::defaults(server);
            run(server);
            rest::check(server);
        }));
        drop(guard);
        let Err(panic) = result else { return Ok(()) };
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a text");
        let failed = Failed::from(format!("{text}\n{}", rest::describe_log(&server.error_log())));
        // The next test gets a new one.
        self.on = None;
        Err(failed)
    }

    /// The subject's server ends by itself, and its log is in order to the end.
    fn end(&mut self, name: &str) -> Result<(), Failed> {
        let Some((on, mut server)) = self.on.take() else { return Ok(()) };
        if on != name {
            return Ok(());
        }
        let ended = server.shutdown(END);
        let log = server.error_log();
        let wrong = rest::wrong_lines(&log);
        match (ended, wrong.is_empty()) {
            (Ended::Itself(0), true) => Ok(()),
            _ => Err(format!("{ended:?}, and its log says:\n{}", wrong.join("\n")).into()),
        }
    }
}

/// Ends all when a test hangs, and says what hangs.
struct Watch {
    _over: mpsc::Sender<()>,
}

impl Watch {
    fn start() -> Watch {
        let (sender, over) = mpsc::channel();
        thread::spawn(move || {
            if over.recv_timeout(HANGS) == Err(RecvTimeoutError::Timeout) {
                eprintln!("a test hangs; {}", rest::describe_current());
                // The server ends with this process.
                std::process::exit(1);
            }
        });
        Watch { _over: sender }
    }
}
