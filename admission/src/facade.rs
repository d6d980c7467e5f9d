//! The face for threads.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::{Config, ConfigError, WaitKind};

/// A scheduler; shared by all sessions that compete for the same processors.
pub struct Admission {
    config: Config,
}

/// One connection's handle. It belongs to one thread at a time (`Send`, not `Sync`).
pub struct Session {
    _admission: Arc<Admission>,
    _not_sync: PhantomData<Cell<()>>,
}

/// A place inside; leaves when dropped.
pub struct Place<'a> {
    session: &'a Session,
}

impl Admission {
    /// A scheduler with this configuration.
    pub fn new(config: Config) -> Result<Arc<Self>, ConfigError> {
        config.check()?;
        Ok(Arc::new(Admission { config }))
    }

    /// What it was told.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// A handle for one connection.
    pub fn session(self: &Arc<Self>) -> Session {
        Session { _admission: Arc::clone(self), _not_sync: PhantomData }
    }
}

impl Session {
    /// Enters: takes a ticket if it has one, else asks for a place and queues until it gets one.
    /// Called again for every engine entry (row) while inside.
    #[inline]
    pub fn enter(&self) {}

    /// Gives up the place, if it has one (statement end, before a reply).
    #[inline]
    pub fn exit(&self) {}

    /// Enters, and leaves when the returned guard is dropped.
    pub fn place(&self) -> Place<'_> {
        self.enter();
        Place { session: self }
    }

    /// Gives up the place for a wait, if the mask has its kind. Nests.
    pub fn wait_begin(&self, _kind: WaitKind) {}

    /// Ends a wait: forces its way back in with one ticket, never blocks.
    pub fn wait_end(&self, _kind: WaitKind) {}
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.session.exit();
    }
}
