//! What the tests have in common.

pub(crate) mod blocked;
pub(crate) mod clients;
pub(crate) mod random;
pub(crate) mod replication;
pub(crate) mod rest;
pub(crate) mod stage;
pub(crate) mod syncs;

pub(crate) use blocked::{Blocked, Fifo, until_blocked};
pub(crate) use clients::*;
pub(crate) use flifo_mariadb::mysql::prelude::Queryable;
pub(crate) use flifo_mariadb::mysql::{self, Conn};
pub(crate) use flifo_mariadb::wire;
pub(crate) use flifo_mariadb::{Ended, Options, Plugin, PrivateServer};
pub(crate) use stage::{Alone, Subject, Test, times};
