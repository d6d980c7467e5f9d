//! The setting under which a cell is measured: what limits the running statements, and to how many.

use std::fmt;
use std::str::FromStr;

use flifo_admission::Policy;

/// What limits the number of running statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limiter {
    /// flifo's scheduler under this policy; with [`Policy::None`] nobody.
    Flifo(Policy),
    /// A server's InnoDB, by `innodb_thread_concurrency`.
    Innodb,
}

/// The name of [`Limiter::Innodb`].
const INNODB: &str = "innodb";

impl Limiter {
    /// The name on a command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Limiter::Flifo(policy) => policy.name(),
            Limiter::Innodb => INNODB,
        }
    }

    /// Whether flifo's scheduler limits the statements.
    pub fn is_flifo(self) -> bool {
        matches!(self, Limiter::Flifo(policy) if policy != Policy::None)
    }

    /// The scheduler's policy.
    pub fn policy(self) -> Policy {
        match self {
            Limiter::Flifo(policy) => policy,
            Limiter::Innodb => Policy::None,
        }
    }
}

impl fmt::Display for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Limiter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == INNODB {
            return Ok(Limiter::Innodb);
        }
        let policy = text.parse::<Policy>();
        policy.map(Limiter::Flifo).map_err(|error| format!("{error}, or with --target {INNODB}"))
    }
}

/// A variant: one curve of the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// What limits.
    pub limiter: Limiter,
    /// The limit; 0 under policy none, and for an adaptive one.
    pub concurrency: u32,
    /// A read from disk releases the slot.
    pub leave_on_read: bool,
}

impl Setting {
    /// Whether the limit is adaptive.
    pub fn is_adaptive(&self) -> bool {
        self.limiter.is_flifo() && self.concurrency == 0
    }

    /// The name in results: of an adaptive limit `auto`, as under the default policy, or `auto-fifo`.
    pub fn policy_name(&self) -> String {
        match self.limiter {
            Limiter::Flifo(Policy::Quantum) if self.is_adaptive() => "auto".into(),
            limiter if self.is_adaptive() => format!("auto-{limiter}"),
            limiter => limiter.name().into(),
        }
    }
}
