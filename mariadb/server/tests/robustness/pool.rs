//! The same on a server whose connections share a pool of threads: its wait callbacks are the pool's, too.

use super::support::*;
use super::{admin, anticipation, kill, statements, storm};

pub(crate) fn subject() -> Subject {
    Subject {
        name: "pool",
        options: with_plugin()
            .set("thread-handling", "pool-of-threads")
            .set("innodb-lock-wait-timeout", 100)
            .set("lock-wait-timeout", 100),
        tests: [statements::tests(), kill::tests(), storm::tests(), anticipation::tests(), admin::tests()]
            .concat(),
    }
}
