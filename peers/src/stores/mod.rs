//! The stores, a file each.

mod fjall;
mod flifo;
mod lmdb;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod sled;
mod sqlite;
#[cfg(test)]
mod tests;

use crate::store::{Done, Driver, Fail};

/// flifo first: the others are compared with it.
pub(crate) const ALL: &[Driver] = &[
    flifo::DRIVER,
    redb::DRIVER,
    lmdb::DRIVER,
    fjall::DRIVER,
    #[cfg(feature = "rocksdb")]
    rocksdb::DRIVER,
    sqlite::DRIVER,
    sled::DRIVER,
];

/// What a store found, copied for its user; false if it found nothing.
fn copy(found: Option<impl AsRef<[u8]>>, value: &mut Vec<u8>) -> Done<bool> {
    value.clear();
    Ok(found.is_some_and(|found| {
        value.extend_from_slice(found.as_ref());
        true
    }))
}

/// What a store says of a change that must be possible.
fn happened(is_so: bool, id: u64) -> Done {
    if is_so {
        Ok(())
    } else {
        Err(Fail::Store(format!("row {id} could not be changed: it is there, or it is not")))
    }
}
