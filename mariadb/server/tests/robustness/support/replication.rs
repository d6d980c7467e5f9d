//! A primary and a replica that follows it.

use super::rest::{is_current, until};
use super::{PrivateServer, Queryable, admin, populate};

/// Starts both, each with the options of its server id, and fills the primary. Returns when the replica has it all.
pub(crate) fn pair(options: impl Fn(u32) -> super::Options) -> (PrivateServer, PrivateServer) {
    let (primary, replica) =
        (PrivateServer::start(options(1)).unwrap(), PrivateServer::start(options(2)).unwrap());
    for statement in [
        "CREATE USER repl@'127.0.0.1' IDENTIFIED BY 'secret'",
        "GRANT REPLICATION SLAVE ON *.* TO repl@'127.0.0.1'",
    ] {
        admin(&primary).query_drop(statement).unwrap();
    }
    let follow = format!(
        "CHANGE MASTER TO master_host = '127.0.0.1', master_port = {}, master_user = 'repl',
         master_password = 'secret', master_use_gtid = slave_pos, master_connect_retry = 1",
        primary.port().unwrap()
    );
    for statement in [follow.as_str(), "START SLAVE"] {
        admin(&replica).query_drop(statement).unwrap();
    }
    populate(&primary);
    is_current(&replica);
    until_equal(&primary, &replica);
    (primary, replica)
}

/// Waits until the replica has what the primary has in the table.
pub(crate) fn until_equal(primary: &PrivateServer, replica: &PrivateServer) {
    let sum = |server: &PrivateServer| -> Option<i64> {
        admin(server).query_first("SELECT IFNULL(SUM(k), 0) + COUNT(*) FROM test.t").ok().flatten()
    };
    until("the replica has all", || sum(replica).is_some() && sum(replica) == sum(primary));
}
