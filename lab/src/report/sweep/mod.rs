//! The report of a sweep or a bench.
//!
//! | module | holds |
//! |---|---|
//! | `analysis` | panels and curves out of cells, ratios of paired rounds |
//! | `text`, `tables` | lines while cells finish, and tables at the end |
//! | `page`, `charts`, `lines`, `picture` | the page with its charts; the picture |
//! | `conclusion`, `published` | conclusions in sentences; the comparison with the published curve |
//! | `changes`, `kinds`, `server`, `others` | sections of workloads that write, of several kinds of transactions, of a live server, of CPU time that other programs took |
//! | `bench` | the scheduler's policies compared with common alternatives |
//! | `show` | all of them as one report |

pub mod analysis;
mod bench;
mod changes;
mod charts;
mod conclusion;
#[doc(hidden)]
pub mod fixture;
mod kinds;
mod lines;
mod others;
mod page;
mod picture;
mod published;
mod server;
mod show;
mod tables;
mod text;

pub use bench::text::{entry_heading, entry_line};
pub use page::html;
pub use text::{cell_heading, cell_line};
