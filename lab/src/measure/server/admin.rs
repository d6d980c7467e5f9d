//! The connection that changes the limits (the plugin's, InnoDB's own) and reads the server's counters.
//!
//! Settings change between cells, while no statement of a load is in progress, and are restored at the end, after
//! Ctrl-C and after an error. (The second Ctrl-C ends the process at once, and restores nothing.) Only one sweep at a
//! time uses a server: it holds a named lock as long as this connection lives.

use super::connect;
use super::counters::{self, Facts, Reading};
use super::endpoint::Endpoint;
use super::session::{Session, quoted};
use super::wire::{ServerError, WireError};
use crate::measure::setting::{Limiter, Setting};
use crate::support::error::Error;
use crate::support::progress::Progress;

const ACCESS_DENIED: u16 = 1227;
const LOCK: &str = "flifo sweep";
/// The plugin's own bound.
const CONCURRENCY_MAX: u32 = 1023;
const POLICY: &str = "flifo_policy";
const CONCURRENCY: &str = "flifo_thread_concurrency";
/// InnoDB's own limit, and its bound.
const INNODB: &str = "innodb_thread_concurrency";
const INNODB_MAX: u32 = 1000;

/// Administration of one server.
pub(crate) struct Admin {
    endpoint: Endpoint,
    session: Session,
    pub(crate) facts: Facts,
    /// The variables that were changed: as they were, as they are.
    changed: Vec<Changed>,
}

/// A variable of the server that was changed.
struct Changed {
    name: &'static str,
    before: String,
    now: String,
}

impl Admin {
    /// Connects, reads the server's variables, and takes the lock.
    pub(crate) fn open(endpoint: &Endpoint) -> Result<Self, Error> {
        let mut session = connect::administer(endpoint)?;
        let explain = |error| connect::explain(endpoint, error);
        take_lock(&mut session, endpoint)?;
        let facts = counters::facts(&mut session, &endpoint.address.place).map_err(explain)?;
        Ok(Admin { endpoint: endpoint.clone(), session, facts, changed: Vec::new() })
    }

    /// Whether it is the server of `other`.
    pub(crate) fn is_server_of(&mut self, other: &mut Session) -> Result<bool, Error> {
        let identity = |session: &mut Session| session.query("SELECT @@hostname, @@port, @@datadir");
        let both = identity(&mut self.session).and_then(|own| Ok((own, identity(other)?)));
        both.map(|(own, other)| own == other).map_err(|error| connect::explain(&self.endpoint, error))
    }

    /// Whether the plugin is installed.
    pub(crate) fn has_plugin(&self) -> bool {
        self.facts.variable(POLICY).is_some()
    }

    /// Says no to settings that the server cannot have, before anything is measured.
    pub(crate) fn check(&self, settings: &[Setting]) -> Result<(), Error> {
        for setting in settings {
            let (limiter, concurrency) = (setting.limiter, setting.concurrency);
            if limiter.is_flifo() && !self.has_plugin() {
                return Err(Error::Target(format!(
                    "policy {limiter} needs flifo's plugin in the server: {}; or measure the server as it is with --policy none",
                    self.install_statement()
                )));
            }
            if limiter == Limiter::Innodb && self.facts.variable(INNODB).is_none() {
                return Err(Error::Target(format!(
                    "policy innodb needs a server with {INNODB}, which this one has not (MySQL has it): leave it out"
                )));
            }
            let (most, whose) = if limiter == Limiter::Innodb {
                (INNODB_MAX, "InnoDB's")
            } else {
                (CONCURRENCY_MAX, "the plugin's")
            };
            if concurrency > most {
                return Err(Error::Usage(format!(
                    "{whose} limit is at most {most}; use a smaller --concurrency"
                )));
            }
        }
        Ok(())
    }

