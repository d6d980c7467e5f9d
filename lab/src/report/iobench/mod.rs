//! The report of a run of `iobench`.
//!
//! | module | holds |
//! |---|---|
//! | `view` | curves and ratios out of cells |
//! | `text`, `charts`, `page` | tables; the page with its charts |
//! | `conclusion`, `advise` | conclusions in sentences; the settings that follow, with their figures |
//! | `linux_io_2012` | the comparison with a published study, for a run that repeats it |
//! | `show` | all of them as one report |

pub mod advise;
mod charts;
mod conclusion;
#[doc(hidden)]
pub mod fixture;
pub mod linux_io_2012;
mod page;
mod show;
pub(crate) mod text;
pub(crate) mod view;

pub use page::html;
pub use show::IoReport;
