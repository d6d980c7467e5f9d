//! Time slices, for [`Policy::Quantum`](crate::Policy::Quantum): who keeps coming back, for how long, and who passes whom.
//!
//! Plain state machines and arithmetic: no module here knows sessions, queues or the gate.

pub(crate) mod barging;
pub(crate) mod fairness;
pub(crate) mod slice;
