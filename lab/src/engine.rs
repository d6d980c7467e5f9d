//! STAND-IN until the engine stands: same face, rows made on the fly.
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use flifo_admission::{Admission, Place};

use crate::workload::row;

type Result<T> = std::result::Result<T, flifo_engine::Error>;

#[derive(Clone)]
pub struct Database;
#[derive(Clone)]
pub struct Tree;
pub struct Session(flifo_admission::Session);
pub struct Statement<'a>(&'a Session, #[allow(dead_code)] Place<'a>);

impl Database {
    pub fn create(_dir: impl AsRef<Path>) -> Result<Self> {
        Ok(Database)
    }
    pub fn session(&self, admission: &Arc<Admission>) -> Session {
        Session(admission.session())
    }
}
fn spin() {
    static US: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    let us = *US.get_or_init(|| std::env::var("SPIN_US").map_or(1, |v| v.parse().unwrap()));
    let end = crate::clock::now_ns() + us * 1000;
    while crate::clock::now_ns() < end {}
}
impl Session {
    pub fn statement(&self) -> Statement<'_> {
        Statement(self, self.0.place())
    }
}
impl Statement<'_> {
    pub fn get(&self, _tree: &Tree, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let _ = (self.0, key);
        spin();
        value.clear();
        value.extend_from_slice(&row::value(1, 1, 2_000_000));
        Ok(true)
    }
    pub fn scan(
        &self,
        _tree: &Tree,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let id = |b: Bound<&[u8]>| match b {
            Bound::Included(k) => u32::from_be_bytes(k.try_into().unwrap()),
            _ => unreachable!(),
        };
        let v = row::value(1, 1, 2_000_000);
        for i in id(from)..=id(to) {
            if each(&row::key(i), &v).is_break() {
                break;
            }
        }
        Ok(())
    }
}