    fn install_statement(&self) -> &'static str {
        if self.facts.version.contains("MariaDB") {
            "INSTALL SONAME 'flifo'"
        } else {
            "INSTALL PLUGIN flifo SONAME 'flifo.so'"
        }
    }

    /// The value that is in force.
    fn value_now(&self, name: &str) -> Option<&str> {
        let changed = self.changed.iter().find(|changed| changed.name == name);
        changed.map(|changed| changed.now.as_str()).or_else(|| self.facts.variable(name))
    }

    /// The values that a setting needs. InnoDB's own limit stays as it was, except in cells of policy innodb.
    fn values_of(&self, setting: &Setting) -> Vec<(&'static str, String)> {
        let mut values = Vec::new();
        if self.has_plugin() {
            if setting.limiter.is_flifo() {
                values.push((POLICY, setting.limiter.name().to_owned()));
            }
            // A limit of 0 admits every statement; their order does not matter.
            let limit = match setting.limiter {
                limiter if !limiter.is_flifo() => "0".into(),
                _ if setting.is_adaptive() => "auto".into(),
                _ => setting.concurrency.to_string(),
            };
            values.push((CONCURRENCY, limit));
        }
        if setting.limiter == Limiter::Innodb {
            values.push((INNODB, setting.concurrency.to_string()));
        } else if let Some(before) = self.facts.variable(INNODB) {
            values.push((INNODB, before.to_owned()));
        }
        values
    }

    /// Puts a setting in force.
    pub(crate) fn apply(&mut self, setting: &Setting) -> Result<(), Error> {
        let mut values = self.values_of(setting);
        values.retain(|(name, value)| self.value_now(name) != Some(value));
        if values.is_empty() {
            return Ok(());
        }
        // Noted first: if the connection is lost, the server may have set them.
        let known = self.changed.len();
        for (name, _) in &values {
            if !self.changed.iter().any(|changed| changed.name == *name)
                && let Some(before) = self.facts.variable(name)
            {
                let before = before.to_owned();
                self.changed.push(Changed { name, now: before.clone(), before });
            }
        }
        self.set(&values).map_err(|failed| {
            // The server looks at all values before it sets the first.
            if matches!(failed, Failed::Wire(WireError::Server(_))) {
                self.changed.truncate(known);
            }
            self.explain_set(failed)
        })?;
        for (name, value) in values {
            if let Some(changed) = self.changed.iter_mut().find(|changed| changed.name == name) {
                changed.now = value;
            }
        }
        Ok(())
    }

    fn set(&mut self, values: &[(&str, String)]) -> Result<(), Failed> {
        let values: Vec<String> =
            values.iter().map(|(name, value)| format!("GLOBAL {name}={}", literal(name, value))).collect();
        let sql = format!("SET {}", values.join(", "));
        self.patiently(|session| session.query(&sql).map(drop))
    }

    fn explain_set(&self, failed: Failed) -> Error {
        match failed {
            Failed::Wire(WireError::Server(ServerError { code: ACCESS_DENIED, text })) => {
                Error::Target(format!(
                    "user '{}' may not change the server's settings: {text} ({ACCESS_DENIED}); name an account that may with --admin-target",
                    self.endpoint.address.user
                ))
            }
            failed => failed.explain(&self.endpoint),
        }
    }

    /// Reads the server's counters.
    pub(crate) fn read(&mut self, client_tids: &[u32]) -> Result<Reading, Error> {
        let pid = self.facts.pid;
        let reading = self.patiently(|session| Reading::now(session, pid, client_tids));
        reading.map_err(|error| error.explain(&self.endpoint))
    }

    /// Asks again on a new connection if the old one is gone: a session may be killed, or outlive its
    /// `wait_timeout`. All that is asked may be asked twice.
    fn patiently<T>(&mut self, ask: impl Fn(&mut Session) -> Result<T, WireError>) -> Result<T, Failed> {
        match ask(&mut self.session) {
            Err(WireError::Closed | WireError::Io(_) | WireError::Silence(_)) => {
                self.session = connect::administer(&self.endpoint).map_err(Failed::Told)?;
                // The server may still hold it for the session that is gone; the settings matter more.
                let _ = take_lock(&mut self.session, &self.endpoint);
                ask(&mut self.session).map_err(Failed::Wire)
            }
            result => result.map_err(Failed::Wire),
        }
    }

    /// Restores the changed settings.
    pub(crate) fn restore(&mut self) -> Result<(), Error> {
        if self.changed.is_empty() {
            return Ok(());
        }
        let changed = std::mem::take(&mut self.changed);
        let values: Vec<(&str, String)> =
            changed.iter().map(|changed| (changed.name, changed.before.clone())).collect();
        self.set(&values).map_err(|failed| {
            let error = self.explain_set(failed);
            let reason: Vec<String> =
                values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            Error::Target(format!(
                "the server's settings could not be put back ({}): {error}",
                reason.join(", ")
            ))
        })
    }
}

/// Restores the settings after an error, so that no server stays changed.
impl Drop for Admin {
    fn drop(&mut self) {
        if let Err(error) = self.restore() {
            Progress::new().note(&error.to_string());
        }
        self.session.say_goodbye();
    }
}

enum Failed {
    Wire(WireError),
    Told(Error),
}

impl Failed {
    fn explain(self, endpoint: &Endpoint) -> Error {
        match self {
            Failed::Wire(error) => connect::explain(endpoint, error),
            Failed::Told(error) => error,
        }
    }
}

/// A value as SET takes it: of the plugin's as a text, of InnoDB's limit as a number.
fn literal(name: &str, value: &str) -> String {
    if name == INNODB { value.to_owned() } else { quoted(value) }
}

fn take_lock(session: &mut Session, endpoint: &Endpoint) -> Result<(), Error> {
    let taken = session.value(&format!("SELECT GET_LOCK({}, 5)", quoted(LOCK)));
    match taken.map_err(|error| connect::explain(endpoint, error))?.as_deref() {
        Some("1") => Ok(()),
        _ => Err(Error::Target(
            "another flifo sweep runs on this server: wait for it (its connection holds the lock 'flifo sweep')".into(),
        )),
    }
}

/// Whether the account's statements bypass the plugin, according to its grants.
pub(crate) fn bypasses_admission(session: &mut Session) -> Result<bool, WireError> {
    let grants = session.query("SHOW GRANTS")?;
    let all = |grant: &String| {
        const ALL: [&str; 5] =
            ["ALL PRIVILEGES", "CONNECTION ADMIN", "CONNECTION_ADMIN", "SUPER", "REPLICATION SLAVE"];
        let grant = grant.to_ascii_uppercase();
        let privileges = grant.split_once(" ON *.*").map_or("", |(privileges, _)| privileges);
        privileges.trim_start_matches("GRANT ").split(',').any(|name| ALL.contains(&name.trim()))
    };
    Ok(grants.iter().flatten().flatten().any(all))
}
