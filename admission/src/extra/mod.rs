//! Optional mechanisms, each behind a Cargo feature and reached through [`crate::hooks`] alone. Deleting a file here and its hooks removes
//! the mechanism.

#[cfg(feature = "futex-hash")]
pub(crate) mod futex_hash;
#[cfg(feature = "percpu")]
pub(crate) mod percpu;
#[cfg(feature = "reservation")]
pub(crate) mod reservation;
