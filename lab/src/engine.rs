//! STAND-IN until the engine stands: same face, rows made on the fly.
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use flifo_admission::{Admission, Place};

use flifo_engine::EngineConfig;

use crate::workload::row;

type Result<T> = std::result::Result<T, flifo_engine::Error>;

#[derive(Clone)]
pub struct Database {
    dir: std::path::PathBuf,
    props: Arc<std::sync::Mutex<std::collections::BTreeMap<String, Vec<u8>>>>,
    fake: flifo_engine::metrics::WaitsSnapshot,
}
#[derive(Clone)]
pub struct Tree;
pub struct Session(flifo_admission::Session);
pub struct Statement<'a>(&'a Session, #[allow(dead_code)] Place<'a>);

impl Database {
    pub fn create(dir: impl AsRef<Path>, _c: EngineConfig) -> Result<Self> {
        DF.store(_c.data_files, std::sync::atomic::Ordering::Relaxed);
        std::fs::create_dir_all(dir.as_ref()).unwrap();
        Ok(Database {
            dir: dir.as_ref().into(),
            props: Default::default(),
            fake: flifo_engine::Waits::new().snapshot(),
        })
    }
    pub fn open(dir: impl AsRef<Path>, c: EngineConfig) -> Result<Self> {
        let db = Self::create(dir, c)?;
        let Ok(text) = std::fs::read_to_string(db.dir.join("props")) else {
            return Err(flifo_engine::Error::NotClosedCleanly { path: "x".into() });
        };
        for l in text.lines() {
            let (k, v) = l.split_once('=').unwrap();
            db.set_property(k, v)?;
        }
        Ok(db)
    }
    pub fn create_tree(&self, _n: &str) -> Result<Tree> {
        Ok(Tree)
    }
    pub fn tree(&self, _n: &str) -> Result<Tree> {
        Ok(Tree)
    }
    pub fn property(&self, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.props.lock().unwrap().get(name).cloned())
    }
    pub fn set_property(&self, name: &str, value: impl AsRef<[u8]>) -> Result<()> {
        self.props.lock().unwrap().insert(name.into(), value.as_ref().to_vec());
        Ok(())
    }
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        _t: &Tree,
        rows: impl IntoIterator<Item = (K, V)>,
        mut progress: impl FnMut(u64),
    ) -> Result<u64> {
        let mut n = 0;
        for _ in rows {
            n += 1;
            if n % 1000 == 0 {
                progress(n)
            }
        }
        Ok(n)
    }
    pub fn checkpoint(&self) -> Result<()> {
        let t: String = self
            .props
            .lock()
            .unwrap()
            .iter()
            .map(|(k, v)| format!("{k}={}\n", String::from_utf8_lossy(v)))
            .collect();
        std::fs::write(self.dir.join("props"), t).unwrap();
        Ok(())
    }
    pub fn close(&self) -> Result<()> {
        Ok(())
    }
    pub fn stats(&self) -> flifo_engine::EngineStats {
        // SAFETY: stand-in
        unsafe {
            let mut s: std::mem::MaybeUninit<flifo_engine::EngineStats> = std::mem::MaybeUninit::zeroed();
            std::ptr::addr_of_mut!((*s.as_mut_ptr()).waits).write(self.fake.clone());
            s.assume_init()
        }
    }
    pub fn session(&self, admission: &Arc<Admission>) -> Session {
        Session(admission.session())
    }
}
static V: std::sync::OnceLock<[u8; 184]> = std::sync::OnceLock::new();
static DF: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
fn spin() {
    static US: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    let us = *US.get_or_init(|| std::env::var("SPIN_US").map_or(0, |v| v.parse().unwrap()));
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
        value.extend_from_slice(V.get_or_init(|| row::value(1, 1, 1000)));
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
