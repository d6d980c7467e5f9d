//! Runs the tests: those of a subject one after the other on one server, which starts with the first of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use flifo_mysql::{Installation, PrivateServer};
use libtest_mimic::{Arguments, Failed, Trial};

use super::support::{Test, ensure_plugin, log_is_in_order, populate, rest};

/// No test takes nearly as long, even under a sanitizer on a busy machine.
const HANGS: Duration = Duration::from_secs(400);

/// Tests that share a server.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) arguments: &'static [&'static str],
    /// What is done on the new server before the plugin is installed.
    pub(crate) prepare: fn(&PrivateServer),
    pub(crate) tests: Vec<Test>,
}

/// A test by name.
pub(crate) type AloneTest = (&'static str, fn(&Installation));

/// Tests that start their own servers.
pub(crate) struct Alone {
    pub(crate) name: &'static str,
    pub(crate) tests: &'static [AloneTest],
}

/// The subject that is on, and its server.
type Stage = Arc<Mutex<Option<(&'static str, PrivateServer)>>>;

pub(crate) fn play(
    arguments: &Arguments,
    installation: &Installation,
    subjects: Vec<Subject>,
    alone: Vec<Alone>,
) -> ExitCode {
    let stage = Stage::default();
    let mut trials = Vec::new();
    for subject in subjects {
        let subject = Arc::new(subject);
        for (name, test) in subject.tests.clone() {
            let (stage, subject, installation) = (stage.clone(), Arc::clone(&subject), installation.clone());
            trials.push(Trial::test(format!("{}::{name}", subject.name), move || {
                run(&stage, &subject, &installation, test)
            }));
        }
        let stage = stage.clone();
        trials
            .push(Trial::test(format!("{}::ends_cleanly", subject.name), move || end(&stage, subject.name)));
    }
    for Alone { name, tests } in alone {
        for &(test, run) in tests {
            let installation = installation.clone();
            trials.push(Trial::test(format!("{name}::{test}"), move || {
                let _watch = Watch::start();
                run(&installation);
                Ok(())
            }));
        }
    }
    let conclusion = libtest_mimic::run(arguments, trials);
    // With a filter the last subject may be on.
    *stage.lock().unwrap_or_else(PoisonError::into_inner) = None;
    conclusion.exit_code()
}

fn run(
    stage: &Stage,
    subject: &Subject,
    installation: &Installation,
    test: fn(&PrivateServer),
) -> Result<(), Failed> {
    let mut on = stage.lock().unwrap_or_else(PoisonError::into_inner);
    if on.as_ref().is_none_or(|(name, _)| *name != subject.name) {
        *on = None;
        let server = PrivateServer::start(installation, subject.arguments)?;
        populate(&server);
        (subject.prepare)(&server);
        *on = Some((subject.name, server));
    }
    let Some((_, server)) = on.as_ref() else { return Err("no server".into()) };
    let watch = Watch::start();
    let result = catch_unwind(AssertUnwindSafe(|| {
        ensure_plugin(server);
        test(server);
        rest(server);
    }));
    drop(watch);
    let Err(panic) = result else { return Ok(()) };
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    let log = server.error_log();
    let lines: Vec<&str> = log.lines().collect();
    let last = lines[lines.len().saturating_sub(30)..].join("\n");
    // The next test gets a new one.
    *on = None;
    Err(format!("{}\nthe end of the server's log:\n{last}", text.unwrap_or("a panic without a text")).into())
}

/// The subject's server ends by itself, and its log is in order to the end.
fn end(stage: &Stage, name: &str) -> Result<(), Failed> {
    let mut on = stage.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((_, mut server)) = on.take_if(|(on, _)| *on == name) else { return Ok(()) };
    if !server.shutdown() {
        return Err(format!("the server did not end cleanly:\n{}", server.error_log()).into());
    }
    log_is_in_order(&server);
    Ok(())
}

/// Ends all when a test hangs.
struct Watch {
    _over: mpsc::Sender<()>,
}

impl Watch {
    fn start() -> Watch {
        let (sender, over) = mpsc::channel();
        thread::spawn(move || {
            if over.recv_timeout(HANGS) == Err(RecvTimeoutError::Timeout) {
                eprintln!("flifo-mysql: the test hangs");
                // The server ends with this process.
                std::process::exit(1);
            }
        });
        Watch { _over: sender }
    }
}
