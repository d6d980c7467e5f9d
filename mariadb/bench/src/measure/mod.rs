//! What is read of a server while it is under load, and the figures that come of it.

mod figures;
mod reading;
mod usage;

pub(crate) use figures::Edge;
pub use figures::Figures;
pub(crate) use reading::Reading;
pub(crate) use usage::Usage;
