//! The same on a server whose connections share a pool of threads: its wait callbacks are the pool's, too.

use super::support::*;
use super::{admin, kill, reservation, slices, statements, storm};

pub(crate) fn subject() -> Subject {
    Subject {
        name: "pool",
        options: in_a_pool(with_plugin()).set("innodb-lock-wait-timeout", 100).set("lock-wait-timeout", 100),
        tests: [
            statements::tests(),
            kill::tests(),
            storm::tests(),
            reservation::tests(),
            slices::tests(),
            admin::tests(),
        ]
        .concat(),
    }
}
