//! What is read of a server while it is under load, and the figures that come of it.

mod figures;
mod procfs;
mod reading;

pub(crate) use figures::Edge;
pub use figures::Figures;
pub(crate) use procfs::Usage;
pub(crate) use reading::Reading;
