//! Small helpers that flifo's crates share.
//!
//! - [`lock`], [`read`], [`write`](fn@write), [`try_lock`], [`try_read`] and [`unpoison`]: locks that ignore poisoning.
//! - [`CacheAligned`]: a value on cache lines of its own.
//! - [`cpu_count`] and [`current_cpu`]: how many CPUs there are, and which one runs this thread.
#![warn(missing_docs)]

mod cache;
mod cpu;
mod lock;

pub use cache::CacheAligned;
pub use cpu::{cpu_count, current_cpu};
pub use lock::{lock, read, try_lock, try_read, unpoison, unpoison_try, write};
