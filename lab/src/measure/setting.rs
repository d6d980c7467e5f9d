//! The scheduler's setting under which a cell is measured.

use flifo_admission::Policy;

/// A variant: one curve of the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The admission policy.
    pub policy: Policy,
    /// The limit; 0 under policy none, and for an adaptive one.
    pub concurrency: u32,
    /// A read from disk releases the slot.
    pub leave_on_read: bool,
}

impl Setting {
    /// Whether the limit is adaptive.
    pub fn is_adaptive(&self) -> bool {
        self.policy != Policy::None && self.concurrency == 0
    }

    /// The name in results: of an adaptive limit `auto`, as under the default policy, or `auto-fifo`.
    pub fn policy_name(&self) -> String {
        match self.policy {
            Policy::Quantum if self.is_adaptive() => "auto".into(),
            policy if self.is_adaptive() => format!("auto-{policy}"),
            policy => policy.name().into(),
        }
    }
}
