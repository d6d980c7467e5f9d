//! `flifo iobench`: what the storage under a database can really do.

pub mod advise;
pub mod blocklayer;
mod charts;
mod conclusion;
#[doc(hidden)]
pub mod fixture;
mod page;
pub mod results;
pub mod storage;
pub(crate) mod view;

pub use page::html;
